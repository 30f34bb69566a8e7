"""What a protocol's envelope side does: message bytes to ordered things. Rows stay bytes.

Only what order needs is parsed (commit_ts, table, delete or put), by a typed partial decode. The Spark side
(`spark_merge/decode`) reads the same `key` and `value` bytes later, in columns.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from sidecar.core.model import Change, Envelope, Mark, Message


class Codec(Protocol):
    """One protocol with its settings. Pure: no I/O, no clock."""

    @property
    def name(self) -> str:
        """As in the log's `codec` column: `open-protocol`, `canal-json`."""

    def envelopes(self, message: Message) -> list[Envelope]:
        """What the message holds, in its order.

        Raises MessageUnreadable (bytes that do not follow the protocol, an unknown type) or FeedUnsuitable (a setting
        of the changefeed that makes a dump impossible), naming lane and position.
        """

    def identity(self, change: Change) -> Hashable:
        """Equal for two arrivals of one change (table, op and images), different for different changes. Called only
        for changes of equal commit_ts."""

    def mark(self, change: Change) -> Mark | None:
        """The watermark row's new version; None for its deletion."""
