"""What a protocol's envelope side does: message bytes to ordered things. Rows stay bytes.

Only what order needs is parsed (commit_ts, table, delete or put), by a typed partial decode. The Spark side
(`spark_merge/codecs/decode`) reads the same `key` and `value` bytes later, in columns.

`Codec` is one protocol with its settings; `CodecModule` is the file of one of TiCDC's protocols, as its record has it (registry.py).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

from sidecar.shared.codecs.compression import Compression
from sidecar.shared.model.nouns import Change, CommitTs, Envelope, Mark, MarkKind, Message, TableName

IDENTITY_BYTES = 16
"""128 bits: two of a million changes of one commit_ts are taken for one with a chance of 1 in 10^27."""


class Claim(NamedTuple):
    """A row that is in a file: `file` is where its message says."""

    file: str
    table: TableName
    commit_ts: CommitTs


class KeyAlone(NamedTuple):
    """A row of which the message has the handle key's cells alone, as the protocol writes them, by column: of the row before the change
    and after it; None where there was none."""

    table: TableName
    commit_ts: CommitTs
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


Part: TypeAlias = "Claim | KeyAlone | tuple[bytes | None, bytes | None]"
"""One row of a message: one that is not whole, or key and value of a message of its own."""


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


class CodecWithParts(Codec, Protocol):
    """One of a protocol whose rows can be larger than a message."""

    def parts(self, message: Message) -> list[Part]:
        """Where a row of the message is not whole: its rows one by one. Empty for a message that is whole. Raises as `envelopes`."""


class ReadBackCodec(Protocol):
    """Reads what our own sink writes in a protocol, and nothing else: such messages are never a feed's."""

    @property
    def name(self) -> str:
        """As of Codec."""

    def envelopes(self, message: Message) -> list[Envelope]:
        """As of Codec."""

    def parts(self, message: Message) -> list[Part]:
        """As of CodecWithParts."""


class TableDescription(NamedTuple):
    """A table as a message describes it: its columns' names in the message's order; `before`: of the DDL `query`, None where it is none or
    there was no table. `built_ms`: Unix time at which TiCDC made the message."""

    table: TableName
    columns: tuple[str, ...]
    before: tuple[str, ...] | None
    query: str
    built_ms: int


class CodecWithDescriptions(Codec, Protocol):
    """One of a protocol whose messages describe tables."""

    def form(self, message: Message) -> TableDescription | None:
        """None: of no table. Raises as `envelopes`."""


class ReadBackModule(Protocol):
    """A module: the codec of messages that only our own sink writes so."""

    __name__: str

    def codec(self, compression: Compression) -> ReadBackCodec: ...


class CodecModule(Protocol):
    """A module: its codec, and what TiCDC would write, for a replay. Messages are a key and a value."""

    __name__: str

    def codec(self, compression: Compression) -> Codec: ...

    def encode_mark(
        self,
        *,
        commit_ts: int,
        row_id: int,
        changefeed_id: str,
        uuid: str,
        kind: MarkKind,
        previous: tuple[str, MarkKind] | None,
        now_ms: int,
    ) -> tuple[bytes | None, bytes]:
        """One version of the watermark row, not compressed. `previous` None makes it an insert."""

    def encode_resolved(self, ts: int, now_ms: int) -> tuple[bytes | None, bytes]:
        """A resolved mark, not compressed."""

    def packed(self, value: bytes, pack: Callable[[bytes], bytes]) -> bytes:
        """A message's value, compressed with `pack` where TiCDC compresses it."""
