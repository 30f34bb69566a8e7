"""What a dump would do, reported before it starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from sidecar.control.dump_scope import Scope, chosen_brackets
from sidecar.control.wire import BRACKETS
from sidecar.history.entry import HistoryEntry, OperationKind
from sidecar.ports import SlowReads, TableEstimate
from sidecar.shared.model.messages import ReadWith
from sidecar.shared.model.nouns import TableName
from sidecar.shared.model.progress import Progress, holding
from ticdc_dump.v1 import control_pb2 as pb

NOTIFYING_ROWS = 10_000
"""Of a dump whose pace says something of the next one: it has had time to become as fast as it gets."""


def preview(
    scope: Scope,
    request: pb.StartRequest,
    *,
    history: Iterable[HistoryEntry] = (),
    slow: SlowReads,
    dumps: Sequence[Progress] = (),
    read_with: ReadWith = ReadWith.SQL,
) -> pb.DumpPreview:
    """`history`: earlier operations, newest first. `dumps`: those that are there."""
    brackets, no_brackets = chosen_brackets(request, scope.bracketing, read_with)
    keys = Counter({TableName(one.schema, one.table): len(one.keys) for one in request.keys})
    scope = replace(scope, estimates=[_of_keys(one, keys[one.table]) if one.table in keys else one for one in scope.estimates])
    previews = [
        pb.TablePreview(
            schema=estimate.table.schema,
            table=estimate.table.table,
            rows=_rows(scope, estimate),
            bytes=_bytes(scope, estimate),
            read_by=estimate.read_by,
            refused=estimate.refused or "",
            slow=slow.why.get(estimate.table, ""),
        )
        for estimate in scope.estimates
    ]
    left_out = [pb.TablePreview(schema=table.schema, table=table.table, refused=why) for table, why in scope.left_out.items()]
    return pb.DumpPreview(
        tables=previews + left_out,
        refusals=[*scope.refusals, *([no_brackets] if no_brackets else [])],
        seconds=_seconds(scope, request, rows_per_s=rows_per_s_before(history)),
        outside=scope.outside,
        unasked=slow.unasked,
        sinks=request.sinks,
        brackets=BRACKETS[brackets],
        no_marks=scope.bracketing.marks,
        waits_for=[dump.dump_id for dump in holding({estimate.table for estimate in scope.estimates}, dumps)],
    )


def _of_keys(estimate: TableEstimate, keys: int) -> TableEstimate:
    """Of the table's rows only those with one of so many keys."""
    if not estimate.rows or keys >= estimate.rows:
        return replace(estimate, rows=keys)
    return replace(estimate, rows=keys, bytes=None if estimate.bytes is None else estimate.bytes * keys // estimate.rows)


def rows_per_s_before(history: Iterable[HistoryEntry]) -> float:
    """Of the last dump that shows how fast one reads tables, 0 if there is none. The time of a small dump is that of its marks and of one
    batch; the time of a dump of keys or of a predicate's rows is that of finding them."""
    for entry in history:
        scope = entry.scope
        if (
            entry.kind is OperationKind.DUMP
            and entry.rows >= NOTIFYING_ROWS
            and not scope.by_keys
            and not scope.filtered
            and entry.running_s
        ):
            return entry.rows / entry.running_s
    return 0.0


def _seconds(scope: Scope, request: pb.StartRequest, *, rows_per_s: float) -> float:
    """The slowest of what an earlier dump reached and the bounds of this one; 0: nothing is known, as of a predicate's rows."""
    if scope.where:
        return 0.0
    rows = sum(_rows(scope, estimate) or 0 for estimate in scope.estimates)
    size = sum(_bytes(scope, estimate) for estimate in scope.estimates)
    paces = ((rows, rows_per_s), (rows, request.rows_per_second), (size, request.bytes_per_second))
    return max((amount / pace for amount, pace in paces if pace), default=0.0)


def _rows(scope: Scope, estimate: TableEstimate) -> int | None:
    """Of the table that the dump is to read: its keys; of a predicate nobody knows."""
    if keys := scope.keys.get(estimate.table):
        return len(keys)
    return None if estimate.table in scope.where else estimate.rows


def _bytes(scope: Scope, estimate: TableEstimate) -> int:
    """0: not known."""
    if estimate.table in scope.where:
        return 0
    size = estimate.bytes or 0
    keys = scope.keys.get(estimate.table)
    return size if not keys or not estimate.rows else size * len(keys) // estimate.rows
