"""Rows that are larger than a message: TiCDC put them into files (claim-check), and the message only says which.

Files are as shared/codecs/claim_file.py has them, in the folder as this machine reaches it. TiCDC removes no file; one that is gone stops
with the row that it held.
"""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.feeds.encoded.whole_rows import NotWhole
from sidecar.shared.codecs.claim_file import NotThisRow, file_name, whole_message
from sidecar.shared.codecs.contract import Claim, Codec
from sidecar.shared.errors import FeedLost, FeedUnsuitable, MessageUnreadable
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Exhausted, Folder, Unreachable
from sidecar.shared.model.nouns import Message


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
        return [self._whole(row, there[name]) for row, name in zip(rows, names, strict=True)]

    def _name(self, row: NotWhole) -> str:
        try:
            return file_name(_claim(row))
        except NotThisRow as error:
            raise self._other(row, error) from error

    def _whole(self, row: NotWhole, data: bytes) -> Message:
        try:
            return whole_message(row.message, _claim(row), data, self._codec, raw=self._raw)
        except NotThisRow as error:
            raise self._other(row, error) from error

    def _other(self, row: NotWhole, what: NotThisRow) -> MessageUnreadable:
        return MessageUnreadable(
            f"{row.message.at()}: expected {row.words()} in a file; got {what}",
            hint="let nothing but this changefeed write into the folder of claim-check-storage-uri, and set claim-check-raw-value in its"
            " definition as it is; if so, report TiCDC's version and this file",
        )


def _claim(row: NotWhole) -> Claim:
    assert isinstance(row.row, Claim), "of this kind"
    return row.row
