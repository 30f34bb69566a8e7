"""`feed = "push"`: raw key-values that custom sinks hand over in TiCDC's place."""

from __future__ import annotations

from dataclasses import replace

from sidecar.config import Config
from sidecar.feeds.contract import Brought, Note
from sidecar.feeds.kv.make import of_key_values
from sidecar.feeds.push.puller import PushPuller
from sidecar.ticdc.changefeed import Changefeed
from sidecar.ticdc.scope import LiveScope


def make(config: Config, changefeed: Changefeed, scope: LiveScope, _: Note) -> Brought:
    brought = of_key_values(config, changefeed, scope, lambda: PushPuller(config.push, changefeed=changefeed.name))
    return replace(brought, place=lambda: {"listen": config.push.listen})
