"""What a dump would do, reported before it starts."""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.control.dump_scope import Scope
from sidecar.core.progress import Progress, holding
from sidecar.ports import SlowReads
from ticdc_dump.v1 import control_pb2 as pb


def preview(
    scope: Scope, request: pb.StartRequest, *, rows_per_s_before: float, slow: SlowReads, dumps: Sequence[Progress] = ()
) -> pb.DumpPreview:
    """`rows_per_s_before`: what earlier dumps reached, 0 if unknown. `dumps`: those that are there."""
    found = [
        pb.TablePreview(
            schema=estimate.table.schema,
            table=estimate.table.table,
            rows=estimate.rows,
            bytes=estimate.bytes or 0,
            read_by=estimate.read_by,
            refused=estimate.refused or "",
            slow=slow.why.get(estimate.table, ""),
        )
        for estimate in scope.estimates
    ]
    left_out = [pb.TablePreview(schema=table.schema, table=table.table, refused=why) for table, why in scope.left_out.items()]
    return pb.DumpPreview(
        tables=found + left_out,
        refusals=scope.refusals,
        seconds=_seconds(scope, request, rows_per_s_before=rows_per_s_before),
        outside=scope.outside,
        unasked=slow.unasked,
        sinks=request.sinks,
        waits_for=[dump.dump_id for dump in holding({estimate.table for estimate in scope.estimates}, dumps)],
    )


def _seconds(scope: Scope, request: pb.StartRequest, *, rows_per_s_before: float) -> float:
    """The slowest of what earlier dumps reached and the bounds of this one; 0: nothing is known."""
    rows = sum(estimate.rows or 0 for estimate in scope.estimates)
    size = sum(estimate.bytes or 0 for estimate in scope.estimates)
    paces = ((rows, rows_per_s_before), (rows, request.rows_per_second), (size, request.bytes_per_second))
    return max((amount / pace for amount, pace in paces if pace), default=0.0)
