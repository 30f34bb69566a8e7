"""The question that a round waits for: the source is asked in the background, then the brokers, and nobody who looks is held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Queue
from threading import Event
from typing import Any

import pytest

from sidecar.errors import SourceLost
from sidecar.feeds.kafka.asking import Asking
from sidecar.feeds.kafka.client import TopicsAnswer
from sidecar.feeds.kafka.lanes import Topic
from sidecar.feeds.kafka.rounds import Answer, Question

PATIENCE_S = 30.0
FIRST, SECOND = (Question(number, frozenset({"default"}), frozenset({"known"})) for number in (1, 2))


class Source:
    """It answers what a test puts, and waits until then; an error is raised."""

    def __init__(self) -> None:
        self.answers: Queue[frozenset[str] | BaseException] = Queue()
        self.asked: Queue[None] = Queue()

    def present(self) -> frozenset[str]:
        self.asked.put(None)
        answer = self.answers.get(timeout=PATIENCE_S)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def is_asked(self) -> None:
        self.asked.get(timeout=PATIENCE_S)


@dataclass(frozen=True)
class Told(TopicsAnswer):
    """Brokers that answer once `may` is set."""

    futures: Mapping[str, Future[Any]] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    may: Event = field(default_factory=Event)

    def wait(self, timeout_s: float) -> bool:
        return self.may.wait(timeout_s)

    def topics(self) -> dict[str, Topic] | None:
        return {name: Topic("1", 1) for name in self.names}


class Brokers:
    def __init__(self) -> None:
        self.may = Event()
        self.may.set()

    def ask(self, topics: Iterable[str]) -> TopicsAnswer:
        return Told(names=frozenset(topics), may=self.may)


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def asking(source: Source, brokers: Brokers) -> Iterator[Asking]:
    found = Asking(brokers, source.present)  # type: ignore[arg-type]  # a twin of the one call that is used
    yield found
    source.answers.put(frozenset())
    found.close()


def answer(asking: Asking) -> Answer:
    found = asking.answer(wait_s=PATIENCE_S)
    assert found is not None
    return found


def look_for_ever(asking: Asking) -> None:
    while True:
        asking.answer(wait_s=0.01)


def test_nobody_is_waited_for(asking: Asking, source: Source, brokers: Brokers) -> None:
    assert asking.answer(wait_s=0.0) is None
    assert asking.waits_for() == ""
    brokers.may.clear()
    asking.begin(FIRST)
    assert asking.answer(wait_s=0.0) is None
    assert "source" in asking.waits_for()
    source.answers.put(frozenset({"default", "t"}))
    while "brokers" not in asking.waits_for():
        assert asking.answer(wait_s=0.01) is None
    brokers.may.set()
    assert answer(asking) == Answer(FIRST, frozenset({"default", "t"}), dict.fromkeys(["default", "known", "t"], Topic("1", 1)))
    assert asking.waits_for() == ""


def test_what_the_source_was_asked_before_a_question_does_not_answer_it(asking: Asking, source: Source) -> None:
    asking.begin(FIRST)
    source.is_asked()
    asking.begin(SECOND)
    source.answers.put(frozenset({"before"}))
    source.is_asked()
    assert asking.answer(wait_s=0.0) is None
    source.answers.put(frozenset({"after"}))
    found = answer(asking)
    assert (found.question, found.present) == (SECOND, frozenset({"after"}))


def test_questions_that_pile_up_behind_a_source_that_hangs_are_one(asking: Asking, source: Source) -> None:
    asking.begin(FIRST)
    source.is_asked()
    for _ in range(100):
        asking.begin(SECOND)
    source.answers.put(frozenset({"before"}))
    source.answers.put(frozenset({"after"}))
    assert answer(asking).present == {"after"}
    source.is_asked()
    assert source.asked.empty()


@pytest.mark.parametrize("error", [SourceLost("no answer", hint="wait"), KeyError("what nobody expected")])
def test_what_ends_the_asking_is_raised_by_the_next_look(asking: Asking, source: Source, error: Exception) -> None:
    asking.begin(FIRST)
    source.answers.put(error)
    source.is_asked()
    with pytest.raises(type(error)):
        look_for_ever(asking)
    asking.begin(SECOND)
    with pytest.raises(type(error)):
        asking.answer(wait_s=0.0)


def test_where_the_tables_are_those_of_the_log_no_source_is_asked(brokers: Brokers) -> None:
    asking = Asking(brokers, None)  # type: ignore[arg-type]  # a twin of the one call that is used
    asking.begin(FIRST)
    assert answer(asking) == Answer(FIRST, frozenset({"default"}), {"default": Topic("1", 1), "known": Topic("1", 1)})
    asking.close()
