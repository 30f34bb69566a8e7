"""How many bytes each sender may send: what waits here of all senders together stays within `queue_bytes_max`.

- A sender holds what it was granted and what of it waits here to be taken, and one message beyond that, for the last one may
  take its credit below zero. The sum of all that is held never passes the bound. Only a single entry that is larger than a
  batch may.
- Half of the bound is reserved in equal windows for SENDERS_MAX senders: one that comes always gets its own, whatever the others
  hold. The other half goes to those who send, in equal shares: credit is given back only as bytes are taken, so who is idle
  holds what it was given once, and no more.
- Credit is given in steps, not for every message.
"""

from __future__ import annotations

from dataclasses import dataclass

SENDERS_MAX = 32
"""TiCDC nodes of one changefeed, and the streams of theirs that ended and are not taken in yet."""

BATCH_BYTES_MAX = 512 << 10
"""Of one message: decoded in some milliseconds, and large enough that a message's own cost is nothing."""

_RESERVE_MIN = 8
"""Below 512 bytes in all the bound is not held: nobody could send anything."""

_BATCH_PART = 4
"""Of a reserved window."""


@dataclass(slots=True)
class _Account:
    """`held`: granted and not yet taken."""

    held: int = 0
    closed: bool = False


class Credits:
    """Streams are numbers."""

    def __init__(self, bytes_max: int) -> None:
        self._reserve = max(bytes_max // 2 // SENDERS_MAX, _RESERVE_MIN)
        self._pool = bytes_max - bytes_max // 2
        self.batch_bytes = max(min(BATCH_BYTES_MAX, self._reserve // _BATCH_PART), 1)
        self._accounts: dict[int, _Account] = {}

    def join(self, stream: int) -> bool:
        """False if there are too many."""
        if len(self._accounts) >= SENDERS_MAX:
            return False
        self._accounts[stream] = _Account()
        return True

    def grant(self, stream: int) -> int:
        """What to add to the credit of this stream; 0 where a step is not worth it."""
        account = self._accounts[stream]
        if account.closed:
            return 0
        held = account.held + self.batch_bytes
        share = self._pool // sum(not other.closed for other in self._accounts.values())
        pool_left = self._pool - sum(self._of_pool(other) for other in self._accounts.values() if other is not account)
        more = self._reserve + min(share, max(pool_left, 0)) - held
        if more < self.batch_bytes and account.held:
            return 0
        granted = max(more, 0)
        account.held += granted
        return granted

    def taken(self, stream: int, bytes: int) -> None:
        """So many bytes of it do not wait here any more."""
        self._accounts[stream].held -= bytes

    def close(self, stream: int, *, waiting: int) -> None:
        """It sends no more; `waiting` bytes of it are still here."""
        account = self._accounts[stream]
        account.closed, account.held = True, waiting

    def leave(self, stream: int) -> None:
        """Nothing of it is here any more."""
        self._accounts.pop(stream, None)

    def _of_pool(self, account: _Account) -> int:
        return max(account.held + self.batch_bytes - self._reserve, 0)
