"""A spool as the control service reads it: what a subscriber may begin with, a segment's deliveries, and what subscribers have.

It writes nothing but subscribers' own files, and several threads call it at once. It trusts the folder only as the output of this
sidecar's log.

What a subscriber has acknowledged only rises, in whatever order its calls come: segments below it may be gone. It goes back only where a
subscriber asks for an earlier segment that is still kept, which holds that one for it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock

from sidecar.shared.errors import OutOfReach, RefusedRequest, SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.identity import known_id, own_of
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Seq
from sidecar.shared.model.progress import SegmentDump
from sidecar.shared.model.sink_delivery import SubscriberState
from spark_merge.sinks.folder.layout import DDLS_OF_SEGMENT, IDENTITY, LOG, DeliveredSegment, part_of, segment_path
from spark_merge.sinks.folder.output import accepted_in
from spark_merge.sinks.spool.frames import read_frames
from spark_merge.sinks.spool.keeping import (
    SUBSCRIBERS_MAX,
    KeptSegments,
    Subscriber,
    now_ms,
    read_kept,
    read_segment,
    read_subscriber,
    read_subscribers,
    write_subscriber,
)
from ticdc_dump.v1 import delivery_pb2 as pb

LOOK_S, LOOK_REMOTE_S = 0.03, 0.2
"""Between two looks for the next segment; where requests are paid for, more seldom."""
NOTED_AT_ONCE = 16
"""Subscribers' files that are read and written again at the same time: as many as there are streams."""


class SpoolReader:
    """`control.subscribe.Spool`. `log`: the sidecar's own segment log."""

    def __init__(self, folder: Folder, log: Folder) -> None:
        self.look_s = LOOK_S if folder.protocol == "file" else LOOK_REMOTE_S
        self._folder, self._log = folder, log
        self._noting = [Lock() for _ in range(NOTED_AT_ONCE)]

    def begin(self, subscriber: str, after: Seq | None, log: str) -> Seq | None:
        kept = self._kept(log)
        if kept is None:
            if after is None:
                return None
            raise self._ahead(after)
        requested = after
        if after is None:
            known = read_subscriber(self._folder, subscriber) if subscriber else None
            after = Seq(kept.began - 1) if known is None else Seq(max(known.acknowledged, kept.began - 1))
        self._check(after, kept)
        if subscriber:
            self._note(subscriber, after, goes_back=requested is not None)
        return Seq(after + 1)

    def acknowledge(self, subscriber: str, seq: Seq, log: str) -> None:
        kept = self._kept(log)
        if kept is None or (seq >= kept.first and read_segment(self._folder, seq) is None):
            raise self._ahead(seq)
        self._note(subscriber, seq)

    def received(self, subscriber: str) -> None:
        if (known := read_subscriber(self._folder, subscriber)) is not None:
            self._note(subscriber, Seq(known.acknowledged))

    def deliveries(self, seq: Seq) -> Iterator[pb.Delivery] | None:
        segment = read_segment(self._folder, seq)
        if segment is not None:
            return self._deliveries(segment)
        if (kept := read_kept(self._folder)) is not None and seq < kept.first:
            raise _too_late(seq, kept)
        if read_segment(self._folder, seq + 1) is not None and read_segment(self._folder, seq) is None:
            raise SinkError(f"{self._folder}/{segment_path(seq)} is gone", hint="restore it, or set the grpc: sink to a new folder")
        return None

    def subscribers(self) -> list[SubscriberState]:
        accepted = accepted_in(self._folder)
        last, asked_ms = -1 if accepted is None else accepted.seq, now_ms()
        return [
            SubscriberState(one.name, Seq(one.acknowledged + 1), max(last - one.acknowledged, 0), max(asked_ms - one.heard_ms, 0) / 1000)
            for one in sorted(read_subscribers(self._folder), key=lambda one: one.name)
        ]

    # ---- the folder -------------------------------------------------------------------------------------------------

    def _deliveries(self, segment: DeliveredSegment) -> Iterator[pb.Delivery]:
        """The last one, which is held back until there is no other, has what ends the segment."""
        last = pb.Delivery(seq=segment.seq)
        waiting: pb.Delivery | None = None
        for file in sorted(segment.files, key=lambda file: part_of(file.path)):
            for delivery in self._frames(segment.seq, file.path):
                if waiting is not None:
                    yield waiting
                waiting = delivery
        last = waiting if waiting is not None else last
        if segment.ddl is not None:
            if (ddls := DDLS_OF_SEGMENT.read(self._folder, segment.ddl)) is None:
                raise SinkError(f"{self._folder}/{segment.ddl} is gone", hint="restore it, or set the grpc: sink to a new folder")
            for ddl in ddls.ddls:
                last.ddls.add(commit_tso=ddl.commit_ts, schema=ddl.schema, table=ddl.table, query=ddl.query)
        last.resolved.tso, last.resolved.log = segment.upto_ts, self._log_id()
        if (dump := segment.dump) is not None:
            last.resolved.dump.CopyFrom(_dump(dump))
        yield last

    def _frames(self, seq: Seq, path: str) -> Iterator[pb.Delivery]:
        place = f"{self._folder}/{path}"
        try:
            with storage.open_to_read(self._folder, path) as file:
                yield from read_frames(file, place)
        except SinkError:
            if (kept := read_kept(self._folder)) is not None and seq < kept.first:
                raise _too_late(seq, kept) from None
            raise

    def _kept(self, log: str) -> KeptSegments | None:
        """Raises RefusedRequest where the folder, or the subscriber, is of another log."""
        text, own = self._log_id(), known_id(self._log)
        if text and own and text != own:
            raise RefusedRequest(
                f"{self._folder} is of log {text}, and this sidecar's is {own}",
                hint="set the grpc: sink to a new folder; see dumpquery for what the merge worker says of it",
            )
        if log and text and log != text:
            raise OutOfReach(
                f"the subscriber has segments of log {log}, and this is log {text}",
                hint="what it has is of a log that is no more: begin again, without a segment, and have a dump bring the rows",
            )
        return read_kept(self._folder)

    def _log_id(self) -> str:
        identity = LOG.read(self._folder, IDENTITY)
        return "" if identity is None else own_of(identity.log_id)

    def _check(self, after: Seq, kept: KeptSegments) -> None:
        if after < kept.first - 1:
            raise _too_late(Seq(after + 1), kept)
        if after >= kept.began and read_segment(self._folder, after) is None:
            if (again := read_kept(self._folder)) is not None and after < again.first:  # removed since
                return self._check(after, again) if after < again.first - 1 else None
            raise self._ahead(after)
        return None

    def _ahead(self, seq: Seq) -> OutOfReach:
        return OutOfReach(
            f"the subscriber has segment {seq}, and {self._folder} does not have it yet",
            hint="what it has is another log's: begin again, without a segment, and have a dump bring the rows",
        )

    def _note(self, subscriber: str, acknowledged: Seq, *, goes_back: bool = False) -> None:
        with self._noting[hash(subscriber) % NOTED_AT_ONCE]:
            known = read_subscriber(self._folder, subscriber)
            if known is None and len(read_subscribers(self._folder)) >= SUBSCRIBERS_MAX:
                raise RefusedRequest(
                    f"{SUBSCRIBERS_MAX} subscribers are known already",
                    hint="give each subscriber one name that it keeps; a name that is not used is forgotten after retain-hours",
                )
            if known is not None and not goes_back:
                acknowledged = Seq(max(known.acknowledged, acknowledged))
            write_subscriber(self._folder, Subscriber(subscriber, acknowledged, now_ms()))


def _too_late(seq: Seq, kept: KeptSegments) -> OutOfReach:
    return OutOfReach(
        f"segment {seq} is not kept any more: what is kept begins at {kept.first}",
        hint=f"subscribe with after_seq {kept.first - 1} and have a dump bring what is missing (cdc cli changefeed dumprestart);"
        " retain-bytes and retain-hours of the grpc: sink say how long a subscriber is waited for",
    )


def _dump(dump: SegmentDump) -> pb.DumpTold:
    complete = [pb.TableInDump(schema=table.schema, table=table.table) for table in dump.complete]
    return pb.DumpTold(dump_id=dump.dump_id, state=dump.state, complete=complete, others=map(_dump, dump.others))
