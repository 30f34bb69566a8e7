"""TiCDC's own sinks, their sidecars and the inbox, without threads and sockets, under any interleaving: captures that write at once, die,
linger as zombies, come back and send again from the checkpoint; tables that move between them; sidecars that die between any two steps,
and a former one that goes on beside the next.

What is kept is read back and held against TiDB's history: every row at or below a mark stands before it, what was told to be kept is
there, no row goes back, and what is released of it is the history. Each seed is one life: a failure names its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Sequence as Row
from dataclasses import dataclass, field
from random import Random
from threading import Event
from typing import Any, NamedTuple

import pytest

from sidecar.core.sequence import Sequence
from sidecar.feeds.push.messages import LANE, MessageFeed
from sidecar.feeds.push.server import PushStream
from sidecar.shared.config import PushSection
from sidecar.shared.errors import LogTaken
from sidecar.shared.log.inbox import Inbox
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import Change, CommitTs, Envelope, Lane, Message, Rank, Resolved
from tests.lanes import LANE as RUN
from ticdc_dump.v1 import feed_pb2 as pb

SEEDS = 1_000 if RUN.whole else 50
STEPS = 300
TABLES = "pqr"
NAMES = ("node-1", "node-2", "node-3")
KEYS = 3
QUEUE_BYTES_MAX = 8 << 10
AHEAD_BYTES_MAX = 400
ROUNDS_MAX = 5_000
"""To the end, once nothing goes wrong any more."""


class Commit(NamedTuple):
    ts: int
    table: str
    key: int

    def message(self) -> pb.TopicMessage:
        return pb.TopicMessage(
            topic="t", partition=TABLES.index(self.table), key=b"%s/%d" % (self.table.encode(), self.key), value=b"%d" % self.ts
        )


def mark_message(ts: int) -> pb.TopicMessage:
    return pb.TopicMessage(topic="t", value=b"%d" % ts)


class Death(Exception):
    """Of a sidecar, at this point."""


class Still:
    """In the place of Background: the test does its work, a step at a time."""

    alive = True

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def check(self) -> None:
        pass

    def close(self, *_: object) -> None:
        pass


class Boxes:
    """In the place of PushServer and its Streams."""

    port = 0

    def __init__(self, _: PushSection) -> None:
        self.arrived = Event()
        self.streams = self
        self.every: list[PushStream] = []
        self.new: list[PushStream] = []

    def connect(self) -> PushStream:
        self.new.append(PushStream(len(self.every) + 1, "here", self.arrived))
        self.every.append(self.new[-1])
        return self.new[-1]

    def new_streams(self) -> list[PushStream]:
        streams, self.new = self.new, []
        return streams

    def close(self) -> None:
        for stream in self.every:
            stream.disconnected()


@dataclass
class Progress:
    """Of a table in a capture: which of its commits is next to be sent, and before which all are kept."""

    next: int
    flushed: int


@dataclass
class Capture:
    """A TiCDC node. `sent`: message numbers that were not told to be kept, each with how far which table is then."""

    name: str
    tables: dict[str, Progress] = field(default_factory=dict)
    stream: PushStream | None = None
    number: int = 0
    credit: int = 0
    sent: deque[tuple[int, dict[str, int]]] = field(default_factory=deque)

    def connect(self, stream: PushStream) -> None:
        self.stream, self.number, self.credit = stream, 0, 0
        self.sent.clear()
        for progress in self.tables.values():
            progress.next = progress.flushed
        self.say(hello=pb.Hello(version_min=2, version_max=2, sender=self.name, form=pb.FORM_MESSAGES))

    def say(self, **body: Any) -> None:
        assert self.stream is not None
        self.number += 1
        data = pb.SenderMessage(number=self.number, **body).SerializeToString()
        self.credit -= len(data) if self.number > 1 else 0
        self.stream.arrived(data)

    def listen(self) -> None:
        assert self.stream is not None
        for answer in self.stream.drain():
            self.credit += answer.welcome.credit_bytes + answer.credit.bytes
            while self.sent and self.sent[0][0] <= answer.kept.number:
                for table, end in self.sent.popleft()[1].items():
                    if table in self.tables:
                        self.tables[table].flushed = max(self.tables[table].flushed, end)
        if self.stream.gone():
            self.stream = None


class Sidecar:
    """One owner, and what it makes of the log that it found."""

    def __init__(self, life: Life) -> None:
        self.life = life
        section = PushSection(listen="127.0.0.1:0", form="messages", queue_bytes_max=QUEUE_BYTES_MAX, ahead_bytes_max=AHEAD_BYTES_MAX)
        self.feed = MessageFeed(section, life.folder)
        self.boxes: Any = self.feed._server  # Boxes
        self.feed._inbox.append = self._append  # type: ignore[method-assign]  # where it may die
        self.feed.seek(life.positions, {LANE: life.inbox_id})
        life.inbox_id = self.feed.incarnations()[LANE]
        self.sequence: Sequence = Sequence(
            identity=lambda change: (change.key, change.value),
            spill=MemorySpill(),
            after_ts=CommitTs(life.after_ts),
            held_bytes_max=1 << 30,
            positions=dict(life.positions),
        )

    def _append(self, entries: Row[bytes]) -> int:
        if self.life.dies():
            raise Death
        first = type(self.feed._inbox).append(self.feed._inbox, entries)
        if self.life.dies():
            raise Death
        return first

    def take_in(self) -> None:
        self.feed._inlet._step()

    def read(self) -> None:
        """A poll of the pipeline, and the segments that it closes."""
        for message in self.feed.poll(timeout_s=0.0):
            envelope = self.life.seen(message)
            self.sequence.accept(LANE, message.position, [envelope])
        upto_ts = self.sequence.upto(self.feed.lanes())
        for segment in self.sequence.release(upto_ts, even_if_empty=True) if upto_ts is not None else ():
            self.life.released += [int(change.value) for change in segment.changes]
            self.life.after_ts, self.life.positions = segment.upto_ts, dict(segment.positions)
            if self.life.random.random() < 0.5:
                self.feed.acknowledge(self.life.positions)


class Life:
    """TiDB's history, TiCDC's captures and their owner, the sidecars and what is left of them."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.mortal = True
        self.now_ts = 10
        self.history: dict[str, list[Commit]] = {table: [] for table in TABLES}
        self.checkpoint_ts = self.now_ts
        self.folder: Folder = open_folder(f"memory://messages-{seed}")
        self.inbox_id = ""
        self.after_ts, self.positions, self.released = 0, dict[Lane, int](), list[int]()
        self.found: dict[int, Message] = {}
        self.rows: set[int] = set()
        self.last_of: defaultdict[bytes, int] = defaultdict(int)
        self.captures = [Capture(name) for name in NAMES]
        self.zombies: list[Capture] = []
        self.holders: dict[str, Capture] = {}
        self.former: list[Sidecar] = []
        self.sidecar = Sidecar(self)
        self.assign()

    def dies(self) -> bool:
        return self.mortal and self.random.random() < 0.01

    # ---- TiDB and TiCDC's owner -----------------------------------------------------------------------------------------

    def commit(self) -> None:
        self.now_ts += self.random.randint(1, 3)
        table = self.random.choice(TABLES)
        self.history[table].append(Commit(self.now_ts, table, self.random.randrange(KEYS)))

    def covered_ts(self) -> int:
        """Up to which everything has been counted as flushed: what a mark may say."""
        results = [self.now_ts]
        for table, commits in self.history.items():
            holder = self.holders.get(table)
            flushed = None if holder is None else holder.tables[table].flushed
            results.append(self.checkpoint_ts if flushed is None else commits[flushed].ts - 1 if flushed < len(commits) else self.now_ts)
        return min(results)

    def store_checkpoint(self) -> None:
        """The owner does so now and then: who comes after it may send lower marks again."""
        self.checkpoint_ts = max(self.checkpoint_ts, self.covered_ts())

    def assign(self) -> None:
        """Tables that nobody has are sent again from the checkpoint."""
        for table, commits in self.history.items():
            if table not in self.holders and self.captures:
                at = bisect_right(commits, self.checkpoint_ts, key=lambda commit: commit.ts)
                self.holders[table] = holder = self.random.choice(self.captures)
                holder.tables[table] = Progress(at, at)

    def move(self) -> None:
        """A table goes to another capture: the one that had it has flushed all that it sent."""
        table = self.random.choice(TABLES)
        holder = self.holders.get(table)
        if holder is not None and holder.tables[table].next == holder.tables[table].flushed:
            progress = holder.tables.pop(table)
            self.holders[table] = other = self.random.choice(self.captures)
            other.tables[table] = progress

    def lose_capture(self) -> None:
        """It dies, or is cut off and goes on: in both cases others have its tables."""
        if len(self.captures) > 1:
            lost = self.captures.pop(self.random.randrange(len(self.captures)))
            self.holders = {table: holder for table, holder in self.holders.items() if holder is not lost}
            if self.random.random() < 0.5:
                self.zombies.append(lost)
            elif lost.stream is not None and self.random.random() < 0.5:
                lost.stream.disconnected()  # else what it had sent is still on its way, and then nothing more comes

    def return_capture(self) -> None:
        here = {capture.name for capture in self.captures}
        if absent := [name for name in NAMES if name not in here]:
            self.captures.append(Capture(self.random.choice(absent)))

    # ---- captures and sidecars ------------------------------------------------------------------------------------------

    def send(self, capture: Capture) -> None:
        """It hears what it was told; then rows of some tables, and, of the first capture, a mark among them."""
        if capture.stream is None:
            at = self.random.choice([self.sidecar, self.sidecar, *self.former])
            capture.connect(at.boxes.connect())
        if self.random.random() < 0.7:
            capture.listen()
        if capture.stream is None or capture.credit <= 0:
            return
        messages: list[pb.TopicMessage] = []
        ends: dict[str, int] = {}
        for table in self.random.sample(list(capture.tables), len(capture.tables)):
            progress = capture.tables[table]
            due = self.history[table][progress.next : progress.next + self.random.randint(0, 3)]
            messages += (commit.message() for commit in due)
            progress.next += len(due)
            ends[table] = progress.next
        if capture is self.captures[0] and self.random.random() < 0.5:
            messages.insert(self.random.randint(0, len(messages)), mark_message(self.covered_ts()))
        if messages:
            capture.say(messages=pb.Messages(messages=messages))
            capture.sent.append((capture.number, ends))
        else:
            capture.say(heartbeat=pb.Heartbeat())

    def break_stream(self) -> None:
        capture = self.random.choice(self.captures)
        if capture.stream is not None:
            capture.stream.disconnected()

    def run(self, sidecar: Sidecar) -> None:
        """A step of its inlet or its pipeline. The current one may die of it, and a former one ends."""
        previous = sidecar in self.former
        try:
            if previous or self.random.random() < 0.6:
                sidecar.take_in()
            else:
                sidecar.read()
        except Death:
            self.end(sidecar)
        except LogTaken:
            assert previous, "nobody else writes"
            self.end(sidecar)

    def end(self, sidecar: Sidecar) -> None:
        sidecar.feed.close()
        if sidecar in self.former:
            self.former.remove(sidecar)
        else:
            self.succeed()

    def succeed(self) -> None:
        """Another sidecar owns the changefeed."""
        self.sidecar = Sidecar(self)

    def meanwhile(self) -> None:
        """The next owner has looked and not begun yet."""
        for sidecar in [*self.former]:
            if self.random.random() < 0.5:
                self.run(sidecar)

    def oust(self) -> None:
        """The former owner does not know yet, and takes in what comes."""
        if not self.former:
            self.former.append(self.sidecar)
            self.succeed()

    # ---- what is judged -------------------------------------------------------------------------------------------------

    def seen(self, message: Message) -> Envelope:
        """What is read, again or for the first time; it is what it was."""
        again = self.found.setdefault(message.position, message)
        assert (again.key, again.value) == (message.key, message.value), "an entry became another one"
        ts = int(message.value or b"")
        if message.key is None:
            if again is message:
                missing = [one for commits in self.history.values() for one in commits if one.ts <= ts and one.ts not in self.rows]
                assert not missing, f"mark {ts} at {message.position} stands before {missing[0]}"
            return Resolved(LANE, CommitTs(ts), message.position)
        if ts not in self.rows:
            assert ts > self.last_of[message.key], f"{message.key!r} goes back from {self.last_of[message.key]} to {ts}"
            self.last_of[message.key] = ts
            self.rows.add(ts)
        return Change(CommitTs(ts), Rank.PUT, "", message.key.decode()[0], message.key, message.value or b"", LANE, message.position)

    def step(self) -> None:
        dice = self.random.random()
        if dice < 0.15:
            self.commit()
        elif dice < 0.5:
            self.send(self.random.choice([*self.captures, *self.zombies]))
        elif dice < 0.85:
            self.run(self.random.choice([self.sidecar, self.sidecar, *self.former]))
        elif dice < 0.88:
            self.store_checkpoint()
        else:
            rare = (
                self.move,
                self.move,
                self.lose_capture,
                self.return_capture,
                self.assign,
                self.assign,
                self.break_stream,
                self.oust,
                self.bury,
            )
            self.random.choice(rare)()

    def bury(self) -> None:
        """A zombie learns that it is dead; a sidecar dies between two steps."""
        if self.zombies:
            self.zombies.pop()
        if self.dies():
            self.end(self.sidecar)

    def settle(self) -> None:
        """Nothing goes wrong any more: all that was committed is released in the end."""
        self.mortal = False
        self.zombies.clear()
        for sidecar in [*self.former]:
            self.end(sidecar)  # its lease is over
        self.assign()
        end_ts = self.now_ts
        self.now_ts += 2  # what is released is below the mark
        for _ in range(ROUNDS_MAX):
            if self.after_ts >= end_ts:
                return
            for capture in self.captures:
                self.send(capture)
            self.run(self.sidecar)
        raise AssertionError(f"does not end: {self.after_ts} of {end_ts}")

    def flushed(self) -> set[int]:
        """What some capture was told to be kept, of which it had all before."""
        reported = [(table, one.tables[table].flushed) for one in [*self.captures, *self.zombies] for table in one.tables]
        return {commit.ts for table, end in reported for commit in self.history[table][:end]}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whoever_sends_and_whoever_dies_what_is_kept_is_the_history(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecar.feeds.push.inlet.Background", Still)
    monkeypatch.setattr("sidecar.feeds.push.messages.PushServer", Boxes)
    life, look = Life(seed), Inbox.look

    def look_while_others_write(inbox: Inbox) -> None:
        look(inbox)
        life.meanwhile()

    monkeypatch.setattr(Inbox, "look", look_while_others_write)
    flushed: set[int] = set()
    for _ in range(STEPS):
        life.step()
        flushed |= life.flushed()
    life.settle()
    assert flushed <= life.rows
    assert life.released == sorted(commit.ts for commits in life.history.values() for commit in commits)
