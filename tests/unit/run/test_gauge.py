"""What an owner's pipeline looks like from outside."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from sidecar.control.status import ServiceStatus, SidecarStatus
from sidecar.pipeline import Pipeline
from sidecar.ports import Caller, SchemaSource, TableEstimate
from sidecar.run import gauge as gauges
from sidecar.run.gauge import RATE_OVER_S, STATUS_EVERY_S, Estimates, Gauge
from sidecar.shared.errors import SourceError
from sidecar.shared.log.deliveries import LogDeliveries
from sidecar.shared.log.delivery_report import DELIVERED_NAME, DeliveryReport
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.messages import Brackets, PauseDump, SourceFailed
from sidecar.shared.model.nouns import CommitTs, Ddl, Lane, Rank, Seq, TableName, TableSchema
from sidecar.shared.model.progress import DumpState, Progress, TableProgress
from sidecar.shared.model.schema_step import Beside
from sidecar.shared.model.sink_delivery import SinkDelivery, TableFiles
from sidecar.shared.ticdc.changefeed import ChangefeedName
from tests.support.changes import ddl, put, resolved
from tests.support.eventually import PATIENCE_S, eventually
from tests.unit.test_pipeline import TABLE, WIDER, MovingSchemas, Stage, start

NAME = ChangefeedName("default", "default", "orders")


class FakeSchemas:
    def __init__(self, rows: int | None) -> None:
        self.rows = rows
        self.asked = Event()

    def asked_by(self, caller: Caller) -> SchemaSource:
        return self

    def tables(self) -> Mapping[TableName, TableSchema]:
        return {}

    def estimates(self, tables: Sequence[TableName]) -> Sequence[TableEstimate]:
        self.asked.set()
        if self.rows is None:
            raise SourceError("no statistics", hint="analyze")
        return [TableEstimate(table, self.rows, None, "primary key") for table in tables]

    def keys(self, table: TableName, keys: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
        raise NotImplementedError


class Checking(Gauge):
    """With a merge worker that runs, if nothing else is said."""

    def read(
        self, now_s: float, *, worker: str = "running", died: str = "", last_error: str = "", services: Sequence[ServiceStatus] = ()
    ) -> SidecarStatus:
        return super().read(now_s, worker=worker, died=died, last_error=last_error, services=services)


def gauge(stage: Stage, pipeline: Pipeline, tmp_path: Path, *, rows: int | None = 100) -> tuple[Checking, FakeSchemas]:
    schemas = FakeSchemas(rows)
    deliveries = LogDeliveries(open_folder(str(tmp_path)))
    return Checking(NAME, "host:1", pipeline, deliveries, Estimates(schemas)), schemas


def now_ts(*, ago_s: float = 0.0) -> int:
    return int((time.time() - ago_s) * 1000) << 18


def test_lags_are_against_the_wall_clock_and_the_foremost_lane(tmp_path: Path) -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.feed.say(put(5, "x"), resolved(now_ts(ago_s=100)))
    pipeline.step(poll_s=0)
    status = gauge(stage, pipeline, tmp_path)[0].read(stage.clock.now_s())
    assert 100 <= status.resolved_lag_s < 100 + PATIENCE_S
    assert status.changes == 1
    assert [lane.lag_s for lane in status.lanes] == [0.0]
    assert status.waiting_for.startswith("TiCDC: what it resolved is")


def test_a_log_ahead_of_the_clock_has_a_negative_lag(tmp_path: Path) -> None:
    """Finding H6: with 0 nobody sees it."""
    stage = Stage()
    pipeline = stage.attach()
    stage.feed.say(put(5, "x"), resolved(now_ts(ago_s=-600)))
    pipeline.step(poll_s=0)
    status = gauge(stage, pipeline, tmp_path)[0].read(stage.clock.now_s())
    assert -601 < status.resolved_lag_s < 0


def test_lags_of_delivery_hold_across_restarts(tmp_path: Path) -> None:
    """N2: a new owner showed 0.0 s while delivery was six minutes behind."""
    stage = Stage()
    deliveries = LogDeliveries(open_folder(str(tmp_path)))
    stage.deliveries = deliveries  # type: ignore[assignment]  # the real ones
    pipeline = stage.attach()
    for ago_s in (400, 300, 100):
        stage.feed.say(put(now_ts(ago_s=ago_s) - 1, "x"), resolved(now_ts(ago_s=ago_s)))
        pipeline.step(poll_s=0)

    def reported(accepted: int, upto_ts: int) -> SidecarStatus:
        sinks = (SinkDelivery("file:///out", Seq(accepted), upto_ts=CommitTs(upto_ts)),)
        report = DeliveryReport(Seq(accepted), CommitTs(upto_ts), "running", 1, sinks=sinks)
        (tmp_path / DELIVERED_NAME).write_bytes(report.to_json())
        deliveries._known_seq = Seq(accepted)
        deliveries._read()
        pipeline.step(poll_s=0)
        return result.read(stage.clock.now_s())

    pipeline = stage.attach()
    result = Checking(NAME, "host:1", pipeline, deliveries, Estimates(FakeSchemas(100)))
    stage.feed.say(put(now_ts() - 1, "x"), resolved(now_ts()))
    pipeline.step(poll_s=0)
    first_ts = stage.manifests()[0].upto_ts
    status = reported(0, first_ts)
    assert 400 <= status.delivery_lag_s < 400 + PATIENCE_S
    assert [400 <= sink.lag_s < 400 + PATIENCE_S for sink in status.sinks] == [True]
    assert status.delivered_ts == first_ts
    assert status.waiting_for == "Spark: delivery is 400 s behind"
    status = reported(pipeline.next_seq - 1, stage.manifests()[-1].upto_ts)
    assert status.delivered_ts == status.resolved_ts
    assert status.delivery_lag_s < PATIENCE_S
    assert status.sinks[0].lag_s < PATIENCE_S
    assert status.waiting_for == ""


def test_a_sink_that_cannot_be_opened_after_a_restart_is_behind_by_where_it_was(tmp_path: Path) -> None:
    stage = Stage()
    deliveries = LogDeliveries(open_folder(str(tmp_path)))
    stage.deliveries = deliveries  # type: ignore[assignment]  # the real ones
    pipeline = stage.attach()
    sinks = (
        SinkDelivery("lake", None, error="it is away", upto_ts=CommitTs(now_ts(ago_s=7200))),
        SinkDelivery("new", None, error="it is away"),
    )
    (tmp_path / DELIVERED_NAME).write_bytes(DeliveryReport(None, CommitTs(0), "running", 1, sinks=sinks).to_json())
    deliveries._read()
    stage.feed.say(put(5, "x"), resolved(now_ts()))
    pipeline.step(poll_s=0)
    status = Checking(NAME, "host:1", pipeline, deliveries, Estimates(FakeSchemas(100))).read(stage.clock.now_s())
    assert [sink.lag_s >= 7200 for sink in status.sinks] == [True, False]
    assert 7200 <= status.delivery_lag_s < 7200 + PATIENCE_S


def test_a_lane_that_rests_is_named_once_it_rests_for_long(tmp_path: Path) -> None:
    stage = Stage()
    pipeline = stage.attach()
    stage.feed.say(resolved(now_ts()))
    pipeline.step(poll_s=0)
    result, _ = gauge(stage, pipeline, tmp_path)
    assert result.read(stage.clock.now_s()).waiting_for == ""
    assert result.read(stage.clock.now_s() + 30).waiting_for == "lane: a has not moved for 30 s"


def test_a_dump_that_waits_for_a_spark_that_does_not_start_says_so(tmp_path: Path) -> None:
    stage = Stage()
    sinks = (SinkDelivery("file:///out", None),)
    report = DeliveryReport(None, CommitTs(0), "stopped", 1, error="Spark does not start", spark="starting", sinks=sinks)
    (tmp_path / DELIVERED_NAME).write_bytes(report.to_json())
    deliveries = LogDeliveries(open_folder(str(tmp_path)), needs_spark=True)
    deliveries.start()
    stage.deliveries = deliveries  # type: ignore[assignment]  # the real ones
    pipeline = stage.attach()
    stage.source.ts = now_ts()
    stage.requests.waiting.append(start())
    for _ in range(4):
        pipeline.step(poll_s=0)
    stage.feed.say(resolved(stage.source.ts + 1_000))
    for _ in range(2):
        pipeline.step(poll_s=0)
    status = Checking(NAME, "host:1", pipeline, deliveries, Estimates(FakeSchemas(100))).read(stage.clock.now_s(), worker="starting")
    deliveries.close()
    assert pipeline.dump.demand().ready_rows > 0
    assert not any(manifest.windows for manifest in stage.manifests())
    assert (status.waiting_for, status.last_error) == ("Spark: it has not started yet, and the dump waits for it", "Spark does not start")


def test_a_lane_that_has_not_joined_holds_the_stream_and_is_named(tmp_path: Path) -> None:
    stage = Stage()
    pipeline = stage.attach()
    status = gauge(stage, pipeline, tmp_path)[0].read(stage.clock.now_s())
    assert [(lane.lane, lane.resolved_ts) for lane in status.lanes] == [(Lane("a"), None)]
    assert "a resolved mark yet" in status.waiting_for


def test_rates_are_over_the_last_seconds_and_the_rest_is_estimated_by_them(tmp_path: Path) -> None:
    stage = Stage()
    pipeline = stage.attach()
    result, schemas = gauge(stage, pipeline, tmp_path)
    stage.requests.waiting.append(start())
    pipeline.step(poll_s=0)
    result.read(stage.clock.now_s())
    assert schemas.asked.wait(PATIENCE_S)
    pipeline.counts.dump_rows, pipeline.counts.dump_bytes = 20, 2000
    stage.clock.time_s += RATE_OVER_S / 2
    while not (status := result.read(stage.clock.now_s())).estimates:
        pass
    assert status.rows_per_s == 20 / (RATE_OVER_S / 2)
    assert status.estimates == {TABLE: 100}
    assert status.eta_s is None, "a rate of the first seconds"
    stage.clock.time_s += RATE_OVER_S / 2
    pipeline.counts.dump_rows = 50
    status = result.read(stage.clock.now_s())
    assert status.eta_s == 100 / status.rows_per_s == 100 / (50 / RATE_OVER_S)
    stage.clock.time_s += RATE_OVER_S * 2
    assert result.read(stage.clock.now_s()).rows_per_s == 0.0


def test_a_source_without_statistics_leaves_the_rest_unknown(tmp_path: Path) -> None:
    stage = Stage()
    pipeline = stage.attach()
    result, schemas = gauge(stage, pipeline, tmp_path, rows=None)
    stage.requests.waiting.append(start())
    pipeline.step(poll_s=0)
    result.read(stage.clock.now_s())
    assert schemas.asked.wait(PATIENCE_S)
    assert result.read(stage.clock.now_s()).eta_s is None


@pytest.mark.parametrize(
    ("beside", "message"),
    [(Beside.REPORTED, "dump again) ALTER"), (Beside.READ_AGAIN, "they are read again) ALTER"), (Beside.RIGHT, "ALTER")],
)
def test_the_newest_ddl_says_whether_rows_beside_it_may_be_wrong(tmp_path: Path, beside: Beside, message: str) -> None:
    stage = Stage()
    stage.beside, stage.schemas = beside, MovingSchemas({0: WIDER})
    pipeline = stage.attach()
    stage.feed.say(ddl(20, query="ALTER TABLE t MODIFY x INT UNSIGNED"), resolved(30))
    pipeline.step(poll_s=0)
    status = gauge(stage, pipeline, tmp_path)[0].read(stage.clock.now_s())
    assert message in status.last_ddl
    assert (status.rewrites, status.rewritten) == ((0, ()) if beside is Beside.RIGHT else (1, (TABLE,)))
    stage.feed.say(ddl(40, query="ALTER TABLE t ADD INDEX (x)"), resolved(50))
    pipeline.step(poll_s=0)
    assert gauge(stage, pipeline, tmp_path)[0].read(stage.clock.now_s()).last_ddl == "ALTER TABLE t ADD INDEX (x)"


def test_a_status_is_made_a_few_times_a_second_however_often_the_pipeline_steps(tmp_path: Path) -> None:
    stage = Stage()
    result, _ = gauge(stage, stage.attach(), tmp_path)
    assert [result.due(at * STATUS_EVERY_S / 10) for at in range(11)].count(True) == 2


def test_a_source_that_is_away_is_reported_with_since_when_and_why(tmp_path: Path) -> None:
    stage = Stage()
    pipeline = stage.attach()
    result, _ = gauge(stage, pipeline, tmp_path)
    stage.feed.say(resolved(now_ts()))
    stage.requests.waiting.append(start())
    pipeline.step(poll_s=0)
    stage.source.fails = lambda command: SourceFailed(command, "no route to TiDB", "wait", away=True)
    stage.clock.time_s += 61
    pipeline.step(poll_s=0)
    stage.feed.say(resolved(now_ts()))
    pipeline.step(poll_s=0)
    status = result.read(stage.clock.now_s() + 3)
    assert (status.source_away_s, status.last_error) == (64, "no route to TiDB")
    stage.requests.waiting.append(PauseDump())
    pipeline.step(poll_s=0)
    assert result.read(stage.clock.now_s()).source_away_s == 0


def test_positions_are_reported_as_they_are(tmp_path: Path) -> None:
    stage = Stage()
    pipeline = stage.attach()
    status = gauge(stage, pipeline, tmp_path)[0].read(stage.clock.now_s(), worker="external")
    assert (status.resolved_ts, status.delivered_ts, status.segments, status.merge_worker) == (None, None, 0, "external")
    stage.feed.say(put(5, "x"), resolved(10))
    pipeline.step(poll_s=0)
    status = gauge(stage, pipeline, tmp_path)[0].read(stage.clock.now_s())
    assert (status.resolved_ts, status.segments) == (CommitTs(9), 1)


def test_ddls_are_counted_and_the_newest_is_reported(tmp_path: Path) -> None:
    stage = Stage()
    pipeline = stage.attach()
    status = gauge(stage, pipeline, tmp_path)[0].read(stage.clock.now_s())
    assert (status.ddls, status.last_ddl_ts, status.last_ddl) == (0, None, "")
    ddl = Ddl(CommitTs(7), Rank.DDL, "changefeed_dump", "changefeed_dump_event", "CREATE TABLE …", Lane("a"), 1)
    stage.feed.say(put(5, "x"), ddl, resolved(10))
    pipeline.step(poll_s=0)
    status = gauge(stage, pipeline, tmp_path)[0].read(stage.clock.now_s())
    assert (status.ddls, status.last_ddl_ts, status.last_ddl) == (1, 7, "CREATE TABLE …")
    stage.feed.say(Ddl(CommitTs(11), Rank.DDL, "", "", "", Lane("a"), 2), resolved(12))
    pipeline.step(poll_s=0)
    status = gauge(stage, pipeline, tmp_path)[0].read(stage.clock.now_s())
    assert (status.ddls, status.last_ddl_ts) == (1, 7), "one without a text only says that the schemas change there"


def test_tables_that_a_dump_gets_under_way_are_estimated_too() -> None:
    schemas = FakeSchemas(100)
    estimates = Estimates(schemas)
    progress = Progress("0123456789abcdef", DumpState.RUNNING, Brackets.WATERMARK, 10, 1, 1, Seq(-1), (TableProgress(TABLE),))
    estimates.want([progress])
    assert schemas.asked.wait(PATIENCE_S)
    schemas.asked.clear()
    estimates.want([progress])
    assert not schemas.asked.is_set(), "once a dump"
    estimates.want([replace(progress, tables=(TableProgress(TABLE), TableProgress(TableName("app", "born"))))])
    assert schemas.asked.wait(PATIENCE_S)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (TableProgress(TABLE), 100),
        (TableProgress(TABLE, where="a > 1"), None),
        (TableProgress(TABLE, keys=(("1",), ("2",))), 2),
        (TableProgress(TABLE, past_keys=7), 7),
    ],
)
def test_a_dump_of_a_part_is_not_expected_to_read_the_whole_table(table: TableProgress, expected: int | None) -> None:
    progress = Progress("0123456789abcdef", DumpState.RUNNING, Brackets.WATERMARK, 10, 1, 1, Seq(-1), (table,))
    over = replace(progress, dump_id="f" * 16, state=DumpState.FINISHED, tables=(TableProgress(TABLE),))
    assert table.rows_expected(100) == expected
    assert gauges._expected([over, progress], {TABLE: 100}) == ({} if expected is None else {TABLE: expected})


def test_a_defect_of_the_estimates_is_unknown_and_ends_nothing() -> None:
    asked = Event()

    class Broken(FakeSchemas):
        def estimates(self, tables: Sequence[TableName]) -> Sequence[TableEstimate]:
            asked.set()
            raise ZeroDivisionError("a defect")

    estimates = Estimates(Broken(100))
    progress = Progress("0123456789abcdef", DumpState.RUNNING, Brackets.WATERMARK, 10, 1, 1, Seq(-1), (TableProgress(TABLE),))
    estimates.want([progress])
    assert asked.wait(PATIENCE_S)
    eventually(lambda: not any(one.alive for one in estimates._asking))
    estimates.want([progress])
    assert estimates.rows == {}


def test_what_the_worker_reports_comes_before_what_a_term_ended_with(tmp_path: Path) -> None:
    """The latter is over."""
    stage = Stage()
    reported, _ = gauge(stage, stage.attach(), tmp_path)
    assert reported.read(0.0, last_error="Kafka was away").last_error == "Kafka was away"
    files = TableFiles("shop", "orders", 9, 8)
    sinks = (SinkDelivery("lake", None, files=(files,)), SinkDelivery("files", None))
    report = DeliveryReport(None, CommitTs(0), "stopped", 1, error="column b: cannot be decoded", skipped=2, guessed=3, sinks=sinks)
    (tmp_path / DELIVERED_NAME).write_bytes(report.to_json())
    reported._deliveries._read()
    status = reported.read(1.0, last_error="Kafka was away")
    assert (status.last_error, status.skipped_rows, status.ambiguous_timestamps) == ("column b: cannot be decoded", 2, 3)
    assert status.files == {"lake": (files,)}


def test_what_a_previous_worker_died_of_hides_neither_a_later_death_nor_what_a_sink_fails_of_now(tmp_path: Path) -> None:
    stage = Stage()
    reported, _ = gauge(stage, stage.attach(), tmp_path)

    def last_error(report: DeliveryReport) -> str:
        (tmp_path / DELIVERED_NAME).write_bytes(report.to_json())
        reported._deliveries._read()
        return reported.read(1.0, died="ended with SIGKILL").last_error

    report = DeliveryReport(None, CommitTs(0), "running", 1, error="what a former one died of")
    failing = (SinkDelivery("s3://b", None, error="no room left"),)
    assert last_error(report) == "ended with SIGKILL"
    assert last_error(replace(report, sinks=failing)) == "s3://b: no room left"
    assert last_error(replace(report, sinks=failing, state="stopped")) == "ended with SIGKILL"
    assert reported.read(2.0).last_error == "what a former one died of"


def test_a_sink_that_does_not_go_on_is_the_last_error(tmp_path: Path) -> None:
    stage = Stage()
    pipeline = stage.attach()
    reported, _ = gauge(stage, pipeline, tmp_path)
    sinks = (SinkDelivery("file:/a", Seq(3)), SinkDelivery("s3://b", None, error="no room left"))
    report = DeliveryReport(None, CommitTs(0), "running", 1, rows={"worker": 5}, sinks=sinks)
    (tmp_path / DELIVERED_NAME).write_bytes(report.to_json())
    reported._deliveries.start()
    status = reported.read(stage.clock.now_s())
    reported._deliveries.close()
    assert status.last_error == "s3://b: no room left"
    assert status.merged_rows == {"worker": 5}
