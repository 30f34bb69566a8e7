"""Debezium's MariaDB connector in Kafka Connect's standalone mode, dumping by incremental snapshots that a signal table asks for.

Options and signals are those of Debezium's documentation (connectors/mariadb, configuration/signalling). The JVM has what Kafka's own
`connect-standalone.sh` gives it. Beyond what it takes to run at all, two things are set for both variants: JSON without schemas, which
is a third of the bytes, and a topic of one partition, which is what Debezium makes of a table by default.
"""

from __future__ import annotations

import json
import uuid
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from tests.support.services.connect import KafkaConnect
from tests.support.services.jars import jars
from tests.tools.peers.arrivals import Arrivals, Writes, missing_ids
from tests.tools.peers.big import NAME, SIGNALS
from tests.tools.peers.topic_reader import TopicReader
from tests.tools.rig.binlog import MySqlAddress
from tests.tools.rig.rig import Rig

POM = Path(__file__).with_name("pom.xml")
PREFIX = "peer"
TOPIC = f"{PREFIX}.{NAME}"
CONNECTOR = "peer"
SERVER_ID = "85744"
"""Any that no other reader of the binlog has."""

JVM = ("-Xms256M", "-Xmx2G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
       "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")  # fmt: skip
"""Kafka's connect-standalone.sh and kafka-run-class.sh; and the level of what it says."""


@dataclass(frozen=True, slots=True)
class Variant:
    """`options`: the connector's, over what it takes to run."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)


AS_IT_COMES = Variant("as it comes (chunk 1,024)")
TUNED = Variant(
    "tuned (chunk 20,000, batch 20,480, queue 81,920, poll 50 ms, lz4)",
    {
        "incremental.snapshot.chunk.size": "20000",
        "max.batch.size": "20480",
        "max.queue.size": "81920",
        "poll.interval.ms": "50",
        "producer.override.compression.type": "lz4",
    },
)


WORKER = {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false", "offset.flush.interval.ms": "60000"}
"""The last is Kafka's default: the tests' Connect writes offsets each second."""


def connector_settings(source: MySqlAddress, *, brokers: str, variant: Variant) -> dict[str, str]:
    return {
        "name": CONNECTOR,
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "tasks.max": "1",
        "database.hostname": source.host,
        "database.port": str(source.port),
        "database.user": source.user,
        "database.password": source.password,
        "database.server.id": SERVER_ID,
        "database.ssl.mode": "disable",
        "topic.prefix": PREFIX,
        "table.include.list": f"{NAME},{SIGNALS}",
        "signal.data.collection": SIGNALS,
        "snapshot.mode": "no_data",
        "schema.history.internal.kafka.bootstrap.servers": brokers,
        "schema.history.internal.kafka.topic": f"{PREFIX}.schema-history",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.partitions": "1",
        **variant.options,
    }


def versions() -> dict[str, str]:
    """What is pinned, by artifact."""
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    results = ElementTree.parse(POM).getroot().findall("m:dependencies/m:dependency", space)
    return {str(one.findtext("m:artifactId", "", space)): str(one.findtext("m:version", "", space)) for one in results}


class Debezium:
    def __init__(self, rig: Rig, variant: Variant, *, rows: int) -> None:
        self._rig = rig
        self._rows = rows
        self._folder = rig.folder / "connect"
        self._reader = TopicReader(self._folder / "reader", brokers=rig.kafka.bootstrap, topic=TOPIC, form="debezium")
        settings = connector_settings(rig.source, brokers=rig.kafka.bootstrap, variant=variant)
        self._connect = KafkaConnect(
            self._folder,
            jars=[f"{jars(POM)}/*"],
            brokers=rig.kafka.bootstrap,
            connectors={CONNECTOR: settings},
            worker=WORKER,
            jvm=JVM,
        )
        self._came_before = 0

    def __enter__(self) -> Self:
        try:
            self._rig.kafka.create_topic(TOPIC, 1)
            self._reader.__enter__()
            self._connect.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._connect.kill()
        self._reader.__exit__(None, None, None)

    @property
    def pid(self) -> int:
        return self._connect.pid

    def has_live(self) -> bool:
        self._connect.states(CONNECTOR)
        return bool((self._reader.arrivals().dumped == 0).any())

    def has_all(self, writes: Writes) -> bool:
        self._connect.states(CONNECTOR)
        return bool(np.isin(writes.numbers, self._reader.arrivals().live().touched).all())

    def ask_dump(self) -> None:
        self._came_before = self._reader.count()
        data = json.dumps({"data-collections": [NAME], "type": "incremental"})
        self._rig.db.execute(f"insert into {SIGNALS} values ('{uuid.uuid4()}', 'execute-snapshot', '{data}')")

    def is_dumped(self, *, requested_ns: int) -> bool:
        self._connect.states(CONNECTOR)
        if self._reader.count() - self._came_before < self._rows:
            return False  # sooner than looking at each of a million
        return not missing_ids(self._reader.arrivals().since(requested_ns), rows=self._rows)

    def arrivals(self) -> Arrivals:
        return self._reader.arrivals()
