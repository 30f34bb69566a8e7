"""`ticdc-dump remove`: a sidecar that is gone for good is forgotten by etcd and PD, and what it leaves elsewhere is named.

    exit code  0 done, or there was nothing      3 refused, or an error
               2 wrong usage, not confirmed    130 interrupted

What is kept, and in which order it goes, lives in `sidecar/run/leaving.py`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sidecar.cli.usage import Command, Use

if TYPE_CHECKING:
    from sidecar.run.leaving import KeptBehind, Reach

EXIT_WRONG_USAGE, EXIT_INTERRUPTED = 2, 130


LOGIN = "--pd has no login for etcd: give --config, whose settings have one"


def remove(
    changefeed_id: Annotated[str, typer.Option("--changefeed-id", "-c", help="The changefeed.", show_default=False)] = "",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", "--keyspace", "-k", help="The changefeed's namespace; TiCDC's new architecture: keyspace.")
    ] = "default",
    cluster_id: Annotated[str, typer.Option(help="TiCDC's --cluster-id.")] = "default",
    config: Annotated[
        Path | None, typer.Option(help="The sidecar's settings: they name the changefeed, PD, log and sinks.", show_default=False)
    ] = None,
    pd: Annotated[str, typer.Option("--pd", "--etcd", help="Without --config: PD's (etcd's) addresses, split by commas.")] = "",
    ca: Annotated[str, typer.Option(help="CA certificate path for TLS to PD.")] = "",
    cert: Annotated[str, typer.Option(help="Certificate path for mutual TLS.")] = "",
    key: Annotated[str, typer.Option(help="Private key path for mutual TLS.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Show what would be removed, and what stays. Removes nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else; with --yes or --dry-run.")] = False,
) -> None:
    """Remove what a stopped sidecar keeps in etcd and PD, and name what it leaves elsewhere. It can be repeated."""
    from contextlib import closing

    from stamina import instrumentation

    from sidecar.adapters.etcd.keys import BY_OPTIONS, BY_SETTINGS
    from sidecar.adapters.etcd.opening import open_keys
    from sidecar.run import leaving

    instrumentation.set_on_retry_hooks([])  # a retry is part of asking; the answer alone is for the user
    if not (yes or dry_run) and (as_json or not sys.stdin.isatty()):
        raise typer.BadParameter("there is no terminal to ask: give it, or --dry-run", param_hint="--yes")
    named = (cluster_id, namespace, changefeed_id)
    reach = _by_config(config, named) if config else _by_options(named, pd, (ca, cert, key))
    try:
        with closing(open_keys(reach.etcd, named=BY_SETTINGS if config else replace(BY_OPTIONS, login=LOGIN))) as client:
            kept = leaving.look(client, reach)
            if not as_json:
                typer.echo("\n".join(to_be_removed(kept)))
            if not dry_run:
                if not (yes or typer.confirm("Remove it?")):
                    raise typer.Exit(EXIT_WRONG_USAGE)
                leaving.remove(client, reach, kept)
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if as_json:
        typer.echo(json.dumps({"ok": True, "removed": not dry_run, **kept.to_json()}))
    else:
        typer.echo("\n".join([*(["nothing was removed"] if dry_run else ["removed"]), *staying(kept)]))


def _by_config(path: Path, named: tuple[str, str, str]) -> Reach:
    """What is given beside the settings must say the same: settings of another changefeed would name its log."""
    from sidecar.run.leaving import reach_of
    from sidecar.shared.config import read_config
    from spark_merge.sinks.registry import leaves

    reach = reach_of(read_config(path), leaves)
    if named[2] and named[2] != reach.name.id:
        raise typer.BadParameter(f"{path} is of changefeed {reach.name}; leave --changefeed-id out", param_hint="--config")
    return reach


def _by_options(named: tuple[str, str, str], pd: str, tls: tuple[str, str, str]) -> Reach:
    from sidecar.run.leaving import reach_by
    from sidecar.shared.config import EtcdSection, Tls
    from sidecar.shared.ticdc.changefeed import ChangefeedName

    endpoints = pd_endpoints(pd)
    if not endpoints or not named[2]:
        raise typer.BadParameter("give --config FILE, or --changefeed-id and --pd", param_hint="--config")
    ca_file, cert_file, key_file = tls
    return reach_by(
        ChangefeedName(*named), EtcdSection(endpoints=endpoints, tls=Tls(ca_file=ca_file, cert_file=cert_file, key_file=key_file))
    )


def pd_endpoints(text: str) -> tuple[str, ...]:
    """Addresses split by commas, as etcd's client takes them: TiCDC's own commands have them as URLs."""
    return tuple(one.strip().rpartition("://")[2].rstrip("/") for one in text.split(",") if one.strip())


def to_be_removed(kept: KeptBehind) -> list[str]:
    lines = [f"changefeed {kept.name}:"]
    if not kept.keys:
        lines.append("  nothing of it is in etcd")
    history = sum("/history/" in key for key in kept.keys)
    lines += [f"  etcd key {key}" for key in kept.keys if "/history/" not in key]
    lines += [f"  the history of {history:,} dumps and verifications in etcd"] if history else []
    lines += [f"  PD's service safe point {name}, if there is one" for name in kept.safe_points]
    lines += [f"  {kept.drainer}: offline from then on" for _ in [kept.drainer] if kept.drainer]
    return lines


def staying(kept: KeptBehind) -> list[str]:
    text_lines = ["what stays:"]
    for one in kept.left:
        text_lines += [f"  {one.what}", f"    {one.how}"]
    return text_lines


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(name="remove", cls=Command, rich_help_panel=Use.RARE)(remove)
