"""Our words and those of the wire (proto/ticdc_dump/v1/control.proto), and the wire's as JSON for programs.

Each enum is one table, STATES and BRACKETS, of which the other direction is made. A value of the status that has a field of its name
on the wire travels by that name: a TSO is `_ts` here and `_tso` there, a rate `_per_s` and `_per_second`.

In JSON a TSO is a decimal string, for it does not fit into a double; counts are numbers, states are our words, and every field is
there, also where it is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from typing import Any

from sidecar.control.status import SidecarStatus
from sidecar.history.entry import HistoryEntry, OperationKind, advanced
from sidecar.pace.controller import SinkState
from sidecar.report.figures import counted
from sidecar.shared.log.verification import CheckState, RepairState
from sidecar.shared.model.messages import Asker, Brackets
from sidecar.shared.model.nouns import TableName
from sidecar.shared.model.progress import DumpState, Progress, TableProgress, blocking
from sidecar.shared.model.sink_delivery import SinkTables
from ticdc_dump.v1 import control_pb2 as pb

STATES = {
    DumpState.QUEUED: pb.DUMP_STATE_QUEUED,
    DumpState.RUNNING: pb.DUMP_STATE_RUNNING,
    DumpState.PAUSED: pb.DUMP_STATE_PAUSED,
    DumpState.FINISHED: pb.DUMP_STATE_FINISHED,
    DumpState.FAILED: pb.DUMP_STATE_FAILED,
    DumpState.STOPPED: pb.DUMP_STATE_STOPPED,
}
BRACKETS = {Brackets.WATERMARK: pb.BRACKETS_WATERMARK, Brackets.SNAPSHOT: pb.BRACKETS_SNAPSHOT}
CHECKS = {
    CheckState.WAITING: pb.CHECK_STATE_WAITING,
    CheckState.RUNNING: pb.CHECK_STATE_RUNNING,
    CheckState.EQUAL: pb.CHECK_STATE_EQUAL,
    CheckState.DIFFERENT: pb.CHECK_STATE_DIFFERENT,
    CheckState.SKIPPED: pb.CHECK_STATE_SKIPPED,
    CheckState.FAILED: pb.CHECK_STATE_FAILED,
    CheckState.STOPPED: pb.CHECK_STATE_STOPPED,
    CheckState.INCOMPLETE: pb.CHECK_STATE_INCOMPLETE,
}
KINDS = {OperationKind.DUMP: pb.OPERATION_KIND_DUMP, OperationKind.VERIFICATION: pb.OPERATION_KIND_VERIFICATION}

BRACKETS_REQUESTED: dict[pb.Brackets, Brackets | None] = {pb.BRACKETS_UNSPECIFIED: None} | {wire: known for known, wire in BRACKETS.items()}
"""What a request means by its brackets; None: it leaves them to the sidecar."""
STATE_NAMES: dict[pb.DumpState, str] = {pb.DUMP_STATE_UNSPECIFIED: "none"} | {wire: state.value for state, wire in STATES.items()}
CHECK_NAMES: dict[pb.CheckState, str] = {pb.CHECK_STATE_UNSPECIFIED: "none"} | {wire: state.value for state, wire in CHECKS.items()}
REPAIRS = {
    RepairState.RUNNING: pb.REPAIR_STATE_RUNNING,
    RepairState.ASKS: pb.REPAIR_STATE_ASKS,
    RepairState.FINISHED: pb.REPAIR_STATE_FINISHED,
    RepairState.FAILED: pb.REPAIR_STATE_FAILED,
}
REPAIR_NAMES: dict[pb.RepairState, str] = {pb.REPAIR_STATE_UNSPECIFIED: ""} | {wire: state.value for state, wire in REPAIRS.items()}
KIND_NAMES: dict[pb.OperationKind, str] = {pb.OPERATION_KIND_UNSPECIFIED: ""} | {wire: kind.value for kind, wire in KINDS.items()}
BRACKETS_NAMES: dict[pb.Brackets, str] = {pb.BRACKETS_UNSPECIFIED: ""} | {wire: known.value for known, wire in BRACKETS.items()}

TABLES_LISTED = 3
"""Of an operation, in words."""

_BY_NAME = {
    field.name: ours
    for field in pb.DumpStatus.DESCRIPTOR.fields
    if (ours := field.name.replace("_tso", "_ts").replace("_per_second", "_per_s")) in {known.name for known in fields(SidecarStatus)}
    and field.message_type is None
}
"""The wire's name of each value of SidecarStatus that travels as it is, and our name of it."""


def dump_status(status: SidecarStatus, dump_id: str = "") -> pb.DumpStatus:
    """`dump_id`: as of SidecarStatus.dump. Without a dump it has no dump_id, the state UNSPECIFIED and no tables. What is None is zero on
    the wire."""
    result = pb.DumpStatus(
        changefeed=pb.Changefeed(namespace=status.changefeed.namespace, id=status.changefeed.id),
        sinks=[_sink(sink, status) for sink in status.sinks],
        services=[pb.ServiceStatus(**asdict(service)) for service in status.services],
        lanes=[pb.LaneStatus(lane=lane.lane, resolved_tso=lane.resolved_ts or 0, lag_s=lane.lag_s) for lane in status.lanes],
        dumps=[_summary(dump, status) for dump in status.dumps],
        **{wire: value for wire, ours in _BY_NAME.items() if (value := getattr(status, ours)) is not None},
    )
    if (progress := status.dump(dump_id)) is not None:
        result.dump_id = progress.dump_id
        result.waiting_for = status.dump_waiting_for(progress)
        result.state = STATES[progress.state]
        result.reason = progress.reason or ""
        result.brackets = BRACKETS[progress.brackets]
        result.read_with = progress.read_with
        result.settings.CopyFrom(_settings(progress, status))
        result.dump_sinks.extend(progress.sinks)
        result.for_ddl_tso = progress.for_ddl or 0
        result.tables.extend(_table(table, status) for table in progress.tables)
    return result


def _summary(dump: Progress, status: SidecarStatus) -> pb.DumpSummary:
    return pb.DumpSummary(
        dump_id=dump.dump_id,
        state=STATES[dump.state],
        reason=dump.reason or "",
        tables=len(dump.tables),
        tables_complete=sum(table.complete_at is not None for table in dump.tables),
        rows=sum(table.rows for table in dump.tables),
        bytes=sum(table.bytes for table in dump.tables),
        sinks=dump.sinks,
        waits_for=[other.dump_id for other in blocking(dump, status.dumps)],
        for_ddl_tso=dump.for_ddl or 0,
    )


def _settings(progress: Progress, status: SidecarStatus) -> pb.DumpSettings:
    pace = progress.pace
    return pb.DumpSettings(
        chunk_rows=progress.chunk_rows,
        readers=pace.readers or status.readers,
        rows_per_second=pace.rows_per_s,
        bytes_per_second=pace.bytes_per_s,
        delivery_bound_seconds=pace.delivery_bound_s or min((sink.bound_s for sink in status.sinks), default=0.0),
        strict_bound=status.strict_bound,
    )


def _sink(sink: SinkState, status: SidecarStatus) -> pb.SinkStatus:
    known = status.sink_tables.get(sink.sink)
    tables = [] if known is None else [_sink_table(known, table) for table in status.carried]
    return pb.SinkStatus(
        sink=sink.sink,
        live_s=sink.live_s,
        median_s=sink.median_s,
        bound_s=sink.bound_s,
        overloaded=sink.overloaded,
        without_dump_s=sink.without_s,
        rows_allowed=max(sink.rows, 0),
        holds=sink.holds,
        lag_s=sink.lag_s,
        error=sink.error,
        limit_s=sink.limit_s,
        fixed_s=sink.fixed_s,
        began_seq=sink.began,
        began_tso=(known.began_ts or 0) if known is not None else 0,
        tables_known=known is not None,
        tables=tables,
    )


def _sink_table(known: SinkTables, table: TableName) -> pb.SinkTableStatus:
    hole = known.holes.get(table)
    if hole is None:
        return pb.SinkTableStatus(schema=table.schema, table=table.table, complete_since_tso=known.complete.get(table, 0))
    return pb.SinkTableStatus(
        schema=table.schema,
        table=table.table,
        incomplete_since_tso=hole.since_ts,
        cause=hole.cause,
        text=hole.text,
        vanished=hole.vanished,
    )


def _table(table: TableProgress, status: SidecarStatus) -> pb.TableStatus:
    return pb.TableStatus(
        schema=table.table.schema,
        table=table.table.table,
        chunks=table.chunks,
        rows=table.rows,
        bytes=table.bytes,
        rows_estimated=_rows_estimated(table, status),
        complete_at_tso=table.complete_at or 0,
    )


def _rows_estimated(table: TableProgress, status: SidecarStatus) -> int:
    """Statistics know a whole table: of rows with given keys there are no more than keys, of those of a predicate nobody knows."""
    if table.key_count:
        return table.key_count
    return 0 if table.where is not None else status.estimates.get(table.table, 0)


def listed(request: pb.ListRequest, status: SidecarStatus, entries: Iterable[HistoryEntry], *, now_ms: int) -> pb.ListResponse:
    """`entries`: newest first. Those of the dumps that are there are as far as the dumps."""
    name, there = status.changefeed, {dump.dump_id: dump for dump in status.dumps}
    requested = [entry for entry in entries if request.kind in (pb.OPERATION_KIND_UNSPECIFIED, KINDS[entry.kind])]
    result = (advanced(entry, there[entry.id], now_ms) if entry.id in there else entry for entry in requested[: request.limit or None])
    return pb.ListResponse(
        dumps=[dump_status(status)],
        changefeed=pb.Changefeed(namespace=name.namespace, id=name.id),
        operations=[_operation(entry, now_ms) for entry in result],
    )


def _operation(entry: HistoryEntry, now_ms: int) -> pb.Operation:
    scope = entry.scope
    return pb.Operation(
        id=entry.id,
        kind=KINDS[entry.kind],
        scope=pb.OperationScope(
            tables=scope.tables,
            table_count=scope.table_count,
            by_keys=scope.by_keys,
            filtered=scope.filtered,
            sinks=scope.sinks,
            for_ddl_tso=scope.for_ddl,
        ),
        asked_by=_asker(entry.asked_by),
        started_ms=entry.started_ms,
        ended_ms=entry.ended_ms,
        state=STATES[entry.state],
        result=entry.result,
        rows=entry.rows,
        bytes=entry.bytes,
        chunks=entry.chunks,
        seconds=entry.running_s_at(now_ms),
        commands=[pb.OperationCommand(command=one.command, asked_by=_asker(one.asked_by), at_ms=one.at_ms) for one in entry.commands],
        commands_before=entry.commands_before,
    )


def _asker(asker: Asker) -> pb.Asker:
    return pb.Asker(name=asker.name, address=asker.address, reason=asker.reason)


def list_json(response: pb.ListResponse) -> dict[str, Any]:
    """The history alone; of the dump that is there, `status_json` has more."""
    operations = [_json(one) | {"kind": KIND_NAMES[one.kind], "state": STATE_NAMES[one.state]} for one in response.operations]
    return {"changefeed": _json(response.changefeed), "operations": operations}


def status_json(status: pb.DumpStatus) -> dict[str, Any]:
    """Every field of DumpStatus under its own name, the timeline only where it was requested; JSON values only."""
    known = _json(status)
    if not status.HasField("timeline"):
        del known["timeline"]
    return known | {
        "state": STATE_NAMES[status.state],
        "brackets": BRACKETS_NAMES[status.brackets],
        "dumps": [_json(dump) | {"state": STATE_NAMES[dump.state]} for dump in status.dumps],
        "verification": verification_json(status.verification) if status.HasField("verification") else None,
    }


def preview_json(preview: pb.DumpPreview) -> dict[str, Any]:
    return _json(preview) | {"brackets": BRACKETS_NAMES[preview.brackets]}


def is_looked_for(table: pb.CheckedTable, kind: str) -> bool:
    """Whether differences of this kind were looked for, and judged: else their number says nothing."""
    return not (kind == "extra" and table.partial) and not any(kind in one.kinds for one in table.unjudged)


def verification_json(verification: pb.Verification) -> dict[str, Any]:
    """Every field of Verification under its own name."""
    tables = [_json(table) | {"state": CHECK_NAMES[table.state]} for table in verification.tables]
    repair = _json(verification.repair) | {"state": REPAIR_NAMES[verification.repair.state]} if verification.HasField("repair") else None
    return _json(verification) | {"state": CHECK_NAMES[verification.state], "tables": tables, "repair": repair}


def difference_json(difference: pb.Difference) -> dict[str, Any]:
    return _json(difference)


def _json(message: Any) -> dict[str, Any]:
    """`message`: any of ours. Messages are objects, repeated fields arrays, and an optional field that is absent is null."""
    return {field.name: _value(field, _given(message, field)) for field in message.DESCRIPTOR.fields}


def _given(message: Any, field: Any) -> Any:
    is_absent = field.has_presence and field.message_type is None and not message.HasField(field.name)
    return None if is_absent else getattr(message, field.name)


def _value(field: Any, value: Any) -> Any:
    """`field`: protobuf's descriptor, whose two implementations share no type."""
    if field.message_type is not None:
        return [_json(one) for one in value] if field.is_repeated else _json(value)
    if field.is_repeated:
        return list(value)
    return str(value) if field.name.endswith("_tso") else value


TABLE_STATES = ("reading", "waiting", "complete")
"""In the order in which people see tables: those that move are first."""


def table_state(table: pb.TableStatus) -> str:
    return "complete" if table.complete_at_tso else "reading" if table.chunks else "waiting"


def table_turn(table: pb.TableStatus) -> int:
    """To sort by."""
    return TABLE_STATES.index(table_state(table))


ALMOST = 0.99
"""The most of a dump that is not complete: an estimate may be too small."""


def share_done(tables: Sequence[pb.TableStatus]) -> float:
    """How much of a dump's tables is in the log, 0 to 1, by rows: a large table counts for more than many small ones. A table counts as
    many rows as it has or is estimated to have; one without an estimate counts as the mean of the others."""
    if all(one.complete_at_tso for one in tables):
        return 1.0
    weights = [one.rows if one.complete_at_tso else max(one.rows_estimated, one.rows) for one in tables]
    known = [weight for one, weight in zip(tables, weights, strict=True) if one.complete_at_tso or one.rows_estimated]
    usual = max(sum(known) / len(known), 1.0) if known else 1.0
    unknown = sum(max(usual - one.rows, 0.0) for one in tables if not one.complete_at_tso and not one.rows_estimated)
    return min(sum(one.rows for one in tables) / (sum(weights) + unknown or 1.0), ALMOST)


def rows_in_words(rows: Iterable[int | None]) -> str:
    """Of tables together, by the source's statistics; None: it has none of that table."""
    each = list(rows)
    known, unknown = f"about {counted(sum(filter(None, each)), 'row')}", each.count(None)
    if unknown:
        known += f" and those of {counted(unknown, 'table')} of which TiDB has no statistics yet (ANALYZE TABLE makes them)"
    return known


def scope_text(scope: pb.OperationScope) -> str:
    """For people."""
    names = ", ".join(scope.tables[:TABLES_LISTED])
    more = scope.table_count - min(len(scope.tables), TABLES_LISTED)
    parts = [f"{names} and {more:,} more" if more > 0 else names]
    parts += [f"by keys in {scope.by_keys:,}"] if scope.by_keys else []
    parts += [f"filtered in {scope.filtered:,}"] if scope.filtered else []
    parts += [f"to {', '.join(scope.sinks)}"] if scope.sinks else []
    parts += [f"for the DDL at commit_ts {scope.for_ddl_tso}"] if scope.for_ddl_tso else []
    return "; ".join(parts)
