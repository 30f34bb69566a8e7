"""A table's rows in an output that keeps rows of all times: what they are in the table's present columns.

An **era** lies between two DDLs of the table. It is worked out backwards from the present schema, by the statements alone: an output
has the text of its DDLs, and seldom the schemas of its tables.

    CREATE, TRUNCATE, DROP, of a name that the table takes   rows from before are not the table's: its first era begins here
    RECOVER, FLASHBACK TABLE                                 the same: its rows come with a dump (sinks/kit/table_ddl.py)
    RENAME                                                   another name before; unreadable if its schema is not in the text
    ADD, DROP, RENAME, CHANGE, MODIFY COLUMN                 a column's rows from before are under another name, or have the default
    DROP, TRUNCATE, EXCHANGE PARTITION                       unreadable: which rows are still there is not in the output.
                                                             `keeps_partitions`: rows from before stay rows of the table
    another handle key, a statement that is not understood   unreadable: which row another one replaces is not in the output
    MODIFY, CHANGE to a type that may make other values      unreadable, if it may of the values that are there (narrowest.py)

A DDL comes after the rows of its commit_ts, also after those of a dump: a segment ends at each DDL. What reads rows of an era raises, if
there are any, what this module says of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, takewhile
from operator import attrgetter

import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.columns.values import UnfitValue, from_ints, from_texts, parse_ints
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.errors import SinkError, UnsupportedDdl
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import Column, CommitTs, TableName, TableSchema, lowered
from sidecar.shared.sql.lexer import begins
from sidecar.shared.sql.text import for_servers
from spark_merge.ddl.columns import MaskedSchema, added_column
from spark_merge.ddl.conversion import Conversion, Typed, conversion
from spark_merge.ddl.names import changed_tables, name_before
from spark_merge.ddl.narrowest import keeps, typed
from spark_merge.ddl.parser import parsed
from spark_merge.ddl.statement import ColumnClause, ColumnWord, Partitions, Statement, StatementKind

TS_MAX = CommitTs((1 << 63) - 1)

WAY_OUT = "deliver to a new output and dump the table into it: an output whose rows of this table are all younger can be read"

_UTC = ServerZone()
_BY_NUMBER = frozenset({"enum", "set", "binary"})
"""Kinds whose values formats write by what the column was: by number, or without padding."""
_NUMBERS = frozenset({"int", "uint", "decimal"})
"""Kinds of which each value shows whether it is one of the present type, whatever range the column had."""
_OF_LENGTH = frozenset({"decimal", "time", "datetime", "timestamp", "binary"})
"""Kinds whose canonical text has the column's length or scale in it."""


@dataclass(frozen=True, slots=True)
class PreviousColumn:
    """Of a column of the present schema: what it was called; None: it was added since, and older rows have `existing`. `redefined`: the
    last later statement that may have made its values others, `defaulted` one that gave it another default; empty for none. `types`: the
    texts of the types that later statements gave it, the first one first."""

    column: Column
    name: str | None
    existing: str | None = None
    redefined: str = ""
    defaulted: str = ""
    types: tuple[str, ...] = ()

    def given(self, change: ColumnClause, text: str) -> PreviousColumn:
        """Before a statement that gives it a type."""
        return replace(self, name=change.before, redefined=self.redefined or text, types=(change.type, *self.types))


@dataclass(frozen=True, slots=True)
class Era:
    """Rows of the table `name` with `after_ts < commit_ts <= upto_ts`. `columns`: one for each of the present `schema`, in its order.
    `unreadable`: why these rows cannot be read, empty if they can."""

    schema: TableSchema
    name: TableName
    after_ts: CommitTs
    upto_ts: CommitTs
    columns: tuple[PreviousColumn, ...]
    unreadable: str = ""

    def meets(self, first_ts: int, last_ts: int) -> bool:
        """Whether a row may be in it whose commit_ts is one of these or between them."""
        return self.after_ts < last_ts and first_ts <= self.upto_ts

    def check(self) -> None:
        """Raises SinkError where its rows cannot be read."""
        if self.unreadable:
            raise _refused(self.schema.name, self.unreadable)

    def previous_schema(self) -> TableSchema:
        """What rows are decoded by where they do not tell their types: of the present kinds, without columns that were dropped since.
        Raises SinkError where a statement may have changed what a value is written as."""
        self.check()
        there = [one for one in self.columns if one.name is not None]
        for one in there:
            if one.redefined and one.column.kind in _BY_NUMBER:
                raise self._redefined(one)
        names = {one.column.name: one.name for one in there if one.name is not None}
        if added := [name for name in self.schema.key if name not in names]:
            raise _refused(self.schema.name, f"its key has column {added[0]}, which older rows do not have")
        columns = tuple(replace(one.column, name=names[one.column.name]) for one in there)
        return TableSchema(self.name, columns, tuple(names[name] for name in self.schema.key))

    def without(self, one: PreviousColumn) -> SinkError:
        """Of rows that do not have this column."""
        if one.redefined:
            return self._redefined(one)
        why = f"rows up to {self.upto_ts} have no column {one.name}, and no DDL of the output added it"
        return _refused(self.schema.name, why)

    def _redefined(self, one: PreviousColumn) -> SinkError:
        return _refused(self.schema.name, f"rows of column {one.column.name} are from before {one.redefined!r}")

    @property
    def present_types(self) -> dict[str, Column]:
        """By the era's names, for rows that are decoded as of the present kinds."""
        return {one.name: one.column for one in self.columns if one.name is not None}

    def present(self, rows: Mapping[str, pa.Array], count: int, *, types: Mapping[str, Column] | None = None) -> list[pa.Array]:
        """The columns of `schema`, of `count` rows. `rows`: canonical text by the era's names. `types`: what these were, where the output
        has them. Raises SinkError for a value that is not known to be the same in the present type."""
        self.check()
        return [self._column(one, rows, count, types) for one in self.columns]

    def _column(self, one: PreviousColumn, rows: Mapping[str, pa.Array], count: int, types: Mapping[str, Column] | None) -> pa.Array:
        if one.name is None:
            return pa.repeat(pa.scalar(one.existing, pa.string()), count)
        if one.name not in rows:
            raise self.without(one)
        if isinstance(self.schema, MaskedSchema) and one.column.name in self.schema.added:
            return rows[one.name]  # no statement has converted it
        if types is not None:
            return self._converted(one, rows[one.name], types[one.name])
        if one.redefined:
            raise self._redefined(one)
        return rows[one.name]

    def _converted(self, one: PreviousColumn, texts: pa.Array, before: Column) -> pa.Array:
        kinds, same = (before.kind, one.column.kind), before.kind == one.column.kind and before.kind not in _OF_LENGTH
        number = kinds[0] in _NUMBERS and kinds[1] == "decimal" and before.scale <= one.column.scale
        way = Conversion.UNCHANGED if same else Conversion.PADDED if number else conversion(Typed(before), Typed(one.column))
        steps = [typed(one.column.name, text) for text in one.types]
        at_first = list(takewhile(lambda step: step is not None and step.column.kind == before.kind, steps))
        made = texts
        try:
            if way is Conversion.PADDED:
                made = from_texts(texts, one.column, _UTC)
            elif set(kinds) == {"int", "uint"}:
                made, way = from_ints(parse_ints(texts, one.column), one.column), Conversion.UNCHANGED
            elif way is not None and before.kind == "year" and one.column.kind in ("int", "uint"):
                made = pc.cast(pc.cast(texts, pa.int64()), pa.string())
        except (UnfitValue, pa.ArrowInvalid) as error:
            raise _refused(self.schema.name, f"column {one.column.name}: {error}") from error
        after = [(step, made, one.column) for step in steps[len(at_first) :]]
        judged = [*((step, texts, before) for step in at_first), *after]
        if way is None or not all(step is not None and keeps(values, column, step) for step, values, column in judged):
            by = f"before {one.redefined!r}" if one.redefined else f"of type {before.kind}"
            raise _refused(self.schema.name, f"rows of column {one.column.name} are from {by}, which may have made other values of them")
        return made


def eras(schema: TableSchema, ddls: Iterable[DdlRecord], *, keeps_partitions: bool = False) -> tuple[Era, ...]:
    """The last one first; between them they have every row of the table. `ddls`: all of the output, of any table, in any order; one may be
    there several times. `keeps_partitions`: whether its readers see rows of partitions that were dropped, truncated or exchanged."""
    walk = _Backwards(schema, keeps_partitions=keeps_partitions)
    in_order = sorted(dict.fromkeys(ddls), key=attrgetter("commit_ts"), reverse=True)
    for commit_ts, records in groupby(in_order, key=attrgetter("commit_ts")):
        if not walk.passed(commit_ts, [record for record in records if record.query]):
            return walk.begun(commit_ts)
    return walk.begun(CommitTs(0))


def era_of(table_eras: Sequence[Era], name: TableName, commit_ts: int) -> Era | None:
    """None: the row is of no table, or of another one."""
    return next((one for one in table_eras if one.meets(commit_ts, commit_ts) and one.name.folded() == name.folded()), None)


def _refused(table: TableName, why: str) -> SinkError:
    return SinkError(f"{table} cannot be read back: {why}", hint=WAY_OUT)


class _Backwards:
    """A table, on the way back from its present."""

    def __init__(self, schema: TableSchema, *, keeps_partitions: bool) -> None:
        indexes = schema.definition.indexes if schema.definition else ()
        self._has_primary = schema.definition is None or any(index.primary for index in indexes)
        self._keeps_partitions = keeps_partitions
        columns = tuple(PreviousColumn(column, column.name) for column in schema.columns)
        self._era = Era(schema, schema.name, CommitTs(0), TS_MAX, columns)
        self._later: list[Era] = []

    def begun(self, after_ts: CommitTs) -> tuple[Era, ...]:
        """No row up to there is the table's."""
        return *self._later, replace(self._era, after_ts=after_ts)

    def passed(self, commit_ts: CommitTs, records: Sequence[DdlRecord]) -> bool:
        """Those of one moment. False: the table begins with them."""
        later = self._era
        read = [(record, _read(self._query(record), record.schema)) for record in records]
        if any(self._begins(*one) for one in read):
            return False
        for record, statement in read:
            if isinstance(statement, UnsupportedDdl) and self._may_be_about(record):
                self._refuse(statement.message)
        if not self._followed([one for _, one in read if isinstance(one, Statement) and self._is_about(one)]):
            return False
        if self._era != later:
            self._later.append(replace(later, after_ts=commit_ts))
            self._era = replace(self._era, upto_ts=commit_ts)
        return True

    def _query(self, record: DdlRecord) -> str:
        """As `logged.query_of`: a table has a layout where its log has the texts of their authors."""
        return record.query if self._era.schema.layout else for_servers(record.query)

    def _is_about(self, statement: Statement) -> bool:
        if statement.kind is StatementKind.DROP_SCHEMA:
            return lowered(self._era.name.schema) in map(lowered, statement.schemas())
        return self._era.name.folded() in {name.folded() for name in changed_tables(statement)}

    def _may_be_about(self, record: DdlRecord) -> bool:
        """Of a statement that is not understood."""
        if begins(record.query, *_MAKE_TABLE):
            return False
        own, named_table = self._era.name.folded(), TableName(record.schema, record.table).folded()
        named = re.search(rf"(?<!\w){re.escape(own.table)}(?!\w)", lowered(record.query))
        return named is not None or named_table in (own, TableName(own.schema, ""))

    def _begins(self, record: DdlRecord, statement: Statement | UnsupportedDdl) -> bool:
        if isinstance(statement, UnsupportedDdl):
            own = TableName(record.schema, record.table).folded() == self._era.name.folded()
            return own and begins(record.query, *_MAKE_TABLE)
        return statement.kind in _BEGIN and self._is_about(statement)

    def _followed(self, own: Sequence[Statement]) -> bool:
        """False: another table had its name before, or none."""
        moving = [one for one in own if one.moves and one.kind in (StatementKind.RENAME, StatementKind.ALTER_TABLE)]
        sources = [(one, source) for one in moving if (source := name_before(one, self._era.name)) is not None]
        if moving and not sources:
            return False
        if sources:
            self._renamed(*sources[0])
        for one in own:
            if one not in moving or one == sources[0][0]:
                self._change(one)
        return True

    def _refuse(self, why: str) -> None:
        self._era = replace(self._era, unreadable=self._era.unreadable or why)

    def _renamed(self, statement: Statement, source: TableName) -> None:
        own_name = source.folded() == self._era.name.folded()  # `RENAME TABLE t TO other.t`, with the schema `other` in its record
        if own_name or statement.guesses(source):
            self._refuse(f"{statement.text!r} does not tell of which schema the table was")
        self._era = replace(self._era, name=source)

    def _change(self, statement: Statement) -> None:
        if statement.partitions is Partitions.ROWS_LEAVE and not self._keeps_partitions:
            self._refuse(f"{statement.text!r} moved rows without a change event of each")
        if self._changes_key(statement):
            self._refuse(f"{statement.text!r} may have changed the handle key")
        if statement.changes:
            columns = tuple(self._before(one, statement) for one in self._era.columns)  # may refuse, so the era is taken after it
            self._era = replace(self._era, columns=columns)

    def _changes_key(self, statement: Statement) -> bool:
        text = statement.text.upper()
        if statement.kind is not StatementKind.ALTER_TABLE and self._has_primary:
            return False
        if re.search(r"\bPRIMARY\b", text):
            return True
        key = {lowered(one.name) for one in self._era.columns if one.name is not None and one.column.name in self._era.schema.key}
        of_key = any(one.word not in _KEEP_KEY and lowered(one.after) in key for one in statement.changes)
        return not self._has_primary and (of_key or re.search(r"\bUNIQUE\b|\bDROP\s+(INDEX|KEY)\b", text) is not None)

    def _before(self, one: PreviousColumn, statement: Statement) -> PreviousColumn:
        if one.name is None:
            return one
        change = _last_change(statement, one.name)
        if change is None:
            return one
        match change.word:
            case ColumnWord.ADD:
                return self._added(one, statement)
            case ColumnWord.RENAME:
                return replace(one, name=change.before)
            case ColumnWord.CHANGE:
                return one.given(change, statement.text)
            case ColumnWord.MODIFY:
                return one.given(change._replace(before=one.name), statement.text)
            case ColumnWord.DEFAULT:
                return replace(one, defaulted=one.defaulted or statement.text)
            case ColumnWord.DROP:
                return one

    def _added(self, one: PreviousColumn, statement: Statement) -> PreviousColumn:
        effect = added_column(one.column, self._era.schema)
        later = one.redefined or ("" if self._era.schema.layout else one.defaulted)
        why = effect.unknown or (f"a default that {later!r} may have changed" if later else "")
        if why:
            self._refuse(f"rows from before {statement.text!r} have {why} in column {one.column.name}")
        return replace(one, name=None, existing=effect.existing)


_KEEP_KEY = (ColumnWord.DEFAULT, ColumnWord.RENAME)
_BEGIN = frozenset(
    {
        StatementKind.CREATE_TABLE, StatementKind.CREATE_LIKE, StatementKind.TRUNCATE, StatementKind.DROP_TABLE, StatementKind.DROP_SCHEMA,
    }
)  # fmt: skip

_MAKE_TABLE = ("CREATE TABLE", "TRUNCATE", "RECOVER TABLE", "FLASHBACK TABLE")
"""Begin a statement that leaves the table of its record without rows from before it, also where it is not understood."""


@lru_cache(4096)
def _read(text: str, schema: str) -> Statement | UnsupportedDdl:
    try:
        return parsed(text, schema)
    except UnsupportedDdl as error:
        return error.with_traceback(None)


def _last_change(statement: Statement, name: str) -> ColumnClause | None:
    """That made the column which has this name after the statement. A name that it drops and adds is added."""
    own = [one for one in statement.changes if lowered(one.after) == lowered(name) and one.word is not ColumnWord.DROP]
    making = [one for one in own if one.word is not ColumnWord.DEFAULT]
    changes = making or own
    return changes[-1] if changes else None
