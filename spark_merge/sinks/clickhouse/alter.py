"""What a table at the target needs to become what the log's is after a DDL: pieces of ALTER TABLE, out of the two schemas.

Which column was renamed, and what existing rows have in a new one, spark_merge/ddl/columns.py says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.ddl.columns import ColumnEffect
from spark_merge.sinks.clickhouse.block import DATES_HINT, Ours
from spark_merge.sinks.clickhouse.columns import DATE_KINDS, END_YEAR, FIRST_YEAR, column_type, holds, keeps_values
from spark_merge.sinks.clickhouse.server import literal, quoted

BY_HAND = (
    "change the table at the target by hand so that it has what the source's has, and name the DDL's commit_ts in the sink's `ddl-done`"
)
AGAIN = (
    "drop the table at the target and name the DDL's commit_ts in the sink's `ddl-done`: it is made again, empty; then dump the table again"
)


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """`renames` first, in an ALTER of their own: a column cannot be renamed and altered at once."""

    renames: tuple[str, ...]
    others: tuple[str, ...]


def change(was: TableSchema, now: TableSchema, columns: Sequence[ColumnEffect], there: Mapping[str, str]) -> ColumnChanges:
    """The schemas as the target keeps them (columns.kept_as), `columns` as the source has them. `there`: the target's columns with their
    types. Raises SinkError for what the target cannot follow."""
    effects = {one.column.name: one for one in columns}
    moves = {one.column.name: one.before.name for one in columns if one.before is not None and one.renamed}
    _check_key(was, now, moves)
    renames = [(old, new) for new, old in moves.items() if new not in there]
    if set(moves) & set(moves.values()):
        raise SinkError(f"{now.name}: columns take each other's names, which the target cannot follow", hint=BY_HAND)
    others: list[str] = []
    for column in now.columns:
        source = effects[column.name].before
        if source is None:
            others.append(_added(column, effects[column.name], now))
            continue
        if not keeps_values(effects[column.name], source, as_text=column.kind == "text"):
            raise SinkError(
                f"{now.name}.{column.name}: {_type_text(source)} becomes {_type_text(effects[column.name].column)}: the target may not"
                " convert values as the source does",
                hint=f"{BY_HAND}; or {AGAIN}",
            )
        wanted = column_type(column, in_key=column.name in now.key)
        if not holds(there.get(moves.get(column.name, column.name), there.get(column.name, "")), wanted):
            if column.name in now.key:
                raise SinkError(f"{now.name}.{column.name} is of the handle key, and its type changes to {_type_text(column)}", hint=AGAIN)
            others.append(f"MODIFY COLUMN {quoted(column.name)} {wanted}")
    gone = {*was.column_names()} - set(moves.values()) - set(now.column_names())
    others += [f"DROP COLUMN IF EXISTS {quoted(name)}" for name in sorted(gone)]
    return ColumnChanges(tuple(f"RENAME COLUMN {quoted(old)} TO {quoted(new)}" for old, new in renames), tuple(others))


def _check_key(was: TableSchema, now: TableSchema, moves: Mapping[str, str]) -> None:
    if was.key != now.key:
        raise SinkError(
            f"{now.name}: its handle key changes from ({', '.join(was.key)}) to ({', '.join(now.key)}), and rows are identified by it",
            hint=AGAIN,
        )
    if moves.keys() & set(now.key):
        raise SinkError(f"{now.name}: columns of its handle key are renamed, which the target cannot follow", hint=AGAIN)
    if Ours.of(was) != Ours.of(now):
        raise SinkError(f"{now.name}: a new column has the name of one of ours", hint=AGAIN)


def _type_text(column: Column) -> str:
    size = f"({column.length}, {column.scale})" if column.kind == "decimal" else f"({column.scale})" if column.scale else ""
    return f"{column.kind}{size}"


# ---- what a new column has in the rows that are there --------------------------------------------------------------------------------


def _added(column: Column, effect: ColumnEffect, now: TableSchema) -> str:
    kind = column_type(column, in_key=column.name in now.key)
    if effect.unknown:
        raise SinkError(
            f"{now.name}.{column.name} is new, and the rows that are there have {effect.unknown} in it",
            hint=f"add it at the target by hand, with a DEFAULT of what it is in the source's older rows ({BY_HAND})",
        )
    default = "" if effect.existing is None else f" DEFAULT {_expression(column, effect.existing, now)}"
    return f"ADD COLUMN IF NOT EXISTS {quoted(column.name)} {kind}{default}"


def _expression(column: Column, text: str, now: TableSchema) -> str:
    kind = column_type(column, in_key=True)
    if column.kind == "binary":
        return f"unhex({literal(text)})"
    if kind == "String":
        return literal(text)
    if column.kind in DATE_KINDS and not _in_calendar(text):
        raise SinkError(f"{now.name}.{column.name} is new, and older rows have '{text}' in it, which the target has not", hint=DATES_HINT)
    return f"CAST({literal(text)}, {literal(kind)})"


def _in_calendar(text: str) -> bool:
    try:
        date.fromisoformat(text[:10])
    except ValueError:
        return False
    return FIRST_YEAR <= text < END_YEAR
