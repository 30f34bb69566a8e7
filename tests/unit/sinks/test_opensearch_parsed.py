"""Documents become the rows that they were made of."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.codecs.encode.block import of_changes
from spark_merge.port.contract import CHANGES
from spark_merge.sinks.opensearch.documents import lines
from spark_merge.sinks.opensearch.fields import Forms
from spark_merge.sinks.opensearch.parsed import rows_of

T = TableName("shop", "t")
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
_INTS, _UINTS = st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, (1 << 64) - 1)
_LABELS = ("a", 'b"', "c\\")
VALUES: dict[Column, st.SearchStrategy[str | None]] = {
    Column("i", "int"): st.none() | _INTS.map(str),
    Column("u", "uint"): st.none() | _UINTS.map(str),
    Column("b", "bit", length=64): _UINTS.map(str),
    Column("f", "float"): st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    Column("g", "double"): st.none() | st.floats(allow_nan=False, allow_infinity=False).map(repr),
    Column('we"ird \\ µ', "text"): st.none() | _TEXTS,
    Column("y", "year"): st.sampled_from(["0000", "1901", "2155"]),
    Column("s", "set", elements=_LABELS): st.none() | st.lists(st.sampled_from(_LABELS), unique=True).map(sorted).map(",".join),
    Column("j", "json"): st.none() | st.sampled_from(['{"a":[1,2.50,null]}', '"µ"', "18446744073709551616", "null"]),
}
SCHEMA = TableSchema(T, tuple(VALUES), ("i",))


def documents(rows: list[tuple[str | None, ...]], forms: Forms) -> list[msgspec.Raw]:
    made = [
        {"seq": 1, "commit_ts": 50, "rank": 1, "ordinal": 0, "schema": "shop", "table": "t", "op": "insert", "key": "", "after": list(row)}
        for row in rows
    ]
    block = of_changes(SCHEMA, 1, pa.RecordBatch.from_pylist(made, CHANGES))
    text = "".join(line for _, result in lines(block, "a", forms) for line in result.to_pylist())
    return [msgspec.Raw(line.encode()) for line in text.split("\n")[1::2]]


@pytest.mark.parametrize("json", ["text", "object"])
@given(rows=st.lists(st.tuples(*VALUES.values()), min_size=1, max_size=20))
def test_rows_are_what_the_documents_were_made_of(json: str, rows: list[tuple[str | None, ...]]) -> None:
    keyed = [(row[0] or "0", *row[1:]) for row in rows]
    forms = Forms(json=json)
    results = list(zip(*(column.to_pylist() for column in rows_of(documents(keyed, forms), SCHEMA, forms).columns), strict=True))
    assert results == [(*row[:-1], None) if json == "object" and row[-1] == "null" else row for row in keyed]


def test_an_absent_field_is_null_and_one_that_is_no_columns_is_left_out() -> None:
    rows = rows_of([msgspec.Raw(b'{"old": {"x": 1}}')], SCHEMA, Forms(json="object"))
    assert rows.to_pylist() == [dict.fromkeys(SCHEMA.column_names())]


@pytest.mark.parametrize("document", [b'{"i": "1"}', b'{"s": "a"}', b'{"i": 1} {"i": 2}', b'{"i": 1e30}', b"[]", b'{"i": '])
def test_what_is_no_document_of_ours_is_an_error(document: bytes) -> None:
    with pytest.raises(SinkError, match=r"a document of shop\.t has other fields"):
        rows_of([msgspec.Raw(document)], SCHEMA, Forms())
