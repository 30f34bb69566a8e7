"""`dumpverify`: compare the sinks with the source while both change, show what differs, and repair it.

    start ─► ask until it is over ─► with --repair: until that is over, and the verification after it ─► report

A repair that is to delete many rows asks: the command ends, and `--id … --repair --delete-at-most N` answers.

The work is the sidecar's: a command that ends leaves its verification and its repair running, and `--id` finds them again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep
from typing import Annotated, Any

import typer

from sidecar.cli.dump_call import LAST, Call, call_of
from sidecar.cli.dump_options import DeleteAtMost, Rules, check_bound, parse_where, table_rules
from sidecar.control.answers import EXIT_REFUSED, CallFailed, new_operation_id
from sidecar.history.entry import HISTORY_MAX, OperationKind
from ticdc_dump.v1 import control_pb2 as pb

EXIT_DIFFERENT, EXIT_INCOMPLETE = 1, 9
EXIT_CODES = (
    "Exit codes: 0 equal (or started, with --detach), 1 there are differences, 2 wrong usage, 3 refused, stopped, its repair asks, or"
    " something could not be compared, 4 no such changefeed, 5 sidecar not reachable, 6 not allowed, 9 only rows are missing that a"
    " sink has not received yet, 130 interrupted: the verification continues."
)
ASK_EVERY_S = 1.0
PROGRESS_EVERY_S = 10.0
"""Between two lines of progress in a log or pipe, without --watch."""


Sinks = Annotated[
    list[str] | None, typer.Option(help="Compare the sink of this name only. May be repeated (default: all that can be read back).")
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TABLE:PREDICATE",
        help="Compare only rows of the source for which this is true. Extra rows of a sink are not looked for then. Repeatable.",
    ),
]
Sample = Annotated[
    str,
    typer.Option(
        metavar="PART", help="Compare this part of each table, in ranges at random: 1% or 0.01. Extra rows are not looked for then."
    ),
]
OperationId = Annotated[
    str, typer.Option("--id", metavar="ID", help="Start none: show the one of this id, or `last`, and wait for its end.")
]
All = Annotated[
    bool, typer.Option("--differences", help="Print every difference of the last verification, or that of --id, as JSON, one a line.")
]


def dumpverify(
    context: typer.Context,
    sink: Sinks = None,
    tables: Rules = "",
    where: Where = None,
    sample: Sample = "100%",
    repair: Annotated[
        bool, typer.Option("--repair", help="Dump the differing keys to the sinks that differ, then compare these tables again.")
    ] = False,
    delete_at_most: DeleteAtMost = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be compared, and start nothing.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show the progress more often; with --json an object for each look at it.")
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Start it, and do not wait for its end.")] = False,
    operation_id: OperationId = "",
    differences: All = False,
    stop: Annotated[bool, typer.Option("--stop", help="End the last verification, or that of --id.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List the last verifications.")] = False,
) -> int | None:
    """Compare the sinks with TiDB while both change: nothing is locked, paused or written. With --repair also correct what differs."""
    check_bound(delete_at_most, repairs=repair, option="--repair")
    call = call_of(context)
    if list_all or differences or stop or operation_id:
        known = pb.VerificationRequest(changefeed=call.changefeed, id="" if operation_id == LAST else operation_id)
        if list_all:
            return _list(call)
        if differences:
            return _print_differences(call, known)
        if stop:
            return _stop(call, known)
        verification = _answered(call, known, delete_at_most) if repair else call.client.call("VerifyQuery", known)
        return _exit_code(_awaited(call, verification, watch, detach), call)
    request = pb.VerifyRequest(
        changefeed=call.changefeed,
        id=new_operation_id(),
        table_rules=table_rules(tables),
        where=[parse_where(text) for text in where or ()],
        sinks=sink or (),
        sample=_part(sample),
        repair=repair,
        delete_at_most=delete_at_most,
        dry_run=dry_run,
    )
    if dry_run:
        _show(call, call.client.call("Verify", request), done="nothing was started; this would be compared:")
        return None
    return _exit_code(_verified(call, request, watch, detach), call)


def _verified(call: Call, request: pb.VerifyRequest, watch: bool, detach: bool = False) -> pb.Verification:
    started = call.client.call("Verify", request)
    if not call.as_json:
        call.console.print(f"verification {started.id} is started", highlight=False, markup=False)
    return _awaited(call, started, watch, detach)


def _answered(call: Call, known: pb.VerificationRequest, delete_at_most: int | None) -> pb.Verification:
    """Of a verification with repair: if its repair asks, this is the answer. Raises CallFailed for another one."""
    verification: pb.Verification = call.client.call("VerifyQuery", known)
    if verification.repair.state != pb.REPAIR_STATE_ASKS:
        if verification.HasField("repair"):
            return verification
        raise CallFailed(
            f"verification {verification.id} has no repair: it is not over, its rows are equal, or it was started without --repair",
            hint="start another one with --repair and without --id",
            exit_code=EXIT_REFUSED,
            reason="refused",
        )
    request = pb.VerifyRequest(changefeed=call.changefeed, id=verification.id, repair=True, delete_at_most=delete_at_most)
    answered: pb.Verification = call.client.call("Verify", request)
    return answered


def _awaited(call: Call, verification: pb.Verification, watch: bool, detach: bool) -> pb.Verification:
    """When it is over, and its repair: then that one which the repair has started. Raises CallFailed for a repair that has failed."""
    from sidecar.cli.terminal import PLAIN_LINE_EVERY_S, View
    from sidecar.cli.verify_view import is_over, look
    from sidecar.control.wire import verification_json

    if detach or not verification.id:
        return verification
    whole = watch and call.as_json
    request = pb.VerificationRequest(changefeed=call.changefeed, id=verification.id, brief=not whole)
    said_deletes = False
    with _continues(verification.id), View(call.console, every_s=PLAIN_LINE_EVERY_S if watch else PROGRESS_EVERY_S, transient=True) as view:
        while not is_over(verification):
            said_deletes = said_deletes or _reported_deletes(call, verification)
            view.show(look(verification))
            if watch:
                _print_json(call, verification_json(verification))
            sleep(ASK_EVERY_S)
            verification = call.client.call("VerifyQuery", request)
    if not whole:
        verification = call.client.call("VerifyQuery", pb.VerificationRequest(changefeed=call.changefeed, id=verification.id))
    return _followed(call, verification, watch) if verification.HasField("repair") else verification


@contextmanager
def _continues(verification_id: str) -> Iterator[None]:
    """An interrupt ends the command alone, and says so."""
    try:
        yield
    except KeyboardInterrupt:
        text = f"verification {verification_id} continues: --id {verification_id} shows it, and with --stop ends it"
        typer.echo(text, err=True)
        raise


def _reported_deletes(call: Call, verification: pb.Verification) -> bool:
    """What the repair deletes, once it is known, for people."""
    if not call.as_json:
        for one in verification.repair.deletes:
            text = f"the repair deletes {one.rows:,} rows of {one.schema}.{one.table} in sink {one.sink}"
            call.console.print(text, highlight=False, markup=False)
    return bool(verification.repair.deletes)


def _followed(call: Call, verification: pb.Verification, watch: bool) -> pb.Verification:
    asks = verification.repair.state == pb.REPAIR_STATE_ASKS
    if asks or not call.as_json:
        _show(call, verification)
    if asks:
        raise CallFailed(
            f"the repair of {verification.id} waits for {verification.repair.waiting_for}",
            hint="look at the extra rows first: dumpverify --differences",
            exit_code=EXIT_REFUSED,
            reason="asks",
        )
    if verification.repair.state == pb.REPAIR_STATE_FAILED:
        raise CallFailed(
            f"the repair of {verification.id} has failed: {verification.repair.error}",
            hint="remove the cause, then use dumpverify --repair again: it repairs what still differs",
            exit_code=EXIT_REFUSED,
            reason="error",
        )
    request = pb.VerificationRequest(changefeed=call.changefeed, id=verification.repair.followed_by)
    return _awaited(call, call.client.call("VerifyQuery", request), watch, detach=False)


def _stop(call: Call, known: pb.VerificationRequest) -> int:
    verification = call.client.call("VerifyStop", known)
    what = (
        f"the repair of verification {verification.id} has ended"
        if verification.HasField("repair")
        else f"verification {verification.id} is to end"
    )
    _show(call, verification, done=what if verification.id else "")
    return 0


def _print_differences(call: Call, known: pb.VerificationRequest) -> int:
    from sidecar.control.wire import difference_json

    for one in call.client.stream("Differences", known):
        typer.echo(json.dumps(difference_json(one)))
    return 0


def _list(call: Call) -> int:
    from sidecar.cli.history_view import history_view
    from sidecar.control.wire import KINDS, list_json

    kind = KINDS[OperationKind.VERIFICATION]
    history = call.client.call(
        "List", pb.ListRequest(changefeed_id=call.changefeed.id, namespace=call.changefeed.namespace, limit=HISTORY_MAX, kind=kind)
    )
    _print_json(call, list_json(history))
    call.console.print(history_view(history.operations))
    return 0


def _show(call: Call, verification: pb.Verification, *, done: str = "") -> None:
    from sidecar.cli.verify_view import report_view
    from sidecar.control.wire import verification_json

    _print_json(call, verification_json(verification))
    if done:
        call.console.print(done, highlight=False, markup=False)
    call.console.print(report_view(verification))


def _print_json(call: Call, value: dict[str, Any]) -> None:
    if call.as_json:
        typer.echo(json.dumps(value))


def _exit_code(verification: pb.Verification, call: Call) -> int:
    from sidecar.cli.verify_view import is_over

    _show(call, verification)
    if verification.state == pb.CHECK_STATE_DIFFERENT:
        return EXIT_DIFFERENT
    if verification.state == pb.CHECK_STATE_INCOMPLETE:
        return EXIT_INCOMPLETE
    return 0 if verification.state == pb.CHECK_STATE_EQUAL or (verification.id and not is_over(verification)) else EXIT_REFUSED


def _part(text: str) -> float:
    """`1%` or `0.01`. Raises BadParameter."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(%?)\s*", text)
    part = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < part <= 1:
        raise typer.BadParameter(f"{text}: expected a part above 0 and at most 1, as in 1% or 0.01", param_hint="--sample")
    return part
