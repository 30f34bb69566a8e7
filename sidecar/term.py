"""One term of ownership: from the lease that was won to the error, the loss or the end that closes it.

    definition -> schemas -> source, feed, log -> attach -> step, step, step …

- Everything that may write is made for this term's epoch and closed with it; nothing is carried over to the next one.
- Every write is fenced on its own (manifests by exclusive creation, marks by their optimistic lock, progress by the owner key);
  asking `held` before each step and each commit keeps a process that slept from even trying.
- What a retry can help ends the term, not the process: the next one begins where the log ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from threading import Event
from time import monotonic
from typing import Protocol

from sidecar import storage
from sidecar.adapters.segment_log import FolderLog, storage_errors, write_chunk
from sidecar.adapters.spill import FileSpill
from sidecar.codecs.contract import Codec
from sidecar.config import Config
from sidecar.core.dump import DumpLimits
from sidecar.core.manifest import Manifest
from sidecar.core.model import Change, Seq, TableName, TableSchema
from sidecar.errors import LogBroken, OwnershipLost
from sidecar.pipeline import Limits, Outside, Pipeline, attach
from sidecar.ports import Clock, DataFile, Deliveries, Feed, Ownership, ProgressStore, Requests, Schemas, Source
from sidecar.storage import Folder

IDENTITY_NAME = "changefeed.txt"
POLL_S = 0.2
"""While nothing is under way: it costs five steps a second. The broker's messages end the wait at once."""
POLL_BUSY_S = 0.01
"""While the source works: what it finished is heard of this soon."""
RETAIN_EVERY_S = 10.0


class LiveFeed(Feed, Protocol):
    """A feed with connections of its own."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Made:
    """What a term is made of, by whoever knows the drivers. `log_id` names changefeed and incarnation, for ever."""

    log_id: str
    changefeed_id: str
    codec: Codec
    schemas: Schemas
    feed: Callable[[], LiveFeed]
    source: Callable[[Callable[..., int]], Source]
    progress: ProgressStore
    requests: Requests
    deliveries: Deliveries
    ownership: Ownership
    clock: Clock
    through: Callable[[TableName], tuple[bool, str]] = lambda _: (True, "")


class MonotonicClock:
    def now_s(self) -> float:
        return monotonic()


class OwnedLog:
    """`SegmentLog` that writes only while the lease is held."""

    def __init__(self, log: FolderLog, ownership: Ownership) -> None:
        self._log, self._ownership = log, ownership

    def recover(self, *, epoch: int) -> Manifest | None:
        return self._log.recover(epoch=epoch)

    def write_data(self, seq: Seq, *, epoch: int, codec: str, changes: Iterable[Change]) -> DataFile:
        return self._log.write_data(seq, epoch=epoch, codec=codec, changes=changes)

    def write_schemas(self, schemas: Mapping[TableName, TableSchema]) -> str:
        return self._log.write_schemas(schemas)

    def read_schemas(self, name: str) -> dict[TableName, TableSchema]:
        return self._log.read_schemas(name)

    def commit(self, manifest: Manifest) -> None:
        check_held(self._ownership)
        self._log.commit(manifest)

    def retain(self, *, delivered: Seq, open_from: Seq | None) -> int:
        check_held(self._ownership)
        return self._log.retain(delivered=delivered, open_from=open_from)


class Term:
    """`epoch` was just granted. `pipeline` is there once `begin` has returned."""

    def __init__(self, made: Made, config: Config, *, epoch: int) -> None:
        self.made = made
        self.config = config
        self.epoch = epoch
        self.pipeline: Pipeline
        self._folder = storage.open_folder(config.log.uri)
        self._log = OwnedLog(FolderLog(self._folder), made.ownership)
        self._closers: list[Callable[[], object]] = []
        self._retain_due_s = 0.0
        self._told_before = made.deliveries.accepted()

    def begin(self) -> None:
        """Recover the log and attach to the feed. Raises what keeps it from doing so; `close` is due in any case."""
        made, config = self.made, self.config
        claim_log(self._folder, made.log_id)
        feed = made.feed()
        self._closers.append(feed.close)
        source = made.source(partial(write_chunk, self._folder))
        self._closers.append(source.close)
        outside = Outside(
            feed=feed,
            codec=made.codec,
            log=self._log,
            source=source,
            schemas=made.schemas,
            progress=made.progress,
            requests=made.requests,
            clock=made.clock,
            spill=FileSpill(config.log.spill_folder or None),
            deliveries=made.deliveries,
            through=made.through,
        )
        self.pipeline = attach(outside, changefeed_id=made.changefeed_id, epoch=self.epoch, limits=limits(config))

    def run(self, stopping: Event, seen: Callable[[Pipeline, float], None]) -> None:
        """Step until `stopping`; `seen(pipeline, now_s)` is called after each step. Raises what ends the term."""
        pipeline, clock = self.pipeline, self.made.clock
        while not stopping.is_set():
            check_held(self.made.ownership)
            try:
                pipeline.step(poll_s=POLL_BUSY_S if pipeline.source_busy() else POLL_S)
            except LogBroken as error:
                if self.made.ownership.held():
                    raise
                raise OwnershipLost(
                    f"another process owns the changefeed by now, and swept what this one was writing: {error}",
                    hint="nothing: it becomes a standby",
                ) from error
            now_s = clock.now_s()
            seen(pipeline, now_s)
            if self.config.log.retain and now_s >= self._retain_due_s:
                self._retain_due_s = now_s + (0.0 if self._retain() else RETAIN_EVERY_S)

    def close(self) -> None:
        """Free what this term holds; never raises for the sake of what ended it."""
        while self._closers:
            self._closers.pop()()

    def _retain(self) -> int:
        """Only by what was told in this term: what a former one left may be of other sinks than are served now (P4)."""
        delivered = self.made.deliveries.accepted()
        if delivered is None or delivered == self._told_before:
            return 0
        self._told_before = None
        return self._log.retain(delivered=delivered, open_from=self.pipeline.dump.oldest_open_seq())


def check_held(ownership: Ownership) -> None:
    """Raises OwnershipLost when the lease may have run out."""
    if not ownership.held():
        raise OwnershipLost(
            "the lease of this changefeed may have run out: this process may not write any more",
            hint="nothing: it becomes a standby; if it happens often, look at etcd's latency or raise etcd.lease_s",
        )


def claim_log(folder: Folder, log_id: str) -> None:
    """Mark the log as this changefeed's. Raises LogBroken for a folder that is another's."""
    with storage_errors(folder):
        if storage.create_exclusively(folder, IDENTITY_NAME, log_id.encode()):
            return
        found = storage.read_file(folder, IDENTITY_NAME).decode(errors="replace")
    if found != log_id:
        raise LogBroken(
            f"the log {folder} is of changefeed {found}, and this sidecar serves {log_id}",
            hint="set log.uri to a folder of its own for each changefeed; a changefeed that was removed and made again is a new one",
        )


def limits(config: Config) -> Limits:
    dump = config.dump
    return Limits(
        held_bytes_max=config.log.held_bytes_max,
        dump=DumpLimits(
            readers=dump.readers,
            window_chunks_max=dump.window_chunks_max,
            open_windows_max=dump.open_windows_max,
            chunk_bytes_max=dump.chunk_bytes_max,
        ),
    )
