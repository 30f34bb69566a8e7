"""What both edges to librdkafka share, the feed's and the sink's: the errors that it repairs automatically, and where its own lines go."""

from __future__ import annotations

import logging

from confluent_kafka import KafkaError


class DebugLog:
    """librdkafka logs each try to connect as an error. What matters of that, its callers raise; the rest is for a search."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log

    def log(self, level: int, form: str, *values: object) -> None:  # noqa: ARG002 - the shape of logging.Logger.log
        self._log.debug(form, *values)


REPAIRED = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._RESOLVE,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._WAIT_COORD,
        KafkaError._WAIT_CACHE,
        KafkaError._NODE_UPDATE,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_BROKER,
        KafkaError._NOENT,  # a request for offsets while no partition has a leader
        KafkaError._DESTROY_BROKER,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.LISTENER_NOT_FOUND,
        KafkaError.NOT_CONTROLLER,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FETCH_SESSION_ID_NOT_FOUND,
        KafkaError.INVALID_FETCH_SESSION_EPOCH,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""librdkafka continues automatically after these: they are waited for, within a bound. A topic that is gone shows when topics are read."""
