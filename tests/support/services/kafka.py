"""A real Apache Kafka broker (KRaft, one node) for tests.

`KafkaBroker(folder)` listens on plain text. With `secured=True` it also listens with SASL/PLAIN (`.sasl`), with TLS
(`.tls`) and with both (`.sasl_tls`), and checks access: a client over plain text or TLS, and the SASL user
READER, may do everything; the SASL user STRANGER may log in and nothing else.

Without a log binding among the jars the broker's own log is empty; what it prints (a JVM that does not start, a
configuration that it refuses) is in `server.log` and in the error of `start()`.
"""

from __future__ import annotations

import base64
import logging
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported, but not for mypy
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.support.eventually import eventually
from tests.support.services.freezing import freeze
from tests.support.services.jars import POM, jars, made_once
from tests.support.services.java import QUICK_JAVA
from tests.support.services.ports import free_ports
from tests.support.services.tls import Authority

READER = ("reader", "right password")
STRANGER = ("stranger", "other password")

START_TIMEOUT_S = 600
"""A broker takes 5 to 10 s alone on this kind of machine; tests share it with Spark."""

STOP_TIMEOUT_S = 300
ADMIN_TIMEOUT_S = 300
MESSAGE_BYTES_MAX = 32 << 20

WRITES_WAITING_MAX = 10_000

JVM = ("-Xmx384m", "-Xms128m", *QUICK_JAVA, "-Djava.awt.headless=true")

_log = logging.getLogger("tests.kafka")


class KafkaBroker:
    def __init__(self, folder: Path, *, secured: bool = False) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        plain, sasl, tls, sasl_tls, controller = free_ports(5)
        self.bootstrap = f"127.0.0.1:{plain}"
        self.sasl, self.tls, self.sasl_tls = (f"127.0.0.1:{port}" for port in (sasl, tls, sasl_tls))
        self.authority = Authority(folder / "tls") if secured else None
        self._controller = f"127.0.0.1:{controller}"
        self._properties = folder / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        self._admin: AdminClient | None = None
        self._producer: Producer | None = None
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in self._settings().items()))

    def __enter__(self) -> KafkaBroker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    # ---- the process ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Returns when the broker answers."""
        if not (self.folder / "data" / "meta.properties").exists():
            self._format()
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(_java("kafka.Kafka", str(self._properties)), stdout=log, stderr=log, start_new_session=True)
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline_s and self._process.poll() is None:
            if self._answers():
                return
            time.sleep(0.05)
        self.kill()
        raise RuntimeError(f"Kafka did not start with {self._properties}: {self._log_tail()}")

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """Graceful: everything is flushed."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """It keeps its connections and answers nothing."""
        if self._process is None:
            raise RuntimeError("Kafka is not running")
        freeze(self._process.pid)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _answers(self) -> bool:
        """The port first: an admin client that is refused backs off and logs each try."""
        host, port = self.bootstrap.split(":")
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return bool(self.admin().list_topics(timeout=1).brokers)
        except (OSError, KafkaException):
            return False

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._signal(signal.SIGCONT)
            self._signal(how)
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(STOP_TIMEOUT_S)
        self._process = self._admin = self._producer = None

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            raise RuntimeError("Kafka is not running")
        self._process.send_signal(number)

    def _format(self) -> None:
        """An empty broker as Kafka's own tool makes it, and a cluster of its own."""
        data = self.folder / "data"
        shutil.copytree(made_once("kafka", POM, self._run_format), data)
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
        about = data / "meta.properties"
        about.write_text(re.sub(r"(?m)^cluster\.id=.*$", f"cluster.id={cluster}", about.read_text()))

    def _run_format(self, folder: Path) -> None:
        properties = self.folder / "format.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in (self._settings() | {"log.dirs": str(folder)}).items()))
        command = _java("kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAA", "-c", str(properties))
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False)
        if done.returncode:
            raise RuntimeError(f"Kafka's storage could not be formatted: {done.stdout[-2000:]}{done.stderr[-2000:]}")

    def _log_tail(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")[-4000:] or "it printed nothing"

    def _settings(self) -> dict[str, str]:
        listeners = {"PLAINTEXT": self.bootstrap}
        settings: dict[str, str] = {}
        if self.authority is not None:
            listeners |= {"SASL_PLAINTEXT": self.sasl, "SSL": self.tls, "SASL_SSL": self.sasl_tls}
            settings = self._security(self.authority)
        return settings | {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{self._controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(f"{name}://{at}" for name, at in (listeners | {"CONTROLLER": self._controller}).items()),
            "advertised.listeners": ",".join(f"{name}://{at}" for name, at in listeners.items()),
            "listener.security.protocol.map": ",".join([*(f"{name}:{name}" for name in listeners), "CONTROLLER:PLAINTEXT"]),
            "inter.broker.listener.name": "PLAINTEXT",
            "broker.heartbeat.interval.ms": "500",
            "broker.session.timeout.ms": "3000",  # so long a killed broker is still the one that lives, to the controller
            "log.dirs": str(self.folder / "data"),
            "auto.create.topics.enable": "false",
            "num.partitions": "1",
            "num.network.threads": "2",
            "num.io.threads": "2",
            "background.threads": "2",
            "log.cleaner.enable": "false",
            "message.max.bytes": str(MESSAGE_BYTES_MAX),
            "replica.fetch.max.bytes": str(MESSAGE_BYTES_MAX),
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "controlled.shutdown.max.retries": "1",
        }

    def _security(self, authority: Authority) -> dict[str, str]:
        users = " ".join(f'user_{name}="{password}"' for name, password in (READER, STRANGER))
        jaas = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        return {
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
            "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.sign("broker").pem_file),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.ca_file),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{READER[0]}",
        }

    def cut_off(self, topic: str, end: int) -> None:
        """Partition 0 loses what is at `end` and above, as by an unclean leader election; the next start begins a leader epoch. Only while
        it is stopped, and where each message was written alone: a batch (of Kafka's format 2: its first offset, the bytes that follow) is
        kept or lost whole."""
        folder = self.folder / "data" / f"{topic}-0"
        (segment,) = folder.glob("*.log")
        data, size = segment.read_bytes(), 0
        while size < len(data) and struct.unpack_from(">q", data, size)[0] < end:
            size += 12 + struct.unpack_from(">i", data, size + 8)[0]
        segment.write_bytes(data[:size])
        for index in folder.glob("*index"):
            index.unlink()

    # ---- its topics -------------------------------------------------------------------------------------------------

    def admin(self) -> AdminClient:
        if self._admin is None:
            settings: dict[str, Any] = {"bootstrap.servers": self.bootstrap, "logger": _log, "reconnect.backoff.max.ms": 500}
            self._admin = AdminClient(settings)
        return self._admin

    def create_topic(self, name: str, partitions: int = 1, config: dict[str, str] | None = None) -> None:
        """Returns when every partition can be written."""
        self.admin().create_topics([NewTopic(name, partitions, 1, config=config or {})])[name].result(ADMIN_TIMEOUT_S)
        self._wait_for(name, partitions)

    def delete_topic(self, name: str) -> None:
        self.admin().delete_topics([name])[name].result(ADMIN_TIMEOUT_S)
        self._wait_for(name, 0)

    def add_partitions(self, name: str, total: int) -> None:
        """Returns when every one of now `total` partitions can be written."""
        self.admin().create_partitions([NewPartitions(name, total)])[name].result(ADMIN_TIMEOUT_S)
        self._wait_for(name, total)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """As retention does it: everything below `before_offset` is gone."""
        (done,) = self.admin().delete_records([TopicPartition(topic, partition, before_offset)]).values()
        done.result(ADMIN_TIMEOUT_S)

    def allow_to_read(self, user: str, topic: str) -> None:
        """Only where `secured`."""
        self.allow(user, ResourceType.TOPIC, topic, AclOperation.READ)

    def allow(self, user: str, kind: ResourceType, name: str, *operations: AclOperation) -> None:
        """Only where `secured`. The controller accepts a right before the broker knows of it: it is there when this returns."""
        place, of_all = (kind, name, ResourcePatternType.LITERAL), (f"User:{user}", "*")
        admin = self.admin()
        for done in admin.create_acls([AclBinding(*place, *of_all, one, AclPermissionType.ALLOW) for one in operations]).values():
            done.result(ADMIN_TIMEOUT_S)
        mine = AclBindingFilter(*place, *of_all, AclOperation.ANY, AclPermissionType.ALLOW)
        eventually(
            lambda: {*operations} <= {one.operation for one in admin.describe_acls(mine).result(ADMIN_TIMEOUT_S)}, f"{user} may use {name}"
        )

    def write(self, topic: str, records: Iterable[tuple[int, bytes | None, bytes | None]]) -> None:
        """Write `(partition, key, value)`, in order; durable when it returns."""
        if self._producer is None:
            # One request at a time: of a partition that has just been made the broker may refuse the first batch and take the second.
            # It then takes the first's repetition for a duplicate, and says that it has been written: 1 in 5 runs of 20 new partitions.
            settings: dict[str, Any] = {"message.max.bytes": MESSAGE_BYTES_MAX, "linger.ms": 1, "enable.idempotence": True}
            settings["max.in.flight"] = 1
            self._producer = Producer(settings | {"bootstrap.servers": self.bootstrap, "logger": _log})
        self._producer.list_topics(topic, timeout=ADMIN_TIMEOUT_S)  # else partitions added since are unknown to it
        failures: list[str] = []

        def reported(error: KafkaError | None, message: Any) -> None:
            if error is not None or message.offset() is None:
                failures.append(f"partition {message.partition()}: {error or 'a duplicate of nothing'}")

        for partition, key, value in records:
            self._producer.produce(topic, partition=partition, key=key, value=value, on_delivery=reported)
            if len(self._producer) > WRITES_WAITING_MAX:
                self._producer.flush(ADMIN_TIMEOUT_S)
        if self._producer.flush(ADMIN_TIMEOUT_S) or failures:
            raise RuntimeError(f"{topic} could not be written: {failures[:3]}")

    def _wait_for(self, topic: str, partitions: int) -> None:
        deadline_s = time.monotonic() + ADMIN_TIMEOUT_S
        while time.monotonic() < deadline_s:
            result = self.admin().list_topics(topic, timeout=ADMIN_TIMEOUT_S).topics[topic]
            if len(result.partitions) == partitions and all(p.leader == 1 for p in result.partitions.values()):
                return
            time.sleep(0.02)
        raise RuntimeError(f"{topic} has not come to {partitions} partitions with a leader")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        self.freeze()
        try:
            yield
        finally:
            self.thaw()


def _java(main: str, *arguments: str) -> list[str]:
    return ["java", *JVM, "-cp", f"{jars()}/*", main, *arguments]
