"""What a protocol's envelope side does: message bytes to ordered things. Rows stay bytes.

Only what order needs is parsed (commit_ts, table, delete or put), by a typed partial decode. The Spark side
(`spark_merge/decode`) reads the same `key` and `value` bytes later, in columns.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from sidecar.core.model import Change, Envelope, Mark, Message

IDENTITY_BYTES = 16
"""128 bits: two of a million changes of one commit_ts are taken for one with a chance of 1 in 10^27."""


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
        """Equal for two arrivals of one change (table in any case, op and images), different for different changes. Called only
        for changes of equal commit_ts, and kept for each of them: a digest of IDENTITY_BYTES, not the images. Two arrivals
        of one change must also have values of one length: what differs between them (when TiCDC built the message, the
        order of a map) does not change it."""

    def mark(self, change: Change) -> Mark | None:
        """The watermark row's new version; None for its deletion."""
