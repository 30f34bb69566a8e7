"""A verification for people: its tables while it runs, and its result. As dump_view, made of the service's messages alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from rich.console import Group, RenderableType
from rich.text import Text

from sidecar.cli.fitted import FittedColumn, FittedTable, facts_table
from sidecar.cli.terminal import TerminalLook, moment
from sidecar.control.wire import CHECK_NAMES, REPAIR_NAMES, is_looked_for
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
STYLES = {
    "equal": "green",
    "asks": "bold yellow",
    "different": "bold red",
    "failed": "bold red",
    "skipped": "yellow",
    "stopped": "yellow",
    "incomplete": "yellow",
}
_ENDS = (
    pb.CHECK_STATE_EQUAL,
    pb.CHECK_STATE_DIFFERENT,
    pb.CHECK_STATE_FAILED,
    pb.CHECK_STATE_STOPPED,
    pb.CHECK_STATE_INCOMPLETE,
)


def is_over(verification: pb.Verification) -> bool:
    """With its repair."""
    return verification.state in _ENDS and verification.repair.state != pb.REPAIR_STATE_RUNNING


def look(verification: pb.Verification) -> TerminalLook:
    """For `--watch`."""
    kind = (
        verification.id,
        verification.state,
        verification.repair.state,
        len(verification.repair.dumps),
        verification.tables_done,
        *(table.state for table in verification.tables),
    )
    return TerminalLook(kind, picture=partial(report_view, verification), line=partial(plain_line, verification))


def plain_line(verification: pb.Verification) -> str:
    done, tables, rows, differences = _totals(verification)
    parts = [
        f"verification {verification.id} {CHECK_NAMES[verification.state]}",
        f"{done:,}/{tables:,} tables",
        f"{rows:,} rows",
    ]
    parts += [
        f"{running.table} in {running.sink}: {_progress(running)}"
        for running in verification.tables
        if running.state == pb.CHECK_STATE_RUNNING
    ]
    parts += [_pace(verification)] if verification.state == pb.CHECK_STATE_RUNNING else []
    parts += [f"{differences:,} differences"] if differences else []
    parts += [f"waiting for {verification.waiting_for}"] if verification.waiting_for else []
    parts += [f"repair {_repair(verification.repair)}"] if verification.HasField("repair") else []
    return "  ".join(parts)


def _totals(verification: pb.Verification) -> tuple[int, int, int, int]:
    """Tables that are done and all, rows, differences; a sidecar of an older version, or a dry run, does not count them."""
    if verification.table_count:
        return verification.tables_done, verification.table_count, verification.rows, verification.differences
    tables = verification.tables
    done = sum(table.state not in (pb.CHECK_STATE_WAITING, pb.CHECK_STATE_RUNNING) for table in tables)
    return done, len(tables), sum(table.rows for table in tables), sum(map(_differences, tables))


def report_view(verification: pb.Verification) -> RenderableType:
    return Group(facts_table(_facts(verification)), *_tables(verification), *_details(verification))


def _facts(verification: pb.Verification) -> Iterable[tuple[str, Text]]:
    state = CHECK_NAMES[verification.state]
    if not verification.id and not verification.tables:
        yield "state", Text("there is no verification")
        return
    if verification.id:
        yield "verification", Text(f"{verification.id}, requested {clock_time(verification.asked_ms)}")
        yield "state", Text(state, style=STYLES.get(state, ""))
    if verification.state == pb.CHECK_STATE_RUNNING:
        yield "pace", Text(_pace(verification))
    if verification.waiting_for and verification.id:
        yield "waiting for", Text(verification.waiting_for, style="yellow")
    if verification.HasField("repair"):
        yield "repair", Text(_repair(verification.repair), style=STYLES.get(REPAIR_NAMES[verification.repair.state], ""))
    if verification.sample < 1:
        yield "sample", Text(f"{verification.sample:.3g} of each table; extra rows were not looked for")
    for sink in verification.left_out:
        yield "omitted", Text(f"{sink.sink}: {sink.why}", style="yellow")


def _tables(verification: pb.Verification) -> Iterable[RenderableType]:
    if verification.tables:
        yield FittedTable(
            TABLE_COLUMNS, [_table_cells(table, bool(verification.id)) for table in _worst_first(verification.tables)[:TABLES_SHOWN]]
        )
    if (more := _totals(verification)[1] - min(len(verification.tables), TABLES_SHOWN)) > 0:
        yield Text(f"… {more:,} more tables; --json shows all", style="dim")


def _table_cells(table: pb.CheckedTable, started: bool) -> Sequence[RenderableType]:
    state = CHECK_NAMES[table.state] if started else "not started"
    return (
        table.sink,
        f"{table.schema}.{table.table}",
        Text(f"{state} {_progress(table)}" if table.state == pb.CHECK_STATE_RUNNING else state, style=STYLES.get(state, "")),
        f"{table.rows or table.rows_estimated:,}",
        _judged(table, "missing"),
        _judged(table, "extra"),
        _judged(table, "different"),
        f"{table.moving:,}",
        f"{table.rows / table.seconds:,.0f}" if table.seconds and table.rows else "-",
        duration(table.seconds),
        moment(table.high_tso),
    )


def _judged(table: pb.CheckedTable, kind: str) -> str:
    """Differences that are not judged, or not looked for, are no 0."""
    return f"{getattr(table, kind):,}" if is_looked_for(table, kind) else "-"


def _worst_first(tables: Iterable[pb.CheckedTable]) -> list[pb.CheckedTable]:
    order = [
        pb.CHECK_STATE_DIFFERENT,
        pb.CHECK_STATE_FAILED,
        pb.CHECK_STATE_SKIPPED,
        pb.CHECK_STATE_INCOMPLETE,
        pb.CHECK_STATE_RUNNING,
    ]
    return sorted(tables, key=lambda table: order.index(table.state) if table.state in order else len(order))


def _details(verification: pb.Verification) -> Iterable[Text]:
    for table in verification.tables:
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
            yield Text(f"  and {more:,} more: dumpverify --id {verification.id} --differences", style="dim")
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


def _pace(verification: pb.Verification) -> str:
    left = f"about {duration(verification.remaining_s)} left" if verification.remaining_s else "time left not known yet"
    return f"{verification.rows_per_second:,.0f} rows/s, {left}"


def _progress(table: pb.CheckedTable) -> str:
    if table.look:
        return f"look {table.look} at {table.pending:,} keys since {clock_time(table.look_ms)}"
    return f"{100 * table.parts_done // table.parts}%" if table.parts else "0%"


def _differences(table: pb.CheckedTable) -> int:
    return int(table.missing + table.extra + table.different + table.duplicate)
