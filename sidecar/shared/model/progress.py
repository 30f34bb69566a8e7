"""A dump's progress as it is stored: in every manifest and, as its projection, in the progress store.

Only what the log holds counts: a range's `cursor` is the end of the contiguous run of chunks whose windows are closed
in the log. What was read but is not there is read again. `revision` rises with each change, so the newer of two copies
is known without comparing them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from sidecar.shared.errors import with_hint
from sidecar.shared.model.messages import UNBOUNDED, Brackets, Pace, ReadWith
from sidecar.shared.model.nouns import FIRST_SEQ, CommitTs, Seq, TableName


class DumpState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"


OVER = frozenset({DumpState.FINISHED, DumpState.FAILED, DumpState.STOPPED})
_SHOWN_FIRST = (DumpState.RUNNING, DumpState.PAUSED, DumpState.QUEUED)


Key = tuple[str, ...]
"""A read key as canonical text, a value a column."""


@dataclass(frozen=True, slots=True)
class Span:
    """The key range `(cursor, upper]` that is not yet in the log; None: from the start, to the end. Of a table that is read by its keys:
    those of `TableProgress.keys` from the first number of `keys` to before the second."""

    cursor: Key | None = None
    upper: Key | None = None
    keys: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class TableProgress:
    """`spans`: what is left, none when the table is complete. `complete_at`: the table is complete from this position on
    (P1), None while it is not. `where`: only rows for which this SQL predicate is true are dumped. `since_seq`: as of ChunkFile, of the
    pass that reads the table. `keys`: only the rows with these handle keys are; empty: all. `whole`: all rows of the table that the
    changefeed carries are. `past_keys`: how many keys a dump had that has finished; the keys are not kept, because each manifest would
    have them."""

    table: TableName
    spans: tuple[Span, ...] = (Span(),)
    chunks: int = 0
    rows: int = 0
    bytes: int = 0
    complete_at: CommitTs | None = None
    where: str | None = None
    since_seq: Seq = FIRST_SEQ
    keys: tuple[Key, ...] = ()
    whole: bool = True
    past_keys: int = 0

    @property
    def key_count(self) -> int:
        """0: the dump is not of keys."""
        return len(self.keys) or self.past_keys

    def rows_expected(self, table_rows: int | None) -> int | None:
        """`table_rows`: of the whole table. None: not known, as of a predicate nobody knows how many rows meet it."""
        return self.key_count or (None if self.where else table_rows)


def keys_bytes(keys: Iterable[Key]) -> int:
    """What they take in a manifest, about: each text has quotes and a separator."""
    return sum(len(text.encode()) + 3 for key in keys for text in key)


KEYS_A_SPAN = 500
"""Of a table that is read by its keys: a chunk, one SELECT. Wide rows must fit into a task's memory."""


def unread(keys: tuple[Key, ...]) -> tuple[Span, ...]:
    """The spans of a table of which nothing is in the log."""
    starts = range(0, len(keys), KEYS_A_SPAN)
    return tuple(Span(keys=(start, min(start + KEYS_A_SPAN, len(keys)))) for start in starts) or (Span(),)


def afresh(table: TableProgress, *, since_seq: Seq, name: TableName | None = None) -> TableProgress:
    """Another pass over the table, called `name` if given, from its beginning."""
    return TableProgress(
        name or table.table, unread(table.keys), where=table.where, since_seq=since_seq, keys=table.keys, whole=table.whole
    )


@dataclass(frozen=True, slots=True)
class Progress:
    """`epoch` is the owner's that runs the dump: with `dump_id` it makes the uuids of all marks it may send. `seq` is the
    segment in which its windows last closed (-1: before the first). `grows`: tables that appear while it runs belong to it. `log`: the
    id of the log that has what its cursors say; empty: not recorded, by 0.2.0 and before. `resumable`: if it fails, later DDLs
    are carried out on its tables. `sinks`: the names of those that receive its rows; empty: all. `number`: rises from dump to dump.
    `read_with`: as of StartDump; whose keys the cursors are. `for_ddl`: commit-ts of a DDL of these tables whose values the dump brings to
    `sinks`, which may carry it out without them (spark_merge/delivery/rereads.py); None: of none. `exact`: whether a verification with
    repair follows it (control/exact.py); None: not recorded, by 0.4.0 and before."""

    dump_id: str
    state: DumpState
    brackets: Brackets
    chunk_rows: int
    epoch: int
    revision: int
    seq: Seq
    tables: tuple[TableProgress, ...]
    reason: str | None = None
    pace: Pace = UNBOUNDED
    grows: bool = False
    log: str = ""
    resumable: bool = True
    sinks: tuple[str, ...] = ()
    number: int = 0
    read_with: ReadWith = ReadWith.SQL
    for_ddl: CommitTs | None = None
    exact: bool | None = None

    def without_keys(self) -> Progress:
        """As it is kept once it has finished."""
        tables = (replace(one, keys=(), past_keys=one.key_count) if one.keys else one for one in self.tables)
        return replace(self, tables=tuple(tables))

    def to_json(self) -> dict[str, Any]:
        """JSON values only; ts as decimal strings."""
        return {
            "dump_id": self.dump_id,
            "state": self.state,
            "brackets": self.brackets,
            "chunk_rows": self.chunk_rows,
            "epoch": self.epoch,
            "revision": self.revision,
            "seq": self.seq,
            "reason": self.reason,
            "pace": asdict(self.pace),
            "grows": self.grows,
            "log": self.log,
            "resumable": self.resumable,
            "sinks": self.sinks,
            "number": self.number,
            "read_with": self.read_with,
            **({} if self.for_ddl is None else {"for_ddl": str(self.for_ddl)}),
            **({} if self.exact is None else {"exact": self.exact}),
            "tables": tables_to_json(self.tables),
        }


_ALWAYS = frozenset({"dump_id", "seq", "reason", "pace"})
_ALWAYS_OF_A_TABLE = frozenset({"spans", "chunks", "rows", "bytes", "complete_at", "where"})
"""What each version has written, whatever a field's default is for who makes one."""


def progress_from_json(value: dict[str, Any]) -> Progress:
    """The inverse of `Progress.to_json`, also by versions before. Raises KeyError, TypeError or ValueError for what is not one."""
    tables = [table | {"whole": _is_whole(table)} for table in value["tables"]]
    for one, names in ((value, _ALWAYS), *((table, _ALWAYS_OF_A_TABLE) for table in tables)):
        if missing := names - one.keys():
            raise KeyError(min(missing))
    resumable = value.get("resumable", value["state"] != DumpState.FAILED)
    return msgspec.convert(value | {"tables": tables, "resumable": resumable}, Progress, strict=False)


@dataclass(frozen=True, slots=True)
class SegmentDump:
    """A dump in a segment: its state after the segment, and the tables of which the segment has the last rows: complete from its
    end on (P1). A table that a DDL has the dump read again is named again. `others`: of the other dumps that are there."""

    dump_id: str
    state: DumpState
    complete: tuple[TableName, ...] = ()
    others: tuple[SegmentDump, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """JSON values only; `others` only where there are some."""
        result: dict[str, Any] = {"dump_id": self.dump_id, "state": self.state, "complete": self.complete}
        return result | ({"others": [one.to_json() for one in self.others]} if self.others else {})


def state_after(dumps: Sequence[dict[str, Any]], *, after_ts: CommitTs, upto_ts: CommitTs) -> SegmentDump | None:
    """Of `Manifest.dumps` of the segment `(after_ts, upto_ts]`, and of nothing else: so it is the same for each reader at any time. A
    window's high_ts, from which on a table is complete, is within the segment in which it closes (core/window.py). None of no dump. Raises
    as `progress_from_json`."""
    each = [
        SegmentDump(
            str(one["dump_id"]),
            DumpState(one["state"]),
            tuple(done.table for done in completed(one, after_ts=after_ts, upto_ts=upto_ts)),
        )
        for one in dumps
    ]
    return replace(each[0], others=tuple(each[1:])) if each else None


class CompletedTable(NamedTuple):
    """A table that is complete from `at` on, by the pass that began with segment `since_seq`. `whole`: as of TableProgress."""

    table: TableName
    at: CommitTs
    since_seq: Seq
    whole: bool


def completed(value: dict[str, Any], *, after_ts: CommitTs, upto_ts: CommitTs) -> Iterator[CompletedTable]:
    """Of `Progress.to_json`: those of `state_after`. Raises as `progress_from_json`."""
    for table in completing(value, after_ts=after_ts, upto_ts=upto_ts):
        at, since_seq = CommitTs(int(table["complete_at"])), Seq(int(table.get("since_seq", FIRST_SEQ)))
        yield CompletedTable(TableName(*table["table"]), at, since_seq, _is_whole(table))


def completing(value: dict[str, Any], *, after_ts: CommitTs, upto_ts: CommitTs) -> Iterator[dict[str, Any]]:
    """The tables of `completed` as they are in `value`."""
    for table in value["tables"]:
        if table["complete_at"] is not None and after_ts < int(table["complete_at"]) <= upto_ts:
            yield table


def leading(dumps: Sequence[Progress]) -> Progress | None:
    """The dump that is shown where a request names none: the first that runs, or is paused, or waits; else the last one that was."""
    for state in _SHOWN_FIRST:
        if results := [dump for dump in dumps if dump.state is state]:
            return min(results, key=lambda dump: dump.number)
    return max(dumps, key=lambda dump: dump.number, default=None)


def shown_first(dumps: Sequence[Progress]) -> list[Progress]:
    """`leading`, then the others."""
    first = leading(dumps)
    return [] if first is None else [first, *(dump for dump in dumps if dump is not first)]


def blocking(queued: Progress, dumps: Sequence[Progress]) -> list[Progress]:
    """The dumps before it that are not over and have one of its tables; none of one that is not queued."""
    if queued.state is not DumpState.QUEUED:
        return []
    tables = {table.table for table in queued.tables}
    return holding(tables, [dump for dump in dumps if dump.number < queued.number])


def holding(tables: Collection[TableName], dumps: Iterable[Progress]) -> list[Progress]:
    """The dumps that are not over and have one of these tables."""
    return [dump for dump in dumps if dump.state not in OVER and any(table.table in tables for table in dump.tables)]


def intended_without_id(dumps: Sequence[Progress]) -> list[Progress]:
    """Those that a request without a dump id can be for: the dumps that are not over, or else the last one. So a request that is made again
    never means a dump that is over while another one is there."""
    return [dump for dump in dumps if dump.state not in OVER] or list(dumps[-1:])


def newest(logged: Sequence[Progress], stored: Sequence[Progress], *, log: str, last_seq: Seq) -> tuple[Progress, ...]:
    """The dumps that continue in the log `log`, which ends at `last_seq` (-1: it is empty). It has recorded `logged`: these continue,
    unless the store's are newer: requests that no segment has recorded yet.

    Each change of a record has a revision above all others, and where dumps are forgotten another one changes. So the copy with the highest
    one knows which dumps there are.

    What the store has of another log, or beyond this one's end, is in no window here: its cursors are never taken. Where this log knows of
    no dump of its own, the requested dumps are kept, as failed ones.
    """
    if other := [one for one in stored if one.log not in (log, "")]:
        why = f"its rows are in log {other[0].log}, and this is log {log}"
        return tuple(logged) or tuple(_without_rows(one, log=log, last_seq=last_seq, why=why) for one in stored)
    if beyond := [one.seq for one in stored if one.seq > last_seq]:
        why = f"it had come to segment {max(beyond)}, and " + (f"this log ends at {last_seq}" if last_seq >= 0 else "this log is empty")
        return tuple(_without_rows(one, log=log, last_seq=last_seq, why=why) for one in stored)
    first, second = (stored, logged) if _revision(stored) > _revision(logged) else (logged, stored)
    also = {one.dump_id: one for one in second}
    return tuple(max(one, also.get(one.dump_id, one), key=lambda copy: copy.revision) for one in first)


def _revision(dumps: Iterable[Progress]) -> int:
    return max((dump.revision for dump in dumps), default=-1)


_ANOTHER_LOG_HINT = (
    "dumpresume (or dumprestart) reads its tables into this log, from the beginning; or set log.uri back to the log that it had"
)


def _without_rows(stored: Progress, *, log: str, last_seq: Seq, why: str) -> Progress:
    since_seq = Seq(last_seq + 1)
    then = ", where it had finished" if stored.state is DumpState.FINISHED else ""
    return replace(
        stored,
        state=DumpState.FAILED,
        reason=with_hint(f"its log is another one{then}: {why}", _ANOTHER_LOG_HINT),
        seq=Seq(-1),
        tables=tuple(afresh(table, since_seq=since_seq) for table in stored.tables),
        log=log,
    )


def tables_to_json(tables: Iterable[TableProgress]) -> list[dict[str, Any]]:
    """`tables` of `Progress.to_json`."""
    return [_table_to_json(table) for table in tables]


def _table_to_json(table: TableProgress) -> dict[str, Any]:
    """By hand: this runs for every table at every segment, and `asdict` takes five times as long."""
    return {
        "table": table.table,
        "spans": [_span_to_json(span) for span in table.spans],
        "chunks": table.chunks,
        "rows": table.rows,
        "bytes": table.bytes,
        "complete_at": None if table.complete_at is None else str(table.complete_at),
        "where": table.where,
        "since_seq": table.since_seq,
        "whole": table.whole,
    } | _keys_to_json(table)


def _keys_to_json(table: TableProgress) -> dict[str, Any]:
    if table.keys:
        return {"keys": table.keys}
    return {"past_keys": table.past_keys} if table.past_keys else {}


def _span_to_json(span: Span) -> dict[str, Any]:
    range_of_keys = {"cursor": span.cursor, "upper": span.upper}
    return range_of_keys if span.keys is None else range_of_keys | {"keys": span.keys}


def _is_whole(table: dict[str, Any]) -> bool:
    return bool(table.get("whole", table["where"] is None))
