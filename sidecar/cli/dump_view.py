"""A dump's status for people, as a picture and as a line; and what a dump would read.

Made of the service's messages alone, so that what is shown is what the service says. Texts of the server are shown as they are, never
as markup. Long lists are cut: the tables that move, then a line that says how many there are of the rest; `--json` has all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from sidecar.cli.fitted import Bar, FittedColumn, FittedTable, OverallBar, facts_table
from sidecar.cli.terminal import TerminalLook, moment
from sidecar.cli.timeline_view import Sparkline, change_rates, dump_rates, live_times
from sidecar.cli.verify_view import plain_line as verification_line
from sidecar.control.hole_texts import hole_lines, holes_reported
from sidecar.control.wire import BRACKETS_NAMES, STATE_NAMES, rows_in_words, share_done, table_state, table_turn
from sidecar.report.figures import amount, counted, duration, time_left
from sidecar.shared.errors import parted
from sidecar.shared.model.messages import ReadWith
from sidecar.shared.model.nouns import CommitTs, complete_since
from ticdc_dump.v1 import control_pb2 as pb

TABLES_SHOWN = 20
DDL_CHARS_MAX = 120
TIME_NOT_KNOWN = "the time is not known: no dump of whole tables with 10,000 rows or more has run yet"
LANE_LAG_SHOWN_S = 2.0
"""Lanes closer to the foremost one than this are fine, and only counted."""
LANES_SHOWN = 5
SINK_TABLES_SHOWN = 5
TABLE_COLUMNS = (
    FittedColumn("table", folds=True),
    FittedColumn("dump"),
    FittedColumn("rows", number=True),
    FittedColumn("of about", number=True, drop_order=1),
    FittedColumn("chunks", number=True),
    FittedColumn(""),
)
PREVIEW_COLUMNS = (
    FittedColumn("table", folds=True),
    FittedColumn("rows (about)", number=True),
    FittedColumn("bytes (about)", number=True, drop_order=1),
    FittedColumn("read by", folds=True),
)
_READERS = {"sidecar": "the sidecar", "spark": "Spark"}
STATE_STYLES = {"queued": "yellow", "running": "green", "paused": "yellow", "failed": "bold red", "finished": "bold green"}


def look(status: pb.DumpStatus) -> TerminalLook:
    """For `--watch`: a line at once when the state changes, or what the dump waits for."""
    kind = (status.dump_id, status.state, status.waiting_for.partition(" ")[0])
    return TerminalLook(kind, picture=partial(status_view, status, fits=True), line=partial(plain_line, status))


def plain_line(status: pb.DumpStatus) -> str:
    done = sum(table.complete_at_tso > 0 for table in status.tables)
    rows = counted(sum(table.rows for table in status.tables), "row")
    parts = [
        f"{status.changefeed.namespace}/{status.changefeed.id}  dump {status.dump_id or '-'} {STATE_NAMES[status.state]}",
        *([f"{percent} %"] if (percent := percent_done(status)) is not None else []),
        f"{done}/{len(status.tables)} tables  {rows}  {status.rows_per_second:,.0f} rows/s  eta {time_left(status.eta_s)}",
        f"resolved lag {status.resolved_lag_s:.1f} s  delivery lag {status.delivery_lag_s:.1f} s",
        counted(status.open_windows, "window") + " open",
    ]
    parts += [f"waiting for {status.waiting_for}"] if status.waiting_for else []
    parts += [f"reason: {status.reason}"] if status.reason else []
    parts += [f"verification waits for {status.verification.waiting_for}"] if status.verification.waiting_for else []
    parts += [f"{counted(len({one.table for one in holes}), 'table')} incomplete"] if (holes := holes_reported(status.sinks)) else []
    return "  ".join(parts)


def status_view(status: pb.DumpStatus, *, fits: bool = False) -> RenderableType:
    """`fits`: with so many of the tables as the terminal's height leaves room for."""
    return _StatusView(status, fits)


@dataclass(frozen=True, slots=True)
class _StatusView:
    status: pb.DumpStatus
    fits: bool

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        facts = facts_table(_facts(self.status))
        yield facts
        if self.status.tables:
            room = options.size.height - len(console.render_lines(facts, options)) - 3 if self.fits else TABLES_SHOWN
            yield _TablesView(self.status, min(max(room, 1), TABLES_SHOWN))


def _facts(status: pb.DumpStatus) -> Iterable[tuple[str, str | RenderableType]]:
    """The most important facts are first: a low terminal shows no others."""
    state = STATE_NAMES[status.state]
    yield "changefeed", f"{status.changefeed.namespace}/{status.changefeed.id}"
    if status.dump_id:
        only = f", for {', '.join(status.dump_sinks)} only" if status.dump_sinks else ""
        source = "TiKV" if status.read_with == ReadWith.TIKV else "TiDB"
        by = f" by {_READERS[status.read_on]}" if status.read_on else ""
        read = f", read from {source}{by}" if status.read_with else ""
        ddl = f", for the DDL at commit_ts {status.for_ddl_tso}" if status.for_ddl_tso else ""
        yield "dump", f"{status.dump_id}, {BRACKETS_NAMES[status.brackets]} brackets{read}{only}{ddl}"
    yield "state", Text(state if status.dump_id else "no dump has been started", style=STATE_STYLES.get(state, ""))
    if status.reason:
        yield "reason", status.reason
    if status.tables:
        yield "progress", Group(*_overall(status), Text(_progress(status)))
    yield "waiting for", Text(status.waiting_for, style="yellow") if status.waiting_for else "nothing"
    if status.HasField("verification"):
        yield "verification", verification_line(status.verification)
    if status.last_error:
        yield "last error", status.last_error
    for text in hole_lines(holes_reported(status.sinks)):
        yield "incomplete", Text(text, style="yellow")
    for service in status.services:
        if service.error:
            then = f"it begins again in {service.again_s:.0f} s" if service.again_s else "it works again"
            yield service.name, Text(f"{service.error} ({then}; the stream continues)", style="yellow")
    for name, line in (("dump rows/s", dump_rates(status)), ("changes/s", change_rates(status))):
        if line is not None:
            yield name, line
    for sink in status.sinks:
        line = live_times(status, sink)
        yield "live delivery", Group(_sink(sink, line, dump_runs=_dump_runs(status)), *([line] if line is not None else []))
    yield from _more_facts(status)


def _more_facts(status: pb.DumpStatus) -> Iterable[tuple[str, str | RenderableType]]:
    for other in status.dumps:
        if other.dump_id != status.dump_id:
            yield "other dump", _other_dump(other)
        elif other.waits_for:
            yield "queued behind", ", ".join(other.waits_for)
    lag = f"{status.resolved_lag_s:.1f} s" if status.resolved_tso else "-"
    yield "resolved", f"{moment(status.resolved_tso)}  lag {lag}"
    yield "delivered", f"{moment(status.delivered_tso)}  lag {status.delivery_lag_s:.1f} s"
    if status.HasField("settings"):
        yield "settings", _settings(status.settings)
    for text in _tables_of_sinks(status.sinks):
        yield "tables", text
    for subscriber in status.subscribers:
        yield "subscriber", _subscriber(subscriber)
    yield "live changes", f"{status.changes:,} logged, {status.repeats:,} repeats dropped, {status.segments:,} segments"
    if status.skipped_rows:
        yield (
            "skipped rows",
            Text(f"{status.skipped_rows:,} not in any output: ticdc-dump skip --config FILE --list", style="yellow"),
        )
    if status.ambiguous_timestamps:
        yield "ambiguous", Text(f"{status.ambiguous_timestamps:,} TIMESTAMPs taken as kafka.ambiguous says", style="yellow")
    if status.last_ddl_tso:
        yield "last DDL", Text(f"{moment(status.last_ddl_tso)}  {status.last_ddl[:DDL_CHARS_MAX]}")
    if status.lanes:
        yield "lanes", _lanes(status.lanes)
    yield "owner", f"{status.owner}, epoch {status.epoch}, merge worker {status.merge_worker or '-'}"


def _other_dump(dump: pb.DumpSummary) -> Text:
    state = STATE_NAMES[dump.state]
    text = f"{dump.dump_id} {state}, {dump.tables_complete:,} of {counted(dump.tables, 'table')}, {counted(dump.rows, 'row')}"
    text += f", behind {', '.join(dump.waits_for)}" if dump.waits_for else ""
    text += f", for the DDL at commit_ts {dump.for_ddl_tso}" if dump.for_ddl_tso else ""
    return Text(text + (f": {dump.reason}" if dump.reason else ""), style=STATE_STYLES.get(state, ""))


def percent_done(status: pb.DumpStatus) -> int | None:
    """As of wire.share_done; None where a table that is not complete has no estimate."""
    if not status.tables or any(not (table.complete_at_tso or table.rows_estimated) for table in status.tables):
        return None
    return int(100 * share_done(status.tables) + 1e-6)


def _overall(status: pb.DumpStatus) -> Iterable[RenderableType]:
    """The whole dump as a bar, where it is known how much that is."""
    if (percent := percent_done(status)) is not None:
        yield OverallBar(percent)


def _progress(status: pb.DumpStatus) -> str:
    done = sum(table.complete_at_tso > 0 for table in status.tables)
    rows, size = sum(table.rows for table in status.tables), sum(table.bytes for table in status.tables)
    text = f"{done:,} of {counted(len(status.tables), 'table')}, {counted(rows, 'row')}, {amount(size)}"
    text += f", {counted(status.open_windows, 'window')} open"
    if status.state == pb.DUMP_STATE_RUNNING:
        text += f", {status.rows_per_second:,.0f} rows/s, {amount(status.bytes_per_second)}/s, eta {time_left(status.eta_s)}"
    return text


def _settings(settings: pb.DumpSettings) -> str:
    text = f"chunks of {counted(settings.chunk_rows, 'row')}"
    text += f", {counted(settings.readers, 'reader')}" if settings.readers else ""
    text += f", {settings.rows_per_second:,} rows/s at most" if settings.rows_per_second else ""
    text += ", a strict bound of live delivery" if settings.strict_bound else ""
    return text + (f", {amount(settings.bytes_per_second)}/s at most" if settings.bytes_per_second else "")


def _sink(sink: pb.SinkStatus, line: Sparkline | None, *, dump_runs: bool) -> Text:
    """How long it takes of what it may, and what that leaves to the dump that runs."""
    without = f" ({sink.without_dump_s:.2f} s without a dump)" if sink.without_dump_s else ""
    bound = f"bound {sink.bound_s:.2f} s"
    if sink.overloaded:
        bound, without = f"overloaded: {bound}, {sink.without_dump_s:.2f} s without a dump", ""
    elif sink.limit_s > sink.bound_s and dump_runs:
        bound = f"{sink.limit_s:.2f} s allowed as each batch of the dump takes {sink.fixed_s:.2f} s alone, {bound}"
    above = f", {line.above}" if line is not None and line.above else ""
    late = f", has the log from segment {sink.began_seq:,} on only" if sink.began_seq else ""
    leaves = f", room for {counted(sink.rows_allowed, 'row')} of the dump" if dump_runs else ""
    waits = f"live changes wait for {sink.live_s:.1f} s" if sink.live_s else "not measured yet"
    times = f"p50 {sink.median_s:.2f} s, p99 {sink.live_s:.2f} s" if sink.median_s else waits  # none since the worker is there
    took = f"{times}, {bound}{without}{above}{leaves}{late}"
    if sink.error:
        return Text(f"{sink.sink}: fails, {sink.lag_s:.0f} s behind: {sink.error}", style="red")
    return Text(f"{sink.sink}: holds the dump, {took}", style="yellow") if sink.holds and dump_runs else Text(f"{sink.sink}: {took}")


def _dump_runs(status: pb.DumpStatus) -> bool:
    """Any dump: the bound of live delivery is for the time in which one reads."""
    return pb.DUMP_STATE_RUNNING in (status.state, *(dump.state for dump in status.dumps))


def _tables_of_sinks(sinks: Iterable[pb.SinkStatus]) -> Iterable[Text]:
    """From where on which sinks have which tables whole, those that they lack first; sinks that have the same are one line, and so are all
    that lack none."""
    same: dict[str, list[str]] = {}
    for sink in sinks:
        if sink.tables_known and sink.tables:
            same.setdefault(_sink_tables(sink), []).append(sink.sink)
    for text, names in same.items():
        yield Text(f"{', '.join(names)}: {text}")


def _sink_tables(sink: pb.SinkStatus) -> str:
    lacking = [table for table in sink.tables if not table.complete_since_tso]
    if not lacking:
        return f"{counted(len(sink.tables), 'table')}, none of which lacks rows"
    ordered = [*lacking, *(table for table in sink.tables if table.complete_since_tso)]
    shown = [_sink_table(table) for table in ordered[:SINK_TABLES_SHOWN]]
    rest = len(ordered) - len(shown)
    text = f"{len(ordered) - len(lacking):,} of {len(ordered):,} complete; " + ", ".join(shown)
    return text + (f" … {rest:,} more; --json shows all" if rest else "")


def _sink_table(table: pb.SinkTableStatus) -> str:
    return f"{table.schema}.{table.table} {complete_since(CommitTs(table.complete_since_tso))}"


def _subscriber(subscriber: pb.SubscriberStatus) -> str:
    where = "reads" if subscriber.connected else f"last call {duration(subscriber.heard_s)} ago"
    return f"{subscriber.name}, {subscriber.segments:,} segments not acknowledged, the next is {subscriber.next_seq:,}, {where}"


def _lanes(lanes: Sequence[pb.LaneStatus]) -> str:
    """The ones that hold the stream, by name."""
    late = [lane for lane in lanes if not lane.resolved_tso or lane.lag_s > LANE_LAG_SHOWN_S]
    late.sort(key=lambda lane: (bool(lane.resolved_tso), -lane.lag_s))
    names = [f"{lane.lane} {f'{lane.lag_s:.0f} s behind' if lane.resolved_tso else 'has not joined'}" for lane in late[:LANES_SHOWN]]
    more = [f"{len(late) - LANES_SHOWN} more behind"] if len(late) > LANES_SHOWN else []
    return ", ".join([f"{len(lanes)}", *names, *more])


@dataclass(frozen=True, slots=True)
class _TablesView:
    """The tables that move first, then those that wait, then those that are done."""

    status: pb.DumpStatus
    shown: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        ordered = sorted(self.status.tables, key=table_turn)
        yield FittedTable(TABLE_COLUMNS, [self._cells(table) for table in ordered[: self.shown]])
        if rest := ordered[self.shown :]:
            yield Text(f"… {len(rest):,} more tables: {_counted(rest)}; --json shows all", style="dim")

    def _cells(self, table: pb.TableStatus) -> Sequence[RenderableType | Bar]:
        return (
            f"{table.schema}.{table.table}",
            Bar.of_rows(table.rows, estimated=table.rows_estimated, complete=table.complete_at_tso > 0),
            f"{table.rows:,}",
            f"{table.rows_estimated:,}" if table.rows_estimated else "",
            f"{table.chunks:,}",
            _table_state(table, self.status),
        )


def _table_state(table: pb.TableStatus, status: pb.DumpStatus) -> str:
    if table.complete_at_tso:
        return f"complete at {moment(table.complete_at_tso)}"
    return STATE_NAMES[status.state] if table.chunks else "waiting"


def _counted(tables: Sequence[pb.TableStatus]) -> str:
    counts = Counter(map(table_state, tables))
    words = {"reading": "under way", "waiting": "waiting", "complete": "complete"}
    return ", ".join(f"{counts[state]:,} {word}" for state, word in words.items() if counts[state])


def preview_view(preview: pb.DumpPreview) -> RenderableType:
    """What a dump would read, and what is against it."""
    dumped = [table for table in preview.tables if not table.refused]
    refused = [table for table in preview.tables if table.refused]
    largest = sorted(dumped, key=lambda table: -table.rows)[:TABLES_SHOWN]
    lines: list[RenderableType] = [FittedTable(PREVIEW_COLUMNS, [_previewed(table) for table in largest])]
    if len(dumped) > TABLES_SHOWN:
        lines.append(Text(f"… {len(dumped) - TABLES_SHOWN:,} more tables; --json shows all", style="dim"))
    rows = rows_in_words(table.rows if table.HasField("rows") else None for table in dumped)
    takes = f"about {duration(preview.seconds)}" if preview.seconds else TIME_NOT_KNOWN
    lines.append(Text(f"{counted(len(dumped), 'table')}, {rows}, {amount(sum(table.bytes for table in dumped))}, {takes}"))
    lines += [Text(f"excluded: {table.schema}.{table.table}: {table.refused}") for table in refused[:TABLES_SHOWN]]
    lines += [Text(f"… {len(refused) - TABLES_SHOWN:,} more are excluded; --json shows all")] if len(refused) > TABLES_SHOWN else []
    lines += [Text(f"{preview.outside:,} more tables do not match the changefeed's table rules")] if preview.outside else []
    slow = [table for table in dumped if table.slow]
    lines += [Text(f"slow: {table.schema}.{table.table}: {table.slow}", style="yellow") for table in slow[:TABLES_SHOWN]]
    lines += [Text(f"… {len(slow) - TABLES_SHOWN:,} more are slow; --json shows all")] if len(slow) > TABLES_SHOWN else []
    lines += [Text(f"how {preview.unasked:,} tables would be read is not known: there was no time to ask")] if preview.unasked else []
    lines += [Text(f"it would wait for dump {', '.join(preview.waits_for)}, of the same tables")] if preview.waits_for else []
    lines += [Text(f"its rows would go to {', '.join(preview.sinks)} only")] if preview.sinks else []
    if preview.brackets == pb.BRACKETS_SNAPSHOT and preview.no_marks:
        lines.append(Text(f"snapshot brackets: {parted(preview.no_marks)[0]}"))
    lines += [Text(f"would be rejected: {refusal}", style="bold red") for refusal in preview.refusals]
    return Group(*lines)


def _previewed(table: pb.TablePreview) -> Sequence[RenderableType]:
    rows, size = (f"{table.rows:,}" if table.HasField("rows") else "?"), (amount(table.bytes) if table.bytes else "?")
    return f"{table.schema}.{table.table}", rows, size, table.read_by
