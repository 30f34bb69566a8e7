"""`feed = "tikv"`: raw key-values of TiKV's own change feed, and what holds a part of it that does not move."""

from __future__ import annotations

from dataclasses import replace

from sidecar.feeds.contract import Brought, Note
from sidecar.feeds.kv.make import of_key_values
from sidecar.feeds.tikv.puller import TikvPuller, TikvView
from sidecar.shared.config import Config
from sidecar.shared.ticdc.changefeed import Changefeed
from sidecar.shared.ticdc.scope import LiveScope


def make(config: Config, changefeed: Changefeed, scope: LiveScope, _: Note) -> Brought:
    made: list[TikvPuller] = []

    def puller() -> TikvPuller:
        made.append(TikvPuller(config.tikv, name=changefeed.log_id, hold_max_s=config.gc.hold_max_s))
        return made[-1]

    def still_because() -> str:
        return held_by(made[-1].view()) if made else ""

    return replace(
        of_key_values(config, changefeed, scope, puller), still_because=still_because, place=lambda: {"pd": ", ".join(config.tikv.pd)}
    )


def held_by(view: TikvView) -> str:
    """What a part waits for, or why that is unknown; empty: no part is known to wait."""
    waits = next((part.waits_for for part in view.held), view.slowest.waits_for if view.slowest else "")
    return waits or (f"looking for locks failed {view.lock_errors} times: {view.last_lock_error}" if view.lock_errors else "")
