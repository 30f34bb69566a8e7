"""What a scrape and a probe are answered."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import pytest
import stamina
from prometheus_client.parser import text_string_to_metric_families
from stamina import instrumentation

from sidecar.control.status import LaneStatus, ServiceStatus, SidecarStatus
from sidecar.run import metrics
from sidecar.run.cycle import TableInSink, VerifiedSinks, VerifiedTable
from sidecar.run.gc_hold import GcHoldState
from sidecar.run.metrics import CONNECTIONS_MAX, SINK_TABLES_MAX, TABLES_MAX, MetricsServer, MetricsTally
from sidecar.shared.errors import ConfigError
from sidecar.shared.model.hole import HoleCause, OpenHole
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import CommitTs, Lane, Seq, TableName, ts_at
from sidecar.shared.model.progress import DumpState, Progress, TableProgress
from sidecar.shared.model.sink_delivery import SinkTables, TableFiles
from sidecar.shared.ticdc.changefeed import ChangefeedName
from tests.support.eventually import PATIENCE_S, eventually

NAME = ChangefeedName("default", "default", "orders")


class Stage:
    def __init__(self) -> None:
        self.status: SidecarStatus | None = None
        self.tally = MetricsTally(terms=2, terms_ended={"FeedLost": 1})
        self.server = MetricsServer("127.0.0.1:0", lambda: self.status, lambda: self.tally)

    def get(self, path: str) -> str:
        with urlopen(f"http://127.0.0.1:{self.server.port}{path}", timeout=PATIENCE_S) as answer:
            return str(answer.read().decode())

    def samples(self) -> dict[tuple[str, ...], float]:
        families = text_string_to_metric_families(self.get("/metrics"))
        return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


@pytest.fixture
def stage() -> Iterator[Stage]:
    result = Stage()
    yield result
    result.server.close()


@pytest.mark.parametrize("fails", ["tally", "status"])
def test_a_part_that_fails_leaves_out_itself_alone_and_is_named(stage: Stage, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    def broken(*_: object) -> object:
        raise ConfigError("control.token_file is not there", hint="put it back")

    whole = stage.samples()
    stage.status = SidecarStatus(NAME, epoch=3, owner="host:1")
    if fails == "tally":
        monkeypatch.setattr(Stage, "tally", property(broken), raising=False)
        del stage.__dict__["tally"]
    else:
        monkeypatch.setattr(metrics, "_dump", broken)
    part = "process" if fails == "tally" else "dump"
    result = stage.samples()
    assert result["ticdc_dump_owner",] == 1
    assert result["ticdc_dump_epoch",] == 3
    assert {name[1]: value for name, value in result.items() if name[0] == "ticdc_dump_metrics_failed"} == {
        "process": part == "process", "stream": 0.0, "dump": part == "dump",
    }  # fmt: skip
    assert (("ticdc_dump_terms_total",) in result) == (fails != "tally")
    assert ("ticdc_dump_terms_total",) in whole


def test_what_was_compared_is_reported_by_table_and_no_age_before_all_rows_were(stage: Stage) -> None:
    assert not any("verif" in name or "differences" in name for name, *_ in stage.samples())
    orders, item = (TableInSink("copy", TableName("shop", name)) for name in ("orders", "item"))
    stage.tally.verified = VerifiedSinks([VerifiedTable(orders, 60.0, 2), VerifiedTable(item, None, 0)], 86_400.0)
    result = {name: value for name, value in stage.samples().items() if "verif" in name[0] or "differences" in name[0]}
    assert result == {
        ("ticdc_dump_verified_age_seconds", "shop", "copy", "orders"): 60.0,
        ("ticdc_dump_differences", "shop", "copy", "orders"): 2.0,
        ("ticdc_dump_differences", "shop", "copy", "item"): 0.0,
        ("ticdc_dump_verify_cycle_seconds",): 86_400.0,
    }
    stage.tally.verified = VerifiedSinks([], 0.0)
    assert ("ticdc_dump_verify_cycle_seconds",) not in stage.samples(), "nothing is compared continuously"


@pytest.mark.parametrize("whole", [True, False])
def test_of_many_tables_each_sinks_are_one_series(stage: Stage, whole: bool) -> None:
    names = [TableInSink(sink, TableName("shop", f"t{number}")) for sink in ("copy", "lake") for number in range(SINK_TABLES_MAX + 1)]
    tables = [VerifiedTable(name, float(number), 1) for number, name in enumerate(names)]
    if not whole:
        tables[-1] = tables[-1]._replace(age_s=None)
    stage.tally.verified = VerifiedSinks(tables, 0.0)
    result = {name[1:]: value for name, value in stage.samples().items() if name[0] == "ticdc_dump_verified_age_seconds"}
    assert result == {("…", "copy", "…"): float(SINK_TABLES_MAX)} | ({("…", "lake", "…"): 2.0 * SINK_TABLES_MAX + 1} if whole else {})
    differing = {name[1:]: value for name, value in stage.samples().items() if name[0] == "ticdc_dump_differences"}
    assert differing == {("…", sink, "…"): SINK_TABLES_MAX + 1.0 for sink in ("copy", "lake")}


def test_the_room_on_the_logs_volume_is_reported_by_a_standby_too_and_not_where_there_is_no_volume(stage: Stage) -> None:
    assert not any("log_volume" in name for name, *_ in stage.samples())
    stage.tally.log_volume_bytes = (3 << 40, 5 << 40)
    samples = stage.samples()
    assert (samples[("ticdc_dump_log_volume_free_bytes",)], samples[("ticdc_dump_log_volume_size_bytes",)]) == (3 << 40, 5 << 40)


def test_each_sink_says_which_tables_it_has_whole_and_of_many_only_how_many_it_has_not(stage: Stage) -> None:
    a, b = TableName("shop", "a"), TableName("shop", "b")
    known = SinkTables("lake", "lake", Seq(0), CommitTs(1), Seq(5), CommitTs(9), {a: CommitTs(7)})
    stage.status = SidecarStatus(NAME, 3, "host:1", carried=(a, b), sink_tables={"lake": known})
    samples = stage.samples()
    assert samples[("ticdc_dump_sink_incomplete_tables", "lake")] == 1
    each = {labels[-1]: value for (name, *labels), value in samples.items() if name == "ticdc_dump_sink_complete"}
    assert each == {"a": 1, "b": 0}
    many = tuple(TableName("shop", str(number)) for number in range(SINK_TABLES_MAX + 1))
    stage.status = SidecarStatus(NAME, 3, "host:1", carried=many, sink_tables={"lake": known})
    samples = stage.samples()
    assert samples[("ticdc_dump_sink_incomplete_tables", "lake")] == SINK_TABLES_MAX + 1
    assert not any(name == "ticdc_dump_sink_complete" for name, *_ in samples)


def test_each_table_of_a_lake_says_how_many_files_it_has_and_of_many_tables_all_do(stage: Stage) -> None:
    stage.status = SidecarStatus(NAME, 3, "host:1", files={"lake": [TableFiles("shop", "a", 9, 8), TableFiles("shop", "b", 1, 0)]})
    files = {name: value for name, value in stage.samples().items() if name[0].startswith("ticdc_dump_lake")}
    assert files == {
        ("ticdc_dump_lake_files", "shop", "lake", "a"): 9,
        ("ticdc_dump_lake_files", "shop", "lake", "b"): 1,
        ("ticdc_dump_lake_small_files", "shop", "lake", "a"): 8,
        ("ticdc_dump_lake_small_files", "shop", "lake", "b"): 0,
    }
    many = [TableFiles("shop", str(number), 3, 2) for number in range(SINK_TABLES_MAX + 1)]
    stage.status = SidecarStatus(NAME, 3, "host:1", files={"lake": many})
    files = {name: value for name, value in stage.samples().items() if name[0].startswith("ticdc_dump_lake")}
    assert list(files.values()) == [3 * len(many), 2 * len(many)]


def test_a_sink_says_how_many_tables_have_a_hole_and_how_old_the_oldest_is(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecar.run.metrics.time", lambda: 1_800_000_000.0)
    a, b = TableName("shop", "a"), TableName("shop", "b")

    def holed(seconds: float) -> OpenHole:
        return OpenHole(HoleCause.IMPORT, ts_at(int((1_800_000_000 - seconds) * 1000)), Seq(4), vanished=False, text="")

    known = SinkTables("lake", "lake", Seq(0), CommitTs(1), Seq(5), CommitTs(9), holes={a: holed(60), b: holed(90)})
    ahead = replace(known, sink="copy", holes={a: holed(-5)})
    stage.status = SidecarStatus(
        NAME, 3, "host:1", carried=(a, b), sink_tables={"lake": known, "copy": ahead, "new": replace(known, holes={})}
    )
    holes = {name: value for name, value in stage.samples().items() if "hole" in name[0]}
    assert holes == {
        ("ticdc_dump_sink_holes", "lake"): 2,
        ("ticdc_dump_sink_holes", "copy"): 1,
        ("ticdc_dump_sink_holes", "new"): 0,
        ("ticdc_dump_hole_oldest_seconds", "lake"): 90,
        ("ticdc_dump_hole_oldest_seconds", "copy"): 0,
        ("ticdc_dump_hole_oldest_seconds", "new"): 0,
    }


def test_work_beside_the_stream_is_up_until_it_fails_and_while_it_waits_it_is_not(stage: Stage) -> None:
    stage.status = SidecarStatus(
        NAME, 3, "host:1", services=(ServiceStatus("certificates"), ServiceStatus("verifications", "denied", failures=3, again_s=8.0))
    )
    result = {name: value for name, value in stage.samples().items() if "service" in name[0]}
    assert result == {
        ("ticdc_dump_service_up", "certificates"): 1,
        ("ticdc_dump_service_up", "verifications"): 0,
        ("ticdc_dump_service_failures_total", "certificates"): 0,
        ("ticdc_dump_service_failures_total", "verifications"): 3,
    }


def test_a_standby_that_was_checked_says_whether_it_can_take_over_and_stays_healthy(stage: Stage) -> None:
    """N4: no restart would mend it."""
    assert ("ticdc_dump_standby_ready",) not in stage.samples()
    stage.tally.against_takeover = ()
    assert (stage.samples()[("ticdc_dump_standby_ready",)], stage.get("/healthz")) == (1, "standby\n")
    stage.tally.against_takeover = ("tidb: Access denied\nfor u", "sinks: away")
    assert stage.samples()[("ticdc_dump_standby_ready",)] == 0
    assert stage.get("/healthz") == "standby\ncould not take over: tidb: Access denied for u\ncould not take over: sinks: away\n"


def test_a_standby_is_healthy_and_says_that_it_is_one(stage: Stage) -> None:
    assert stage.get("/healthz") == "standby\n"
    samples = stage.samples()
    assert samples[("ticdc_dump_owner",)] == 0
    assert samples[("ticdc_dump_terms_total",)] == 2
    assert samples[("ticdc_dump_terms_ended_total", "FeedLost")] == 1
    assert ("ticdc_dump_resolved_lag_seconds",) not in samples


def test_an_owner_shows_its_stream_and_its_dump(stage: Stage) -> None:
    done = TableProgress(TableName("shop", "ü"), (), 1, 10, 100, CommitTs(5))
    progress = Progress("d" * 16, DumpState.RUNNING, Brackets.WATERMARK, 10, 1, 1, Seq(0), (done, TableProgress(TableName("shop", "b"))))
    stage.status = SidecarStatus(
        NAME,
        3,
        "host:1",
        dumps=(progress,),
        resolved_lag_s=1.5,
        lanes=(LaneStatus(Lane("kafka/t/0"), None, 0.0), LaneStatus(Lane("kafka/t/1"), CommitTs(7), 2.5)),
        waiting_for="TiCDC: open windows wait",
        repeats=4,
        dropped_rows=9,
        skipped_rows=2,
        ambiguous_timestamps=3,
        merged_rows={"worker": 7, "spark": 11},
        merge_worker="running",
        source_away_s=84.0,
    )
    assert stage.get("/healthz") == "owner\n"
    samples = stage.samples()
    assert samples[("ticdc_dump_owner",)] == 1
    assert samples[("ticdc_dump_resolved_lag_seconds",)] == 1.5
    assert samples[("ticdc_dump_source_away_seconds",)] == 84
    assert samples[("ticdc_dump_lane_lag_seconds", "kafka/t/1")] == 2.5
    assert samples[("ticdc_dump_lane_joined", "kafka/t/0")] == 0
    assert samples[("ticdc_dump_state", "running")] == 1
    assert samples[("ticdc_dump_state", "failed")] == 0
    assert samples[("ticdc_dump_table_rows", "shop", "ü")] == 10
    assert samples[("ticdc_dump_table_complete", "shop", "b")] == 0
    assert samples[("ticdc_dump_waiting", "TiCDC")] == 1
    assert samples[("ticdc_dump_repeats_total",)] == 4
    assert samples[("ticdc_dump_dropped_rows_total",)] == 9
    assert (samples[("ticdc_dump_skipped_rows",)], samples[("ticdc_dump_ambiguous_timestamps_total",)]) == (2, 3)
    assert (samples[("ticdc_dump_merged_rows_total", "worker")], samples[("ticdc_dump_merged_rows_total", "spark")]) == (7, 11)
    assert samples[("process_resident_memory_bytes",)] > 1 << 20


def test_what_was_retried_is_counted(stage: Stage) -> None:
    instrumentation.set_on_retry_hooks(None)  # a command that ran in this process has told it to count nothing
    for attempt in stamina.retry_context(ValueError, attempts=2, wait_initial=0.0, wait_jitter=0.0):
        with attempt:
            if attempt.num == 1:
                raise ValueError("once")
    assert sum(value for name, value in stage.samples().items() if name[0] == "stamina_retries_total") >= 1


def test_ten_thousand_tables_do_not_make_ten_thousand_series(stage: Stage) -> None:
    tables = tuple(TableProgress(TableName("s", str(number)), rows=1) for number in range(10_000))
    stage.status = SidecarStatus(
        NAME, 1, "host:1", dumps=(Progress("d" * 16, DumpState.RUNNING, Brackets.WATERMARK, 10, 1, 1, Seq(0), tables),)
    )
    samples = stage.samples()
    assert len([name for name in samples if name[0] == "ticdc_dump_table_rows"]) == TABLES_MAX + 1
    assert samples[("ticdc_dump_table_rows", "…", "…")] == 10_000 - TABLES_MAX


def test_an_address_that_cannot_be_listened_on_is_named() -> None:
    with pytest.raises(ConfigError, match=r"metrics\.listen '127\.0\.0\.1:x' cannot be listened on"):
        MetricsServer("127.0.0.1:x", lambda: None, MetricsTally)


def test_ddls_are_counted_and_the_newest_is_placed(stage: Stage) -> None:
    stage.status = SidecarStatus(
        NAME, 1, "here:1", ddls=3, rewrites=2, last_ddl_ts=CommitTs(470609343168643082), last_ddl="ALTER TABLE t …"
    )
    samples = stage.samples()
    assert samples[("ticdc_dump_ddls_total",)] == 3
    assert samples[("ticdc_dump_rewriting_ddls_total",)] == 2
    assert samples[("ticdc_dump_last_ddl_tso",)] == float(470609343168643082)


# ---- who says nothing ------------------------------------------------------------------------------------------------------

STANDARD_STREAMS = 3


@pytest.fixture
def silence_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far longer than anybody here waits, so that no answer comes because a silent connection was given up."""
    monkeypatch.setattr(metrics, "CLOSING_MAX_S", 10 * PATIENCE_S)
    monkeypatch.setattr(metrics._Quiet, "timeout", 10 * PATIENCE_S)


def connected(stage: Stage, said: bytes = b"") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", stage.server.port), timeout=PATIENCE_S)
    made.sendall(said)
    return made


@pytest.mark.parametrize(
    "said", [b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nHost: x\r\n"], ids=["nothing", "half a line", "half a header"]
)
@pytest.mark.usefixtures("silence_is_long")
def test_a_connection_that_stays_silent_keeps_nobody_waiting(stage: Stage, said: bytes) -> None:
    with closing(connected(stage, said)):
        assert stage.get("/healthz") == "standby\n"
        assert ("ticdc_dump_owner",) in stage.samples()


@pytest.mark.usefixtures("silence_is_long")
def test_a_server_with_silent_connections_closes_at_once() -> None:
    stage = Stage()
    with closing(connected(stage)), closing(connected(stage, b"GET /")):
        closing_it = threading.Thread(target=stage.server.close, daemon=True)
        closing_it.start()
        closing_it.join(PATIENCE_S)
        assert not closing_it.is_alive()


@pytest.mark.usefixtures("silence_is_long")
def test_of_too_many_connections_the_oldest_gives_way(stage: Stage) -> None:
    def serving() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if "process_request_thread" in thread.name}

    others = serving()
    with ExitStack() as opened:
        silent = [opened.enter_context(closing(connected(stage))) for _ in range(CONNECTIONS_MAX + 8)]
        assert stage.get("/healthz") == "standby\n"
        assert silent[0].recv(1) == b""
        eventually(lambda: len(serving() - others) <= CONNECTIONS_MAX)


def test_a_server_that_has_no_descriptor_left_goes_on_when_there_is_one() -> None:
    """Alone in a process: what else runs in this one opens files when it likes."""
    alone = [sys.executable, "-c", f"import {__name__} as these; these.goes_on_without_descriptors()"]
    subprocess.run(alone, check=True, cwd=Path(__file__).parents[3], timeout=2 * PATIENCE_S)


def goes_on_without_descriptors() -> None:
    stage = Stage()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    waiting = socket.socket()
    resource.setrlimit(resource.RLIMIT_NOFILE, (STANDARD_STREAMS, hard))  # what is open stays open
    try:
        waiting.connect(("127.0.0.1", stage.server.port))
        waiting.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        waiting.settimeout(0.3)
        with pytest.raises(TimeoutError):
            waiting.recv(1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    waiting.settimeout(PATIENCE_S)
    with closing(waiting):
        assert waiting.recv(100).startswith(b"HTTP/1.0 200 OK")
    stage.server.close()


@pytest.mark.parametrize(
    ("state", "kept", "remaining"),
    [
        (GcHoldState({"a": 10.0, "b": 20.0}, held=True, kept_s=100.0), 100.0, 80.0),
        (GcHoldState({"a": 10.0}), None, None),
        (GcHoldState({"a": 10.0}, gone=True, why="gone"), None, 0.0),
    ],
)
def test_what_is_read_as_of_a_moment_has_its_age_and_the_time_that_is_left(
    stage: Stage, state: GcHoldState, kept: float | None, remaining: float | None
) -> None:
    assert not any(name.startswith("ticdc_dump_gc_") for name, *_ in stage.samples()), "this is no owner"
    stage.tally.gc_hold = lambda: state
    result = stage.samples()
    assert {by: result["ticdc_dump_gc_needed_age_seconds", by] for by in state.ages_s} == state.ages_s
    assert result["ticdc_dump_gc_held",] == state.held
    assert (result.get(("ticdc_dump_gc_kept_seconds",)), result.get(("ticdc_dump_gc_remaining_seconds",))) == (kept, remaining)
