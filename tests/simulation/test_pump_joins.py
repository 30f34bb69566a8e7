"""Pumps that join, pause, die, go offline and come back, under any interleaving: the rule of joining and the sequence over it, without
threads and sockets. TiDB writes to whatever the registry names at that moment, and between any two things that a drainer asks, anything may
happen. In the end every transaction that committed is in the log, once and in order. Each seed is one life: a failure names its own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

import pytest

from sidecar.binlog.nodes import CLOSING, OFFLINE, ONLINE, PAUSED, Node
from sidecar.core.sequence import Sequence
from sidecar.feeds.binlog.joining import PUMPS_LANE, Joining, lane_of, look
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.model.nouns import Change, CommitTs, Envelope, Lane, Rank, Resolved
from tests.lanes import LANE

FROM_TS = 1_000
STEPS = 120
PUMPS = "abcd"
SEEDS = 1_000 if LANE.whole else 100


@dataclass
class PumpLife:
    """`stored`: what it has, by commit_ts; a fake is one whose value is empty. `open`: prewrites whose commit is still to come.
    `last_ts`: of one that is closing, what drainers must have."""

    node: Node
    stored: list[tuple[int, bytes]] = field(default_factory=list)
    open: int = 0
    last_ts: int = 0


class ClusterLife:
    """PD's clock, the registry, pumps, and a TiDB."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now_ts = FROM_TS
        self.pumps: dict[str, PumpLife] = {}
        self.registry: dict[str, Node] = {}
        self.prewritten: list[str] = []
        self.committed: list[int] = []
        self.durable_ts = FROM_TS
        self._register("a")

    def tso(self) -> CommitTs:
        self.now_ts += 1
        return CommitTs(self.now_ts)

    def step(self) -> None:
        """One thing happens somewhere."""
        name = self.random.choice(PUMPS)
        pump = self.pumps.get(name)
        dice = self.random.random()
        if pump is None or pump.node.state in (PAUSED, OFFLINE):
            if dice < 0.1:
                self._register(name)
        elif pump.node.state == CLOSING:
            self._close(name, pump)
        elif dice < 0.35:
            pump.open += 1
            self.prewritten.append(name)
        elif dice < 0.7 and self.prewritten:
            self._commit(self.prewritten.pop(self.random.randrange(len(self.prewritten))))
        elif dice < 0.9:
            self._idle(pump)
        elif dice < 0.93 and len(self._online()) > 1 and not pump.open:
            self._put(name, PAUSED)
        elif len(self._online()) > 1:
            pump.last_ts = 0
            self._put(name, CLOSING)

    def _close(self, name: str, pump: PumpLife) -> None:
        """It goes on with fakes until its transactions have ended, and drainers have what it had then."""
        if pump.last_ts and self.durable_ts >= pump.last_ts:
            self._put(name, OFFLINE)
            return
        if self.random.random() < 0.5:
            self._idle(pump)
        if not pump.open and not pump.last_ts:
            pump.last_ts = self._end(pump)

    def settle(self) -> None:
        """Everybody comes back, all transactions end, and every pump says so."""
        for name in self.pumps:
            self._register(name)
        for name in self.prewritten:
            self._commit(name)
        self.prewritten = []
        for pump in self.pumps.values():
            self._idle(pump)

    def read(self, lane: Lane, after_ts: int) -> list[tuple[int, bytes]]:
        """What this pump would stream now; one that is not online is not there."""
        pump = next((pump for name, pump in self.pumps.items() if lane_of(name) == lane), None)
        return [] if pump is None or pump.node.state not in (ONLINE, CLOSING) else [one for one in pump.stored if one[0] > after_ts]

    def _online(self) -> list[PumpLife]:
        return [pump for pump in self.pumps.values() if pump.node.state == ONLINE]

    def _end(self, pump: PumpLife) -> int:
        return pump.stored[-1][0] if pump.stored else 0

    def _register(self, name: str) -> None:
        self.pumps.setdefault(name, PumpLife(Node(name, name, ONLINE, CommitTs(0), CommitTs(0))))
        self._put(name, ONLINE)

    def _put(self, name: str, state: str) -> None:
        pump = self.pumps[name]
        pump.node = self.registry[name] = replace(pump.node, state=state, max_commit_ts=CommitTs(self._end(pump)))

    def _commit(self, name: str) -> None:
        """The commit_ts is taken after the prewrite was stored."""
        pump, ts = self.pumps[name], self.tso()
        pump.open -= 1
        pump.stored.append((ts, b"row"))
        self.committed.append(ts)

    def _idle(self, pump: PumpLife) -> None:
        pump.stored.append((self.tso(), b""))


class DrainerLife:
    """What PumpStreams does, a thing at a time, and the log under it."""

    def __init__(self, cluster: ClusterLife) -> None:
        self.cluster = cluster
        self.after_ts, self.positions = FROM_TS, dict[Lane, int]()
        self.rows: list[int] = []
        self.start()

    def start(self) -> None:
        """Also after a crash: with what the log has."""
        self.joining = Joining(self.positions | {PUMPS_LANE: self.after_ts}, CommitTs(FROM_TS))
        self.reported_ts = self.joining.resolved_ts
        self.sequence = Sequence(
            identity=lambda change: change.value,
            spill=MemorySpill(),
            after_ts=CommitTs(self.after_ts),
            held_bytes_max=1 << 30,
            positions=dict(self.positions),
        )

    def look(self) -> None:
        def pumps() -> list[Node]:
            self._meanwhile()
            return list(self.cluster.registry.values())

        def tso() -> CommitTs:
            self._meanwhile()
            return self.cluster.tso()

        self.joining.take(look(tso, pumps))

    def hand(self) -> None:
        """A poll: some of what some pumps have, and the mark."""
        for lane, pump in list(self.joining.pumps.items()):
            results = self.cluster.read(lane, pump.handed_ts)
            for commit_ts, value in results[: self.cluster.random.randint(0, 5)]:
                pump.handed_ts = pump.received_ts = CommitTs(commit_ts)
                self._accept(lane, commit_ts, value)
        if self.joining.resolved_ts > self.reported_ts:
            self.reported_ts = self.joining.resolved_ts
            position = self.reported_ts - 1
            self.sequence.accept(PUMPS_LANE, position, [Resolved(PUMPS_LANE, self.reported_ts, position)])
        self._meanwhile()
        upto_ts = self.sequence.upto(self.joining.lanes())
        if upto_ts is not None:
            for segment in self.sequence.release(upto_ts, even_if_empty=True):
                self.rows += [change.commit_ts for change in segment.changes]
                lanes = self.joining.lanes()
                self.after_ts = segment.upto_ts
                self.positions = {lane: position for lane, position in segment.positions.items() if lane in lanes}
            self.cluster.durable_ts = self.after_ts

    def _accept(self, lane: Lane, commit_ts: int, value: bytes) -> None:
        ts = CommitTs(commit_ts)
        envelopes: list[Envelope] = [Change(ts, Rank.PUT, "", "t", b"", value, lane, commit_ts)] if value else []
        self.sequence.accept(lane, commit_ts, [*envelopes, Resolved(lane, CommitTs(ts + 1), commit_ts)])

    def _meanwhile(self) -> None:
        for _ in range(self.cluster.random.choice((0, 0, 3, 12))):
            self.cluster.step()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whoever_joins_whenever_nothing_is_lost(seed: int) -> None:
    random = Random(seed)
    cluster = ClusterLife(random)
    drainer = DrainerLife(cluster)
    for _ in range(STEPS):
        cluster.step()
        random.choice((drainer.look, drainer.hand, cluster.step))()
        if random.random() < 0.02:
            drainer.start()
    cluster.settle()
    end_ts = cluster.now_ts
    while drainer.after_ts < end_ts:
        drainer.look()
        drainer.hand()
        cluster.settle()
    assert [ts for ts in drainer.rows if ts <= end_ts] == sorted(ts for ts in cluster.committed if ts <= end_ts)
