"""Pumps as lanes: every recording through PumpStreams and the sequence, with joins, deaths and crashes; what is bounded, and what we
publish (what holds, lets go and is refused: test_binlog_holds.py). With real etcd: tests/integration/test_binlog_registry.py."""

from __future__ import annotations

from random import Random
from time import monotonic, sleep

import grpc
import pytest

from sidecar.binlog.nodes import ONLINE, PAUSED
from sidecar.feeds.binlog import pump as pump_module
from sidecar.feeds.binlog import streams as streams_module
from sidecar.feeds.binlog.joining import PUMPS_LANE, lane_of
from sidecar.shared.errors import FeedLost
from sidecar.shared.model.nouns import CommitTs
from tests.lanes import LANE
from tests.support.binlog_reader import Log, Reader
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.made_pumps import MadePump, RecordedPumps, World, fake, recorded_pumps
from tests.support.recordings import recording
from tests.unit.feeds.pumps import Place, placed, quick
from ticdc_dump.binlog import cistern_pb2, cistern_pb2_grpc

RECORDINGS = ("binlog", "binlog-faults", "binlog-dups", "binlog-ddl2")
WHOLE = (*RECORDINGS, "binlog-ddl", "binlog-ignore", "binlog-stuck", "binlog-totidb")

# ---- recordings ---------------------------------------------------------------------------------------------------------


def play(recorded: RecordedPumps, seed: int) -> list[tuple[int, int]]:
    """A life: the world advances by jumps, while connections break, pumps die and come back elsewhere, and the reader crashes."""
    random = Random(seed)
    moments = recorded.moments()
    end_ms = moments[-1]
    with placed(recorded.start_ts) as place, World(recorded, place.nodes, place.pd) as world:
        log = Log(recorded.start_ts)
        reader = place.reader(log)
        while moments:
            del moments[: random.randint(1, 60)]
            world.advance(moments[0] if moments else end_ms)
            for _ in range(random.randint(0, 4)):
                reader.step(0.005)
            if random.random() < 0.15:
                random.choice([*world.pumps.values()]).break_streams()
            if random.random() < 0.05:
                world.restart(random.choice([*world.pumps]))
            if random.random() < 0.1:
                reader.streams.close()
                reader = place.reader(log)
        last_ts = max(pump.max_commit_ts for pump in world.pumps.values())
        for pump in world.pumps.values():
            pump.commit(last_ts + 1, fake(last_ts + 1))
        reader.until(lambda: log.after_ts >= last_ts)
        return log.rows


@pytest.mark.parametrize("seed", range(20 if LANE.whole else 1))
@pytest.mark.parametrize("name", WHOLE if LANE.whole else RECORDINGS)
def test_a_recording_comes_out_merged_and_each_transaction_once(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    recorded = recorded_pumps(recording(name))
    assert play(recorded, seed) == recorded.merged()


# ---- joining ------------------------------------------------------------------------------------------------------------


def test_a_pump_that_registers_after_the_look_loses_nothing(place: Place) -> None:
    """Its first transaction commits right after the registry was read, before the next look."""
    first, second = place.pump("a"), place.pump("b", register=False)
    reader = place.reader()
    place.idle(first)
    reader.until(lambda: reader.log.after_ts > place.from_ts)
    place.register(second)
    of_second = place.commit(second)
    last = place.idle(first)
    reader.until(lambda: lane_of("b") in reader.streams.lanes())
    last = place.idle(first, second)
    reader.until(lambda: reader.log.after_ts >= last - 1)
    assert [commit_ts for commit_ts, _ in reader.log.rows] == [of_second]


def test_a_mark_comes_with_the_pumps_that_it_counts_on(place: Place) -> None:
    place.pump("a")
    streams = place.streams()
    streams.seek({})
    eventually(lambda: any(message.lane == PUMPS_LANE for message in streams.poll(timeout_s=0.01)))
    assert streams.lanes() == {PUMPS_LANE, lane_of("a")}


def test_a_binlog_from_after_the_last_look_makes_it_look_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    pump = place.pump("a")
    reader = place.reader()
    reader.until(lambda: reader.streams.view().pumps != ())
    monkeypatch.setattr(streams_module, "LOOK_EVERY_S", 3600.0)
    place.idle(pump)
    reader.until(lambda: reader.log.after_ts > place.from_ts)
    last = place.commit(pump)
    reader.until(lambda: reader.log.after_ts >= last)
    assert [commit_ts for commit_ts, _ in reader.log.rows] == [last]


def test_notify_is_answered_when_the_pump_is_a_lane(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "LOOK_EVERY_S", 3600.0)
    first, second = place.pump("a"), place.pump("b", register=False)
    streams = place.streams()
    streams.seek({})
    eventually(lambda: place.nodes.entry is not None and lane_of(first.node_id) in streams.lanes())
    place.register(second)
    assert place.nodes.entry is not None
    with grpc.insecure_channel(place.nodes.entry.host) as channel:
        cistern_pb2_grpc.CisternStub(channel).Notify(cistern_pb2.NotifyReq(), timeout=PATIENCE_S)  # type: ignore[no-untyped-call]
    assert lane_of("b") in streams.lanes()


def test_notify_fails_while_the_registry_cannot_be_read(place: Place) -> None:
    place.pump("a")
    streams = place.streams(outage_max_s=PATIENCE_S)
    streams.seek({})
    eventually(lambda: place.nodes.entry is not None)
    place.pd.error = FeedLost("no leader", hint="wait")
    assert place.nodes.entry is not None
    with grpc.insecure_channel(place.nodes.entry.host) as channel, pytest.raises(grpc.RpcError) as failed:
        cistern_pb2_grpc.CisternStub(channel).Notify(cistern_pb2.NotifyReq(), timeout=0.3)  # type: ignore[no-untyped-call]
    assert failed.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


# ---- connections --------------------------------------------------------------------------------------------------------


def test_a_stream_goes_on_above_what_came_last(place: Place) -> None:
    pump = place.pump("a")
    reader = place.reader()
    first = place.commit(pump)
    reader.until(lambda: reader.streams.view().pumps != () and reader.streams.view().pumps[0].handed_ts == first)
    pump.break_streams()
    second = place.commit(pump)
    last = place.idle(pump)
    reader.until(lambda: reader.log.after_ts >= last - 1)
    assert [commit_ts for commit_ts, _ in reader.log.rows] == [first, second]
    assert pump.pulls == [place.from_ts, first]


def test_a_connection_that_died_unseen_is_made_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump_module, "SILENT_S", 0.05)
    pump = place.pump("a")
    reader = place.reader()
    ts = place.idle(pump)
    reader.until(lambda: reader.log.after_ts >= ts - 1)
    pump.freeze()
    mine = place.commit(pump)
    last = place.idle(pump)
    place.register(pump)
    eventually(lambda: pump_is_left(reader))
    pump.thaw()
    reader.until(lambda: reader.log.after_ts >= last - 1)
    assert [commit_ts for commit_ts, _ in reader.log.rows] == [mine]


def pump_is_left(reader: Reader) -> bool:
    reader.step()
    return reader.streams.view().pumps[0].handed_ts > 0 and "CANCELLED" in str(reader.streams._streams[lane_of("a")].why)


def test_compressed_streams_and_large_binlogs(place: Place) -> None:
    pump = place.pump("a")
    reader = place.reader(gzip=True)
    mine = place.commit(pump, bytes(100 << 20))
    last = place.idle(pump)
    reader.until(lambda: reader.log.after_ts >= last - 1)
    assert [commit_ts for commit_ts, _ in reader.log.rows] == [mine]


# ---- bounds -------------------------------------------------------------------------------------------------------------

SHARE = 1 << 20
SENT_MAX = 64 << 20
"""By far less than there is: gRPC and the kernel hold some between a pump and us, at both ends."""


def test_pumps_are_held_while_nobody_polls(place: Place) -> None:
    first, second = place.pump("a"), place.pump("b")
    for _ in range(160):
        place.commit(first, bytes(1 << 20))
    streams = place.streams(queue_bytes_max=2 * SHARE)
    streams.seek({})
    eventually(lambda: streams.view().bytes_waiting > 0)
    settled(first)
    assert streams.view().bytes_waiting <= 2 * SHARE + (1 << 20) + 4096
    assert first.streamed_bytes <= SENT_MAX
    assert eventually(lambda: second.pulls) == [place.from_ts]


def test_while_one_pump_is_stuck_the_others_are_held_and_memory_is_bounded(place: Place) -> None:
    first, standing = place.pump("a"), place.pump("b")
    place.idle(standing)
    for _ in range(160):
        place.commit(first, bytes(1 << 20))
    reader = place.reader(queue_bytes_max=2 * SHARE, ahead_bytes_max=4 * SHARE)
    reader.until(lambda: reader.sequence.spilled_rows >= 4)
    before = -1
    while before != first.streamed_bytes:
        before = first.streamed_bytes
        for _ in range(20):
            reader.step(0.01)
    assert first.streamed_bytes <= SENT_MAX
    assert reader.sequence.spilled_rows <= 8
    assert reader.streams.view().bytes_waiting <= 3 * SHARE
    assert not reader.log.rows
    end = place.idle(standing)
    place.idle(first)
    reader.until(lambda: reader.log.after_ts >= end)
    assert len(reader.log.rows) == 160


def settled(pump: MadePump) -> None:
    """Until what it streams has not moved for a while."""
    before, since_s = -1, monotonic()
    while monotonic() - since_s < 0.3:
        sleep(0.01)
        if pump.streamed_bytes != before:
            before, since_s = pump.streamed_bytes, monotonic()


# ---- our entry ----------------------------------------------------------------------------------------------------------


def test_what_we_publish_is_what_is_durable_and_we_leave_as_paused(place: Place) -> None:
    pump = place.pump("a")
    streams = place.streams()
    streams.seek({})
    eventually(lambda: place.nodes.entry is not None)
    assert place.nodes.entry is not None
    assert (place.nodes.entry.state, place.nodes.entry.max_commit_ts) == (ONLINE, place.from_ts)
    ts = place.commit(pump)
    eventually(lambda: bool([one for one in streams.poll(timeout_s=0.01) if one.position == ts]))
    assert place.nodes.entry.max_commit_ts == place.from_ts
    streams.acknowledge(CommitTs(ts))
    eventually(lambda: place.nodes.entry is not None and place.nodes.entry.max_commit_ts == ts)
    streams.acknowledge(place.from_ts)
    streams.close()
    assert (place.nodes.entry.state, place.nodes.entry.max_commit_ts) == (PAUSED, ts)


def test_after_a_restart_we_publish_no_more_than_the_lanes_have(place: Place) -> None:
    place.pump("a")
    streams = place.streams()
    streams.seek({lane_of("a"): place.from_ts + 100, PUMPS_LANE: place.from_ts + 50})
    eventually(lambda: place.nodes.entry is not None)
    assert place.nodes.entry is not None
    assert place.nodes.entry.max_commit_ts == place.from_ts + 49
