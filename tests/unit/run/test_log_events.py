"""What the log tells: each line, from the values that it is made of."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sidecar.control.status import SidecarStatus
from sidecar.pace.controller import SinkState
from sidecar.run import log_events
from sidecar.run.dump_events import TABLES_REPORTED_MAX
from sidecar.run.log_event import LogEvent
from sidecar.run.log_events import DDL_CHARS_MAX, MINUTE_S, StatusEvents
from sidecar.run.merge_process import Death
from sidecar.shared.config import Config, DumpSection
from sidecar.shared.errors import FeedLost, LogBroken, OwnershipLost, with_hint
from sidecar.shared.log.delivery_report import DeliveryReport
from sidecar.shared.log.filled import FilledWord
from sidecar.shared.model.hole import HoleCause, OpenHole
from sidecar.shared.model.messages import Brackets, Pace
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.progress import DumpState, Progress, TableProgress
from sidecar.shared.model.sink_delivery import SinkDelivery, SinkTables
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName
from tests.unit.run.test_term import SETTINGS

NAME = ChangefeedName("default", "default", "orders")
SECRET = "hunter2"
SINKS = ["file:///out?format=parquet", f"s3://bucket/out?format=jsonl&access-key=me&secret-access-key={SECRET}"]
LOG = f"s3://bucket/log?access-key=me&secret-access-key={SECRET}"
CHANGEFEED = Changefeed(NAME, "1", f"kafka://me:{SECRET}@broker:9092/orders?protocol=open-protocol&sasl-password={SECRET}")
PLACE = {"brokers": "broker:9092", "topics": "orders"}
AT = 1_763_800_000_000 << 18
"""A TSO: 2025-11-22, 08:26:40 UTC."""
BASE = SidecarStatus(NAME, 3, "here:1", resolved_ts=CommitTs(AT), delivered_ts=CommitTs(AT), segments=7, merge_worker="external")
RUNNING = replace(BASE, merge_worker="running")
ITEM, ORDER = TableName("shop", "item"), TableName("shop", "order")
DUMP = Progress("0123456789abcdef", DumpState.RUNNING, Brackets.WATERMARK, 1000, 3, 1, Seq(-1), (TableProgress(ITEM), TableProgress(ORDER)))


def config() -> Config:
    return msgspec.convert(SETTINGS | {"log": {"uri": LOG}, "sinks": SINKS}, Config)


class Checking:
    """The news of one term whose first status is told already."""

    def __init__(self, first: SidecarStatus = BASE, report: DeliveryReport | None = None, *, settings: Config | None = None) -> None:
        self._events, self.at_s, self.report = StatusEvents(settings or config(), CHANGEFEED, PLACE), 100.0, report
        self.first = self._events.received(first, report, self.at_s)

    def __call__(self, status: SidecarStatus, after_s: float = 0.5) -> list[LogEvent]:
        self.at_s += after_s
        return self._events.received(status, self.report, self.at_s)

    def one(self, status: SidecarStatus, after_s: float = 0.5) -> LogEvent:
        (line,) = self(status, after_s)
        return line


def dump(rows: Mapping[TableName, int], *, done: tuple[TableName, ...] = (), **changed: Any) -> Progress:
    """DUMP with so many rows, a chunk a table that has any."""
    tables = tuple(
        replace(
            table,
            rows=rows.get(table.table, 0),
            bytes=10 * rows.get(table.table, 0),
            chunks=int(table.table in rows),
            complete_at=CommitTs(AT) if table.table in done else None,
        )
        for table in DUMP.tables
    )
    return replace(DUMP, tables=tables, **changed)


def with_dump(progress: Progress | None) -> SidecarStatus:
    return replace(BASE, dumps=() if progress is None else (progress,))


def report(*accepted: int | None, seq: int | None = 5, **changed: Any) -> DeliveryReport:
    sinks = tuple(SinkDelivery(f"file:///{number}", None if one is None else Seq(one)) for number, one in enumerate(accepted))
    return replace(DeliveryReport(None if seq is None else Seq(seq), CommitTs(AT), "running", 0, sinks=sinks), **changed)


# ---- the process ---------------------------------------------------------------------------------------------------------


def test_a_start_reports_what_is_served_and_where_it_is_served() -> None:
    values = {"version": "9.9", "changefeed": "default/default/orders", "control": "127.0.0.1:8310", "metrics": "127.0.0.1:8311"}
    assert log_events.started(config(), version="9.9") == LogEvent("started", values)


def test_a_standby_reports_who_owns_the_changefeed() -> None:
    assert log_events.standby("other:8310") == LogEvent("standby", {"owner": "other:8310"})
    assert log_events.standby(None).values == {"owner": "not known yet"}


def test_an_owner_reports_what_it_is_attached_to() -> None:
    assert Checking().first[0] == LogEvent(
        "attached",
        {
            "changefeed": "default/default/orders",
            "epoch": 3,
            "feed": "kafka",
            "brokers": "broker:9092",
            "topics": "orders",
            "log": "s3://bucket/log",
            "segments": 7,
            "resolved": "2025-11-22T08:26:40.000Z",
            "sinks": "file:///out?format=parquet, s3://bucket/out?format=jsonl",
            "merge_worker": "managed",
        },
    )


def test_a_takeover_reports_how_long_it_was_a_standby() -> None:
    assert log_events.attached(config(), CHANGEFEED, PLACE, BASE, waited_s=12.4).values["standby_s"] == 12


def test_a_log_that_is_empty_has_no_position() -> None:
    assert log_events.attached(config(), CHANGEFEED, {}, replace(BASE, segments=0, resolved_ts=None), waited_s=0).values["resolved"] == "-"


def test_no_line_has_a_secret_of_the_settings_or_of_the_changefeed() -> None:
    assert SECRET in str(config().sinks) + CHANGEFEED.sink_uri
    assert SECRET not in repr([log_events.started(config(), version="1"), *Checking().first])


@pytest.mark.parametrize(
    ("error", "goes_on", "then"),
    [(FeedLost, True, "tried again"), (OwnershipLost, True, "a standby"), (LogBroken, False, "the process ends")],
)
def test_the_end_of_a_term_reports_why_what_to_do_and_what_comes_then(error: Any, goes_on: bool, then: str) -> None:
    line = log_events.term_ended(error("it broke", hint="mend it"), goes_on=goes_on)
    assert line == LogEvent("the term ended", {"error": error.__name__, "text": "it broke", "hint": "mend it", "then": then}, "warning")


def test_what_is_not_reachable_at_the_start_is_reported() -> None:
    line = log_events.cannot_begin(FeedLost("no broker", hint="start one"))
    assert line == LogEvent("cannot begin yet", {"error": "FeedLost", "text": "no broker", "hint": "start one"}, "warning")


def test_a_death_of_the_merge_worker_is_reported_with_its_exit_code() -> None:
    assert log_events.worker_died(Death(-9, 12.6, 2.0)) == LogEvent(
        "merge worker died", {"exit_code": -9, "lived_s": 13, "again_in_s": 2}, "warning"
    )


def test_the_end_is_reported() -> None:
    assert log_events.stopped() == LogEvent("stopped on request", {})


# ---- the stream ----------------------------------------------------------------------------------------------------------


def test_a_segment_is_no_event() -> None:
    reported = Checking()
    assert (
        reported(replace(BASE, segments=8, changes=100, resolved_ts=CommitTs(AT + 1), resolved_lag_s=9.0, waiting_for="Spark: slow")) == []
    )


def test_a_merge_worker_is_reported_when_it_starts_when_it_is_ready_and_when_it_starts_again() -> None:
    reported = Checking(replace(BASE, merge_worker="starting"))
    assert reported.first[1] == LogEvent("merge worker started", {})
    assert reported.one(RUNNING, after_s=3.0) == LogEvent("merge worker ready", {"seconds": 3.0})
    assert reported(replace(BASE, merge_worker="stopped")) == [], "told by who minds it"
    assert reported.one(replace(BASE, merge_worker="starting")).event == "merge worker started"
    assert reported.one(RUNNING).values == {"seconds": 0.5}


def test_spark_is_reported_when_it_is_ready_which_may_be_later() -> None:
    reported = Checking(replace(BASE, merge_worker="starting"))
    reported.report = report(spark="ready")
    assert reported(replace(BASE, merge_worker="starting")) == [], "a report of the worker before it"
    reported.report = report(spark="starting")
    assert reported.one(RUNNING).event == "merge worker ready"
    reported.report = report(spark="ready")
    assert reported.one(RUNNING, after_s=5.0) == LogEvent("Spark ready", {"seconds": 5.0})


def test_spark_is_reported_when_it_ends_and_a_worker_that_has_not_started_one_says_nothing_of_it() -> None:
    lines = Checking(RUNNING)
    for pid in (7, 8):
        lines.report = report(pid=pid, spark="starting")
        assert lines(RUNNING) == []
        lines.report = report(pid=pid, spark="ready")
        assert lines.one(RUNNING).event == "Spark ready"
    lines.report = report(pid=8)
    assert lines.one(RUNNING) == LogEvent("Spark ended: it was idle", {})
    lines.report = report(pid=8, spark="starting")
    assert lines(RUNNING) == []
    lines.report = report(pid=8, spark="ready")
    assert lines.one(RUNNING).event == "Spark ready"
    lines.report = report(pid=9)
    assert lines(RUNNING) == []
    assert lines(RUNNING) == []


def test_a_merge_worker_of_others_is_theirs_to_report() -> None:
    assert [line.event for line in Checking(replace(BASE, merge_worker="external")).first] == ["attached"]


def test_the_first_delivery_of_a_term_is_reported_once() -> None:
    reported = Checking()
    assert reported(BASE) == []
    later = replace(BASE, delivered_ts=CommitTs(AT + (1000 << 18)))
    assert reported.one(later, after_s=2.0) == LogEvent("first delivery", {"delivered": "2025-11-22T08:26:41.000Z", "seconds": 2.5})
    assert reported(replace(later, delivered_ts=CommitTs(AT + (2000 << 18)))) == []


def test_a_sink_that_lacks_rows_is_reported_once_with_the_dump_that_brings_them() -> None:
    reported = Checking(report=report(5))
    assert reported(BASE) == []
    a, b = TableName("shop", "a"), TableName("shop", "b")
    late, whole = (
        SinkTables(name, name, Seq(3), CommitTs(5), Seq(9), CommitTs(9), {table: CommitTs(7) for table in complete})
        for name, complete in (("late", (b,)), ("whole", (a, b)))
    )
    sinks = tuple(SinkState(one.sink, 0.1, 0.5, 0.1, 0, holds=False, began=one.began_seq) for one in (late, whole))
    known = replace(BASE, carried=(a, b), sinks=sinks, sink_tables={"late": late, "whole": whole})
    line = reported.one(known)
    assert (line.event, line.level) == ("sink lacks rows", "warning")
    assert line.values == {
        "sink": "late",
        "tables": "1/2",
        "not_complete": "shop.a",
        "began_segment": 3,
        "hint": "ticdc-dump dumpstart -c orders --sink late --tables shop.a",
    }
    assert reported(known) == []
    other = replace(known, sink_tables={"late": late, "whole": replace(whole, complete={a: CommitTs(7)})})
    line = reported.one(other)
    assert (line.values["sink"], line.values["not_complete"]) == ("whole", "shop.b"), "N9: under that name there is another output"
    assert reported(other) == []
    assert reported(known) == []


def test_of_a_table_with_a_hole_the_hole_is_reported_and_not_that_the_sink_lacks_rows() -> None:
    term = Checking(report=report(5))
    a, b = TableName("shop", "a"), TableName("shop", "b")
    hole = OpenHole(HoleCause.IMPORT, CommitTs(AT), Seq(7), vanished=False, text="IMPORT INTO")
    lake = SinkTables("lake", "lake", Seq(3), CommitTs(5), Seq(9), CommitTs(9), {b: CommitTs(7)}, holes={a: hole})
    sink = SinkState("lake", 0.1, 0.5, 0.1, 0, holds=False)
    line = term.one(replace(BASE, carried=(a, b), sinks=(sink,), sink_tables={"lake": lake}))
    assert (line.event, line.values["tables"], line.values["cause"]) == ("hole noticed", "shop.a", "import")
    said = (FilledWord("lake", 0, a, 0, Seq(7), "alice@db1", "by hand", 1),)
    lines = term(replace(BASE, carried=(a, b), sinks=(sink,), sink_tables={"lake": replace(lake, holes={})}, filled_words=said))
    assert [(line.event, line.values.get("by", line.values.get("not_complete"))) for line in lines] == [
        ("hole filled", "alice@db1"),
        ("sink lacks rows", "shop.a"),
    ], "it was not complete before either"


def test_a_sink_that_is_stuck_is_reported_with_the_way_out_and_when_it_continues() -> None:
    reported = Checking(report=report(5))
    assert reported(BASE) == []
    reported.report = report(sinks=(SinkDelivery("file:///0", Seq(5), error=with_hint("no room left", "make room")),))
    assert reported.one(BASE) == LogEvent("sink stopped", {"sink": "file:///0", "text": "no room left", "hint": "make room"}, "warning")
    assert reported(BASE) == []
    reported.report = report(6)
    assert reported.one(BASE) == LogEvent("sink resumed", {"sink": "file:///0"})


def test_rows_that_an_operator_leaves_out_are_reported_by_every_owner_and_when_there_are_more() -> None:
    hint = "ticdc-dump skip --config FILE --list shows them"
    reported = Checking(report=report(5, skipped=1))
    assert LogEvent("rows skipped", {"rows": 1, "hint": hint}, "warning") in reported.first
    assert reported(BASE) == []
    reported.report = report(5, skipped=3)
    assert reported.one(BASE) == LogEvent("rows skipped", {"rows": 3, "hint": hint}, "warning")


def test_ambiguous_timestamps_are_reported_once_a_minute_at_most() -> None:
    reported = Checking(report=report(5))
    reported.report = report(5, guessed=2)
    assert reported(BASE, after_s=MINUTE_S - 1) == []
    line = LogEvent("ambiguous timestamps", {"values": 2, "hint": "taken as kafka.ambiguous says"}, "warning")
    assert reported(BASE, after_s=1)[0] == line
    assert line not in reported(BASE, after_s=MINUTE_S)


def test_a_ddl_is_reported_on_one_line() -> None:
    reported = Checking()
    passed = replace(BASE, ddls=1, last_ddl_ts=CommitTs(AT), last_ddl="ALTER TABLE `shop`.`item`\n  ADD COLUMN a INT")
    values = {"at": "2025-11-22T08:26:40.000Z", "query": "ALTER TABLE `shop`.`item` ADD COLUMN a INT"}
    assert reported.one(passed) == LogEvent("DDL passed", values)
    assert reported(passed) == []
    long = reported.one(replace(passed, ddls=4, last_ddl="x" * 1000)).values
    assert long["more_before_it"] == 2
    assert long["query"] == "x" * DDL_CHARS_MAX + " …"


def test_a_ddl_beside_which_rows_may_be_wrong_is_reported_with_its_tables_and_what_to_do() -> None:
    reported = Checking()
    passed = replace(BASE, rewrites=1, rewritten=(TableName("shop", "item"),))
    line = reported.one(passed)
    assert (line.event, line.level, line.values["tables"]) == ("rows beside a DDL may be wrong", "warning", "shop.item")
    assert "dump it again" in str(line.values["hint"])
    assert reported(passed) == []


def test_how_the_stream_goes_is_one_line_a_minute() -> None:
    reported = Checking(replace(BASE, segments=10, changes=1000), report(5))
    status = replace(BASE, segments=70, changes=31_000, resolved_lag_s=0.44, delivery_lag_s=0.21, waiting_for="TiCDC: slow")
    assert reported(status, after_s=MINUTE_S - 1) == []
    reported.report = report(65, seq=65)
    assert reported.one(status, after_s=1) == LogEvent(
        "resolved",
        {
            "at": "2025-11-22T08:26:40.000Z",
            "lag_s": 0.4,
            "segments": 60,
            "rows": 30_000,
            "delivered": "2025-11-22T08:26:40.000Z",
            "delivery_lag_s": 0.2,
            "delivered_segments": 60,
            "waiting_for": "TiCDC: slow",
        },
    )
    assert reported(status, after_s=MINUTE_S - 1) == []
    assert reported.one(status, after_s=1).values["segments"] == 0


def test_each_of_several_sinks_has_its_lag() -> None:
    sinks = tuple(SinkState(name, 0.1, 0.5, 0.1, 1, False, lag_s=lag_s) for name, lag_s in (("a", 0.04), ("b", 7200.0)))
    reported = Checking(replace(BASE, segments=7), report(5, 5))
    line = reported.one(replace(BASE, segments=9, sinks=sinks), after_s=MINUTE_S)
    assert line.values["sinks"] == "a 0.0 s behind, b 7200.0 s behind"


# ---- the dump ------------------------------------------------------------------------------------------------------------


def test_a_dump_is_reported_from_its_begin_to_its_end_with_figures() -> None:
    reported = Checking()
    pace = Pace(readers=4, rows_per_s=1000)
    begun = {"dump": DUMP.dump_id, "tables": "0/2", "brackets": "watermark", "chunk_rows": 1000, "readers": 4, "rows_per_s": 1000}
    assert reported.one(with_dump(replace(DUMP, pace=pace))) == LogEvent("dump begun", begun)
    assert reported(with_dump(dump({ITEM: 500}, pace=pace)), after_s=1.5) == []
    done = reported.one(with_dump(dump({ITEM: 4000}, done=(ITEM,), pace=pace)), after_s=2.0)
    assert done == LogEvent("table done", {"table": "shop.item", "rows": 4000, "seconds": 4.0, "rows_per_s": 1000})
    assert reported(with_dump(dump({ITEM: 4000, ORDER: 500}, done=(ITEM,), pace=pace)), after_s=1.0) == []
    ended = dump({ITEM: 4000, ORDER: 1000}, done=(ITEM, ORDER), state=DumpState.FINISHED, pace=pace)
    table, end = reported(with_dump(ended), after_s=1.0)
    assert table.values == {"table": "shop.order", "rows": 1000, "seconds": 2.0, "rows_per_s": 500}
    figures = {"rows": 5000, "seconds": 6.0, "rows_per_s": 833, "bytes": 50_000}
    assert end == LogEvent("dump finished", {"dump": DUMP.dump_id, "tables": "2/2", **figures})
    assert reported(with_dump(ended)) == []


def test_a_pause_is_reported_and_costs_the_rate_nothing() -> None:
    reported = Checking(with_dump(DUMP))
    paused = reported.one(with_dump(dump({ITEM: 1000}, state=DumpState.PAUSED)), after_s=1.0)
    figures = {"rows": 1000, "seconds": 1.0, "rows_per_s": 1000}
    assert paused == LogEvent("dump paused", {"dump": DUMP.dump_id, "tables": "0/2", **figures})
    resumed = reported.one(with_dump(dump({ITEM: 1000})), after_s=50.0)
    assert resumed == LogEvent("dump resumed", {"dump": DUMP.dump_id, "tables": "0/2", **figures})
    stopped = reported.one(with_dump(dump({ITEM: 2000}, state=DumpState.STOPPED)), after_s=1.0)
    assert (stopped.event, stopped.values["seconds"], stopped.values["rows_per_s"]) == ("dump stopped", 2.0, 1000)


def test_a_failed_dump_is_a_warning_that_reports_why_and_what_to_do() -> None:
    reported = Checking(with_dump(DUMP))
    failed = reported.one(with_dump(dump({}, state=DumpState.FAILED, reason=with_hint("a SELECT was denied", "grant it"))))
    assert (failed.event, failed.level) == ("dump failed", "warning")
    assert (failed.values["reason"], failed.values["hint"]) == ("a SELECT was denied", "grant it")


def test_a_source_that_is_away_is_reported_and_when_it_is_back() -> None:
    running = with_dump(dump({}))
    reported = Checking(running)
    away = replace(running, source_away_s=61.2, last_error="no route to TiDB")
    assert reported.one(away) == LogEvent("source away", {"seconds": 61, "text": "no route to TiDB"}, "warning")
    assert reported(replace(away, source_away_s=126.0)) == []
    assert reported.one(running) == LogEvent("source is back", {"seconds": 126})
    reported(away)
    assert "source is back" not in [line.event for line in reported(with_dump(dump({}, state=DumpState.STOPPED)))]


def test_what_an_operator_changes_of_a_dump_is_reported() -> None:
    reported = Checking(with_dump(DUMP))
    line = reported.one(with_dump(replace(DUMP, chunk_rows=50, pace=Pace(bytes_per_s=7))))
    assert line.event == "dump set"
    assert line.values.items() >= {"dump": DUMP.dump_id, "chunk_rows": 50, "bytes_per_s": 7}.items()


def test_what_an_operator_leaves_out_is_reported_as_what_is_in_force() -> None:
    def reported(pace: Pace, dump: DumpSection) -> dict[str, object]:
        events = Checking(with_dump(DUMP), settings=msgspec.structs.replace(config(), dump=dump))
        return dict(events.one(with_dump(replace(DUMP, chunk_rows=50, pace=pace))).values)

    unset = reported(Pace(), DumpSection(readers=3))
    assert unset.items() >= {"readers": 3, "rows_per_s": "unbounded", "bytes_per_s": "unbounded", "delivery_bound_s": "automatic"}.items()
    assert reported(Pace(), DumpSection(delivery_bound_s=20))["delivery_bound_s"] == 20
    given = Pace(readers=1, rows_per_s=2, bytes_per_s=3, delivery_bound_s=4)
    assert reported(given, DumpSection(readers=3, delivery_bound_s=20)).items() >= asdict(given).items()


def test_a_dump_that_has_failed_is_told_by_each_owner_also_the_one_whose_start_found_it_so() -> None:
    reported = Checking(with_dump(dump({}, state=DumpState.FAILED, reason=with_hint("its log is another one", "dumprestart"))))
    failed = reported.first[1]
    assert (failed.event, failed.level, failed.values["reason"]) == ("dump failed", "warning", "its log is another one")
    assert reported(with_dump(dump({}, state=DumpState.FAILED))) == []


def test_a_dump_that_is_taken_over_is_reported_and_what_came_before_is_beside_the_rate() -> None:
    reported = Checking(with_dump(dump({ITEM: 900})))
    assert reported.first[1].event == "dump taken over"
    assert reported.first[1].values.items() >= {"state": "running", "rows": 900, "tables": "0/2"}.items()
    done = reported.one(with_dump(dump({ITEM: 1000}, done=(ITEM,))), after_s=1.0)
    figures = {"rows": 1000, "seconds": 1.0, "rows_of_previous_owners": 900, "rows_per_s": 100}
    assert done.values == {"table": "shop.item", **figures}
    end = reported(with_dump(dump({ITEM: 1000, ORDER: 100}, done=(ITEM, ORDER), state=DumpState.FINISHED)), after_s=1.0)[-1]
    assert end.values.items() >= {"rows": 1100, "seconds": 2.0, "rows_of_previous_owners": 900, "rows_per_s": 100}.items()


def test_a_dump_that_was_over_before_this_owner_is_no_event() -> None:
    over = with_dump(dump({ITEM: 900}, state=DumpState.FINISHED))
    reported = Checking(over)
    assert [line.event for line in reported.first] == ["attached"]
    assert reported(over) == []
    assert reported.one(with_dump(replace(DUMP, dump_id="another"))).event == "dump begun"


def test_a_restart_is_another_dump_whose_tables_are_reported_again() -> None:
    reported = Checking(with_dump(dump({ITEM: 1000}, done=(ITEM,))))
    begun, done = reported(with_dump(dump({ITEM: 500}, done=(ITEM,), dump_id="another")), after_s=1.0)
    assert begun.event == "dump begun"
    assert done.values == {"table": "shop.item", "rows": 500, "seconds": 1.0, "rows_per_s": 500}


def test_a_table_that_is_read_again_from_its_beginning_is_reported_again() -> None:
    reported = Checking(with_dump(dump({ITEM: 1000}, done=(ITEM,))))
    assert reported(with_dump(dump({}))) == []
    assert reported.one(with_dump(dump({ITEM: 400}, done=(ITEM,))), after_s=1.5).values["rows"] == 400


def test_tables_that_are_done_at_once_are_some_lines_and_a_sum() -> None:
    names = [TableName("shop", f"t{number}") for number in range(TABLES_REPORTED_MAX + 5)]
    empty = replace(DUMP, tables=tuple(map(TableProgress, names)))
    full = replace(DUMP, tables=tuple(TableProgress(name, chunks=1, rows=2, complete_at=CommitTs(AT)) for name in names))
    reported = Checking(with_dump(empty))
    *tables, rest = reported(with_dump(full))
    assert [line.event for line in tables] == ["table done"] * TABLES_REPORTED_MAX
    assert rest == LogEvent("tables done", {"tables": 5, "rows": 10})


def test_a_dump_is_in_the_line_of_the_minute_while_it_is_not_over() -> None:
    reported = Checking(with_dump(dump({ITEM: 10})))
    running = replace(with_dump(dump({ITEM: 70_000}, done=(ITEM,))), rows_per_s=1234.4, eta_s=61.0)
    line = reported(running, after_s=MINUTE_S)[-1]
    result = {"dump": "running", "dump_tables": "1/2", "dump_rows": 70_000, "dump_rows_per_s": 1234, "eta_s": 61}
    assert line.values.items() >= result.items()
    over = with_dump(dump({ITEM: 70_000}, done=(ITEM,), state=DumpState.STOPPED))
    assert "dump" not in reported(over, after_s=MINUTE_S)[-1].values


def test_the_guide_lists_every_line() -> None:
    root = Path(log_events.__file__).parents[2]
    made = [
        node
        for file in ("log_events.py", "dump_events.py", "logs.py")
        for node in ast.walk(ast.parse((root / "sidecar" / "run" / file).read_text()))
    ]
    calls = [node for node in made if isinstance(node, ast.Call) and ast.unparse(node.func) in ("LogEvent", "log.exception")]
    reported = [str(item.value) for call in calls for item in call.args[:1] if isinstance(item, ast.Constant)]
    section = (root / "deploy" / "MONITOR.md").read_text().partition("## Log lines")[2]
    assert len(reported) >= 15
    for event in (*reported, *(f"dump {state}" for state in DumpState if state is not DumpState.RUNNING), "dump resumed"):
        assert event in section, f"deploy/MONITOR.md does not list {event!r}"
