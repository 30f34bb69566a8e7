"""One question for each DDL at a SQL target: does the target compute for the rows that are there exactly what TiDB computed?

    yes              the statement is carried out as it is
    yes, rewritten   it is written otherwise (`Replacements`): by the log's own default, a partition's own bounds, without a formula, by
                     collations that compare bytes where the source's cluster does
    no               it is refused, until a dump of the table is started for this DDL (spark_merge/delivery/rereads.py). What hangs on a key
                     or a partition is carried out by hand, and an exact dump follows

- What TiDB makes of values whose type changes: spark_merge/ddl/conversion.py. What MariaDB and MySQL make of them: `_ALIKE`. They convert
  as a strict session does (shared/mysql/setup.py), so a value that does not fit stops the DDL there; whatever TiDB's author had set.
- TiDB computes as TiDB, but for what hangs on its author's session, which no log has: the time zone, the day.
- What existing rows have in a new column: spark_merge/ddl/columns.py.
- A stored generated column is in the feed. Where its formula may have another result at the target, it is a plain column (formulas.py).
- Rows leave with a partition only if it has the same rows at the target: ddl_partitions.py.
- ZEROFILL, which TiDB does not show, writes zeros into texts: the target's own column says whether it has it.
- A label that goes must not be read as one that stays: in no case, no accent and by no number.

Sources: pingcap/tidb pkg/types/datum.go (ConvertTo), pkg/types/time.go (RoundFrac), pkg/ddl/column.go (generateOriginDefaultValue).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from sidecar.shared.errors import UnsupportedDdl
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import Column, ColumnDefinition, CommitTs, Kind, TableDefinition, TableName, TableSchema, lowered
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.rowcodec.type_cast import TEXT_BYTES, ColumnType
from sidecar.shared.sql.lexer import tokens
from sidecar.shared.ticdc.table_rules import exact_rule
from spark_merge.ddl.columns import ColumnEffect, column_effects
from spark_merge.ddl.names import places, table_of
from spark_merge.ddl.partition_syntax import bounds_of
from spark_merge.ddl.statement import BoundPiece, DefaultPiece, Feature, Partitions, Statement
from spark_merge.port.contract import Head, has_rows
from spark_merge.sinks.mysql.by_bytes import MadeText, made_texts
from spark_merge.sinks.mysql.ddl_dialect import Replacements
from spark_merge.sinks.mysql.ddl_partitions import other_rows
from spark_merge.sinks.mysql.formulas import plain_columns
from spark_merge.sinks.mysql.server_table import TableThere
from spark_merge.sinks.mysql.statements import literal_of

_TIDB, _MARIADB, _MYSQL = Flavour.TIDB, Flavour.MARIADB, Flavour.MYSQL


class AtTarget(NamedTuple):
    """`there`: the table that the statement changes. `moment`: what the session has as its time. `by_bytes`: texts are compared by their
    bytes there. `reread`: a dump brings the values of the rows. `sink`: the sink's name."""

    flavour: Flavour
    there: TableThere
    moment: float = 0
    by_bytes: bool = False
    reread: bool = False
    sink: str = ""


def rewrites(
    statement: Statement, record: DdlRecord, before: TableSchema | None, after: TableSchema | None, place: AtTarget
) -> Replacements:
    """`statement` and schemas are of the log. `before`, `after`: the table's that it changes, None where there is none. Raises
    UnsupportedDdl, pymysql's errors."""
    judge = _Judge(statement, record, place)
    if before is not None and has_rows(before) and statement.partitions is Partitions.ROWS_LEAVE:
        judge.check_partitions(before)
    definition = after.definition if after else None
    by_bytes = definition is not None and not definition.new_collation and not place.by_bytes
    texts = made_texts(definition, place.flavour, by_bytes=by_bytes) if definition is not None else {}
    defaults = {}
    if before is not None and after is not None and has_rows(before) and statement.changes:
        defaults = dict(judge.columns(before, after, texts))
    plain = () if definition is None else plain_columns(definition, place.flavour)
    return Replacements(defaults, dict(judge.bounds(definition)), plain, by_bytes, texts)


def tables_of(statement: Statement, head: Head) -> tuple[TableSchema | None, TableSchema | None]:
    """The schemas before and after it of the table that a statement makes or changes, or whose rows leave."""
    after = table_of(statement)
    return head.schemas.get(places(statement)[0]) if places(statement) else None, None if after is None else head.next_schemas.get(after)


def carrying_out(sink: str, table: TableName, ts: CommitTs) -> str:
    command = _dumpstart(sink, table, "--for-ddl", str(ts))
    return f"`{command}` lets the sink carry it out and reads the rows of {table} again for it"


def _dumpstart(sink: str, table: TableName, *words: str) -> str:
    return shlex.join(
        ["ticdc-dump", "dumpstart", "-c", "CHANGEFEED", *(("--sink", sink) if sink else ()), "--tables", exact_rule(table), *words]
    )


class _Judge:
    def __init__(self, statement: Statement, record: DdlRecord, place: AtTarget) -> None:
        self._statement, self._record, self._place = statement, record, place

    def refused(self, why: str, table: TableName, *, by_hand: bool = True, or_else: str = "") -> UnsupportedDdl:
        ts, sink = self._record.commit_ts, self._place.sink
        alone = f"carry it out at the target by hand, and add ddl-done={ts} to the sink's URI; then `{_dumpstart(sink, table, '--exact')}`"
        return UnsupportedDdl(
            f"the DDL {self._record.query!r} at commit_ts {ts} is not carried out at {self._place.flavour.value}: {why}",
            hint=f"{or_else}{alone}" if by_hand else f"{carrying_out(sink, table, ts)}; or {alone}",
        )

    def _check_values(self, why: str, after: TableSchema, column: Column) -> None:
        """Raises unless a dump brings them. By a key it would not meet the rows that are there."""
        of_key = column.name in after.key
        if of_key or not self._place.reread:
            raise self.refused(why, after.name, by_hand=of_key)

    # ---- columns -------------------------------------------------------------------------------------------------------

    def columns(self, before: TableSchema, after: TableSchema, texts: Mapping[str, MadeText]) -> Iterator[tuple[str, str]]:
        """The defaults to write. `texts`: as of Replacements."""
        old, new = _definitions(before), _definitions(after)
        given = {lowered(one.column): one for one in self._statement.pieces() if isinstance(one, DefaultPiece)}
        for effect in column_effects(before, after, [self._statement]):
            name = effect.column.name
            if effect.before is None:
                text = self._default(effect, new.get(name), given.get(lowered(name)), after)
                if text is not None:
                    yield lowered(name), text
            elif why := differs(effect, self._place.flavour, self._place.there) or self._unstopped(effect, after, new.get(name), texts):
                was, now = (_type_text(one, made) for one, made in ((effect.before, old), (effect.column, new)))
                self._check_values(f"column {name} of {after.name} was {was} and is {now}, and {why}", after, effect.column)

    def _unstopped(self, effect: ColumnEffect, after: TableSchema, made: ColumnDefinition | None, texts: Mapping[str, MadeText]) -> str:
        """Why the target may take a value that TiDB has cut, where it is to stop at that; empty: it stops, or there is none."""
        name = effect.column.name
        if effect.conversion is not None:
            return ""
        if self._place.reread and name in after.key:
            return "it is of the key: a row whose key is clipped otherwise than in TiDB is met by no row of a dump"
        wider = texts.get(lowered(name))
        if made is not None and wider is not None and wider.type and wider.type != made.type_text:
            return f"its type at the target is {wider.type}, which holds what TiDB cut"
        return ""

    def _default(self, effect: ColumnEffect, made: ColumnDefinition | None, given: DefaultPiece | None, after: TableSchema) -> str | None:
        """Of a new column; None: as the statement has it."""
        column, of_now = effect.column, _is_now(given, made)
        if effect.unknown:
            if why := "no statement has them" if effect.was_omitted else _unknown(column, given, made, of_now=of_now):
                text = f"rows of {after.name} that were there have {effect.unknown} in the new column {column.name}, and {why}"
                self._check_values(text, after, column)
            return None
        if effect.existing is None or (of_now and self._is_moment(effect)):
            return None
        if given is not None and given.value:
            return _in_sql(column, effect.existing, effect.types[1], self._place.flavour)
        return "'null'" if column.kind == "json" and self._place.flavour is _MARIADB and not column.nullable else None

    def _is_moment(self, effect: ColumnEffect) -> bool:
        """Whether the session's time is the value. A session has one, and a statement may have several columns and their author a zone."""
        scale, seconds = effect.column.scale, datetime.fromtimestamp(self._place.moment, UTC)
        text = seconds.strftime("%Y-%m-%d %H:%M:%S") + (f".{seconds:%f}"[: scale + 1] if scale else "")
        return effect.existing == text

    # ---- partitions ----------------------------------------------------------------------------------------------------

    def check_partitions(self, before: TableSchema) -> None:
        if (
            self._statement.leaving == ()
            or (other := other_rows(self._statement.leaving, before, self._place.there, self._place.flavour)) is None
        ):
            return
        or_else = f"{other.remedy}, so that the sink continues; or " if other.remedy else ""
        raise self.refused(f"rows of {before.name} may be in other partitions there: {other.why}", before.name, or_else=or_else)

    def bounds(self, definition: TableDefinition | None) -> Iterator[tuple[str, str]]:
        """Where the text has a function, the definition has what it was when the table was made."""
        pieces = [one for one in self._statement.pieces() if isinstance(one, BoundPiece) and _has_zone(one.text)]
        known = bounds_of(definition.partitioning) if pieces and definition and definition.partitioning else {}
        for piece in pieces:
            text = known.get(lowered(piece.partition))
            if text is None or _has_zone(text):
                raise self.refused(
                    f"the bound {piece.text.strip()} of partition {piece.partition} hangs on its author's time zone, and the log does not"
                    " have what it was",
                    TableName(self._record.schema, self._record.table),
                )
            yield lowered(piece.partition), text


# ---- values whose type changes -----------------------------------------------------------------------------------------

_INTS: tuple[Kind, ...] = ("int", "uint")
_COARSEST = ("utf8mb4_general_ci", "utf8mb4_unicode_ci")
"""Collations of each server that know neither case nor accents."""
_BOTH = frozenset({_MARIADB, _MYSQL})
_ALIKE: Mapping[tuple[Kind, Kind], frozenset[Flavour]] = (
    dict.fromkeys(((was, now) for was in (*_INTS, "decimal") for now in (*_INTS, "decimal")), _BOTH)
    | dict.fromkeys(((kind, kind) for kind in ("datetime", "time", "timestamp", "bit", "binary", "enum", "set")), _BOTH)
    | dict.fromkeys(((was, "double") for was in (*_INTS, "decimal")), _BOTH)
    | {("date", "datetime"): _BOTH, ("datetime", "date"): frozenset({_MARIADB})}
    | dict.fromkeys(((kind, "text") for kind in (*_INTS, "decimal", "date", "time", "datetime", "enum", "set", "text")), _BOTH)
    | {("json", "text"): frozenset({_MARIADB})}
)  # fmt: skip
"""What is rounded or may not fit: the servers round as TiDB, and stop the DDL where a value does not fit."""

_EXAMPLES: Mapping[tuple[Kind, Kind], str] = {
    ("double", "text"): "of 1e20 TiDB makes 100000000000000000000, and the target 1e20",
    ("float", "text"): "of 16777216 TiDB makes 16777216, and the target 16777200",
    ("year", "text"): "of the year 0000 TiDB makes 0, and the target 0000",
    ("datetime", "date"): "of 2020-01-01 23:59:59.9 TiDB makes 2020-01-01, and the target 2020-01-02",
    ("bit", "text"): "of 65 TiDB makes 65, and the target A",
    ("text", "json"): 'of {"b":1, "aa":2} TiDB makes {"aa": 2, "b": 1}, and the target another text',
    ("json", "text"): 'of {"b": 1, "aa": 2} TiDB makes {"aa": 2, "b": 1}, and the target {"b": 1, "aa": 2}',
}


def differs(effect: ColumnEffect, flavour: Flavour, there: TableThere) -> str:
    """Why the target may make other values than TiDB of those that the column had; empty: it makes the same."""
    assert effect.before is not None, "an added column had no values"
    was, now = effect.before, effect.column
    if was.kind != now.kind and "timestamp" in (was.kind, now.kind):
        return "the time zone of its author decides what the values are, which no log has"
    if was.kind == "time" and now.kind in ("date", "datetime"):
        return "the day in its author's session decides what the values are, which no log has"
    if flavour is _TIDB:
        return ""
    target = there.column(was.name)
    if was.kind in (*_INTS, "decimal") and now.kind == "text" and target is not None and "zerofill" in target.type_text.lower():
        return "the target writes the zeros of ZEROFILL into the text: of 7 TiDB makes 7, and the target 00007"
    if was.kind == now.kind and now.kind in ("enum", "set") and (why := _read_as_another(was, now, there)):
        return why
    is_known = effect.conversion is not None and (was.kind, now.kind) != ("json", "text")
    if is_known or (flavour in _ALIKE.get((was.kind, now.kind), ()) and _is_alike(was, now, effect.types)):
        return ""
    example = _EXAMPLES.get((was.kind, now.kind), "")
    return f"the target may make other values of its values than TiDB{f': {example}' if example else ''}"


def _is_alike(was: Column, now: Column, types: tuple[ColumnType | None, ColumnType | None]) -> bool:
    """As far as it is more than a matter of the kinds."""
    old, new = types
    match was.kind, now.kind:
        case "text", "text":
            return old is not None and new is not None and old.charset == new.charset and (new.name != "char" or old.name == "char")
        case ("enum", "enum") | ("set", "set"):
            return bool(was.elements and now.elements)
        case _, "double":
            return new is not None and new.size < 0 and not new.unsigned
        case _:
            return True


def _read_as_another(was: Column, now: Column, there: TableThere) -> str:
    """How a label that is none any more may be read as one that is; empty: it is not. By collations of the coarsest kind, and by
    the column's: the statement may give it another one."""
    gone = [label for label in was.elements if label not in now.elements]
    if number := next((label for label in gone if any(map(str.isdigit, label))), ""):
        return f"its label {number!r}, which goes, may be read as the number of another one"
    target = there.column(was.name)
    for collation in dict.fromkeys((*_COARSEST, (target and target.collation) or _COARSEST[0])):
        for label in gone:
            if there.equal(((label, other) for other in now.elements), collation):
                return f"its label {label!r}, which goes, may be read as another one, to which it is equal in {collation}"
    return ""


# ---- what existing rows have in a new column ---------------------------------------------------------------------------


def _unknown(column: Column, given: DefaultPiece | None, made: ColumnDefinition | None, *, of_now: bool) -> str:
    """Why the statement's own text may not make it; empty: it does."""
    if made is not None and made.generated:
        return "the target's formula may have another result"
    if of_now:
        return "" if column.kind == "timestamp" else "it is a time of its author's zone, which no log has"
    text = _plain_text(given)
    computed = given is not None and any(isinstance(one, Feature) for one in given.value)
    if (not text and not computed) or text.upper() == "NULL":
        return ""
    if column.kind in ("timestamp", "datetime", "date", "time"):
        return "its author's session decides how the text is read"
    return "the target computes it for itself" if (computed or text.startswith("(")) and column.kind != "json" else ""


def _is_now(given: DefaultPiece | None, made: ColumnDefinition | None) -> bool:
    text = _plain_text(given) if made is None else made.default or ""
    return re.match(r"\s*\(?\s*(CURRENT_TIMESTAMP|NOW|LOCALTIME)", text, re.IGNORECASE) is not None


def _plain_text(given: DefaultPiece | None) -> str:
    return "".join(one for one in given.value if isinstance(one, str)).strip() if given else ""


def _in_sql(column: Column, text: str, kind: ColumnType | None, flavour: Flavour) -> str | None:
    """Of the types whose values are kept apart MySQL has defaults in parentheses alone; TiDB computes its own expression as TiDB."""
    literal = literal_of(column)(text)
    if flavour is not _MARIADB and kind is not None and kind.name in {"json", *TEXT_BYTES}:
        return None if flavour is _TIDB else f"({literal})"
    return literal


# ---- partitions --------------------------------------------------------------------------------------------------------

_ZONED = frozenset({"UNIX_TIMESTAMP", "FROM_UNIXTIME", "NOW", "CURRENT_TIMESTAMP", "CURDATE", "CURRENT_DATE", "SYSDATE", "LOCALTIME"})


def _has_zone(text: str) -> bool:
    return any(token.kind == "word" and token.value in _ZONED for token in tokens(text))


# ---- definitions -------------------------------------------------------------------------------------------------------


def _definitions(schema: TableSchema) -> dict[str, ColumnDefinition]:
    return {one.name: one for one in schema.definition.columns} if schema.definition else {}


def _type_text(column: Column, made: Mapping[str, ColumnDefinition]) -> str:
    return made[column.name].type_text if column.name in made else column.kind
