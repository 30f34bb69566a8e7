"""Partitions by columns equal those of a slow reading of TiCDC's code, a row and a value at a time."""

from __future__ import annotations

from decimal import Decimal
from zlib import crc32

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.shared.model.nouns import Column, TableName, TableSchema
from sidecar.shared.ticdc.dispatch import Hashing, TopicPartitionRule
from spark_merge.port.contract import CHANGES
from spark_merge.sinks.kafka.partitions import partitions
from tests.lanes import examples

Image = list[str | None]

SCHEMA = TableSchema(
    TableName("Größe", "t"),
    (
        Column("id", "int", nullable=False),
        Column("Text", "text"),
        Column("bytes", "binary"),
        Column("real", "double"),
        Column("label", "enum", elements=("a", "", "c")),
        Column("labels", "set", elements=("x", "y", "z")),
        Column("year", "year"),
        Column("at", "time", scale=2),
    ),
    key=("id",),
)
NAMES = SCHEMA.column_names()


def value(column: Column, text: str, hashing: Hashing) -> bytes:
    match column.kind:
        case "binary":
            return bytes.fromhex(text)
        case "double":
            plain = format(Decimal(text), "f")
            return (plain.rstrip("0").rstrip(".") if "." in plain else plain).encode()
        case "enum":
            return str(1 + column.elements.index(text)).encode()
        case "set":
            return str(sum(2 ** column.elements.index(label) for label in text.split(",") if label)).encode()
        case "year":
            return text.lstrip("0").encode() or b"0"
        case "time" if hashing.whole_seconds:
            return text[:-3].encode()
        case _:
            return text.encode()


def slow(rule: TopicPartitionRule, row: tuple[int, Image | None, Image | None], count: int) -> int:
    commit_ts, before, after = row
    if rule.kind == "ts":
        return commit_ts % count
    number = crc32("Größet".encode())
    image = after if after is not None else before
    assert image is not None
    for name in {"table": (), "index-value": SCHEMA.key, "columns": rule.columns}[rule.kind]:
        text, column = image[NAMES.index(name)], SCHEMA.columns[NAMES.index(name)]
        if text is not None:
            number ^= crc32(name.encode() + value(column, text, rule.hashing))
        elif rule.hashing.null is not None:
            number ^= crc32(name.encode() + rule.hashing.null.encode())
    return number % count


images = st.tuples(
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.none() | st.text(max_size=20).filter(lambda text: text.isprintable()),
    st.none() | st.binary(max_size=12).map(lambda data: data.hex().upper()),
    st.none() | st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.none() | st.sampled_from(["a", "", "c"]),
    st.none() | st.sampled_from(["", "x", "x,z", "x,y,z", "y"]),
    st.none() | st.sampled_from(["0000", "1901", "2155"]),
    st.none() | st.sampled_from(["00:00:00.00", "-838:59:59.00", "12:34:56.78"]),
).map(list)
rows = st.lists(
    st.tuples(
        st.integers(1, 2**62),
        st.one_of(st.tuples(st.none(), images), st.tuples(images, images), st.tuples(images, st.none())),
    ).map(lambda result: (result[0], *result[1])),
    max_size=12,
)
rules = st.builds(
    TopicPartitionRule,
    st.sampled_from(["table", "index-value", "columns", "ts"]),
    columns=st.lists(st.sampled_from(NAMES), max_size=4).map(tuple),
    hashing=st.sampled_from([Hashing.of("classic"), Hashing.of("new"), Hashing.of("new", "v8.5.4")]),
)


@settings(max_examples=examples(100))
@given(rule=rules, rows=rows, count=st.sampled_from([1, 3, 16, 2**31 - 1]))
def test_each_row_goes_where_the_slow_reading_puts_it(
    rule: TopicPartitionRule, rows: list[tuple[int, Image | None, Image | None]], count: int
) -> None:
    changes = pa.table(
        {
            field.name: pa.array(
                [before if field.name == "before" else after if field.name == "after" else ts for ts, before, after in rows]
            )
            if field.name in ("before", "after", "commit_ts")
            else pa.nulls(len(rows), field.type)
            for field in CHANGES
        },
        schema=CHANGES,
    )
    assert partitions(rule, SCHEMA, changes, count).tolist() == [slow(rule, row, count) for row in rows]
