"""The rows of a recording's tables at any moment: what a SELECT would have seen.

A moment T between two snapshots is made of the truth at `start_ts` and the changes <= T: the feed's own ones, decoded as Spark
decodes them, or, where the recording has schema changes, TiKV's (`history`). That is held against the truth at every snapshot
when the tables are opened: a recording whose feed does not tell everything (event filters, another time zone) cannot stand in,
and says so.

A DDL ends the **era** of its tables and begins another one with the rows that it left, in the columns after it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa

from sidecar.replay.history import RecordedHistory
from sidecar.replay.judge.rows import Key, Row, RowStep, equal_rows, rows_by_key, seen_by_sql
from sidecar.replay.recording import FeedConfig, Recording
from sidecar.shared.errors import SourceError
from sidecar.shared.log.manifest import DATA_COLUMNS
from sidecar.shared.model.nouns import MARK_TABLE, Change, CommitTs, Kind, Message, Rank, TableName, TableSchema
from spark_merge.codecs.decode.rows import decode


class ReplayedChunk(NamedTuple):
    """What one keyset SELECT gave. `last` is the last row's key, or the key it began after where there was none.

    `exhausted`: fewer rows than requested, as a SELECT with a LIMIT shows it. `absent`: requested keys that have no row.
    """

    rows: pa.Table
    last: Key | None
    exhausted: bool
    absent: tuple[Key, ...] = ()


class _History:
    """One table: each key's versions with their commit_ts, rising; None is a deletion. `order` and `keys` go together."""

    def __init__(self, schema: TableSchema) -> None:
        kinds = {column.name: column.kind for column in schema.columns}
        self.schema = schema
        self.versions: dict[Key, tuple[list[CommitTs], list[Row | None]]] = {}
        self.keys: list[Key] = []
        self.order: list[tuple[Any, ...]] = []
        self._kinds = tuple(kinds[name] for name in schema.key)

    def add(self, commit_ts: CommitTs, key: Key, row: Row | None) -> None:
        when, rows = self.versions.setdefault(key, ([], []))
        when.append(commit_ts)
        rows.append(row)

    def sort_keys(self) -> None:
        self.keys = sorted(self.versions, key=self.place)
        self.order = [self.place(key) for key in self.keys]

    def place(self, key: Key) -> tuple[Any, ...]:
        """A key's place in this server's order: numbers by value, everything else by code points."""
        return tuple(_comparable(kind, text) for kind, text in zip(self._kinds, key, strict=True))

    def rows(self, at_ts: CommitTs) -> dict[Key, Row]:
        """Without an order."""
        return {key: row for key in self.versions if (row := self.at(key, at_ts)) is not None}

    def at(self, key: Key, at_ts: CommitTs) -> Row | None:
        when, rows = self.versions[key]
        number = bisect_right(when, at_ts)
        return rows[number - 1] if number else None


def _comparable(kind: Kind, text: str) -> int | Decimal | str:
    match kind:
        case "int" | "uint" | "bit" | "year":
            return int(text)
        case "decimal":
            return Decimal(text)
        case _:
            return text


class _RowChange(NamedTuple):
    """`row` None: the key is deleted."""

    commit_ts: CommitTs
    table: TableName
    key: Key
    row: Row | None


class RecordedTables:
    """The replicated tables of a recording at any moment, also after `end_ts`; the watermark table is not among them.

    `server_tz` is the time zone of the TiCDC server that wrote the feed. `history` is made here if the recording has schema
    changes and none is given; with one, TiKV's changes count, not the feed's. Raises SourceError if the changes do not lead from
    one truth snapshot to the next.
    """

    def __init__(
        self, recording: Recording, config: FeedConfig | None, *, server_tz: str = "UTC", history: RecordedHistory | None = None
    ) -> None:
        self._recording = recording
        self._eras: defaultdict[TableName, list[tuple[CommitTs, _History | None]]] = defaultdict(list)
        if recording.ddls or history is not None:
            history = history or RecordedHistory(recording)
            schemas, steps = history.schemas_at(recording.start_ts), list(history.steps)
            changes: Iterable[_RowChange] = _of_history(history)
        else:
            assert config is not None
            schemas, steps, changes = dict(recording.schemas), [], _of_feed(recording, config, server_tz)
        for name, rows in recording.truth(recording.start_ts).items():
            if schemas[name].key and name != MARK_TABLE:
                self._begin(name, schemas[name], recording.start_ts, rows_by_key(schemas[name], rows))
        for change in changes:
            while steps and steps[0].ts < change.commit_ts:
                self._pass(steps.pop(0))
            self._history(change.table, change.commit_ts).add(change.commit_ts, change.key, change.row)
        for step in steps:
            self._pass(step)
        for eras in self._eras.values():
            for _, era in eras:
                if era is not None:
                    era.sort_keys()
        for tso in recording.truth_ts:
            self._check(tso)

    def schema(self, table: TableName, at_ts: CommitTs) -> TableSchema | None:
        """What the table's columns are at `at_ts`; None if it does not exist then."""
        history = self._era(table, at_ts)
        return history.schema if history is not None else None

    def bounds(self, table: TableName, *, after: Key | None, at_ts: CommitTs, at_most: int) -> tuple[Key, ...]:
        """Keys above `after` that cut what is there at `at_ts` into parts of like size, the highest key last."""
        history = self._history(table, at_ts)
        first = 0 if after is None else bisect_right(history.order, history.place(after))
        keys = [key for key in map(history.keys.__getitem__, range(first, len(history.keys))) if history.at(key, at_ts) is not None]
        return tuple(
            dict.fromkeys(keys[(part * len(keys) - 1) // at_most] for part in range(1, at_most + 1) if part * len(keys) >= at_most)
        )

    def rows(self, table: TableName, at_ts: CommitTs) -> dict[Key, Row]:
        """All rows of `table` at `at_ts` by key, in this server's order."""
        history = self._history(table, at_ts)
        pairs = ((key, history.at(key, at_ts)) for key in history.keys)
        return {key: row for key, row in pairs if row is not None}

    def chunk(self, table: TableName, *, after: Key | None, upper: Key | None, rows_max: int, at_ts: CommitTs) -> ReplayedChunk:
        """The first `rows_max` rows with key in `(after, upper]` at `at_ts`; None is no bound.

        Raises SourceError for a table that is not here.
        """
        history = self._history(table, at_ts)
        first = 0 if after is None else bisect_right(history.order, history.place(after))
        end = len(history.keys) if upper is None else bisect_right(history.order, history.place(upper))
        versions = ((key, history.at(key, at_ts)) for key in map(history.keys.__getitem__, range(first, end)))
        pairs = list(islice(((key, row) for key, row in versions if row is not None), rows_max))
        rows = _arrow(history.schema, [row for _, row in pairs])
        return ReplayedChunk(rows, pairs[-1][0] if pairs else after, len(pairs) < rows_max)

    def by_key(self, table: TableName, keys: Sequence[Key], *, at_ts: CommitTs) -> ReplayedChunk:
        """The rows with these keys at `at_ts`. Raises as `chunk`."""
        history = self._history(table, at_ts)
        rows = {key: row for key in keys if key in history.versions and (row := history.at(key, at_ts)) is not None}
        absent = tuple(key for key in keys if key not in rows)
        return ReplayedChunk(_arrow(history.schema, list(rows.values())), None, True, absent)

    def _era(self, table: TableName, at_ts: CommitTs) -> _History | None:
        return next((era for since_ts, era in reversed(self._eras.get(table, ())) if since_ts <= at_ts), None)

    def _history(self, table: TableName, at_ts: CommitTs) -> _History:
        history = self._era(table, at_ts)
        if history is None:
            raise SourceError(
                f"the recording {self._recording.folder} has no replicated table {table} at {at_ts}",
                hint=f"choose from {', '.join(map(str, sorted(self._eras)))}",
            )
        return history

    def _begin(self, name: TableName, schema: TableSchema, since_ts: CommitTs, rows: Mapping[Key, Row]) -> None:
        era = _History(schema)
        for key, row in rows.items():
            era.add(since_ts, key, row)
        self._eras[name].append((since_ts, era))

    def _pass(self, step: RowStep) -> None:
        state = {name: era.rows(step.ts) for name in step.names if (era := self._era(name, step.ts)) is not None}
        for name in state:
            self._eras[name].append((step.ts, None))
        for name, rows in step.apply(state).items():
            if step.schemas[name].key:
                self._begin(name, step.schemas[name], step.ts, rows)

    def _check(self, tso: CommitTs) -> None:
        for name, truth in self._recording.truth(tso).items():
            era = self._era(name, tso)
            if era is None:
                continue
            schema = seen_by_sql(era.schema, truth)
            truth_rows, era_rows = rows_by_key(schema, truth), era.rows(tso)
            if schema is not era.schema:
                places = [era.schema.column_names().index(column) for column in schema.column_names()]
                era_rows = {key: tuple(row[place] for place in places) for key, row in era_rows.items()}
            if truth_rows.keys() != era_rows.keys() or not all(equal_rows(schema, row, era_rows[key]) for key, row in truth_rows.items()):
                raise SourceError(
                    f"the feed's changes of {name} do not lead to its recorded rows at {tso} in {self._recording.folder}",
                    hint="choose a feed that has every change (no event filters), and give the TiCDC server's time zone",
                )


def _arrow(schema: TableSchema, rows: Sequence[Row]) -> pa.Table:
    names = schema.column_names()
    columns = zip(*rows, strict=True) if rows else ((),) * len(names)
    return pa.table([pa.array(column, pa.string()) for column in columns], names=list(names))


def _of_history(history: RecordedHistory) -> list[_RowChange]:
    """At one commit_ts deletions first: keys may be swapped."""
    changes: list[_RowChange] = []
    for ts, table, _, before, after in history.changes:
        if table == MARK_TABLE:
            continue
        old, new = (history.key_of(table, ts - 1, image) if image else None for image in (before, after))
        if old is not None and old != new:
            changes.append(_RowChange(ts, table, old, None))
        if new is not None:
            changes.append(_RowChange(ts, table, new, after))
    return sorted(changes, key=lambda change: (change.commit_ts, change.row is not None))


def _of_feed(recording: Recording, config: FeedConfig, server_tz: str) -> Iterator[_RowChange]:
    for change in _decoded(recording, config, server_tz):
        schema = recording.schemas[TableName(change["schema"], change["table"])]
        texts = dict(zip(schema.column_names(), change["after"] or change["before"], strict=True))
        key = tuple(texts[name] for name in schema.key)
        yield _RowChange(change["commit_ts"], schema.name, key, tuple(change["after"]) if change["after"] else None)


def _decoded(recording: Recording, config: FeedConfig, server_tz: str) -> list[dict[str, Any]]:
    """The feed's changes after `start_ts` as rows of the change frame, in the order of a segment, without repeats."""
    codec = config.codec()
    row_changes: list[Change] = []
    for lane, messages in recording.messages(config).items():
        for position, (_, key, value) in enumerate(messages):
            row_changes += [e for e in codec.envelopes(Message(lane, position, key, value)) if isinstance(e, Change)]
    distinct: dict[Hashable, Change] = {}
    for change in sorted(row_changes, key=itemgetter(0, 1)):
        if change.commit_ts > recording.start_ts:
            distinct.setdefault((change.commit_ts, codec.identity(change)), change)
    rows = logged(list(distinct.values()), codec.name)
    changes = decode(rows, codec=codec.name, schemas=recording.schemas, server_tz=server_tz)
    return sorted(changes.to_pylist(), key=itemgetter("commit_ts", "rank", "ordinal"))


def logged(changes: Sequence[Change], codec: str) -> pa.Table:
    """The changes as rows of one segment: manifest.DATA_COLUMNS and `seq`."""
    values: dict[str, pa.Array] = {
        "ordinal": pa.array(range(len(changes)), pa.int64()),
        "commit_ts": pa.array([change.commit_ts for change in changes], pa.int64()),
        "op": pa.array(["delete" if change.rank is Rank.DELETE else "put" for change in changes], pa.string()),
        "schema": pa.array([change.schema for change in changes], pa.string()),
        "table": pa.array([change.table for change in changes], pa.string()),
        "codec": pa.array([codec] * len(changes), pa.string()),
        "key": pa.array([change.key for change in changes], pa.binary()),
        "value": pa.array([change.value for change in changes], pa.binary()),
        "lane": pa.array([change.lane for change in changes], pa.string()),
        "position": pa.array([change.position for change in changes], pa.int64()),
    }
    return pa.table({name: values[name] for name in DATA_COLUMNS} | {"seq": pa.array([0] * len(changes), pa.int64())})
