"""What is read as of a moment of TiDB, whether PD keeps it, and what is reported of that: over a PD that is a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from sidecar.adapters.clock import wall_ms
from sidecar.run.auxiliary import Services
from sidecar.run.gc_hold import (
    CHUNKS,
    DDLS,
    FEED,
    VERIFICATIONS,
    GcHold,
    GcHoldState,
    GcOutside,
    TsoReads,
    _Begins,
    begin_gc_hold,
    tso_reads,
)
from sidecar.run.log_event import LogEvent
from sidecar.shared.config import Config
from sidecar.shared.errors import ConfigError, FeedLost, LogUnreachable, SourceError
from sidecar.shared.model.nouns import CommitTs, Seq, ts_at
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName
from sidecar.shared.tikv.gc import VersionHold, reads_id
from tests.support.eventually import eventually
from tests.support.tikv.cluster import CLUSTER_ID, Cluster
from tests.support.tikv.recorded import History
from tests.support.tikv.server import GC_WORKER, TikvServers

NOW_MS = 1_795_000_000_000
HOLD_MAX_S = 86_400.0
LIFE_S = 600.0


def ago(seconds: float) -> CommitTs:
    return ts_at(NOW_MS - round(seconds * 1000))


@dataclass
class FakePd:
    """As PdClient, of one hold. `away`: it does not answer."""

    safe_point: int = 0
    held: int | None = None
    away: bool = False

    def keep_versions(self, service_id: str, *, above: int, keep_s: int) -> int:
        if self.away:
            raise FeedLost("PD's leader does not answer", hint="see that PD runs")
        self.held = above if keep_s and above >= self.safe_point else None
        return self.safe_point


@dataclass
class Rig:
    """A hold over `pd`, None for no PD. Segment n begins 1000 s - 100 n s ago."""

    pd: FakePd | None = field(default_factory=FakePd)
    reads: TsoReads = field(default_factory=TsoReads)
    life_s: float | None = LIFE_S
    now_ms: int = NOW_MS
    lines: list[LogEvent] = field(default_factory=list)
    lives: int = 0
    away: Exception | None = None
    make: Callable[[], VersionHold | None] | None = None

    def __post_init__(self) -> None:
        hold = None if self.pd is None else VersionHold(cast(Any, self.pd), "x", keep_s=600, hold_max_s=HOLD_MAX_S)
        outside = GcOutside(self.begins_at, self.make or (lambda: hold), self.life, lambda: self.now_ms, self.lines.append)
        self.hold = GcHold(lambda: self.reads, outside, hold_max_s=HOLD_MAX_S)

    def begins_at(self, seq: Seq) -> CommitTs | None:
        if self.away is not None:
            raise self.away
        return ago(1000 - 100 * seq) if seq < 10 else None

    def life(self) -> float | None:
        self.lives += 1
        return self.life_s

    def look(self) -> GcHoldState:
        self.hold.look()
        assert self.hold.state is not None
        return self.hold.state


# ---- who reads ------------------------------------------------------------------------------------------------------

BASE: dict[str, Any] = {
    "changefeed": {"id": "orders"}, "etcd": {"endpoints": ["h:1"]}, "source": {"host": "h", "user": "u", "retry_s": 0.1},
    "log": {"uri": "/log"}, "sinks": ["/out"],
}  # fmt: skip


def config(**sections: Any) -> Config:
    return msgspec.convert(BASE | sections, Config)


@pytest.mark.parametrize(
    ("sections", "at_position", "segments"),
    [
        ({}, (DDLS,), {VERIFICATIONS: 4}),
        ({"feed": "storage"}, (DDLS,), {VERIFICATIONS: 4}),
        ({"feed": "push", "push": {"form": "messages"}}, (DDLS,), {VERIFICATIONS: 4}),
        ({"feed": "push"}, (), {VERIFICATIONS: 4}),
        ({"feed": "push", "tikv": {"pd": ["h:1"]}, "dump": {"read_with": "tikv"}}, (), {CHUNKS: 3, VERIFICATIONS: 4}),
        ({"feed": "tikv", "tikv": {"pd": ["h:1"]}}, (FEED,), {VERIFICATIONS: 4}),
        ({"feed": "binlog", "binlog": {"name": "b", "pd": ["h:1"]}}, (), {VERIFICATIONS: 4}),
    ],
)
def test_who_reads_as_of_a_moment_depends_on_the_feed_and_on_how_dumps_are_read(
    sections: dict[str, Any], at_position: tuple[str, ...], segments: Mapping[str, int]
) -> None:
    reads = tso_reads(config(**sections), CommitTs(9), window=Seq(3), verification=Seq(4))
    assert reads == TsoReads(CommitTs(9), at_position, {by: Seq(seq) for by, seq in segments.items()})
    assert not tso_reads(config(**sections), CommitTs(9), window=None, verification=None).segments


# ---- what is held ---------------------------------------------------------------------------------------------------


def test_the_oldest_moment_of_all_is_kept_and_the_time_that_remains_is_the_bounds() -> None:
    rig = Rig(reads=TsoReads(ago(10), (DDLS,), {VERIFICATIONS: Seq(4), CHUNKS: Seq(99)}))
    assert rig.look() == GcHoldState({DDLS: 10, VERIFICATIONS: 600, CHUNKS: 10}, held=True, kept_s=HOLD_MAX_S)
    assert rig.look().remaining_s == HOLD_MAX_S - 600
    assert rig.pd is not None
    assert rig.pd.held == ago(600) - 1
    assert rig.lines == []
    assert rig.lives == 0, "no query is needed where PD keeps all"


def test_what_nobody_reads_any_more_is_let_go() -> None:
    rig = Rig(reads=TsoReads(ago(10), (), {VERIFICATIONS: Seq(4)}))
    rig.look()
    rig.reads = TsoReads(ago(5))
    assert rig.look() == GcHoldState()
    assert rig.pd is not None
    assert rig.pd.held is None
    assert rig.look().remaining_s is None


def test_a_log_without_a_position_reads_nothing_yet() -> None:
    assert Rig(reads=tso_reads(config(), CommitTs(0), window=None, verification=Seq(0))).look() == GcHoldState()


def test_nothing_is_held_beyond_the_bound_and_a_line_says_so_once() -> None:
    rig = Rig(reads=TsoReads(ago(HOLD_MAX_S - 60), (DDLS,)))
    assert rig.look().remaining_s == 60
    rig.now_ms += 120_000
    state = rig.look()
    assert (state.held, state.kept_s, state.remaining_s) == (False, LIFE_S, 0.0)
    rig.look()
    assert rig.pd is not None
    assert rig.pd.held is None
    ((event, values),) = [(one.event, one.values) for one in rig.lines]
    assert event == "old versions are not kept"
    assert (values["by"], values["why"]) == (DDLS, "it is further back than gc.hold_max_s (86400 s)")
    rig.reads = TsoReads(ago(5), (DDLS,))
    assert rig.look().held
    assert rig.lines[-1].event == "old versions are kept again"


def test_without_a_pd_the_time_that_remains_is_tidbs_life_time() -> None:
    rig = Rig(pd=None, reads=TsoReads(ago(100), (DDLS,)))
    assert rig.look() == GcHoldState({DDLS: 100}, kept_s=LIFE_S)
    assert rig.look().remaining_s == 500
    rig.now_ms += 540_000
    assert rig.look().remaining_s == 0
    assert (rig.lives, rig.lines) == (1, [])
    rig.now_ms += 60_000
    rig.look()
    assert rig.lives == 2, "it may have been changed"


def test_what_is_gone_already_remains_for_no_time() -> None:
    rig = Rig(pd=FakePd(safe_point=ago(50)), reads=TsoReads(ago(100), (DDLS,)))
    state = rig.look()
    assert (state.held, state.gone, state.remaining_s) == (False, True, 0.0)
    assert [line.event for line in rig.lines] == ["old versions are not kept"]


def test_while_pd_is_away_the_life_time_counts_and_the_hold_comes_back() -> None:
    rig = Rig(reads=TsoReads(ago(100), (DDLS,)))
    assert rig.pd is not None
    rig.pd.away = True
    assert rig.look().remaining_s == 500
    rig.pd.away = False
    assert rig.look().remaining_s == HOLD_MAX_S - 100
    assert [line.event for line in rig.lines] == ["old versions are not kept", "old versions are kept again"]


def test_a_log_that_is_away_does_not_let_the_hold_run_out() -> None:
    rig = Rig(reads=TsoReads(ago(10), (DDLS,), {VERIFICATIONS: Seq(4)}))
    rig.look()
    assert rig.pd is not None
    rig.pd.held = None
    rig.away = LogUnreachable("the log's storage does not answer", hint="wait")
    rig.now_ms += 30_000
    with pytest.raises(LogUnreachable):
        rig.hold.look()
    assert rig.pd.held == ago(600) - 1, "renewed by what was needed before"
    assert rig.hold.state == GcHoldState({DDLS: 40, VERIFICATIONS: 630}, held=True, kept_s=HOLD_MAX_S)


def test_settings_that_do_not_reach_pd_are_reported() -> None:
    def hold() -> VersionHold | None:
        raise ConfigError("tikv.tls.ca cannot be read", hint="set it")

    rig = Rig(reads=TsoReads(ago(100), (DDLS,)), make=hold)
    state = rig.look()
    assert (state.why, state.held, state.kept_s) == ("tikv.tls.ca cannot be read", False, LIFE_S)
    assert [line.event for line in rig.lines] == ["old versions are not kept"]


def test_a_tidb_that_is_away_too_ends_this_look_and_not_the_hold() -> None:
    class Away(Rig):
        def life(self) -> float | None:
            raise SourceError("TiDB does not answer", hint="see that it runs")

    rig = Away(reads=TsoReads(ago(100), (DDLS,)))
    assert rig.look().held
    assert rig.pd is not None
    rig.pd.away = True
    with pytest.raises(SourceError):
        rig.hold.look()
    assert rig.hold.state == GcHoldState({DDLS: 100}, why="PD's leader does not answer")
    assert rig.hold.state.remaining_s is None


def test_a_source_without_a_life_time_shows_no_time_that_remains() -> None:
    assert Rig(pd=None, life_s=None, reads=TsoReads(ago(100), (DDLS,))).look().remaining_s is None


def test_the_state_is_none_once_the_service_has_ended() -> None:
    rig, ending = Rig(reads=TsoReads(ago(10), (DDLS,))), Event()
    rig.look()
    ending.set()
    rig.hold.serve(ending)
    assert rig.hold.state is None


class HeldLog:
    """As FollowedLog: segments 2 to 5, each of 100."""

    def __init__(self) -> None:
        self.reads = 0

    def there(self) -> range:
        return range(2, 6)

    def read(self, seqs: range) -> Iterator[Any]:
        self.reads += 1
        yield from (SimpleNamespace(manifest=SimpleNamespace(after_ts=CommitTs(100 * seq))) for seq in seqs)


@pytest.mark.parametrize(("seq", "begins_at"), [(3, 300), (5, 500), (6, None), (0, 200)])
def test_a_segment_begins_where_the_one_before_it_ended_and_one_that_is_gone_where_the_log_does(seq: int, begins_at: int | None) -> None:
    log = HeldLog()
    begins = _Begins(cast(Any, log))
    assert [begins.begins_at(Seq(seq)) for _ in range(2)] == [begins_at, begins_at]
    assert log.reads == (begins_at is not None), "once"


# ---- with a PD that serves ------------------------------------------------------------------------------------------


@pytest.fixture
def servers() -> Iterator[TikvServers]:
    with TikvServers(Cluster(History((), (), {}))) as made:
        yield made


def feed_of(upstream_id: int, *, keyspace: str = "default") -> Changefeed:
    name = ChangefeedName("default", keyspace, "orders")
    return Changefeed(name=name, incarnation="1", sink_uri="", protocol="", upstream_id=upstream_id, new_architecture=keyspace != "default")


def begun(servers: TikvServers, folder: Path, feed: Changefeed, services: Services, **sections: Any) -> Any:
    settings = config(tikv={"pd": servers.pd_addresses}, log={"uri": str(folder)}, **sections)
    reads = TsoReads(ts_at(wall_ms() - 5_000), (DDLS,))
    return begin_gc_hold(settings, feed, lambda: reads, services)


@pytest.mark.parametrize("keyspace", ["default", "tenant"])
def test_the_service_holds_under_the_changefeeds_name_until_nobody_renews_it(servers: TikvServers, tmp_path: Path, keyspace: str) -> None:
    servers.keyspaces, servers.has_barriers = {"tenant": (7, True)}, True
    held = servers.safe_points if keyspace == "default" else servers.of_keyspaces.setdefault(7, {GC_WORKER: 0})
    feed = feed_of(CLUSTER_ID, keyspace=keyspace)
    with closing(Services()) as services:
        state = begun(servers, tmp_path, feed, services)
        eventually(lambda: state() is not None and state().held)
    assert held.keys() == {GC_WORKER, reads_id(feed.log_id).encode()}, "a successor has the TTL to come"


def test_a_pd_of_another_cluster_holds_nothing_and_is_named(servers: TikvServers, tmp_path: Path) -> None:
    with closing(Services()) as services:
        state = begun(servers, tmp_path, feed_of(4711), services)
        eventually(lambda: state() is not None and "the changefeed reads cluster 4711" in state().why)
    assert servers.safe_points.keys() == {GC_WORKER}


@pytest.mark.parametrize("sections", [{"gc": {"hold_max_s": 0}}, {"tikv": {}, "etcd": {"folder": "/state"}}])
def test_without_a_pd_or_a_bound_nothing_is_held(servers: TikvServers, tmp_path: Path, sections: dict[str, Any]) -> None:
    with closing(Services()) as services:
        state = begin_gc_hold(config(log={"uri": str(tmp_path)}, **sections), feed_of(0), TsoReads, services)
        eventually(lambda: state() is not None)
        assert state() == GcHoldState()
    assert servers.safe_points.keys() == {GC_WORKER}
