"""Where a table's rows are in an output that keeps the log of changes and the DDLs beside it, and what their columns were.

From the present backwards, each DDL that concerns the table ends a stretch of segments:

    TRUNCATE, DROP TABLE, DROP DATABASE, CREATE TABLE    what came before is no row of the table
    RECOVER TABLE, FLASHBACK TABLE                       the same: a dump brings its rows (sinks/table_ddl.py)
    RENAME TABLE                                         what came before is under the former name
    RENAME COLUMN, CHANGE                                what came before has the former column
    ADD COLUMN                                           what came before has the value that TiDB gave to existing rows (columns.py)
    a text that is not understood, a value that is not known    what came before cannot be read
    partitions that are dropped, truncated or exchanged  nothing: the output has these rows, and says so on its page

A dropped column is in no present row, and its name is nobody's: whoever has the name after that was added. What a change of type made of
values is decided by the values (encode/untyped.py). The output has DDLs as text without schemas, so names are compared as TiDB does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from sidecar.core.model import Seq, TableName, TableSchema, lowered
from sidecar.errors import SinkError, UnsupportedDdl
from sidecar.log.manifest import DdlRecord
from spark_merge.ddl.columns import added_column, moved_columns
from spark_merge.ddl.names import name_before
from spark_merge.ddl.parser import parsed
from spark_merge.ddl.statement import Statement, StatementKind

_BEGINS = frozenset({StatementKind.TRUNCATE, StatementKind.CREATE_TABLE, StatementKind.CREATE_LIKE})
_MOVES = frozenset({StatementKind.RENAME, StatementKind.ALTER_TABLE})
_BEGINS_UNREAD = re.compile(r"\s*(?:CREATE\s+TABLE|TRUNCATE|(?:RECOVER|FLASHBACK)\s+TABLE)\b", re.IGNORECASE)
_REDEFINES = ("alter", "modify", "change")


@dataclass(frozen=True, slots=True)
class ColumnThen:
    """`name`: what the column was called; None: it was not there, and rows have `existing` in it."""

    name: str | None
    existing: str | None = None


@dataclass(frozen=True, slots=True)
class Stretch:
    """Segments `after < seq <= upto`, None without that bound, in which the rows of a table were under `table`, in any spelling.
    `columns`: of each column of the present schema. `ddl`: the text that ended it, empty for the last one. `refused`: why rows that are
    there cannot be read."""

    table: TableName
    after: Seq | None
    upto: Seq | None
    columns: tuple[ColumnThen, ...]
    ddl: str = ""
    refused: str = ""

    def meets(self, first: int, last: int) -> bool:
        return (self.after is None or last > self.after) and (self.upto is None or first <= self.upto)

    def check(self, place: str) -> None:
        """Raises SinkError where it has rows in `place` that cannot be read."""
        if self.refused:
            raise SinkError(
                f"rows of {self.table} in {place} up to segment {self.upto} cannot be read: {self.refused}",
                hint="deliver to a new place, and dump again: there all rows come after the DDL",
            )


def stretches(schema: TableSchema, ddls: Iterable[tuple[Seq, DdlRecord]]) -> list[Stretch]:
    """Of a table that has this schema, the last one first. `ddls`: those of its output by the segments that they end, in order."""
    tracer = _Tracer(schema)
    for seq, records in groupby(reversed(list(ddls)), key=lambda one: one[0]):
        if tracer.passes(seq, [record for _, record in records][::-1]):
            return tracer.found
    tracer.end(None)
    return tracer.found


class _Tracer:
    """A table, on the way back from its present."""

    def __init__(self, schema: TableSchema) -> None:
        self.found: list[Stretch] = []
        self._schema = schema
        self._then = Stretch(schema.name, None, None, tuple(ColumnThen(name) for name in schema.column_names()))
        self._redefined: set[int] = set()
        """Columns, by place, that a later DDL defines otherwise."""

    def passes(self, seq: Seq, records: Sequence[DdlRecord]) -> bool:
        """By these DDLs; True where nothing before them is of the table."""
        statements, moves = list[Statement](), list[tuple[TableName, TableName]]()
        text = "; ".join(record.query for record in records)
        for record in filter(lambda one: one.query, records):
            try:
                statement = parsed(record.query, record.schema)
            except UnsupportedDdl as error:
                if self._is_own(TableName(record.schema, record.table)):
                    if _BEGINS_UNREAD.match(record.query):
                        return self.end(seq)
                    self._refuse(seq, text, error.message)
                continue
            statements.append(statement)
            if statement.kind in _MOVES:
                moves += [(source.folded(), target.folded()) for source, target in statement.moves]
                self._check_source(seq, text, statement)
        if any(map(self._begins_with, statements)):
            return self.end(seq)
        former = name_before(self._then.table.folded(), list(dict.fromkeys(moves)))
        if former is None:
            return self.end(seq)
        if former != self._then.table.folded():
            self._step(seq, text, replace(self._then, table=_as_written(former, statements)))
        self._follow_columns(
            seq, text, [one for one in statements if one.kind is StatementKind.ALTER_TABLE and self._is_own(one.tables()[0])]
        )
        return False

    def end(self, seq: Seq | None) -> bool:
        """What came up to `seq` is none of the table's."""
        self.found.append(replace(self._then, after=seq))
        return True

    def _step(self, seq: Seq, ddl: str, then: Stretch) -> None:
        """What came up to `seq` was `then`; several steps at one segment are one."""
        if self._then.upto != seq:
            self.found.append(replace(self._then, after=seq))
        self._then = replace(then, upto=seq, ddl=ddl)

    def _refuse(self, seq: Seq, ddl: str, why: str) -> None:
        self._step(seq, ddl, replace(self._then, refused=self._then.refused or why))

    def _is_own(self, name: TableName) -> bool:
        return name.folded() == self._then.table.folded()

    def _begins_with(self, statement: Statement) -> bool:
        if statement.kind is StatementKind.DROP_SCHEMA:
            return lowered(self._then.table.schema) in map(lowered, statement.schemas())
        if statement.kind is StatementKind.DROP_TABLE:
            return any(map(self._is_own, statement.tables()))
        return statement.kind in _BEGINS and self._is_own(statement.tables()[0])

    def _check_source(self, seq: Seq, text: str, statement: Statement) -> None:
        """`RENAME TABLE a TO other.b`: which schema `a` was in the text does not say."""
        for source, target in statement.moves:
            if self._is_own(target) and source in statement.assumed and target not in statement.assumed:
                self._refuse(seq, text, f"the DDL {statement.text!r} does not say which schema {source.table} was in")

    def _follow_columns(self, seq: Seq, text: str, statements: Sequence[Statement]) -> None:
        moved = moved_columns(statements)
        added = {lowered(name): one.text for one in statements for name in one.added}
        redefined = _redefined(statements)
        names = [one.name for one in self._then.columns]
        self._redefined |= {place for place, name in enumerate(names) if name is not None and lowered(name) in redefined}
        if moved or added or redefined:
            self._step(seq, text, self._then)
            columns = tuple(self._before(place, column, moved, added) for place, column in enumerate(self._then.columns))
            self._then = replace(self._then, columns=columns)

    def _before(self, place: int, then: ColumnThen, moved: Mapping[str, str], added: Mapping[str, str]) -> ColumnThen:
        if then.name is None or lowered(then.name) not in added:
            return then if then.name is None else ColumnThen(moved.get(lowered(then.name), then.name))
        effect = added_column(self._schema.columns[place], self._schema)
        unknown = effect.unknown or ("a default that was changed since" if place in self._redefined and not self._schema.layout else "")
        if unknown:
            why = f"the DDL {added[lowered(then.name)]!r} gave them {unknown} in column {effect.column.name}"
            self._then = replace(self._then, refused=self._then.refused or why)
        return ColumnThen(None, effect.existing)


def _redefined(statements: Iterable[Statement]) -> set[str]:
    """Folded names of columns, as they are after the statements."""
    found: set[str] = set()
    for one in statements:
        for item in one.items:
            words = [piece.strip() for piece in item if isinstance(piece, str)]
            if words and words[0].lower() in _REDEFINES:
                found |= {lowered(word.strip("`").replace("``", "`")) for word in words if word.startswith("`")}
    return found


def _as_written(folded: TableName, statements: Iterable[Statement]) -> TableName:
    return next(source for one in statements for source, _ in one.moves if source.folded() == folded)
