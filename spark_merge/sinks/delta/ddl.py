"""What a schema change does to tables of `mode=merge`, whose rows are to be what TiDB's are. (`append` only sees other columns.)

    TRUNCATE, DROP TABLE, DROP DATABASE     all rows are deleted; the Delta table stays
    ADD COLUMN                              a column; rows that are there get its default where that is a plain value
    DROP COLUMN                             null in all rows; the Delta column stays
    RENAME COLUMN, CHANGE, MODIFY           another Delta column with the former's values, where its type holds each of them
    RENAME TABLE                            nothing, where `routes` lead both names to one place; else refused
    indexes, comments, views, CREATE …      nothing

TiDB changes rows for the rest without telling of each one: a conversion that rounds or reads a text, EXCHANGE, DROP and TRUNCATE PARTITION,
a default that is computed (but of logs of raw key-values, which tell it). They are refused by name, with nothing done. Each table's part is
one commit with a transaction of its own, after new columns, which a repetition finds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sidecar.core.model import Column, TableSchema, lowered
from sidecar.rowcodec.kv_layout import kv_table_of
from spark_merge.contract import Head
from spark_merge.sinks.delta.columns import delta_type
from spark_merge.sinks.mysql.ddl_routes import Routes
from spark_merge.sinks.table_ddl import Merged, emptied

_NAME = r"(`(?:[^`]|``)+`|[\w$]+)"
_MOVED_COLUMN = re.compile(rf"\b(?:RENAME\s+COLUMN|CHANGE(?:\s+COLUMN)?(?:\s+IF\s+EXISTS)?)\s+{_NAME}\s+(?:TO\s+)?{_NAME}", re.IGNORECASE)
_QUOTED = re.compile(r"'((?:[^'\\]|'')*)'")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_CALENDAR = re.compile(r"(?!0000)\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])")
DELTA = Merged("Delta tables", "a table's folder is not renamed", "folder")
_PLAIN_DIGITS_MAX = 38
_ZERO = {"int": "0", "uint": "0", "decimal": "0", "float": "0", "double": "0", "text": "", "set": ""}


@dataclass(frozen=True, slots=True)
class Altered:
    """A table after a DDL, and what its rows get, by the source's names of its columns. `emptied`: no row stays, whatever else. `moved`: a
    column before and after, with the SQL of the value, in which `{}` is the former. `filled`: a new column with the SQL of its value.
    `unless_empty`: why rows that are there cannot follow."""

    before: TableSchema
    after: TableSchema | None
    emptied: bool = False
    moved: tuple[tuple[str, str, str], ...] = ()
    filled: tuple[tuple[str, str], ...] = ()
    unless_empty: str = ""


def alterations(head: Head, routes: Routes, done: frozenset[int]) -> list[Altered]:
    """Of the DDLs that end a segment, but those whose commit_ts is in `done`. Raises SinkError for what no table can follow."""
    ddls = [ddl for ddl in head.ddls if ddl.commit_ts not in done and ddl.query]
    if not ddls and head.ddls:
        return []
    gone = emptied(ddls, head.schemas, routes, DELTA)
    found = [Altered(head.schemas[name], head.next_schemas.get(name), emptied=True) for name in sorted(gone)]
    text = " ".join(ddl.query for ddl in ddls)
    for name in sorted(head.schemas.keys() & head.next_schemas.keys() - gone):
        before, after = head.schemas[name], head.next_schemas[name]
        if before.undefined() != after.undefined():
            found.append(_altered(before, after, text))
    return found


def _altered(before: TableSchema, after: TableSchema, text: str) -> Altered:
    old = {lowered(column.name): column for column in before.columns}
    new = {lowered(column.name): column for column in after.columns}
    pairs = [(old[one], new[two]) for one, two in _moved(text) if one in old.keys() - new.keys() and two in new.keys() - old.keys()]
    begun = new.keys() - old.keys() - {lowered(column.name) for _, column in pairs}
    pairs += [(old[name], new[name]) for name in sorted(old.keys() & new.keys()) if not _is_as_it_was(old[name], new[name])]
    moved: list[tuple[str, str, str]] = []
    filled: list[tuple[str, str]] = []
    why: list[str] = []
    for was, now in pairs:
        if (value := conversion(was, now)) is None:
            why.append(f"column {now.name} has values of a {was.kind}, which may be others as a {now.kind}")
        else:
            moved.append((was.name, now.name, value))
    for column in (new[name] for name in sorted(begun)):
        try:
            value = default_of(column, after)
        except ValueError as error:
            why.append(f"column {column.name} begins with {error}")
        else:
            filled += [(column.name, value)] if value is not None else []
    return Altered(before, after, moved=tuple(moved), filled=tuple(filled), unless_empty="; ".join(why))


def _moved(text: str) -> Iterator[tuple[str, str]]:
    for one, two in _MOVED_COLUMN.findall(text):
        yield lowered(one.strip("`").replace("``", "`")), lowered(two.strip("`").replace("``", "`"))


def _is_as_it_was(old: Column, new: Column) -> bool:
    return delta_type(old) == delta_type(new) and conversion(old, new) == "{}"


def conversion(old: Column, new: Column) -> str | None:
    """The SQL of a value that is there as one of `new`'s, exact for each that TiDB takes; None where there is none."""
    kind = delta_type(new)
    as_text = pa.types.is_string(kind)
    match old.kind, new.kind:
        case ("int" | "uint" | "bit", "int"):
            return "{}" if old.kind == "int" else "CAST({} AS BIGINT)"
        case ("int" | "uint" | "bit", "uint") | ("bit", "bit"):
            return "CAST({} AS DECIMAL(20,0))" if old.kind == "int" else "{}"
        case ("int" | "uint", "text"):
            return "CAST({} AS VARCHAR)"
        case ("int" | "uint", "decimal") if not as_text and new.length - new.scale <= _PLAIN_DIGITS_MAX:
            return f"CAST({{}} AS DECIMAL({new.length},{new.scale}))"
        case ("decimal", "decimal") if delta_type(old) == kind and old.scale == new.scale:
            return "{}"
        case ("decimal", "decimal") if not as_text and not pa.types.is_string(delta_type(old)) and new.scale >= old.scale:
            return f"CAST({{}} AS DECIMAL({new.length},{new.scale}))"
        case ("float", "double"):
            return "CAST({} AS DOUBLE)"
        case ("enum" | "set", "text"):
            return "{}"
        case ("datetime", "datetime") | ("timestamp", "timestamp"):
            return "{}" if new.scale >= old.scale else None
        case ("binary", "binary"):
            return "{}" if old.length == new.length else None
        case (one, other) if one == other and old.scale == new.scale:
            return "{}"
    return None


def default_of(column: Column, table: TableSchema) -> str | None:
    """As SQL, what rows that were there have in a new column; None: null. Raises ValueError with what it is, if that is no plain value."""
    if table.layout:
        text = next(one.absent for one in kv_table_of(table).columns if one.column.name == column.name)
        return None if text is None else _literal(column, text)
    definition = next((one for one in table.definition.columns if one.name == column.name), None) if table.definition else None
    if definition is None or definition.generated:
        raise ValueError("a default that the log does not tell" if definition is None else "what a formula makes of each row")
    default = definition.default
    if default is None and column.nullable:
        return None
    if default is not None and default.upper() == "NULL":
        return None
    if default is None and column.kind == "enum":
        return _literal(column, column.elements[0])
    if default is None:
        if column.kind not in _ZERO:
            raise ValueError(f"the zero value of a {column.kind}")
        return _literal(column, _ZERO[column.kind])
    quoted = _QUOTED.fullmatch(default)
    if quoted is None and not _NUMBER.fullmatch(default):
        raise ValueError(f"the computed default {default}")
    return _literal(column, quoted[1].replace("''", "'") if quoted else default)


def _literal(column: Column, text: str) -> str:
    quoted = "'" + text.replace("'", "''") + "'"
    match column.kind:
        case "text" | "enum" | "set" | "json" | "vector" | "time":
            return quoted
        case "int":
            return f"CAST({quoted} AS BIGINT)"
        case "float":
            return f"CAST({quoted} AS FLOAT)"
        case "double":
            return f"CAST({quoted} AS DOUBLE)"
        case "uint" | "bit":
            return f"CAST({quoted} AS DECIMAL(20,0))"
        case "year":
            return f"CAST({quoted} AS SMALLINT)"
        case "date" if _CALENDAR.fullmatch(text):
            return f"CAST({quoted} AS DATE)"
        case "datetime" if _CALENDAR.fullmatch(text[:10]):
            return f"arrow_cast({quoted}, 'Timestamp(Microsecond, None)')"
        case "timestamp" if _CALENDAR.fullmatch(text[:10]):
            return f"arrow_cast({quoted}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
        case "decimal" if not pa.types.is_string(delta_type(column)):
            return f"CAST({quoted} AS DECIMAL({column.length},{column.scale}))"
        case _:
            raise ValueError(f"{text!r}, a {column.kind}")
