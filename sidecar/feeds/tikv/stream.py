"""One TiKV store's change feed: one stream (EventFeedV2, multiplexed), the regions subscribed in it, and the thread that reads it.

- A region comes back under the request id it was registered with. Regions of one wanted range share one, so that TiKV resolves
  them in one message; a region that is registered again in the same stream has another, so that what is still under way of its
  previous subscription is known as such and skipped.
- A subscription ends in this thread only, after everything of it is in the queue: the subscription that continues at its resolved ts,
  in whichever stream, comes behind it.
- `long_txn` and `admin` say nothing about rows. An event of a kind that is not known stops.

From tikv components/cdc/src/service.rs (the metadata is `features`; a version below 5.3.0 would switch the check of the cluster id
off, below 4.0.8 batched resolved marks, too), endpoint.rs, errors.rs; tiflow cdc/kv/shared_client.go.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from threading import Event, Lock
from typing import Any, NamedTuple

import grpc

from sidecar.feeds.tikv.queue import EventQueue, WantedRange
from sidecar.shared.errors import FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.process.background import Background
from sidecar.shared.rowcodec.key_values import KeyRange, Pulled
from sidecar.shared.rowcodec.kv_matcher import RegionMatcher
from sidecar.shared.tikv.channel import refusal, status_text
from sidecar.shared.tikv.pd import Store
from sidecar.shared.tikv.regions import Region, encoded
from ticdc_dump.tikv import cdcpb_pb2, cdcpb_pb2_grpc, kvrpcpb_pb2, metapb_pb2

METADATA = (("features", "stream-multiplexing"),)

CLIENT_VERSION = "8.5.0"
"""The TiCDC whose part we play, as a semantic version."""

_request_ids = itertools.count(1)


class RegionRequest:
    """One region, or a part of it, of one wanted range, registered in one stream."""

    __slots__ = ("matcher", "range", "region", "request_id", "wanted")

    def __init__(self, wanted: WantedRange, range: KeyRange, region: Region, checkpoint_ts: CommitTs) -> None:
        self.wanted = wanted
        self.range = range
        self.region = region
        self.request_id = 0
        self.matcher = RegionMatcher(region.id, range, checkpoint_ts)


class Ended(NamedTuple):
    """Subscriptions that have to be made again, from their matchers' resolved ts; `wait_s`: the store asks for this rest."""

    subscriptions: Sequence[RegionRequest]
    why: str
    wait_s: float = 0.0


class StoreStream:
    """`ended` and `failed` are called in the stream's own thread. `register` and `drop` are for one other."""

    def __init__(
        self,
        store: Store,
        channel: Any,
        *,
        cluster_id: int,
        queue: EventQueue,
        ended: Callable[[Ended], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.store = store
        self._channel = channel
        self._cluster_id = cluster_id
        self._queue = queue
        self._ended, self._failed = ended, failed
        self._lock = Lock()
        self.over = ""
        """Why it has ended; empty: it has not."""
        self._subscriptions: dict[tuple[int, int], RegionRequest] = {}
        self._registered: Counter[tuple[WantedRange, int]] = Counter()
        self._ids: dict[WantedRange, list[int]] = {}
        self._requests: SimpleQueue[Any] = SimpleQueue()
        stub = cdcpb_pb2_grpc.ChangeDataStub(channel)  # type: ignore[no-untyped-call]  # generated without types
        self._call = stub.EventFeedV2(iter(self._requests.get, None), metadata=METADATA)
        self._reading = Background(self._run, name=f"tikv-store-{store.id}")
        self.check = self._reading.check

    def subscriptions(self) -> Sequence[RegionRequest]:
        with self._lock:
            return list(self._subscriptions.values())

    def register(self, new: RegionRequest) -> bool:
        """False: the stream is over."""
        with self._lock:
            if self.over:
                return False
            new.request_id = self._request_id(new.wanted, new.region.id)
            self._subscriptions[new.request_id, new.region.id] = new
            self._requests.put(self._request(new))
            return True

    def drop(self, wanted: WantedRange) -> None:
        """End what belongs to `wanted`; reports it to nobody."""
        with self._lock:
            for request_id in self._ids.pop(wanted, []):
                request = cdcpb_pb2.ChangeDataRequest(header=self._header(), request_id=request_id)
                request.deregister.SetInParent()
                self._requests.put(request)
            self._subscriptions = {place: it for place, it in self._subscriptions.items() if it.wanted is not wanted}
            self._registered = Counter({place: count for place, count in self._registered.items() if place[0] is not wanted})

    def close(self, *, wait_s: float) -> None:
        self._call.cancel()
        self._reading.close(wait_s)

    # ---- requests ---------------------------------------------------------------------------------------------------

    def _request_id(self, wanted: WantedRange, region_id: int) -> int:
        """The n-th registration of any region takes the range's n-th id."""
        ids, earlier = self._ids.setdefault(wanted, []), self._registered[wanted, region_id]
        self._registered[wanted, region_id] += 1
        if earlier == len(ids):
            ids.append(next(_request_ids))
        return ids[earlier]

    def _header(self) -> Any:
        return cdcpb_pb2.Header(cluster_id=self._cluster_id, ticdc_version=CLIENT_VERSION)

    def _request(self, new: RegionRequest) -> Any:
        request = cdcpb_pb2.ChangeDataRequest(
            header=self._header(),
            region_id=new.region.id,
            region_epoch=metapb_pb2.RegionEpoch(conf_ver=new.region.conf_ver, version=new.region.version),
            checkpoint_ts=new.matcher.checkpoint_ts,
            start_key=encoded(new.range.start),
            end_key=encoded(new.range.end),
            request_id=new.request_id,
            extra_op=kvrpcpb_pb2.ReadOldValue,
            kv_api=cdcpb_pb2.ChangeDataRequest.TiDB,
            filter_loop=False,
        )
        request.register.SetInParent()
        return request

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _run(self, _: Event) -> None:
        why = "its stream ended"
        try:
            for message in self._call:
                self._take(message)
        except grpc.RpcError as error:
            why = status_text(error)
            if refused := refusal(error, f"TiKV store {self.store.id} ({self.store.address})"):
                self._failed(refused)
        except BaseException as error:  # noqa: BLE001  # handed to the thread that polls
            self._failed(error)
        self._requests.put(None)
        with self._lock:
            self.over = f"store {self.store.id} ({self.store.address}): {why}"
            left, self._subscriptions = list(self._subscriptions.values()), {}
        self._channel.close()
        self._ended(Ended(left, self.over))

    def _take(self, message: Any) -> None:
        for event in message.events:
            subscription = self._subscriptions.get((event.request_id, event.region_id))
            if subscription is None:
                continue
            match event.WhichOneof("event"):
                case "entries":
                    self._deliver(subscription, event.entries.entries)
                case "resolved_ts":
                    self._resolve([subscription], event.resolved_ts)
                case "error":
                    self._end(subscription, event.error)
                case "long_txn" | "admin":
                    pass
                case unknown:
                    raise MessageUnreadable(
                        f"store {self.store.id} sent an event of an unknown kind ({unknown}) for region {event.region_id}",
                        hint="upgrade ticdc-dump to a version that knows this TiKV",
                    )
        if message.HasField("resolved_ts"):
            mark = message.resolved_ts
            places = ((mark.request_id, region_id) for region_id in mark.regions)
            self._resolve((it for place in places if (it := self._subscriptions.get(place)) is not None), mark.ts)

    def _deliver(self, subscription: RegionRequest, rows: Any) -> None:
        entries = subscription.matcher.entries(rows)
        if entries:
            size = sum(len(entry.key) + len(entry.value) + len(entry.old) for entry in entries)
            self._queue.put(subscription.wanted, entries, size)

    def _resolve(self, subscriptions: Iterator[RegionRequest] | list[RegionRequest], ts: int) -> None:
        """Marks of one wanted range go together."""
        marks: dict[WantedRange, list[Pulled]] = {}
        for subscription in subscriptions:
            if subscription.matcher.resolve(CommitTs(ts)):
                marks.setdefault(subscription.wanted, []).append(Pulled(subscription.range, CommitTs(ts)))
        for wanted, pulled in marks.items():
            self._queue.put(wanted, pulled, 0)

    def _end(self, subscription: RegionRequest, error: Any) -> None:
        ended = _ended(subscription, error, self.store)
        with self._lock:
            self._subscriptions.pop((subscription.request_id, subscription.region.id), None)
        self._ended(ended)


def _ended(subscription: RegionRequest, error: Any, store: Store) -> Ended:
    """Raises FeedUnsuitable for what no other try can help."""
    names = [field.name for field, _ in error.ListFields()]
    kind = names[0] if names else "an error of an unknown kind"
    where = f"store {store.id} ({store.address}), region {subscription.region.id}"
    match kind:
        case "compatibility":
            raise FeedUnsuitable(
                f"{where}: needs {error.compatibility.required_version} for what we ask", hint="read a cluster of row tables, not of raw KV"
            )
        case "cluster_id_mismatch":
            id_mismatch = error.cluster_id_mismatch
            raise FeedUnsuitable(
                f"{where}: is of cluster {id_mismatch.current}, and PD of cluster {id_mismatch.request}",
                hint="set tikv.pd to the PD of this cluster; see whether the store's address belongs to another one",
            )
        case "server_is_busy":
            return Ended([subscription], f"{where}: {kind}: {error.server_is_busy.reason}", error.server_is_busy.backoff_ms / 1000)
        case _:
            return Ended([subscription], f"{where}: {kind}")
