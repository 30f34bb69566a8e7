"""A recording's pumps in two ways, for what every feed of TiDB-Binlog keeps: as they are played, and as they speak gRPC."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol

from sidecar.feeds.binlog.feed import BinlogFeed, PumpLanes
from sidecar.feeds.binlog.jobs import BinlogJobs
from sidecar.feeds.binlog.streams import PullSettings, PumpStreams
from sidecar.replay.binlog import BinlogRecording, RecordedPumps
from sidecar.replay.feed import Play
from sidecar.shared.model.nouns import CommitTs
from tests.support.made_pumps import MadePd, MemoryNodes, World, recorded_pumps

STEPS = 40
"""In which a cluster's time goes by."""


class BinlogRig(Protocol):
    def open(self) -> BinlogFeed:
        """All pumps of the recording, to be read from its start."""

    def advance(self) -> None:
        """The cluster advances a little."""

    def durable_ts(self) -> CommitTs: ...


@dataclass
class PlayedPumps:
    """The twin that is shipped."""

    made: BinlogRecording
    pumps: list[RecordedPumps] = field(default_factory=list)

    def open(self) -> BinlogFeed:
        self.pumps.append(RecordedPumps(self.made, Play(batch_messages_max=20)))
        return _binlog_feed(self.made, self.pumps[-1])

    def advance(self) -> None:
        pass

    def durable_ts(self) -> CommitTs:
        return self.pumps[-1].durable_ts


@dataclass
class GrpcPumps:
    """Pumps that speak gRPC, beside a registry and a PD in memory."""

    made: BinlogRecording
    held: ExitStack
    nodes: MemoryNodes = field(default_factory=MemoryNodes)
    pd: MadePd = field(default_factory=MadePd)
    moments: list[int] = field(default_factory=list)

    def open(self) -> BinlogFeed:
        recorded = recorded_pumps(self.made.recording.folder)
        if not self.moments:
            self.world = self.held.enter_context(World(recorded, self.nodes, self.pd))
            times = recorded.moments()
            self.moments = [*times[:: max(1, len(times) // STEPS)], times[-1]]
        settings = PullSettings(self.nodes.own, "127.0.0.1:0", CommitTs(0))
        feed = _binlog_feed(self.made, PumpStreams(settings, self.nodes, self.pd))
        self.held.callback(feed.close)
        return feed

    def advance(self) -> None:
        if self.moments:
            self.world.advance(self.moments.pop(0))

    def durable_ts(self) -> CommitTs:
        """As our entry says."""
        mine = self.nodes.mine()
        return CommitTs(0) if mine is None else mine.max_commit_ts


def _binlog_feed(made: BinlogRecording, pumps: PumpLanes) -> BinlogFeed:
    schemas = made.schemas()
    schemas.begin()
    return BinlogFeed(pumps, schemas, BinlogJobs(made.metas.get, wait_max_s=0.0))
