"""`ticdc-dump init`: guided setup. PD's address and the changefeed in; a settings file, the SQL for TiDB and the next commands out.

    exit code  0 written, perhaps with warnings      3 nothing was written: an error that names the way out
               2 wrong usage

It prompts on a terminal only, and only for what no option gives. What etcd says of a changefeed is read in `sidecar/setup`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sidecar.cli.init_view import InitResult, result_lines
from sidecar.cli.remove import pd_endpoints
from sidecar.cli.usage import Command, Use

if TYPE_CHECKING:
    from sidecar.adapters.etcd.client import EtcdClient
    from sidecar.setup.cluster import ChosenChangefeed, WantedChangefeed
    from sidecar.setup.settings import ChosenSetting
    from sidecar.shared.config import Tls
    from sidecar.shared.ticdc.changefeed import ChangefeedName

FOLDER = "/var/lib/ticdc-dump"
"""As deploy/systemd and config.example.toml have it."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """Asks for what is not given, where there is somebody to ask."""

    on_terminal: bool

    def answer(
        self, option: str, given: str, question: str, *, default: str | None = None, origin: str = "", check: Callable[[str], object] = str
    ) -> tuple[str, str]:
        """The value, and where it comes from. `default` None: there must be an answer; `origin`: of the default. What `check` raises
        TicdcDumpError of, an interactive caller is prompted for again; without a prompt it is raised."""
        if not given and self.on_terminal:
            proved = partial(_proved, check)
            typed = str(typer.prompt(question, default=default, show_default=bool(default), value_proc=proved))
            return typed, origin if typed == default else "your answer"
        if not given and default is None:
            raise typer.BadParameter("give it: there is no terminal to ask", param_hint=option)
        value = given or default or ""
        check(value)
        return value, f"by {option}" if given else origin


def _proved(check: Callable[[str], object], text: str) -> str:
    from sidecar.shared.errors import TicdcDumpError

    try:
        check(text)
    except TicdcDumpError as error:
        raise typer.BadParameter(f"{error.message}; {error.hint}") from error
    return text


@dataclass(frozen=True, slots=True)
class _Account:
    """TiDB as the options give it; empty: not given."""

    tidb: str
    user: str
    password_file: str


def init(
    pd: Annotated[list[str] | None, typer.Option("--pd", "--etcd", help="PD's client addresses, split by commas or repeated.")] = None,
    changefeed_id: Annotated[str, typer.Option("--changefeed-id", "-c", help="The changefeed.", show_default=False)] = "",
    namespace: Annotated[str, typer.Option("--namespace", "-n", "--keyspace", "-k", help="Its namespace; default: any.")] = "",
    cluster_id: Annotated[str, typer.Option("--cluster-id", "--cluster", help="TiCDC's --cluster-id; default: any.")] = "",
    ca: Annotated[str, typer.Option(help="CA certificate path for TLS to PD.")] = "",
    cert: Annotated[str, typer.Option(help="Certificate path for mutual TLS.")] = "",
    key: Annotated[str, typer.Option(help="Private key path for mutual TLS.")] = "",
    tidb: Annotated[str, typer.Option(help="TiDB's address, HOST:PORT; default: a server that PD knows.")] = "",
    user: Annotated[str, typer.Option(help="The sidecar's account in TiDB; default: ticdc_dump.")] = "",
    password_file: Annotated[str, typer.Option(help="File of that account's password. It is only named.")] = "",
    log: Annotated[str, typer.Option(help=f"The log: a folder or s3://…; default: file://{FOLDER}/ID/log")] = "",
    sink: Annotated[
        list[str] | None, typer.Option(help=f"Sink URI, may be repeated; default: file://{FOLDER}/ID/output?format=jsonl")
    ] = None,
    tikv: Annotated[bool, typer.Option("--tikv", help='Read TiKV in place of the changefeed\'s sink (feed = "tikv").')] = False,
    definition: Annotated[str, typer.Option(help="A file of the changefeed's definition, where PD is out of reach (TiDB Cloud).")] = "",
    state: Annotated[
        str,
        typer.Option(help=f"With --definition: the folder of lease and progress, unless --pd names an etcd; default: {FOLDER}/ID/state"),
    ] = "",
    brokers: Annotated[str, typer.Option(help="Kafka's brokers as this machine reaches them; default: the changefeed's.")] = "",
    output: Annotated[Path, typer.Option("--output", "-o", help="The settings file.")] = Path("sidecar.toml"),
    sql: Annotated[Path | None, typer.Option("--sql", help="Write the SQL to this file too.", show_default=False)] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    no_input: Annotated[bool, typer.Option("--no-input", "--yes", "-y", help="Never ask.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else. Never asks.")] = False,
) -> None:
    """Write a settings file for a changefeed, and the SQL for TiDB, from what PD's etcd or a file has."""
    from stamina import instrumentation

    from sidecar.cli.terminal import console_for
    from sidecar.setup.cluster import WantedChangefeed
    from sidecar.setup.settings import ChosenSetting
    from sidecar.shared.config import Tls

    instrumentation.set_on_retry_hooks([])  # a retry is part of asking
    ask = Prompts(on_terminal=not (no_input or as_json) and sys.stdin.isatty())
    _check_free([output, *([sql] if sql else [])], force=force)
    wanted = WantedChangefeed(cluster_id, namespace, changefeed_id)
    addresses, pd_origin = ",".join(pd or ()), "by --pd"
    if not definition:
        addresses, pd_origin = ask.answer("--pd", addresses, "PD's client addresses (host:port, split by commas)")
    tls = Tls(**{name: _absolute(path) for name, path in _files(ca, cert, key)})
    endpoints = _endpoints(addresses, tls, needed=not definition)
    _check_fits(definition, state, endpoints, tikv=tikv)
    in_etcd = partial(_in_etcd, endpoints, tls, wanted, ask, key_values=tikv)
    changefeed = _in_file(definition, wanted, endpoints, brokers) if definition else in_etcd()
    if not as_json:
        _show_changefeed(changefeed)
    chosen = _of_pd(changefeed, len(endpoints), pd_origin, tls) + _of_folder(changefeed, state)
    chosen += _of_tidb(ask, _Account(tidb, user, password_file), changefeed) + _of_delivery(ask, log, sink or [], changefeed)
    chosen.append(ChosenSetting("kafka.brokers", brokers, "by --brokers"))
    chosen_settings = _written(output, sql, changefeed, chosen, force=force)
    if as_json:
        typer.echo(json.dumps(chosen_settings.to_json()))
        return
    console = console_for(as_json=False)
    for line in result_lines(chosen_settings):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _check_fits(definition: str, state: str, endpoints: tuple[str, ...], *, tikv: bool) -> None:
    if state and (endpoints or not definition):
        raise typer.BadParameter("give it with --definition and without --pd", param_hint="--state")
    if tikv and definition:
        raise typer.BadParameter("TiKV is reached through PD: give --pd without --definition", param_hint="--tikv")


def _endpoints(addresses: str, tls: Tls, *, needed: bool) -> tuple[str, ...]:
    from sidecar.shared.config_forms import is_address

    endpoints = pd_endpoints(addresses)
    if (needed and not endpoints) or not all(map(is_address, endpoints)):
        raise typer.BadParameter("give PD's client addresses as host:port, split by commas", param_hint="--pd")
    if "https://" in addresses and not tls.ca_file:
        raise typer.BadParameter("https:// needs the CA's certificate", param_hint="--ca")
    return endpoints


def _in_file(definition: str, wanted: WantedChangefeed, endpoints: tuple[str, ...], brokers: str) -> ChosenChangefeed:
    from sidecar.setup.cluster import changefeed_of_file

    return changefeed_of_file(_absolute(definition), wanted, endpoints=endpoints, brokers=brokers)


def _in_etcd(endpoints: tuple[str, ...], tls: Tls, wanted: WantedChangefeed, ask: Prompts, *, key_values: bool) -> ChosenChangefeed:
    """Raises ConfigError where PD does not answer."""
    from contextlib import closing

    from sidecar.adapters.etcd.client import EtcdClient
    from sidecar.adapters.etcd.keys import BY_OPTIONS
    from sidecar.setup.cluster import chosen_changefeed
    from sidecar.shared.config import EtcdSection
    from sidecar.shared.errors import ConfigError, CoordinationLost

    try:
        with closing(EtcdClient(EtcdSection(endpoints=endpoints, tls=tls), named=BY_OPTIONS)) as client:
            return chosen_changefeed(client, _changefeed(client, wanted, ask), key_values=key_values)
    except CoordinationLost as error:
        hint = "check --pd: PD's client addresses, port 2379 unless it was changed; give --ca, --cert and --key if the cluster uses TLS"
        raise ConfigError(f"PD at {', '.join(endpoints)} does not answer: {error.message}", hint=hint) from error


def _files(ca: str, cert: str, key: str) -> list[tuple[str, str]]:
    return [("ca_file", ca), ("cert_file", cert), ("key_file", key)]


def _absolute(path: str) -> str:
    """A service has another working directory."""
    return os.path.abspath(path) if path else ""


def _check_free(files: Sequence[Path], *, force: bool) -> None:
    """Before the first question. Raises RefusedRequest."""
    from sidecar.shared.errors import RefusedRequest

    if len({os.path.abspath(file) for file in files}) < len(files):
        raise typer.BadParameter("is the settings file: name another", param_hint="--sql")
    if (there := [str(file) for file in files if os.path.lexists(file)]) and not force:
        raise RefusedRequest(f"{', '.join(there)} exists", hint="name another file with --output or --sql, or replace it with --force")


def _changefeed(client: EtcdClient, wanted: WantedChangefeed, ask: Prompts) -> ChangefeedName:
    """The one there is that fits, or the one that is chosen. Raises ConfigError."""
    from sidecar.setup.cluster import described, matching
    from sidecar.shared.errors import ConfigError
    from sidecar.shared.process.printable import one_line

    names = matching(client, wanted)
    if len(names) == 1:
        return names[0]
    lines = [f"{one_line(str(name))}: {described(client, name)}" for name in names]
    if not ask.on_terminal:
        raise ConfigError(
            "\n  ".join([f"{len(names)} changefeeds fit, and there is no terminal to ask:", *lines]),
            hint="name one with --changefeed-id, --namespace and --cluster",
        )
    typer.echo("\n".join(f"  {number}  {line}" for number, line in enumerate(lines, 1)))

    def chosen(text: str) -> ChangefeedName:
        by_id = [name for name in names if text in (name.id, str(name))]
        if len(by_id) == 1:
            return by_id[0]
        if text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= len(names):
            return names[int(text) - 1]
        raise typer.BadParameter(f"give a number from 1 to {len(names)}, or an id that occurs once")

    prompt: ChangefeedName = typer.prompt("Changefeed (number or id)", value_proc=chosen)
    return prompt


def _show_changefeed(changefeed: ChosenChangefeed) -> None:
    from sidecar.setup.cluster import summary
    from sidecar.shared.process.printable import one_line

    made = f", TiCDC {one_line(changefeed.changefeed.creator_version)}" if changefeed.changefeed.creator_version else ""
    typer.echo(f"changefeed {changefeed.changefeed.name}: {summary(changefeed.changefeed)}{made}")


# ---- the values -----------------------------------------------------------------------------------------------------


def _of_pd(changefeed: ChosenChangefeed, given: int, origin: str, tls: Tls) -> list[ChosenSetting]:
    from sidecar.setup.settings import ChosenSetting, settings_result

    others = "; PD names the others" if len(changefeed.endpoints) > given else ""
    cluster = f"; PD's cluster {changefeed.pd_cluster_id}" if changefeed.pd_cluster_id else ""
    chosen = [*settings_result(changefeed), ChosenSetting("etcd.endpoints", changefeed.endpoints, f"{origin}{others}{cluster}")]
    sections = ("etcd", "tikv") if changefeed.feed == "tikv" else ("etcd",)
    for option in ("ca", "cert", "key"):
        chosen += [ChosenSetting(f"{of}.tls.{option}_file", getattr(tls, f"{option}_file"), f"by --{option}") for of in sections]
    return chosen


def _of_folder(changefeed: ChosenChangefeed, state: str) -> list[ChosenSetting]:
    """Where lease and progress are without an etcd."""
    from sidecar.setup.settings import ChosenSetting

    if changefeed.endpoints:
        return []
    usual = f"{FOLDER}/{changefeed.changefeed.name.id}/state"
    return [ChosenSetting("etcd.folder", _absolute(state) or usual, "by --state" if state else "the usual place: PD is out of reach")]


def _of_tidb(ask: Prompts, given: _Account, changefeed: ChosenChangefeed) -> list[ChosenSetting]:
    from sidecar.setup.settings import ChosenSetting, host_port
    from sidecar.setup.sql import ACCOUNT

    known = "a TiDB server that PD knows; a load balancer's address is better"
    first = next(iter(changefeed.tidb), None)
    address, where = ask.answer("--tidb", given.tidb, "TiDB's address (host:port)", default=first, origin=known, check=host_port)
    host, port = host_port(address)
    user, by = ask.answer("--user", given.user, "The sidecar's account in TiDB", default=ACCOUNT, origin="the account of the SQL")
    question = "File of its password (empty: none)"
    secret, named = ask.answer("--password-file", given.password_file, question, default="", origin="none was named")
    return [
        ChosenSetting("source.host", host, where),
        ChosenSetting("source.port", port, where),
        ChosenSetting("source.user", user, by),
        ChosenSetting("source.password_file", _absolute(secret), named),
    ]


def _of_delivery(ask: Prompts, log: str, sinks: list[str], changefeed: ChosenChangefeed) -> list[ChosenSetting]:
    """Raises ConfigError and SinkError for what cannot be a log or a sink."""
    from sidecar.setup.settings import ChosenSetting
    from sidecar.shared.log.disjoint import check_disjoint
    from spark_merge.sinks.registry import open_sinks

    folder, usual = f"file://{FOLDER}/{changefeed.changefeed.name.id}", "the usual place"
    place = "The log (a folder or s3://bucket/prefix)"
    uri, where = ask.answer("--log", log, place, default=f"{folder}/log", origin=usual, check=_check_log)
    uris, by = tuple(sinks), "by --sink"
    if not uris:
        one, by = ask.answer(
            "--sink",
            "",
            "The sink's URI",
            default=f"{folder}/output?format=jsonl",
            origin=usual,
            check=lambda text: open_sinks((text,), log_id=""),
        )
        uris = (one,)
    open_sinks(uris, log_id="")
    check_disjoint(uri, uris)
    return [ChosenSetting("log.uri", uri, where), ChosenSetting("sinks", uris, by)]


def _check_log(uri: str) -> None:
    """Raises ConfigError."""
    from sidecar.shared.errors import ConfigError
    from sidecar.shared.log.storage import log_folder

    try:
        log_folder(uri)
    except ValueError as error:
        raise ConfigError(f"log.uri is no URI: {error}", hint="name a folder, or s3://bucket/prefix") from error


# ---- what is wrong, and what is written -----------------------------------------------------------------------------


def _sql(changefeed: ChosenChangefeed, user: str) -> str:
    from sidecar.setup.sql import account_sql, watermark_sql
    from sidecar.shared.model.nouns import MARK_TABLE

    databases = [name for name in changefeed.databases if name.lower() != MARK_TABLE.schema]
    account = account_sql(
        user,
        databases,
        unnamed=changefeed.unnamed,
        ddl_jobs=changefeed.ddls_hidden and changefeed.feed != "tikv",
        key_values=changefeed.feed == "tikv",
        marks=not changefeed.no_marks,
    )
    return account if changefeed.no_marks else f"{watermark_sql()}\n{account}"


def _written(output: Path, sql: Path | None, changefeed: ChosenChangefeed, chosen: Sequence[ChosenSetting], *, force: bool) -> InitResult:
    """Raises ConfigError for settings that the sidecar would not take, before anything is written."""
    from sidecar.setup.cluster import summary
    from sidecar.setup.findings import findings
    from sidecar.setup.settings import differing, settings_text
    from sidecar.shared.config import read_config

    kept = differing(chosen)
    head = [
        "Written by `ticdc-dump init`. All other settings have their defaults: deploy/config.example.toml explains each.",
        f"Changefeed {changefeed.changefeed.name}: {summary(changefeed.changefeed)}",
    ]
    if changefeed.feed != "tikv":
        head.append(
            "etcd does not say which --tz the TiCDC servers have: set kafka.server_tz unless it is UTC. `ticdc-dump check` compares."
        )
    text = settings_text(kept, head)
    read_config(output, text)
    user = next(str(one.value) for one in chosen if one.setting == "source.user")
    statements = _sql(changefeed, user)
    os.umask(0o077)
    if sql is not None:
        _write(sql, statements, force=force)
    _write(output, text, force=force)
    return InitResult(output, sql, changefeed, kept, findings(changefeed, chosen), statements)


def _write(path: Path, text: str, *, force: bool) -> None:
    """Whole or not at all, for this user alone. Raises ConfigError, RefusedRequest."""
    from sidecar.shared.errors import ConfigError, RefusedRequest
    from sidecar.shared.log.storage import Folder, StorageError, bare, create_exclusively, write_atomically

    folder, data = Folder("file", os.path.dirname(os.path.abspath(path)), meaning=bare), text.encode()
    try:
        if force:
            write_atomically(folder, path.name, data)
            return
        created = create_exclusively(folder, path.name, data)
    except StorageError as error:
        raise ConfigError(f"{path} cannot be written: {error}", hint="name another file with --output or --sql") from error
    if not created:
        raise RefusedRequest(f"{path} exists", hint="name another file, or replace it with --force")


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(name="init", cls=Command, rich_help_panel=Use.PREPARE)(init)
