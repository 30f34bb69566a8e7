"""The names of Kafka's lanes and topics, and what is said of one that cannot be read on: a gap, a hole, a topic that is gone. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sidecar.core.sequence import BEGIN_AGAIN
from sidecar.feeds.contract import HIDDEN_LANE
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Lane, ReadEnd

PartitionKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Topic:
    """`id`: of this very topic, not of one with its name; None from brokers before 2.8."""

    id: str | None
    partitions: int


@dataclass(frozen=True, slots=True)
class TableTopics:
    """Topics of the source's present tables. TiCDC surely sends its resolved marks to those that are `marked`; to the others perhaps."""

    all: frozenset[str]
    marked: frozenset[str]


def of_topics(positions: Mapping[Lane, int]) -> dict[PartitionKey, int]:
    """Raises FeedUnsuitable for the lane of another kind of feed."""
    return {partition_of(lane): position for lane, position in positions.items() if lane != HIDDEN_LANE}


def lane_of(partition: PartitionKey) -> Lane:
    return Lane(f"kafka/{partition[0]}/{partition[1]}")


def partition_of(lane: Lane) -> PartitionKey:
    """Raises FeedUnsuitable for the lane of another kind of feed."""
    match lane.split("/"):
        case ["kafka", topic, number] if topic and number.isdecimal():
            return topic, int(number)
    raise FeedUnsuitable(
        f"the log has a position in lane {lane}, which is no partition of Kafka", hint="give this changefeed a log of its own, or a new one"
    )


def gone(partition: PartitionKey, topic: Topic | None) -> FeedUnsuitable:
    there = f"has only {topic.partitions} partitions" if topic else "does not exist"
    return FeedUnsuitable(f"{lane_of(partition)} is read by this log, and topic {partition[0]} {there}", hint=BEGIN_AGAIN)


def re_created(name: str, known_id: str, topic: Topic) -> FeedUnsuitable:
    return FeedUnsuitable(
        f"topic {name} was deleted and re-created (its id was {known_id} and is {topic.id}): what was in it is lost", hint=BEGIN_AGAIN
    )


def gap(partition: PartitionKey, wanted: int, first: int, end: int) -> FeedUnsuitable:
    why = "retention has removed what is between" if wanted < first else "the topic was re-created or cut off"
    return FeedUnsuitable(
        f"{lane_of(partition)} cannot be read from {wanted}: topic {partition[0]}, partition {partition[1]} has offsets "
        f"{first} to {end} (exclusive); {why}",
        hint=BEGIN_AGAIN,
    )


def cut_off(partition: PartitionKey, read_end: ReadEnd, lost: range) -> FeedUnsuitable:
    """`lost`: the offsets whose messages were read, and are not there or are replaced."""
    return FeedUnsuitable(
        f"{lane_of(partition)} lost its end: topic {partition[0]}, partition {partition[1]} was read to {read_end.position}, in leader "
        f"epoch {read_end.epoch}. Its messages at {lost.start} to {lost.stop} (exclusive) are gone; what is there now is not what was read",
        hint="the brokers' logs say which of them lost its messages. A start that reads from here would omit changes. Set "
        "unclean.leader.election.enable=false on the topic, and min.insync.replicas=2 with three replicas; " + BEGIN_AGAIN,
    )


def not_there(partition: PartitionKey, wanted: int, reason: str) -> FeedUnsuitable:
    """By librdkafka's `reason`, where the brokers cannot be queried about it."""
    return FeedUnsuitable(f"{lane_of(partition)} cannot be read from {wanted}: {reason}", hint=BEGIN_AGAIN)


def hole(partition: PartitionKey, wanted: int, value: int) -> FeedUnsuitable:
    return FeedUnsuitable(
        f"{lane_of(partition)} continues at {value} where {wanted} was expected: messages between them are not there",
        hint="set cleanup.policy=delete on the topic and let nothing but this changefeed write it, without transactions; " + BEGIN_AGAIN,
    )
