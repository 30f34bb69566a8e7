"""What a table at the target needs to become what the log's is after a DDL: pieces of ALTER TABLE, out of the two schemas.

A column that was renamed is told by the DDL's text, as schemas do not tell it from one that was dropped and another that came. A new
column has, in the rows that are there, what the source's have: its default as of the DDL, which logs of raw key-values tell exactly; else
it is read from the definition, if that is a plain value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from sidecar.core.model import Column, ColumnDefinition, TableSchema
from sidecar.errors import SinkError
from sidecar.rowcodec.kv_layout import kv_table_of
from spark_merge.sinks.clickhouse.block import DATES_HINT, Ours
from spark_merge.sinks.clickhouse.columns import DATE_KINDS, END_YEAR, FIRST_YEAR, column_type, holds, keeps_values
from spark_merge.sinks.clickhouse.server import literal, quoted
from spark_merge.sinks.mysql.ddl_tokens import Token, tokens

BY_HAND = (
    "change the table at the target by hand so that it has what the source's has, and name the DDL's commit_ts in the sink's `ddl-done`"
)
ANEW = (
    "drop the table at the target and name the DDL's commit_ts in the sink's `ddl-done`: it is made anew, empty; then dump the table again"
)


@dataclass(frozen=True, slots=True)
class Change:
    """`renames` first, in an ALTER of their own: a column cannot be renamed and altered at once."""

    renames: tuple[str, ...]
    others: tuple[str, ...]


def column_moves(text: str) -> dict[str, str]:
    """Of an ALTER TABLE the columns that it renames, new name to old."""
    found, words = dict[str, str](), tokens(text)
    for at, token in enumerate(words):
        if token.kind != "word" or token.value not in ("CHANGE", "RENAME"):
            continue
        names = [word for word in words[at + 1 : at + 5] if not (word.kind == "word" and word.value in ("COLUMN", "IF", "EXISTS"))]
        if token.value == "CHANGE" and len(names) > 1:
            found[_name(names[1])] = _name(names[0])
        elif words[at + 1].value == "COLUMN" and len(names) > 2:
            found[_name(names[2])] = _name(names[0])
    return {new: old for new, old in found.items() if new != old}


def _name(token: Token) -> str:
    return token.value if token.kind == "name" else token.text


def change(was: TableSchema, now: TableSchema, moves: Mapping[str, str], there: Mapping[str, str]) -> Change:
    """The schemas as the target keeps them (columns.kept_as). `moves`: `column_moves`. `there`: the target's columns with their types.
    Raises SinkError for what the target cannot follow."""
    before, after = {column.name: column for column in was.columns}, now
    moves = _spelled(moves, before, after)
    _check_key(was, now, moves)
    renames = [(old, new) for new, old in moves.items() if new not in there]
    if set(moves) & set(moves.values()):
        raise SinkError(f"{now.name}: columns take each other's names, which the target cannot follow", hint=BY_HAND)
    others: list[str] = []
    for column in after.columns:
        former = before.get(moves.get(column.name, column.name))
        if former is None:
            others.append(_added(column, now))
            continue
        if not keeps_values(former, column):
            raise SinkError(
                f"{now.name}.{column.name}: {_told(former)} becomes {_told(column)}: the target may not convert values as the source does",
                hint=f"{BY_HAND}; or {ANEW}",
            )
        wanted = column_type(column, in_key=column.name in now.key)
        if not holds(there.get(moves.get(column.name, column.name), there.get(column.name, "")), wanted):
            if column.name in now.key:
                raise SinkError(f"{now.name}.{column.name} is of the handle key, and its type changes to {_told(column)}", hint=ANEW)
            others.append(f"MODIFY COLUMN {quoted(column.name)} {wanted}")
    gone = before.keys() - set(moves.values()) - set(after.column_names())
    others += [f"DROP COLUMN IF EXISTS {quoted(name)}" for name in sorted(gone)]
    return Change(tuple(f"RENAME COLUMN {quoted(old)} TO {quoted(new)}" for old, new in renames), tuple(others))


def _spelled(moves: Mapping[str, str], before: Mapping[str, Column], after: TableSchema) -> dict[str, str]:
    """With the schemas' spelling; those alone that are columns of rows (a virtual column may be renamed too)."""
    old_names = {name.lower(): name for name in before}
    new_names = {name.lower(): name for name in after.column_names()}
    return {
        new_names[new.lower()]: old_names[old.lower()]
        for new, old in moves.items()
        if new.lower() in new_names and old.lower() in old_names
    }


def _check_key(was: TableSchema, now: TableSchema, moves: Mapping[str, str]) -> None:
    if was.key != now.key:
        raise SinkError(
            f"{now.name}: its handle key changes from ({', '.join(was.key)}) to ({', '.join(now.key)}), and rows are told apart by it",
            hint=ANEW,
        )
    if moves.keys() & set(now.key):
        raise SinkError(f"{now.name}: columns of its handle key are renamed, which the target cannot follow", hint=ANEW)
    if Ours.of(was) != Ours.of(now):
        raise SinkError(f"{now.name}: a new column has the name of one of ours", hint=ANEW)


def _told(column: Column) -> str:
    size = f"({column.length}, {column.scale})" if column.kind == "decimal" else f"({column.scale})" if column.scale else ""
    return f"{column.kind}{size}"


# ---- what a new column has in the rows that are there --------------------------------------------------------------------------------


def _added(column: Column, now: TableSchema) -> str:
    kind = column_type(column, in_key=column.name in now.key)
    text = _text_of_old_rows(column, now)
    default = "" if text is None else f" DEFAULT {_expression(column, text, now)}"
    return f"ADD COLUMN IF NOT EXISTS {quoted(column.name)} {kind}{default}"


def _text_of_old_rows(column: Column, now: TableSchema) -> str | None:
    if now.layout:
        return next(found.absent for found in kv_table_of(now).columns if found.column.name == column.name)
    definitions: Sequence[ColumnDefinition] = now.definition.columns if now.definition else ()
    found = next((one for one in definitions if one.name == column.name), None)
    if found is not None and not found.generated:
        if found.default is None and column.nullable:
            return None
        literals = tokens(found.default or "")[:-1]
        if len(literals) == 1 and column.kind not in ("binary", "bit", "json") and (text := _plain(literals[0])) is not None:
            return text
    raise SinkError(
        f"{now.name}.{column.name} is new, and the log does not tell what the rows that are there have in it",
        hint=f"add it at the target by hand, with a DEFAULT of what it is in the source's older rows ({BY_HAND})",
    )


def _plain(token: Token) -> str | None:
    """A literal without anything that would be escaped, and no expression."""
    if token.kind == "number":
        return token.text
    inner = token.text[1:-1]
    return inner if token.kind == "string" and "'" not in inner and "\\" not in inner else None


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
