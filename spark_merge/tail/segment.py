"""A segment's events of one table, by the merge that the sinks have.

    manifest ─► a task of this table ─► merge.task.portions ─► live rows, kept rows of chunks
                                     what a chunk has beside its kept rows ─► dropped, each with the change of its key

- Nothing here decides which row is kept: kept rows are those that `merge.task` would hand to a sink, dropped ones are the chunk's others.
- A window that began before the first kept segment has changes that the log has no more. Its rows are `unknown`.
- A row that cannot be decoded holds the sinks, but not who looks: it is an event of its own, and the rest is read without it.
- Memory is the merge's: of a segment a bounded number of rows at once, and what was decoded last (log/cache.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from heapq import merge as merged_in_order
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.errors import FeedError, LogBroken
from sidecar.shared.log.layout import WAY_OUT
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.log.manifests import manifest_of
from sidecar.shared.log.skips import Skip, read_skips
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.keyset import Key
from sidecar.shared.model.nouns import CommitTs, Seq, TableName, TableSchema, lowered
from spark_merge.delivery.complete import named_tables, received
from spark_merge.log.cache import DecodedRows
from spark_merge.log.read import LoggedSchemas
from spark_merge.log.segments import Segments, SegmentSource
from spark_merge.log.undecodable import Decoding, undecodable
from spark_merge.merge.task import needed, open_chunk, portions
from spark_merge.port.contract import ChunkPiece, DueChunk, Head, Portion, Task, Unit
from spark_merge.port.keys import key_text
from spark_merge.tail.events import EventKind, LiveChange, TailEvent
from spark_merge.verify.look import key_of

_NO_KEYS = pa.array([], pa.string())
CACHE_BYTES_MAX = 32 << 20
"""Decoded rows that are kept beside those of the segment: windows reach back to few segments, and who looks takes little of the machine."""
ROWS_AT_ONCE = 1_000
"""That become Python's objects at once."""


@dataclass(frozen=True, slots=True)
class TailScope:
    """`key`: of these rows alone, in canonical text; None: of all. `sink`: as the sink of this name receives the segments; empty: with the
    chunks of all dumps. `how`: rows are decoded, as in the sidecar's settings."""

    log: Folder
    how: Decoding
    key: Key | None = None
    sink: str = ""


class SegmentEvents:
    """Of one table in one log, for one thread. `cache`: of all that read this log, if they share one."""

    def __init__(self, scope: TailScope, cache: DecodedRows | None = None) -> None:
        self._scope, self._cache = scope, DecodedRows(bytes_max=CACHE_BYTES_MAX) if cache is None else cache
        self._skips: list[Skip] = []
        self._unreadable: dict[Seq, frozenset[int]] = {}
        key = None if scope.key is None else [pa.array([text], pa.string()) for text in scope.key]
        self._key: pa.Array | None = None if key is None else key_text(key)

    def look(self) -> None:
        """Which rows an operator has skipped, by now. Raises LogBroken."""
        self._skips = read_skips(self._scope.log)

    def of(self, manifest: Manifest, tables: tuple[TableSchema | None, TableSchema | None], kept_from: Seq) -> Iterator[TailEvent]:
        """`tables`: the table in the segment and after its DDLs, None: it is not there. `kept_from`: the log's first segment. Raises what
        reading and decoding the log raises."""
        before, after = tables
        if before is not None and before.key:
            rows = self._rows(manifest, before, kept_from)
            yield from merged_in_order(rows, self._skipped(manifest, before), key=lambda event: event.commit_ts)
        yield from _last_events(manifest, tuple(one.name for one in (before, after) if one is not None))

    def _skipped(self, manifest: Manifest, table: TableSchema) -> Iterator[TailEvent]:
        for skip in self._skips:
            if skip.seq == manifest.seq and skip.table == table.name:
                text = f"ordinal {skip.ordinal}: {skip.reason}" + (f" [{skip.by}]" if skip.by else "")
                yield TailEvent(EventKind.SKIPPED, skip.seq, skip.commit_ts, table.name, table, skip.op, text=text)

    # ---- rows -------------------------------------------------------------------------------------------------------

    def _rows(self, manifest: Manifest, table: TableSchema, kept_from: Seq) -> Iterator[TailEvent]:
        """Where a row cannot be decoded, it is named, and the others follow: what was given before it is the same without it."""
        given = 0
        while True:
            try:
                for event in islice(self._decodable(manifest, table, kept_from), given, None):
                    yield event
                    given += 1
                return
            except FeedError:
                bad = self._note_unreadable(range(min(kept_from, manifest.seq), manifest.seq + 1), manifest, table)
                if not bad:
                    raise
            for skip in bad:
                if skip.seq == manifest.seq and skip.table == table.name:
                    text = f"ordinal {skip.ordinal}: {skip.reason}"
                    yield TailEvent(EventKind.UNDECODABLE, skip.seq, skip.commit_ts, table.name, table, skip.op, text=text)

    def _note_unreadable(self, kept: range, manifest: Manifest, table: TableSchema) -> list[Skip]:
        """Those of the segments that this one needs which were not known before."""
        reach = {manifest.seq, *(Seq(seq) for due in self._due(manifest, table) for seq in range(due.first_seq, due.seq))}
        bad = [skip for seq in sorted(reach) if seq in kept for skip in undecodable(self._scope.log, seq, self._scope.how)]
        new = [skip for skip in bad if skip.ordinal not in self._left(skip.seq)]
        for skip in new:
            self._unreadable[skip.seq] = self._unreadable.get(skip.seq, frozenset()) | {skip.ordinal}
        return new

    def _left(self, seq: Seq) -> frozenset[int]:
        """Ordinals of rows that are not decoded."""
        return self._unreadable.get(seq, frozenset()) | {skip.ordinal for skip in self._skips if skip.seq == seq}

    def _due(self, manifest: Manifest, table: TableSchema) -> list[DueChunk]:
        return [due for due in self._head(manifest).due_chunks() if due.table == table.name]

    def _head(self, manifest: Manifest) -> Head:
        log, sink = self._scope.log, self._scope.sink
        schemas = LoggedSchemas(log, manifest.schemas)
        return Head(received(manifest, sink) if sink else manifest, schemas, schemas)

    def _decodable(self, manifest: Manifest, table: TableSchema, kept_from: Seq) -> Iterator[TailEvent]:
        head, due = self._head(manifest), self._due(manifest, table)
        live = head.table_rows is None or table.name in head.table_rows
        whole, cut = (tuple(one for one in due if (one.first_seq >= kept_from) is is_whole) for is_whole in (True, False))
        rows: Iterable[TailEvent] = ()
        if live or whole:
            rows = self._merged(manifest, Task("tail", (Unit(manifest.seq, live, whole),)), table)
        return merged_in_order(rows, *(self._unknown(manifest, one, table, kept_from) for one in cut), key=lambda event: event.commit_ts)

    def _merged(self, manifest: Manifest, task: Task, table: TableSchema) -> Iterator[TailEvent]:
        source = self._source(task, manifest)
        for portion in portions(task, source, self._cache):
            if portion.schema.name == table.name:
                yield from self._of_portion(portion, manifest, source)

    def _source(self, task: Task, manifest: Manifest) -> SegmentSource:
        log, how = self._scope.log, self._scope.how
        heads = {manifest.seq: self._head(manifest)}
        for seq in sorted(needed(task) - heads.keys()):
            if (earlier := manifest_of(log, seq)) is None:
                raise LogBroken(f"segment log {log}: segment {seq}, which a window of segment {manifest.seq} needs, is gone", hint=WAY_OUT)
            heads[seq] = self._head(earlier)
        return SegmentSource(log, heads, how.server_tz, how.ambiguous, {seq: left for seq in heads if (left := self._left(seq))})

    def _of_portion(self, portion: Portion, manifest: Manifest, source: SegmentSource) -> Iterator[TailEvent]:
        due, ordinals = None, list[pa.Array]()
        for piece in portion.pieces:
            here = piece.due if isinstance(piece, ChunkPiece) else None
            if due is not None and here != due:
                yield from self._dropped(due, ordinals, manifest, source)
                ordinals = []
            due = here
            if isinstance(piece, ChunkPiece):
                ordinals.append(piece.survivors.ordinals)
                yield from self._of_chunk(EventKind.DUMP, manifest, portion.schema, piece)
            else:
                yield from self._of_changes(portion.schema, piece)
        if due is not None:
            yield from self._dropped(due, ordinals, manifest, source)

    def _of_changes(self, table: TableSchema, piece: pa.Table) -> Iterator[TailEvent]:
        for rows in self._wanted(piece, piece["key"]):
            for row in rows.to_pylist():
                yield TailEvent(
                    EventKind.LIVE, Seq(row["seq"]), CommitTs(row["commit_ts"]), table.name, table, row["op"], key_of(row["key"]),
                    *_images(row),
                )  # fmt: skip

    def _of_chunk(
        self, kind: EventKind, manifest: Manifest, table: TableSchema, piece: ChunkPiece, changes: Mapping[str, LiveChange] | None = None
    ) -> Iterator[TailEvent]:
        due, all_rows = piece.due, piece.survivors.rows
        sinks = next((window.sinks for window in manifest.windows if any(chunk.path == due.path for chunk in window.chunks)), ())
        for rows in self._wanted(all_rows, key_text([all_rows.column(name) for name in table.key])):
            keys = zip(*(rows.column(name).to_pylist() for name in table.key), strict=True)
            images = zip(*(rows.column(name).to_pylist() for name in table.column_names()), strict=True)
            texts = key_text([rows.column(name) for name in table.key]).to_pylist() if changes else [""] * rows.num_rows
            for key, image, text in zip(keys, images, texts, strict=True):
                yield TailEvent(
                    kind, manifest.seq, due.high_ts, table.name, table, "delete" if piece.deletes else "insert", key,
                    after=None if piece.deletes else image, chunk=due, sinks=sinks, change=changes.get(text) if changes else None,
                )  # fmt: skip

    def _dropped(self, due: DueChunk, kept: list[pa.Array], manifest: Manifest, source: SegmentSource) -> Iterator[TailEvent]:
        """What the chunk has beside the rows that were kept."""
        if due.rows == sum(map(len, kept)):
            return
        table = source.heads[manifest.seq].schemas[due.table]
        kept_ordinals = pa.concat_arrays([pa.array([], pa.int64()), *(_whole(one) for one in kept)])
        for piece in open_chunk(self._scope.log, table, due, _NO_KEYS):
            here = pc.invert(pc.is_in(_whole(piece.survivors.ordinals), value_set=kept_ordinals))
            rows = piece.survivors.rows.filter(here)
            texts = key_text([rows.column(name) for name in table.key])
            if self._key is not None:
                here = pc.is_in(texts, value_set=self._key)
                rows, texts = rows.filter(here), texts.filter(here)
            if rows.num_rows:
                changes = self._last_changes(due, texts, source)
                others = replace(piece, survivors=piece.survivors._replace(rows=rows))
                yield from self._of_chunk(EventKind.DROPPED, manifest, table, others, changes)

    def _last_changes(self, due: DueChunk, keys: pa.ChunkedArray, source: SegmentSource) -> dict[str, LiveChange]:
        """Of each of these keys the last change in the window."""
        segments, last = Segments(source, raw=False, cache=self._cache), dict[str, tuple[tuple[int, int, int], LiveChange]]()
        for seq in map(Seq, range(due.first_seq, due.seq + 1)):
            for changes in segments.decoded(seq, due.table):
                at = pc.and_(pc.greater(changes["commit_ts"], due.low_ts), pc.less_equal(changes["commit_ts"], due.high_ts))
                for row in changes.filter(pc.and_(at, pc.is_in(changes["key"], value_set=_whole(keys)))).to_pylist():
                    place = (row["commit_ts"], row["rank"], row["ordinal"])
                    if row["key"] not in last or last[row["key"]][0] <= place:
                        last[row["key"]] = place, LiveChange(CommitTs(row["commit_ts"]), row["op"], *_images(row))
        return {key: change for key, (_, change) in last.items()}

    def _unknown(self, manifest: Manifest, due: DueChunk, table: TableSchema, kept_from: Seq) -> Iterator[TailEvent]:
        text = (
            f"its window began in segment {due.first_seq}, and the log begins with {kept_from}: whether a change replaced it is not known"
        )
        for piece in open_chunk(self._scope.log, table, due, _NO_KEYS):
            for event in self._of_chunk(EventKind.UNKNOWN, manifest, table, piece):
                yield replace(event, text=text)

    def _wanted(self, rows: pa.Table, keys: pa.ChunkedArray) -> Iterator[pa.Table]:
        if self._key is not None:
            rows = rows.filter(pc.is_in(keys, value_set=self._key))
        yield from (rows.slice(start, ROWS_AT_ONCE) for start in range(0, rows.num_rows, ROWS_AT_ONCE))


def _images(row: Mapping[str, list[str | None] | None]) -> tuple[tuple[str | None, ...] | None, tuple[str | None, ...] | None]:
    """Before and after, of a row of CHANGES."""
    before, after = row["before"], row["after"]
    return None if before is None else tuple(before), None if after is None else tuple(after)


def _whole(texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    return texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts


def _last_events(manifest: Manifest, names: Collection[TableName]) -> Iterator[TailEvent]:
    """DDLs of the table under any of these names, and holes."""
    folded = {name.folded() for name in names}
    databases = {lowered(name.schema) for name in names}
    for ddl in manifest.ddls:
        if folded & named_tables(ddl) or (not ddl.table and lowered(ddl.schema) in databases):
            yield _ddl_event(manifest, ddl)
    for hole in manifest.holes:
        if names and (hole.tables is None or set(names) & set(hole.tables)):
            vanished = "; rows may be gone in the source" if hole.vanished else ""
            text = f"{hole.cause}: {hole.text}{vanished}"
            yield TailEvent(EventKind.HOLE, manifest.seq, hole.since_ts, tuple(names)[-1], text=text)


def _ddl_event(manifest: Manifest, ddl: DdlRecord) -> TailEvent:
    return TailEvent(EventKind.DDL, manifest.seq, ddl.commit_ts, TableName(ddl.schema, ddl.table), text=ddl.query)
