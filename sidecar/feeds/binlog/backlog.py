"""What pumps have sent and the pipeline has not taken yet: bounded in bytes, handed out in the order of commit_ts as far as it is there.

- `put` waits while its pump has more than its share; so its thread stops reading, and HTTP/2 makes the pump wait. One message that is
  larger than the share goes in when nothing else of its pump waits.
- While one pump is blocked, the others are handed out as far as `ahead_bytes_max` beyond it and no further: what is handed out waits in the
  sequence, on disk once memory is full, and a disk has an end, too. The pump that is furthest behind is never held.
- A pump's lane is closed when it has ended; what is left of it is thrown away, and `put` says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from threading import Condition

from sidecar.shared.model.nouns import CommitTs, Lane, Message

MESSAGE_BYTES = 300
"""What a message takes beside its payload, about."""

POLL_BYTES_MAX = 16 << 20
"""Of one poll, or one message: the pipeline comes back to the dump and to operators in between."""

BLOCK_BYTES = 1 << 20
"""How exactly it is known what has been handed out ahead."""


class LaneBacklog:
    """`handed_ts`: up to there the lane is handed out. `ahead`: blocks of that, each with its last commit_ts and its bytes."""

    __slots__ = ("ahead", "ahead_bytes", "bytes", "handed_ts", "lane", "messages", "open")

    def __init__(self, lane: Lane, handed_ts: CommitTs) -> None:
        self.lane = lane
        self.handed_ts = handed_ts
        self.messages: deque[Message] = deque()
        self.bytes = 0
        self.ahead: deque[list[int]] = deque()
        self.ahead_bytes = 0
        self.open = True

    def take(self) -> tuple[Message, int]:
        """The next message and its size."""
        message = self.messages.popleft()
        size = _size(message)
        self.bytes -= size
        self.handed_ts = CommitTs(message.position)
        if self.ahead and self.ahead[-1][1] < BLOCK_BYTES:
            self.ahead[-1] = [message.position, self.ahead[-1][1] + size]
        else:
            self.ahead.append([message.position, size])
        self.ahead_bytes += size
        return message, size

    def settle(self, low_ts: int) -> None:
        """Nothing waits for what is at or below."""
        while self.ahead and self.ahead[0][0] <= low_ts:
            self.ahead_bytes -= self.ahead.popleft()[1]


class Backlog:
    """For a thread a pump that puts, and one that polls. `lanes` are to be changed under `changed` only."""

    def __init__(self, bytes_max: int, ahead_bytes_max: int) -> None:
        self._bytes_max, self._ahead_bytes_max = bytes_max, ahead_bytes_max
        self.changed = Condition()
        self._lanes: dict[Lane, LaneBacklog] = {}
        self._closed = False

    @property
    def bytes_waiting(self) -> int:
        with self.changed:
            return sum(lane.bytes for lane in self._lanes.values())

    def add(self, lane: Lane, handed_ts: CommitTs) -> LaneBacklog:
        with self.changed:
            self._lanes[lane] = LaneBacklog(lane, handed_ts)
            self.changed.notify_all()
            return self._lanes[lane]

    def remove(self, lane: Lane) -> None:
        with self.changed:
            self._lanes.pop(lane).open = False
            self.changed.notify_all()

    def put(self, to: LaneBacklog, commit_ts: CommitTs, payload: bytes) -> bool:
        """Waits for room. False: the lane is closed, and nothing more is needed."""
        message = Message(to.lane, commit_ts, None, payload)
        size = _size(message)
        with self.changed:
            self.changed.wait_for(lambda: self._closed or not to.open or not to.bytes or to.bytes + size <= self._share())
            if self._closed or not to.open:
                return False
            to.messages.append(message)
            to.bytes += size
            self.changed.notify_all()
            return True

    def take(self, low_ts: CommitTs) -> list[Message]:
        """What there is, up to POLL_BYTES_MAX. `low_ts`: R can not pass it, whatever the pumps send. Call it with `changed` held."""
        self._settle(low_ts)
        messages: list[Message] = []
        total = 0
        while total < POLL_BYTES_MAX and (ready := self._ready()):
            message, size = min(ready, key=_next).take()
            messages.append(message)
            total += size
        if messages:
            self.changed.notify_all()
        return messages

    def ready(self, low_ts: CommitTs) -> bool:
        """Whether `take` would find anything. Call it with `changed` held."""
        self._settle(low_ts)
        return bool(self._ready())

    def held(self) -> Collection[Lane]:
        """Lanes that are handed out no further until the one that is furthest behind has moved."""
        with self.changed:
            return {lane.lane for lane in self._lanes.values() if lane.messages and lane.ahead_bytes > self._ahead_bytes_max}

    def close(self) -> None:
        with self.changed:
            self._closed = True
            self._lanes.clear()
            self.changed.notify_all()

    def _share(self) -> int:
        return self._bytes_max // max(len(self._lanes), 1)

    def _settle(self, low_ts: CommitTs) -> None:
        low_ts = min([low_ts, *(lane.handed_ts for lane in self._lanes.values())])
        for lane in self._lanes.values():
            lane.settle(low_ts)

    def _ready(self) -> list[LaneBacklog]:
        return [lane for lane in self._lanes.values() if lane.messages and lane.ahead_bytes <= self._ahead_bytes_max]


def _next(lane: LaneBacklog) -> int:
    return lane.messages[0].position


def _size(message: Message) -> int:
    return MESSAGE_BYTES + len(message.value or b"")
