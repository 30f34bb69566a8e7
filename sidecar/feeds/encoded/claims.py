"""Rows that are larger than a message: TiCDC put them into files (claim-check), and the message only says which.

The file has what the message would have had. A file is taken by its name alone, from the folder as this machine reaches it: TiCDC writes
the rest of the path in different ways. TiCDC removes no file; one that is gone stops with the row that it held.

Sources: pingcap/ticdc pkg/sink/kafka/claimcheck, pkg/sink/codec/common; the recording `large`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence

import msgspec
from msgspec import Struct, json

from sidecar.feeds.encoded.whole_rows import NotWhole
from sidecar.shared.codecs.contract import Claim, Codec
from sidecar.shared.errors import FeedLost, FeedUnsuitable, MessageUnreadable
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Exhausted, Folder, Unreachable
from sidecar.shared.model.nouns import Change, Message

_NAME = re.compile(r"[0-9A-Za-z_-]+\.json")


class _File(Struct):
    key: str | None
    value: str


_decode_file = json.Decoder(_File).decode


class ClaimFiles:
    """A way to fetch. `raw`: files hold a message's value as it is (claim-check-raw-value)."""

    def __init__(self, codec: Codec, folder: Folder, *, raw: bool) -> None:
        self._codec, self._folder, self._raw = codec, folder, raw

    def __call__(self, rows: Sequence[NotWhole], /) -> Sequence[Message]:
        """Raises FeedUnsuitable for a file that is gone, MessageUnreadable for one that is another row's, FeedLost while the folder is
        silent."""
        names = [self._name(row) for row in rows]
        try:
            there = storage.read_files(self._folder, list(dict.fromkeys(names)))
        except (Unreachable, Exhausted) as error:
            raise FeedLost(
                f"{self._folder}, where rows are that are larger than a message, does not answer: {error}",
                hint="make the storage answer this process (network, credentials, clock, rate limits): it continues automatically",
            ) from error
        for row, name in zip(rows, names, strict=True):
            if name not in there:
                raise FeedUnsuitable(
                    f"{row.message.at()}: {row.words()} is in {name}, which is not in {self._folder}",
                    hint="set kafka.claim_check_uri to the folder of claim-check-storage-uri as this machine reaches it, or put the file"
                    " back; let no lifecycle rule remove files sooner than topics forget messages. If it is lost: deploy/RETENTION.md",
                )
        return [self._whole(row, name, there[name]) for row, name in zip(rows, names, strict=True)]

    def _name(self, row: NotWhole) -> str:
        assert isinstance(row.row, Claim), "of this kind"
        name = row.row.file.rpartition("/")[2]
        if _NAME.fullmatch(name) is None:
            raise self._other(row, f"a file {row.row.file!r}, which is none that TiCDC writes")
        return name

    def _whole(self, row: NotWhole, name: str, data: bytes) -> Message:
        if self._raw:
            message = row.message._replace(value=data)
        else:
            try:
                file = _decode_file(data)
                key = None if file.key is None else base64.b64decode(file.key, validate=True)
                message = row.message._replace(key=key, value=base64.b64decode(file.value, validate=True))
            except (msgspec.MsgspecError, UnicodeDecodeError, binascii.Error) as error:
                raise self._other(row, f"a file {name} that is none of TiCDC's: {error}") from error
        changes = [(one.commit_ts, one.schema, one.table) for one in self._codec.envelopes(message) if isinstance(one, Change)]
        if changes != [(row.row.commit_ts, *row.row.table)]:
            raise self._other(row, f"a file {name} of another row")
        return message

    def _other(self, row: NotWhole, what: str) -> MessageUnreadable:
        return MessageUnreadable(
            f"{row.message.at()}: expected {row.words()} in a file; got {what}",
            hint="let nothing but this changefeed write into the folder of claim-check-storage-uri, and set claim-check-raw-value in its"
            " definition as it is; if so, report TiCDC's version and this file",
        )
