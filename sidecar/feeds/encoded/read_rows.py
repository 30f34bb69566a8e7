"""Rows that are larger than a message: TiCDC sent their handle key (handle-key-only), and they are read from TiDB, as of their commit_ts;
what they were before, as of the moment before it. So they must be read before TiDB's GC takes that moment away. A row that can never be
read, for that or another reason, is logged as such: delivery stops at it, and an operator skips it there and dumps the row.

A row that was read is a message of `simple`, whatever the feed's protocol: in a log of another one its value shows that
(spark_merge/codecs/decode/rows.py). What TiDB answers is exactly what TiCDC would have sent: both are the row of one commit. But for two
things. Beside a DROP COLUMN of its table SQL no longer shows the column, which the log's tables still have: the decoder refuses the row,
and who skips it dumps it again. And a change that came whole once and comes by its key again, as TiCDC was restarted with another
max-message-bytes, is no repeat by its bytes: the log has it twice, with the same commit_ts and image (P5).

Source: pingcap/ticdc pkg/sink/codec/simple/decoder.go (assembleHandleKeyOnlyRowChangedEvent).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from sidecar.feeds.encoded.keys import key_texts
from sidecar.feeds.encoded.whole_rows import AT_ONCE_MAX, NotWhole
from sidecar.shared.codecs.contract import Codec, KeyAlone
from sidecar.shared.codecs.simple import READ_ROW_HEAD, Simple, encode_row, encode_unread_row
from sidecar.shared.columns.simple import written
from sidecar.shared.columns.values import UnfitValue, shown
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.errors import FeedLost, FeedUnsuitable, SourceError, SourceGone
from sidecar.shared.model.nouns import Change, CommitTs, Envelope, Mark, Message, TableName
from sidecar.shared.reads.row import KeyOf, RowImage


class _Unread(Exception):
    """Why a row will never be read."""


class RowsInTime(Protocol):
    """As adapters.tidb.schema.TidbSchemas. Any thread."""

    def row(self, table: TableName, at_ts: CommitTs, columns: Collection[str], key_of: KeyOf) -> RowImage | None: ...


class KeyRows:
    """A way to fetch. `protocol`: in which the keys are written. `zone`: the TiCDC server's."""

    def __init__(self, protocol: str, rows: RowsInTime, zone: ServerZone) -> None:
        self._protocol, self._rows, self._zone = protocol, rows, zone
        self._readers = ThreadPoolExecutor(AT_ONCE_MAX, thread_name_prefix="feed-large-rows")

    def __call__(self, rows: Sequence[NotWhole], /) -> Sequence[Message]:
        """Raises FeedUnsuitable where TiDB has no such row, FeedLost while it does not answer."""
        return list(self._readers.map(self._read, rows))

    def close(self) -> None:
        self._readers.shutdown(wait=False, cancel_futures=True)

    def _read(self, one: NotWhole) -> Message:
        row = one.row
        assert isinstance(row, KeyAlone), "of this kind"
        try:
            after = None if row.after is None else self._image(one, row.table, row.commit_ts, row.after)
            before = None if row.before is None else self._image(one, row.table, CommitTs(row.commit_ts - 1), row.before)
            value = encode_row(row.table, row.commit_ts, before=before, after=after)
        except _Unread as unread:
            value = encode_unread_row(row.table, row.commit_ts, deleted=row.after is None, why=str(unread))
        return one.message._replace(key=b"", value=value)

    def _image(self, one: NotWhole, table: TableName, at_ts: CommitTs, cells: Mapping[str, Any]) -> dict[str, Any]:
        try:
            image = self._rows.row(table, at_ts, cells.keys(), lambda columns: key_texts(self._protocol, cells, columns, self._zone))
        except (FeedUnsuitable, SourceGone) as error:
            raise _Unread(f"{error.message}; its key in the message: {shown(cells)}") from error
        except SourceError as error:
            kind = FeedLost if error.retryable else FeedUnsuitable
            what = f"{one.words()} is larger than a message, and is read from TiDB as of TSO {at_ts}: {error.message}"
            raise kind(f"{one.message.at()}: {what}", hint=error.hint) from error
        if image is None:
            raise FeedUnsuitable(
                f"{one.message.at()}: {one.words()} is larger than a message, and TiDB has no such row as of TSO {at_ts}",
                hint="set source to the changefeed's upstream TiDB, and kafka.server_tz to the TiCDC server's --tz",
            )
        try:
            return {column.name: written(text, column) for column, text in zip(image.columns, image.texts, strict=True)}
        except UnfitValue as error:
            raise _Unread(f"{error}; its key in the message: {shown(cells)}") from error


class CodecWithReadRows:
    """`codec`, and rows that were read."""

    def __init__(self, codec: Codec) -> None:
        self._codec, self._read = codec, Simple()

    @property
    def name(self) -> str:
        return self._codec.name

    def envelopes(self, message: Message) -> list[Envelope]:
        return self._of(message.value).envelopes(message)

    def identity(self, change: Change) -> Hashable:
        return self._of(change.value).identity(change)

    def mark(self, change: Change) -> Mark | None:
        return self._of(change.value).mark(change)

    def _of(self, value: bytes | None) -> Codec:
        return self._read if value is not None and value.startswith(READ_ROW_HEAD) else self._codec
