"""The commands of a dump, the same as `ticdc-dump dumpstart …` and as `cdc cli changefeed dumpstart …`.

A command makes one request of the control service and shows its answer: text for people, `--json` one object for programs
(for `--watch` one a line; an error is an object too: ok, exit_reason, error). Logic about dumps lives in the service.

    exit code  0 done                                   4 no such changefeed here
               1 the dump failed (dumpquery)            5 the sidecar is not reachable
               2 wrong usage                            6 not allowed: the token
               3 refused in this state, or an error   130 interrupted

TiCDC's flags are taken as `cdc` takes them; those that mean nothing here (--server, --user, --password, --log-level) are
taken too, so that scripts need not tell the commands apart.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from stamina import instrumentation

from sidecar.config import Tls, read_secret
from sidecar.control.client import (
    EXIT_REFUSED,
    EXIT_UNREACHABLE,
    PATIENCE_S,
    Access,
    CallFailed,
    ControlClient,
    OwnerLookup,
    find_address,
    owner_in_etcd,
)
from sidecar.control.dump_view import preview_view, status_view, statuses_table, watch_view
from sidecar.control.wire import STATE_NAMES, preview_json, status_json
from sidecar.core.changefeed import ChangefeedName
from sidecar.core.marks import DUMP_ID_LENGTH
from sidecar.core.messages import Brackets
from sidecar.core.model import TableName
from sidecar.core.progress import OVER
from sidecar.core.table_rules import TableRules, split_rules
from sidecar.errors import RefusedRequest, TicdcDumpError
from ticdc_dump.v1 import control_pb2 as pb

EXIT_DUMP_FAILED, EXIT_INTERRUPTED = 1, 130
EXIT_CODES = (
    "Exit codes: 0 done, 1 the dump failed (dumpquery), 2 wrong usage, 3 refused in this state or an error, 4 no such changefeed,"
    " 5 sidecar not reachable, 6 not allowed, 130 interrupted."
)
PLAIN_WIDTH = 200
"""Columns where there is no terminal: lines are not folded."""
WIRE_BRACKETS = {Brackets.WATERMARK: pb.BRACKETS_WATERMARK, Brackets.SNAPSHOT: pb.BRACKETS_SNAPSHOT}


@dataclass(frozen=True, slots=True)
class Call:
    """One command's way to the sidecar and back to the user."""

    changefeed: pb.Changefeed
    client: ControlClient
    as_json: bool
    console: Console

    def dump_request(self) -> pb.DumpRequest:
        return pb.DumpRequest(changefeed=self.changefeed)

    def show(self, status: pb.DumpStatus, *, done: str = "") -> None:
        """`done`: what the command did, in words for people."""
        if self.as_json:
            typer.echo(json.dumps(status_json(status)))
            return
        if done:
            self.console.print(done, highlight=False, markup=False, soft_wrap=True)
        self.console.print(status_view(status))


ChangefeedId = Annotated[str, typer.Option("--changefeed-id", "-c", help="The changefeed.", show_default=False)]


def _common(
    changefeed_id: ChangefeedId,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", "--keyspace", "-k", help="The changefeed's namespace; TiCDC's new architecture: keyspace.")
    ] = "default",
    sidecar: Annotated[
        str, typer.Option(envvar="TICDC_DUMP_ADDR", help="The sidecar's control address, HOST:PORT; default: by --pd, else this machine.")
    ] = "",
    pd: Annotated[str, typer.Option("--pd", "--etcd", help="PD (etcd) addresses, split by commas, to find the sidecar's address in.")] = "",
    cluster_id: Annotated[str, typer.Option(help="TiCDC's --cluster-id, with --pd.")] = "default",
    ca: Annotated[str, typer.Option(help="CA certificate path for TLS, to the sidecar and to PD.")] = "",
    cert: Annotated[str, typer.Option(help="Certificate path for mutual TLS.")] = "",
    key: Annotated[str, typer.Option(help="Private key path for mutual TLS.")] = "",
    token_file: Annotated[str, typer.Option(help="File of the sidecar's token; else the token in TICDC_DUMP_TOKEN.")] = "",
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to go on asking a sidecar that does not answer.")] = PATIENCE_S,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object (for --watch one a line) and nothing else.")] = False,
    server: Annotated[str, typer.Option(hidden=True)] = "",
    user: Annotated[str, typer.Option(hidden=True)] = "",
    password: Annotated[str, typer.Option(hidden=True)] = "",
    log_level: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """The options of every command: `_command` adds them to those of its own."""


_COMMON = inspect.signature(_common, eval_str=True).parameters


def _command(body: Callable[..., int | None], owner_address: OwnerLookup) -> Callable[..., None]:
    """A command made of `body(call, **its own options) -> exit code`, with the options of all commands beside its own."""
    own = dict(list(inspect.signature(body, eval_str=True).parameters.items())[1:])
    common = {name: parameter for name, parameter in _COMMON.items() if name not in own}
    ordered = sorted([*common.values(), *own.values()], key=lambda parameter: parameter.default is not parameter.empty)

    @functools.wraps(body)
    def command(**given: Any) -> None:
        options = {name: given[name] for name in _COMMON}
        raise typer.Exit(_run(options, owner_address, lambda call: body(call, **{name: given[name] for name in own})) or 0)

    command.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]  # what typer reads the options from
    return command


def _run(options: Mapping[str, Any], owner_address: OwnerLookup, body: Callable[[Call], int | None]) -> int | None:
    instrumentation.set_on_retry_hooks([])  # a retry is part of asking; the answer alone is for the user
    as_json = options["as_json"]
    try:
        with _client(options, owner_address) as client:
            console = Console(quiet=as_json, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
            changefeed = pb.Changefeed(namespace=options["namespace"], id=options["changefeed_id"])
            return body(Call(changefeed, client, as_json, console))
    except TicdcDumpError as error:
        exit_code, reason = _how_it_failed(error)
        if as_json:
            typer.echo(json.dumps({"ok": False, "exit_reason": reason, "error": str(error)}))
        else:
            typer.echo(f"error: {error}", err=True)
        return exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _how_it_failed(error: TicdcDumpError) -> tuple[int, str]:
    """The exit code, and one word for programs."""
    if isinstance(error, CallFailed):
        return error.exit_code, error.reason
    return (EXIT_UNREACHABLE, "unreachable") if error.retryable else (EXIT_REFUSED, "error")


def _client(options: Mapping[str, Any], owner_address: OwnerLookup) -> ControlClient:
    tls = Tls(ca_file=options["ca"], cert_file=options["cert"], key_file=options["key"])
    token = read_secret(options["token_file"]) or os.environ.get("TICDC_DUMP_TOKEN", "")
    changefeed = ChangefeedName(options["cluster_id"], options["namespace"] or "default", options["changefeed_id"])
    address = find_address(
        options["sidecar"],
        endpoints=[endpoint for endpoint in options["pd"].split(",") if endpoint.strip()],
        tls=tls,
        changefeed=changefeed if changefeed.id else None,
        owner_address=owner_address,
    )
    return ControlClient(address, Access(tls=tls, token=token, patience_s=options["timeout"]))


def register(app: typer.Typer, *, owner_address: OwnerLookup = owner_in_etcd) -> None:
    """Add the commands to `app`. `owner_address` finds a sidecar in etcd, for --pd."""
    for body in (dumpstart, dumppause, dumpresume, dumprestart, dumpstop, dumpquery, dumplist):
        app.command(epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})(_command(body, owner_address))


def run(arguments: list[str], *, program: str) -> NoReturn:
    """The commands as a program of their own, which its help calls `program`. Ends the process."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    register(app)
    app(arguments, prog_name=program)
    raise AssertionError("typer ends the process")


# ---- the commands --------------------------------------------------------------------------------------------------------


def dumpstart(
    call: Call,
    tables: Annotated[
        str, typer.Option(help="Tables, as TiCDC's table rules: shop.*,!shop.event_* (default: all of the changefeed).")
    ] = "",
    keys: Annotated[
        list[str] | None,
        typer.Option(help='Only these handle keys of a table: \'shop.orders:[1,2,["a","b"]]\'. May be given again, for other tables.'),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="TABLE:PREDICATE", help="Only rows for which this is true: 'shop.orders:amount > 5'. May be given again."),
    ] = None,
    brackets: Annotated[
        Brackets, typer.Option(help="watermark: marks in the watermark table; snapshot: no write at the source.")
    ] = Brackets.WATERMARK,
    chunk_rows: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, show_default=False, help="Rows a SELECT asks for; 0: as the sidecar is set.")
    ] = 0,
    readers: Annotated[int, typer.Option(min=0, max=64, show_default=False, help="SELECTs at one time; 0: as the sidecar is set.")] = 0,
    rows_per_second: Annotated[int, typer.Option(min=0, max=2**63 - 1, show_default=False, help="Read no faster; 0: no bound.")] = 0,
    bytes_per_second: Annotated[int, typer.Option(min=0, max=2**63 - 1, show_default=False, help="Read no faster; 0: no bound.")] = 0,
    dry_run: Annotated[
        bool, typer.Option(help="Show tables, estimated rows, bytes and time, and what would stop it. Starts nothing.")
    ] = False,
) -> int | None:
    """Start a dump of the rows that exist. With --keys or --where and no --tables: of those tables only."""
    request = pb.StartRequest(
        changefeed=call.changefeed,
        dump_id=_new_dump_id(),
        brackets=WIRE_BRACKETS[brackets],
        chunk_rows=chunk_rows,
        keys=[parse_keys(text) for text in keys or ()],
        where=[parse_where(text) for text in where or ()],
        readers=readers,
        rows_per_second=rows_per_second,
        bytes_per_second=bytes_per_second,
    )
    request.table_rules.extend(_rules(tables) or _named(request))
    if not dry_run:
        call.show(call.client.call("Start", request), done=f"dump {request.dump_id} is started")
        return None
    found = call.client.call("Preview", request)
    if call.as_json:
        typer.echo(json.dumps(preview_json(found)))
    call.console.print(preview_view(found))
    return EXIT_REFUSED if found.refusals else None


def dumppause(call: Call) -> None:
    """Pause the dump at the next chunk boundary. Live changes go on."""
    call.show(call.client.call("Pause", call.dump_request()), done="the dump is paused")


def dumpresume(call: Call) -> None:
    """Go on with a paused dump, after the last chunk in the log."""
    call.show(call.client.call("Resume", call.dump_request()), done="the dump goes on")


def dumprestart(call: Call) -> None:
    """Stop the dump and start the same one from the beginning, under a new dump id."""
    request = pb.RestartRequest(changefeed=call.changefeed, new_dump_id=_new_dump_id())
    call.show(call.client.call("Restart", request), done=f"dump {request.new_dump_id} is started")


def dumpstop(call: Call) -> None:
    """End the dump. It cannot be resumed; what it has delivered stays."""
    call.show(call.client.call("Stop", call.dump_request()), done="the dump is stopped")


def dumpquery(
    call: Call,
    watch: Annotated[bool, typer.Option("--watch", help="Show the progress until the dump is over.")] = False,
) -> int | None:
    """Show the dump: progress of each table, rates, lags, and what it is waiting for."""
    if not watch:
        status = call.client.call("Query", call.dump_request())
        call.show(status)
        return _exit_code(status)
    with watch_view(call.console) as view:
        for status in call.client.watch(call.dump_request()):
            if call.as_json:
                typer.echo(json.dumps(status_json(status)))
            view.show(status)
            if STATE_NAMES[status.state] in OVER or not status.dump_id:
                return _exit_code(status)
    return None


def dumplist(
    call: Call,
    changefeed_id: Annotated[  # noqa: ARG001  # decides who is asked
        str, typer.Option("--changefeed-id", "-c", help="With --pd: the changefeed whose sidecar is asked.", show_default=False)
    ] = "",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", "--keyspace", "-k", help="Only of this namespace; default: all.", show_default=False)
    ] = "",
) -> None:
    """List the dumps of the sidecar that is asked."""
    found = call.client.call("List", pb.ListRequest(namespace=namespace))
    if call.as_json:
        typer.echo(json.dumps({"dumps": [status_json(status) for status in found.dumps]}))
    call.console.print(statuses_table(found.dumps))


def _exit_code(status: pb.DumpStatus) -> int | None:
    return EXIT_DUMP_FAILED if status.state == pb.DUMP_STATE_FAILED else None


# ---- what the options say ------------------------------------------------------------------------------------------------


def _new_dump_id() -> str:
    """Chosen before the first attempt, so that all attempts of a request start one dump."""
    return secrets.token_hex(DUMP_ID_LENGTH // 2)


def _rules(text: str) -> list[str]:
    rules = split_rules(text)
    try:
        TableRules.of(rules)
    except RefusedRequest as refused:
        raise typer.BadParameter(str(refused), param_hint="--tables") from refused
    return rules


def _named(request: pb.StartRequest) -> list[str]:
    """Rules for exactly the tables that keys and predicates name."""
    named = [(one.schema, one.table) for one in (*request.keys, *request.where)]
    return [".".join('"' + name.replace('"', '""') + '"' for name in table) for table in dict.fromkeys(named)]


def parse_where(text: str) -> pb.TablePredicate:
    """`schema.table:predicate`. Raises BadParameter."""
    table, predicate = _of_table(text, "--where", "'shop.orders:amount > 5'")
    return pb.TablePredicate(schema=table.schema, table=table.table, predicate=predicate)


def parse_keys(text: str) -> pb.TableKeys:
    """`schema.table:[key, …]`, a key being a value, or an array of values if the handle key has several columns. Numbers are
    kept as they are written. Raises BadParameter."""
    example = '\'shop.orders:[1,2,["a","b"]]\''
    table, found = _of_table(text, "--keys", example)
    try:
        keys = json.loads(found, parse_int=str, parse_float=str, parse_constant=str)
    except ValueError as error:
        raise typer.BadParameter(f"{found}: {error}; expected a JSON array, as in {example}", param_hint="--keys") from error
    rows = [key if isinstance(key, list) else [key] for key in keys] if isinstance(keys, list) else []
    if not rows or not all(row and all(isinstance(value, str) for value in row) for row in rows):
        raise typer.BadParameter(f"{found}: expected an array of texts, numbers, or arrays of them, as in {example}", param_hint="--keys")
    return pb.TableKeys(schema=table.schema, table=table.table, keys=[pb.Key(values=row) for row in rows])


def _of_table(text: str, option: str, example: str) -> tuple[TableName, str]:
    """A table and what follows the colon after it. A name with a dot or a colon in it is quoted, as in a table rule."""
    name = r'(?:`((?:``|[^`])+)`|"((?:""|[^"])+)"|([^.:`"]+))'
    found = re.match(rf"\s*{name}\.{name}\s*:(.*)", text, re.DOTALL)
    if found is None:
        raise typer.BadParameter(f"{text}: expected schema.table and a colon, as in {example}", param_hint=option)
    ticks, quotes, plain, table_ticks, table_quotes, table_plain, rest = (part or "" for part in found.groups())
    schema = ticks.replace("``", "`") or quotes.replace('""', '"') or plain
    table = table_ticks.replace("``", "`") or table_quotes.replace('""', '"') or table_plain.rstrip()
    return TableName(schema, table), rest.strip()
