"""How segments become batches, units and tasks. The bounds of a batch are the job's; a sink says what its units are.

- A batch ends at a DDL and where the schemas change, and otherwise at its bounds; a single segment larger than these is one of its own.
- Which unit a row is in is decided by `units` alone, out of manifests and the sink's constants. Tasks are units side by side: how many
  go into one is a matter of speed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sidecar.shared.log.manifest import Manifest
from sidecar.shared.model.nouns import CommitTs, Seq, TableName, TableSchema
from spark_merge.port.contract import DueChunk, Head, Task, Unit, has_rows

TASKS_A_CORE = 2
"""So that a core that is done early finds another task."""

TASK_COST_MIN = 30_000
"""Below that a task of its own costs more than it saves (a task: some 10 ms; a live row: 10 us; a chunk's row: 3 us)."""

LIVE_ROW_COST = 3
"""Beside a chunk's row, which is not decoded."""

LIVE_PART_ROWS = 131_072
"""Of a segment's live rows in one unit, where a sink can have them in several: a second or two of one core, and a row group of its file."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What one batch may hold; a larger segment is a batch of its own. `tables_max`: tables with rows, counted in each segment:
    a sink that writes a file for each of them has so many files. `segments_max`: ten minutes of a stream that is resolved once a second: a
    sink whose batch takes longer than what is in it never catches up."""

    segments_max: int = 600
    tables_max: int = 4_000
    rows_max: int = 2_000_000
    bytes_max: int = 1 << 30


def cut(manifests: Sequence[Manifest], limits: BatchLimits) -> list[Manifest]:
    """The first batch: within the bounds (but at least one segment), up to and with the first DDL, of one schemas file."""
    batch: list[Manifest] = []
    rows = size = tables = 0
    for manifest in manifests:
        chunks = [chunk for window in manifest.windows for chunk in window.chunks]
        rows += manifest.rows + sum(chunk.rows for chunk in chunks)
        size += manifest.bytes + sum(chunk.bytes for chunk in chunks)
        tables += len(manifest.table_rows or {}) + len({chunk.table for chunk in chunks if chunk.rows})
        full = rows > limits.rows_max or size > limits.bytes_max or tables > limits.tables_max
        if batch and (full or manifest.schemas != batch[0].schemas):
            break
        batch.append(manifest)
        if manifest.ddls:
            break
    return batch


def tables_with_rows(heads: Iterable[Head]) -> list[TableSchema]:
    """Of the tables that have rows in these segments, which are all of one schemas file; by name."""
    schemas: dict[TableName, TableSchema] = {}
    for head in heads:
        names = {chunk.table for chunk in head.due_chunks()} | (head.schemas if head.table_rows is None else head.table_rows).keys()
        schemas |= {name: head.schemas[name] for name in names & head.schemas.keys()}
    return [schema for _, schema in sorted(schemas.items()) if has_rows(schema)]


def units(heads: Sequence[Head], *, chunk_parts: int, live_part_rows: int = 0) -> list[Unit]:
    """In order of seq, none without rows; those of a segment have different `part`s.

    `chunk_parts` 0: a unit a segment, its chunks among its live rows. Else live rows are units of their own (part 0), and a table's chunks
    in a segment are spread over parts 1 to `chunk_parts`, by their number. `live_part_rows`: more live rows than that are cut into even
    parts by ordinal (0, and those after the chunks'). Only for a sink whose consumer has the order from the rows (commit_ts, deletes
    first, ordinal), never from their place: a cut may go through a transaction, and what moves a key has its delete and its insert in
    one part, but a swap of keys has them crosswise in two.
    """
    log_units: list[Unit] = []
    for head in heads:
        due, live = head.due_chunks(), head.table_rows != {}
        if not chunk_parts:
            log_units += [Unit(head.seq, live, tuple(due))] if live or due else []
            continue
        log_units += _live_parts(head.manifest, chunk_parts, live_part_rows) if live else []
        parts: defaultdict[tuple[TableName, int], list[DueChunk]] = defaultdict(list)
        for chunk in due:
            parts[chunk.table, 1 + chunk.number % chunk_parts].append(chunk)
        log_units += [Unit(head.seq, live=False, chunks=tuple(chunks), part=part) for (_, part), chunks in sorted(parts.items())]
    return log_units


def _live_parts(manifest: Manifest, chunk_parts: int, rows_max: int) -> Iterator[Unit]:
    count = -(-manifest.rows // rows_max) if rows_max else 1
    edges = [manifest.rows * number // count for number in range(count + 1)]
    for number in range(count):
        within = range(edges[number], edges[number + 1]) if count > 1 else None
        yield Unit(manifest.seq, live=True, part=chunk_parts + number if number else 0, within=within)


def stages(heads: Sequence[Head], *, chunk_parts: int, raw: bool = False, few_rows: int = 0) -> tuple[tuple[Task, ...], ...]:
    """For a sink whose rows take effect as they come: live rows up to a high mark, the chunks of its windows, live rows after it, in turn.

    A stage of live rows is one task, `live-…`, of as many segments as come before the next high mark: a unit for each of them, also for one
    without rows, of which the last one of a segment reaches up to its end. A stage of chunks is up to `chunk_parts` tasks, `dump-…`, in any
    order: their rows have one commit_ts and different keys. Chunks of a segment with up to `few_rows` are in its live unit, among the live
    rows: they cost less than stages of their own. A function of the segments and these numbers alone, task ids too, so that a batch that
    is done again has the same tasks.
    """
    tasks: list[tuple[Task, ...]] = []
    live: list[Unit] = []

    def close() -> None:
        if live:
            tasks.append((Task(f"live-{live[0].seq}-{live[0].part}", tuple(live), "segment", raw),))
            live.clear()

    for head in heads:
        due = head.due_chunks()
        if sum(chunk.rows for chunk in due) <= few_rows:
            live.append(Unit(head.seq, live=True, chunks=tuple(due)))
            continue
        windows: defaultdict[CommitTs, list[DueChunk]] = defaultdict(list)
        for chunk in due:
            windows[chunk.high_ts].append(chunk)
        after_ts, part = head.manifest.after_ts, 0
        for high_ts, chunks in sorted(windows.items()):
            if head.table_rows != {}:
                live.append(Unit(head.seq, live=True, part=part, between=(after_ts, high_ts)))
                part += 1
            close()
            tasks.append(tuple(_chunk_tasks(head.seq, chunks, part, chunk_parts)))
            after_ts, part = high_ts, part + chunk_parts
        between = None if part == 0 else (after_ts, head.upto_ts)
        live.append(Unit(head.seq, live=True, part=part, between=between))
    close()
    return tuple(tasks)


def _chunk_tasks(seq: Seq, chunks: Sequence[DueChunk], part: int, chunk_parts: int) -> Iterator[Task]:
    for number in range(min(chunk_parts, len(chunks))):
        yield Task(f"dump-{seq}-{part + number}", (Unit(seq, live=False, chunks=tuple(chunks[number::chunk_parts]), part=part + number),))


def spread(to_spread: Sequence[Unit], heads: Sequence[Head], *, cores: int) -> list[tuple[Unit, ...]]:
    """The units side by side in groups of like cost, enough of them for all cores.

    What a group decodes it decodes once: the live rows of its units, and the tables that its windows reach back to, for their keys. Where a
    new group would decode again what the one before it has, it begins only when that one has chunks that cost as much.
    """
    by_seq = {head.seq: head for head in heads}
    decoded = [_decoded(unit, by_seq) for unit in to_spread]
    chunk_rows = [sum(chunk.rows for chunk in unit.chunks) for unit in to_spread]
    total = sum(chunk_rows) + sum({place: cost for places in decoded for place, cost in places.items()}.values())
    target = max(total / (TASKS_A_CORE * cores), TASK_COST_MIN)
    groups: list[list[Unit]] = []
    filled = filled_chunks = 0
    known: _Decoded = {}
    for unit, places, rows in zip(to_spread, decoded, chunk_rows, strict=True):
        again = sum(cost for place, cost in places.items() if place in known)
        cost = rows + sum(places.values()) - again
        if not groups or (filled + cost / 2 > target and again <= filled_chunks):
            groups.append([])
            filled, filled_chunks, cost, known = 0, 0, cost + again, {}
        groups[-1].append(unit)
        filled, filled_chunks = filled + cost, filled_chunks + rows
        known.update(places)
    return [tuple(group) for group in groups]


_Decoded: TypeAlias = dict[tuple[Seq, TableName | range | None], int]
"""What is decoded of which segments: a table, ordinals, or all; with its cost."""


def _decoded(unit: Unit, heads: Mapping[Seq, Head]) -> _Decoded:
    """For one unit. A segment before the batch is taken to be as the one where the window closes."""
    head = heads[unit.seq]
    costs: _Decoded = {}
    if unit.live and unit.within is None and head.table_rows is not None:
        costs |= {(unit.seq, table): LIVE_ROW_COST * rows for table, rows in head.table_rows.items()}
    elif unit.live:
        costs[unit.seq, unit.within] = LIVE_ROW_COST * (head.manifest.rows if unit.within is None else len(unit.within))
    for chunk in unit.chunks:
        for seq in map(Seq, range(chunk.first_seq, chunk.seq + 1)):
            segment_head = heads.get(seq, head)
            if segment_head.table_rows is None:
                costs[seq, None] = LIVE_ROW_COST * segment_head.manifest.rows
            elif chunk.table in segment_head.table_rows:
                costs[seq, chunk.table] = LIVE_ROW_COST * segment_head.table_rows[chunk.table]
    return costs
