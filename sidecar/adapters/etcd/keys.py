"""What coordinates the processes of one changefeed: keys with revisions, leases, and transactions that compare. etcd's model.

    EtcdClient    TiCDC's own etcd, or one of the operator's: any number of machines          client.py
    FolderKeys    a local folder: the processes of one machine                                folder.py

Everything that is kept (owner.py, progress.py, history.py) is written for `Keys`, and neither knows which it has. `opening.py` opens
the one that the settings name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from sidecar.shared.config import EtcdSection
from sidecar.shared.errors import ConfigError
from sidecar.shared.ticdc.changefeed import NAME, NAME_FORM, ChangefeedName

ROOT = "/changefeed_dump/v1/"


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A key as it is. `created`: the revision of its creation, another one after it was gone in between; `modified`: of its
    last write. `lease` 0: none."""

    key: str
    value: bytes
    created: int
    modified: int
    lease: int


@dataclass(frozen=True, slots=True)
class Compare:
    """True when the key's `created` or `modified` equals the revision; 0: there is no such key."""

    key: str
    what: Literal["created", "modified"]
    revision: int


@dataclass(frozen=True, slots=True)
class Put:
    key: str
    value: bytes
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    """Everything that begins with `prefix`."""

    prefix: str


@dataclass(frozen=True, slots=True)
class Transaction:
    """The outcome. `entries`: of the requested keys, when it did not succeed. `revision`: etcd's after it."""

    succeeded: bool
    revision: int
    entries: tuple[KeyEntry | None, ...]


def changefeed_root(name: ChangefeedName, incarnation: str) -> str:
    """Where everything of one changefeed is kept, without a slash at its end. Raises ConfigError for a name that cannot be one."""
    check_name(name)
    if not re.fullmatch(r"[A-Za-z0-9_.:+-]+", incarnation):
        raise ConfigError(
            f"incarnation {incarnation!r} of changefeed {name} cannot be part of a key", hint="report this changefeed's create-time"
        )
    return f"{ROOT}{name.cluster}/{name.namespace}/{name.id}/{incarnation}"


def check_name(name: ChangefeedName) -> None:
    """Raises ConfigError."""
    for setting, part in (("cluster", name.cluster), ("namespace", name.namespace), ("id", name.id)):
        if not re.fullmatch(NAME, part):
            raise ConfigError(f"{part!r} cannot be a changefeed's {setting}: expected {NAME_FORM}", hint=f"set changefeed.{setting}")


def after(prefix: str) -> bytes:
    """The first key behind all that begin with `prefix`, which does not end in the last byte there is."""
    data = prefix.encode()
    return data[:-1] + bytes([data[-1] + 1])


@dataclass(frozen=True, slots=True)
class EtcdNamed:
    """By what an operator has named this etcd, for what is said of it. `login`: the way out where it asks for one."""

    endpoints: str = "etcd.endpoints"
    tls: str = "etcd.tls"
    login: str = "set etcd.user and etcd.password_file"
    changefeed: str = "changefeed.id, .namespace and .cluster"


BY_SETTINGS = EtcdNamed()
BY_OPTIONS = EtcdNamed(
    endpoints="--pd",
    tls="--ca, --cert and --key",
    login="--pd has no login for etcd: name the sidecar with --sidecar HOST:PORT",
    changefeed="--changefeed-id, --namespace and --cluster-id",
)


class Keys(Protocol):
    """Safe to share between threads. Calls raise CoordinationLost where no answer comes in time: the call may have been carried out or
    not. ConfigError for what settings name wrongly, StorageFull, CoordinationError for anything else."""

    @property
    def section(self) -> EtcdSection: ...
    @property
    def named(self) -> EtcdNamed: ...

    def close(self) -> None: ...

    def get(self, key: str, *, revision: int = 0) -> KeyEntry | None:
        """As it is, or as it was at `revision`. Raises Compacted for one that is too long ago."""

    def get_prefix(self, prefix: str, *, keys_only: bool = False) -> list[KeyEntry]:
        """Everything that begins with `prefix`, of one revision, in the order of the keys."""

    def members(self) -> tuple[str, ...]:
        """The client addresses, host:port, that the members advertise; none where there are no members."""

    def transact(
        self,
        compares: Sequence[Compare],
        writes: Sequence[Put | Delete],
        *,
        otherwise: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> Transaction:
        """Carry out all `writes` if all `compares` hold, else none, and read the keys `otherwise`. Raises OwnershipLost when a put's lease
        has run out."""

    def grant(self, ttl_s: int) -> int:
        """A new lease's number; it lives for `ttl_s` or more, from when this was called or later."""

    def keep_alive(self, lease: int, *, timeout_s: float | None = None) -> bool:
        """Let the lease begin again. False: it has run out, and there is nothing to keep."""

    def revoke(self, lease: int, *, timeout_s: float | None = None) -> None:
        """End the lease, and its keys with it. Nothing to do when it has run out."""
