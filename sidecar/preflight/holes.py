"""Which causes of holes are not watched with these settings: a finding each. None of them keeps a dump from being right."""

from __future__ import annotations

import msgspec

from sidecar.preflight.source import patient
from sidecar.shared.config import Config
from sidecar.shared.process.checks import Checking, CheckSkipped, ok, warning
from sidecar.watch.jobs import NO_TIDB
from sidecar.watch.unwatched import unwatched

SETTING = "GRANT SELECT ON mysql.…"


def holes(config: Config) -> Checking[None]:
    """Raises SourceError."""
    texts = list(unwatched(msgspec.structs.replace(config, source=patient(config.source))))
    if any(text == NO_TIDB for text, _ in texts):
        raise CheckSkipped(NO_TIDB)
    for text, by_grant in texts:
        if by_grant:
            what, _, grant = text.rpartition(": ")
            yield warning(
                what, setting=SETTING, hint=f"{grant} TO '{config.source.user}'@'%'; or verify continuously (verify.share_per_day)"
            )
        else:
            yield ok(text)
    if not texts:
        yield ok("holes by DDL jobs, imports, restores and gaps of the changefeed are watched")
