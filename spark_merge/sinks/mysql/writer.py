"""A task: portions of rows in, transactions at the target out.

    live rows    of each commit the groups that have keys in common (conflicts.together), each to the worker that its keys are with
    a chunk      its rows have one commit_ts and different keys: blocks of them, one worker

- The worker of a row, and the row's number in the task, depend only on the segments and on the batch's record. So a task that is done
  again gives each worker the same rows, and the worker's slot says how many of them are written.
- Where a commit is too long to be held, all flush, and one worker has it in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema
from sidecar.shared.mysql.retry import carried_out
from spark_merge.port.contract import ChunkPiece, Counts, Outcome, Piece, Portion, Task, counted
from spark_merge.sinks.mysql.conflicts import Causality, Key, keys_of, together
from spark_merge.sinks.mysql.pool import borrowed, given_back
from spark_merge.sinks.mysql.position import OwnedSlots
from spark_merge.sinks.mysql.statements import Puts, SqlTexts, SqlWrite
from spark_merge.sinks.mysql.tables import TargetTable
from spark_merge.sinks.mysql.uri import SqlSettings
from spark_merge.sinks.mysql.weights import Weights
from spark_merge.sinks.mysql.workers import SqlBlock, SqlJob, TaskOver, Workers

COMMIT_ROWS_MAX, COMMIT_BYTES_MAX = 20_000, 64 << 20
"""Rows of one commit that are held to be grouped, and the text of their values; a longer one passes in blocks."""

CHUNK_BLOCK_ROWS = 1_000

HANDED_ROWS, HANDED_BYTES = 64, 1 << 20
"""At once to a worker, as long as more come: handing over costs as much as some rows."""


@dataclass(frozen=True, slots=True)
class SqlWriter:
    """`by_bytes`: as of SqlBatch."""

    settings: SqlSettings
    slots: OwnedSlots
    tables: Mapping[TableName, TargetTable]
    by_bytes: bool = True

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        counts: Counts = {}
        session = borrowed(self.settings.server)
        try:
            done = carried_out(session, lambda: self.slots.done(session, task.id), doing="reading the task's slots")
            if done is None:
                return Outcome(task.id, {})
            live = task.units[0].live
            job = SqlJob(self.slots, task.id, self.settings.txn_rows if live else CHUNK_BLOCK_ROWS, self.settings.batched)
            workers = Workers(lambda: borrowed(self.settings.server), job, done)
            try:
                hands = Dispatch(workers, len(done), Weights(session), self.tables, self.by_bytes)
                for portion in portions:
                    for piece in counted(portion, counts):
                        hands.take(portion.schema, piece)
                hands.end()
            finally:
                given_back(workers.close())
        except TaskOver:
            return Outcome(task.id, {})
        finally:
            given_back([session])
        return Outcome(task.id, counts)


class _Change(NamedTuple):
    """`keys`: of both images. A delete may have come with its handle key alone. Who takes a unique value of its row then is not in order
    with it, and need not be: REPLACE takes the value from the row that has it, and DELETE goes by the handle key."""

    ordinal: int
    write: SqlWrite
    keys: list[Key]


@dataclass
class Dispatch:
    """Rows in their order to workers. One thread."""

    workers: Workers
    count: int
    weights: Weights
    tables: Mapping[TableName, TargetTable]
    by_bytes: bool = True
    _texts: dict[TableName, SqlTexts] = field(default_factory=dict)
    _index: int = 0
    _commit_ts: CommitTs | None = None
    _commit: list[_Change] = field(default_factory=list)
    _long: bool = False
    _commit_bytes: int = 0

    def __post_init__(self) -> None:
        self._causality = Causality(self.count)
        self._waiting: list[list[SqlWrite]] = [[] for _ in range(self.count)]
        self._waiting_bytes = [0] * self.count

    def take(self, schema: TableSchema, piece: Piece) -> None:
        if isinstance(piece, ChunkPiece):
            self._chunk(schema, piece)
        else:
            self._live(schema, piece.select(["commit_ts", "ordinal", "key", "before", "after"]).to_pydict())
        self._offer_all()

    def end(self) -> None:
        """All is committed."""
        self._end_commit()
        self._offer_all()
        self.workers.drain()

    # ---- live rows -------------------------------------------------------------------------------------------------------

    def _live(self, schema: TableSchema, value: Mapping[str, list[Any]]) -> None:
        for commit_ts, change in zip(value["commit_ts"], self._changes(schema, value), strict=True):
            if commit_ts != self._commit_ts:
                self._end_commit()
                self._commit_ts = commit_ts
            elif len(self._commit) >= COMMIT_ROWS_MAX or (self.by_bytes and self._commit_bytes >= COMMIT_BYTES_MAX):
                self._pass_block()
            self._commit.append(change)
            self._commit_bytes += change.write.bytes

    def _changes(self, schema: TableSchema, value: Mapping[str, list[object]]) -> list[_Change]:
        texts = self._texts_of(schema)
        before: list[list[str | None] | None] = value["before"]  # type: ignore[assignment]  # CHANGES
        after: list[list[str | None] | None] = value["after"]  # type: ignore[assignment]
        ordinals: list[int] = value["ordinal"]  # type: ignore[assignment]
        keys: list[str] = value["key"]  # type: ignore[assignment]
        images = [image for pair in zip(before, after, strict=True) for image in pair if image is not None]
        made = iter(keys_of(texts.table, schema.columns, images, self.weights))
        puts = [image for image in after if image is not None]
        values = iter(texts.rows(list(zip(*puts, strict=True))) if puts else ())
        wheres = texts.keys(list(zip(*((new or old) for old, new in zip(before, after, strict=True)), strict=True)))
        changes = []
        for ordinal, key, where, old, new in zip(ordinals, keys, wheres, before, after, strict=True):
            met = [one for image in (old, new) if image is not None for one in next(made)]
            write = SqlWrite(0, texts, key, where, next(values) if new is not None else None)
            changes.append(_Change(ordinal, write, met))
        return changes

    def _end_commit(self) -> None:
        changes, self._commit, self._commit_bytes = self._commit, [], 0
        if self._long:
            self._long = False
            self._hand(0, changes)
            self._flush()
            return
        for group in together([(*change.keys, change.ordinal) for change in changes]):
            worker = self._causality.worker(group.keys)
            if worker is None:
                self._flush()
                worker = self._causality.worker(group.keys)
                assert worker is not None, "nothing is known after a flush"
            self._hand(worker, [changes[place] for place in group.places])

    def _pass_block(self) -> None:
        """Of a commit that is too long to be held."""
        changes, self._commit, self._commit_bytes = self._commit, [], 0
        if not self._long:
            self._flush()
            self._long = True
        self._hand(0, changes, ends=False)

    def _hand(self, worker: int, changes: Sequence[_Change], *, ends: bool = True) -> None:
        """Rows are numbered as they are handed out, so a worker's numbers rise."""
        writes = self._waiting[worker]
        for change in changes:
            writes.append(change.write._replace(number=self._index))
            self._index += 1
            self._waiting_bytes[worker] += change.write.bytes
        if not ends or len(writes) >= HANDED_ROWS or self._waiting_bytes[worker] >= HANDED_BYTES:
            self._offer(worker, ends=ends)

    def _offer(self, worker: int, *, ends: bool = True) -> None:
        writes, self._waiting[worker], self._waiting_bytes[worker] = self._waiting[worker], [], 0
        if writes:
            self.workers.offer(worker, SqlBlock(writes, writes[-1].number + 1, ends))

    def _offer_all(self) -> None:
        for worker in range(self.count):
            self._offer(worker)

    def _flush(self) -> None:
        self._offer_all()
        self.workers.drain()
        self._causality.clear()

    # ---- a chunk's rows --------------------------------------------------------------------------------------------------

    def _chunk(self, schema: TableSchema, piece: ChunkPiece) -> None:
        rows, texts = piece.survivors.rows, self._texts_of(schema)
        for start in range(0, rows.num_rows, CHUNK_BLOCK_ROWS):
            puts = Puts(self._index, texts, rows.slice(start, CHUNK_BLOCK_ROWS), piece.deletes)
            self._index += len(puts)
            self.workers.offer(0, SqlBlock(puts, self._index))

    def _texts_of(self, schema: TableSchema) -> SqlTexts:
        sql_texts = self._texts.get(schema.name)
        if sql_texts is None:
            sql_texts = self._texts[schema.name] = SqlTexts(schema, self.tables[schema.name])
        return sql_texts
