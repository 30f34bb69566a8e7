"""Who reads `PumpStreams` as the pipeline does: the sequence, what it releases, and a log that survives a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import monotonic

from sidecar.core.sequence import Sequence
from sidecar.feeds.binlog.joining import PUMPS_LANE
from sidecar.feeds.binlog.streams import PumpStreams
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.model.nouns import Change, CommitTs, Envelope, Lane, Message, Rank, Resolved
from tests.support.eventually import PATIENCE_S
from ticdc_dump.binlog import binlog_pb2


def envelopes(message: Message) -> Iterable[Envelope]:
    """A transaction as one change, identified by its start_ts and value; then what it resolves."""
    assert message.value is not None
    if message.lane == PUMPS_LANE:
        yield Resolved(message.lane, CommitTs(int.from_bytes(message.value[1:])), message.position)
        return
    binlog = binlog_pb2.Binlog.FromString(message.value)
    assert binlog.commit_ts == message.position
    if binlog.start_ts != binlog.commit_ts:
        key, value = binlog.start_ts.to_bytes(8), binlog.prewrite_value or binlog.ddl_query
        yield Change(CommitTs(binlog.commit_ts), Rank.PUT, "", "t", key, value, message.lane, message.position)
    yield Resolved(message.lane, CommitTs(binlog.commit_ts + 1), message.position)


@dataclass
class Log:
    """What is durable: (commit_ts, start_ts) of every transaction in order, where it ends, where to read on."""

    after_ts: int
    rows: list[tuple[int, int]] = field(default_factory=list)
    positions: dict[Lane, int] = field(default_factory=dict)


class Reader:
    """From where the log ends. `held_bytes_max`: of the sequence in memory."""

    def __init__(self, streams: PumpStreams, log: Log, *, held_bytes_max: int = 1 << 16) -> None:
        self.streams, self.log = streams, log
        self.sequence = Sequence(
            identity=lambda change: (change.key, change.value),
            spill=MemorySpill(),
            after_ts=CommitTs(log.after_ts),
            held_bytes_max=held_bytes_max,
            positions=dict(log.positions),
        )
        streams.seek(log.positions | {PUMPS_LANE: log.after_ts} if log.positions else {})

    def step(self, timeout_s: float = 0.05) -> int:
        """One turn of the pipeline; how many messages came."""
        messages = self.streams.poll(timeout_s=timeout_s)
        for message in messages:
            self.sequence.accept(message.lane, message.position, envelopes(message))
        upto_ts = self.sequence.upto(self.streams.lanes())
        if upto_ts is not None:
            for segment in self.sequence.release(upto_ts, even_if_empty=True):
                self.log.rows += [(change.commit_ts, int.from_bytes(change.key)) for change in segment.changes]
                lanes = self.streams.lanes()
                self.log.after_ts = segment.upto_ts
                self.log.positions = {lane: position for lane, position in segment.positions.items() if lane in lanes}
            self.streams.acknowledge(CommitTs(self.log.after_ts))
        return len(messages)

    def until(self, done: Callable[[], bool]) -> None:
        """Raises what the streams raise."""
        until_s = monotonic() + PATIENCE_S
        while not done():
            assert monotonic() < until_s, f"{self.log.after_ts}, {self.sequence.resolved}, {self.streams.view()}"
            self.step()
