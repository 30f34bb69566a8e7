"""Hypothesis strategies of tables, rows and what they decode to, for raw key-values.

The expected text is made here from the value by Python's own means, so that encoder and decoder cannot agree by mistake.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from sidecar.shared.rowcodec.kv_layout import layout_of
from sidecar.shared.rowcodec.kv_table import KvTable, kv_table
from tests.support.kv_encoder import (
    NOT_NULL,
    UNSIGNED,
    Json,
    Plain,
    Stored,
    Vector,
    column,
    common_handle,
    info,
    memcomparable_int,
    row_1,
    row_2,
    row_2_checked,
    row_key,
)

BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
LABELS = ["a", "", "B b", "ü,x"]


@dataclass(frozen=True)
class Value:
    plain: Plain | None
    text: str | None


@dataclass(frozen=True)
class Table:
    """`handle` names the columns of the handle; empty: hidden."""

    kv: KvTable
    columns: dict[int, dict[str, Any]]
    handle: tuple[int, ...]
    layout: str


@dataclass(frozen=True)
class EncodedRow:
    key: bytes
    value: bytes
    texts: list[str | None]


def _integers(type_: str, *, unsigned: bool) -> st.SearchStrategy[Value]:
    bits = BITS[type_]
    low = 0 if unsigned else -(1 << (bits - 1))
    return st.integers(low, low + (1 << bits) - 1).map(lambda v: Value(v, str(v)))


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Value]:
    def made(unscaled: int, cut: int) -> Value:
        digits = str(abs(unscaled)).rjust(scale + 1, "0")
        text = f"{'-' if unscaled < 0 else ''}{digits[: len(digits) - scale]}{'.' if scale else ''}{digits[len(digits) - scale :]}"
        if unscaled % 10**cut:
            return Value(Stored(unscaled, precision, scale), text)
        return Value(Stored(unscaled // 10**cut, max(precision - cut, 1), scale - cut), text)

    high = 10**precision - 1
    near = min(high, 99)
    whole = st.one_of(st.integers(-high, high), st.integers(-near, near), st.sampled_from([0, high // 10**scale * 10**scale]))
    return st.builds(made, whole, st.integers(0, scale))


def _moments(scale: int, *, of_date: bool) -> st.SearchStrategy[Value]:
    def made(year: int, month: int, day: int, clock: tuple[int, int, int], part: int) -> Value:
        date = f"{year:04d}-{month:02d}-{day:02d}"
        packed = ((year * 13 + month) << 5 | day) << 17
        if of_date:
            return Value(packed << 24, date)
        micros = part % 10**scale * 10 ** (6 - scale)
        packed = (packed | clock[0] << 12 | clock[1] << 6 | clock[2]) << 24 | micros
        text = f"{date} {clock[0]:02d}:{clock[1]:02d}:{clock[2]:02d}"
        return Value(packed, f"{text}.{micros:06d}"[: len(text) + (scale and scale + 1)])

    clocks = st.tuples(st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
    fields = (st.integers(0, 9999), st.integers(0, 12), st.integers(0, 31), clocks, st.integers(0, 999_999))
    return st.one_of(st.builds(made, *fields), st.just(made(0, 0, 0, (0, 0, 0), 0)))


def _durations(scale: int) -> st.SearchStrategy[Value]:
    unit = 10 ** (6 - scale)

    def made(units: int) -> Value:
        seconds, micros = divmod(abs(units) * unit, 1_000_000)
        text = f"{'-' if units < 0 else ''}{seconds // 3600:02d}:{seconds % 3600 // 60:02d}:{seconds % 60:02d}"
        return Value(units * unit * 1000, f"{text}.{micros:06d}"[: len(text) + (scale and scale + 1)])

    high = (838 * 3600 + 59 * 60 + 59) * 10**scale
    return st.one_of(st.integers(-high, high), st.integers(-1000, 1000)).map(made)


def _sets() -> st.SearchStrategy[Value]:
    labels = LABELS[:3]
    return st.integers(0, 7).map(lambda v: Value(v, ",".join(label for bit, label in enumerate(labels) if v >> bit & 1)))


def _binaries(length: int) -> st.SearchStrategy[Value]:
    if length < 0:
        return st.binary(max_size=40).map(lambda v: Value(v, v.hex().upper()))
    return st.binary(max_size=length).map(lambda v: Value(v, v.ljust(length, b"\0").hex().upper()))


_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30).map(lambda v: Value(v.encode(), v))
_json_leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 63), (1 << 64) - 1), st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)  # fmt: skip
_names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
json_values = st.recursive(_json_leaves, lambda some: st.lists(some, max_size=4) | st.dictionaries(_names, some, max_size=4), max_leaves=12)


def _vectors() -> st.SearchStrategy[Value]:
    def made(numbers: list[float]) -> Value:
        return Value(Vector(tuple(numbers)), json.dumps([struct.unpack("<f", struct.pack("<f", number))[0] for number in numbers]))

    return st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=5).map(made)


def _floats(width: int) -> st.SearchStrategy[Value]:
    made = st.floats(allow_nan=False, allow_infinity=False, width=32 if width == 32 else 64)
    return made.map(lambda v: Value(v, repr(v)))


@st.composite
def typed_columns(draw: st.DrawFn, id_: int, *, in_key: bool = False) -> tuple[dict[str, Any], st.SearchStrategy[Value]]:
    """A column of any type and the values that it can have. `in_key`: types of a clustered key that gives them back."""
    scale = draw(st.integers(0, 6))
    unsigned = draw(st.booleans())
    precision = draw(st.integers(1, 65))
    digits = draw(st.integers(0, min(precision, 30)))
    length = draw(st.integers(1, 12))
    bits = draw(st.integers(1, 64))
    type_ = draw(st.sampled_from([*BITS]))
    name = f"c{id_}"
    choices: list[tuple[dict[str, Any], st.SearchStrategy[Value]]] = [
        (column(id_, name, type_, unsigned=unsigned), _integers(type_, unsigned=unsigned)),
        (column(id_, name, "double", decimal=-1), _floats(64)),
        (column(id_, name, "decimal", flen=precision, decimal=digits), _decimals(precision, digits)),
        (column(id_, name, "date"), _moments(0, of_date=True)),
        (column(id_, name, "datetime", decimal=scale), _moments(scale, of_date=False)),
        (column(id_, name, "timestamp", decimal=scale), _moments(scale, of_date=False)),
        (column(id_, name, "time", decimal=scale), _durations(scale)),
        (column(id_, name, "year", flen=4, flag=UNSIGNED), st.sampled_from([0, *range(1901, 2156)]).map(lambda v: Value(v, f"{v:04d}"))),
        (column(id_, name, "enum", elems=LABELS), st.integers(0, 4).map(lambda v: Value(v, LABELS[v - 1] if v else ""))),
        (column(id_, name, "set", elems=LABELS[:3]), _sets()),
        (column(id_, name, "bit", flen=bits, flag=UNSIGNED), st.integers(0, (1 << bits) - 1).map(lambda v: Value(v, str(v)))),
        (column(id_, name, "varchar", flen=40), _binaries(-1)),
        (column(id_, name, "char", flen=40, collation="utf8mb4_bin"), _texts),
    ]
    if not in_key:
        choices += [
            (column(id_, name, "float", decimal=-1), _floats(32)),
            (column(id_, name, "varchar", flen=40, collation="utf8mb4_general_ci"), _texts),
            (column(id_, name, "blob", flen=65535, collation="gbk_chinese_ci"), _texts),
            (column(id_, name, "char", flen=length), _binaries(length)),
            (column(id_, name, "longblob", flen=1 << 32), _binaries(-1)),
            (column(id_, name, "json"), json_values.map(lambda v: Value(Json(v), json.dumps(v)))),
            (column(id_, name, "vector"), _vectors()),
        ]
    result: tuple[dict[str, Any], st.SearchStrategy[Value]] = draw(st.sampled_from(choices))
    return result


@st.composite
def tables(draw: st.DrawFn) -> tuple[Table, dict[int, st.SearchStrategy[Value]]]:
    """A table of a few columns with ids that leave gaps, and the values of each column by id."""
    ids = draw(st.lists(st.integers(1, draw(st.sampled_from([40, 40, 700]))), min_size=1, max_size=7, unique=True).map(sorted))
    kind = draw(st.sampled_from(["hidden", "int", "common"]))
    handle = tuple(ids[: draw(st.integers(1, min(3, len(ids))))]) if kind == "common" else tuple(ids[:1]) if kind == "int" else ()
    made: dict[int, dict[str, Any]] = {}
    values: dict[int, st.SearchStrategy[Value]] = {}
    for id_ in ids:
        if kind == "int" and id_ in handle:
            unsigned = draw(st.booleans())
            made[id_], values[id_] = (
                column(id_, f"c{id_}", "bigint", unsigned=unsigned, primary=True),
                _integers("bigint", unsigned=unsigned),
            )
            continue
        made[id_], values[id_] = draw(typed_columns(id_, in_key=id_ in handle))
        if id_ in handle:
            made[id_]["type"]["Flag"] |= NOT_NULL
    primary = [(f"c{id_}", -1) for id_ in handle] if kind == "common" else []
    table_info = info(list(made.values()), primary=primary, int_handle=kind == "int")
    return Table(kv_table(table_info, schema="s"), made, handle, layout_of(1, table_info, new_collation=True)), values


@st.composite
def encoded_rows(draw: st.DrawFn, table: Table, values: dict[int, st.SearchStrategy[Value]], *, formats: str = "v12lh") -> EncodedRow:
    """One row in one of `formats`: v row format 2, l the same written large, 1 with checksum of version 1, 2 of version 2, h format 1."""
    result: dict[int, Value] = {}
    texts: list[str | None] = []
    for id_, entry in table.columns.items():
        if id_ in table.handle:
            value = draw(values[id_])
        else:
            value = draw(st.one_of(values[id_], values[id_], st.just(Value(None, None))))
            # TiDB leaves NULL out where the column has no default at all.
            if value.plain is not None or draw(st.booleans()):
                result[id_] = value
        texts.append(value.text)
        if id_ in table.handle:
            result[-id_] = value
        del entry
    handle_values = [(table.columns[id_], result.pop(-id_).plain) for id_ in table.handle]
    if not table.handle:
        handle = memcomparable_int(draw(st.integers(-(1 << 63), (1 << 63) - 1)))
    elif table.kv.int_handle is not None:
        plain = handle_values[0][1]
        assert isinstance(plain, int)
        handle = memcomparable_int(plain - (1 << 64) if plain >= 1 << 63 else plain)
    else:
        handle = common_handle([(entry, plain) for entry, plain in handle_values if plain is not None])
    key = row_key(handle, keyspace=draw(st.sampled_from([None, None, 7])))
    bare = row_key(handle)
    columns, plains = table.columns, {id_: value.plain for id_, value in result.items()}
    unknown = max([*columns, 1]) + 1
    if draw(st.booleans()):  # what a dropped column left behind
        columns, plains = columns | {unknown: column(unknown, "gone", "int")}, plains | {unknown: draw(st.sampled_from([None, 5]))}
    match draw(st.sampled_from(formats)):
        case "v":
            value_bytes = row_2(columns, plains)
        case "l":
            value_bytes = row_2(columns, plains, large=True)
        case "1":
            value_bytes = row_2_checked(columns, plains, draw(st.sampled_from([bare, handle])), version=1)
        case "2":
            value_bytes = row_2_checked(columns, plains, handle, version=2)
        case _:
            value_bytes = row_1(columns, plains)
    return EncodedRow(key, value_bytes, texts)
