"""What a segment's DDLs did to the tables, told by the schemas before and after them; their text is asked only where these leave it open.

    dropped   it is gone                                          made      it is there and has no rows yet
    emptied   it is there and lost its rows                       kept      its rows stay, perhaps under another name, in other columns

- A table is followed by its id; where the log has no ids, by its name, and over a RENAME by the statement.
- A column is followed by its id (logs of key-values have them), by what the statement renames, by its name.
- What rows have in a column that was added is its origin default, which logs of key-values tell; elsewhere a literal is known.
- A segment may end at a step of a DDL that is told in another one (partitions go in steps): that one is judged, the step is not.
- Rows that come or go with no change of theirs (a partition that is exchanged, emptied or dropped, a table that comes back or comes from
  outside the changefeed) cannot be told from a log: refused by name, unless the operator lets the table begin anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from sidecar.core.model import MARK_TABLE, Column, ColumnDefinition, CommitTs, TableName, TableSchema, lowered
from sidecar.errors import FeedError, SinkError, UnsupportedDdl
from sidecar.log.manifest import DdlRecord
from sidecar.rowcodec.kv_layout import kv_table_of
from sidecar.rowcodec.kv_table import default_text, zero_text
from spark_merge.contract import Head
from spark_merge.sinks.mysql.ddl_parser import parsed
from spark_merge.sinks.mysql.ddl_tokens import Token, tokens
from spark_merge.sinks.opensearch.fields import Form, Forms

_ROWS_GO = frozenset({("EXCHANGE", "PARTITION"), ("TRUNCATE", "PARTITION"), ("DROP", "PARTITION")})
_ROWS_STAY = frozenset({("REMOVE", "PARTITIONING"), ("REORGANIZE", "PARTITION"), ("COALESCE", "PARTITION"), ("PARTITION", "BY")})
_LITERAL = re.compile(r"-?\d+(?:\.\d+)?|'(?P<text>(?:[^'\\]|'')*)'")
"""A number, or a text without a backslash."""

_MOMENTS = {
    "date": r"\d{4}-\d\d-\d\d",
    "datetime": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?",
    "time": r"-?\d{2,3}:\d\d:\d\d(\.\d+)?",
}

_TEXT_OF = frozenset({"int", "uint", "decimal", "date", "time", "datetime", "timestamp", "enum", "set", "year", "text"})
"""Kinds whose canonical text is the text that TiDB makes of the value."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a column's values come from in documents of before: column `name`; None: from nowhere, all have the text `absent`. `how`: same,
    text (a number or labels become text), scale (a decimal gets its new digits)."""

    column: Column
    name: str | None = None
    absent: str | None = None
    how: str = "same"
    form: Form = Form.TEXT


@dataclass(frozen=True, slots=True)
class Kept:
    """`sources` of the columns of `after`, in their order."""

    before: TableSchema
    after: TableSchema
    sources: tuple[Source, ...]

    @property
    def reshaped(self) -> bool:
        """Whether documents of before must be written anew, as far as the schemas tell."""
        return any(
            source.how != "same" or (source.absent is not None if source.name is None else source.name != source.column.name)
            for source in self.sources
        )

    @property
    def added(self) -> frozenset[str]:
        return frozenset(source.column.name for source in self.sources if source.name is None)


@dataclass(slots=True)
class Changes:
    dropped: list[TableSchema] = field(default_factory=list)
    made: list[TableSchema] = field(default_factory=list)
    emptied: list[tuple[TableSchema, TableSchema]] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)


def ours(schemas: Mapping[TableName, TableSchema]) -> dict[TableName, TableSchema]:
    """Those that have rows here."""
    return {name: schema for name, schema in schemas.items() if schema.key and schema.columns and name != MARK_TABLE}


def changes(head: Head, forms: Forms, *, anew: bool = False) -> Changes:
    """`anew`: tables that cannot be followed begin again without rows. Raises SinkError for what cannot be followed."""
    before, after = ours(head.schemas), ours(head.next_schemas)
    texts = [_Text.of(ddl) for ddl in head.ddls]
    found, gone = Changes(), dict(before)
    for name, new in after.items():
        old = _same_table(new, before, head, texts)
        if old is not None:
            gone.pop(old.name, None)
        about = [text for text in texts if text.is_about(name, None if old is None else old.name)]
        try:
            _one(found, head, old, new, about, forms)
        except SinkError as error:
            if not anew:
                raise _refused(head, error) from error
            found.made.append(new) if old is None else found.emptied.append((old, new))
    found.dropped = list(gone.values())
    return found


def _one(found: Changes, head: Head, old: TableSchema | None, new: TableSchema, texts: Sequence[_Text], forms: Forms) -> None:
    if old is None:
        if not any(text.makes_table for text in texts):
            raise SinkError(f"{new.name} comes with rows that no change of it tells", hint="")
        found.made.append(new)
    elif old != new or any(text.first == "TRUNCATE" or text.rows_go for text in texts):
        moved = bool(head.ddls) and (old.table_id != new.table_id or bool(set(old.physical_ids) - set(new.physical_ids)))
        if any(text.first == "TRUNCATE" or (text.makes_table and moved) for text in texts):
            found.emptied.append((old, new))
            return
        if any(text.rows_go for text in texts) or (moved and not any(text.rows_stay for text in texts)):
            raise SinkError(f"rows of {new.name} come or go with its partitions, and no change of them tells", hint="")
        found.kept.append(Kept(old, new, tuple(_sources(old, new, texts, forms))))


def _same_table(new: TableSchema, before: Mapping[TableName, TableSchema], head: Head, texts: Sequence[_Text]) -> TableSchema | None:
    if new.table_id:
        by_id = next((old for old in before.values() if old.table_id == new.table_id), None)
        if by_id is not None:
            return by_id
        named = before.get(new.name)
        went_away = named is not None and any(other.table_id == named.table_id for other in head.next_schemas.values())
        return None if went_away and not any(text.exchanges for text in texts) else named
    source = next((text.moves[new.name.folded()] for text in texts if new.name.folded() in text.moves), None)
    return before.get(new.name) if source is None else next((old for old in before.values() if old.name.folded() == source), None)


def moments(head: Head) -> frozenset[CommitTs]:
    """By which an operator names what the segment ends with: its DDLs' commit_ts, or its own end, for a step that no DDL is told with."""
    return frozenset(ddl.commit_ts for ddl in head.ddls) or frozenset({head.upto_ts})


def _refused(head: Head, error: SinkError) -> SinkError:
    ddls = "; ".join(f"the DDL at commit_ts {ddl.commit_ts}, {ddl.query!r}" for ddl in head.ddls) or f"a step of a DDL at {head.upto_ts}"
    times = ",".join(map(str, sorted(moments(head))))
    return SinkError(
        f"segment {head.seq}, {ddls}: {error.message}",
        hint=f"add ddl-anew={times} to the sink's URI: the table begins with an empty index; and dump it again once the DDL has passed."
        f" Or make the index by hand as the table is now, and name the DDL in ddl-done={times}",
    )


# ---- columns ---------------------------------------------------------------------------------------------------------


def _sources(old: TableSchema, new: TableSchema, texts: Sequence[_Text], forms: Forms) -> Iterator[Source]:
    before = {column.name: column for column in old.columns}
    was = _named_before(old, new, texts)
    if [was.get(name) for name in new.key] != list(old.key):
        raise SinkError(f"the handle key of {new.name} was ({', '.join(old.key)}) and is ({', '.join(new.key)})", hint="")
    for column in new.columns:
        name, form = was.get(column.name), forms.form(column)
        if name is None:
            yield Source(column, absent=_absent(new, column), form=form)
        else:
            yield Source(column, name, how=_how(new.name, before[name], column), form=form)


def _named_before(old: TableSchema, new: TableSchema, texts: Sequence[_Text]) -> dict[str, str]:
    """Columns of now by what they were called before; one that was added is not in it."""
    names = set(old.column_names())
    ids = {id_: name for name, id_ in _ids(old).items()}
    was = {name: ids[id_] for name, id_ in _ids(new).items() if id_ in ids}
    told = {now: before for text in texts for before, now in text.columns.items()}
    for name in new.column_names():
        if name in was:
            continue
        before = next((one for one in names if lowered(one) == told.get(lowered(name))), None)
        if before is None and name in names and lowered(name) not in {lowered(one) for one in told.values()}:
            before = name
        if before is not None and before not in was.values():
            was[name] = before
    return was


def _ids(schema: TableSchema) -> dict[str, int]:
    """Of columns by name, where the log has them. A change of type gives another one."""
    return {one.column.name: one.id for one in kv_table_of(schema).columns} if schema.layout else {}


def _absent(schema: TableSchema, column: Column) -> str | None:
    if schema.layout:
        return next(one.absent for one in kv_table_of(schema).columns if one.column.name == column.name)
    made = next((one for one in schema.definition.columns if one.name == column.name), None) if schema.definition else None
    try:
        return _by_definition(column, made)
    except (ValueError, ArithmeticError) as error:
        raise SinkError(f"what rows of {schema.name} have in its new column {column.name} is not in this log", hint="") from error


def _by_definition(column: Column, made: ColumnDefinition | None) -> str | None:
    """What a literal default is in the rows of before. Raises ValueError, ArithmeticError for what may be anything: an expression, bytes, a
    TIMESTAMP, which is in the zone of who asked."""
    if made is None or made.generated:
        raise ValueError("it is computed, or not described")
    if made.default in (None, "NULL"):
        return None if column.nullable else zero_text(column)
    literal = _LITERAL.fullmatch(made.default or "")
    if literal is None or column.kind in ("binary", "bit", "timestamp", "json", "vector"):
        raise ValueError(f"it is {made.default}")
    text = literal[0] if literal["text"] is None else literal["text"].replace("''", "'")
    if column.kind in _MOMENTS and not re.fullmatch(_MOMENTS[column.kind], text):
        raise ValueError(f"it is {text}")
    return default_text(column, text)


def _how(table: TableName, old: Column, new: Column) -> str:
    if old.kind == new.kind and old.kind not in ("decimal", "time", "datetime", "timestamp", "binary", "float", "double"):
        return "same"
    if old.kind == new.kind and old.scale == new.scale and (old.kind != "binary" or old.length == new.length):
        return "same"
    if {old.kind, new.kind} == {"int", "uint"}:
        return "same"
    if old.kind == new.kind == "decimal" and old.scale < new.scale:
        return "scale"
    if new.kind == "text" and old.kind in _TEXT_OF:
        return "text"
    raise SinkError(
        f"column {new.name} of {table} was {old.kind} and is {new.kind}: what TiDB made of its values is told by no change", hint=""
    )


# ---- text ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Text:
    """Of a DDL what the schemas may leave open. `columns`: old names by new ones the other way round, in small letters; `moves`: of RENAME
    TABLE the old names by the new ones, folded."""

    record: DdlRecord
    words: tuple[str, ...]
    columns: Mapping[str, str]
    moves: Mapping[TableName, TableName]

    @classmethod
    def of(cls, record: DdlRecord) -> _Text:
        """Of a text that is not understood nothing is known, and what hangs on it is refused."""
        try:
            found = tokens(record.query)
        except UnsupportedDdl:
            return cls(record, (), {}, {})
        words = tuple(token.value if token.kind == "word" else "" for token in found)
        return cls(record, words, dict(_renamed_columns(found)), dict(_moves(record)) if words[:1] == ("RENAME",) else {})

    @property
    def first(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def rows_go(self) -> bool:
        return self.first == "ALTER" and not _ROWS_GO.isdisjoint(pairwise(self.words))

    @property
    def rows_stay(self) -> bool:
        return self.first == "ALTER" and not _ROWS_STAY.isdisjoint(pairwise(self.words)) and not self.rows_go

    @property
    def exchanges(self) -> bool:
        return ("EXCHANGE", "PARTITION") in pairwise(self.words)

    @property
    def makes_table(self) -> bool:
        return self.words[:2] == ("CREATE", "TABLE")

    def is_about(self, *names: TableName | None) -> bool:
        own = TableName(self.record.schema, self.record.table).folded()
        return any(name is not None and (name.folded() == own or name.folded() in self.moves) for name in names) or (
            self.exchanges and any(name is not None and name.table.upper() in self._named() for name in names)
        )

    def _named(self) -> set[str]:
        return {token.value.upper() for token in tokens(self.record.query) if token.kind in ("word", "name")}


def _renamed_columns(found: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """Of RENAME COLUMN a TO b and CHANGE [COLUMN] a b."""
    for at, token in enumerate(found):
        after = found[at + 1 :]
        if token.kind != "word" or len(after) < 3:
            continue
        if token.value == "RENAME" and after[0].value == "COLUMN" and len(after) > 3 and after[2].value == "TO":
            yield _name(after[1]), _name(after[3])
        elif token.value == "CHANGE":
            skip = 1 if after[0].kind == "word" and after[0].value == "COLUMN" else 0
            yield _name(after[skip]), _name(after[skip + 1])


def _name(token: Token) -> str:
    return lowered(token.value if token.kind == "name" else token.text)


def _moves(record: DdlRecord) -> Iterator[tuple[TableName, TableName]]:
    try:
        moves: Sequence[Any] = parsed(record.query, record.schema).moves
    except FeedError:
        return
    for source, target in moves:
        yield target.folded(), source.folded()
