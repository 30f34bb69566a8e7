"""Columns that TiCDC's classic architecture confuses in simple stop before, or with the first message that shows it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.feeds.encoded.column_order import CodecInColumnOrder, ends_order, same_order, takes_other_names
from sidecar.feeds.encoded.read_rows import CodecWithReadRows
from sidecar.shared.codecs.simple import Simple, encode_row
from sidecar.shared.codecs.simple_avro import SimpleAvro
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Column, CommitTs, Lane, Message, TableName, TableSchema
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName
from tests.recordings.make_claims import messages_of
from tests.support.recordings import recording
from tests.unit.decode.log import recorded_schemas

LANE = Lane("kafka/t/0")
TABLE = TableName("shop", "t")


def schemas(*columns: str) -> Mapping[TableName, TableSchema]:
    return {TABLE: TableSchema(TABLE, tuple(Column(name, "int") for name in columns), ("id",))}


def told(columns: str, before: str = "", sql: str = "", *, table: str = "t", built_ms: int = 1_000) -> Message:
    def form(names: str) -> dict[str, Any]:
        listed = [{"name": name} for name in names.split()]
        return {"schema": "shop", "table": table, "tableID": 1, "version": 5, "columns": listed, "indexes": []}

    kind = {"type": "ALTER", "sql": sql, "commitTs": 9} if sql else {"type": "BOOTSTRAP", "commitTs": 0}
    value = {"version": 1, **kind, "buildTs": built_ms, "tableSchema": form(columns)} | ({"preTableSchema": form(before)} if before else {})
    return Message(LANE, 3, None, json.dumps(value, separators=(",", ":")).encode())


def codec(*columns: str, after_ms: int = 0) -> CodecInColumnOrder:
    return CodecInColumnOrder(Simple(), Simple(), lambda: schemas(*columns), lambda: CommitTs(after_ms << 18))


@pytest.mark.parametrize(
    ("protocol", "new", "confused"),
    [("simple", False, True), ("simple", True, False), ("open-protocol", False, False), ("canal-json", False, False)],
)
def test_only_simple_of_the_classic_architecture_confuses(protocol: str, new: bool, confused: bool) -> None:
    feed = Changefeed(ChangefeedName("c", "n", "orders"), "1", "kafka://b/t", protocol=protocol, new_architecture=new)
    assert takes_other_names(feed) is confused


@st.composite
def altered(draw: st.DrawFn) -> list[tuple[str, int, bool]]:
    """Columns in the table's order: name, id, and whether it is generated, of which TiCDC sends no value."""
    names = [f"c{number}" for number in range(draw(st.integers(1, 6)))]
    ids = draw(st.permutations(range(len(names))))
    return [(name, id_, draw(st.booleans())) for name, id_ in zip(names, ids, strict=True)]


@given(altered())
def test_what_is_compared_as_equal_comes_under_its_own_names_or_is_refused(columns: list[tuple[str, int, bool]]) -> None:
    """The encoder as it is: names by place, out of the sorted columns."""
    by_id = [name for name, _, _ in sorted(columns, key=lambda column: column[1])]
    sent = {by_id[place]: name for place, (name, _, is_generated) in enumerate(columns) if not is_generated}
    known = [name for name, _, is_generated in columns if not is_generated]
    if same_order(by_id, known) and set(sent) == set(known):
        assert all(label == name for label, name in sent.items())


@pytest.mark.parametrize(
    ("before", "after", "sql", "ends"),
    [
        ("id a b", "id a b c", "ALTER TABLE t ADD COLUMN c INT", False),
        ("id a b", "id a b c", "ALTER TABLE t ADD COLUMN c INT AFTER a", True),
        ("id a b", "id a b c", "ALTER TABLE t ADD COLUMN c INT first", True),
        ("id a b", "id a b c", "ALTER TABLE t ADD COLUMN c VARCHAR(9) DEFAULT 'AFTER'", False),
        ("id a b", "id b a", "ALTER TABLE t MODIFY COLUMN a VARCHAR(9)", True),
        ("id a b", "id a b", "ALTER TABLE t MODIFY COLUMN a BIGINT", False),
        ("id a b", "id A b", "ALTER TABLE t CHANGE COLUMN a A BIGINT", False),
        ("id a b", "id b", "ALTER TABLE t DROP COLUMN a", False),
        ("id a b", "id x b", "ALTER TABLE t RENAME COLUMN a TO x", False),
        ("id a", "id a", "ALTER TABLE t FIRST PARTITION LESS THAN (5)", False),
        ("id a", "id a", "ALTER TABLE t ADD INDEX `after` (a)", False),
    ],
)
def test_a_ddl_ends_the_order_or_keeps_it(before: str, after: str, sql: str, ends: bool) -> None:
    assert ends_order(before.split(), after.split(), sql) is ends
    if ends:
        with pytest.raises(FeedUnsuitable, match=r"^message kafka/t/0@3: after this DDL .* shop\.t under other columns' names"):
            codec("id", "a", "b").envelopes(told(after, before, sql))
    else:
        assert len(codec("id", "a", "b").envelopes(told(after, before, sql))) == 1


@pytest.mark.parametrize(
    ("columns", "table", "built_ms", "stops"),
    [
        ("id a b", "t", 1_000, False),
        ("id b a", "t", 1_000, True),
        ("ID B a", "T", 1_000, True),
        ("id g a b h", "t", 1_000, False),
        ("id a", "t", 1_000, False),
        ("id b a", "other", 1_000, False),
        ("id b a", "t", 10, False),
    ],
)
def test_a_table_that_was_altered_before_stops_with_its_first_description(columns: str, table: str, built_ms: int, stops: bool) -> None:
    one = codec("id", "a", "b", after_ms=100)
    if stops:
        with pytest.raises(FeedUnsuitable, match=r"^message kafka/t/0@3: as its columns are not in the order in which they were made"):
            one.envelopes(told(columns, table=table, built_ms=built_ms))
    else:
        assert one.envelopes(told(columns, table=table, built_ms=built_ms)) == []


@pytest.mark.recordings
def test_a_recorded_history_stops_at_the_ddl_after_which_its_rows_are_wrong() -> None:
    folder = recording("ddl")
    recorded = CodecInColumnOrder(Simple(), Simple(), lambda: recorded_schemas(folder), lambda: CommitTs(0))
    with pytest.raises(FeedUnsuitable, match=r"ADD COLUMN `nick` .* AFTER `name`"):
        [recorded.envelopes(message) for message in messages_of(folder, "simple-json")]


@pytest.mark.recordings
@pytest.mark.parametrize("name", ["shop", "rowformats", "tz"])
def test_a_recorded_history_without_such_a_ddl_is_read_to_its_end(name: str) -> None:
    folder = recording(name)
    recorded = CodecInColumnOrder(Simple(), Simple(), lambda: recorded_schemas(folder), lambda: CommitTs(0))
    messages = messages_of(folder, "simple-json")
    assert [recorded.envelopes(message) for message in messages] == [Simple().envelopes(message) for message in messages]


@pytest.mark.parametrize("codec_of_feed", [SimpleAvro(), Simple("lz4"), SimpleAvro("snappy")])
def test_rows_that_were_read_from_tidb_describe_no_table_whatever_the_feeds_encoding(codec_of_feed: Simple) -> None:
    inner = CodecWithReadRows(codec_of_feed)
    one = CodecInColumnOrder(inner, codec_of_feed, lambda: schemas("id", "a"), lambda: CommitTs(0))
    value = encode_row(TABLE, CommitTs(9), before=None, after={"id": "1", "a": None})
    assert len(one.envelopes(Message(LANE, 3, b"", value))) == 1
