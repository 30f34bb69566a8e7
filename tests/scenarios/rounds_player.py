"""What a scenario of the Kafka feed's rounds may say, a line each:

begin default t:2             topics that exist, with their partitions; their tables are in the log and in the source
log default t                 from now on these are the topics of the tables where the log is
at 5                          the time in seconds
come default/0@3 t/1@7        the messages of one poll
ask                           what is to be asked now, if anything
answer 1 source=default,t found=default,t:2#8      question 1: topics with tables; topics that exist, here t by another id
answer 1 source=default,t nobody                   no broker could tell
answer 1 source=default,t? found=default,t         TiCDC may mark t's topic or not
end t/0                       the round ends; these partitions are read to their end
lanes                         what R waits for
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sidecar.feeds.kafka.lanes import TableTopics, Topic, lane_of
from sidecar.feeds.kafka.rounds import Question, RoundAnswer, Rounds
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Message


class RoundsPlayer:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.log: frozenset[str] = frozenset()
        self.questions: dict[str, Question] = {}
        self.rounds = Rounds({}, at_log=frozenset(), present=_present(()), now_s=0.0)

    def play(self, line: str) -> list[str]:
        try:
            return self._play(line)
        except FeedUnsuitable as stop:
            return [f"stops: {str(stop).splitlines()[0]}"]
        except AssertionError as refused:
            return [f"refused: {refused}"]

    def _play(self, line: str) -> list[str]:
        match line.split():
            case ["begin", *topics]:
                result = _topics(topics)
                self.log = frozenset(result)
                self.rounds = Rounds(result, at_log=self.log, present=_present(self.log), now_s=self.now_s)
                return []
            case ["log", *topics]:
                self.log = frozenset(topics)
                return []
            case ["at", time]:
                self.now_s = float(time)
                return []
            case ["come", *messages]:
                return [_reported("released", self.rounds.take([_message(text) for text in messages], now_s=self.now_s))]
            case ["ask"]:
                return [self._ask()]
            case ["answer", number, *reported]:
                return self._answer(self.questions[number], dict(pair.split("=", 1) for pair in reported if pair != "nobody"))
            case ["end", *partitions]:
                return [_reported("released", self.rounds.release([_partition(text) for text in partitions]))]
            case ["lanes"]:
                return [" ".join(sorted(lane.removeprefix("kafka/") for lane in self.rounds.lanes(self.log))) or "none"]
        raise ValueError(f"not understood: {line}")

    def _ask(self) -> str:
        question = self.rounds.ask(self.log, now_s=self.now_s)
        if question is None:
            return "nothing to ask"
        self.questions[str(question.number)] = question
        return f"question {question.number}: the source, and of {', '.join(sorted(question.at_log | question.known)) or 'no topic'}"

    def _answer(self, question: Question, reported: dict[str, str]) -> list[str]:
        topics = _topics(reported["found"].split(",")) if "found" in reported else None
        learned = self.rounds.learn(RoundAnswer(question, _present(reported["source"].split(",")), topics), now_s=self.now_s)
        out = [f"joined {_names(learned.joined)}"] if learned.joined else []
        out += [f"left {_names(learned.left)}"] if learned.left else []
        out += ["the round may end"] if self.rounds.is_answered else []
        return out or ["nothing"]


def _present(texts: Iterable[str]) -> TableTopics:
    return TableTopics(frozenset(text.rstrip("?") for text in texts), frozenset(text for text in texts if not text.endswith("?")))


def _topics(texts: Iterable[str]) -> dict[str, Topic]:
    topics = {}
    for text in texts:
        rest, _, number = text.partition("#")
        name, _, partitions = rest.partition(":")
        topics[name] = Topic(number or "1", int(partitions or 1))
    return topics


def _partition(text: str) -> tuple[str, int]:
    topic, number = text.split("/")
    return topic, int(number)


def _message(text: str) -> Message:
    partition, position = text.split("@")
    return Message(lane_of(_partition(partition)), int(position), b"", b"")


def _reported(word: str, messages: Sequence[Message]) -> str:
    return f"{word} " + (" ".join(f"{message.lane.removeprefix('kafka/')}@{message.position}" for message in messages) or "nothing")


def _names(partitions: Iterable[tuple[str, int]]) -> str:
    return " ".join(f"{topic}/{number}" for topic, number in sorted(partitions))
