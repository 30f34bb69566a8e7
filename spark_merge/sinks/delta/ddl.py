"""What a schema change does to tables of `mode=merge`, whose rows are to be what TiDB's are. (`append` only sees other columns.)

    TRUNCATE, DROP TABLE, DROP DATABASE     all rows are deleted; the Delta table stays
    CREATE TABLE                            rows that an earlier table left in its place are deleted
    ADD COLUMN                              a column; rows that are there get its default where that is a plain value
    DROP COLUMN                             null in all rows; the Delta column stays
    RENAME COLUMN, CHANGE, MODIFY           another Delta column with the old one's values, where its type holds each of them
    RENAME TABLE                            nothing, where `routes` lead both names to one place; else refused
    indexes, comments, views                nothing
    of `ddl-anew`                           each of its tables begins without rows

TiDB changes rows for the rest without a change event of each: a conversion that rounds or reads a text, EXCHANGE, DROP and TRUNCATE
PARTITION, a default that is computed (but of logs of raw key-values, which have it). They fail with an error, and nothing is done. Each
table's part is one commit with a transaction of its own, after new columns, which a repetition finds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from sidecar.shared.model.nouns import Column, TableName, TableSchema, lowered
from spark_merge.ddl.columns import ColumnEffect
from spark_merge.ddl.conversion import Conversion
from spark_merge.ddl.effects import TableEffect, TableFate
from spark_merge.ddl.routes import Routes
from spark_merge.port.contract import Head
from spark_merge.sinks.delta.columns import delta_type
from spark_merge.sinks.delta.places import table_place
from spark_merge.sinks.kit.table_ddl import Merged, begun_again

_CALENDAR = re.compile(r"(?!0000)\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])")
DELTA = Merged("Delta tables", "a table's folder is not renamed")


@dataclass(frozen=True, slots=True)
class DeltaAltered:
    """A table after a DDL, and what its rows get, by the source's names of its columns. `emptied`: no row stays, whatever else. `moved`: a
    column before and after, with the SQL of the value, in which `{}` is the one before. `filled`: a new column with the SQL of its value.
    `unless_empty`: why rows that are there cannot follow."""

    before: TableSchema
    after: TableSchema | None
    emptied: bool = False
    moved: tuple[tuple[str, str, str], ...] = ()
    filled: tuple[tuple[str, str], ...] = ()
    unless_empty: str = ""


def alterations(head: Head, routes: Routes, done: frozenset[int], again: frozenset[int] = frozenset()) -> list[DeltaAltered]:
    """Of the DDLs that end a segment; of none, where the operator has carried them out. Raises SinkError for what no table can follow."""
    if head.upto_ts in done:
        return []

    def place(name: TableName) -> str:
        return table_place(routes.target(name))

    if head.upto_ts in again:
        return [DeltaAltered(one, None, emptied=True) for one in begun_again(head, place)]
    effects = DELTA.followed(head, routes, place)
    return [altered for effect in effects if (altered := _altered(effect)) is not None]


def _altered(effect: TableEffect) -> DeltaAltered | None:
    before, after = effect.before, effect.after
    if before is None:
        return DeltaAltered(after, None, emptied=True) if after is not None and effect.fate is TableFate.CREATED else None
    if effect.fate in (TableFate.EMPTIED, TableFate.DROPPED):
        return DeltaAltered(before, after, emptied=True)
    if effect.fate is TableFate.UNKEYED:
        return DeltaAltered(before, None, unless_empty=effect.unkeyed)
    return _columns(before, after, effect.columns) if after is not None and effect.changes_columns else None


def _columns(before: TableSchema, after: TableSchema, columns: Sequence[ColumnEffect]) -> DeltaAltered:
    moved: list[tuple[str, str, str]] = []
    filled: list[tuple[str, str]] = []
    why: list[str] = []
    for one in columns:
        was, now = one.before, one.column
        if was is None:
            try:
                filled += [(now.name, value)] if (value := existing_value(one)) is not None else []
            except ValueError as error:
                why.append(f"column {now.name} begins with {error}")
        elif (value := converted(one, was)) is None:
            why.append(f"column {now.name} has values of a {was.kind}, which may be others as a {now.kind}")
        elif lowered(was.name) != lowered(now.name) or delta_type(was) != delta_type(now):
            moved.append((was.name, now.name, value))
    return DeltaAltered(before, after, moved=tuple(moved), filled=tuple(filled), unless_empty="; ".join(why))


def converted(one: ColumnEffect, old: Column) -> str | None:
    """The SQL of a value of `old` that is there, which `{}` is, as one of the column after it; None where there is none that is exact."""
    new = one.column
    conversion, as_text = one.conversion, pa.types.is_string(delta_type(new))
    if conversion is None or (conversion is Conversion.PADDED and as_text):
        return None
    if delta_type(old) == delta_type(new):
        return "{}"
    return None if as_text and old.kind not in ("int", "uint") else f"CAST({{}} AS {_sql_type(new)})"


def existing_value(added: ColumnEffect) -> str | None:
    """As SQL, what existing rows have in a new column; None: null. Raises ValueError with what it is, if that is no plain value."""
    if added.unknown:
        raise ValueError(added.unknown)
    if added.existing is None:
        return None
    text, kind = added.existing, added.column.kind
    quoted = "'" + text.replace("'", "''") + "'"
    if kind == "binary" or (kind in ("date", "datetime", "timestamp") and not _CALENDAR.fullmatch(text[:10])):
        raise ValueError(f"{text!r}, a {kind}")
    match kind:
        case "text" | "enum" | "set" | "json" | "vector" | "time":
            return quoted
        case "datetime":
            return f"arrow_cast({quoted}, 'Timestamp(Microsecond, None)')"
        case "timestamp":
            return f"arrow_cast({quoted}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
        case "decimal" if pa.types.is_string(delta_type(added.column)):
            return quoted
        case _:
            return f"CAST({quoted} AS {_sql_type(added.column)})"


def _sql_type(column: Column) -> str:
    return f"DECIMAL({column.length},{column.scale})" if column.kind == "decimal" else _SQL_TYPES.get(column.kind, "VARCHAR")


_SQL_TYPES = {
    "int": "BIGINT", "uint": "DECIMAL(20,0)", "bit": "DECIMAL(20,0)", "year": "SMALLINT", "float": "FLOAT", "double": "DOUBLE",
    "date": "DATE",
}  # fmt: skip
