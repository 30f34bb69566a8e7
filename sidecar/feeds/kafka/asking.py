"""One question of `rounds` at a time, in two steps: the source returns its tables' topics, then the brokers return which topics exist.

Neither step holds the caller longer than it says. The request to the brokers follows the source's answer, for all topics at once. A new
question drops the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sidecar.feeds.kafka.client import Cluster, TopicsAnswer
from sidecar.feeds.kafka.lanes import TableTopics
from sidecar.feeds.kafka.names import TopicNames
from sidecar.feeds.kafka.rounds import Question, RoundAnswer


@dataclass(frozen=True, slots=True)
class _OfSource:
    question: Question
    number: int


@dataclass(frozen=True, slots=True)
class _OfBrokers:
    question: Question
    present: TableTopics
    asked: TopicsAnswer


class Asking:
    """`present`: the topics of the source's tables, fetched in the background; None: they are those where the log is."""

    def __init__(self, cluster: Cluster, present: Callable[[], TableTopics] | None) -> None:
        self._cluster = cluster
        self._names = None if present is None else TopicNames(present)
        self._step: _OfSource | _OfBrokers | None = None

    def begin(self, question: Question) -> None:
        if self._names is None:
            self._ask_brokers(question, TableTopics(question.at_log, question.at_log))
        else:
            self._step = _OfSource(question, self._names.ask())

    def answer(self, *, wait_s: float) -> RoundAnswer | None:
        """Waits so long for each step. Raises what the source raises and no retry helps, and FeedUnsuitable where the brokers refuse."""
        if self._names is not None and isinstance(self._step, _OfSource):
            present = self._names.answer(self._step.number, wait_s=wait_s)
            if present is not None:
                self._ask_brokers(self._step.question, present)
        if not isinstance(self._step, _OfBrokers) or not self._step.asked.wait(wait_s):
            return None
        done, self._step = self._step, None
        return RoundAnswer(done.question, done.present, done.asked.topics())

    def waits_for(self) -> str:
        """Whom, in words; empty: nobody."""
        match self._step:
            case _OfSource():
                failure = self._names.failure if self._names is not None else ""
                return "the source to tell its tables, which have topics of their own" + (
                    f", and it does not: {failure}" if failure else ""
                )
            case _OfBrokers():
                return "the brokers to tell their topics"
            case None:
                return ""

    def close(self) -> None:
        self._step = None
        if self._names is not None:
            self._names.close()

    def _ask_brokers(self, question: Question, present: TableTopics) -> None:
        self._step = _OfBrokers(question, present, self._cluster.ask(question.at_log | present.all | question.known))
