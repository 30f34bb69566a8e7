"""The question that a round waits for: the source is asked in the background, then the brokers, and nobody who looks is held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Queue
from threading import Event
from typing import Any

import pytest

from sidecar.feeds.kafka import names
from sidecar.feeds.kafka.asking import Asking
from sidecar.feeds.kafka.client import TopicsAnswer
from sidecar.feeds.kafka.lanes import TableTopics, Topic
from sidecar.feeds.kafka.rounds import Question, RoundAnswer
from sidecar.shared.errors import SourceError, SourceLost
from tests.support.eventually import PATIENCE_S

FIRST, SECOND = (Question(number, frozenset({"default"}), frozenset({"known"})) for number in (1, 2))


def of(*topics: str) -> TableTopics:
    return TableTopics(frozenset(topics), frozenset(topics))


class Source:
    """It answers what a test puts, and waits until then; an error is raised."""

    def __init__(self) -> None:
        self.answers: Queue[TableTopics | BaseException] = Queue()
        self.asked: Queue[None] = Queue()

    def present(self) -> TableTopics:
        self.asked.put(None)
        answer = self.answers.get(timeout=PATIENCE_S)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def is_requested(self) -> None:
        self.asked.get(timeout=PATIENCE_S)


@dataclass(frozen=True)
class Checking(TopicsAnswer):
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
        return Checking(names=frozenset(topics), may=self.may)


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def asking(source: Source, brokers: Brokers) -> Iterator[Asking]:
    result = Asking(brokers, source.present)  # type: ignore[arg-type]  # a twin of the one call that is used
    yield result
    source.answers.put(of())
    result.close()


def answer(asking: Asking) -> RoundAnswer:
    result = asking.answer(wait_s=PATIENCE_S)
    assert result is not None
    return result


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
    source.answers.put(of("default", "t"))
    while "brokers" not in asking.waits_for():
        assert asking.answer(wait_s=0.01) is None
    brokers.may.set()
    assert answer(asking) == RoundAnswer(FIRST, of("default", "t"), dict.fromkeys(["default", "known", "t"], Topic("1", 1)))
    assert asking.waits_for() == ""


def test_a_query_of_the_source_before_a_question_does_not_answer_it(asking: Asking, source: Source) -> None:
    asking.begin(FIRST)
    source.is_requested()
    asking.begin(SECOND)
    source.answers.put(of("before"))
    source.is_requested()
    assert asking.answer(wait_s=0.0) is None
    source.answers.put(of("after"))
    result = answer(asking)
    assert (result.question, result.present) == (SECOND, of("after"))


def test_questions_that_pile_up_behind_a_source_that_hangs_are_one(asking: Asking, source: Source) -> None:
    asking.begin(FIRST)
    source.is_requested()
    for _ in range(100):
        asking.begin(SECOND)
    source.answers.put(of("before"))
    source.answers.put(of("after"))
    assert answer(asking).present == of("after")
    source.is_requested()
    assert source.asked.empty()


@pytest.mark.parametrize("error", [SourceError("refused", hint="grant it"), KeyError("what nobody expected")])
def test_what_ends_the_asking_is_raised_by_the_next_look(asking: Asking, source: Source, error: Exception) -> None:
    asking.begin(FIRST)
    source.answers.put(error)
    source.is_requested()
    with pytest.raises(type(error)):
        look_for_ever(asking)
    asking.begin(SECOND)
    with pytest.raises(type(error)):
        asking.answer(wait_s=0.0)


def test_a_source_that_is_away_is_queried_again_and_who_waits_gets_a_report(
    asking: Asking, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding 14d: R waits, and live changes go on as soon as the source is back; the term does not end."""
    monkeypatch.setattr(names, "AGAIN_S", 0.01)
    asking.begin(FIRST)
    source.answers.put(SourceLost("nobody at 127.0.0.1:4000", hint="wait"))
    while "nobody at 127.0.0.1:4000" not in asking.waits_for():
        assert asking.answer(wait_s=0.01) is None
    source.answers.put(of("default", "t"))
    assert answer(asking).present == of("default", "t")
    assert asking.waits_for() == ""
    asking.begin(SECOND)
    assert "nobody" not in asking.waits_for()


def test_a_question_that_comes_while_the_source_is_away_is_answered_too(
    asking: Asking, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "AGAIN_S", 0.1)
    asking.begin(FIRST)
    source.answers.put(SourceLost("nobody", hint="wait"))
    while "nobody" not in asking.waits_for():
        assert asking.answer(wait_s=0.001) is None
    asking.begin(SECOND)
    for _ in range(2):
        source.answers.put(of("default"))
    assert answer(asking).question == SECOND


def test_where_the_tables_are_those_of_the_log_no_source_is_queried(brokers: Brokers) -> None:
    asking = Asking(brokers, None)  # type: ignore[arg-type]  # a twin of the one call that is used
    asking.begin(FIRST)
    assert answer(asking) == RoundAnswer(FIRST, of("default"), {"default": Topic("1", 1), "known": Topic("1", 1)})
    asking.close()
