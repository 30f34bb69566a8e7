"""Carries out what `ddl` returns, a commit a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Seq, TableSchema
from spark_merge.port.contract import Head
from spark_merge.sinks.delta.columns import Layout, layout_of
from spark_merge.sinks.delta.ddl import DELTA, DeltaAltered
from spark_merge.sinks.delta.merge import touched
from spark_merge.sinks.delta.statistics import exact, named
from spark_merge.sinks.delta.table import Act, Moment, Table, columns_of, delta_errors, transaction_only, with_transactions


def alter(table: Table, altered: DeltaAltered, head: Head, moment: Moment) -> None:
    """Raises SinkError where rows that are there cannot follow; then nothing is done."""
    result = table.load()
    if result is None or not result.file_uris():
        return
    there = columns_of(result)
    before = layout_of(altered.before, there, "merge")
    after = before if altered.after is None or altered.emptied else layout_of(altered.after, there, "merge")

    def act(value: DeltaTable, _: Seq) -> Act | None:
        if table.due(value, moment.log_id) > moment.last + 1:
            return None  # rows have come since: a later owner is past this DDL
        made = _act(value, altered, before, after)
        if (names := _with_key(value, altered, before, after)) is not None:
            table.name_statistics(value, names)
            return _look_again
        return with_transactions(made, touched(moment.log_id))

    of_ddls = replace(moment, of=" ddl")
    if table.due(result, of_ddls.log_id, of_ddls.of) > moment.last:
        return
    if altered.unless_empty and not altered.emptied:
        raise DELTA.refused(head, altered.unless_empty)
    table.bring(after, of_ddls, act)


def _with_key(table: DeltaTable, altered: DeltaAltered, before: Layout, after: Layout) -> list[str] | None:
    """The columns with statistics, and those to which the key moves: all rows are rewritten, and the MERGEs after it skip files by them."""
    known = named(table) or []
    if altered.after is None or not _updates(altered, before, after):
        return None
    moved = {column.name for column in after.columns if column not in before.columns and exact(column.kind)}
    new = _names(altered.after, after)
    added = [new[name] for name in altered.after.key if new[name] in moved and new[name] not in known]
    return [*known, *added] if added else None


def _look_again(_: DeltaTable, __: CommitProperties) -> object:
    raise CommitFailedError("the table has another version now")


def _act(value: DeltaTable, altered: DeltaAltered, before: Layout, after: Layout) -> Act:
    if not value.file_uris():
        return transaction_only
    if altered.emptied:
        return lambda table, how: table.delete(commit_properties=how)
    updates = _updates(altered, before, after)
    _check_untyped(value, updates, before)
    return (lambda table, how: _updated(table, updates, how)) if updates else transaction_only


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


def _updates(altered: DeltaAltered, before: Layout, after: Layout) -> dict[str, str]:
    """What is no column of the source any more is null from here on."""
    old = _names(altered.before, before)
    new = _names(altered.after or altered.before, after)
    updates = {f"`{name}`": "NULL" for name in sorted({*old.values()} - {*new.values()})}
    updates |= {f"`{new[name]}`": value for name, value in altered.filled}
    moved = [(new[to], old[source], value) for source, to, value in altered.moved]
    return updates | {f"`{to}`": value.format(f"`{source}`") for to, source, value in moved if to != source}


def _names(schema: TableSchema, layout: Layout) -> dict[str, str]:
    return {name: column.name for name, column in zip(schema.column_names(), layout.columns, strict=True)}


def _updated(table: DeltaTable, updates: Mapping[str, str], how: CommitProperties) -> object:
    return table.update(updates=dict(updates), commit_properties=how)
