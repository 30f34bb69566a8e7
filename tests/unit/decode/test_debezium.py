"""Rows of Debezium's form decode to themselves, whatever the options; a slow reader with `json` alone has the same; and what is refused."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from sidecar.shared.codecs.registry import written_codec
from sidecar.shared.columns.values import UnfitValue
from sidecar.shared.errors import FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import Change, Column, ColumnDefinition, Lane, Message, TableSchema
from spark_merge.codecs.decode.debezium import decoder, replaced_dates
from spark_merge.codecs.decode.debezium_texts import texts_of_cells
from spark_merge.codecs.decode.rows import decode
from spark_merge.codecs.encode.debezium import encoder
from spark_merge.codecs.encode.debezium_fields import BARE, DECIMALS, PREFIX, UNSIGNED, DebeziumOptions
from tests.lanes import examples
from tests.unit.decode.log import logged
from tests.unit.encode.debezium_tables import DATED, EVERY, KINDS, MODES, drawn, one_column
from tests.unit.encode.open_tables import Image, changes

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Pairs = list[tuple[Image | None, Image | None]]


def history(random: Random) -> Pairs:
    pairs: Pairs = []
    for key in range(random.randrange(1, 12)):
        before, after = drawn(random, key), drawn(random, key)
        pairs.append(random.choice([(None, after), (before, after), (before, None)]))
    return pairs


def written(schema: TableSchema, pairs: Pairs, options: dict[str, str]) -> list[Change]:
    messages = encoder(architecture="new", options=options).rows(schema, changes(schema, *pairs), None)
    read = [
        one for at, (key, value) in enumerate(messages) for one in written_codec("debezium").envelopes(Message(Lane("l"), at, key, value))
    ]
    assert len(read) == len(pairs)
    return [one for one in read if isinstance(one, Change)]


def read_again(
    schema: TableSchema, rows: list[Change], options: dict[str, str], *, redefined: bool = False, whole: bool = True
) -> pa.Table:
    module = decoder(options, redefined=redefined)
    return decode(logged(rows, codec="debezium"), codec="debezium", schemas={schema.name: schema}, module=module, whole=whole)


@pytest.mark.parametrize("options", MODES, ids=lambda options: "-".join(list(options.values())[1:]))
@pytest.mark.parametrize("seed", range(examples(20)))
def test_rows_of_every_kind_decode_to_themselves(options: dict[str, str], seed: int) -> None:
    pairs = history(Random(seed))
    rows = read_again(EVERY, written(EVERY, pairs, options), options)
    names = ["commit_ts", "op", "before", "after"]
    assert rows.select(names).to_pylist() == changes(EVERY, *pairs).select(names).to_pylist()


@pytest.mark.parametrize("options", MODES, ids=lambda options: "-".join(list(options.values())[1:]))
@pytest.mark.parametrize("seed", range(examples(20)))
def test_a_slow_reader_has_the_same_values(options: dict[str, str], seed: int) -> None:
    pairs = history(Random(seed))
    for change, (before, after) in zip(written(EVERY, pairs, options), pairs, strict=True):
        payload = json.loads(change.value)
        payload = payload if options[BARE] == "true" else payload["payload"]
        for image, true in ((payload["before"], before), (payload["after"], after)):
            assert (image is None) is (true is None)
            if image is not None and true is not None:
                assert image.pop("id") == int(true[0] or 0)
                for (name, value), one, text in zip(image.items(), KINDS, true[1:], strict=True):
                    assert slow(value, EVERY.columns[1 + KINDS.index(one)], one.sql, options) == text, name


def slow(value: Any, column: Column, sql: str, options: dict[str, str]) -> str | None:
    """Canonical text of a JSON value, by the documentation of Debezium's MySQL connector."""
    if value is None:
        return None
    match column.kind:
        case "uint" if sql.startswith("bigint") and options[UNSIGNED] == "precise":
            return str(int.from_bytes(base64.b64decode(value, validate=True), "big", signed=True))
        case "float" | "double":
            single = column.kind == "float" and "," not in sql
            return repr(struct.unpack("f", struct.pack("f", value))[0] if single else float(value))
        case "decimal" if options[DECIMALS] == "precise":
            data = base64.b64decode(value, validate=True)
            unscaled = int.from_bytes(data, "big", signed=True)
            assert len(data) == (unscaled + (unscaled < 0)).bit_length() // 8 + 1, "as few bytes as it needs"
            digits = tuple(map(int, str(abs(unscaled))))
            return f"{Decimal((int(unscaled < 0), digits, -column.scale)):f}"
        case "binary":
            return base64.b64decode(value, validate=True).hex().upper()
        case "bit":
            data = b"" if isinstance(value, bool) else base64.b64decode(value, validate=True)
            assert isinstance(value, bool) is (column.length == 1)
            assert isinstance(value, bool) or len(data) == (column.length + 7) // 8
            return str(int(value)) if isinstance(value, bool) else str(int.from_bytes(data, "little"))
        case "year":
            return f"{value:04d}"
        case "date":
            return (EPOCH + timedelta(days=value)).strftime("%Y-%m-%d").rjust(10, "0")
        case "datetime":
            return moment(EPOCH + timedelta(microseconds=value * (1000 if column.scale <= 3 else 1)), column.scale)
        case "timestamp":
            return moment(datetime.fromisoformat(value), column.scale)
        case "time":
            hours, rest = divmod(abs(value), 3_600_000_000)
            text = (EPOCH + timedelta(microseconds=rest)).strftime("%M:%S.%f")
            return f"{'-' if value < 0 else ''}{hours:02d}:{text[: 5 + (column.scale and column.scale + 1)]}"
        case "vector":
            return f"[{','.join(f'{Decimal(repr(one)).normalize():f}' for one in value)}]"
        case _:
            return str(value)


def moment(time: datetime, scale: int) -> str:
    text = time.strftime("%Y-%m-%d %H:%M:%S.%f").rjust(26, "0")
    return text[: 19 + (scale and scale + 1)]


# ---- what is refused ------------------------------------------------------------------------------------------------


def typed_as(schema: TableSchema, sql: str) -> TableSchema:
    """Its column `c` as of this type now."""
    return replace(one_column(sql), name=schema.name)


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        ("decimal(10,2)", "decimal(65,30)", "1.28"),
        ("decimal(10,2)", "char(9)", "1.28"),
        ("datetime(3)", "datetime(4)", "1969-12-31 23:59:59.999"),
        ("date", "int(11)", "2024-02-29"),
        ("longblob", "longtext", "FFFE"),
        ("int(11)", "char(9)", "7"),
        ("float", "double", "0.10000000149011612"),
        ("year(4)", "int(11)", "1901"),
    ],
)
def test_a_value_of_another_type_is_never_read_as_one_of_the_present_type(before: str, now: str, text: str) -> None:
    options = {PREFIX: "p"}
    rows = written(one_column(before), [(None, ["1", text])], options)
    assert read_again(one_column(before), rows, options)["after"].to_pylist() == [["1", text]]
    with pytest.raises(FeedUnsuitable, match=r"column c: .* is not what the column is now"):
        read_again(typed_as(one_column(before), now), rows, options)
    bare = written(one_column(before), [(None, ["1", text])], options | {BARE: "true"})
    with pytest.raises(FeedUnsuitable, match="before a statement that gave a column another type"):
        read_again(typed_as(one_column(before), now), bare, options | {BARE: "true"}, redefined=True)


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        ("tinyint(4)", "bigint(20)", "127"),
        ("int(10) unsigned", "bigint(20) unsigned", "4294967295"),
        ("char(9)", "longtext", "é"),
        ("bit(9)", "bit(64)", "511"),
        ("decimal(10,2)", "decimal(10,2)", "1.28"),
    ],
)
def test_a_wider_type_has_the_same_values(before: str, now: str, text: str) -> None:
    options = {PREFIX: "p"}
    rows = written(one_column(before), [(None, ["1", text])], options)
    assert read_again(typed_as(one_column(before), now), rows, options, redefined=True)["after"].to_pylist() == [["1", text]]


def test_another_mode_than_the_rows_were_written_with_is_refused() -> None:
    rows = written(one_column("decimal(10,2)"), [(None, ["1", "1.28"])], {PREFIX: "p", DECIMALS: "string"})
    with pytest.raises(FeedUnsuitable, match="is not what the column is now"):
        read_again(one_column("decimal(10,2)"), rows, {PREFIX: "p"})


@pytest.mark.parametrize(
    "change",
    [{"op": "c", "before": {"id": 1}}, {"op": "d", "after": {"id": 1}}, {"op": "u", "before": None}, {"op": "c", "after": None}],
)
def test_a_row_has_the_images_of_its_op(change: dict[str, Any]) -> None:
    options, schema = {PREFIX: "p", BARE: "true"}, replace(one_column("int(11)"), columns=(Column("id", "int", nullable=False),))
    payload = {"before": {"id": 1} if change["op"] != "c" else None, "after": {"id": 1} if change["op"] != "d" else None, **change}
    with pytest.raises(MessageUnreadable, match="images"):
        read_again(schema, [row(payload, change["op"])], options)


def row(payload: dict[str, Any], op: str = "c") -> Change:
    (one,) = written(one_column("int(11)"), [(["1", "2"], None) if op == "d" else (None, ["1", "2"])], {PREFIX: "p", BARE: "true"})
    return one._replace(value=json.dumps(payload | {"source": {}}).encode())


def test_columns_are_those_of_the_schema_unless_others_are_passed_over() -> None:
    options, schema = {PREFIX: "p", BARE: "true"}, one_column("int(11)")
    given = row({"op": "c", "before": None, "after": {"id": 1, "c": 2, "gone": "x"}})
    with pytest.raises(FeedUnsuitable, match=r"column gone is in the row \(after\) and not in the schema"):
        read_again(schema, [given], options)
    assert read_again(schema, [given], options, whole=False)["after"].to_pylist() == [["1", "2"]]
    with pytest.raises(FeedUnsuitable, match="column c is in the schema and not in the row"):
        read_again(schema, [row({"op": "c", "before": None, "after": {"id": 1}})], options, whole=False)


def test_a_value_that_is_none_of_its_kind_is_refused() -> None:
    options = DebeziumOptions()
    column = {one.kind: Column("c", one.kind, True, one.length, one.scale, one.elements) for one in KINDS}
    for kind, cell in (
        ("int", "7"), ("int", True), ("int", 1 << 63), ("uint", -1), ("uint", "?"), ("decimal", 7), ("text", 7), ("binary", "?"),
        ("date", "2024-01-01"), ("time", "x"), ("vector", [None]), ("bit", "?"), ("double", "1"), ("timestamp", "yesterday"),
    ):  # fmt: skip
        with pytest.raises(UnfitValue):
            texts_of_cells([None, cell], column[kind], options)  # type: ignore[index]  # a Kind


def test_dates_that_no_calendar_has_are_compared_as_what_they_are_written_as() -> None:
    schema = one_column("date")
    assert replaced_dates({PREFIX: "p"}, schema) == ()
    assert replaced_dates(DATED, schema) == [("c", None)]
    assert replaced_dates(DATED, one_column("date", nullable=False)) == [("c", "1970-01-01")]
    assert replaced_dates(DATED, one_column("datetime(3)", nullable=False)) == [("c", "1970-01-01 00:00:00.000")]
    assert replaced_dates(DATED, one_column("date", in_key=True)) == []
    assert replaced_dates(DATED, one_column("int(11)")) == []


def test_a_table_whose_column_has_a_name_that_is_hard_to_parse() -> None:
    schema = one_column("char(9)")
    name = 'a"\\\n'
    made = (
        replace(schema.definition, columns=(schema.definition.columns[0], ColumnDefinition(name, "char(9)"))) if schema.definition else None
    )
    odd = replace(schema, columns=(schema.columns[0], Column(name, "text")), definition=made)
    for options in ({PREFIX: "p"}, {PREFIX: "p", BARE: "true"}):
        rows = written(odd, [(None, ["1", "x"])], options)
        assert read_again(odd, rows, options)["after"].to_pylist() == [["1", "x"]]
