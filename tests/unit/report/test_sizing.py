"""What a deployment needs grows with its shape, and says what it is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.report.size_costs import COSTS, MIB, SINKS, Basis
from sidecar.report.sizing import SizedLoad, SizedSettings, line_cores, sink_named, sized
from sidecar.shared.config import DumpSection, EtcdSection, KafkaSection, LogSection
from sidecar.shared.errors import ConfigError
from sidecar.shared.model.messages import ReadWith

EXAMPLE = SizedLoad(10_000_000_000, 200, 30, 5_000)
SHAPES = st.builds(
    SizedLoad,
    rows=st.integers(1, 10**12),
    row_bytes=st.integers(1, 10**7),
    tables=st.integers(1, 10_000),
    writes_a_s=st.integers(0, 10**6),
    sinks=st.lists(st.sampled_from(sorted(SINKS)), min_size=1, max_size=4, unique=True).map(tuple),
    read_with=st.sampled_from(ReadWith),
)
GROWS_WITH: dict[str, Callable[[SizedLoad], SizedLoad]] = {
    "rows": lambda load: replace(load, rows=2 * load.rows),
    "writes": lambda load: replace(load, writes_a_s=2 * load.writes_a_s + 1),
    "tables": lambda load: replace(load, tables=2 * load.tables),
    "hours": lambda load: replace(load, hours=2 * load.hours),
    "row bytes": lambda load: replace(load, row_bytes=2 * load.row_bytes),
}
MAY_FALL = ("rate_", "cores_dump", "commits_")
"""A larger shape is dumped more slowly, which takes fewer cores; a lake with more tables commits each less often."""


@pytest.mark.parametrize("what", GROWS_WITH)
@given(load=SHAPES)
def test_no_need_falls_when_the_shape_grows(what: str, load: SizedLoad) -> None:
    larger = sized(GROWS_WITH[what](load))
    for one in sized(load).figures:
        if not one.key.startswith(MAY_FALL):
            assert larger.value(one.key) >= one.value * (1 - 1e-9), one.key


@given(load=SHAPES, sink=st.sampled_from(sorted(SINKS)))
def test_another_sink_never_makes_it_cheaper_or_faster(load: SizedLoad, sink: str) -> None:
    less, more = sized(load), sized(replace(load, sinks=(*load.sinks, sink)))
    for key in ("cores_live", "memory", "log_outage", "time_alone", "time_beside"):
        assert more.value(key) >= less.value(key)
    assert more.value("rate_alone") <= less.value("rate_alone")


@given(load=SHAPES)
def test_each_figure_has_a_unit_and_says_what_it_is_made_from(load: SizedLoad) -> None:
    figures = sized(load).figures
    assert all(one.unit and one.made_from and one.value >= 0 for one in figures)
    assert len({one.key for one in figures}) == len(figures)


def test_a_changefeed_of_30_tables_at_5000_writes() -> None:
    sizes = sized(EXAMPLE)
    assert sizes.value("kafka_retention") == sizes.value("log_outage") == 5_000 * 280 * 8 * 3_600
    assert sizes.value("time_alone") == pytest.approx(10**10 / 60_700)
    assert 3.9 * 1024 * MIB < sizes.value("memory") < 4.5 * 1024 * MIB
    assert sizes.value("etcd_keys") == 9
    assert sizes.value("source_cpu") == pytest.approx(13_000)


def test_the_measured_line_of_performance_is_met() -> None:
    """0.20 cores of one table at 500 writes a second to Parquet files (deploy/PERFORMANCE.md)."""
    sizes = sized(SizedLoad(1_000_000, 200, 1, 500, ("file:parquet",)))
    assert sizes.value("cores_live") == pytest.approx(0.20, abs=0.01)
    assert {one.basis for one in sizes.figures if one.key == "cores_live"} == {Basis.MEASURED}


def test_beyond_what_was_measured_the_cores_are_an_estimate() -> None:
    for load in (replace(EXAMPLE, sinks=("file:parquet",), writes_a_s=50_000), replace(EXAMPLE, sinks=("file:parquet",), row_bytes=900)):
        assert {one.basis for one in sized(load).figures if one.key == "cores_live"} == {Basis.ESTIMATE}


def test_a_pace_and_more_sinks_limit_a_dump() -> None:
    assert sized(replace(EXAMPLE, rows_a_s=1_000)).value("rate_alone") == 1_000
    assert "--rows-per-second" in sized(replace(EXAMPLE, rows_a_s=1_000)).limits[0]
    assert "opensearch" in sized(replace(EXAMPLE, sinks=("kafka", "opensearch"))).limits[0]


def test_reading_from_tikv_needs_no_statement() -> None:
    sizes = sized(replace(EXAMPLE, read_with=ReadWith.TIKV))
    assert [sizes.value(key) for key in ("selects", "marks", "connections")] == [0, 0, 0]


def test_a_worker_with_more_than_one_core_of_work_is_named() -> None:
    text = " ".join(sized(replace(EXAMPLE, tables=1_000, sinks=("file:parquet",))).limits)
    assert "Several segments then share a batch" in text


def test_a_lake_commits_each_changing_table_once_in_its_interval() -> None:
    sizes = sized(SizedLoad(1_000, 200, 30, 1_000, ("iceberg",)))
    assert sizes.value("commits_iceberg") == pytest.approx(30 * 3_600 / (10 + 30 * 0.085))
    assert sizes.value("p99_iceberg") > 10 + 2 * 30 * 0.085


def test_without_writes_nothing_is_kept_for_an_outage() -> None:
    sizes = sized(replace(EXAMPLE, writes_a_s=0))
    assert sizes.value("kafka_retention") == 0
    assert 0 < line_cores(replace(EXAMPLE, writes_a_s=0)) < sizes.value("cores_live")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("kafka", "kafka"),
        ("kafka+ssl://b:9092/t?protocol=open-protocol", "kafka"),
        ("tidb://u:secret@h:4000/", "mysql"),
        ("file:parquet", "file:parquet"),
        ("file:///out?format=jsonl", "file:jsonl"),
        ("/out?format=parquet", "file:parquet"),
        ("s3://bucket/out?protocol=canal-json", "file:csv"),
        ("delta+s3://bucket/lake?mode=append", "delta"),
        ("elasticsearch+ssl://h:9200/", "opensearch"),
        ("https://h/x", "http"),
        ("grpc:", "grpc"),
        ("sqlite:///x.db", "sqlite"),
    ],
)
def test_a_sink_is_known_by_its_name_and_by_its_uri(text: str, name: str) -> None:
    assert sink_named(text) == name


def test_an_unknown_sink_names_the_known_ones_and_no_secret() -> None:
    with pytest.raises(ConfigError, match=r"did you mean kafka\?") as raised:
        sink_named("kafak://user:secret@h/")
    assert "clickhouse, delta" in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "wrong",
    [{"rows": 0}, {"row_bytes": -1}, {"tables": 0}, {"writes_a_s": -5}, {"hours": 0}, {"hours": float("nan")}, {"changing_tables": 31},
     {"sinks": ()}, {"sinks": ("nope",)}],
)  # fmt: skip
def test_a_shape_that_is_none_is_an_error_with_the_way_out(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="what to do"):
        replace(EXAMPLE, **wrong)  # type: ignore[arg-type]  # of any field


def test_defaults_are_those_of_the_settings() -> None:
    ours, dump = SizedSettings(), DumpSection()
    assert (ours.chunk_rows, ours.readers, ours.window_chunks) == (dump.chunk_rows, dump.readers, dump.window_chunks_max)
    assert ours.chunk_bytes_max == dump.chunk_bytes_max
    assert ours.held_bytes_max == LogSection(uri="x").held_bytes_max
    assert ours.queue_bytes_max == KafkaSection().queue_bytes_max
    assert ours.lease_s == EtcdSection(endpoints=("h:1",)).lease_s


def test_every_cost_names_where_it_comes_from() -> None:
    assert all(cost.unit and cost.source and cost.value > 0 for cost in COSTS.values())
    assert all(sink.source and sink.row_us > 0 and sink.beside_a_s <= sink.rows_a_s for sink in SINKS.values())
