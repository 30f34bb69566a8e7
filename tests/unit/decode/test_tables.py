"""Rows of several tables decoded at once are what each table's rows are alone, and a row that is refused is named as it is alone."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Change, Column, Rank, TableName, TableSchema
from spark_merge.codecs.decode import tables
from spark_merge.codecs.decode.rows import decode
from tests.unit.decode.log import change, logged


class Kind(NamedTuple):
    """A column and how each protocol writes a value of it."""

    column: Column
    canal_type: str
    canal: st.SearchStrategy[str | None]
    open_cell: dict[str, Any]
    open: st.SearchStrategy[Any]


WORDS = st.text('ab\\"é', max_size=3)
KINDS = {
    "n": Kind(Column("n", "int"), "int", st.integers(-9, 9).map(str), {"t": 3, "f": 64}, st.integers(-9, 9)),
    "w": Kind(Column("w", "text"), "varchar(9)", WORDS | st.none(), {"t": 15, "f": 64}, WORDS | st.none()),
    "v": Kind(Column("v", "text"), "text", WORDS | st.none(), {"t": 252, "f": 64}, st.sampled_from(["", "YQ==", "w6k=", None])),
    "e": Kind(Column("e", "enum", elements=("x", "y")), "enum('x','y')", st.sampled_from("012"), {"t": 247, "f": 64}, st.integers(0, 2)),
    "f": Kind(Column("f", "enum", elements=("q",)), "enum('q')", st.sampled_from("01"), {"t": 247, "f": 64}, st.integers(0, 1)),
    "d": Kind(
        Column("d", "decimal", length=9, scale=2), "decimal(9,2)", st.sampled_from(["1.50", "2", None]), {"t": 246, "f": 64},
        st.sampled_from(["1.50", "2", None]),
    ),
    "b": Kind(Column("b", "binary", length=2), "binary(2)", st.sampled_from(["", "a", "ÿa"]), {"t": 254, "f": 65},
              st.sampled_from(["", "a"])),
}  # fmt: skip
CODECS = ["canal-json", "open-protocol"]


@st.composite
def schemas(draw: st.DrawFn) -> dict[TableName, TableSchema]:
    results = {}
    for number in range(draw(st.integers(1, 5))):
        names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=7, unique=True))
        keys = [name for name in names if name in "nef"] or ["n"]
        names = names if keys[0] in names else ["n", *names]
        name = TableName("shop", f"t{number}")
        results[name] = TableSchema(name, tuple(KINDS[one].column for one in names), tuple(keys[: draw(st.integers(1, 2))]))
    return results


@st.composite
def changes(draw: st.DrawFn, codec: str, of: dict[TableName, TableSchema], rows_max: int = 12) -> list[Change]:
    results = []
    for number in range(draw(st.integers(0, rows_max))):
        schema = of[draw(st.sampled_from(sorted(of)))]
        kind = draw(st.sampled_from(["insert", "update", "delete"]))
        new, old = ({name: draw(_values(codec, name)) for name in schema.column_names()} for _ in range(2))
        results.append(message(codec, schema, kind, new, old, number))
    return results


def _values(codec: str, name: str) -> st.SearchStrategy[Any]:
    return KINDS[name].canal if codec == "canal-json" else KINDS[name].open


def message(codec: str, schema: TableSchema, kind: str, new: dict[str, Any], old: dict[str, Any], number: int) -> Change:
    value: dict[str, Any]
    if codec == "canal-json":
        types = {name: KINDS[name].canal_type for name in new}
        value = {"type": kind.upper(), "mysqlType": types, "data": [new], "old": [old] if kind == "update" else None}
    else:
        cells, olds = ({name: KINDS[name].open_cell | {"v": image[name]} for name in image} for image in (new, old))
        value = {"insert": {"u": cells}, "update": {"u": cells, "p": olds}, "delete": {"d": cells}}[kind]
    rank = Rank.DELETE if kind == "delete" else Rank.PUT
    return change(json.dumps(value).encode(), rank=rank, table=schema.name.table, commit_ts=100 + number, position=number)


def by_table(rows: pa.Table) -> dict[str, pa.Table]:
    return {name: rows.filter(pc.equal(rows["table"], name)) for name in rows["table"].unique().to_pylist()}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("alone", [1, 2, 64])
@given(data=st.data())
def test_many_tables_at_once_are_each_alone(codec: str, alone: int, data: st.DataObject) -> None:
    of = data.draw(schemas())
    rows = logged(data.draw(changes(codec, of)), codec=codec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "ALONE_IMAGES", alone)
        together = by_table(decode(rows, codec=codec, schemas=of))
    each = {name: decode(group, codec=codec, schemas=of) for name, group in by_table(rows).items()}
    assert {name: result.to_pylist() for name, result in together.items()} == {name: result.to_pylist() for name, result in each.items()}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("bad", range(4))
@pytest.mark.parametrize("image", ["new", "old"])
def test_the_row_that_is_refused_is_named(codec: str, bad: int, image: str) -> None:
    of = {name: TableSchema(name, tuple(KINDS[one].column for one in names), ("n",)) for name, names in TABLES.items()}
    rows = []
    for number, name in enumerate(sorted(of) * 2):
        new, old = ({one: FIT[one][codec] for one in of[name].column_names()} for _ in range(2))
        if number == bad:
            (new if image == "new" else old)["e"] = "7" if codec == "canal-json" else 7
        rows.append(message(codec, of[name], "update", new, old, number))
    table = sorted(of)[bad % len(of)]
    with pytest.raises(FeedUnsuitable, match=rf"@{bad}: table {table}: column e: '?7'? is not an index .*ordinal {bad} of the log"):
        decode(logged(rows, codec=codec), codec=codec, schemas=of)


TABLES = {TableName("shop", "a"): "nwe", TableName("shop", "b"): "ewn"}
FIT: dict[str, dict[str, Any]] = {
    "n": {"canal-json": "1", "open-protocol": 1},
    "w": {"canal-json": "x", "open-protocol": "x"},
    "e": {"canal-json": "2", "open-protocol": 2},
}  # fmt: skip
