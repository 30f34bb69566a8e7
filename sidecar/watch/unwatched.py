"""Which causes of holes are not watched with these settings, and what would let them be. For `check`: it reads what the watchers read."""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.adapters.tidb.ddl_history import may_read
from sidecar.adapters.tidb.imports import NotReadable, unread
from sidecar.shared.config import Config
from sidecar.watch.imports import CAUSES, unread_text
from sidecar.watch.jobs import NO_TIDB, SHOWN_ONLY

NO_ETCD = "holes by Lightning, and gaps of the changefeed, are not watched: etcd.endpoints is not TiCDC's etcd (PD's)"


def in_ticdcs_etcd(config: Config) -> bool:
    """Whether the sidecar's etcd is TiCDC's: only then it has the changefeed, and PD's keys."""
    return config.feed != "binlog" and not config.etcd.folder and not config.changefeed.file


def unwatched(config: Config) -> Iterator[tuple[str, bool]]:
    """Each cause in words, and whether a GRANT is all that it lacks. Raises SourceError."""
    source = config.source
    reasons = {table: unread(source, table) for table in CAUSES}
    if NotReadable.NO_TIDB in reasons.values():
        yield NO_TIDB, False
    else:
        if not may_read(source):
            yield SHOWN_ONLY, True
        for table, why in reasons.items():
            if why is not None:
                yield unread_text(table, why), why is NotReadable.NO_RIGHT
    if not in_ticdcs_etcd(config):
        yield NO_ETCD, False
