"""How merged rows of a Delta table follow a schema change (lake/ddl.py): what is Delta's own.

    ADD COLUMN                              a column; rows that are there get its default where that is a plain value
    DROP COLUMN                             null in all rows; the Delta column stays
    RENAME COLUMN, CHANGE, MODIFY           another Delta column with the old one's values, where its type holds each of them

Each table's part is one commit with a transaction of its own, after new columns, which a repetition finds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, Seq, TableSchema, lowered
from spark_merge.ddl.columns import ColumnEffect
from spark_merge.ddl.conversion import Conversion
from spark_merge.port.contract import Head
from spark_merge.sinks.delta.columns import Layout, delta_type, layout_of
from spark_merge.sinks.delta.merge import touched
from spark_merge.sinks.delta.statistics import exact, named
from spark_merge.sinks.delta.table import Act, Moment, Table, columns_of, delta_errors, transaction_only, with_transactions
from spark_merge.sinks.lake.ddl import LakeAltered, MergeRules
from spark_merge.sinks.lake.steps import Outpaced

_CALENDAR = re.compile(r"(?!0000)\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])")


def moved(columns: Iterable[ColumnEffect]) -> Iterator[tuple[str, str, str]]:
    """Columns before and after, by the source's names, with the SQL of the value, in which `{}` is the one before."""
    for one in columns:
        was, now = one.before, one.column
        if was is not None and (lowered(was.name) != lowered(now.name) or delta_type(was) != delta_type(now)):
            value = converted(one, was)
            assert value is not None, "the rows can follow"
            yield was.name, now.name, value


def filled(columns: Iterable[ColumnEffect]) -> Iterator[tuple[str, str]]:
    """New columns with the SQL of their values."""
    for one in columns:
        if one.before is None and (value := existing_value(one)) is not None:
            yield one.column.name, value


def _begins(added: ColumnEffect) -> str:
    try:
        existing_value(added)
    except ValueError as error:
        return str(error)
    return ""


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

DELTA = MergeRules(
    "Delta tables", "a table's folder is not renamed", "a MERGE", _begins, lambda one, previous: converted(one, previous) is not None
)


# ---- carried out --------------------------------------------------------------------------------------------------------

_NO_COLUMNS = Layout("", (), ())
"""Of a table whose columns come with its next rows."""


def alter(table: Table, altered: LakeAltered, head: Head, moment: Moment) -> None:
    """Raises SinkError where rows that are there cannot follow; then nothing is done."""
    result, of_ddls = table.load(), replace(moment, of=" ddl")
    if result is None or not result.file_uris() or table.due(result, of_ddls.log_id, of_ddls.of) > moment.last:
        return
    if altered.unless_empty:
        raise DELTA.refused(head, altered.unless_empty)
    after, before, updates, key = _NO_COLUMNS, _NO_COLUMNS, dict[str, str](), list[str]()
    if altered.before is not None and altered.after is not None and not (altered.emptied or altered.by_hand):
        there = columns_of(result)
        before, after = (layout_of(schema, there, "merge") for schema in (altered.before, altered.after))
        new = _names(altered.after, after)
        updates = _updates(altered, _names(altered.before, before), new)
        key = [new[name] for name in altered.after.key if _is_moved(new[name], before, after)] if updates else []

    def act(value: DeltaTable, _: Seq) -> Act | None:
        if table.due(value, moment.log_id) > moment.last + 1:
            return None  # rows have come since: a later owner is past this DDL
        known = named(value) or []
        if added := [name for name in key if name not in known]:  # all rows are rewritten, and the MERGEs after it skip files by them
            table.name_statistics(value, [*known, *added])
            raise Outpaced("by this step of our own")
        made: Act = transaction_only
        if value.file_uris() and altered.emptied:
            made = _deleted
        elif value.file_uris() and updates:
            _check_untyped(value, updates, before)
            made = _updated(updates)
        return with_transactions(made, touched(moment.log_id))

    table.bring(after, of_ddls, act)


def _is_moved(name: str, before: Layout, after: Layout) -> bool:
    """Whether it is another column, of those with statistics."""
    return any(one.name == name and one not in before.columns and exact(one.kind) for one in after.columns)


def _check_untyped(table: DeltaTable, updates: Mapping[str, str], before: Layout) -> None:
    """Values that are in no column of theirs go by the column's name, and stay what they were."""
    dates = [column.source for column in before.columns if f"`{column.name}`" in updates and pa.types.is_temporal(column.kind)]
    untyped = before.envelope("untyped")
    if dates and _rows_with(table, untyped):
        raise SinkError(
            f"column {', '.join(map(str, dates))} of {table.table_uri} may have dates of no calendar, which cannot move to another column",
            hint="use mode=append; or replace these dates at the source before its schema is changed",
        )


def _rows_with(table: DeltaTable, column: str) -> int:
    with delta_errors(table.table_uri):
        return sum(rows.num_rows for rows in table.scan(columns=[column], predicate=f"`{column}` IS NOT NULL"))


def _updates(altered: LakeAltered, old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """`old`, `new`: Delta columns by the source's. What is no column of the source any more is null from here on."""
    updates = {f"`{name}`": "NULL" for name in sorted({*old.values()} - {*new.values()})}
    updates |= {f"`{new[name]}`": value for name, value in filled(altered.columns)}
    others = [(new[to], old[source], value) for source, to, value in moved(altered.columns)]
    return updates | {f"`{to}`": value.format(f"`{source}`") for to, source, value in others if to != source}


def _names(schema: TableSchema, layout: Layout) -> dict[str, str]:
    return {name: column.name for name, column in zip(schema.column_names(), layout.columns, strict=True)}


def _deleted(table: DeltaTable, how: CommitProperties) -> object:
    return table.delete(commit_properties=how)


def _updated(updates: Mapping[str, str]) -> Act:
    return lambda table, how: table.update(updates=dict(updates), commit_properties=how)
