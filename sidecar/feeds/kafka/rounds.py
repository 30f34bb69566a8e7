"""Which lanes there are, what of their messages may be released, and what must be queried before. Pure: no I/O, time is an argument.

- **A lane must join before R may overtake it.** TiCDC sends resolved mark T, in any lane, after every change <= T was
  written, so the lane of each was there before that mark. Before R moves to T every lane has delivered something since
  the first mark >= T came. So the messages that complete such a round are held, and with them all that comes after, until a
  question that began after they came is answered. An answer to an earlier question is too old; without an answer R waits.
  An answer is as good as the broker that gives it: one that lags behind its controller omits a new partition.
- The topics of the source's present tables count as well as those of the tables where the log is: the DDL that makes or renames
  a table comes in the table's own topic. A question asks for both, after mark T came, when the table is there.
- TiCDC marks a topic only as long as it has a table, with a key and by the name that TiCDC has for it. One of which that is not sure
  leaves R alone in each round in which it was read up to an end that was requested after the round's messages came: nothing <= T
  is behind it.
- Else a lane never leaves. Its topic gone, smaller, or created again (another topic id) stops.

The caller's order: `take`; `ask` whenever it likes; `learn` with the answer; and while `held`, `release` once `is_answered`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sidecar.feeds.kafka.lanes import PartitionKey, TableTopics, Topic, gone, lane_of, partition_of, re_created
from sidecar.shared.model.nouns import Lane, Message

TOPICS_EVERY_S = 5.0
"""Without messages of every lane the topics are read again so often: for what appears, what is gone, and for a sign of life."""

TOPICS_AGAIN_S = 0.2
"""After an answer of no use, and while there is no lane at all."""

GONE_MAX_S = 10.0
"""A topic that is there and that brokers do not know for so long is gone. Shorter: one of them is just starting."""


@dataclass(frozen=True, slots=True)
class Question:
    """Which topics do the source's tables have at present; and which of those, of `at_log` and of `known` exist?"""

    number: int
    at_log: frozenset[str]
    known: frozenset[str]


@dataclass(frozen=True, slots=True)
class RoundAnswer:
    """`present`: the topics of the source's tables; `existing`: of the requested topics, None if no broker answered."""

    question: Question
    present: TableTopics
    existing: Mapping[str, Topic] | None


@dataclass(frozen=True, slots=True)
class Learned:
    """Read `joined` from what is there of their beginning, and `left` no more."""

    joined: frozenset[PartitionKey] = frozenset()
    left: frozenset[PartitionKey] = frozenset()


class Rounds:
    """Begins with the partitions of `topics`, which exist; `at_log` and `present` are the tables' topics that were requested."""

    def __init__(self, topics: Mapping[str, Topic], *, at_log: frozenset[str], present: TableTopics, now_s: float) -> None:
        self.held: Sequence[Message] = ()
        self.is_answered = False
        self._topics = dict(topics)
        self._lanes = {partition: lane_of(partition) for name, topic in topics.items() for partition in _partitions(name, 0, topic)}
        self._marked, self._requested_for = present.marked, at_log | present.all
        self._unanswered = {partition for partition in self._lanes if partition[0] in self._marked}
        self._at_end: frozenset[PartitionKey] = frozenset()
        self._question = Question(0, frozenset(), frozenset())
        self._asking = False
        self._ask_at_s = now_s
        self._gone_since_s: float | None = None

    def lanes(self, at_log: frozenset[str]) -> frozenset[Lane]:
        """Those that R waits for. A topic that got its first table by a DDL in the log, and that was not requested yet, is a lane
        without marks."""
        unasked = {lane_of((topic, 0)) for topic in at_log - self._requested_for}
        return frozenset(unasked | {lane for partition, lane in self._lanes.items() if partition not in self._at_end})

    def incarnations(self) -> Mapping[Lane, str]:
        """All that are read, and the id of each one's topic."""
        return {lane: self._topics[partition[0]].id or "" for partition, lane in self._lanes.items()}

    def unmarked(self) -> frozenset[PartitionKey]:
        """Those that TiCDC may not mark."""
        return frozenset(partition for partition in self._lanes if partition[0] not in self._marked)

    # ---- what comes -------------------------------------------------------------------------------------------------

    def take(self, messages: Sequence[Message], *, now_s: float) -> Sequence[Message]:
        """What may be released at once: all, or nothing if they complete a round. Not while messages are held."""
        if self.held:
            raise AssertionError("messages are held, and more were taken")
        self._unanswered.difference_update(partition_of(lane) for lane in {message.lane for message in messages})
        if self._unanswered or not messages:
            return messages
        self.held, self.is_answered = messages, False
        self._asking, self._ask_at_s = False, now_s
        return ()

    def release(self, read_to_end: Collection[PartitionKey]) -> Sequence[Message]:
        """The round ends. `read_to_end`: of the unmarked ones, up to an end that was requested since the round is held."""
        if not self.is_answered:
            raise AssertionError("no answer about the topics since the round's messages came")
        self._at_end = self.unmarked() & frozenset(read_to_end)
        self._unanswered = {partition for partition in self._lanes if partition[0] in self._marked}
        released, self.held, self.is_answered = self.held, (), False
        return released

    # ---- what is queried --------------------------------------------------------------------------------------------

    def ask(self, at_log: frozenset[str], *, now_s: float) -> Question | None:
        """The question that it is time to begin; any other is void then."""
        if self._asking or (now_s < self._ask_at_s and at_log <= self._requested_for):
            return None
        self._asking = True
        self._question = Question(self._question.number + 1, at_log, frozenset(self._topics))
        return self._question

    def learn(self, answer: RoundAnswer, *, now_s: float) -> Learned:
        """Raises FeedUnsuitable for a topic that is gone or created again. An answer to a void question changes nothing."""
        if not self._asking or answer.question != self._question:
            return Learned()
        self._asking, self._ask_at_s = False, now_s + TOPICS_AGAIN_S
        if answer.existing is None:
            return Learned()
        requested_for = answer.question.at_log | answer.present.all
        left = self._leave(requested_for, answer.existing)
        if self._something_is_gone(answer.existing, now_s):
            return Learned(left=left)
        if self._lanes:
            self._ask_at_s = now_s + TOPICS_EVERY_S
        self._follow_marks(answer.present.marked)
        self._requested_for = requested_for
        self.is_answered = bool(self.held)
        return Learned(self._join(answer.existing), left)

    def _follow_marks(self, marked: frozenset[str]) -> None:
        """Topics that are marked hold R, from now on; those that are no longer surely marked may be omitted when the next round ends."""
        came = {partition for partition in self._lanes if partition[0] in marked - self._marked}
        self._marked = marked
        self._at_end -= came
        self._unanswered = {partition for partition in self._unanswered | came if partition[0] in marked}

    def _join(self, existing: Mapping[str, Topic]) -> frozenset[PartitionKey]:
        """What was not there when the log began, or when this process did, is read from its beginning."""
        joined: set[PartitionKey] = set()
        for name, topic in existing.items():
            if name in self._topics or name in self._requested_for:
                joined |= _partitions(name, self._topics[name].partitions if name in self._topics else 0, topic)
                self._topics[name] = topic
        self._lanes |= {partition: lane_of(partition) for partition in joined}
        self._unanswered |= {partition for partition in joined if partition[0] in self._marked}
        return frozenset(joined)

    def _leave(self, requested_for: frozenset[str], existing: Mapping[str, Topic]) -> frozenset[PartitionKey]:
        """Topics without tables that were deleted, if all of them was read, are forgotten."""
        left: set[PartitionKey] = set()
        for name, known in list(self._topics.items()):
            topic, partitions = existing.get(name), _partitions(name, 0, known)
            if name not in requested_for and (topic is None or topic.id != known.id) and partitions <= self._at_end:
                del self._topics[name]
                left |= partitions
        for partition in left:
            del self._lanes[partition]
        self._at_end -= left
        self._unanswered -= left
        return frozenset(left)

    def _something_is_gone(self, existing: Mapping[str, Topic], now_s: float) -> bool:
        for name, known in self._topics.items():
            topic = existing.get(name)
            if topic is not None and topic.id is not None and known.id is not None and topic.id != known.id:
                raise re_created(name, known.id, topic)
            if topic is None or topic.partitions < known.partitions:
                self._gone_since_s = now_s if self._gone_since_s is None else self._gone_since_s
                if now_s - self._gone_since_s > GONE_MAX_S:
                    raise gone((name, topic.partitions if topic else 0), topic)
                return True
        self._gone_since_s = None
        return False


def _partitions(name: str, first: int, topic: Topic) -> set[PartitionKey]:
    return {(name, number) for number in range(first, topic.partitions)}
