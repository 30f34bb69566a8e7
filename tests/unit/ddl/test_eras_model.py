"""What a reader of an append log returns of rows from before a MODIFY within one kind, against a slow model of TiDB's cast."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pyarrow as pa
import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import Column, CommitTs, TableName, TableSchema
from sidecar.shared.sql.text import Shows, shown
from spark_merge.ddl.conversion import Conversion, conversion
from spark_merge.ddl.eras import Era, eras
from spark_merge.ddl.narrowest import typed
from tests.unit.ddl.test_conversion_model import BYTES, Sql, a_type, cast, value_of

ID = Column("id", "int")


def sql_of(one: Sql) -> str:
    if one.labels:
        return f"{one.name}({', '.join(shown([label], Shows.TIDB) for label in one.labels)})"
    size = "" if one.name in BYTES or one.size < 0 else f"({one.size},{one.scale})" if one.name == "decimal" else f"({one.size})"
    return f"{one.name}{size}{' unsigned' * one.unsigned}"


def before(column: Column, *types: str) -> Era:
    """Rows from before statements that give column `a` these types, one after another; it is `column` now."""
    schema = TableSchema(TableName("shop", "t"), (ID, column), ("id",))
    ddls = [DdlRecord(CommitTs(10 + place), "shop", "t", f"ALTER TABLE t MODIFY a {text}") for place, text in enumerate(types)]
    return eras(schema, ddls)[-1]


def read(era: Era, values: Sequence[str | None], was: Column | None = None) -> list[str | None] | None:
    """None: the reader stops. `was`: the column as the output has it, where it has it."""
    rows = {"id": pa.array(["1"] * len(values), pa.string()), "a": pa.array(values, pa.string())}
    types = {"id": ID, "a": was} if was else era.present_types
    try:
        made = era.present(rows, len(values), types=types)[1]
    except SinkError:
        return None
    result: list[str | None] = made.to_pylist()
    return result


def of_a_kind(kind: str, random: Random) -> Sql:
    while (made := a_type(random)).typed().column.kind != kind:
        continue
    return made


@pytest.mark.parametrize("seed", range(6))
def test_a_reader_returns_no_value_that_tidb_does_not_have_and_stops_at_none_that_is_certain(seed: int) -> None:
    random, returned = Random(seed), 0
    for _ in range(300):
        old = a_type(random)
        new, between = of_a_kind(old.typed().column.kind, random), of_a_kind(old.typed().column.kind, random)
        steps = random.choice([[new], [between, new]])
        values = [value_of(old, random) for _ in range(3)]
        result = read(before(new.typed().column, *(sql_of(one) for one in steps)), values, old.typed().column)
        pairs = list(zip([old, *steps], steps, strict=False))
        if result is None:
            sure = all(conversion(one.typed(), other.typed()) is Conversion.UNCHANGED for one, other in pairs)
            assert not sure or old.name in ("bit",), (old, steps, values)
            continue
        returned += 1
        for strict in (True, False):
            for value, given in zip(values, result, strict=True):
                made: str | None = value
                for one, other in pairs:
                    made = None if made is None else cast(made, one, other, strict=strict)
                assert made in (None, given), (old, steps, value, strict)
    assert returned > 60


@pytest.mark.parametrize(
    ("column", "types", "values", "stops"),
    [
        (Column("a", "set", elements=("b", "a")), ["SET('b','a')"], ["a,b"], True),
        (Column("a", "set", elements=("b", "a")), ["SET('b','a')"], ["a", "b", "", None], False),
        (Column("a", "text"), ["CHAR(5)"], ["x "], True),
        (Column("a", "text"), ["CHAR(5)"], ["x", None], False),
        (Column("a", "text"), ["VARCHAR(3)", "VARCHAR(9)"], ["long"], True),
        (Column("a", "text"), ["TEXT NOT NULL"], ["x" * 20_000], False),
        (Column("a", "float"), ["FLOAT(5,2)"], ["0.125"], True),
        (Column("a", "float"), ["FLOAT"], ["0.125"], False),
        (Column("a", "float"), ["FLOAT UNSIGNED"], ["-1.5"], True),
        (Column("a", "int"), ["TINYINT"], ["127", "-128"], False),
        (Column("a", "int"), ["TINYINT"], ["128"], True),
        (Column("a", "int"), ["TINYINT", "BIGINT"], ["128"], True),
        (Column("a", "uint"), ["INT UNSIGNED"], ["4294967296"], True),
        (Column("a", "int"), ["ODD_TYPE"], ["1"], True),
        (Column("a", "binary", length=4), ["BINARY(4)"], ["00FF"], True),
        (Column("a", "binary", length=4), ["BINARY(4)"], ["00FF00FF"], False),
        (Column("a", "binary"), ["VARBINARY(1)"], ["00FF"], True),
        (Column("a", "datetime"), ["DATETIME"], ["2024-01-01 00:00:00"], False),
        (Column("a", "decimal", length=5, scale=2), ["DECIMAL(5,2)"], ["999.99", "-0.10"], False),
        (Column("a", "decimal", length=5, scale=2), ["DECIMAL(5,2) UNSIGNED"], ["-0.10"], True),
        (Column("a", "decimal", length=9, scale=2), ["DECIMAL(4,2)", "DECIMAL(9,2)"], ["100.00"], True),
        (Column("a", "bit", length=9), ["BIT(8)", "BIT(9)"], ["256"], True),
        (Column("a", "enum", elements=("x", "y")), ["ENUM('x','y')"], ["z"], True),
        (Column("a", "json"), ["JSON"], ['{"a": 1}'], False),
        (Column("a", "json"), ["TEXT", "JSON"], ['{"a": 1}'], True),
        (Column("a", "vector"), ["VECTOR(3)"], ["[1,2,3]", None], False),
        (Column("a", "vector"), ["VECTOR<FLOAT>(3) NULL", "VECTOR"], ["[1,2,3]"], False),
        (Column("a", "text"), ["VARCHAR (3)"], ["long"], True),
        (Column("a", "text"), ["CHARACTER VARYING ( 5 )"], ["long"], False),
        (Column("a", "text"), ["TEXT(10)"], ["x" * 300], True),
        (Column("a", "decimal", length=12, scale=2), ["DECIMAL(10, 2)"], ["123456789.00"], True),
        (Column("a", "decimal", length=12, scale=2), ["NUMERIC ( 12 , 2 )"], ["123456789.00"], False),
        (Column("a", "int"), ["INTEGER"], ["128"], False),
        (Column("a", "int"), ["BOOL"], ["128"], True),
        (Column("a", "uint"), ["INT ZEROFILL"], ["128"], False),
        (Column("a", "float"), ["FLOAT(5)"], ["0.125"], False),
    ],
)
def test_values_that_fit_each_type_in_between_are_read_and_others_stop(
    column: Column, types: list[str], values: list[str | None], stops: bool
) -> None:
    assert read(before(column, *types), values) == (None if stops else values)


def test_a_text_that_became_a_json_stops_a_reader_which_does_not_write_it_as_tidb() -> None:
    era = before(Column("a", "json"), "JSON")
    assert read(era, ['{"b":1, "aa":2}'], Column("a", "text")) is None
    assert read(era, ['{"aa": 2, "b": 1}'], Column("a", "json")) == ['{"aa": 2, "b": 1}']


@pytest.mark.parametrize(
    ("text", "kind", "length", "scale", "elements"),
    [
        ("DECIMAL", "decimal", 10, 0, ()),
        ("DECIMAL(9,4) UNSIGNED", "decimal", 9, 4, ()),
        ("BINARY", "binary", 1, 0, ()),
        ("VARBINARY(9)", "binary", -1, 0, ()),
        ("BIT", "bit", 1, 0, ()),
        ("TIME(3)", "time", -1, 3, ()),
        ("INT(11) UNSIGNED ZEROFILL", "uint", -1, 0, ()),
        ("ENUM('a','B''c')", "enum", -1, 0, ("a", "B'c")),
    ],
)
def test_a_type_is_read_from_its_text(text: str, kind: str, length: int, scale: int, elements: tuple[str, ...]) -> None:
    made = typed("a", text)
    assert made is not None
    assert (made.column.kind, made.column.length, made.column.scale, made.column.elements) == (kind, length, scale, elements)
