"""Schema changes at the target, told by the log's schemas before and after; by the DDLs' texts only what schemas do not tell.

    dropped ─► moved ─► each table that is new or other: made, or altered with its note (tables.Note) in one statement ─► its view

- Done again it changes nothing: a table's note says which DDL it has behind it, and a move looks for tables by the name in their notes.
- What a DDL takes away of rows is what is not newer than it: a TRUNCATE raises the table's floor, below which its view shows nothing, and
  deletes what is below. So a former worker that wakes up and inserts, or truncates, takes and brings nothing.
- A DDL that an operator has carried out is not carried out: its tables are compared, and noted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from sidecar.core.model import MARK_TABLE, TableName, TableSchema, lowered
from sidecar.errors import SinkError
from sidecar.log.manifest import DdlRecord
from spark_merge.contract import Head
from spark_merge.ddl.columns import column_effects
from spark_merge.ddl.logged import logged_ddls
from spark_merge.ddl.names import together
from spark_merge.ddl.statement import Kind, Partitions, Statement
from spark_merge.sinks.clickhouse.alter import change
from spark_merge.sinks.clickhouse.block import Ours
from spark_merge.sinks.clickhouse.server import identifier, quoted
from spark_merge.sinks.clickhouse.tables import Note, Tables, There, has_rows

_ASIDE = "__moving"


@dataclass
class Told:
    """What the statements of a segment's DDLs say. `moved`: from the name before to the name after."""

    dropped: set[TableName] = field(default_factory=set)
    truncated: set[TableName] = field(default_factory=set)
    moved: dict[TableName, TableName] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)


def told(head: Head) -> Told:
    """Raises UnsupportedDdl for a text that cannot be read, SinkError for a DDL that the target cannot follow."""
    found, moves = Told(), list[Statement]()
    for ddl in logged_ddls(head, head.ddls):
        record, statement = ddl.record, ddl.statement
        if record.schema == MARK_TABLE.schema:
            continue
        if ddl.problem is not None:
            raise ddl.problem
        found.statements.append(statement)
        match statement.kind:
            case Kind.DROP_TABLE:
                found.dropped |= set(statement.tables())
            case Kind.DROP_SCHEMA:
                gone = {lowered(name) for name in statement.schemas()}
                found.dropped |= {name for name in head.schemas if lowered(name.schema) in gone}
            case Kind.TRUNCATE:
                found.truncated |= set(statement.tables())
            case Kind.RENAME:
                moves.append(statement)
            case Kind.ALTER_TABLE | Kind.EXCHANGE:
                _check_keeps_rows(head, record, statement)
                moves += [statement] if statement.moves else []
    if moves:
        for source, target in together(moves, head).moves:
            first = next((name for name, now in found.moved.items() if now == source), source)
            found.moved[first] = target
    return found


def _check_keeps_rows(head: Head, record: DdlRecord, statement: Statement) -> None:
    if statement.partitions is Partitions.ROWS_LEAVE:
        raise SinkError(
            f"segment {head.seq}, DDL at commit_ts {record.commit_ts}, {record.query!r}: the target has no partitions",
            hint=f"mark the rows that it takes away: INSERT INTO `…__rows` SELECT * REPLACE ({2 * record.commit_ts} AS _version, 1 AS"
            f" _is_deleted) FROM `…__rows` FINAL WHERE …; rows that it brings have _version {2 * record.commit_ts + 1}; then name"
            " the DDL's commit_ts in the sink's `ddl-done`",
        )


class Ddls:
    """`check_owner` is called before each step that changes something, and raises for a former owner."""

    def __init__(self, tables: Tables, check_owner: Callable[[], None]) -> None:
        self._tables, self._check_owner = tables, check_owner
        self._names, self._server = tables.settings.names, tables.settings.server

    def carry_out(self, head: Head) -> None:
        """All of the segment's. Raises SinkError, UnsupportedDdl, OwnershipLost."""
        before = {name: schema for name, schema in head.schemas.items() if has_rows(schema)}
        after = {name: schema for name, schema in head.next_schemas.items() if has_rows(schema)}
        self._tables.check_apart(after.values())
        by_hand = any(record.commit_ts in self._tables.settings.done for record in head.ddls)
        found = Told() if by_hand else told(head)
        moved = {source: target for source, target in found.moved.items() if source in before}
        after |= {target: replace(before[source], name=target) for source, target in moved.items() if target not in after}
        self._drop(found.dropped & before.keys(), head.upto_ts)
        self._move(moved, head.upto_ts)
        came_from = {target: source for source, target in moved.items()}
        for name, schema in sorted(after.items()):
            was = before.get(came_from.get(name, name))
            if name not in came_from and name in moved:
                was = None
            step = _Step(schema, was, head.upto_ts, name in found.truncated, tuple(found.statements))
            if step.changes(moved=name in came_from):
                self._check_owner()
                self._by_hand(step) if by_hand else self._one(step)
        there = self._tables.read(view for name in before.keys() - after.keys() if (view := self._names.reader(name)))
        for name in sorted((moved.keys() | found.dropped) & before.keys() - after.keys()):
            self._tables.drop_view(name, there)

    # ---- whole tables ----------------------------------------------------------------------------------------------------------------

    def _drop(self, names: set[TableName], upto: int) -> None:
        there = self._tables.read(self._names.rows(name) for name in names)
        for name in sorted(names):
            found = there.get(self._names.rows(name))
            if found is not None and found.note is not None and found.note.name == name and found.note.upto < upto:
                self._check_owner()
                rows = self._names.rows(name)
                self._server.run(f"DROP TABLE IF EXISTS {identifier(rows)} SYNC", doing=f"dropping {rows}")

    def _move(self, moved: Mapping[TableName, TableName], upto: int) -> None:
        """First each table's note says where it goes, then all go there; one whose place is taken waits aside."""
        for name, found in self._tables.read(self._names.rows(source) for source in moved).items():
            note = found.note
            if note is not None and note.moved < upto and self._names.rows(note.name) == name and note.name in moved:
                self._check_owner()
                self._note(name, msgspec.structs.replace(note, table=tuple(moved[note.name]), moved=upto))
        places = {self._names.rows(name) for pair in moved.items() for name in pair}
        places |= {_aside(name) for name in places}
        for _ in range(3 * len(moved) + 1):
            there = self._tables.read(places)
            waiting = {
                name: self._names.rows(found.note.name)
                for name, found in there.items()
                if found.note is not None and found.note.moved == upto and self._names.rows(found.note.name) != name
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
        found = self._there(name)
        if found is None and step.was is not None:
            raise SinkError(
                f"{name}, which has the rows of {schema.name}, is not at the target and {step} changes it",
                hint="bring it back, or dump anew",
            )
        if found is None:
            note = self._tables.note(schema, step.upto, step.floor)
            self._tables.make(schema, note)
        else:
            self._tables.check_ours(name, found, schema.name)
            assert found.note is not None, "it is ours"
            note = found.note
            if note.upto < step.upto:
                cleared = step.truncated or step.was is None
                note = msgspec.structs.replace(note, upto=step.upto, floor=step.floor if cleared else note.floor)
                self._alter(name, found, step, note)
        self._shown(name, step, note)

    def _alter(self, name: TableName, found: There, step: _Step, note: Note) -> None:
        doing = f"{step}: altering {name}"
        others: tuple[str, ...] = ()
        if step.was is None:
            self._tables.compare(step.schema, found)
        else:
            self._tables.learn_key(step.schema, found)
            was = self._tables.kept(replace(step.was, name=step.schema.name))
            columns = column_effects(step.was, step.schema, step.statements)
            due = change(was, self._tables.kept(step.schema), columns, found.columns)
            if due.renames:
                self._server.run(f"ALTER TABLE {identifier(name)} {', '.join(due.renames)}", doing=doing)
            others = due.others
        if others:
            self._server.run(f"ALTER TABLE {identifier(name)} {', '.join(others)}", doing=doing)
        self._note(name, note)

    def _shown(self, name: TableName, step: _Step, note: Note) -> None:
        there = self._tables.read(one for one in (name, self._names.reader(step.schema.name)) if one)
        self._tables.compare(step.schema, there[name])
        self._tables.view(step.schema, there, floor=note.floor)
        if step.truncated:
            below = f"{quoted(Ours.of(step.schema).version)} <= {note.floor}"
            self._server.run(f"ALTER TABLE {identifier(name)} DELETE WHERE {below}", doing=f"{step}: deleting the rows of {name}")

    def _by_hand(self, step: _Step) -> None:
        name, schema = self._names.rows(step.schema.name), step.schema
        found = self._there(name)
        if found is None:
            note = self._tables.note(schema, step.upto, step.floor)
            self._tables.make(schema, note)
        else:
            old = found.note or self._tables.note(schema)
            note = msgspec.structs.replace(old, table=tuple(schema.name), upto=step.upto)
            self._note(name, note)
        self._shown(name, replace(step, truncated=False), note)

    def _there(self, name: TableName) -> There | None:
        return self._tables.read([name]).get(name)

    def _note(self, name: TableName, note: Note) -> None:
        self._server.run(f"ALTER TABLE {identifier(name)} MODIFY COMMENT {note.text()}", doing=f"noting what {name} is")


@dataclass(frozen=True, slots=True)
class _Step:
    """What the DDLs at `upto` make of one table. `was` None: it comes with them. `statements`: all of the segment's."""

    schema: TableSchema
    was: TableSchema | None
    upto: int
    truncated: bool
    statements: tuple[Statement, ...]

    def __str__(self) -> str:
        return f"the DDL at commit_ts {self.upto}"

    @property
    def floor(self) -> int:
        """The greatest version of what was committed before it."""
        return 2 * self.upto + 1

    def changes(self, *, moved: bool) -> bool:
        was, now = self.was, self.schema
        return was is None or moved or self.truncated or (was.columns, was.key) != (now.columns, now.key)


def _aside(name: TableName) -> TableName:
    return TableName(name.schema, name.table + _ASIDE)
