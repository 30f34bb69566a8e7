"""What TiCDC keeps about its changefeeds in etcd. Reading only: nothing of /tidb/cdc is ever written here.

    /tidb/cdc/{cluster}/{namespace}/changefeed/info/{id}      ChangeFeedInfo, JSON
    /tidb/cdc/{cluster}/{namespace}/changefeed/status/{id}    ChangeFeedStatus, JSON

The same for both architectures (tiflow pkg/etcd/etcdkey.go, cdc/model/changefeed.go). The JSON is returned as it is:
`shared/ticdc/changefeed_info.py` reads it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from sidecar.adapters.etcd.keys import KeyEntry, Keys, check_name
from sidecar.shared.errors import ConfigError, FeedUnsuitable
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.ticdc.changefeed import ChangefeedName
from sidecar.shared.ticdc.resumes import Life

TICDC_ROOT = "/tidb/cdc/"


class _State(msgspec.Struct, frozen=True):
    state: str = ""


class _Status(msgspec.Struct, frozen=True):
    checkpoint_ts: Annotated[int, Meta(gt=0)] = msgspec.field(name="checkpoint-ts")


def read_changefeed_info(client: Keys, name: ChangefeedName) -> bytes:
    """ChangeFeedInfo as TiCDC wrote it; it holds the sink's password. Raises ConfigError that lists the changefeeds there are."""
    entry = client.get(_key(name, "info"))
    if entry is not None:
        return entry.value
    there = list_changefeeds(client)
    names = "; ".join(map(str, there)) if there else "none at all"
    raise ConfigError(
        f"changefeed {name} (cluster/namespace/id) does not exist; etcd at {', '.join(client.section.endpoints)} has: {names}",
        hint=f"set {client.named.changefeed}, or {client.named.endpoints} to the PD of the changefeed's own cluster",
    )


def read_checkpoint_ts(client: Keys, name: ChangefeedName) -> CommitTs | None:
    """How far TiCDC has sent everything; None before it recorded any. Raises FeedUnsuitable if what is there is no status."""
    entry = client.get(_key(name, "status"))
    return None if entry is None else _checkpoint_ts(entry)


def _checkpoint_ts(entry: KeyEntry) -> CommitTs:
    try:
        return CommitTs(msgspec.json.decode(entry.value, type=_Status).checkpoint_ts)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise FeedUnsuitable(
            f"etcd key {entry.key} is not a changefeed's status: {error}", hint="check TiCDC's version against the supported ones"
        ) from error


def read_life(client: Keys, name: ChangefeedName, *, revision: int = 0) -> Life | None:
    """How the changefeed stands, or stood when etcd was at `revision`; None if it was not there. Raises Compacted, FeedUnsuitable."""
    info, status = (client.get(_key(name, what), revision=revision) for what in ("info", "status"))
    if info is None:
        return None
    try:
        state = msgspec.json.decode(info.value, type=_State).state
    except (msgspec.MsgspecError, RecursionError) as error:
        raise FeedUnsuitable(
            f"etcd key {info.key} is not a changefeed's definition: {error}", hint="check TiCDC's version against the supported ones"
        ) from error
    return Life(info.modified, state, None if status is None else _checkpoint_ts(status))


def read_definition(client: Keys, name: ChangefeedName, *, revision: int = 0) -> KeyEntry | None:
    """ChangeFeedInfo as it is, or as it was when etcd was at `revision`; None if it was not there. Raises Compacted."""
    return client.get(_key(name, "info"), revision=revision)


def list_changefeeds(client: Keys, cluster: str | None = None) -> list[ChangefeedName]:
    """Of one TiCDC cluster, or of all that use this etcd."""
    prefix = TICDC_ROOT if cluster is None else f"{TICDC_ROOT}{cluster}/"
    names = []
    for entry in client.get_prefix(prefix, keys_only=True):
        match entry.key.removeprefix(TICDC_ROOT).split("/"):
            case [of, namespace, "changefeed", "info", id]:
                names.append(ChangefeedName(of, namespace, id))
    return names


def _key(name: ChangefeedName, what: str) -> str:
    check_name(name)
    return f"{TICDC_ROOT}{name.cluster}/{name.namespace}/changefeed/{what}/{name.id}"
