"""What a DDL means for a dump, by comparing the tables before and after it. No SQL is parsed; a statement is only
searched for the words MODIFY and CHANGE.

    KEPT    the same rows, perhaps in other columns       what is in the log stays; what is read and not in the log is read again
    AGAIN   rows that the feed did not bring, or another key to read by         the whole table is read again
    GONE    the table is dropped, or leaves what is replicated                  nothing more is read
    BORN    a table that was not there                                          offered to a dump of all tables

A table is followed by its id, or by its name where the source has no ids. Ids in row keys show what happened to the rows. More ids (a
partition was added) or fewer (one was dropped) leave the other rows where they were. Other ids (TRUNCATE, EXCHANGE, another
partitioning, DROP and CREATE) may hold rows for which the feed has no change, so the table is read again.

New columns need no other read: the consumer carries out the DDL on the rows it has, as TiCDC's own consumers do. But a column that the
changefeed omitted before (TableSchema.omitted) has values in rows that are not new: the table is read again.

Some DDLs rewrite a table's rows, in other columns or under other partitions. Beside them TiCDC itself sends wrong rows, or none
(deploy/KV.md). Over Kafka nobody can be right meanwhile. Such a DDL is reported, and where the operator wants it a dump reads the table
again (`Rewrites`). The tables before and after the DDL show whether its rows can be wrong. Where they do not (a shorter varchar),
the words MODIFY and CHANGE decide: a DDL too many is reported rather than one too few.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from sidecar.shared.errors import FeedUnsuitable, UnsupportedDdl
from sidecar.shared.model.keyset import key_columns
from sidecar.shared.model.messages import Asker, StartDump
from sidecar.shared.model.nouns import MARK_TABLE, Change, CommitTs, Ddl, TableName, TableSchema
from sidecar.shared.model.progress import OVER, DumpState, Progress
from sidecar.shared.sql.lexer import begins

Tables = Mapping[TableName, TableSchema]


class SchemaFate(Enum):
    KEPT = "kept"
    AGAIN = "again"
    GONE = "gone"
    BORN = "born"


@dataclass(frozen=True, slots=True)
class TableStep:
    """One table over a DDL. `before` None: BORN; `after` None: GONE; both and different: renamed. `where`: which rows of a table that
    is BORN may be dumped, as SQL; None: all."""

    before: TableName | None
    after: TableName | None
    fate: SchemaFate
    where: str | None = None


def steps(before: Tables, after: Tables, *, named: Collection[TableName]) -> tuple[TableStep, ...]:
    """The tables that differ, and those that the DDL names in any case, in the order of their names. Tables without a key are not there."""
    folded = {name.folded() for name in named}
    old = {name: table for name, table in before.items() if table.key}
    new = {name: table for name, table in after.items() if table.key}
    by_id = {table.table_id: name for name, table in new.items() if table.table_id}
    ids_before = {table.table_id for table in old.values() if table.table_id}
    result: dict[TableName, TableStep] = {}
    taken: set[TableName] = set()
    for name, table in sorted(old.items()):
        now = by_id.get(table.table_id)
        if now is None and name in new and new[name].table_id not in ids_before:
            now = name  # another table has taken the name over, or the source has no ids
        if now is None:
            result[name] = TableStep(name, None, SchemaFate.GONE)
            continue
        taken.add(now)
        if now != name or name.folded() in folded or new[now].undefined() != table.undefined():
            result[name] = TableStep(name, now, SchemaFate.KEPT if _same_rows(table, new[now]) else SchemaFate.AGAIN)
    born = [TableStep(None, name, SchemaFate.BORN) for name in sorted(new.keys() - taken)]
    return (*result.values(), *born)


def own_name(ddl: Ddl, *versions: Tables) -> TableName:
    """The name of the DDL's table, spelled as in the first of `versions` that has it: TiCDC may write the schema in lower case
    (ticdc/topics.py)."""
    reported = TableName(ddl.schema, ddl.table)
    return next((name for tables in versions for name in tables if name.folded() == reported.folded()), reported)


def _same_rows(old: TableSchema, new: TableSchema) -> bool:
    ids, ids_now = set(old.physical_ids), set(new.physical_ids)
    added_or_dropped = bool(ids and ids_now) and (ids <= ids_now or ids_now <= ids)
    return key_columns(old) == key_columns(new) and (ids == ids_now or added_or_dropped) and not revealed(old, new)


def revealed(old: TableSchema, new: TableSchema) -> frozenset[str]:
    """Columns that the table has and had not, and that may be one that was omitted: by its own name, or by another one where a column
    that was omitted is there no more. A DDL that drops the one and adds the other looks the same."""
    was, omitted = set(old.column_names()), {one.name for one in old.omitted}
    came = frozenset(new.column_names()) - was
    gone = omitted - {one.name for one in new.omitted}
    return came if gone else frozenset()


# ---- rows that were rewritten --------------------------------------------------------------------------------------

Steps = tuple[TableStep, ...]

_MODIFIES = re.compile(r"\b(MODIFY|CHANGE)\b", re.IGNORECASE)


class Beside(Enum):
    """What is done about rows beside such a DDL. RIGHT: nothing, as they are right, in raw key-values. Otherwise it is reported, and
    perhaps the table is read again."""

    RIGHT = "right"
    REPORTED = "told"
    READ_AGAIN = "read again"


@dataclass(slots=True)
class Rewrites:
    """Of one term. `count`: DDLs that were such; `tables`: those of the last one, which was at `commit_ts`."""

    beside: Beside
    count: int = 0
    tables: tuple[TableName, ...] = ()
    commit_ts: CommitTs | None = None

    def passed(
        self, value: Steps, before: Tables, after: Tables, ddls: Collection[Ddl], dumps: Sequence[Progress]
    ) -> tuple[Steps, StartDump | None]:
        """`value`: what the DDLs mean for a dump. Returns what they mean where dumps read rewritten tables from the beginning, and the dump
        that is due for those of a dump that has finished."""
        afresh = rewritten(before, after, ddls) if self.beside is not Beside.RIGHT else ()
        if not afresh:
            return value, None
        self.count, self.tables, self.commit_ts = self.count + 1, afresh, max(ddl.commit_ts for ddl in ddls)
        if self.beside is not Beside.READ_AGAIN or not dumps:
            return value, None
        there = [dump for dump in dumps if dump.state not in (DumpState.FINISHED, DumpState.STOPPED)]
        grows = any(dump.grows for dump in there if dump.state not in OVER)
        dumped = {table.table for dump in there for table in dump.tables}
        rest = () if grows else tuple(name for name in afresh if name not in dumped)
        finished = [dump for dump in reversed(dumps) if dump.state is DumpState.FINISHED]
        due = (_once_more(dump, rest, self.commit_ts) for dump in finished)
        return _from_the_beginning(there, value, afresh), next(filter(None, due), None)


def dump_after_ddl(commit_ts: CommitTs) -> tuple[str, Asker]:
    """The id of the dump that follows rewritten rows, and who asks for it."""
    return f"{commit_ts:016x}", Asker("sidecar", reason=f"a DDL rewrote rows at commit_ts {commit_ts} (dump.reread_rewritten)")


def _once_more(last: Progress, afresh: Collection[TableName], commit_ts: CommitTs) -> StartDump | None:
    """A dump of those that the last one had. It takes in what later DDLs rewrite."""
    had = {table.table: table for table in last.tables}
    mine = tuple(name for name in afresh if name in had)
    if not mine:
        return None
    dump_id, asker = dump_after_ddl(commit_ts)
    return StartDump(
        dump_id,
        mine,
        last.brackets,
        last.chunk_rows,
        where=tuple((name, text) for name in mine if (text := had[name].where)),
        pace=last.pace,
        grows=True,
        keys=tuple((name, had[name].keys) for name in mine if had[name].keys),
        narrowed=tuple(name for name in mine if not had[name].whole),
        sinks=last.sinks,
        read_with=last.read_with,
        asker=asker,
    )


def _from_the_beginning(dumps: Collection[Progress], value: Steps, afresh: Collection[TableName]) -> Steps:
    """Of dumps that are not over, or have failed; one that grows takes in those that none of them has."""
    dumped = {table.table for dump in dumps for table in dump.tables}
    has = {step.after for step in value if step.before in dumped}
    again = (replace(step, fate=SchemaFate.AGAIN) if step.after in afresh and step.fate is SchemaFate.KEPT else step for step in value)
    more = (TableStep(None, name, SchemaFate.BORN) for name in afresh if any(dump.grows for dump in dumps) and name not in has)
    return (*again, *more)


def rewritten(before: Tables, after: Tables, ddls: Collection[Ddl]) -> tuple[TableName, ...]:
    """Tables whose rows may have been rewritten, by their names after the DDLs, in order. Those without a key are not there."""
    modified = {TableName(ddl.schema, ddl.table).folded() for ddl in ddls if _MODIFIES.search(ddl.query)}
    by_id = {table.table_id: table for table in before.values() if table.table_id}
    result = []
    for name, table in sorted(after.items()):
        then = by_id.get(table.table_id) or before.get(name)
        if table.key and then is not None and (name.folded() in modified or _other_columns(then, table) or _other_partitions(then, table)):
            result.append(name)
    return tuple(result)


def _other_columns(old: TableSchema, new: TableSchema) -> bool:
    """One of them holds its values in another way, or was omitted; labels that are added at the end leave all others as they are."""
    then = {column.name: column for column in old.columns}
    both = [(then[column.name], column) for column in new.columns if column.name in then]
    return bool(revealed(old, new)) or any(
        (was.kind, was.length, was.scale) != (now.kind, now.length, now.scale) or now.elements[: len(was.elements)] != was.elements
        for was, now in both
    )


def _other_partitions(old: TableSchema, new: TableSchema) -> bool:
    """TRUNCATE of a table without any is none: it has no rows after it."""
    partitioned = any(table.physical_ids not in ((), (table.table_id,)) for table in (old, new))
    ids, ids_now = set(old.physical_ids), set(new.physical_ids)
    return partitioned and not (ids <= ids_now or ids_now <= ids)


def not_carried(change: Change, schema: TableSchema | None) -> FeedUnsuitable:
    """What a change means whose rows nobody could decode or tell apart."""
    what = f"{change.lane}@{change.position} has a change of {change.schema}.{change.table} at commit_ts {change.commit_ts}, a table"
    if schema is None:
        hint = (
            "if the changefeed's filter.rules had this table until now, set them again as they were, and see deploy/FIRST-DAY.md; else its"
            " DDL must come before it in the feed: let the filter hide no DDL; if it hides none, report this"
        )
        return FeedUnsuitable(f"{what} whose schema is not known", hint=hint)
    hint = "unset force-replicate in the changefeed, or give the table a primary key; then begin a new log behind these rows"
    return FeedUnsuitable(f"{what} without a handle key, whose rows nobody can tell apart", hint=hint)


def check_marks_continue(ddls: tuple[Ddl, ...]) -> None:
    """Raises for each DDL of the watermark table but its creation: any other may end the marks."""
    for ddl in ddls:
        if ddl.schema == MARK_TABLE.schema and not begins(ddl.query, "CREATE"):
            raise UnsupportedDdl(
                f"DDL at commit_ts {ddl.commit_ts} in {ddl.lane}@{ddl.position} changes {MARK_TABLE}: {ddl.query}",
                hint="leave the watermark table as it was made; restore it, then start a new changefeed and a new log, and dump again",
            )
