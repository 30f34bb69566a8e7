"""What ClickHouse's engine holds of TiDB's values: exactly, or refused by name. The types table of deploy/CLICKHOUSE-SINK.md is this."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.port.contract import Sink
from spark_merge.sinks.clickhouse.columns import column_type
from spark_merge.sinks.registry import open_sink
from tests.support.clickhouse_place import rows_of, uri_of
from tests.support.deliveries import Segments, change, deliver
from tests.support.services.clickhouse import ClickHouse

pytestmark = pytest.mark.xdist_group("clickhouse")

numbers = itertools.count()

PAGE = Path(__file__).parents[2] / "deploy" / "CLICKHOUSE-SINK.md"

VALUES: dict[Column, list[str | None]] = {
    Column("i", "int"): ["-9223372036854775808", "9223372036854775807", None],
    Column("u", "uint"): ["18446744073709551615", "0", None],
    Column("strict", "int", nullable=False): ["0", "-1", "7"],
    Column("f", "float"): ["3.4028234663852886e+38", "0.10000000149011612", None],
    Column("dbl", "double"): ["1.7976931348623157e+308", "5e-324", "-0.1"],
    Column("dec", "decimal", length=65, scale=30): [f"{'9' * 35}.{'9' * 30}", f"-0.{'0' * 29}1", None],
    Column("small", "decimal", length=10, scale=2): ["12345678.90", "-0.01", "0.00"],
    Column("t", "text"): ["", "µ'\\\n\t\0😀", None],
    Column("bin", "binary"): ["00FF0A0D", "", None],
    Column("e", "enum", elements=("a", "é,x")): ["é,x", "", None],
    Column("s", "set", elements=("a", "b")): ["a,b", "", None],
    Column("b", "bit", length=64): ["18446744073709551615", "0", None],
    Column("tm", "time", scale=6): ["838:59:59.000000", "-838:59:59.000001", None],
    Column("y", "year"): ["0000", "2155", None],
    Column("j", "json"): ['{"a": [1, null, "é"]}', "null", None],
    Column("v", "vector"): ["[1,2.5]", "[]", None],
    Column("d", "date"): ["1900-01-01", "2299-12-31", None],
    Column("dt", "datetime", scale=6): ["1900-01-01 00:00:00.000001", "2299-12-31 23:59:59.999999", None],
    Column("dt0", "datetime"): ["1969-12-31 23:59:59", "2024-02-29 00:00:00", None],
    Column("dt3", "datetime", scale=3): ["1901-02-03 04:05:06.789", "2024-02-29 00:00:00.000", None],
    Column("ts", "timestamp", scale=6): ["1970-01-01 00:00:01.000000", "2038-01-19 03:14:07.999999", None],
}
HARD = {
    Column("d", "date"): ["0000-00-00", "2020-02-30", "0000-01-01", "2020-00-10", "1899-12-31", "2300-01-01", "9999-12-31"],
    Column("dt", "datetime", scale=3): ["0000-00-00 00:00:00.000", "2021-02-29 10:00:00.500", "1000-01-01 00:00:00.000"],
    Column("ts", "timestamp"): ["0000-00-00 00:00:00"],
}


def schema_of(*columns: Column) -> TableSchema:
    return TableSchema(TableName(f"types{next(numbers)}", "t"), (Column("id", "int", nullable=False), *columns), ("id",))


def opened(server: ClickHouse, schema: TableSchema, **parameters: str) -> Sink:
    sink = open_sink(uri_of(server, f"pos_{schema.name.schema}", **parameters), log_id="l")
    sink.open(epoch=None)
    return sink


def send(sink: Sink, schema: TableSchema, folder: Path, seq: int, *images: Sequence[str | None]) -> None:
    rows = [change(seq, 100 * seq - 10 + at, after=image, table=schema.name, ordinal=at) for at, image in enumerate(images)]
    deliver(sink, Segments([seq], rows), log=open_folder(str(folder)), schemas={schema.name: schema})


@pytest.mark.parametrize("dates", ["typed", "text"])
def test_values_of_every_kind_arrive_exactly_and_so_do_their_deletes(clickhouse: ClickHouse, tmp_path: Path, dates: str) -> None:
    schema = schema_of(*VALUES)
    images = [[str(number), *(values[number] for values in VALUES.values())] for number in range(3)]
    sink = opened(clickhouse, schema, dates=dates)
    send(sink, schema, tmp_path, 1, *images)
    assert sorted(rows_of(clickhouse, schema)) == sorted(map(tuple, images))
    gone = [change(2, 110, before=images[0], table=schema.name)]
    deliver(sink, Segments([2], gone), log=open_folder(str(tmp_path)), schemas={schema.name: schema})
    assert sorted(rows_of(clickhouse, schema)) == sorted(map(tuple, images[1:]))


@pytest.mark.parametrize(("column", "text"), [(column, text) for column, texts in HARD.items() for text in texts], ids=str)
def test_a_date_that_the_target_has_not_is_refused_by_name(clickhouse: ClickHouse, tmp_path: Path, column: Column, text: str) -> None:
    schema = schema_of(column)
    with pytest.raises(SinkError, match=re.escape(f"{schema.name}.{column.name}") + f".*'{text}'") as error:
        send(opened(clickhouse, schema), schema, tmp_path, 1, ["1", text])
    assert "dates=text" in error.value.hint


def test_dates_that_become_text_keep_what_they_were_and_hold_what_no_calendar_has(clickhouse: ClickHouse, tmp_path: Path) -> None:
    schema = schema_of(*HARD)
    usual = ["1", "1999-01-02", "1999-01-02 03:04:05.060", "1999-01-02 03:04:05"]
    send(opened(clickhouse, schema), schema, tmp_path, 1, usual)
    hard = [[str(2 + at), *row] for at, row in enumerate(itertools.zip_longest(*HARD.values()))]
    send(opened(clickhouse, schema, dates="text"), schema, tmp_path, 2, *hard)
    assert sorted(rows_of(clickhouse, schema)) == sorted(map(tuple, [usual, *hard]))
    with pytest.raises(SinkError, match=r"d Nullable.String. and not Nullable.Date32."):
        send(opened(clickhouse, schema), schema, tmp_path, 3, usual)


def test_dates_in_a_key_stay_typed_when_the_others_become_text(clickhouse: ClickHouse, tmp_path: Path) -> None:
    name = TableName(f"types{next(numbers)}", "t")
    schema = TableSchema(name, (Column("at", "datetime", nullable=False), Column("d", "date")), ("at",))
    send(opened(clickhouse, schema), schema, tmp_path, 1, ["2020-01-01 00:00:00", "2020-01-01"])
    send(opened(clickhouse, schema, dates="text"), schema, tmp_path, 2, ["2020-01-02 00:00:00", "9999-12-31"])
    assert sorted(rows_of(clickhouse, schema)) == [("2020-01-01 00:00:00", "2020-01-01"), ("2020-01-02 00:00:00", "9999-12-31")]


def test_a_null_where_the_schema_has_none_is_refused(clickhouse: ClickHouse, tmp_path: Path) -> None:
    schema = schema_of(Column("n", "int", nullable=False))
    with pytest.raises(SinkError, match="n, which is NOT NULL, is NULL"):
        send(opened(clickhouse, schema), schema, tmp_path, 1, ["1", None])


def test_a_column_that_is_called_as_one_of_ours_is_the_sources(clickhouse: ClickHouse, tmp_path: Path) -> None:
    schema = schema_of(Column("_version", "text"), Column("we`ird \\'", "text"))
    send(opened(clickhouse, schema), schema, tmp_path, 1, ["1", "mine", "x"])
    rows = clickhouse.rows(
        f"SELECT name FROM system.columns WHERE database = '{schema.name.schema}' AND table = 't__rows' ORDER BY position"
    )
    assert [name for (name,) in rows][-2:] == ["__version", "__is_deleted"]
    assert clickhouse.rows(f"SELECT `_version` FROM {schema.name}") == [["mine"]]


def test_the_page_has_the_type_of_every_kind() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    for column in (*VALUES, *HARD):
        kind = column_type(column, in_key=True).partition("(")[0]
        assert any(f"`{column.kind}`" in row and f"`{kind}" in row for row in rows), f"{column.kind} {kind}"
