"""Pumps as lanes: which of them hold the stream and when they let go, and what cannot be read at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.binlog.nodes import CLOSING, OFFLINE, PAUSED
from sidecar.feeds.binlog import streams as streams_module
from sidecar.feeds.binlog.joining import PUMPS_LANE, lane_of
from sidecar.shared.errors import ConfigError, FeedLost, FeedUnsuitable, MessageUnreadable
from tests.support.binlog_reader import Reader
from tests.support.eventually import eventually
from tests.support.made_pumps import CLUSTER_ID, transaction
from tests.unit.feeds.pumps import Place

# ---- what holds, and what lets go ---------------------------------------------------------------------------------------


def test_a_dead_pump_holds_the_stream_and_is_named_with_its_last_moment(place: Place) -> None:
    first, second = place.pump("a"), place.pump("b")
    reader = place.reader()
    stuck_at = place.idle(first, second)
    reader.until(lambda: reader.log.after_ts >= stuck_at - 1)
    second.kill()
    place.pd.reach((stuck_at >> 18) + 60_000)
    place.register(first)
    place.commit(first)
    reader.until(lambda: reader.streams.view().held_by().startswith("pump b ("))
    assert reader.log.after_ts < stuck_at + 1
    assert not reader.log.rows
    assert "it has not updated its entry since" in reader.streams.view().held_by()


def test_a_paused_pump_holds_and_goes_on_where_it_was_at_another_address(place: Place) -> None:
    first, second = place.pump("a"), place.pump("b")
    reader = place.reader()
    before = place.commit(second)
    ts = place.idle(first, second)
    reader.until(lambda: reader.log.after_ts >= ts - 1)
    second.kill()
    place.nodes.put(replace(place.nodes.nodes["b"], state=PAUSED))
    held = place.commit(first)
    place.pd.reach((held >> 18) + 60_000)
    reader.until(lambda: "paused" in reader.streams.view().held_by())
    assert [commit_ts for commit_ts, _ in reader.log.rows] == [before]
    second.start()
    place.register(second)
    place.register(first)
    last = place.idle(first, second)
    reader.until(lambda: reader.log.after_ts >= last - 1)
    assert [commit_ts for commit_ts, _ in reader.log.rows] == [before, held]
    assert reader.streams.view().held_by() == ""


def test_a_stuck_pump_is_distinguished_from_a_dead_one(place: Place) -> None:
    first, second = place.pump("a"), place.pump("b")
    reader = place.reader()
    ts = place.idle(first, second)
    reader.until(lambda: reader.log.after_ts >= ts - 1)
    place.pd.reach((ts >> 18) + 60_000)
    for pump in (first, second):
        place.register(pump)
    place.commit(first)
    reader.until(lambda: reader.streams.view().held_by().startswith("pump b"))
    assert "a transaction whose end it does not know" in reader.streams.view().held_by()


def test_an_offline_pump_lets_go_after_its_end(place: Place) -> None:
    first, second = place.pump("a"), place.pump("b")
    reader = place.reader()
    place.idle(first, second)
    reader.until(lambda: lane_of("b") in reader.streams.lanes())
    second.freeze()
    mine = place.commit(second)
    place.register(second, OFFLINE)
    offline_ts = place.idle(first)
    reader.until(lambda: reader.streams.view().looked_ts > offline_ts)
    assert lane_of("b") in reader.streams.lanes()
    second.thaw()
    reader.until(lambda: lane_of("b") not in reader.streams.lanes() and reader.streams.lanes() != {PUMPS_LANE})
    second.kill()
    last = place.idle(first)
    reader.until(lambda: reader.log.after_ts >= last - 1)
    assert [commit_ts for commit_ts, _ in reader.log.rows] == [mine]


def test_a_pump_that_was_closing_is_let_go_though_its_last_fakes_never_came(place: Place) -> None:
    first, second = place.pump("a"), place.pump("b")
    reader = place.reader()
    mine = place.commit(second)
    place.register(second, CLOSING)
    reader.until(lambda: any(pump.state == CLOSING for pump in reader.streams.view().pumps))
    ts = place.idle(first, second)
    reader.until(lambda: reader.log.after_ts >= ts - 1)
    second.kill()
    place.nodes.put(replace(place.nodes.nodes["b"], state=OFFLINE, max_commit_ts=place.pd.tso()))
    last = place.idle(first)
    reader.until(lambda: reader.log.after_ts >= last)
    assert [commit_ts for commit_ts, _ in reader.log.rows] == [mine]
    reader.streams.close()
    after = place.reader(reader.log)
    last = place.idle(first)
    after.until(lambda: after.log.after_ts >= last)


def test_a_pump_that_died_while_it_was_closing_and_was_set_offline_by_hand_is_needed_to_its_end(place: Place) -> None:
    first, second = place.pump("a"), place.pump("b")
    reader = place.reader()
    place.idle(first, second)
    reader.until(lambda: lane_of("b") in reader.streams.lanes())
    second.freeze()
    mine = place.commit(second)
    place.register(second, CLOSING)
    reader.until(lambda: any(pump.state == CLOSING for pump in reader.streams.view().pumps))
    place.nodes.put(replace(place.nodes.nodes["b"], state=OFFLINE))
    offline_ts = place.idle(first)
    reader.until(lambda: reader.streams.view().looked_ts > offline_ts)
    assert lane_of("b") in reader.streams.lanes()
    second.thaw()
    last = place.idle(first)
    reader.until(lambda: reader.log.after_ts >= last - 1)
    assert [commit_ts for commit_ts, _ in reader.log.rows] == [mine]


def test_a_pump_without_a_position_is_read_from_that_of_the_lane_pumps(place: Place) -> None:
    first, second = place.pump("a"), place.pump("b")
    streams = place.streams()
    streams.seek({lane_of("a"): place.from_ts + 3, PUMPS_LANE: place.from_ts + 5})
    eventually(lambda: (first.pulls, second.pulls) == ([place.from_ts + 2], [place.from_ts + 5]))


def test_an_offline_pump_that_comes_back_is_a_lane_again(place: Place) -> None:
    first, second = place.pump("a"), place.pump("b")
    reader = place.reader()
    ts = place.idle(second, first)
    place.register(second, OFFLINE)
    reader.until(lambda: lane_of("b") not in reader.streams.lanes() and reader.log.after_ts >= ts)
    place.register(second)
    mine = place.commit(second)
    reader.until(lambda: lane_of("b") in reader.streams.lanes())
    last = place.idle(first, second)
    reader.until(lambda: reader.log.after_ts >= last - 1)
    assert [commit_ts for commit_ts, _ in reader.log.rows] == [mine]


def test_an_offline_pump_whose_rest_nobody_has_stops_the_feed(place: Place) -> None:
    place.pump("a")
    second = place.pump("b")
    place.register(second, OFFLINE, place.pd.tso())
    second.kill()
    reader = place.reader(outage_max_s=0.1)
    with pytest.raises(FeedUnsuitable, match=r"pump b .* is offline, and of its binlogs"):
        reader.until(lambda: False)


# ---- what cannot be used ------------------------------------------------------------------------------------------------


def fails(reader: Reader, text: str, kind: type[Exception] = FeedUnsuitable) -> None:
    with pytest.raises(kind, match=text):
        reader.until(lambda: False)


def test_a_pump_of_another_cluster_is_refused(place: Place) -> None:
    place.pump("a").cluster_id = CLUSTER_ID + 1
    fails(place.reader(), "pump a .* is of another cluster than PD")


def test_a_pump_that_has_removed_what_is_to_come_is_refused(place: Place) -> None:
    pump = place.pump("a")
    pump.gc_ms = (place.from_ts >> 18) + 1000
    fails(place.reader(), "pump a .* has removed its binlogs up to")


def test_what_is_removed_while_it_is_read_is_seen_too(place: Place) -> None:
    pump = place.pump("a")
    reader = place.reader()
    ts = place.idle(pump)
    reader.until(lambda: reader.log.after_ts >= ts - 1)
    pump.gc_ms = (ts >> 18) + 60_000
    fails(reader, "has removed its binlogs")


def test_what_is_removed_just_before_a_pull_is_seen_before_anything_of_it_counts(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks from time to time comes too late: what was received by then is above the gap."""
    monkeypatch.setattr(streams_module, "check_kept", lambda *_: None)
    pump = place.pump("a")
    place.commit(pump)

    def collect() -> None:
        pump.gc_ms = (place.from_ts >> 18) + 1000

    pump.before_pull = collect
    reader = place.reader()
    fails(reader, "pump a .* has removed its binlogs up to")
    assert pump.pulls == [place.from_ts]
    assert not reader.log.rows


def test_a_tidb_that_skips_is_refused_when_it_is_so_for_longer(place: Place) -> None:
    pump = place.pump("a")
    place.nodes.skipping = ["TiDB 10.0.0.1:4000 (binlog_status Skipping)"]
    place.idle(pump)
    fails(place.reader(), r"TiDB 10\.0\.0\.1:4000 .*transactions go to no pump")


def test_a_stream_out_of_order_is_refused(place: Place) -> None:
    pump = place.pump("a")
    reader = place.reader()
    ts = place.commit(pump)
    pump.commit(ts - 1, transaction(ts - 2, ts - 1, b""))
    fails(reader, "pumps send in order", MessageUnreadable)


def test_a_registry_without_pumps_is_refused(place: Place) -> None:
    fails(place.reader(), "names no pump")


def test_pd_that_is_away_holds_and_is_lost_in_the_end(place: Place) -> None:
    pump = place.pump("a")
    reader = place.reader(outage_max_s=4.0)
    ts = place.idle(pump)
    reader.until(lambda: reader.log.after_ts >= ts - 1)
    place.pd.error = FeedLost("PD has no leader", hint="wait")
    reader.until(lambda: reader.streams.view().held_by().startswith("PD, since"))
    fails(reader, "PD has no leader", FeedLost)


def test_an_address_that_is_taken_is_reported(place: Place) -> None:
    place.pump("a")
    first = place.streams()
    first.seek({})
    eventually(lambda: place.nodes.entry is not None)
    assert place.nodes.entry is not None
    with pytest.raises(ConfigError, match="cannot be listened on"):
        place.streams(listen=place.nodes.entry.host).seek({})
