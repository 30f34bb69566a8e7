"""A verification for people: its tables while it runs, and what it found. As dump_view, made of the service's messages alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from rich.console import Group, RenderableType
from rich.text import Text

from sidecar.cli.fitted import FittedColumn, FittedTable, facts_table
from sidecar.cli.terminal import TerminalLook, moment
from sidecar.control.wire import CHECK_NAMES, REPAIR_NAMES
from sidecar.report.figures import clock_time, duration
from ticdc_dump.v1 import control_pb2 as pb

TABLES_SHOWN, EXAMPLES_SHOWN, VALUE_CHARS_MAX = 40, 10, 60
TABLE_COLUMNS = (
    FittedColumn("sink", folds=True),
    FittedColumn("table", folds=True),
    FittedColumn("state"),
    FittedColumn("rows", number=True),
    FittedColumn("missing", number=True),
    FittedColumn("extra", number=True),
    FittedColumn("different", number=True),
    FittedColumn("moving", number=True, drop_order=4),
    FittedColumn("rows/s", number=True, drop_order=2),
    FittedColumn("time", number=True, drop_order=1),
    FittedColumn("as of", drop_order=3),
)
STYLES = {"equal": "green", "asks": "bold yellow", "different": "bold red", "failed": "bold red", "skipped": "yellow", "stopped": "yellow"}
_ENDS = (pb.CHECK_STATE_EQUAL, pb.CHECK_STATE_DIFFERENT, pb.CHECK_STATE_FAILED, pb.CHECK_STATE_STOPPED)


def is_over(found: pb.Verification) -> bool:
    """With its repair."""
    return found.state in _ENDS and found.repair.state != pb.REPAIR_STATE_RUNNING


def look(found: pb.Verification) -> TerminalLook:
    """For `--watch`."""
    kind = (found.id, found.state, found.repair.state, len(found.repair.dumps), *(table.state for table in found.tables))
    return TerminalLook(kind, picture=partial(report_view, found), line=partial(plain_line, found))


def plain_line(found: pb.Verification) -> str:
    done = sum(table.state not in (pb.CHECK_STATE_WAITING, pb.CHECK_STATE_RUNNING) for table in found.tables)
    rows = sum(table.rows for table in found.tables)
    parts = [f"verification {found.id} {CHECK_NAMES[found.state]}", f"{done}/{len(found.tables)} tables", f"{rows:,} rows"]
    parts += [
        f"{running.table} in {running.sink}: {_progress(running)}" for running in found.tables if running.state == pb.CHECK_STATE_RUNNING
    ]
    parts += [_pace(found)] if found.state == pb.CHECK_STATE_RUNNING else []
    parts += [f"{differences:,} differences"] if (differences := sum(map(_differences, found.tables))) else []
    parts += [f"waiting for {found.waiting_for}"] if found.waiting_for else []
    parts += [f"repair {_repair(found.repair)}"] if found.HasField("repair") else []
    return "  ".join(parts)


def report_view(found: pb.Verification) -> RenderableType:
    return Group(facts_table(_facts(found)), *_tables(found), *_details(found))


def _facts(found: pb.Verification) -> Iterable[tuple[str, Text]]:
    state = CHECK_NAMES[found.state]
    if not found.id and not found.tables:
        yield "state", Text("there is no verification")
        return
    if found.id:
        yield "verification", Text(f"{found.id}, asked {clock_time(found.asked_ms)}")
        yield "state", Text(state, style=STYLES.get(state, ""))
    if found.state == pb.CHECK_STATE_RUNNING:
        yield "pace", Text(_pace(found))
    if found.waiting_for and found.id:
        yield "waiting for", Text(found.waiting_for, style="yellow")
    if found.HasField("repair"):
        yield "repair", Text(_repair(found.repair), style=STYLES.get(REPAIR_NAMES[found.repair.state], ""))
    if found.sample < 1:
        yield "sample", Text(f"{found.sample:.3g} of each table; extra rows were not looked for")
    for sink in found.left_out:
        yield "omitted", Text(f"{sink.sink}: {sink.why}", style="yellow")


def _tables(found: pb.Verification) -> Iterable[RenderableType]:
    if found.tables:
        yield FittedTable(TABLE_COLUMNS, [_table_cells(table, bool(found.id)) for table in _worst_first(found.tables)[:TABLES_SHOWN]])
    if len(found.tables) > TABLES_SHOWN:
        yield Text(f"… {len(found.tables) - TABLES_SHOWN:,} more tables; --json shows all", style="dim")


def _table_cells(table: pb.CheckedTable, started: bool) -> Sequence[RenderableType]:
    state = CHECK_NAMES[table.state] if started else "not started"
    return (
        table.sink,
        f"{table.schema}.{table.table}",
        Text(f"{state} {_progress(table)}" if table.state == pb.CHECK_STATE_RUNNING else state, style=STYLES.get(state, "")),
        f"{table.rows or table.rows_estimated:,}",
        _judged(table, "missing"),
        "-" if table.partial else _judged(table, "extra"),
        _judged(table, "different"),
        f"{table.moving:,}",
        f"{table.rows / table.seconds:,.0f}" if table.seconds and table.rows else "-",
        duration(table.seconds),
        moment(table.high_tso),
    )


def _judged(table: pb.CheckedTable, kind: str) -> str:
    """Differences that are not judged are no 0."""
    return "-" if any(kind in one.kinds for one in table.unjudged) else f"{getattr(table, kind):,}"


def _worst_first(tables: Iterable[pb.CheckedTable]) -> list[pb.CheckedTable]:
    order = [pb.CHECK_STATE_DIFFERENT, pb.CHECK_STATE_FAILED, pb.CHECK_STATE_SKIPPED, pb.CHECK_STATE_RUNNING]
    return sorted(tables, key=lambda table: order.index(table.state) if table.state in order else len(order))


def _details(found: pb.Verification) -> Iterable[Text]:
    for table in found.tables:
        name = f"{table.schema}.{table.table} in {table.sink}"
        if table.why:
            yield Text(f"{name}: {table.why}", style="yellow")
        for one in table.unjudged if not table.why else ():
            yield Text(f"{name}: {', '.join(one.kinds)} rows can be right and are not judged: {one.why}", style="yellow")
        if table.expected:
            yield Text(f"{name}: {table.expected:,} rows differ and are not judged", style="yellow")
        if table.duplicate:
            yield Text(f"{name}: {table.duplicate:,} keys are there in several rows")
        if table.columns:
            yield Text(f"{name}: differing columns: " + ", ".join(f"{one.column} ({one.rows:,} rows)" for one in table.columns))
        for example in table.examples[:EXAMPLES_SHOWN]:
            yield Text(f"  {example.kind} ({', '.join(map(_value, example.key))}){_cells(example)}")
        if (more := _differences(table) - EXAMPLES_SHOWN) > 0 and table.examples:
            yield Text(f"  and {more:,} more: dumpverify --id {found.id} --differences", style="dim")
        if table.unlooked:
            yield Text(f"  {table.unlooked:,} of these were seen once only: there are too many to look at each again", style="dim")
        if table.moving and table.state != pb.CHECK_STATE_RUNNING:
            yield Text(f"{name}: {table.moving:,} keys changed each time that they were looked at", style="dim")


def _repair(repair: pb.Repair) -> str:
    text = f"{REPAIR_NAMES[repair.state]}: {repair.keys:,} keys in {len(repair.dumps):,} dumps"
    text += f", followed by verification {repair.followed_by}" if repair.followed_by else ""
    text += f", {deleted:,} rows to delete" if (deleted := sum(one.rows for one in repair.deletes)) else ""
    text += f", waiting for {repair.waiting_for}" if repair.waiting_for else ""
    return text + (f": {repair.error}" if repair.error else "")


def _cells(row: pb.RowDifference) -> str:
    cells = [f"{cell.column}: source {_given(cell, 'source')}, sink {_given(cell, 'sink')}" for cell in row.cells]
    return f": {'; '.join(cells)}" if cells else ""


def _given(cell: pb.CellDifference, name: str) -> str:
    return repr(_value(getattr(cell, name))) if cell.HasField(name) else "NULL"


def _value(text: str) -> str:
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}…"


def _pace(found: pb.Verification) -> str:
    left = f"about {duration(found.remaining_s)} left" if found.remaining_s else "time left not known yet"
    return f"{found.rows_per_second:,.0f} rows/s, {left}"


def _progress(table: pb.CheckedTable) -> str:
    return f"{100 * table.parts_done // table.parts}%" if table.parts else "0%"


def _differences(table: pb.CheckedTable) -> int:
    return int(table.missing + table.extra + table.different + table.duplicate)
