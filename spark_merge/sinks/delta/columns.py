"""What columns a Delta table has for a table of the source. First the envelope's (codecs/encode/typed.py), in `mode=merge` two of them:

    append   _seq _ordinal _commit_ts _op _origin _dump_id _untyped        merge   _commit_ts _untyped

then those of the source, with types that Delta has:

    int    long                         uint, bit  decimal(20,0)              date       date
    float  float                        binary     binary                     datetime   timestamp_ntz
    double double                       year       short                      timestamp  timestamp
    decimal(p, s)  decimal(p, s), string above 38 digits or where the precision is not known
    text, enum, set, json, vector, time string

A Delta column is never renamed, dropped or retyped here: delta-rs writes no column mapping. It stays, null from then on, and what comes in
its place is a column of its own. Each keeps in its metadata the name that its column has at the source; a source's column is the Delta
column of its name and type, and where the name is taken, `{name}_2`, `_3` and so on. So the place of a column is a function of the table's
schema and of what the Delta table has, and nothing needs to be remembered beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal

import pyarrow as pa

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableSchema, lowered
from spark_merge.codecs.encode.typed import arrow_type, envelope_fields, envelope_prefix

Mode = Literal["append", "merge"]

SOURCE = "ticdc-dump.column"
"""In a Delta column's metadata: its name at the source. The envelope's have none."""

_DIGITS_MAX = 38
_UNSIGNED = pa.decimal128(20, 0)
_KEPT_BY_MERGE = ("commit_ts", "untyped")
_REFUSED = re.compile(r"[ ,;{}()\n\t=`\"\\]")
"""What Delta, or a reader's SQL, takes in no column's name."""


@dataclass(frozen=True, slots=True)
class DeltaColumn:
    """`source`: its name at the source, None for the envelope's. `kind`: as Arrow has it."""

    name: str
    kind: pa.DataType
    source: str | None


@dataclass(frozen=True, slots=True)
class Layout:
    """A table's columns in its Delta table. `prefix`: the envelope's. `columns`: in the order of the table schema's. `missing`: what the
    Delta table has not yet, in order; all of it, if there is none. Picklable."""

    prefix: str
    columns: tuple[DeltaColumn, ...]
    missing: tuple[DeltaColumn, ...]

    def files(self) -> pa.Schema:
        """Of the rows that tasks write: the whole envelope, then the columns."""
        return pa.schema([*envelope_fields(self.prefix), *(pa.field(column.name, column.kind) for column in self.columns)])

    def envelope(self, name: str) -> str:
        return self.prefix + name


def delta_type(column: Column) -> pa.DataType:
    match column.kind:
        case "uint" | "bit":
            return _UNSIGNED
        case "decimal":
            return pa.decimal128(column.length, column.scale) if 0 < column.length <= _DIGITS_MAX else pa.string()
        case _:
            return arrow_type(column)


def layout_of(schema: TableSchema, there: Sequence[DeltaColumn], mode: Mode) -> Layout:
    """`there`: the Delta table's columns, empty for a table that is to be made. Raises SinkError for a name that Delta does not take, and
    for a Delta table that is none of this sink's."""
    prefix = _prefix_of(schema, there, mode) if there else envelope_prefix(schema)
    missing = [] if there else [DeltaColumn(field.name, field.type, None) for field in _envelope(prefix, mode)]
    known = {(lowered(column.source), column.kind): column for column in there if column.source is not None}
    taken = {lowered(column.name) for column in (*there, *missing)}
    own = {lowered(column.name) for column in schema.columns}
    columns = []
    for column in schema.columns:
        kind = delta_type(column)
        result = known.get((lowered(column.name), kind))
        if result is None:
            result = DeltaColumn(_free(schema, column.name, taken, own), kind, column.name)
            taken.add(lowered(result.name))
            missing.append(result)
        columns.append(result)
    return Layout(prefix, tuple(columns), tuple(missing))


def _envelope(prefix: str, mode: Mode) -> list[pa.Field]:
    return [field for field in envelope_fields(prefix) if mode == "append" or field.name.removeprefix(prefix) in _KEPT_BY_MERGE]


def _prefix_of(schema: TableSchema, there: Sequence[DeltaColumn], mode: Mode) -> str:
    """That with which it was made: a later column may be named like one of the envelope."""
    first = "seq" if mode == "append" else "commit_ts"
    prefix = there[0].name.removesuffix(first)
    ours = [column for column in there if column.source is None]
    if not prefix or prefix.strip("_") or [(column.name, column.kind) for column in ours] != _named(_envelope(prefix, mode)):
        raise SinkError(
            f"the Delta table of {schema.name} is none that this sink made, or was altered: its first columns are "
            + ", ".join(column.name for column in there[:7]),
            hint="deliver to a folder of its own, or move that table away",
        )
    return prefix


def _named(fields: Iterable[pa.Field]) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in fields]


def _free(schema: TableSchema, name: str, taken: set[str], own: set[str]) -> str:
    """`name`, or the first of `name_2` and so on that neither the Delta table nor the source's has."""
    if _REFUSED.search(name):
        raise SinkError(
            f"column {name!r} of {schema.name} cannot be a Delta column: it may have no space, quote or any of ,;{{}}()= in its name",
            hint="rename the column at the source, or leave the table out by the changefeed's filter",
        )
    if lowered(name) not in taken:
        return name
    return next(tried for number in count(2) if lowered(tried := f"{name}_{number}") not in taken | own)
