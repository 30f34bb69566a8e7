"""Offsets for operators: one commit at a time, once a second, never back."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError

from sidecar.feeds.kafka.commits import COMMIT_EVERY_S, OffsetCommits
from sidecar.feeds.kafka.lanes import PartitionKey

A, B = ("a", 0), ("b", 0)
LATER_S = 2 * COMMIT_EVERY_S


class Consumer:
    def __init__(self) -> None:
        self.commits: list[dict[PartitionKey, int]] = []
        self.noted: list[KafkaError] = []

    def send(self, positions: Mapping[PartitionKey, int]) -> None:
        self.commits.append(dict(positions))


def test_a_commit_is_sent_once_and_again_when_more_is_acknowledged() -> None:
    consumer = Consumer()
    commits = OffsetCommits(consumer.noted.append, now_s=0.0)
    commits.send_if_due(consumer.send, now_s=0.0)
    assert consumer.commits == []
    commits.acknowledge(A, 7)
    commits.acknowledge(A, 4)
    commits.send_if_due(consumer.send, now_s=0.0)
    commits.done(None, [])
    commits.send_if_due(consumer.send, now_s=LATER_S)
    assert consumer.commits == [{A: 7}]
    commits.acknowledge(B, 1)
    commits.send_if_due(consumer.send, now_s=LATER_S)
    assert consumer.commits == [{A: 7}, {A: 7, B: 1}]


def test_the_next_waits_for_the_last_and_for_its_time_but_not_at_the_end() -> None:
    consumer = Consumer()
    commits = OffsetCommits(consumer.noted.append, now_s=0.0)
    for position in range(1, 3):
        commits.acknowledge(A, position)
        commits.send_if_due(consumer.send, now_s=position * LATER_S)
    assert consumer.commits == [{A: 1}]
    commits.done(None, [])
    commits.send_if_due(consumer.send, now_s=LATER_S + COMMIT_EVERY_S / 2)
    assert consumer.commits == [{A: 1}]
    commits.send(consumer.send, now_s=LATER_S)
    assert consumer.commits == [{A: 1}, {A: 2}]


def test_what_failed_is_noted_and_sent_again() -> None:
    consumer = Consumer()
    commits = OffsetCommits(consumer.noted.append, now_s=0.0)
    commits.acknowledge(A, 1)
    commits.send_if_due(consumer.send, now_s=0.0)
    commits.done(KafkaError(KafkaError.NOT_COORDINATOR), [])
    commits.send_if_due(consumer.send, now_s=LATER_S)
    assert consumer.commits == [{A: 1}, {A: 1}]
    assert [error.code() for error in consumer.noted] == [KafkaError.NOT_COORDINATOR]


def test_a_partition_that_is_left_is_forgotten() -> None:
    consumer = Consumer()
    commits = OffsetCommits(consumer.noted.append, now_s=0.0)
    commits.acknowledge(A, 1)
    commits.send_if_due(consumer.send, now_s=0.0)
    commits.done(None, [])
    commits.forget([A])
    commits.send_if_due(consumer.send, now_s=LATER_S)
    assert consumer.commits == [{A: 1}]
