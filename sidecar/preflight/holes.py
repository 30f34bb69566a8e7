"""Which causes of holes are not watched with these settings: a finding each. None of them keeps a dump from being right."""

from __future__ import annotations

import msgspec

from sidecar.adapters.etcd.keys import Keys
from sidecar.preflight.source import patient
from sidecar.shared.config import Config
from sidecar.shared.process.checks import Checking, CheckSkipped, ok, warning
from sidecar.shared.ticdc.changefeed import Changefeed
from sidecar.watch.jobs import NO_TIDB
from sidecar.watch.unwatched import unwatched

SETTING = "GRANT SELECT ON mysql.…"
VERIFY = "or verify continuously (verify.share_per_day)"


def holes(config: Config, client: Keys | None, changefeed: Changefeed | None) -> Checking[None]:
    """`client`, `changefeed`: as of `unwatched`. Raises SourceError, CoordinationError."""
    every = list(unwatched(msgspec.structs.replace(config, source=patient(config.source)), client, changefeed))
    if any(one.text == NO_TIDB for one in every):
        raise CheckSkipped(NO_TIDB)
    for one in every:
        if one.tables:
            grants = "; ".join(f"GRANT SELECT ON {table} TO '{config.source.user}'@'%'" for table in one.tables)
            yield warning(one.text.rpartition(": ")[0], setting=SETTING, hint=f"{grants}; {VERIFY}")
        elif one.keys:
            yield warning(one.text, setting="etcd.user", hint=f"let that user of etcd read {one.keys}; {VERIFY}")
        else:
            yield ok(one.text)
    if not every:
        yield ok("holes by DDL jobs, imports, restores and gaps of the changefeed are watched")
