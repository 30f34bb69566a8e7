"""Schema changes at the target, from their effects on the log's tables (spark_merge/ddl/effects.py).

    dropped ─► moved ─► each table that is new or other: made, or altered with its note (tables.Note) in one statement ─► its view

- Done again it changes nothing: a table's note says which DDL it has behind it, and a move looks for tables by the name in their notes.
- What a DDL takes away of rows is what is not newer than it: a TRUNCATE raises the table's floor, below which its view shows nothing, and
  deletes what is below. So an earlier worker that wakes up and inserts, or truncates, takes and brings nothing.
- A DDL that an operator has carried out is not carried out: its tables are compared, and noted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableName, TableSchema
from spark_merge.ddl.effects import TableEffect, TableFate, effects
from spark_merge.port.contract import Head
from spark_merge.sinks.clickhouse.alter import BY_HAND, change
from spark_merge.sinks.clickhouse.block import Ours
from spark_merge.sinks.clickhouse.server import identifier, quoted
from spark_merge.sinks.clickhouse.tables import ClickHouseTables, Note, There
from spark_merge.sinks.kit.table_ddl import checked_effects

_ASIDE = "__moving"


def followed(head: Head) -> list[TableEffect]:
    """What the segment's DDLs did. Raises UnsupportedDdl for a text that cannot be read, SinkError for what the target cannot follow."""
    table_effects = checked_effects(head)
    for effect in table_effects:
        if effect.problem is not None:
            raise effect.problem
        at = f"segment {head.seq}, DDL at commit_ts {head.upto_ts}, {effect.record and effect.record.query!r}"
        if effect.rows_leave:
            raise SinkError(
                f"{at}: the target has no partitions",
                hint=f"mark the rows that it takes away: INSERT INTO `…__rows` SELECT * REPLACE ({2 * head.upto_ts} AS _version, 1 AS"
                f" _is_deleted) FROM `…__rows` FINAL WHERE …; rows that it brings have _version {2 * head.upto_ts + 1}; then name"
                " the DDL's commit_ts in the sink's `ddl-done`",
            )
        if effect.fate is TableFate.UNKEYED:
            raise SinkError(f"{at}: {effect.unkeyed}", hint=BY_HAND)
    return table_effects


class ClickHouseDdlRunner:
    """`check_owner` is called before each step that changes something, and raises for an earlier owner."""

    def __init__(self, tables: ClickHouseTables, check_owner: Callable[[], None]) -> None:
        self._tables, self._check_owner = tables, check_owner
        self._names, self._server = tables.settings.names, tables.settings.server

    def carry_out(self, head: Head) -> None:
        """Raises SinkError, UnsupportedDdl, OwnershipLost."""
        if head.upto_ts in self._tables.settings.done:
            self._each((_Step(effect, effect.after, head.upto_ts) for effect in effects(head) if effect.after), self._by_hand)
            return
        table_effects = followed(head)
        moved = {effect.before.name: effect.name for effect in table_effects if effect.fate is TableFate.RENAMED and effect.before}
        dropped = {effect.name for effect in table_effects if effect.fate is TableFate.DROPPED}
        self._drop(dropped, head.upto_ts)
        self._move(moved, head.upto_ts)
        self._each((_Step(effect, schema, head.upto_ts) for effect in table_effects if (schema := _schema_at_target(effect))), self._one)
        gone = (moved.keys() | dropped) - {effect.name for effect in table_effects if effect.fate is not TableFate.DROPPED}
        there = self._tables.read(view for name in gone if (view := self._names.reader(name)))
        for name in sorted(gone):
            self._tables.drop_view(name, there)

    def _each(self, steps: Iterable[_Step], act: Callable[[_Step], None]) -> None:
        for step in sorted(steps, key=lambda step: step.schema.name):
            if step.changes:
                self._check_owner()
                act(step)

    # ---- whole tables ----------------------------------------------------------------------------------------------------------------

    def _drop(self, names: set[TableName], upto: int) -> None:
        there = self._tables.read(self._names.rows(name) for name in names)
        for name in sorted(names):
            target = there.get(self._names.rows(name))
            if target is not None and target.note is not None and target.note.name == name and target.note.upto < upto:
                self._check_owner()
                rows = self._names.rows(name)
                self._server.run(f"DROP TABLE IF EXISTS {identifier(rows)} SYNC", doing=f"dropping {rows}")

    def _move(self, moved: Mapping[TableName, TableName], upto: int) -> None:
        """First each table's note says where it goes, then all go there; one whose place is taken waits aside."""
        for name, target in self._tables.read(self._names.rows(source) for source in moved).items():
            note = target.note
            if note is not None and note.moved < upto and self._names.rows(note.name) == name and note.name in moved:
                self._check_owner()
                self._note(name, msgspec.structs.replace(note, table=tuple(moved[note.name]), moved=upto))
        places = {self._names.rows(name) for pair in moved.items() for name in pair}
        places |= {_aside(name) for name in places}
        for _ in range(3 * len(moved) + 1):
            there = self._tables.read(places)
            waiting = {
                name: self._names.rows(target.note.name)
                for name, target in there.items()
                if target.note is not None and target.note.moved == upto and self._names.rows(target.note.name) != name
            }
            if not waiting:
                return
            free = next((name for name, goal in waiting.items() if goal not in there), None)
            source = free or next(iter(waiting))
            self._rename(source, waiting[source] if free else _aside(waiting[source]))
        raise SinkError(f"tables do not come to their names: {', '.join(map(str, sorted(places)))}", hint="look at who else renames them")

    def _rename(self, source: TableName, target: TableName) -> None:
        self._check_owner()
        doing = f"renaming {source} to {target}"
        self._server.run(f"CREATE DATABASE IF NOT EXISTS {quoted(target.schema)}", doing=doing)
        self._server.run(f"RENAME TABLE {identifier(source)} TO {identifier(target)}", doing=doing)

    # ---- one table -------------------------------------------------------------------------------------------------------------------

    def _one(self, step: _Step) -> None:
        name, schema = self._names.rows(step.schema.name), step.schema
        target = self._there(name)
        if target is None and step.effect.before is not None:
            raise SinkError(
                f"{name}, which has the rows of {schema.name}, is not at the target and {step} changes it",
                hint="bring it back, or dump again",
            )
        if target is None:
            note = self._tables.note(schema, step.upto, step.floor)
            self._tables.make(schema, note)
        else:
            self._tables.check_ours(name, target, schema.name)
            assert target.note is not None, "it is ours"
            note = target.note
            if note.upto < step.upto:
                note = msgspec.structs.replace(note, upto=step.upto, floor=step.floor if step.begins_empty else note.floor)
                self._alter(name, target, step, note)
        self._shown(name, step, note, emptied=step.effect.fate is TableFate.EMPTIED)

    def _alter(self, name: TableName, there: There, step: _Step, note: Note) -> None:
        doing = f"{step}: altering {name}"
        others: tuple[str, ...] = ()
        if step.effect.before is None:
            self._tables.compare(step.schema, there)
        else:
            self._tables.learn_key(step.schema, there)
            was = self._tables.kept(replace(step.effect.before, name=step.schema.name))
            due = change(was, self._tables.kept(step.schema), step.effect.columns, there.columns)
            if due.renames:
                self._server.run(f"ALTER TABLE {identifier(name)} {', '.join(due.renames)}", doing=doing)
            others = due.others
        if others:
            self._server.run(f"ALTER TABLE {identifier(name)} {', '.join(others)}", doing=doing)
        self._note(name, note)

    def _shown(self, name: TableName, step: _Step, note: Note, *, emptied: bool = False) -> None:
        there = self._tables.read(one for one in (name, self._names.reader(step.schema.name)) if one)
        self._tables.compare(step.schema, there[name])
        self._tables.view(step.schema, there, floor=note.floor)
        if emptied:
            below = f"{quoted(Ours.of(step.schema).version)} <= {note.floor}"
            self._server.run(f"ALTER TABLE {identifier(name)} DELETE WHERE {below}", doing=f"{step}: deleting the rows of {name}")

    def _by_hand(self, step: _Step) -> None:
        name, schema = self._names.rows(step.schema.name), step.schema
        target = self._there(name)
        if target is None:
            note = self._tables.note(schema, step.upto, step.floor)
            self._tables.make(schema, note)
        else:
            old = target.note or self._tables.note(schema)
            note = msgspec.structs.replace(old, table=tuple(schema.name), upto=step.upto)
            self._note(name, note)
        self._shown(name, step, note)

    def _there(self, name: TableName) -> There | None:
        return self._tables.read([name]).get(name)

    def _note(self, name: TableName, note: Note) -> None:
        self._server.run(f"ALTER TABLE {identifier(name)} MODIFY COMMENT {note.text()}", doing=f"noting what {name} is")


@dataclass(frozen=True, slots=True)
class _Step:
    """What the DDLs at `upto` make of one table, which is `schema` after them."""

    effect: TableEffect
    schema: TableSchema
    upto: int

    def __str__(self) -> str:
        return f"the DDL at commit_ts {self.upto}"

    @property
    def floor(self) -> int:
        """The greatest version of what was committed before it."""
        return 2 * self.upto + 1

    @property
    def begins_empty(self) -> bool:
        return self.effect.before is None or self.effect.fate is TableFate.EMPTIED

    @property
    def changes(self) -> bool:
        was, now = self.effect.before, self.schema
        if self.begins_empty or was is None or self.effect.renamed_columns:
            return True
        others = (was.name, was.columns, was.key) != (now.name, now.columns, now.key)
        return others or any(one.may_change_values for one in self.effect.columns)


def _schema_at_target(effect: TableEffect) -> TableSchema | None:
    """Also of a table that goes to a name which the log does not have."""
    if effect.fate is TableFate.RENAMED and effect.before is not None:
        return effect.after or replace(effect.before, name=effect.name)
    return effect.after


def _aside(name: TableName) -> TableName:
    return TableName(name.schema, name.table + _ASIDE)
