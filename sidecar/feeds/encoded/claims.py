"""Rows that are larger than a message: TiCDC put them into files (claim-check), and the message only says which.

The file has what the message would have had, so each such row becomes a message of its own, at the same position. What else is in the
message is another one. A file is taken by its name alone, from the folder as this machine reaches it: TiCDC writes the rest of the path in
different ways. TiCDC removes no file; one that is gone stops with the row that it held.

Sources: pingcap/ticdc pkg/sink/kafka/claimcheck, pkg/sink/codec/common; the recording `large`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct, json

from sidecar.feeds.around import NotifyingFeedAround
from sidecar.feeds.contract import NotifyingFeed
from sidecar.ports import NO_READ_ENDS, NOT_KNOWN
from sidecar.shared.codecs.contract import Claim, CodecWithClaims
from sidecar.shared.errors import FeedLost, FeedUnsuitable, MessageUnreadable
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Exhausted, Folder, Unreachable
from sidecar.shared.model.nouns import Change, Lane, Message, ReadEnd

FILES_AT_ONCE_MAX = 8
"""Each can have a row of 120 MB, TiDB's own limit."""

POLL_BYTES_MAX = 64 << 20
"""Of such rows in one poll, or one message."""

_NAME = re.compile(r"[0-9A-Za-z_-]+\.json")


class _File(Struct):
    key: str | None
    value: str


_decode_file = json.Decoder(_File).decode


class WithClaims(NotifyingFeedAround):
    """`feed`, with whole rows. `raw`: files hold a message's value as it is (claim-check-raw-value)."""

    def __init__(self, feed: NotifyingFeed, codec: CodecWithClaims, folder: Folder, *, raw: bool) -> None:
        super().__init__(feed)
        self._codec, self._folder, self._raw = codec, folder, raw
        self._waiting: deque[Message] = deque()
        self._incarnations: Mapping[Lane, str] = {}

    def incarnations(self) -> Mapping[Lane, str]:
        """With the lanes of which something waits here."""
        lanes = {message.lane for message in self._waiting}
        return {**{lane: one for lane, one in self._incarnations.items() if lane in lanes}, **self._feed.incarnations()}

    def seek(
        self,
        positions: Mapping[Lane, int],
        incarnations: Mapping[Lane, str] = NOT_KNOWN,
        read_ends: Mapping[Lane, ReadEnd] = NO_READ_ENDS,
    ) -> None:
        super().seek(positions, incarnations, read_ends)
        self._waiting.clear()

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        """Raises also FeedUnsuitable for a file that is gone, MessageUnreadable for one that is another row's, FeedLost while the folder
        does not answer."""
        if not self._waiting:
            self._incarnations = dict(self._feed.incarnations())
            self._waiting.extend(self._feed.poll(timeout_s=timeout_s))
        messages: list[Message] = []
        size = 0
        while self._waiting and size < POLL_BYTES_MAX:
            message = self._waiting[0]
            whole = [message] if not (parts := self._codec.parts(message)) else list(self._resolved(message, parts))
            self._waiting.popleft()
            messages += whole
            size += sum(len(one.value or b"") for one in whole) if parts else 0
        return messages

    def _resolved(self, message: Message, parts: Sequence[Claim | tuple[bytes | None, bytes | None]]) -> Iterator[Message]:
        for start in range(0, len(parts), FILES_AT_ONCE_MAX):
            some = parts[start : start + FILES_AT_ONCE_MAX]
            files = self._read(message, [part for part in some if isinstance(part, Claim)])
            for number, part in enumerate(some, start):
                key, value = self._whole(message, part, files[part.file]) if isinstance(part, Claim) else part
                one = message._replace(key=key, value=value, after_gap=message.after_gap and not number)
                if isinstance(part, Claim):
                    self._check(one, part)
                yield one

    def _read(self, message: Message, claims: Sequence[Claim]) -> Mapping[str, bytes]:
        names = {claim.file: claim.file.rpartition("/")[2] for claim in claims}
        for claim in claims:
            if _NAME.fullmatch(names[claim.file]) is None:
                raise self._other(message, claim, f"a file {claim.file!r}, which is none that TiCDC writes")
        try:
            there = storage.read_files(self._folder, list(dict.fromkeys(names.values())))
        except (Unreachable, Exhausted) as error:
            raise FeedLost(
                f"{self._folder}, where rows are that are larger than a message, does not answer: {error}",
                hint="make the storage answer this process (network, credentials, clock, rate limits): it continues automatically",
            ) from error
        for claim in claims:
            if names[claim.file] not in there:
                raise FeedUnsuitable(
                    f"{message.at()}: the row of {claim.table} at commit_ts {claim.commit_ts} is in {names[claim.file]}, which is not in"
                    f" {self._folder}",
                    hint="set kafka.claim_check_uri to the folder of claim-check-storage-uri as this machine reaches it, or put the file"
                    " back; let no lifecycle rule remove files sooner than topics forget messages. If it is lost: deploy/RETENTION.md",
                )
        return {file: there[name] for file, name in names.items()}

    def _whole(self, message: Message, claim: Claim, data: bytes) -> tuple[bytes | None, bytes | None]:
        if self._raw:
            return message.key, data
        try:
            file = _decode_file(data)
            key = None if file.key is None else base64.b64decode(file.key, validate=True)
            return key, base64.b64decode(file.value, validate=True)
        except (msgspec.MsgspecError, UnicodeDecodeError, binascii.Error) as error:
            raise self._other(message, claim, f"a file {claim.file} that is none of TiCDC's: {error}") from error

    def _check(self, message: Message, claim: Claim) -> None:
        rows = [(one.commit_ts, one.schema, one.table) for one in self._codec.envelopes(message) if isinstance(one, Change)]
        if rows == [(claim.commit_ts, *claim.table)]:
            return
        raise self._other(message, claim, f"a file {claim.file} of another row")

    def _other(self, message: Message, claim: Claim, what: str) -> MessageUnreadable:
        return MessageUnreadable(
            f"{message.at()}: expected the row of {claim.table} at commit_ts {claim.commit_ts} in a file; got {what}",
            hint="let nothing but this changefeed write into the folder of claim-check-storage-uri, and set claim-check-raw-value in its"
            " definition as it is; if so, report TiCDC's version and this file",
        )
