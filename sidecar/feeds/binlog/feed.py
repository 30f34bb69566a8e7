"""TiDB-Binlog as a feed: what the pumps stream, as lanes of messages. A drainer's part that decides what comes when.

    pump/{node id}   rows, as the pump has them (sidecar/shared/codecs/binlog.py); each binlog's commit_ts resolves its lane
    pumps            resolved only: up to there every pump has joined (streams.py)
    binlog/ddl       the DDLs, and how far they are known

- Positions are TSOs, and commit_ts the order of every pump's stream: all up to the log's end is in the log, all that is not lies above it.
  So reading of pumps resumes there, whatever positions their lanes have, but for positions below.
- A DDL's binlog names a job, and only TiDB has what the job did. TiDB is queried when nothing below can come any more: by then it is
  mostly there. The DDL leaves in a lane of its own, and that lane is resolved after it, so that R waits for both.
- A transaction or a DDL that came to two pumps is one: the sequence drops the second arrival of a row, `_ddls` that of a DDL.
- What is acknowledged is what the log has in full, of all lanes. Pumps go offline by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from google.protobuf.message import DecodeError

from sidecar.feeds.binlog.jobs import BinlogJobs, DdlBinlog
from sidecar.feeds.binlog.joining import PUMPS_LANE, lane_of
from sidecar.feeds.kv.schemas import KvSchemas
from sidecar.ports import NO_READ_ENDS, NOT_KNOWN
from sidecar.shared.codecs.kv import encode_ddl, encode_resolved, resolved_of
from sidecar.shared.errors import FeedError, MessageUnreadable
from sidecar.shared.model.nouns import CommitTs, Lane, Message, ReadEnd
from ticdc_dump.binlog.binlog_pb2 import Binlog

DDL_LANE = Lane("binlog/ddl")


class PumpLanes(Protocol):
    """What a drainer reads (streams.py). One thread calls it."""

    def lanes(self) -> frozenset[Lane]:
        """`pumps`, and one for each pump that has joined and not gone. Read fresh on each call."""

    def seek(self, positions: Mapping[Lane, int]) -> None:
        """A pump that has no position is streamed from that of `pumps` on: every binlog with a commit_ts above it."""

    def poll(self, *, timeout_s: float) -> Sequence[Message]: ...

    def acknowledge(self, durable_ts: CommitTs) -> None: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class BinlogFeed:
    """sidecar.ports.Feed. `schemas` has begun or resumed before `seek`, which comes once where the pumps are real ones."""

    pumps: PumpLanes
    schemas: KvSchemas
    jobs: BinlogJobs
    closers: Sequence[Callable[[], object]] = ()
    _resolved: dict[Lane, CommitTs] = field(default_factory=dict, init=False)
    _ddls: dict[CommitTs, DdlBinlog] = field(default_factory=dict, init=False)
    _ddls_upto_ts: CommitTs = field(default=CommitTs(0), init=False)
    _durable_ts: CommitTs = field(default=CommitTs(0), init=False)
    _highest_ts: CommitTs = field(default=CommitTs(0), init=False)
    _starting: list[Message] = field(default_factory=list, init=False)

    def lanes(self) -> frozenset[Lane]:
        return self.pumps.lanes() | {DDL_LANE}

    def ends(self) -> Mapping[Lane, int]:
        """Positions are TSOs: `seek` goes by the schemas' moment."""
        return {}

    def incarnations(self) -> Mapping[Lane, str]:
        """A pump that lost what it had says so by its GC point."""
        return dict.fromkeys(self.lanes(), "")

    def read_ends(self) -> Mapping[Lane, ReadEnd]:
        """None: a pump that lost what it had says so."""
        return NO_READ_ENDS

    def seek(
        self,
        positions: Mapping[Lane, int],
        incarnations: Mapping[Lane, str] = NOT_KNOWN,  # noqa: ARG002  # see above
        read_ends: Mapping[Lane, ReadEnd] = NO_READ_ENDS,  # noqa: ARG002  # there are none
    ) -> None:
        """Raises FeedError for the lane of another feed."""
        for lane in positions:
            if lane not in (DDL_LANE, PUMPS_LANE) and not lane.startswith(lane_of("")):
                raise FeedError(
                    f"cannot read on in lane {lane}: TiDB-Binlog's are {DDL_LANE}, {PUMPS_LANE} and {lane_of('')} with a node id",
                    hint="give the log that this feed has written, or start with a new log",
                )
        from_ts = CommitTs(min([self.schemas.since_ts, *(position - 1 for position in positions.values())]))
        self._resolved.clear()
        self._ddls.clear()
        self._ddls_upto_ts = from_ts
        self._starting = [self._ddl_mark()]
        self.pumps.seek({PUMPS_LANE: from_ts})

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        messages, self._starting = self._starting, []
        for message in self.pumps.poll(timeout_s=0.0 if messages else timeout_s):
            messages.append(self._taken(message))
        self._pass_ddls(messages)
        return messages

    def acknowledge(self, positions: Mapping[Lane, int]) -> None:
        lanes = self.lanes()
        if not lanes <= positions.keys():
            return
        durable_ts = CommitTs(min(positions[lane] for lane in lanes) - 1)
        if durable_ts > self._durable_ts:
            self._durable_ts = durable_ts
            self.pumps.acknowledge(durable_ts)
            self.schemas.passed(durable_ts, lambda _: self._highest_ts)

    def close(self) -> None:
        """End the streams, then what they needed; never raises."""
        for close in (self.pumps.close, *self.closers):
            close()

    # ---- what comes -------------------------------------------------------------------------------------------------

    def _taken(self, message: Message) -> Message:
        """A DDL's binlog is kept, and only resolves its lane."""
        value = message.value or b""
        if message.lane == PUMPS_LANE:
            self._resolved[message.lane] = resolved_of(message)
            return message
        try:
            binlog = Binlog.FromString(value)
        except DecodeError as error:
            raise MessageUnreadable(
                f"{message.at()}: no Binlog: {error}", hint="see that the pump is TiDB-Binlog's; if so, report it"
            ) from error
        commit_ts = CommitTs(binlog.commit_ts)
        self._resolved[message.lane] = CommitTs(commit_ts + 1)
        self._highest_ts = max(self._highest_ts, commit_ts)
        if not binlog.ddl_job_id:
            return message
        if commit_ts > self._ddls_upto_ts:
            query = binlog.ddl_query.decode(errors="replace")
            self._ddls[commit_ts] = DdlBinlog(commit_ts, binlog.ddl_job_id, binlog.ddl_schema_state, query)
        return Message(message.lane, message.position, None, encode_resolved(CommitTs(commit_ts + 1)))

    def _pass_ddls(self, messages: list[Message]) -> None:
        lanes = self.pumps.lanes()
        if not lanes or any(lane not in self._resolved for lane in lanes):
            return
        upto_ts = CommitTs(min(self._resolved[lane] for lane in lanes) - 1)
        if upto_ts <= self._ddls_upto_ts:
            return
        for commit_ts in sorted(ts for ts in self._ddls if ts <= upto_ts):
            job = self.jobs.job(self._ddls[commit_ts])
            del self._ddls[commit_ts]
            if job is not None:
                self.schemas.know_job(job)
        position = self._ddls_upto_ts
        messages += [Message(DDL_LANE, position, None, encode_ddl(*ddl)) for ddl in self.schemas.resolve(upto_ts)]
        self._ddls_upto_ts = upto_ts
        messages.append(self._ddl_mark())

    def _ddl_mark(self) -> Message:
        return Message(DDL_LANE, self._ddls_upto_ts, None, encode_resolved(CommitTs(self._ddls_upto_ts + 1)))
