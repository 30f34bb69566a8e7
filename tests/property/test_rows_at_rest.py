"""A row at rest can have any earlier layout: rows that are written between DDLs which leave rows as they are, in every row format and with
a checksum of every version, are read at rest by the last layout, as SQL shows them.

DDLs: ADD COLUMN, with a default or nullable; DROP COLUMN; MODIFY COLUMN to a wider integer, text, BIT or ENUM, or to more digits of a
fraction. Checksums are computed here, by the columns that the table has at the write; of version 1 also over the key of another table.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema
from sidecar.shared.reads.tikv_reads import TikvRows
from sidecar.shared.rowcodec.kv_json import json_text
from sidecar.shared.rowcodec.kv_layout import kv_table_of, layout_of, schema_under
from sidecar.shared.rowcodec.kv_row import decode_row
from sidecar.shared.tikv.scan import ScannedRows
from spark_merge.codecs.decode.kv_rows import read
from tests.lanes import examples
from tests.property.test_kv_decoders import same
from tests.support.kv_encoder import (
    TYPES,
    Json,
    Plain,
    cell,
    column,
    info,
    json_bytes,
    memcomparable_int,
    row_1,
    row_2,
    row_2_checked,
    row_key,
)
from tests.support.kv_values import BITS, Value, typed_columns

_SETTINGS = settings(
    max_examples=examples(80),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
ID = column(1, "id", "bigint", primary=True)
TIMES = ("datetime", "timestamp", "time")
TEXT_KINDS = frozenset(TYPES[name] for name in ("date", *TIMES, "decimal"))
NAMES = {code: name for name, code in TYPES.items()}
OTHER_TABLE = 77
FORMATS = ("1", "2", "2 large", "sum 0", "sum 0 amid", "sum 1 key", "sum 1 other key", "sum 1 handle", "sum 2")


@dataclass
class AnyColumn:
    """`default`: of a row without it, as SQL shows it."""

    info: dict[str, Any]
    values: st.SearchStrategy[Value]
    default: str | None = None


@dataclass
class AnyRow:
    """`texts`: of the columns that it was written with, by id."""

    key: bytes
    value: bytes
    texts: dict[int, str | None]
    layout: int


@dataclass
class Life:
    """`layout` counts the DDLs."""

    columns: dict[int, AnyColumn]
    rows: list[AnyRow] = field(default_factory=list)
    layout: int = 0

    def schema(self) -> TableSchema:
        table_info = info([ID, *(one.info for one in self.columns.values())], int_handle=True, update_timestamp=0)
        return schema_under(TableSchema(TableName("s", "t"), (), ()), layout_of(1, table_info, new_collation=True))

    def shown(self, row: AnyRow) -> list[str | None]:
        handle = str(self.rows.index(row))
        return [handle, *(scaled(one.info, row.texts.get(id_, one.default)) for id_, one in self.columns.items())]


def scaled(of: Mapping[str, Any], text: str | None) -> str | None:
    """With the digits of a fraction that the column has."""
    digits = of["type"]["Decimal"]
    if text is None or NAMES[of["type"]["Tp"]] not in TIMES or not digits:
        return text
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction.ljust(digits, '0')}"


def summed(of: Mapping[str, Any], plain: Plain, text: str) -> bytes:
    """A value in a checksum of version 0: appendDatumForChecksum in pkg/util/rowcodec/common.go."""
    if of["type"]["Tp"] in TEXT_KINDS:
        return with_length((scaled(of, text) or "").encode())
    match plain:
        case int():
            return struct.pack("<Q", plain % (1 << 64))
        case float():
            return struct.pack("<d", plain)
        case bytes():
            return with_length(plain)
        case Json(value):
            return with_length(json_text(json_bytes(value)).encode())
    return cell(dict(of), plain)


def with_length(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def crc_of(columns: Mapping[int, AnyColumn], values: Mapping[int, Value], handle: int) -> bytes:
    crc = crc32(struct.pack("<Q", handle))
    for id_ in sorted(columns):
        value = values.get(id_, Value(None, None))
        if value.plain is not None and value.text is not None:
            crc = crc32(summed(columns[id_].info, value.plain, value.text), crc)
    return struct.pack("<I", crc)


@st.composite
def written(draw: st.DrawFn, life: Life) -> AnyRow:
    handle = len(life.rows)
    values = {id_: draw(st.one_of(one.values, one.values, st.just(Value(None, None)))) for id_, one in life.columns.items()}
    infos = {id_: one.info for id_, one in life.columns.items()}
    # TiDB omits NULL where the column has no default at all.
    kept = {
        id_: one for id_, one in values.items() if one.plain is not None or life.columns[id_].default is not None or draw(st.booleans())
    }
    plains = {id_: one.plain for id_, one in kept.items()}
    bare = memcomparable_int(handle)
    crc = crc_of(life.columns, values, handle)
    match draw(st.sampled_from(FORMATS)):
        case "1":
            data = row_1(infos, plains)
        case "2":
            data = row_2(infos, plains)
        case "2 large":
            data = row_2(infos, plains, large=True)
        case "sum 0":
            data = row_2(infos, plains, checksum=b"\0" + crc)
        case "sum 0 amid":
            other = draw(st.binary(min_size=4, max_size=4))
            data = row_2(infos, plains, checksum=b"\x08" + (crc + other if draw(st.booleans()) else other + crc))
        case "sum 1 key":
            data = row_2_checked(infos, plains, row_key(bare), version=1)
        case "sum 1 other key":
            data = row_2_checked(infos, plains, row_key(bare, table_id=OTHER_TABLE), version=1)
        case "sum 1 handle":
            data = row_2_checked(infos, plains, bare, version=1)
        case _:
            data = row_2_checked(infos, plains, bare, version=2)
    return AnyRow(row_key(bare), data, {id_: one.text for id_, one in values.items()}, life.layout)


def wider(of: dict[str, Any], more: int) -> dict[str, Any]:
    """As a MODIFY COLUMN that leaves rows as they are makes the column."""
    type_, name = dict(of["type"]), NAMES[of["type"]["Tp"]]
    if name in BITS:
        sizes = sorted(BITS, key=BITS.__getitem__)
        type_["Tp"] = TYPES[sizes[min(sizes.index(name) + more, len(sizes) - 1)]]
    elif name in TIMES:
        type_["Decimal"] = min(type_["Decimal"] + more, 6)
    elif name == "varchar":
        type_["Flen"] += more
    elif name == "bit":
        type_["Flen"] = min(type_["Flen"] + more, 64)
    elif name == "enum":
        type_["Elems"] = [*type_["Elems"], *(f"e{number}" for number in range(len(type_["Elems"]), len(type_["Elems"]) + more))]
    return of | {"type": type_}


@st.composite
def added(draw: st.DrawFn, id_: int) -> AnyColumn:
    match draw(st.sampled_from(["int", "datetime", "nullable", "nullable"])):
        case "int":
            return AnyColumn(column(id_, f"c{id_}", "int", origin_default="7"), st.integers(-9, 9).map(lambda v: Value(v, str(v))), "7")
        case "datetime":
            moment = Value((((2024 * 13 + 2) << 5 | 29) << 17 | 1 << 12) << 24, "2024-02-29 01:00:00")
            made = column(id_, f"c{id_}", "datetime", origin_default="2020-01-01 00:00:00")
            return AnyColumn(made, st.just(moment), "2020-01-01 00:00:00")
    return AnyColumn(*draw(typed_columns(id_)))


@st.composite
def lives(draw: st.DrawFn) -> Life:
    ids = iter(range(2, 40))
    life = Life({id_: AnyColumn(*draw(typed_columns(id_))) for id_ in (next(ids) for _ in range(draw(st.integers(1, 4))))})
    for _ in range(draw(st.integers(1, 5))):
        for _ in range(draw(st.integers(1, 3))):
            life.rows.append(draw(written(life)))
        match draw(st.sampled_from(["add", "drop", "modify", "modify"])):
            case "add":
                id_ = next(ids)
                life.columns[id_] = draw(added(id_))
            case "drop" if len(life.columns) > 1:
                del life.columns[draw(st.sampled_from(sorted(life.columns)))]
            case _:
                one = life.columns[draw(st.sampled_from(sorted(life.columns)))]
                one.info = wider(one.info, draw(st.integers(1, 4)))
        life.layout += 1
    life.rows.append(draw(written(life)))
    return life


@_SETTINGS
@given(lives())
def test_a_row_at_rest_of_any_earlier_layout_is_what_sql_shows(life: Life) -> None:
    table = kv_table_of(life.schema())
    slow = [decode_row(table, row.key, row.value, at_rest=True) for row in life.rows]
    for row, texts in zip(life.rows, slow, strict=True):
        for one, text, expected in zip(table.columns, texts, life.shown(row), strict=True):
            assert same(one.column.kind, text, expected), (one, text, expected)
    assert of_a_dump(life) == of_old_values(life) == slow


def of_a_dump(life: Life) -> list[list[str | None]]:
    rows = ScannedRows([row.key for row in life.rows], [row.value for row in life.rows], whole=True)
    chunk = TikvRows(rows, life.schema(), None, CommitTs(1), None, None, True, (), 0.0).texts(where="here")
    assert isinstance(chunk, pa.Table), chunk
    return texts_of(chunk.columns)


def of_old_values(life: Life) -> list[list[str | None]]:
    """Of live changes that delete the rows."""
    keys, values = [row.key for row in life.rows], [b"\0\0\0\0" + row.value for row in life.rows]
    return texts_of(read(pa.array(keys, pa.binary()), pa.array(values, pa.binary()), life.schema(), ServerZone()).columns)


def texts_of(columns: Sequence[Any]) -> list[list[str | None]]:
    return [list(texts) for texts in zip(*(one.to_pylist() for one in columns), strict=True)]
