"""A recording stands in as a cluster: its tables at any moment are what the cluster had."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sidecar.replay.judge.rows import Key, equal_rows, rows_by_key
from sidecar.replay.recording import Recording
from sidecar.replay.tables import RecordedTables, ReplayedChunk
from sidecar.shared.errors import FeedUnsuitable, SourceError
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, TableName
from tests.support.recordings import recording

ORDERS = TableName("shop", "orders")


@pytest.fixture(scope="module")
def demo() -> Recording:
    return Recording(recording("demo"))


@pytest.fixture(scope="module")
def tables(demo: Recording) -> RecordedTables:
    return RecordedTables(demo, demo.feed_config())


def read_all(tables: RecordedTables, table: TableName, *, rows_max: int, at_ts: CommitTs, upper: Key | None = None) -> list[ReplayedChunk]:
    chunks: list[ReplayedChunk] = []
    after: Key | None = None
    while not chunks or not chunks[-1].exhausted:
        chunks.append(tables.chunk(table, after=after, upper=upper, rows_max=rows_max, at_ts=at_ts))
        after = chunks[-1].last
    return chunks


# ---- the folder -----------------------------------------------------------------------------------------------------


def test_a_folder_that_is_no_recording_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(FeedUnsuitable, match=rf"{tmp_path}/recording.json cannot be read as a recording"):
        Recording(tmp_path)
    (tmp_path / "recording.json").write_text('{"name": "half"}')
    with pytest.raises(FeedUnsuitable, match="KeyError"):
        Recording(tmp_path)


def test_a_recording_without_schemas_is_refused(tmp_path: Path) -> None:
    (tmp_path / "recording.json").write_bytes((recording("demo") / "recording.json").read_bytes())
    with pytest.raises(FeedUnsuitable, match="no table's schema"):
        _ = Recording(tmp_path).schemas


def test_schemas_hold_the_feeds_columns_and_the_handle_key(demo: Recording) -> None:
    assert demo.schemas[ORDERS].key == ("customer_id", "seq")
    assert MARK_TABLE in demo.schemas
    columns = demo.schemas[TableName("shop", "item")].column_names()
    assert ("price_with_tax" in columns, "title_len" in columns) == (False, True)  # virtual and stored generated


def test_truth_has_the_schemas_columns_in_order(demo: Recording) -> None:
    for name, rows in demo.truth(demo.end_ts).items():
        assert tuple(rows.column_names) == demo.schemas[name].column_names()
        assert set(rows.schema.types) == {pa.string()}


def test_truth_at_another_moment_is_refused(demo: Recording) -> None:
    with pytest.raises(SourceError, match="no recorded tables at 1"):
        demo.truth(CommitTs(1))


def test_feed_config_is_read_from_the_sink_uri_and_the_config(demo: Recording) -> None:
    config = demo.feed_config("canal-json")
    assert (config.protocol, config.tidb_extension, config.compression, config.partitions) == ("canal-json", True, "", 3)
    assert demo.feed_config().name == demo.default_feed == "open-protocol"
    assert config.codec().name == "canal-json"


@pytest.mark.recordings
def test_feed_config_knows_compression_and_a_missing_extension() -> None:
    shop = Recording(recording("shop"))
    assert shop.feed_config("open-protocol-zip").compression == "lz4"
    with pytest.raises(FeedUnsuitable, match="without TiDB's extension"):
        shop.feed_config("canal-json-noext").codec()
    with pytest.raises(FeedUnsuitable, match="no Kafka feed 'storage-csv'"):
        shop.feed_config("storage-csv")
    with pytest.raises(FeedUnsuitable, match="no feed 'other'"):
        shop.feed_config("other")


def test_every_partition_is_a_lane_of_records_in_offset_order(demo: Recording) -> None:
    config = demo.feed_config()
    lanes = demo.messages(config)
    assert sorted(lanes) == [f"kafka/{config.topic}/{partition}" for partition in range(3)]
    assert sum(map(len, lanes.values())) == 547


# ---- rows at any moment ---------------------------------------------------------------------------------------------


def test_rows_equal_the_truth_at_every_snapshot_and_after_the_end(demo: Recording, tables: RecordedTables) -> None:
    moments = {tso: tso for tso in demo.truth_ts} | {CommitTs(demo.end_ts + (1 << 40)): demo.end_ts}
    for at_ts, tso in moments.items():
        for name, truth in demo.truth(tso).items():
            if name != MARK_TABLE:
                schema, result = demo.schemas[name], tables.rows(name, at_ts)
                expected = rows_by_key(schema, truth)
                assert result.keys() == expected.keys()
                assert all(equal_rows(schema, row, result[key]) for key, row in expected.items())


@pytest.mark.parametrize("rows_max", [1, 7, 100, 10_000])
def test_chunks_of_any_size_one_after_another_are_the_table(demo: Recording, tables: RecordedTables, rows_max: int) -> None:
    schema = demo.schemas[ORDERS]
    for at_ts in demo.truth_ts:
        chunks = read_all(tables, ORDERS, rows_max=rows_max, at_ts=at_ts)
        joined = rows_by_key(schema, pa.concat_tables(chunk.rows for chunk in chunks))
        assert list(joined.items()) == list(tables.rows(ORDERS, at_ts).items())
        assert all(chunk.rows.num_rows == rows_max for chunk in chunks[:-1])
        assert sum(chunk.rows.num_rows for chunk in chunks) == len(joined)


def test_numeric_keys_are_in_the_order_of_numbers(demo: Recording, tables: RecordedTables) -> None:
    keys = [tuple(map(int, key)) for key in tables.rows(ORDERS, demo.end_ts)]
    assert keys == sorted(keys)
    assert [tuple(map(str, key)) for key in keys] != sorted(tuple(map(str, key)) for key in keys)


def test_a_chunk_begins_above_after_and_ends_at_upper(demo: Recording, tables: RecordedTables) -> None:
    keys = list(tables.rows(ORDERS, demo.end_ts))
    chunk = tables.chunk(ORDERS, after=keys[3], upper=keys[9], rows_max=100, at_ts=demo.end_ts)
    assert list(rows_by_key(demo.schemas[ORDERS], chunk.rows)) == keys[4:10]
    assert (chunk.last, chunk.exhausted) == (keys[9], True)


def test_a_chunk_with_no_rows_left_keeps_its_columns_and_the_last_key(demo: Recording, tables: RecordedTables) -> None:
    after = list(tables.rows(ORDERS, demo.end_ts))[-1]
    chunk = tables.chunk(ORDERS, after=after, upper=None, rows_max=5, at_ts=demo.end_ts)
    assert chunk.rows.num_rows == 0
    assert tuple(chunk.rows.column_names) == demo.schemas[ORDERS].column_names()
    assert (chunk.last, chunk.exhausted) == (after, True)


def test_an_unknown_table_is_refused(demo: Recording, tables: RecordedTables) -> None:
    for table in (MARK_TABLE, TableName("shop", "none")):
        with pytest.raises(SourceError, match="no replicated table"):
            tables.rows(table, demo.end_ts)


@pytest.mark.recordings
@pytest.mark.parametrize(("name", "feed"), [("shop", "open-protocol-zip"), ("restart", "canal-json"), ("shop-new", "open-protocol-index")])
def test_other_recordings_lead_from_truth_to_truth(name: str, feed: str) -> None:
    shop = Recording(recording(name))
    tables = RecordedTables(shop, shop.feed_config(feed))
    assert tables.rows(ORDERS, shop.end_ts)


@pytest.mark.recordings
def test_a_feed_in_another_time_zone_needs_that_zone() -> None:
    tz = Recording(recording("tz"))
    with pytest.raises(SourceError, match="do not lead to its recorded rows"):
        RecordedTables(tz, tz.feed_config())
    assert RecordedTables(tz, tz.feed_config(), server_tz="Asia/Shanghai").rows(ORDERS, tz.end_ts)


@pytest.mark.recordings
def test_a_feed_that_does_not_report_everything_cannot_stand_in() -> None:
    filtered = Recording(recording("filter"))
    with pytest.raises(SourceError, match="do not lead to its recorded rows"):
        RecordedTables(filtered, filtered.feed_config())


@pytest.mark.recordings
@pytest.mark.parametrize("name", ["ddl", "ddl-new"])
def test_a_recording_with_schema_changes_stands_in_from_one_truth_to_the_next(name: str) -> None:
    """Opening compares every table with every truth snapshot: renames, a truncated and an exchanged partition, new column types."""
    ddl = Recording(recording(name))
    tables = RecordedTables(ddl, ddl.feed_config())
    start, end = (CommitTs(ts) for ts in (ddl.start_ts, ddl.end_ts))
    born, renamed, gone = (TableName("shop", table) for table in ("born_later", "ci_pk2", "ci_pk"))
    assert [tables.schema(table, start) is None for table in (born, renamed, gone)] == [True, True, False]
    assert [tables.schema(table, end) is None for table in (born, renamed, gone)] == [False, False, True]
    customer = tables.schema(TableName("shop", "customer"), end)
    assert customer is not None
    assert "balance2" in customer.column_names()
    with pytest.raises(SourceError, match=r"no replicated table shop\.ci_pk at"):
        tables.rows(gone, end)
