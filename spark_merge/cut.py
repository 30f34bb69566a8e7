"""How segments become batches, units and tasks. The bounds of a batch are the job's; a sink says what its units are.

- A batch ends at a DDL and where the schemas change, and otherwise at its bounds; a single segment larger than these is one of its own.
- Which unit a row is in is decided by `units` alone, out of manifests and the sink's constants. Tasks are units side by side: how many
  go into one is a matter of speed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sidecar.core.model import Seq, TableName
from sidecar.log.manifest import Manifest
from spark_merge.contract import DueChunk, Head, Unit

TASKS_A_CORE = 2
"""So that a core that is done early finds another task."""

TASK_COST_MIN = 30_000
"""Below that a task of its own costs more than it saves (a task: some 10 ms; a live row: 10 us; a chunk's row: 3 us)."""

LIVE_ROW_COST = 3
"""Beside a chunk's row, which is not decoded."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What one batch may hold; a single segment larger than that is a batch of its own."""

    segments_max: int = 200
    rows_max: int = 2_000_000
    bytes_max: int = 1 << 30


def cut(manifests: Sequence[Manifest], limits: BatchLimits) -> list[Manifest]:
    """The first batch: within the bounds (but at least one segment), up to and with the first DDL, of one schemas file."""
    batch: list[Manifest] = []
    rows = size = 0
    for manifest in manifests:
        chunks = [chunk for window in manifest.windows for chunk in window.chunks]
        rows += manifest.rows + sum(chunk.rows for chunk in chunks)
        size += manifest.bytes + sum(chunk.bytes for chunk in chunks)
        if batch and (rows > limits.rows_max or size > limits.bytes_max or manifest.schemas != batch[0].schemas):
            break
        batch.append(manifest)
        if manifest.ddls:
            break
    return batch


def units(heads: Sequence[Head], *, chunk_parts: int) -> list[Unit]:
    """In order of seq, none without rows. `chunk_parts` 0: a unit a segment, its chunks among its live rows. Else live rows are units of
    their own, and a table's chunks in a segment are spread over so many, by their number."""
    found: list[Unit] = []
    for head in heads:
        due, live = head.due_chunks(), head.manifest.data is not None
        if not chunk_parts:
            found += [Unit(head.seq, live, tuple(due))] if live or due else []
            continue
        found += [Unit(head.seq, live=True)] if live else []
        parts: defaultdict[tuple[TableName, int], list[DueChunk]] = defaultdict(list)
        for chunk in due:
            parts[chunk.table, 1 + chunk.number % chunk_parts].append(chunk)
        found += [Unit(head.seq, live=False, chunks=tuple(chunks), part=part) for (_, part), chunks in sorted(parts.items())]
    return found


def spread(found: Sequence[Unit], heads: Sequence[Head], *, cores: int) -> list[tuple[Unit, ...]]:
    """The units side by side in groups of like cost, enough of them for all cores."""
    rows = {head.seq: head.manifest.rows for head in heads}
    costs = [_cost(unit, rows) for unit in found]
    target = max(sum(costs) / (TASKS_A_CORE * cores), TASK_COST_MIN)
    groups: list[list[Unit]] = []
    filled = target
    for unit, cost in zip(found, costs, strict=True):
        if filled + cost / 2 > target:
            groups.append([])
            filled = 0
        groups[-1].append(unit)
        filled += cost
    return [tuple(group) for group in groups]


def _cost(unit: Unit, rows: Mapping[Seq, int]) -> int:
    return (LIVE_ROW_COST * rows[unit.seq] if unit.live else 0) + sum(chunk.rows for chunk in unit.chunks)
