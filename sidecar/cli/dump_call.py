"""What all commands of a dump have in common: their options, the way to the sidecar and back, and how a failure is reported.

    typer  ─ Options ─►  DumpCommand  ─ Call ─►  the command's own function  ─►  exit code

`DumpOptions` is the one list of the options: typer makes them of its fields as it makes a command's own of its parameters, and a command
that declares one of the same name puts its own in the place. A command's function finds its `Call` in the context.

An id may be `last`: of dumps, and with dumpverify of verifications, the one that was requested last.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sidecar.cli.usage import Command
from sidecar.control.answers import EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_UNREACHABLE, PATIENCE_S, CallFailed
from sidecar.shared.errors import RefusedRequest, TicdcDumpError
from ticdc_dump.v1 import control_pb2 as pb

if TYPE_CHECKING:
    from rich.console import Console

    from sidecar.control.client import ControlClient, OwnerLookup

EXIT_DUMP_FAILED = 1
EXIT_INTERRUPTED = 130
TOKEN_VARIABLE = "TICDC_DUMP_TOKEN"

Ignored = Annotated[str, typer.Option(hidden=True)]
"""A flag of TiCDC's that means nothing here."""

LAST = "last"
DumpId = Annotated[
    str,
    typer.Option(
        "--id",
        help="Which dump, by its id, or `last`: the one that was requested last; default: the one that is not over, or else the last.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class DumpOptions:
    changefeed_id: Annotated[str, typer.Option("--changefeed-id", "-c", help="The changefeed.", show_default=False)]
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", "--keyspace", "-k", help="The changefeed's namespace; TiCDC's new architecture: keyspace.")
    ] = "default"
    sidecar: Annotated[
        str, typer.Option(envvar="TICDC_DUMP_ADDR", help="The sidecar's control address, HOST:PORT; default: by --pd, else this machine.")
    ] = ""
    pd: Annotated[str, typer.Option("--pd", "--etcd", help="PD (etcd) addresses, split by commas, to find the sidecar's address in.")] = ""
    cluster_id: Annotated[str, typer.Option(help="TiCDC's --cluster-id, with --pd.")] = "default"
    ca: Annotated[str, typer.Option(help="CA certificate path for TLS, to the sidecar and to PD.")] = ""
    cert: Annotated[str, typer.Option(help="Certificate path for mutual TLS.")] = ""
    key: Annotated[str, typer.Option(help="Private key path for mutual TLS.")] = ""
    token_file: Annotated[str, typer.Option(help="File of the sidecar's token; else the token in TICDC_DUMP_TOKEN.")] = ""
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to keep asking a sidecar that does not answer.")] = PATIENCE_S
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object (for --watch one a line) and nothing else.")] = False
    server: Ignored = ""
    user: Ignored = ""
    password: Ignored = ""
    log_level: Ignored = ""

    def client(self, owner_address: OwnerLookup | None) -> ControlClient:
        """`owner_address` None: as etcd has it. Raises CallFailed where it names no owner; ConfigError for a token's file that cannot
        be read."""
        from sidecar.control.client import Access, ControlClient, find_address, owner_in_etcd
        from sidecar.shared.config import Tls
        from sidecar.shared.config_files import read_secret
        from sidecar.shared.ticdc.changefeed import ChangefeedName

        tls = Tls(ca_file=self.ca, cert_file=self.cert, key_file=self.key)
        token, place = read_secret(self.token_file), f"--token-file {self.token_file}"
        if not token:
            token, place = os.environ.get(TOKEN_VARIABLE, ""), TOKEN_VARIABLE
        changefeed = ChangefeedName(self.cluster_id, self.namespace or "default", self.changefeed_id)
        address = find_address(
            self.sidecar,
            endpoints=[endpoint for endpoint in self.pd.split(",") if endpoint.strip()],
            tls=tls,
            changefeed=changefeed if changefeed.id else None,
            owner_address=owner_address or owner_in_etcd,
        )
        return ControlClient(address, Access(tls=tls, token=token, patience_s=self.timeout, token_place=place))


@dataclass(frozen=True, slots=True)
class Call:
    """One command's way to the sidecar and back to the user."""

    changefeed: pb.Changefeed
    client: ControlClient
    as_json: bool
    console: Console

    def dump_request(self, dump_id: str = "", *, timeline: bool = False) -> pb.DumpRequest:
        return pb.DumpRequest(changefeed=self.changefeed, dump_id=dump_id, timeline_after_ms=0 if timeline else None)

    def last_dump_id(self) -> str:
        """Raises RefusedRequest where there is none."""
        kind, changefeed = pb.OPERATION_KIND_DUMP, self.changefeed
        request = pb.ListRequest(changefeed_id=changefeed.id, namespace=changefeed.namespace, limit=1, kind=kind)
        operations = self.client.call("List", request).operations
        if not operations:
            raise RefusedRequest("the history has no dump, so none is the last", hint="use dumpquery without --id, or dumpstart")
        last: str = operations[0].id
        return last

    def show(self, status: pb.DumpStatus, *, done: str = "") -> int:
        """Every command that shows a dump ends with this exit code: a dump that has failed is a failure of each. `done`: what the command
        did, in words for people."""
        from sidecar.cli.dump_view import status_view
        from sidecar.control.wire import status_json

        if self.as_json:
            typer.echo(json.dumps(status_json(status)))
        elif done and status.state != pb.DUMP_STATE_FAILED:
            self.console.print(done, highlight=False, markup=False, soft_wrap=True)
        self.console.print(status_view(status))
        return exit_code_of(status)


def exit_code_of(status: pb.DumpStatus) -> int:
    return EXIT_DUMP_FAILED if status.state == pb.DUMP_STATE_FAILED else 0


def call_of(context: typer.Context) -> Call:
    call = context.find_object(Call)
    assert call is not None, "a DumpCommand gives it before the body runs"
    return call


class DumpCommand(Command):
    """Takes `DumpOptions` beside the command's own; its function returns the exit code, None for 0. The context's settings bring, as its
    object, the `OwnerLookup` for --pd."""

    may_be_empty = frozenset({"server", "user", "password", "log_level"})
    """TiCDC's, which mean nothing here: a script that passes them to `cdc` passes them empty where it has none."""

    def __init__(self, name: str | None, *, params: list[Any] | None = None, **given: Any) -> None:
        self._own = {param.name: param for param in params or ()}
        common = [param for param in common_params() if param.name not in self._own]
        super().__init__(name, params=[*common, *self._own.values()], **given)

    def invoke(self, ctx: Any) -> None:
        options = DumpOptions(**{field.name: ctx.params[field.name] for field in fields(DumpOptions)})
        ctx.params = {name: value for name, value in ctx.params.items() if name in self._own}
        body = super().invoke

        def called(call: Call) -> int | None:
            ctx.obj = call
            if ctx.params.get("dump_id") == LAST:
                ctx.params["dump_id"] = call.last_dump_id()
            code: int | None = body(ctx)
            return code

        raise typer.Exit(_exit_code(options, ctx.obj, called))


@cache
def common_params() -> list[Any]:
    """`DumpOptions` as the parser has them."""
    app = typer.Typer(add_completion=False)
    app.command()(DumpOptions)
    return list(typer.main.get_command(app).params)


def _exit_code(options: DumpOptions, owner_address: OwnerLookup | None, body: Callable[[Call], int | None]) -> int:
    from stamina import instrumentation

    from sidecar.cli.terminal import console_for, tell

    instrumentation.set_on_retry_hooks([])  # a retry is part of asking; the answer alone is for the user
    try:
        with options.client(owner_address) as client:
            changefeed = pb.Changefeed(namespace=options.namespace, id=options.changefeed_id)
            return body(Call(changefeed, client, options.as_json, console_for(as_json=options.as_json))) or 0
    except TicdcDumpError as error:
        exit_code, reason = _how_it_failed(error)
        tell(_explained(error, options), reason=reason, as_json=options.as_json)
        return exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _explained(error: TicdcDumpError, options: DumpOptions) -> TicdcDumpError:
    """A user who names TiCDC's server alone, as TiCDC's own commands do, learns what it takes to find the sidecar."""
    if not isinstance(error, CallFailed) or error.exit_code not in (EXIT_UNREACHABLE, EXIT_NOT_FOUND):
        return error
    if not options.server or options.sidecar or options.pd:
        return error
    return CallFailed(
        f"{error.message}; --server {options.server} is TiCDC's own, which does not know the sidecar, so the call went to this machine",
        hint="name PD with --pd, where the sidecar leaves its address, or the sidecar with --sidecar HOST:PORT or TICDC_DUMP_ADDR",
        exit_code=error.exit_code,
        reason=error.reason,
    )


def _how_it_failed(error: TicdcDumpError) -> tuple[int, str]:
    """The exit code, and one word for programs."""
    if isinstance(error, CallFailed):
        return error.exit_code, error.reason
    return (EXIT_UNREACHABLE, "unreachable") if error.retryable else (EXIT_REFUSED, "error")
