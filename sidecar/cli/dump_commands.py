"""The commands of a dump, the same as `ticdc-dump dumpstart …` and as `cdc cli changefeed dumpstart …`.

A command makes one request of the control service and shows its answer: text for people, `--json` one object for programs
(for `--watch` one a line; an error is an object too: ok, exit_reason, error). Logic about dumps lives in the service.

    exit code  0 done                                   4 no such changefeed here
               1 the dump has failed, sinks differ      5 the sidecar is not reachable
               2 wrong usage                            6 not allowed: the token
               3 refused in this state, or an error   130 interrupted; of one command alone: query_command, verify_command

TiCDC's flags are taken as `cdc` takes them; those that mean nothing here (--server, --user, --password, --log-level) are
taken too, so that scripts need not tell the commands apart. TiCDC's server does not know where the sidecar is: --pd finds it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from sidecar.cli.dump_call import Call, DumpCommand, DumpId, call_of
from sidecar.cli.dump_options import DeleteAtMost, Rules, check_bound, parse_keys, parse_where, table_rules
from sidecar.cli.query_command import EXIT_CODES as QUERY_EXIT_CODES
from sidecar.cli.query_command import dumpquery
from sidecar.cli.usage import CONTEXT, Commands, Use
from sidecar.cli.verify_command import EXIT_CODES as VERIFY_EXIT_CODES
from sidecar.cli.verify_command import dumpverify
from sidecar.control.answers import EXIT_REFUSED, new_operation_id
from sidecar.history.entry import HISTORY_MAX, OperationKind
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.model.messages import READERS_MAX, Brackets
from sidecar.shared.model.nouns import TableName
from ticdc_dump.v1 import control_pb2 as pb

if TYPE_CHECKING:
    from sidecar.control.client import OwnerLookup

EXIT_CODES = (
    "Exit codes: 0 done, 1 the dump has failed, 2 wrong usage, 3 refused in this state or an error, 4 no such changefeed,"
    " 5 sidecar not reachable, 6 not allowed, 130 interrupted."
)

SinkNames = Annotated[
    list[str] | None, typer.Option(help="Deliver the rows to the sink of this name only. May be repeated (default: to all sinks).")
]
ForDdl = Annotated[
    int | None,
    typer.Option(
        metavar="COMMIT_TS",
        min=1,
        max=2**63 - 1,
        help="A DDL at which --sink stops, as its error says: it is carried out there, and the dump brings the values of its rows.",
    ),
]
Exact = Annotated[
    bool,
    typer.Option("--exact", help="Afterwards compare the sinks with TiDB and correct what differs, extra rows too (dumpverify)."),
]
Holes = Annotated[
    bool,
    typer.Option("--holes", help="Tables that are incomplete (dumpquery); with --tables those of them. Exact where rows vanished."),
]
BracketsGiven = Annotated[
    Brackets | None,
    typer.Option(
        help="watermark: marks in the watermark table; snapshot: reads at a TSO, no write at the source. Default: watermark where the"
        ' changefeed carries the watermark table and the account writes it, else snapshot; snapshot with dump.read_with "tikv".',
        show_default=False,
    ),
]
ChunkRows = Annotated[int | None, typer.Option(min=0, max=2**32 - 1, help="Rows that a SELECT asks for; 0: the sidecar's setting.")]
Readers = Annotated[int | None, typer.Option(min=0, max=READERS_MAX, help="SELECTs at one time; 0: the sidecar's setting.")]
RowsPerSecond = Annotated[int | None, typer.Option(min=0, max=2**63 - 1, help="Rows to read in a second at most; 0: no limit.")]
BytesPerSecond = Annotated[
    int | None,
    typer.Option(min=0, max=2**63 - 1, help="Bytes in a second at most, of the dump's files in the log, as a plain number; 0: no limit."),
]
DeliveryBound = Annotated[
    float | None,
    typer.Option(min=0, help="Seconds within which live changes must be delivered: the dump reads less; 0: the sidecar's setting."),
]
StrictBound = Annotated[
    bool | None,
    typer.Option(
        help="Keep the bound however slow that makes the dump. Without it a dump keeps half of a sink's throughput, or 4,000 rows/s if that"
        " is less, and dumpquery says where that exceeds the bound (default: the sidecar's setting)."
    ),
]


def register(app: typer.Typer, *, owner_address: OwnerLookup | None = None) -> None:
    """Add the commands to `app`. `owner_address` finds a sidecar, for --pd; None: in etcd."""
    for body in (dumpstart, dumpset, dumppause, dumpresume, dumprestart, dumpstop, dumpquery, dumplist, dumpverify):
        epilog = {dumpverify: VERIFY_EXIT_CODES, dumpquery: QUERY_EXIT_CODES}.get(body, EXIT_CODES)
        app.command(cls=DumpCommand, rich_help_panel=Use.DUMP, epilog=epilog, context_settings=CONTEXT | {"obj": owner_address})(body)


def run(arguments: list[str], *, program: str) -> NoReturn:
    """The commands as a program of their own, which its help calls `program`. Ends the process."""
    app = typer.Typer(cls=Commands, context_settings=CONTEXT, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    register(app)
    app(arguments, prog_name=program)
    raise AssertionError("typer ends the process")


# ---- the commands --------------------------------------------------------------------------------------------------------


def dumpstart(
    context: typer.Context,
    tables: Rules = "",
    keys: Annotated[
        list[str] | None,
        typer.Option(help='Only these handle keys: \'shop.orders:[1,["a","b"]]\'. One without a row is deleted in the sinks. Repeatable.'),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE:PREDICATE",
            help="Only rows for which this is true, by the table's own columns: 'shop.orders:amount > 5'. May be repeated.",
        ),
    ] = None,
    sink: SinkNames = None,
    for_ddl: ForDdl = None,
    exact: Exact = False,
    holes: Holes = False,
    delete_at_most: DeleteAtMost = None,
    brackets: BracketsGiven = None,
    chunk_rows: ChunkRows = None,
    readers: Readers = None,
    rows_per_second: RowsPerSecond = None,
    bytes_per_second: BytesPerSecond = None,
    delivery_bound_seconds: DeliveryBound = None,
    strict_bound: StrictBound = None,
    dry_run: Annotated[
        bool, typer.Option(help="Show tables, estimated rows, bytes and time, what would stop it or be slow. Starts nothing.")
    ] = False,
) -> int | None:
    """Start a dump of the existing rows; it is queued while another one has one of its tables. With --keys or --where and without --tables:
    of the tables that they name."""
    from sidecar.control.wire import BRACKETS

    check_bound(delete_at_most, repairs=exact or holes, option="--exact")
    call = call_of(context)
    request = pb.StartRequest(
        changefeed=call.changefeed,
        dump_id=new_operation_id(),
        brackets=BRACKETS[brackets] if brackets is not None else pb.BRACKETS_UNSPECIFIED,
        chunk_rows=chunk_rows or 0,
        keys=[parse_keys(text) for text in keys or ()],
        where=[parse_where(text) for text in where or ()],
        readers=readers or 0,
        rows_per_second=rows_per_second or 0,
        bytes_per_second=bytes_per_second or 0,
        delivery_bound_seconds=delivery_bound_seconds or 0.0,
        strict_bound=bool(strict_bound),
        sinks=sink or (),
        exact=exact,
        delete_at_most=delete_at_most,
        for_ddl=for_ddl or 0,
        holes=holes,
    )
    request.table_rules.extend(table_rules(tables) or _named(request))
    if dry_run:
        return _previewed(call, call.client.call("Preview", request))
    return _show_started(call, call.client.call("Start", request), request.dump_id)


def dumpset(
    context: typer.Context,
    dump_id: DumpId = "",
    chunk_rows: ChunkRows = None,
    readers: Readers = None,
    rows_per_second: RowsPerSecond = None,
    bytes_per_second: BytesPerSecond = None,
    delivery_bound_seconds: DeliveryBound = None,
    strict_bound: StrictBound = None,
) -> int:
    """Change how a dump reads, from its next chunk on. What is not given stays as it is."""
    call = call_of(context)
    settings = _settings(chunk_rows, readers, rows_per_second, bytes_per_second, delivery_bound_seconds, strict_bound)
    if not settings.ListFields():
        raise typer.BadParameter("give what is to be changed: --chunk-rows, --readers, a pace or a bound; see --help")
    request = pb.SetRequest(changefeed=call.changefeed, settings=settings, dump_id=dump_id)
    return call.show(call.client.call("Set", request), done="the dump is changed")


def dumppause(context: typer.Context, dump_id: DumpId = "") -> int:
    """Pause the dump at the next chunk boundary. Live changes continue."""
    call = call_of(context)
    return call.show(call.client.call("Pause", call.dump_request(dump_id)), done="the dump is paused")


def dumpresume(
    context: typer.Context,
    dump_id: DumpId = "",
    chunk_rows: ChunkRows = None,
    readers: Readers = None,
    rows_per_second: RowsPerSecond = None,
    bytes_per_second: BytesPerSecond = None,
    delivery_bound_seconds: DeliveryBound = None,
    strict_bound: StrictBound = None,
) -> int:
    """Resume a dump that was paused or has failed, after the last chunk in the log. Options change its settings."""
    call = call_of(context)
    settings = _settings(chunk_rows, readers, rows_per_second, bytes_per_second, delivery_bound_seconds, strict_bound)
    request = pb.ResumeRequest(changefeed=call.changefeed, settings=settings, dump_id=dump_id)
    return call.show(call.client.call("Resume", request), done="the dump is resumed")


def dumprestart(context: typer.Context, dump_id: DumpId = "") -> int:
    """Stop the dump and start the same one from the beginning, under a new dump id. For some of its tables: dumpstart --tables."""
    call = call_of(context)
    request = pb.RestartRequest(changefeed=call.changefeed, new_dump_id=new_operation_id(), dump_id=dump_id)
    return _show_started(call, call.client.call("Restart", request), request.new_dump_id)


def dumpstop(context: typer.Context, dump_id: DumpId = "") -> int:
    """End the dump. It cannot be resumed; what it has delivered stays."""
    call = call_of(context)
    return call.show(call.client.call("Stop", call.dump_request(dump_id)), done="the dump is stopped")


def dumplist(
    context: typer.Context,
    changefeed_id: Annotated[
        str, typer.Option("--changefeed-id", "-c", help="The changefeed; default: that of the sidecar that is called.", show_default=False)
    ] = "",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", "--keyspace", "-k", help="Only of this namespace; default: all.", show_default=False)
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=HISTORY_MAX, help="So many of the newest.")] = HISTORY_MAX,
    kind: Annotated[OperationKind | None, typer.Option(help="Only of this kind.", show_default=False)] = None,
) -> None:
    """List the last dumps and verifications: scope, who requested each, when, result, rows and time. The newest is first."""
    from sidecar.cli.history_view import history_view
    from sidecar.control.wire import KINDS, list_json

    call = call_of(context)
    wire_kind = KINDS[kind] if kind is not None else pb.OPERATION_KIND_UNSPECIFIED
    request = pb.ListRequest(namespace=namespace, changefeed_id=changefeed_id, limit=limit, kind=wire_kind)
    history = call.client.call("List", request)
    if not history.HasField("changefeed"):
        raise RefusedRequest("this sidecar is of version 0.4.0 or before, and keeps no history", hint="upgrade it; dumpquery has its dump")
    if call.as_json:
        typer.echo(json.dumps(list_json(history)))
    call.console.print(history_view(history.operations))


def _show_started(call: Call, status: pb.DumpStatus, dump_id: str) -> int:
    is_queued = status.dump_id == dump_id and status.state == pb.DUMP_STATE_QUEUED
    return call.show(status, done=f"dump {dump_id} is {'queued' if is_queued else 'started'}")


def _previewed(call: Call, preview: pb.DumpPreview) -> int | None:
    from sidecar.cli.dump_view import preview_view
    from sidecar.control.wire import preview_json

    if call.as_json:
        typer.echo(json.dumps(preview_json(preview)))
    call.console.print(preview_view(preview))
    return EXIT_REFUSED if preview.refusals else None


# ---- what the options say ------------------------------------------------------------------------------------------------


def _settings(
    chunk_rows: int | None,
    readers: int | None,
    rows_per_second: int | None,
    bytes_per_second: int | None,
    delivery_bound_seconds: float | None,
    strict_bound: bool | None,
) -> pb.DumpSettings:
    """What is None is not given."""
    return pb.DumpSettings(
        chunk_rows=chunk_rows,
        readers=readers,
        rows_per_second=rows_per_second,
        bytes_per_second=bytes_per_second,
        delivery_bound_seconds=delivery_bound_seconds,
        strict_bound=strict_bound,
    )


def _named(request: pb.StartRequest) -> list[str]:
    """Rules for exactly the tables that keys and predicates name."""
    from sidecar.shared.ticdc.table_rules import exact_rule

    named = [TableName(one.schema, one.table) for one in (*request.keys, *request.where)]
    return [exact_rule(table) for table in dict.fromkeys(named)]
