"""The status on the wire: nothing of it is left out, and each enum goes both ways."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from sidecar.control.status import LaneStatus, ServiceStatus, SidecarStatus
from sidecar.control.wire import (
    ALMOST,
    BRACKETS,
    BRACKETS_NAMES,
    BRACKETS_REQUESTED,
    KIND_NAMES,
    KINDS,
    STATE_NAMES,
    STATES,
    dump_status,
    list_json,
    listed,
    share_done,
    status_json,
)
from sidecar.history.entry import HistoryEntry, OperationCommand, OperationKind, OperationScope
from sidecar.pace.controller import SinkState
from sidecar.shared.model.hole import HoleCause, OpenHole
from sidecar.shared.model.messages import Asker, Brackets, Pace
from sidecar.shared.model.nouns import CommitTs, Lane, OperationId, Seq, TableName
from sidecar.shared.model.progress import DumpState, Progress, Span, TableProgress
from sidecar.shared.model.sink_delivery import SinkTables
from sidecar.shared.ticdc.changefeed import ChangefeedName
from ticdc_dump.v1 import control_pb2 as pb

ORDERS, PARTS = TableName("shop", "orders"), TableName("shop", "parts")
TS = CommitTs(470_000_000_000_000_000)
HOLE = OpenHole(HoleCause.IMPORT, CommitTs(TS - 2), Seq(4), vanished=True, text="IMPORT INTO")
FOR_METRICS_ONLY = {"spilled_rows", "dropped_rows", "source_away_s", "rewrites"}
OF_A_VERIFICATION = {"verification_waits_for"}
"""The service has it in the status of the verification (verification_messages.py)."""
STATUS = SidecarStatus(
    changefeed=ChangefeedName("default", "ns", "cf"),
    epoch=2,
    owner="here:1",
    dumps=(
        Progress(
            dump_id="a" * 16,
            state=DumpState.RUNNING,
            brackets=Brackets.SNAPSHOT,
            chunk_rows=10,
            epoch=1,
            revision=1,
            seq=Seq(1),
            tables=(TableProgress(ORDERS, spans=(), chunks=3, rows=30, bytes=300, complete_at=TS),),
            reason="denied",
            pace=Pace(0, 21, 22, 2.5),
            sinks=("file:///out",),
            for_ddl=CommitTs(TS - 3),
        ),
    ),
    resolved_ts=TS,
    delivered_ts=CommitTs(TS - 1),
    open_windows=3,
    resolved_lag_s=0.25,
    delivery_lag_s=1.5,
    lanes=(LaneStatus(Lane("kafka/t/0"), TS, 0.5),),
    waiting_for="source: a SELECT",
    stream_waiting_for="source: a SELECT",
    rows_per_s=100.0,
    bytes_per_s=1000.0,
    eta_s=7.0,
    changes=11,
    repeats=12,
    segments=13,
    spilled_rows=14,
    dropped_rows=15,
    ddls=16,
    last_ddl_ts=CommitTs(TS - 2),
    last_ddl="DROP TABLE t",
    merge_worker="running",
    read_on="spark",
    last_error="TiDB went away",
    estimates={ORDERS: 40},
    readers=2,
    strict_bound=True,
    skipped_rows=17,
    ambiguous_timestamps=18,
    sinks=(
        SinkState(
            "file:///out",
            0.6,
            0.5,
            0.04,
            75_000,
            True,
            lag_s=0.7,
            error="no leader",
            limit_s=0.9,
            fixed_s=0.2,
            began=Seq(3),
            median_s=0.1,
            overloaded=True,
        ),
    ),
    source_away_s=84.0,
    carried=(ORDERS, PARTS, TableName("shop", "stock")),
    services=(ServiceStatus("verifications", "access denied", failures=2, again_s=1.5),),
    sink_tables={
        "file:///out": SinkTables(
            "file:///out", "file:///out", Seq(3), CommitTs(TS - 3), Seq(5), CommitTs(TS), {ORDERS: CommitTs(TS - 1)}, holes={PARTS: HOLE}
        )
    },
)


def test_every_value_of_a_status_is_on_the_wire_or_for_metrics_only() -> None:
    wire = dump_status(STATUS)
    for field in (field.name for field in fields(STATUS)):
        other = (
            replace(STATUS, **{field: type(getattr(STATUS, field))()}) if isinstance(getattr(STATUS, field), int | float | str) else None
        )
        if other is not None:
            assert (dump_status(other) == wire) == (field in FOR_METRICS_ONLY | OF_A_VERIFICATION), field


def test_every_field_of_the_wire_is_filled() -> None:
    wire = dump_status(STATUS)
    sink = wire.sinks[0]
    whole, holed, lacking = sink.tables
    assert lacking == pb.SinkTableStatus(schema="shop", table="stock")
    whole.MergeFrom(holed)
    for message in (wire, wire.changefeed, wire.tables[0], wire.lanes[0], wire.settings, sink, whole, wire.services[0]):
        empty = {field.name for field in message.DESCRIPTOR.fields if not getattr(message, field.name)}
        assert empty <= {"subscribers", "timeline"}, f"{type(message).__name__}: of these alone the service tells by itself"


def test_the_dump_that_is_reported_is_that_of_the_process_that_owns_the_changefeed() -> None:
    wire = dump_status(STATUS)
    assert (wire.epoch, wire.owner) == (2, "here:1")
    assert (wire.resolved_tso, wire.delivered_tso, wire.last_ddl_tso) == (TS, TS - 1, TS - 2)
    assert (wire.rows_per_second, wire.bytes_per_second, wire.eta_s) == (100.0, 1000.0, 7.0)
    assert (wire.tables[0].rows_estimated, wire.tables[0].complete_at_tso) == (40, TS)


def test_each_sink_says_of_each_table_from_where_on_it_is_complete() -> None:
    (sink,) = dump_status(STATUS).sinks
    assert list(sink.tables) == [
        pb.SinkTableStatus(schema="shop", table="orders", complete_since_tso=TS - 1),
        pb.SinkTableStatus(schema="shop", table="parts", incomplete_since_tso=TS - 2, cause="import", text="IMPORT INTO", vanished=True),
        pb.SinkTableStatus(schema="shop", table="stock"),
    ]
    shown = status_json(dump_status(STATUS))["sinks"][0]["tables"]
    assert [one["incomplete_since_tso"] for one in shown] == ["0", str(TS - 2), "0"]
    (new,) = dump_status(replace(STATUS, sink_tables={})).sinks
    assert (new.tables_known, list(new.tables)) == (False, [])


def test_the_settings_reported_are_those_in_force() -> None:
    assert dump_status(STATUS).settings == pb.DumpSettings(
        chunk_rows=10, readers=2, rows_per_second=21, bytes_per_second=22, delivery_bound_seconds=2.5, strict_bound=True
    )
    assert STATUS.progress is not None
    reported = dump_status(replace(STATUS, dumps=(replace(STATUS.progress, pace=Pace(readers=7)),))).settings
    assert (reported.readers, reported.delivery_bound_seconds) == (7, 0.5)


def test_what_is_unknown_is_zero_and_without_a_dump_there_is_none() -> None:
    wire = dump_status(SidecarStatus(STATUS.changefeed, epoch=1, owner="here:1"))
    assert wire == pb.DumpStatus(changefeed=pb.Changefeed(namespace="ns", id="cf"), epoch=1, owner="here:1")
    assert status_json(wire)["state"] == "none"
    assert status_json(wire)["resolved_tso"] == "0"


def test_every_field_of_an_operation_is_filled_and_in_the_json() -> None:
    asker = Asker("certificate alice", "10.0.0.7:41000", "why")
    entry = HistoryEntry(
        id=OperationId("b" * 16),
        kind=OperationKind.VERIFICATION,
        scope=OperationScope(("s.t",), 4, 1, 2, ("lake",), 11),
        asked_by=asker,
        started_ms=1,
        state=DumpState.FINISHED,
        ended_ms=2,
        result="3 differences",
        rows=5,
        bytes=6,
        chunks=7,
        running_s=8.5,
        commands=(OperationCommand("pause", asker, 9),),
        commands_before=10,
    )
    response = listed(pb.ListRequest(), STATUS, [entry], now_ms=99)
    (operation,) = response.operations
    for message in (operation, operation.scope, operation.asked_by, operation.commands[0], operation.commands[0].asked_by, response):
        assert not {field.name for field in message.DESCRIPTOR.fields if not getattr(message, field.name)}, type(message).__name__
    shown = list_json(response)
    assert shown["changefeed"] == {"namespace": "ns", "id": "cf"}
    (of_it,) = shown["operations"]
    assert set(of_it) == {field.name for field in operation.DESCRIPTOR.fields}
    assert (of_it["kind"], of_it["state"], of_it["seconds"], of_it["rows"]) == ("verification", "finished", 8.5, 5)
    assert of_it["commands"] == [
        {"command": "pause", "asked_by": {"name": asker.name, "address": asker.address, "reason": "why"}, "at_ms": 9}
    ]
    assert KIND_NAMES[operation.kind] == "verification"


@pytest.mark.parametrize(
    ("table", "ours", "message"),
    [(STATES, DumpState, pb.DumpState), (BRACKETS, Brackets, pb.Brackets), (KINDS, OperationKind, pb.OperationKind)],
)
def test_each_word_of_ours_is_one_of_the_wires_and_back(table: dict[object, int], ours: type, message: object) -> None:
    values = set(message.values())  # type: ignore[attr-defined]  # a wrapper of protobuf's, whose type is not its stub's
    assert set(table) == set(ours)  # type: ignore[call-overload]  # an enum
    assert set(table.values()) == values - {0}


def test_the_words_for_people_and_what_a_request_means_are_of_the_same_tables() -> None:
    assert {STATE_NAMES[wire] for wire in STATES.values()} == {state.value for state in DumpState}
    assert {BRACKETS_NAMES[wire]: BRACKETS_REQUESTED[wire] for wire in BRACKETS.values()} == {str(one): one for one in Brackets}
    assert BRACKETS_REQUESTED[pb.BRACKETS_UNSPECIFIED] is None, "the sidecar's settings say"


def of_table(rows: int, estimated: int, *, complete: bool = False) -> pb.TableStatus:
    return pb.TableStatus(schema="s", table="t", rows=rows, rows_estimated=estimated, complete_at_tso=TS if complete else 0)


def test_progress_weighs_rows() -> None:
    small = [of_table(100, 100, complete=True)] * 9
    assert share_done([*small, of_table(0, 1_000_000)]) < 0.01, "nine of ten tables are next to nothing"
    assert share_done([*small, of_table(500_000, 1_000_000)]) == pytest.approx(0.5, abs=0.001)
    assert share_done([*small, of_table(990_000, 1_000_000, complete=True)]) == 1.0
    assert share_done([]) == 1.0


def test_progress_is_whole_only_where_every_table_is() -> None:
    assert share_done([of_table(5_000, 1_000)]) == ALMOST, "an estimate was too small"
    assert share_done([of_table(5_000, 0)]) == ALMOST
    assert share_done([of_table(0, 0)]) == 0.0
    assert share_done([of_table(0, 0), of_table(0, 0, complete=True)]) < 1.0


def test_a_table_without_an_estimate_counts_as_the_others_do() -> None:
    assert share_done([of_table(1_000, 1_000, complete=True), of_table(0, 0)]) == pytest.approx(0.5)
    assert share_done([of_table(1_000, 1_000, complete=True), of_table(500, 0)]) == pytest.approx(0.75)


def test_statistics_are_of_whole_tables() -> None:
    assert STATUS.progress is not None
    table = replace(STATUS.progress.tables[0], spans=(Span(),), complete_at=None)

    def estimated(one: TableProgress) -> int:
        assert STATUS.progress is not None
        return int(dump_status(replace(STATUS, dumps=(replace(STATUS.progress, tables=(one,)),))).tables[0].rows_estimated)

    assert estimated(table) == 40
    assert estimated(replace(table, keys=(("1",), ("2",)))) == 2
    assert estimated(replace(table, past_keys=3)) == 3, "of a dump that has finished"
    assert estimated(replace(table, where="id < 5")) == 0
