"""Messages of TiCDC's own sinks on their way into the inbox (feed.proto, messages): taken in from each stream in turn, made durable
together, then answered with `Kept`.

It runs beside the pipeline: TiCDC's checkpoint waits for `Kept`, and not for windows, sinks or TiDB. What the pipeline has not read yet is
bounded: past `ahead_bytes_max` nothing more is taken, credit ends, and TiCDC waits.

What a sender does wrong ends its stream alone: nothing of it is promised, so nothing of it is lost.
"""

from __future__ import annotations

import time
from collections import deque
from threading import Condition, Event, Lock
from typing import NamedTuple

import grpc

from sidecar.feeds.push.conversation import Conversation, StreamEnds, StreamTerms
from sidecar.feeds.push.credits import Credits
from sidecar.feeds.push.server import Streams
from sidecar.feeds.push.turns import Turns
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.log.inbox import Entries, Inbox
from sidecar.shared.process.background import Background

BATCH_BYTES_MAX = 8 << 20
"""Of one file, but for a message that is larger alone: written in some tens of milliseconds, read as quickly."""

CACHE_BYTES_MAX = 4 * BATCH_BYTES_MAX
"""Of what is written and not read, so that a reader that keeps up reads no file."""

GATHER_S = 0.03
"""From one file to the next, at the most: while the pipeline has others to read nobody waits for it, and files are removed,
and read after a death, one by one."""

LOOK_S = 1.0
"""Between two looks where nothing comes: for senders that are silent, and for what is to be removed."""

CLOSE_WAIT_S = 5.0


class SinkView(NamedTuple):
    """A stream for operators."""

    sender: str
    peer: str
    waiting_bytes: int
    silent_s: float


class _Sink(Conversation):
    """A stream of messages. `reported_number`: the last number that `Kept` has named."""

    reported_number = 0


class Inlet:
    """From the constructor to `close`. `inbox` is open. Other threads call all but `_run` and what it calls."""

    def __init__(self, streams: Streams, inbox: Inbox, terms: StreamTerms, *, queue_bytes_max: int, ahead_bytes_max: int) -> None:
        self._streams, self._inbox, self._terms = streams, inbox, terms
        self._credits = Credits(queue_bytes_max)
        self._ahead_bytes_max = ahead_bytes_max
        self._turns = Turns[_Sink](self._credits)
        self._lock = Lock()
        self._changed = Condition()
        self._cache: deque[tuple[Entries, int]] = deque()
        self._cached_bytes = 0
        self._ahead: deque[tuple[int, int]] = deque()  # where each file that is not read ends, and its bytes
        self._ahead_bytes = 0
        self._needed = 0
        self._kept_s = self._write_s = 0.0  # when the last file was durable, and how long that took
        self._work = Background(self._run, name="push-inlet")
        self._removal = Background(self._remove, name="push-inlet-removal")

    # ---- for the feed ---------------------------------------------------------------------------------------------------

    def read(self, number: int, *, timeout_s: float) -> Entries | None:
        """The entries from `number` on, of one file; None if none comes within the timeout. Raises what ended the inlet."""
        with self._changed:
            self._changed.wait_for(lambda: self._inbox.next > number or not self._work.alive, timeout_s)
            self._work.check()
            self._removal.check()
            if self._inbox.next <= number:
                return None
            messages = next((entries for entries, _ in self._cache if entries.first <= number < entries.end), None)
        messages = messages or self._inbox.read(number)
        return Entries(number, messages.entries[number - messages.first :])

    def taken(self, number: int) -> None:
        """Everything below it has been read; it may be read again all the same."""
        was_full = self.full()
        with self._changed:
            while self._cache and self._cache[0][0].end <= number:
                self._cached_bytes -= self._cache.popleft()[1]
            while self._ahead and self._ahead[0][0] <= number:
                self._ahead_bytes -= self._ahead.popleft()[1]
            if not self._ahead:
                self._changed.notify_all()
        if was_full:
            self._streams.arrived.set()

    def acknowledge(self, number: int) -> None:
        """Nothing below it is needed any more."""
        self._needed = max(self._needed, number)

    def senders(self) -> list[SinkView]:
        with self._lock:
            now_s = time.monotonic()
            return [SinkView(one.name, one.stream.peer, one.stream.waiting_bytes(), one.silent_s(now_s)) for one in self._turns.named()]

    def full(self) -> bool:
        """Whether nothing is taken, as nobody reads."""
        return self._ahead_bytes >= self._ahead_bytes_max

    def close(self) -> None:
        """Never raises."""
        self._streams.arrived.set()
        self._work.close(CLOSE_WAIT_S)
        self._removal.close(CLOSE_WAIT_S)

    # ---- beside it ------------------------------------------------------------------------------------------------------

    def _run(self, ending: Event) -> None:
        try:
            while not ending.is_set():
                self._streams.arrived.clear()
                if not self._step():
                    self._streams.arrived.wait(LOOK_S)
                self._rest(ending)
        finally:
            with self._changed:
                self._changed.notify_all()

    def _rest(self, ending: Event) -> None:
        """What comes meanwhile goes into one file. As long as the last one took to write, so that half of the time is for others; longer
        only while the pipeline has others to read."""
        rested_s, by_table_s = self._kept_s + min(self._write_s, GATHER_S), self._kept_s + GATHER_S
        ending.wait(max(rested_s - time.monotonic(), 0.0))
        with self._changed:
            self._changed.wait_for(lambda: not self._ahead, max(by_table_s - time.monotonic(), 0.0))

    def _step(self) -> bool:
        """Whether something was done."""
        with self._lock:
            now_s = time.monotonic()
            for stream in self._streams.new_streams():
                self._turns.add(_Sink(stream, self._credits, self._terms, now_s=now_s))
            entries, ended = ([], False) if self.full() else self._take(now_s)
        if entries:
            self._keep(entries)
        with self._lock:
            for one in self._turns:
                if one.name and one.number > one.reported_number:
                    one.stream.notify_kept(one.number)
                    one.reported_number = one.number
            self._turns.grant()
            self._end_silent(now_s)
        return bool(entries) or ended

    def _take(self, now_s: float) -> tuple[list[bytes], bool]:
        """Until nothing waits or it is enough for one file; and whether any said something, or ended."""
        entries: list[bytes] = []
        any_message = False
        for one, data in self._turns.messages(BATCH_BYTES_MAX):
            any_message = True
            if data is None:
                self._turns.finish(one)
                continue
            try:
                entries += _entries(one, data, now_s)
            except StreamEnds as end:
                self._end(one, end.code, end.text)
            except MessageUnreadable as error:
                self._end(one, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return entries, any_message

    def _keep(self, entries: list[bytes]) -> None:
        begun_s = time.monotonic()
        first = self._inbox.append(entries)
        self._kept_s = time.monotonic()
        self._write_s = self._kept_s - begun_s
        size = sum(map(len, entries))
        with self._changed:
            if self._cached_bytes < CACHE_BYTES_MAX:
                self._cache.append((Entries(first, entries), size))
                self._cached_bytes += size
            self._ahead.append((first + len(entries), size))
            self._ahead_bytes += size
            self._changed.notify_all()

    def _remove(self, ending: Event) -> None:
        """What nobody needs, a file at a time: a thread of its own, for a bucket takes its time."""
        while not ending.wait(LOOK_S):
            self._inbox.trim(self._needed)

    def _end_silent(self, now_s: float) -> None:
        """A node that is cut off keeps credit, and a place among the senders."""
        for one in [one for one in self._turns if one.silent_s(now_s) > self._terms.silent_max_s]:
            self._end(one, grpc.StatusCode.UNAVAILABLE, f"nothing came for {self._terms.silent_max_s:g} s: connect again")

    def _end(self, one: _Sink, code: grpc.StatusCode, text: str) -> None:
        one.cut(code, text)
        self._turns.finish(one)


def _entries(one: _Sink, data: bytes, now_s: float) -> list[bytes]:
    message = one.next_message(data, now_s=now_s)
    body = message and message.WhichOneof("body")
    if message is None or body == "heartbeat":
        return []
    if body != "messages":
        raise one.unexpected_message(body)
    return [sent.SerializeToString() for sent in message.messages.messages]
