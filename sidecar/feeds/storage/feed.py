"""The files of TiCDC's storage sink as a Feed: one lane, `storage/files`; a position is a TSO, that of `metadata`.

One lane is enough for all tables: `metadata` is the only mark there is, and covers all of them. What is new is read in a thread beside the
pipeline, which waits where `queue_bytes_max` are not taken yet.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from threading import Condition, Event

from sidecar.feeds.contract import HIDDEN_LANE
from sidecar.feeds.storage.reading import LANE, BucketReading
from sidecar.feeds.storage.unread import FolderTimes, ReadFrom
from sidecar.ports import NO_READ_ENDS, NOT_KNOWN
from sidecar.shared.config import StorageSection
from sidecar.shared.errors import FeedLost, FeedUnsuitable
from sidecar.shared.log.storage import Exhausted, Folder, Unreachable
from sidecar.shared.model.nouns import CommitTs, Lane, Message, ReadEnd, utc
from sidecar.shared.process.background import Background

POLL_MESSAGES_MAX = 5_000
POLL_BYTES_MAX = 2 << 20
"""Of one poll: what the pipeline takes in some tens of milliseconds, so that it comes back to the dump and to operators."""

OUTAGE_MAX_S = 60.0
"""A storage that does not answer for so long ends the term; the next one begins where the log ends."""

CLOSE_S = 5.0

MINUTE_MS = 60_000

MESSAGE_BYTES = 200
"""What one costs in the queue beside its value."""


class StorageFeed:
    """sidecar.ports.Feed. `reading`: from a position on. `begins`: the TSO after which a new log has to have what is committed. `settings`:
    how often it looks, and how much waits to be taken. One thread calls all but the constructor. After an error only `seek` and `close`
    may follow."""

    def __init__(
        self, folder: Folder, reading: Callable[[ReadFrom], BucketReading], *, begins: Callable[[], CommitTs], settings: StorageSection
    ) -> None:
        self._folder, self._reading, self._begins, self._settings = folder, reading, begins, settings
        self._work: Background | None = None
        self._queue: deque[tuple[Message, FolderTimes]] = deque()
        self._times = FolderTimes()
        self._marks: deque[tuple[int, FolderTimes]] = deque()
        """Position and times of each mark that was taken and is not durable."""
        self._queue_bytes = 0
        self._changed = Condition()
        self._position = 0
        self._still = ""
        self._look_since_s: float | None = None
        """Since when a look has brought nothing; None between two looks."""

    def lanes(self) -> frozenset[Lane]:
        return frozenset({LANE})

    def ends(self) -> Mapping[Lane, int]:
        """None: positions are TSOs."""
        return {}

    def incarnations(self) -> Mapping[Lane, str]:
        """Nothing distinguishes a folder from a later one of its name."""
        return {LANE: ""}

    def read_ends(self) -> Mapping[Lane, ReadEnd]:
        """FolderTimes, of what is durable: what was only taken is read again. `metadata`'s in minutes, as a manifest has 31 bits for it."""
        witness_ms, metadata_ms = self._times
        return {LANE: ReadEnd(witness_ms, metadata_ms // MINUTE_MS)} if any(self._times) else NO_READ_ENDS

    def seek(
        self,
        positions: Mapping[Lane, int],
        incarnations: Mapping[Lane, str] = NOT_KNOWN,  # noqa: ARG002  # there are none
        read_ends: Mapping[Lane, ReadEnd] = NO_READ_ENDS,
    ) -> None:
        """Raises FeedUnsuitable for positions of another feed. The storage is not read here."""
        if foreign := sorted(positions.keys() - {LANE, HIDDEN_LANE}):
            raise FeedUnsuitable(
                f"the log has a position in lane {foreign[0]}, which is not what TiCDC's storage sink brings",
                hint="give this changefeed a log of its own, or a new one",
            )
        self.close()
        self._queue.clear()
        self._marks.clear()
        self._queue_bytes = 0
        self._position = positions.get(LANE, self._begins())
        self._still = f"waits for what is in {self._folder}"
        end = read_ends.get(LANE, ReadEnd(0, 0))
        self._times = FolderTimes(end.position, end.epoch * MINUTE_MS)
        reading = self._reading(ReadFrom(self._position, self._times))
        self._work = Background(lambda ending: self._read(reading, ending), name="storage feed")

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        """Raises FeedLost after an outage, FeedUnsuitable for files that are lost, MessageUnreadable."""
        assert self._work is not None, "poll comes after seek"
        messages: list[Message] = []
        with self._changed:
            if not self._queue:
                self._work.check()
                self._changed.wait(timeout_s)
            size = 0
            while self._queue and len(messages) < POLL_MESSAGES_MAX and size < POLL_BYTES_MAX:
                message, times = self._queue.popleft()
                messages.append(message)
                if times != (self._marks[-1][1] if self._marks else self._times):
                    self._marks.append((message.position, times))
                size += _size(message)
            self._queue_bytes -= size
            self._changed.notify_all()
        return messages

    def acknowledge(self, positions: Mapping[Lane, int]) -> None:
        """The files are TiCDC's: nobody waits for this but `read_ends`."""
        while self._marks and self._marks[0][0] <= positions.get(LANE, 0):
            _, self._times = self._marks.popleft()

    def still_because(self) -> str:
        """As NotifyingFeed. A look can take as long as a network file system hangs, which nothing interrupts."""
        since_s = self._look_since_s
        if since_s is not None and time.monotonic() - since_s > OUTAGE_MAX_S:
            return f"{self._folder} has been listed or read for {time.monotonic() - since_s:.0f} s without a result"
        return self._still

    def close(self) -> None:
        if self._work is not None:
            work, self._work = self._work, None
            work.tell()
            with self._changed:
                self._changed.notify_all()
            work.close(CLOSE_S)

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _read(self, reading: BucketReading, ending: Event) -> None:
        away_since_s: float | None = None
        while not ending.is_set():
            try:
                self._look_since_s = time.monotonic()
                for message in reading.look():
                    away_since_s = self._look_since_s = None
                    if not self._put(message, reading.times, ending):
                        return
                    self._look_since_s = time.monotonic()
                away_since_s, self._still = None, self._why_still(reading)
            except (Unreachable, Exhausted) as error:
                self._still = f"{self._folder} does not answer: {error}"
                away_since_s = time.monotonic() if away_since_s is None else away_since_s
                if time.monotonic() - away_since_s > OUTAGE_MAX_S:
                    raise FeedLost(
                        f"{self._folder} has not answered for {OUTAGE_MAX_S:g} s: {error}",
                        hint="make the storage answer this process (network, credentials, clock, rate limits): it continues automatically",
                    ) from error
            self._look_since_s = None
            ending.wait(self._settings.look_s)

    def _put(self, message: Message, times: FolderTimes, ending: Event) -> bool:
        """False where the reading is to end, and nothing of it is taken any more: the queue may be another one's by now."""
        size = _size(message)
        with self._changed:
            while self._queue and self._queue_bytes + size > self._settings.queue_bytes_max and not ending.is_set():
                self._changed.wait(1.0)
            if ending.is_set():
                return False
            self._queue.append((message, times))
            self._queue_bytes += size
            self._changed.notify_all()
        return True

    def _why_still(self, reading: BucketReading) -> str:
        there = reading.seen_ts
        if there is None:
            return f"{self._folder} has no metadata: TiCDC writes it some seconds after the changefeed has begun"
        if there < reading.position - 1:
            what = f"{self._folder}/metadata says {there} ({utc(there)}), and all up to {reading.position} was read"
            return f"{what}: TiCDC has begun again from a checkpoint, or another changefeed writes there"
        return f"TiCDC has completed nothing after {there} ({utc(there)}): see the changefeed's checkpoint"


def _size(message: Message) -> int:
    return len(message.value or b"") + MESSAGE_BYTES
