"""`dumpquery`: show a dump once, until it is over (--watch), or until its rows are in the sinks (--wait).

A dump that is over is in the log. A sink has a table of it when the sink has accepted the segment in which the table became complete.
The status says that in two ways: all sinks are past it (`delivered_tso`), or the sink has recorded the table as complete from there on.
A sink that began later than the log did may never have received the dump: the first way is none there, unless it has the table whole.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from time import monotonic, sleep
from typing import Annotated

import typer

from sidecar.cli.dump_call import Call, DumpId, call_of, exit_code_of
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.model.progress import OVER
from ticdc_dump.v1 import control_pb2 as pb

EXIT_STOPPED, EXIT_TIMED_OUT = 7, 8
EXIT_CODES = (
    "Exit codes: 0 shown, or with --wait complete in the sinks, 1 the dump has failed, 2 wrong usage, 3 refused or an error, 4 no such"
    " changefeed, 5 sidecar not reachable, 6 not allowed, 130 interrupted. With --wait also: 3 there is no such dump, or a sink does not"
    " receive it, 7 the dump was stopped, 8 the time is over."
)
ASK_EVERY_S = 1.0
NAMED_MAX = 3
"""Sinks that are named of those that are waited for."""
NOT_REPORTED = "any sink: the merge worker has not reported one"


def dumpquery(
    context: typer.Context,
    dump_id: DumpId = "",
    watch: Annotated[bool, typer.Option("--watch", help="Show the progress until the dump is over.")] = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait", help="Return when all rows of the dump are in the sinks, with an exit code for scripts. May go with --watch."
        ),
    ] = False,
    sink: Annotated[
        list[str] | None, typer.Option(help="Of --wait: the sink of this name only. May be repeated (default: all that receive the dump).")
    ] = None,
    wait_seconds: Annotated[
        float | None, typer.Option("--wait-seconds", min=0, metavar="SECONDS", help="Of --wait: for so long at most (default: no limit).")
    ] = None,
    timeline: Annotated[
        bool,
        typer.Option(
            "--timeline", help="With --json: add what was measured in the last hour, and the last chunks; with --watch the new ones."
        ),
    ] = False,
) -> int:
    """Show the dump: progress of each table, rates, lags, what it is waiting for, and the other dumps that are there."""
    call = call_of(context)
    if timeline and not call.as_json:
        raise typer.BadParameter("--timeline is for --json; a terminal shows it without")
    if not wait and (sink or wait_seconds is not None):
        raise typer.BadParameter("--sink and --wait-seconds say what --wait waits for: give --wait too")
    request = call.dump_request(dump_id, timeline=timeline or (call.console.is_terminal and not call.as_json))
    if wait:
        return _waited(call, request, sink or (), wait_seconds, watch=watch)
    if not watch:
        return call.show(call.client.call("Query", request))
    return exit_code_of(_watched(call, _until_over(call, request)))


def _until_over(call: Call, request: pb.DumpRequest) -> Iterator[pb.DumpStatus]:
    for status in call.client.watch(request):
        yield status
        if _is_over(status) or not status.dump_id:
            return


def _watched(call: Call, statuses: Iterator[pb.DumpStatus], *, shown: bool = True) -> pb.DumpStatus:
    """The last of them, at least one. `shown`: each one as it comes."""
    from sidecar.cli.dump_view import look
    from sidecar.cli.terminal import View
    from sidecar.cli.timeline_view import WatchedTimeline
    from sidecar.control.wire import status_json

    watched, status = WatchedTimeline(), pb.DumpStatus()
    with View(call.console) if shown else nullcontext() as view:
        for status in statuses:
            if view is None:
                continue
            if status.HasField("timeline"):
                status.timeline.CopyFrom((watched.new if call.as_json else watched.recent)(status.timeline))
            if call.as_json:
                typer.echo(json.dumps(status_json(status)))
            view.show(look(status))
    return status


# ---- --wait --------------------------------------------------------------------------------------------------------------


def _waited(call: Call, request: pb.DumpRequest, sinks: Sequence[str], wait_s: float | None, *, watch: bool) -> int:
    """Raises RefusedRequest where there is nothing to wait for."""
    status = _watched(call, _until_complete(call, request, sinks, wait_s), shown=watch)
    code, done = _how_it_ended(status, sinks)
    if not watch:
        call.show(status)
    if not call.as_json:
        call.console.print(done, highlight=False, markup=False, soft_wrap=True)
    return code


def _until_complete(call: Call, request: pb.DumpRequest, sinks: Sequence[str], wait_s: float | None) -> Iterator[pb.DumpStatus]:
    """Of one dump, which is there from the first on."""
    until_s = None if wait_s is None else monotonic() + wait_s
    while True:
        status: pb.DumpStatus = call.client.call("Query", request)
        _check(status, sinks)
        request.dump_id = status.dump_id
        yield status
        if _is_over(status) and (status.state != pb.DUMP_STATE_FINISHED or not lacking(status, sinks)):
            return
        left_s = ASK_EVERY_S if until_s is None else until_s - monotonic()
        if left_s <= 0:
            return
        sleep(min(ASK_EVERY_S, left_s))


def _check(status: pb.DumpStatus, sinks: Sequence[str]) -> None:
    if not status.dump_id:
        raise RefusedRequest("no dump has been started: there is nothing to wait for", hint="start one with dumpstart")
    for known, whose in ((list(status.dump_sinks), "the dump is for"), ([sink.sink for sink in status.sinks], "the sinks are")):
        if known and (strange := [name for name in sinks if name not in known]):
            raise RefusedRequest(f"{', '.join(strange)} does not receive this dump: {whose} {', '.join(known)}", hint="correct --sink")


def lacking(status: pb.DumpStatus, sinks: Sequence[str]) -> list[str]:
    """Of a finished dump: the sinks that have not accepted all of it, as far as is known. `sinks`: by name; empty: all that receive it.
    Raises RefusedRequest for one that never will."""
    by_sink = {sink.sink: sink for sink in status.sinks}
    wanted = sinks or status.dump_sinks or list(by_sink) or [NOT_REPORTED]
    return [name for name in wanted if name not in by_sink or not _has(by_sink[name], status)]


def _has(sink: pb.SinkStatus, status: pb.DumpStatus) -> bool:
    """Whether the sink has accepted all of the dump. Raises RefusedRequest."""
    since = {(table.schema, table.table): table.complete_since_tso for table in sink.tables}
    for table in status.tables:
        since_tso = since.get((table.schema, table.table), 0)
        if since_tso >= table.complete_at_tso:
            continue
        if table.complete_at_tso > status.delivered_tso or (sink.began_seq and not sink.tables_known):
            return False
        if sink.began_seq and not since_tso:
            raise RefusedRequest(
                f"sink {sink.sink} began after the log did, and lacks rows of {table.schema}.{table.table}: it has not received all of"
                f" dump {status.dump_id}",
                hint=f"start a dump for it: dumpstart --sink {shlex.quote(sink.sink)}",
            )
    return True


def _is_over(status: pb.DumpStatus) -> bool:
    from sidecar.control.wire import STATE_NAMES

    return STATE_NAMES[status.state] in OVER


def _how_it_ended(status: pb.DumpStatus, sinks: Sequence[str]) -> tuple[int, str]:
    """The exit code, and what is said of it."""
    dump = f"dump {status.dump_id}"
    if status.state == pb.DUMP_STATE_FAILED:
        return exit_code_of(status), f"{dump} has failed: {status.reason}"
    if status.state == pb.DUMP_STATE_STOPPED:
        return EXIT_STOPPED, f"{dump} was stopped before it was complete"
    if not _is_over(status):
        return EXIT_TIMED_OUT, f"the time is over and {dump} is not; it continues"
    if late := lacking(status, sinks):
        more = f" and {len(late) - NAMED_MAX} more" if len(late) > NAMED_MAX else ""
        return EXIT_TIMED_OUT, f"the time is over; {dump} is in the log and not yet complete in {', '.join(late[:NAMED_MAX])}{more}"
    return 0, f"{dump} is complete in {', '.join(sinks) or 'all sinks that receive it'}"
