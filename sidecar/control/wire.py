"""Our words and those of the wire (proto/ticdc_dump/v1/control.proto), and the wire's as JSON for programs.

Both directions of each enum are one table. In JSON a TSO is a decimal string, for it does not fit into a double; counts are
numbers, states are our words, and every field is there, also where it is empty.
"""

from __future__ import annotations

from typing import Any

from sidecar.core.messages import Brackets
from sidecar.core.progress import DumpState, TableProgress
from sidecar.core.status import SidecarStatus
from ticdc_dump.v1 import control_pb2 as pb

STATES = {
    DumpState.RUNNING: pb.DUMP_STATE_RUNNING,
    DumpState.PAUSED: pb.DUMP_STATE_PAUSED,
    DumpState.FINISHED: pb.DUMP_STATE_FINISHED,
    DumpState.FAILED: pb.DUMP_STATE_FAILED,
    DumpState.STOPPED: pb.DUMP_STATE_STOPPED,
}
BRACKETS = {Brackets.WATERMARK: pb.BRACKETS_WATERMARK, Brackets.SNAPSHOT: pb.BRACKETS_SNAPSHOT}

STATE_NAMES: dict[pb.DumpState, str] = {pb.DUMP_STATE_UNSPECIFIED: "none"} | {wire: state.value for state, wire in STATES.items()}
BRACKETS_NAMES: dict[pb.Brackets, str] = {pb.BRACKETS_UNSPECIFIED: ""} | {wire: known.value for known, wire in BRACKETS.items()}


def dump_status(status: SidecarStatus) -> pb.DumpStatus:
    """A changefeed without any dump has no dump_id, the state UNSPECIFIED and no tables."""
    progress = status.progress
    return pb.DumpStatus(
        changefeed=pb.Changefeed(namespace=status.changefeed.namespace, id=status.changefeed.id),
        dump_id=progress.dump_id if progress else "",
        state=STATES[progress.state] if progress else pb.DUMP_STATE_UNSPECIFIED,
        reason=(progress.reason or "") if progress else "",
        brackets=BRACKETS[progress.brackets] if progress else pb.BRACKETS_UNSPECIFIED,
        tables=[_table(table, status) for table in progress.tables] if progress else [],
        resolved_tso=status.resolved_ts or 0,
        delivered_tso=status.delivered_ts or 0,
        open_windows=status.open_windows,
        resolved_lag_s=status.resolved_lag_s,
        delivery_lag_s=status.delivery_lag_s,
        lanes=[pb.LaneStatus(lane=lane.lane, resolved_tso=lane.resolved_ts or 0, lag_s=lane.lag_s) for lane in status.lanes],
        waiting_for=status.waiting_for,
        rows_per_second=status.rows_per_s,
        bytes_per_second=status.bytes_per_s,
        eta_s=status.eta_s or 0.0,
        epoch=status.epoch,
        owner=status.owner,
        changes=status.changes,
        repeats=status.repeats,
        segments=status.segments,
        merge_worker=status.merge_worker,
        last_error=status.last_error,
        ddls=status.ddls,
        last_ddl_tso=status.last_ddl_ts or 0,
        last_ddl=status.last_ddl,
    )


def _table(table: TableProgress, status: SidecarStatus) -> pb.TableStatus:
    return pb.TableStatus(
        schema=table.table.schema,
        table=table.table.table,
        chunks=table.chunks,
        rows=table.rows,
        bytes=table.bytes,
        rows_estimated=status.estimates.get(table.table, 0),
        complete_at_tso=table.complete_at or 0,
    )


def status_json(status: pb.DumpStatus) -> dict[str, Any]:
    """Every field of DumpStatus under its own name; JSON values only."""
    return _json(status) | {
        "state": STATE_NAMES[status.state],
        "brackets": BRACKETS_NAMES[status.brackets],
    }


def preview_json(preview: pb.DumpPreview) -> dict[str, Any]:
    return _json(preview)


def _json(message: Any) -> dict[str, Any]:
    """`message`: any of ours. Messages are objects, repeated fields arrays."""
    return {field.name: _value(field, getattr(message, field.name)) for field in message.DESCRIPTOR.fields}


def _value(field: Any, value: Any) -> Any:
    """`field`: protobuf's descriptor, whose two implementations share no type."""
    if field.message_type is not None:
        return [_json(one) for one in value] if field.is_repeated else _json(value)
    if field.is_repeated:
        return list(value)
    return str(value) if field.name.endswith("_tso") else value
