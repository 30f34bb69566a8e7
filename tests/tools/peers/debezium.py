"""Debezium's MariaDB connector in Kafka Connect's standalone mode, dumping by incremental snapshots that a signal table asks for.

Options and signals are those of Debezium's documentation (connectors/mariadb, configuration/signalling). The JVM has what Kafka's own
`connect-standalone.sh` gives it. Beyond what it takes to run at all, two things are set for both variants: JSON without schemas, which
is a third of the bytes, and a topic of one partition, which is what Debezium makes of a table by default.
"""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
import uuid
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from tests.support.services.jars import jars
from tests.support.services.ports import free_ports
from tests.tools.peers.arrivals import Arrivals, Writes, missing_ids
from tests.tools.peers.big import NAME, SIGNALS
from tests.tools.peers.system import await_true, kill_tree
from tests.tools.peers.topic_reader import TopicReader
from tests.tools.rig.binlog import MySqlAddress
from tests.tools.rig.rig import Rig

POM = Path(__file__).with_name("pom.xml")
PREFIX = "peer"
TOPIC = f"{PREFIX}.{NAME}"
CONNECTOR = "peer"
START_S_MAX = 120.0
ANSWER_S_MAX = 5.0
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


def worker_settings(*, brokers: str, offsets: Path, rest_port: int) -> dict[str, str]:
    converter = "org.apache.kafka.connect.json.JsonConverter"
    return {
        "bootstrap.servers": brokers,
        "listeners": f"http://127.0.0.1:{rest_port}",
        "key.converter": converter,
        "key.converter.schemas.enable": "false",
        "value.converter": converter,
        "value.converter.schemas.enable": "false",
        "offset.storage.file.filename": str(offsets),
    }


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


def properties(settings: Mapping[str, str]) -> str:
    """As java.util.Properties reads them: a backslash is the one character of a value that it takes for something else."""
    return "".join(f"{name}={value.replace(chr(92), chr(92) * 2)}\n" for name, value in settings.items())


def versions() -> dict[str, str]:
    """What is pinned, by artifact."""
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    results = ElementTree.parse(POM).getroot().findall("m:dependencies/m:dependency", space)
    return {str(one.findtext("m:artifactId", "", space)): str(one.findtext("m:version", "", space)) for one in results}


class Debezium:
    def __init__(self, rig: Rig, variant: Variant, *, rows: int) -> None:
        self._rig = rig
        self._variant = variant
        self._rows = rows
        self._folder = rig.folder / "connect"
        self._reader = TopicReader(self._folder / "reader", brokers=rig.kafka.bootstrap, topic=TOPIC, form="debezium")
        (self._rest_port,) = free_ports(1)
        self._came_before = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._rig.kafka.create_topic(TOPIC, 1)
            self._reader.__enter__()
            self._start()
            await_true("Debezium's task runs", self._is_running, timeout_s=START_S_MAX)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            kill_tree(self._process.pid)
            self._process.wait()
        self._reader.__exit__(None, None, None)

    @property
    def pid(self) -> int:
        assert self._process is not None, "enter it first"
        return self._process.pid

    def has_live(self) -> bool:
        self._check()
        return bool((self._reader.arrivals().dumped == 0).any())

    def has_all(self, writes: Writes) -> bool:
        self._check()
        return bool(np.isin(writes.numbers, self._reader.arrivals().live().touched).all())

    def ask_dump(self) -> None:
        self._came_before = self._reader.count()
        data = json.dumps({"data-collections": [NAME], "type": "incremental"})
        self._rig.db.execute(f"insert into {SIGNALS} values ('{uuid.uuid4()}', 'execute-snapshot', '{data}')")

    def is_dumped(self, *, requested_ns: int) -> bool:
        self._check()
        if self._reader.count() - self._came_before < self._rows:
            return False  # sooner than looking at each of a million
        return not missing_ids(self._reader.arrivals().since(requested_ns), rows=self._rows)

    def arrivals(self) -> Arrivals:
        return self._reader.arrivals()

    def _start(self) -> None:
        brokers = self._rig.kafka.bootstrap
        worker, connector = self._folder / "worker.properties", self._folder / "connector.properties"
        worker.write_text(properties(worker_settings(brokers=brokers, offsets=self._folder / "offsets", rest_port=self._rest_port)))
        connector.write_text(properties(connector_settings(self._rig.source, brokers=brokers, variant=self._variant)))
        connector.chmod(0o600)
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        command = ["java", *JVM, "-cp", f"{jars(POM)}/*", main, str(worker), str(connector)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    @property
    def _log(self) -> Path:
        return self._folder / "connect.log"

    def _is_running(self) -> bool:
        return self._check() == ["RUNNING", "RUNNING"]

    def _check(self) -> list[str]:
        """The states of connector and task, as far as they are there. Raises RuntimeError if one has failed."""
        assert self._process is not None, "enter it first"
        if self._process.poll() is not None:
            raise RuntimeError(f"Kafka Connect ended with {self._process.returncode}: {self._log.read_text()[-3000:]}")
        status = self._status()
        if status is None:
            return []
        parts = [status["connector"], *status["tasks"]]
        for part in parts:
            if part["state"] == "FAILED":
                raise RuntimeError(f"Debezium failed: {part.get('trace', '')[:3000]}")
        return [str(part["state"]) for part in parts]

    def _status(self) -> Any:
        """None while Connect does not answer or does not know the connector yet."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self._rest_port}/connectors/{CONNECTOR}/status", timeout=ANSWER_S_MAX
            ) as answer:
                return json.load(answer)
        except (urllib.error.URLError, OSError):
            return None
