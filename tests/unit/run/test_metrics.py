"""What a scrape and a probe are answered."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.request import urlopen

import pytest
import stamina
from prometheus_client.parser import text_string_to_metric_families

from sidecar.control.status import LaneStatus, SidecarStatus
from sidecar.core.messages import Brackets
from sidecar.core.model import CommitTs, Lane, Seq, TableName
from sidecar.core.progress import DumpState, Progress, TableProgress
from sidecar.errors import ConfigError
from sidecar.run.metrics import TABLES_MAX, MetricsServer, Tally
from sidecar.ticdc.changefeed import ChangefeedName

NAME = ChangefeedName("default", "default", "orders")


class Stage:
    def __init__(self) -> None:
        self.status: SidecarStatus | None = None
        self.tally = Tally(terms=2, terms_ended={"FeedLost": 1})
        self.server = MetricsServer("127.0.0.1:0", lambda: self.status, lambda: self.tally)

    def get(self, path: str) -> str:
        with urlopen(f"http://127.0.0.1:{self.server.port}{path}", timeout=10) as answer:
            return str(answer.read().decode())

    def samples(self) -> dict[tuple[str, ...], float]:
        families = text_string_to_metric_families(self.get("/metrics"))
        return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


@pytest.fixture
def stage() -> Iterator[Stage]:
    found = Stage()
    yield found
    found.server.close()


def test_a_standby_is_healthy_and_says_that_it_is_one(stage: Stage) -> None:
    assert stage.get("/healthz") == "standby\n"
    found = stage.samples()
    assert found[("ticdc_dump_owner",)] == 0
    assert found[("ticdc_dump_terms_total",)] == 2
    assert found[("ticdc_dump_terms_ended_total", "FeedLost")] == 1
    assert ("ticdc_dump_resolved_lag_seconds",) not in found


def test_an_owner_shows_its_stream_and_its_dump(stage: Stage) -> None:
    done = TableProgress(TableName("shop", "ü"), (), 1, 10, 100, CommitTs(5))
    progress = Progress("d" * 16, DumpState.RUNNING, Brackets.WATERMARK, 10, 1, 1, Seq(0), (done, TableProgress(TableName("shop", "b"))))
    stage.status = SidecarStatus(
        NAME,
        3,
        "host:1",
        progress=progress,
        resolved_lag_s=1.5,
        lanes=(LaneStatus(Lane("kafka/t/0"), None, 0.0), LaneStatus(Lane("kafka/t/1"), CommitTs(7), 2.5)),
        waiting_for="TiCDC: open windows wait",
        repeats=4,
        dropped_rows=9,
        merged_rows={"worker": 7, "spark": 11},
        merge_worker="running",
    )
    assert stage.get("/healthz") == "owner\n"
    found = stage.samples()
    assert found[("ticdc_dump_owner",)] == 1
    assert found[("ticdc_dump_resolved_lag_seconds",)] == 1.5
    assert found[("ticdc_dump_lane_lag_seconds", "kafka/t/1")] == 2.5
    assert found[("ticdc_dump_lane_joined", "kafka/t/0")] == 0
    assert found[("ticdc_dump_state", "running")] == 1
    assert found[("ticdc_dump_state", "failed")] == 0
    assert found[("ticdc_dump_table_rows", "shop", "ü")] == 10
    assert found[("ticdc_dump_table_complete", "shop", "b")] == 0
    assert found[("ticdc_dump_waiting", "TiCDC")] == 1
    assert found[("ticdc_dump_repeats_total",)] == 4
    assert found[("ticdc_dump_dropped_rows_total",)] == 9
    assert (found[("ticdc_dump_merged_rows_total", "worker")], found[("ticdc_dump_merged_rows_total", "spark")]) == (7, 11)
    assert found[("process_resident_memory_bytes",)] > 1 << 20


def test_what_was_retried_is_counted(stage: Stage) -> None:
    for attempt in stamina.retry_context(ValueError, attempts=2, wait_initial=0.0, wait_jitter=0.0):
        with attempt:
            if attempt.num == 1:
                raise ValueError("once")
    assert sum(value for name, value in stage.samples().items() if name[0] == "stamina_retries_total") >= 1


def test_ten_thousand_tables_do_not_make_ten_thousand_series(stage: Stage) -> None:
    tables = tuple(TableProgress(TableName("s", str(number)), rows=1) for number in range(10_000))
    stage.status = SidecarStatus(
        NAME, 1, "host:1", progress=Progress("d" * 16, DumpState.RUNNING, Brackets.WATERMARK, 10, 1, 1, Seq(0), tables)
    )
    found = stage.samples()
    assert len([name for name in found if name[0] == "ticdc_dump_table_rows"]) == TABLES_MAX + 1
    assert found[("ticdc_dump_table_rows", "…", "…")] == 10_000 - TABLES_MAX


def test_an_address_that_cannot_be_listened_on_is_named() -> None:
    with pytest.raises(ConfigError, match=r"metrics\.listen '127\.0\.0\.1:x' cannot be listened on"):
        MetricsServer("127.0.0.1:x", lambda: None, Tally)


def test_ddls_are_counted_and_the_newest_is_placed(stage: Stage) -> None:
    stage.status = SidecarStatus(NAME, 1, "here:1", ddls=3, last_ddl_ts=CommitTs(470609343168643082), last_ddl="ALTER TABLE t …")
    found = stage.samples()
    assert found[("ticdc_dump_ddls_total",)] == 3
    assert found[("ticdc_dump_last_ddl_tso",)] == float(470609343168643082)
