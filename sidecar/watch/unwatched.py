"""Which causes of holes are not watched with these settings, and what would let them be. For `check`: it reads what the watchers read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sidecar.adapters.etcd.cluster import gc_safe_point, safe_point_key
from sidecar.adapters.etcd.keys import Keys
from sidecar.adapters.tidb.ddl_history import DDL_TABLES, may_read
from sidecar.adapters.tidb.imports import NotReadable, unread
from sidecar.shared.config import Config
from sidecar.shared.errors import ConfigError
from sidecar.shared.ticdc.changefeed import Changefeed
from sidecar.watch.gaps import NO_GC, NO_UPSTREAM
from sidecar.watch.imports import CAUSES, unread_text
from sidecar.watch.jobs import NO_TIDB, SHOWN_ONLY
from sidecar.watch.leases import NO_LEASES, PREFIX

NO_ETCD = "holes by Lightning, and gaps of the changefeed, are not watched: etcd.endpoints is not TiCDC's etcd (PD's)"


def in_ticdcs_etcd(config: Config) -> bool:
    """Whether the sidecar's etcd is TiCDC's: only then it has the changefeed, and PD's keys."""
    return config.feed != "binlog" and not config.etcd.folder and not config.changefeed.file


class Unwatched(NamedTuple):
    """A cause in words. What would let it be watched: `tables` that the account may not read, `keys` that etcd's user may not read."""

    text: str
    tables: tuple[str, ...] = ()
    keys: str = ""


def unwatched(config: Config, client: Keys | None, changefeed: Changefeed | None) -> Iterator[Unwatched]:
    """`client`, `changefeed`: None where that cannot be read, which is a finding of its own. Raises SourceError, CoordinationError."""
    source = config.source
    reasons = {table: unread(source, table) for table in CAUSES}
    if NotReadable.NO_TIDB in reasons.values():
        yield Unwatched(NO_TIDB)
    else:
        if not may_read(source):
            yield Unwatched(SHOWN_ONLY, DDL_TABLES)
        for table, why in reasons.items():
            if why is not None:
                yield Unwatched(unread_text(table, why), (table,) if why is NotReadable.NO_RIGHT else ())
    if not in_ticdcs_etcd(config):
        yield Unwatched(NO_ETCD)
    elif client is not None:
        yield from _of_etcd(client, changefeed if config.encoded else None)


def _of_etcd(client: Keys, changefeed: Changefeed | None) -> Iterator[Unwatched]:
    try:
        client.get_prefix(PREFIX, keys_only=True)
    except ConfigError as error:
        yield Unwatched(f"{NO_LEASES}: {error.message}", keys=PREFIX)
    if changefeed is None:
        return
    if not changefeed.upstream_id:
        yield Unwatched(NO_UPSTREAM)
        return
    try:
        gc_safe_point(client, changefeed.upstream_id)
    except ConfigError as error:
        yield Unwatched(f"{NO_GC}: {error.message}", keys=safe_point_key(changefeed.upstream_id))
