"""Made pumps under `PumpStreams`, for its tests. Pumps speak gRPC; registry and PD are in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from sidecar.binlog.nodes import ONLINE
from sidecar.feeds.binlog import pump as pump_module
from sidecar.feeds.binlog import streams as streams_module
from sidecar.feeds.binlog.streams import PullSettings, PumpStreams
from sidecar.shared.model.nouns import CommitTs, ts_at
from tests.support.binlog_reader import Log, Reader
from tests.support.made_pumps import MadePd, MadePump, MemoryNodes, fake, transaction

BEGIN = ts_at(1_795_000_000_000)


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "LOOK_EVERY_S", 0.02)
    monkeypatch.setattr(streams_module, "LOOKS_INTERVAL_S", 0.01)
    monkeypatch.setattr(streams_module, "HEARTBEAT_S", 0.01)
    monkeypatch.setattr(streams_module, "GAPS_EVERY_S", 0.05)
    monkeypatch.setattr(pump_module, "WAITS_S", (0.02,))


class Place:
    """A cluster without transactions, and streams over it."""

    def __init__(self, from_ts: int) -> None:
        self.nodes, self.pd = MemoryNodes(), MadePd(from_ts)
        self.from_ts = CommitTs(from_ts)
        self.made: list[PumpStreams] = []
        self.pumps: list[MadePump] = []

    def pump(self, name: str, *, register: bool = True) -> MadePump:
        self.pumps.append(MadePump(name, self.nodes))
        if register:
            self.register(self.pumps[-1])
        return self.pumps[-1]

    def register(self, pump: MadePump, state: str = ONLINE, max_commit_ts: int | None = None) -> None:
        pump.register(state, update_ts=self.pd.now_ts, max_commit_ts=max_commit_ts)

    def streams(self, **settings: object) -> PumpStreams:
        made = PullSettings(node_id=self.nodes.own, listen="127.0.0.1:0", from_ts=self.from_ts, outage_max_s=0.3)
        self.made.append(PumpStreams(replace(made, **settings), self.nodes, self.pd))  # type: ignore[arg-type]
        return self.made[-1]

    def reader(self, log: Log | None = None, **settings: object) -> Reader:
        return Reader(self.streams(**settings), log or Log(self.from_ts))

    def commit(self, pump: MadePump, value: bytes = b"v") -> int:
        """As TiDB does: commit_ts after the prewrite is stored."""
        start_ts = self.pd.tso()
        commit_ts = self.pd.tso()
        pump.commit(commit_ts, transaction(start_ts, commit_ts, value))
        return commit_ts

    def idle(self, *pumps: MadePump) -> int:
        for pump in pumps:
            ts = self.pd.tso()
            pump.commit(ts, fake(ts))
        return ts


@contextmanager
def placed(from_ts: int = BEGIN) -> Iterator[Place]:
    place = Place(from_ts)
    try:
        yield place
    finally:
        for streams in place.made:
            streams.close()
        for pump in place.pumps:
            pump.kill()
