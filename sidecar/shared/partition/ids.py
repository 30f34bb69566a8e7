"""Which partition each row of a table is in: the physical id that TiCDC's messages carry, by the table's definition.

- As TiDB locates a row to be written (pkg/table/tables/partition.go): HASH by the remainder of the value as a signed number of 64 bits,
  without its sign; RANGE and RANGE COLUMNS by the first partition whose bound is above the value, NULL below all; LIST and LIST
  COLUMNS by value, then the DEFAULT partition; KEY by CRC-32 of the columns' texts one after another.
- Text is compared where its collation is of bytes (`_bin`): of another one TiDB's sort keys would be needed. KEY of a type whose text
  depends on a session is not decided either.
- Amid a reorganisation of partitions new ones have no definition yet: rows of raw key-values have the id in their keys (`key_ids`).
- Rows that were put into a partition that is not theirs (EXCHANGE PARTITION WITHOUT VALIDATION) get the id of their own partition.
- What cannot be decided raises SinkError with the table and what is in the way: no partition is guessed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, ColumnDefinition, TableSchema
from sidecar.shared.partition.clause import Clause, Literal, NotRead, read_clause
from sidecar.shared.partition.value import NotDecided, evaluated

NEW_LOG = (
    "the log was written by 0.3.0 or before up to here: set log.uri to a new folder and each sink to a new output, start again, and dump"
    " (dumpstart); sinks of files need none of this and continue"
)

Row = Mapping[str, str | None]
Locate = Callable[[Row], int]
_NULL_KEY = b"\0"
_BYTES = ("utf8mb4_bin", "utf8_bin", "utf8mb3_bin", "ascii_bin", "latin1_bin")
_NO_PAD = "utf8mb4_0900_bin"
_HINT = "leave the table out of this sink (filter rules of the changefeed), or write its rows in a protocol that needs no partition"

Sortable = tuple[tuple[int, int | bytes], ...]
"""Of each column 0 for NULL, 1 for a value, 2 for MAXVALUE, then the value."""


def is_partitioned(schema: TableSchema) -> bool:
    """As far as the ids show: where the source has none, no table is."""
    return schema.physical_ids not in ((), (schema.table_id,))


def partition_ids(schema: TableSchema, columns: Sequence[pa.Array]) -> npt.NDArray[np.int64] | None:
    """The physical id of each row; None for a table without partitions. `columns`: canonical text in schema order, of the rows as they
    are written (for a delete: as they were). Raises SinkError."""
    if not is_partitioned(schema):
        return None
    located = _located(schema)
    ids = np.asarray(schema.physical_ids, dtype=np.int64)
    try:
        places = _by_number(located, columns) if located.number is not None else _by_row(located, columns)
    except NotDecided as error:
        raise _undecided(schema, str(error)) from error
    except _NoPartition as error:
        raise SinkError(
            f"{schema.name} has no partition for a row with {error}",
            hint="the row is older than the partitions that the log has: begin a new dump of the table, then report this",
        ) from error
    located_ids: npt.NDArray[np.int64] = ids[places]
    return located_ids


def key_ids(keys: pa.Array) -> npt.NDArray[np.int64]:
    """The physical ids that row keys of TiKV begin with (`t`, then the id with its sign turned round, big-endian): of raw key-values, which
    know where they are whatever a definition says. `keys`: binary, none null and each of a row, as a log of raw key-values holds them."""
    heads = pc.binary_slice(keys, 1, 9).to_pylist()
    return (np.frombuffer(b"".join(heads), dtype=">u8").astype(np.uint64) ^ np.uint64(1 << 63)).view(np.int64)


class _NoPartition(ValueError):
    pass


class _Located:
    """One schema's way. `number`: the column's place, where the value of one integer column alone decides; else `locate`, by the columns
    at `places`."""

    def __init__(self, clause: Clause, schema: TableSchema, locate: Locate, names: Sequence[str]) -> None:
        by_name = {column.name.lower(): place for place, column in enumerate(schema.columns)}
        self.clause = clause
        self.places = [by_name[name.lower()] for name in names]
        self.names = [schema.columns[place].name for place in self.places]
        self.locate = locate
        only = clause.expression.name if clause.expression is not None else ""
        self.number = by_name.get(only.lower()) if only and clause.kind in ("HASH", "RANGE") else None
        self.kind = schema.columns[self.number].kind if self.number is not None else ""


@lru_cache(maxsize=1024)
def _located(schema: TableSchema) -> _Located:
    """Raises SinkError."""
    definition = schema.definition
    if definition is None or not definition.partitioning:
        raise SinkError(
            f"{schema.name} is partitioned, and the log does not tell how: it was written by 0.3.0 or before, or amid a reorganisation",
            hint=NEW_LOG,
        )
    try:
        clause = read_clause(definition.partitioning)
        if clause.count != len(schema.physical_ids):
            raise NotDecided(f"{clause.count} partitions, while {len(schema.physical_ids)} ids are known")
        columns = {column.name.lower(): column for column in schema.columns}
        names = clause.columns or (clause.expression.columns() if clause.expression else ())
        if absent := [name for name in names if name.lower() not in columns]:
            raise NotDecided(f"column {absent[0]}, which the rows do not have")
        definitions = {column.name.lower(): column for column in definition.columns}
        by_columns = [(columns[name.lower()], definitions.get(name.lower())) for name in names]
        return _Located(clause, schema, _locate(clause, columns, by_columns), names)
    except (NotRead, NotDecided) as error:
        raise _undecided(schema, str(error)) from error


def _undecided(schema: TableSchema, what: str) -> SinkError:
    assert schema.definition is not None
    clause = schema.definition.partitioning
    shown = clause if len(clause) <= 200 else clause[:200] + "…"
    return SinkError(f"which partition of {schema.name} a row is in cannot be decided by {shown}: {what}", hint=_HINT)


def _locate(clause: Clause, columns: Mapping[str, Column], by_columns: Sequence[tuple[Column, ColumnDefinition | None]]) -> Locate:
    if clause.kind == "KEY":
        return _by_key(clause.count, by_columns)
    if clause.expression is None:
        return _by_columns(clause, by_columns)
    value = evaluated(clause.expression, columns)
    if clause.kind == "HASH":
        return lambda row: _remainder(value(row) or 0, clause.count)
    if clause.kind == "RANGE":
        bounds = [_bound(rows[0][0]) for rows in clause.values]
        return lambda row: _in_range((_ranked(value(row)),), bounds)
    among, default = _listed(clause, lambda row: (_integer(row[0]),))

    def locate(row: Row) -> int:
        number = among.get((value(row),), default)
        return _known(number, value(row))

    return locate


# ---- numbers, columns at a time -------------------------------------------------------------------------------------


def _by_number(located: _Located, columns: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
    """HASH and RANGE of one integer column."""
    assert located.number is not None
    texts = columns[located.number]
    absent = np.asarray(texts.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    unsigned = located.kind == "uint"
    dtype, arrow_type = (np.uint64, pa.uint64()) if unsigned else (np.int64, pa.int64())
    values = pc.fill_null(pc.cast(texts, arrow_type), 0).to_numpy(zero_copy_only=False).astype(dtype)
    if located.clause.kind == "HASH":
        remainders: npt.NDArray[np.int64] = np.abs(np.fmod(values.view(np.int64), located.clause.count))
        return remainders
    literals = [rows[0][0] for rows in located.clause.values]
    last = literals[-1].kind == "MAXVALUE"
    bounds = [_integer(one) for one in literals[: len(literals) - last]]
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    kept = np.asarray([min(max(one or 0, low), high) for one in bounds], dtype=dtype)
    if any(one is None or not low <= one <= high for one in bounds):
        return _by_row(located, columns)
    places = np.where(absent, 0, np.searchsorted(kept, values, side="right"))
    if (places >= len(literals)).any():
        raise _NoPartition(f"{values[places >= len(literals)][0]} in the column that it goes by")
    return places.astype(np.int64)


def _by_row(located: _Located, columns: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
    """Each distinct row of the columns that count is located once."""
    known: dict[tuple[str | None, ...], int] = {}
    places = np.empty(len(columns[0]), dtype=np.int64)
    for number, texts in enumerate(zip(*(columns[place].to_pylist() for place in located.places), strict=True)):
        located_at = known.get(texts)
        if located_at is None:
            known[texts] = located_at = located.locate(dict(zip(located.names, texts, strict=True)))
        places[number] = located_at
    return places


def _remainder(value: int, count: int) -> int:
    signed = (value + (1 << 63)) % (1 << 64) - (1 << 63)
    return abs(signed) % count


def _integer(literal: Literal) -> int | None:
    if literal.kind == "NULL":
        return None
    if literal.kind != "number" or "." in literal.text:
        raise NotDecided(f"the value {literal.text or literal.kind}")
    return int(literal.text)


def _ranked(value: int | bytes | None) -> tuple[int, int | bytes]:
    return (0, 0) if value is None else (1, value)


def _bound(literal: Literal) -> Sortable:
    return ((2, 0),) if literal.kind == "MAXVALUE" else (_ranked(_integer(literal)),)


def _in_range(value: Sortable, bounds: Sequence[Sortable]) -> int:
    """The first bound above the value. What comes after MAXVALUE in a bound does not count."""
    place = bisect_right(bounds, value)
    if place == len(bounds):
        raise _NoPartition("a value above all bounds")
    return place


def _known(place: int | None, value: object) -> int:
    if place is None:
        raise _NoPartition(f"{value} in the column that it goes by")
    return place


# ---- columns --------------------------------------------------------------------------------------------------------


def _by_columns(clause: Clause, by_columns: Sequence[tuple[Column, ColumnDefinition | None]]) -> Locate:
    forms = [(column.name, _form(column, definition)) for column, definition in by_columns]

    def key(row: Row) -> Sortable:
        return tuple(_ranked(None if (text := row[name]) is None else form(text)) for name, form in forms)

    def literals(row: Sequence[Literal]) -> Sortable:
        return tuple(of_literal(one, column, form) for one, (column, _), (_, form) in zip(row, by_columns, forms, strict=True))

    if clause.kind == "RANGE":
        bounds = [literals(rows[0]) for rows in clause.values]
        return lambda row: _in_range(key(row), bounds)
    among, default = _listed(clause, literals)
    return lambda row: _known(among.get(key(row), default), "these values")


def _listed(clause: Clause, key: Callable[[Sequence[Literal]], tuple[object, ...]]) -> tuple[dict[tuple[object, ...], int], int | None]:
    """Each value's partition, and the one for all others."""
    among: dict[tuple[object, ...], int] = {}
    default = None
    for place, rows in enumerate(clause.values):
        for row in rows:
            if row[0].kind == "DEFAULT":
                default = place
            else:
                among[key(row)] = place
    return among, default


def _form(column: Column, definition: ColumnDefinition | None) -> Callable[[str], int | bytes]:
    """How canonical text of the column is compared."""
    match column.kind:
        case "int" | "uint" | "year":
            return int
        case "date" | "datetime":
            return str.encode
        case "binary":
            return bytes.fromhex
        case "text":
            return _collated(column, definition)
    raise NotDecided(f"column {column.name}, which is a {column.kind}")


def _collated(column: Column, definition: ColumnDefinition | None) -> Callable[[str], bytes]:
    collation = definition.collation if definition else ""
    if collation == _NO_PAD:
        return str.encode
    if collation not in _BYTES:
        raise NotDecided(f"column {column.name}, whose collation {collation or '(unknown)'} does not compare bytes")
    return lambda text: text.rstrip(" ").encode()


def of_literal(literal: Literal, column: Column, form: Callable[[str], int | bytes]) -> tuple[int, int | bytes]:
    """As `_ranked` of the column's canonical text, of which `form` makes what is compared. Raises NotDecided."""
    if literal.kind == "MAXVALUE":
        return (2, 0)
    if literal.kind == "NULL":
        return (0, 0)
    if column.kind in ("int", "uint", "year"):
        return _ranked(_integer(Literal("number", literal.text) if literal.kind == "text" else literal))
    if literal.kind == "hex":
        raw = bytes.fromhex(literal.text)
        return _ranked(raw if column.kind == "binary" else form(raw.decode()))
    if literal.kind != "text":
        raise NotDecided(f"the value {literal.text} of column {column.name}")
    if column.kind == "binary":
        return _ranked(literal.text.encode())
    return _ranked(form(_as_date(literal.text, column) if column.kind in ("date", "datetime") else literal.text))


def _as_date(text: str, column: Column) -> str:
    """A bound in the column's own form."""
    day, _, time = text.partition(" ")
    if len(day) != len("2020-01-01") or day[4::3] != "--":
        raise NotDecided(f"the value {text} of column {column.name}")
    if column.kind == "date":
        if time.strip("0:.") != "":
            raise NotDecided(f"the value {text} of column {column.name}, which is a date")
        return day
    whole, _, digits = (time or "00:00:00").partition(".")
    if digits[column.scale :].strip("0"):
        raise NotDecided(f"the value {text} of column {column.name}, with more digits than it has")
    return f"{day} {whole}" + (f".{digits[: column.scale].ljust(column.scale, '0')}" if column.scale else "")


# ---- KEY ------------------------------------------------------------------------------------------------------------


def _by_key(count: int, by_columns: Sequence[tuple[Column, ColumnDefinition | None]]) -> Locate:
    hashed = [(column.name, _hashed(column, definition)) for column, definition in by_columns]

    def locate(row: Row) -> int:
        total = 0
        for name, of in hashed:
            text = row[name]
            total = crc32(_NULL_KEY if text is None else of(text), total)
        return total % count

    return locate


def _hashed(column: Column, definition: ColumnDefinition | None) -> Callable[[str], bytes]:
    """Datum.ToHashKey: the value's text under its collation."""
    match column.kind:
        case "int" | "uint":
            return str.encode
        case "year":
            return lambda text: str(int(text)).encode()
        case "date" | "datetime" | "decimal" | "time":
            return str.encode
        case "binary":
            return bytes.fromhex
        case "text" | "enum" | "set":
            return _collated(column, definition)
    raise NotDecided(f"column {column.name}, which is a {column.kind}")
