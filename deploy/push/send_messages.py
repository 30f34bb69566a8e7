"""A sender for the push feed that plays a recorded Kafka changefeed as TiCDC's own sink would send it:

    python deploy/push/send_messages.py FOLDER --to HOST:PORT,… [--feed canal-json] [--senders N] [--until-kept]

Each sender stands for a TiCDC node: it has some of the partitions, and a stream of its own (stream.py).

- Rows go as they come. A resolved mark or a DDL goes when all that it covers is kept, of all partitions and whoever sends them (feed.proto,
  messages, B): here senders look at each other's partitions, in TiCDC its owner does by the checkpoint.
- What was not kept when a stream broke goes again in the next one. A process that is started again sends the recording from its start.
- It stays, with a sign of life, when everything is sent (`--until-kept`: ends once it is kept).
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from threading import Condition
from typing import NamedTuple

from stream import NOTHING_DUE_S, Conversation, Target, options_of, parser_of, play, run_main

from sidecar.replay.recording import FeedConfig, RecordedMessage, Recording
from sidecar.shared.model.nouns import Change, Ddl, Message, Resolved
from ticdc_dump.v1 import feed_pb2 as pb

MESSAGE_OVERHEAD_BYTES = 8


class Item(NamedTuple):
    """`time_ms`: when it was there. `mark_ts`: of a resolved mark, else 0. `changes`: its rows and its DDL."""

    time_ms: int
    message: pb.TopicMessage
    mark_ts: int = 0
    changes: Sequence[Change | Ddl] = ()

    @property
    def ddl(self) -> Ddl | None:
        return next((one for one in self.changes if isinstance(one, Ddl)), None)


class Partition:
    """`next`: the item to be sent; all before `kept` are kept, in whatever stream."""

    def __init__(self, number: int, items: Sequence[Item]) -> None:
        self.number = number
        self.items = items
        self.next = self.kept = 0
        self._marked = list(accumulate((item.mark_ts for item in items), max))
        self._needed: dict[tuple[int, Ddl | None], int | None] = {}

    def covers(self, ts: int, ddl: Ddl | None = None) -> bool:
        """Whether all up to `ts` is kept of it; with `ddl` its tables' rows: in the new architecture others may be behind."""
        if (ts, ddl) not in self._needed:
            self._needed[ts, ddl] = self._need(ts, ddl)
        needed = self._needed[ts, ddl]
        return needed is not None and self.kept >= needed

    def _need(self, ts: int, ddl: Ddl | None) -> int | None:
        """What is up to `ts` and stands before its first mark that is not below; behind it are repeats. Without one, nobody knows."""
        end = bisect_left(self._marked, ts)
        if end == len(self.items):
            return None
        within = (at for at in reversed(range(end)) if any(one.commit_ts <= ts and _concerns(ddl, one) for one in self.items[at].changes))
        return next(within, -1) + 1

    def head(self) -> Item | None:
        return self.items[self.next] if self.next < len(self.items) else None


def _concerns(ddl: Ddl | None, change: Change | Ddl) -> bool:
    if ddl is None:
        return True
    return isinstance(change, Change) and change.schema == ddl.schema and ddl.table in ("", change.table)


def read_partitions(folder: Path, feed: str | None = None) -> list[Partition]:
    """Of the changefeed `feed`, or of the recording's first one. A mark that some partition does not come to is none."""
    recording = Recording(folder)
    config = recording.feed_config(feed)
    found = [_items(config, number, records) for number, records in enumerate(recording.messages(config).values())]
    upto_ts = min(max((item.mark_ts for item in items), default=0) for items in found)
    return [Partition(number, [item for item in items if _covers_ts(item) <= upto_ts]) for number, items in enumerate(found)]


def _items(config: FeedConfig, number: int, records: Sequence[RecordedMessage]) -> list[Item]:
    """The broker's timestamps may step back; a message is not there before the one it follows."""
    codec, lane = config.codec(), config.lane(number)
    items: list[Item] = []
    for position, (time_ms, key, value) in enumerate(records):
        said = codec.envelopes(Message(lane, position, key, value))
        mark_ts = max((one.ts for one in said if isinstance(one, Resolved)), default=0)
        changes = tuple(one for one in said if not isinstance(one, Resolved))
        message = pb.TopicMessage(topic=config.topic, partition=number, key=key, value=value)
        items.append(Item(max(time_ms, items[-1].time_ms if items else 0), message, mark_ts, changes))
    return items


def _covers_ts(item: Item) -> int:
    """0 for rows."""
    return item.mark_ts or (item.ddl.commit_ts if item.ddl is not None else 0)


class Changefeed:
    """What TiCDC's nodes know of each other. `changed` is shared by their senders."""

    def __init__(self, partitions: Sequence[Partition]) -> None:
        self.partitions = partitions
        self.changed = Condition()
        self.began_s = time.monotonic()
        self.began_ms = min((items[0].time_ms for items in (one.items for one in partitions) if items), default=0)

    def may_go(self, item: Item) -> bool:
        ts = _covers_ts(item)
        return not ts or all(partition.covers(ts, item.ddl) for partition in self.partitions)


class Sender(Conversation):
    """A node that has `partitions` of the changefeed."""

    version = 2
    form = pb.FORM_MESSAGES

    def __init__(
        self, name: str, partitions: Sequence[Partition], changefeed: Changefeed, target: Target, *, speed: float, until_kept: bool
    ) -> None:
        self.partitions = partitions
        self._changefeed = changefeed
        self._speed = speed
        self._until_kept = until_kept
        self._sent: deque[tuple[int, Partition, int]] = deque()
        super().__init__(name, target, changed=changefeed.changed)

    def _begun(self) -> None:
        """What was not kept goes again."""
        self._sent.clear()
        for partition in self.partitions:
            partition.next = partition.kept

    # ---- what is sent ---------------------------------------------------------------------------------------------------

    def _next(self) -> pb.SenderMessage | None:
        """As many items as fit, in recorded order as far as nothing has to be kept before."""
        batch, size, reached = pb.Messages(), 0, set()
        while (partition := self._first()) is not None and self._wait_s(partition) <= 0:
            message = partition.items[partition.next].message
            size += message.ByteSize() + MESSAGE_OVERHEAD_BYTES
            if batch.messages and size > self._batch_bytes:
                break
            batch.messages.append(message)
            partition.next += 1
            reached.add(partition)
        if not batch.messages:
            return None
        found = self._numbered(messages=batch)
        self._sent += ((found.number, partition, partition.next) for partition in reached)
        return found

    def _first(self) -> Partition | None:
        """Whose item is next."""
        heads = ((partition, partition.head()) for partition in self.partitions)
        ready = [(item.time_ms, at, partition) for at, (partition, item) in enumerate(heads) if item and self._changefeed.may_go(item)]
        return min(ready)[2] if ready else None

    def _wait_s(self, partition: Partition) -> float:
        """Until the time of its next item has come; not above 0 if it has."""
        if not self._speed:
            return 0.0
        after_s = (partition.items[partition.next].time_ms - self._changefeed.began_ms) / 1000
        return after_s / self._speed - (time.monotonic() - self._changefeed.began_s)

    def _due_in_s(self) -> float:
        first = self._first()
        return NOTHING_DUE_S if first is None else self._wait_s(first)

    def _complete(self) -> bool:
        return self._until_kept and all(partition.kept == len(partition.items) for partition in self.partitions)

    # ---- what is told ---------------------------------------------------------------------------------------------------

    def _answered(self, answer: pb.SidecarMessage) -> None:
        while answer.HasField("kept") and self._sent and self._sent[0][0] <= answer.kept.number:
            _, partition, end = self._sent.popleft()
            partition.kept = end


def senders_of(
    partitions: Sequence[Partition], names: Sequence[str], target: Target, *, speed: float = 0.0, until_kept: bool = True
) -> list[Sender]:
    """One for each name; the partitions are dealt out."""
    changefeed = Changefeed(partitions)
    return [
        Sender(name, partitions[at :: len(names)], changefeed, target, speed=speed, until_kept=until_kept) for at, name in enumerate(names)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    what = "Play a recorded Kafka changefeed to a sidecar's push feed (push.form = messages)."
    parser = parser_of("send_messages.py", what, folder="a recording: recording.json and kafka/")
    parser.add_argument("--feed", metavar="NAME", help="of the recording's changefeeds, such as canal-json (default: open-protocol)")
    parser.add_argument("--senders", type=int, default=1, metavar="N", help="split the partitions over N streams (default: %(default)s)")
    parser.add_argument("--until-kept", action="store_true", help="end when everything is kept")
    options, target, names = options_of(parser, arguments)
    partitions = read_partitions(options.folder, options.feed)
    return play(senders_of(partitions, names, target, speed=options.speed, until_kept=options.until_kept))


if __name__ == "__main__":
    run_main(main)
