"""A recording's log into topics, by processes of which the first ones are killed; and what is in the topics then.

python -m tests.tools.connect.history LOG URI      deliver to the end of the log
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from sidecar.shared.model.nouns import TableName
from tests.support.kafka_output import Read, read_all
from tests.support.recorded_target import deliver

REPOSITORY = Path(__file__).parents[3]
DELIVERY_S_MAX = 900.0
LOOK_EVERY_S = 0.02
ANSWER_S_MAX = 60.0
_BEING_MADE = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE)


@dataclass(frozen=True, slots=True)
class Topics:
    """What a reader of committed records gets. `ends`: behind the last record of each partition. `records`: of each table that have a
    value, so no tombstones."""

    ends: dict[tuple[str, int], int]
    records: Counter[TableName]


def written(log: Path, uri: str, prefix: str, brokers: str, *, kills: int, seed: int) -> int:
    """Deliver the log. SIGKILL meets the first `kills` processes amid their transactions: when a few hundred more records are there.
    Returns how many were killed. Raises RuntimeError with what a process said that failed."""
    rng, killed = Random(seed), 0
    while True:
        goal = _high(brokers, prefix) + rng.randrange(50, 400) if killed < kills else None
        process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, str(log), uri, str(seed + killed)], cwd=REPOSITORY, stderr=subprocess.PIPE, text=True
        )
        if goal is not None and _killed(process, lambda: _high(brokers, prefix), goal):
            killed += 1
            continue
        _, said = process.communicate(timeout=DELIVERY_S_MAX)
        if process.returncode:
            raise RuntimeError(f"the delivery ended with {process.returncode}: {said[-4000:]}")
        return killed


def _killed(process: subprocess.Popen[str], high: Callable[[], int], goal: int) -> bool:
    deadline_s = time.monotonic() + DELIVERY_S_MAX
    while process.poll() is None:
        if high() >= goal or time.monotonic() > deadline_s:
            process.kill()
            process.communicate()
            return True
        time.sleep(LOOK_EVERY_S)  # a topic does not tell that it grows
    return False


def _topics(brokers: str, prefix: str) -> list[str]:
    """Of rows."""
    consumer = _consumer(brokers)
    try:
        return sorted(name for name in consumer.list_topics(timeout=ANSWER_S_MAX).topics if name.startswith(f"{prefix}."))
    finally:
        consumer.close()


def _consumer(brokers: str) -> Consumer:
    return Consumer({"bootstrap.servers": brokers, "group.id": "looks", "enable.auto.commit": False})


def _high(brokers: str, prefix: str) -> int:
    """Records and marks of transactions, committed or not, in all topics of rows. A partition that is being made has none yet."""
    consumer, high = _consumer(brokers), 0
    try:
        known = consumer.list_topics(timeout=ANSWER_S_MAX).topics
        for place in [TopicPartition(name, at) for name in known if name.startswith(f"{prefix}.") for at in known[name].partitions]:
            try:
                high += consumer.get_watermark_offsets(place, timeout=ANSWER_S_MAX)[1]
            except KafkaException as error:
                if not error.args[0].retriable() and error.args[0].code() not in _BEING_MADE:
                    raise
        return high
    finally:
        consumer.close()


def topics_of(brokers: str, prefix: str) -> Topics:
    names = _topics(brokers, prefix)
    records = read_all(brokers, names)
    ends = {record.place: record.offset + 1 for record in records}
    return Topics(ends, Counter(_table(record) for record in records if record.value is not None))


def _table(record: Read) -> TableName:
    """Of a topic `prefix.schema.table`."""
    _, schema, table = record.topic.split(".")
    return TableName(schema, table)


def main(arguments: Sequence[str]) -> None:
    log, uri, seed = arguments
    deliver(Path(log), uri, seed=int(seed), deaths=0)


if __name__ == "__main__":
    main(sys.argv[1:])
