"""Which watermark rows are ours, and that they come exactly once and in the order in which they were sent.

A mark's uuid is `{dump_id:16}{epoch:08x}{number:08x}` (32 characters, the column's width). The dump id and the owner's
epoch are durable before the first mark of them is sent, so every uuid this owner may send is on record beforehand
without a write per mark, and a mark of an earlier attempt is known by its epoch.

- a row of another changefeed, or with a uuid that is not this dump's and epoch's: not ours, ignored;
- numbered below `first`: of an attempt of ours that was given up. The database may carry out its UPDATE late, if at all: ignored;
- ours, but seen before: doubled; ours, but not the next one sent: out of order; ours with the other kind: MarkError (P6).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from sidecar.shared.errors import MarkError
from sidecar.shared.model.nouns import Mark, MarkKind

DUMP_ID_LENGTH = 16


def mark_uuid(dump_id: str, epoch: int, number: int) -> str:
    return f"{dump_id}{epoch:08x}{number:08x}"


def mark_number(dump_id: str, epoch: int, uuid: str) -> int | None:
    """The inverse of `mark_uuid`; None for a uuid that is not of this dump and epoch."""
    try:
        number = int(uuid[-8:], 16)
    except ValueError:
        return None
    return number if uuid == mark_uuid(dump_id, epoch, number) else None


def is_previous(uuid: str, *, of: str) -> bool:
    """Whether it is a mark of the same dump as mark `of`, by an owner before the one that sends that."""
    epoch = slice(DUMP_ID_LENGTH, DUMP_ID_LENGTH + 8)
    return uuid[:DUMP_ID_LENGTH] == of[:DUMP_ID_LENGTH] and uuid[epoch] < of[epoch]


@dataclass(slots=True)
class Marks:
    """Marks are numbered from `first` in the order in which they are sent. `uuid_number` reads a uuid's number."""

    changefeed_id: str
    uuid_number: Callable[[str], int | None]
    first: int = 0
    sent: int = field(init=False)
    seen: int = field(init=False)
    _kinds: deque[MarkKind] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.sent = self.seen = self.first

    def number_of(self, uuid: str) -> int | None:
        """Of a mark of ours, whether it was sent or not; None for any other."""
        number = self.uuid_number(uuid)
        return number if number is not None and number >= self.first else None

    def send(self, kind: MarkKind) -> int:
        """Expect one more mark and return its number."""
        self._kinds.append(kind)
        self.sent += 1
        return self.sent - 1

    def was_seen(self, uuid: str) -> bool:
        """Whether this mark of ours has come in the feed, so that its UPDATE did commit."""
        number = self.number_of(uuid)
        return number is not None and number < self.seen

    def see(self, mark: Mark) -> int | None:
        """The number of a mark of ours; None for one that is not. Raises MarkError and changes nothing."""
        if mark.changefeed_id != self.changefeed_id:
            return None
        number = self.number_of(mark.uuid)
        if number is None:
            return None
        if number < self.seen:
            raise self._error(mark, f"came a second time (marks up to number {self.seen - 1} were seen)")
        if number >= self.sent:
            raise self._error(mark, f"was never sent by this sidecar (it has sent {self.sent} marks)")
        if number > self.seen:
            raise self._error(mark, f"is number {number} but number {self.seen} must come first")
        if mark.kind is not self._kinds[0]:
            raise self._error(mark, f"is a {mark.kind.name.lower()} mark but was sent as a {self._kinds[0].name.lower()} mark")
        self._kinds.popleft()
        self.seen += 1
        return number

    def _error(self, mark: Mark, what: str) -> MarkError:
        return MarkError(
            f"mark {mark.uuid} of changefeed {mark.changefeed_id} at commit_ts {mark.commit_ts} {what}",
            hint="make sure that nothing else writes changefeed_dump.changefeed_dump_event, then dumpresume: what was read and is not in"
            " the log is read again",
        )
