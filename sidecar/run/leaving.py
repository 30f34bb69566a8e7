"""Taking a sidecar away for good (`ticdc-dump remove`): what it keeps in etcd and PD is removed, what it wrote elsewhere is named.

    PD      what keeps old versions there (shared/tikv/gc.py); a `tikv` feed's keeps them for a day after its last renewal
    pumps   our entry as a drainer, offline from then on: they wait for us no more
    etcd    {ROOT}{cluster}/{namespace}/{id}/: epoch, owner, progress of each incarnation
    left    log, sinks' outputs, the watermark table's row and database, the account at TiDB, the consumer group, the filter's rule, the
            changefeed itself: data of the operator's, each with the way to remove it, and with who else may use it

- Refused while a sidecar owns the changefeed. While it is removed we own it ourselves, so that one that begins meanwhile stands by, and
  loses nothing of its own.
- PD first: its safe points are named after incarnations that etcd's keys tell of. Whatever it is ended by, it can be done again, and
  finds what is left to be done.
- Where the keys are gone already, incarnations are also known by TiCDC's own definition and by the log.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

from sidecar.adapters.etcd.changefeed import read_changefeed_info
from sidecar.adapters.etcd.keys import ROOT, Delete, Keys, changefeed_root, check_name
from sidecar.adapters.etcd.owner import EtcdOwner, OwnerHolder, owner
from sidecar.adapters.tidb.source import mark_row_id
from sidecar.binlog.nodes import OFFLINE
from sidecar.feeds.binlog.drainer import leave
from sidecar.feeds.binlog.make import nodes_of, pd_of
from sidecar.feeds.kafka.make import group_of
from sidecar.run.changefeed_watch import read_changefeed
from sidecar.shared.config import Config, EtcdSection, TikvSection
from sidecar.shared.errors import ConfigError, RefusedRequest, TicdcDumpError
from sidecar.shared.log import storage
from sidecar.shared.log.identity import CHANGEFEED_NAME
from sidecar.shared.log.layout import is_manifest
from sidecar.shared.model.nouns import MARK_TABLE
from sidecar.shared.process.kept_secrets import without_secrets
from sidecar.shared.sql.text import quoted_text
from sidecar.shared.ticdc.changefeed import ChangefeedName
from sidecar.shared.ticdc.changefeed_info import changefeed
from sidecar.shared.tikv.gc import VersionHold, reads_id, service_id
from sidecar.shared.tikv.pd import PdClient, pd_section

LEASE_S = 10
"""Longer than PD takes to answer; a removal that is killed holds a sidecar up for so long."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Where a sidecar keeps something. `config`: its settings, if they are at hand: they alone tell of log and sinks. `leaves`: of a sink's
    URI, how what is ours beside its output is removed; empty for nothing."""

    name: ChangefeedName
    etcd: EtcdSection
    pd: TikvSection
    config: Config | None = None
    leaves: Callable[[str], str] = lambda _: ""


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """What stays: what it is, and how it is removed."""

    what: str
    how: str


@dataclass(frozen=True, slots=True)
class KeptBehind:
    """What there is of a sidecar. `keys`: in etcd. `safe_points`: names that PD may keep one under. `left`: what `remove` leaves.
    `drainer`: its entry in TiDB-Binlog's registry, by which pumps wait for it; empty for none."""

    name: ChangefeedName
    roots: tuple[str, ...]
    keys: tuple[str, ...]
    safe_points: tuple[str, ...]
    left: tuple[LeftBehind, ...]
    drainer: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "changefeed": {"cluster": self.name.cluster, "namespace": self.name.namespace, "id": self.name.id},
            "etcd_keys": list(self.keys),
            "service_safe_points": list(self.safe_points),
            "drainer": self.drainer,
            "left": [{"what": one.what, "how": one.how} for one in self.left],
        }


def reach_of(config: Config, leaves: Callable[[str], str] = lambda _: "") -> Reach:
    section = config.changefeed
    return Reach(ChangefeedName(section.cluster, section.namespace, section.id), config.etcd, pd_section(config), config, leaves)


def reach_by(name: ChangefeedName, etcd: EtcdSection) -> Reach:
    """Without settings: PD has both."""
    return Reach(name, etcd, TikvSection(pd=etcd.endpoints, tls=etcd.tls))


def look(client: Keys, reach: Reach) -> KeptBehind:
    """Reads only. Raises RefusedRequest while a sidecar owns the changefeed, and what etcd and PD raise."""
    name = reach.name
    check_name(name)
    base = f"{ROOT}{name.cluster}/{name.namespace}/{name.id}/"
    keys = [entry.key for entry in client.get_prefix(base, keys_only=True)]
    defined = _defined(client, reach)
    in_etcd = {key.removeprefix(base).partition("/")[0] for key in keys}
    known = sorted(in_etcd | {defined, _of_log(reach)} - {""})
    roots = tuple(changefeed_root(name, incarnation) for incarnation in known)
    for root in roots:
        if holder := owner(client, root):
            raise _owned(name, holder)
    holders = (one(f"{name}/{incarnation}") for incarnation in known for one in (service_id, reads_id))
    safe_points = tuple(holders) if _is_pd(reach.pd) else ()
    return KeptBehind(name, roots, tuple(keys), safe_points, tuple(_left(reach, is_defined=bool(defined))), _drainer(reach.config))


def remove(client: Keys, reach: Reach, kept: KeptBehind) -> None:
    """Raises as `look`; nothing of etcd is removed then."""
    if not kept.keys and not kept.safe_points and not kept.drainer:
        return
    with ExitStack() as held:
        owning = [_own(client, root, kept.name, held) for root in kept.roots]
        if kept.safe_points:
            pd = held.enter_context(closing(PdClient(reach.pd)))
            for name in kept.safe_points:
                pd.forget_versions(name)
                VersionHold(pd, name, keep_s=0, hold_max_s=0, keyspace=kept.name.namespace).let_go()
        if kept.drainer and reach.config is not None:
            nodes = held.enter_context(closing(nodes_of(reach.config)))
            leave(nodes, held.enter_context(closing(pd_of(reach.config.binlog))).tso())
        for mine in owning:
            mine.fenced([Delete(f"{mine.root}/")])


def _own(client: Keys, root: str, name: ChangefeedName, held: ExitStack) -> EtcdOwner:
    mine = EtcdOwner(client, root, lease_s=LEASE_S, holder=OwnerHolder(socket.gethostname(), os.getpid(), "none: ticdc-dump remove"))
    held.callback(mine.release)
    if mine.acquire(timeout_s=0) is None:
        raise _owned(name, owner(client, root))
    return mine


def _owned(name: ChangefeedName, holder: OwnerHolder | None) -> RefusedRequest:
    who = f"process {holder.pid} on {holder.host}, reached at {holder.address}, since {holder.since}" if holder else "one that just began"
    return RefusedRequest(
        f"a sidecar owns changefeed {name}: {who}; nothing was removed",
        hint="stop it and its standby (systemctl disable --now, kubectl scale --replicas=0), wait until the lease has ended"
        " (etcd.lease_s), then do this again",
    )


def _is_pd(section: TikvSection) -> bool:
    if not section.pd:
        return False
    with closing(PdClient(section)) as pd:
        return pd.answers_as_pd()


def _defined(client: Keys, reach: Reach) -> str:
    """The incarnation that TiCDC has now, as far as is known; empty for none."""
    try:
        if reach.config is not None and reach.config.changefeed.file:
            return read_changefeed(client, reach.config).incarnation
        return changefeed(reach.name, read_changefeed_info(client, reach.name)).incarnation
    except ConfigError:  # it was removed, which is what most who leave have done before
        return ""


def _drainer(config: Config | None) -> str:
    """The key of its entry, unless that is given up already."""
    if config is None or config.feed != "binlog":
        return ""
    with closing(nodes_of(config)) as nodes:
        mine = nodes.mine()
    return "" if mine is None or mine.state == OFFLINE else nodes.own


def _of_log(reach: Reach) -> str:
    """The incarnation whose log it is; empty where the log is not known, not there, or another changefeed's."""
    if reach.config is None:
        return ""
    try:
        identity = _identity(storage.log_folder(reach.config.log.uri))
    except TicdcDumpError:  # `_left` reports it
        return ""
    return identity.removeprefix(f"{reach.name}/") if identity.startswith(f"{reach.name}/") else ""


def _identity(folder: storage.Folder) -> str:
    if not storage.exists(folder, CHANGEFEED_NAME):
        return ""
    return storage.read_file(folder, CHANGEFEED_NAME).decode(errors="replace").partition("\n")[0]


# ---- what stays -------------------------------------------------------------------------------------------------------


def _left(reach: Reach, *, is_defined: bool) -> Iterator[LeftBehind]:
    name, config = reach.name, reach.config
    if config is None:
        yield LeftBehind("log and sinks' outputs, wherever its settings say", "give --config to have them named")
    else:
        yield _log(reach, config)
        for uri in config.sinks:
            how = "it is yours. It can be continued with this log only: a sidecar with a new log needs an empty output"
            yield LeftBehind(f"output of sink {without_secrets(uri)}", ". ".join(filter(None, (how, _beside(reach, uri)))))
    if is_defined:
        how = (
            f"first of all, as the next steps are changes too: {_changefeed_command('pause', name)}; take the rule out of the changefeed's"
        )
        how += f" configuration file; {_changefeed_command('update', name)} --config FILE; {_changefeed_command('resume', name)}"
        yield LeftBehind(f"the rule {MARK_TABLE.schema}.* in filter.rules of changefeed {name}", how)
    row = mark_row_id(name)
    yield LeftBehind(f"a row of {MARK_TABLE} in TiDB", f"DELETE FROM {MARK_TABLE} WHERE changefeed_id = '{row}';")
    how = f"if no sidecar of another changefeed uses it (it would have a row there): DROP DATABASE {MARK_TABLE.schema};"
    yield LeftBehind(f"database {MARK_TABLE.schema} in TiDB", how)
    if config is not None:
        account = f"{quoted_text(config.source.user)}@'%'"
        yield LeftBehind(f"the account {account} in TiDB", f"if no other sidecar or program uses it: DROP USER {account};")
    if config is not None and config.feed == "kafka":
        group = group_of(name, config.kafka)
        yield LeftBehind(f"consumer group {group} in Kafka", f"kafka-consumer-groups.sh --bootstrap-server … --delete --group {group}")
    if is_defined:
        how = (
            f"only if nothing else reads what it writes; others may have used it before the sidecar: {_changefeed_command('remove', name)}"
        )
        yield LeftBehind(f"changefeed {name} in TiCDC", how)


def _changefeed_command(command: str, name: ChangefeedName) -> str:
    """`-n` is `--namespace`; TiCDC's new architecture calls it `-k`, `--keyspace`."""
    namespace = "" if name.namespace == "default" else f" -n {name.namespace}"
    return f"cdc cli changefeed {command} -c {name.id}{namespace}"


def _beside(reach: Reach, uri: str) -> str:
    try:
        return reach.leaves(uri)
    except TicdcDumpError:  # a sink that never was made leaves nothing
        return ""


def _log(reach: Reach, config: Config) -> LeftBehind:
    """Reported where it cannot be read: that is no reason to keep anything elsewhere."""
    try:
        folder = storage.log_folder(config.log.uri)
        identity = _identity(folder)
        segments = sum(map(is_manifest, storage.list_names(folder, deep=False))) if identity else 0
    except TicdcDumpError as error:
        return LeftBehind(f"log {without_secrets(config.log.uri)}, which could not be looked at: {error.message}", error.hint)
    if not identity:
        return LeftBehind(f"log {folder}: nothing is there", "nothing")
    if not identity.startswith(f"{reach.name}/"):
        return LeftBehind(f"log {folder}, which is of changefeed {identity}", "leave it alone; log.uri names another changefeed's log")
    return LeftBehind(f"log {folder}, {segments} segments", "delete the folder when no sink needs it any more")
