"""The ways of the changes, as `Config.way` calls them."""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.feeds.binlog import make as binlog
from sidecar.feeds.contract import Make
from sidecar.feeds.kafka import make as kafka
from sidecar.feeds.push import make as push
from sidecar.feeds.storage import make as storage
from sidecar.feeds.tikv import make as tikv

MAKES: Mapping[str, Make] = {
    "kafka": kafka.make,
    "push": push.make,
    "push-messages": push.of_sinks,
    "storage": storage.make,
    "tikv": tikv.make,
    "binlog": binlog.make,
}
