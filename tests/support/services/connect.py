"""Kafka Connect in its standalone mode, as `connect-standalone.sh` starts it: one process with the connectors that it is given.

    with KafkaConnect(folder, jars=[…], brokers=…, connectors={"name": {"connector.class": …}}) as connect:
        connect.states("name")     RUNNING of the connector and of each task; raises what a failed one says

Consumers read what is committed, and offsets are written each second. `worker`: settings of the worker that win over these.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.support.services.ports import free_ports

MAIN = "org.apache.kafka.connect.cli.ConnectStandalone"
CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
START_S_MAX = 300.0
ANSWER_S_MAX = 30.0
REPORTED_CHARS_MAX = 6000

JVM = ("-Xmx1G", "-XX:+UseSerialGC", "-Djava.awt.headless=true", "-Duser.timezone=UTC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


def properties(settings: Mapping[str, str]) -> str:
    """As java.util.Properties reads them: a backslash is the one character of a value that it takes for something else."""
    return "".join(f"{name}={value.replace(chr(92), chr(92) * 2)}\n" for name, value in settings.items())


class KafkaConnect:
    """`jars`: its classpath, as java has it. `connectors`: the settings of each by its name. `jvm`: options of java."""

    def __init__(
        self,
        folder: Path,
        *,
        jars: Sequence[str],
        brokers: str,
        connectors: Mapping[str, Mapping[str, str]],
        worker: Mapping[str, str] | None = None,
        jvm: Sequence[str] = JVM,
    ) -> None:
        self.folder = folder
        (self._port,) = free_ports(1)
        self._connectors = connectors
        self._worker = _worker_settings(brokers, folder / "offsets", self._port) | dict(worker or {})
        self._command = ["java", *jvm, "-cp", ":".join(jars), MAIN]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None, "it is not running"
        return self._process.pid

    def start(self) -> None:
        """Returns when all tasks run. Raises RuntimeError with what it said, or with the trace of what failed."""
        assert self._process is None, "it is running"
        self.folder.mkdir(parents=True, exist_ok=True)
        files = [self._written("worker", self._worker)]
        files += [self._written(name, {"name": name, **settings}) for name, settings in self._connectors.items()]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, *map(str, files)], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline_s = time.monotonic() + START_S_MAX
        try:
            for name in self._connectors:
                while len(states := self.states(name)) < 2 or set(states) != {"RUNNING"}:
                    if time.monotonic() > deadline_s:
                        raise RuntimeError(f"{name} does not run after {START_S_MAX:.0f} s: {states} {self._tail()}")
                    time.sleep(0.2)  # only its answer shows it
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """SIGKILL; nothing if it is not running."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def states(self, name: str) -> list[str]:
        """Of the connector and its tasks, as far as they are there. Raises RuntimeError with the trace of one that has failed."""
        assert self._process is not None, "enter it first"
        if self._process.poll() is not None:
            raise RuntimeError(f"Kafka Connect ended with {self._process.returncode}: {self._tail()}")
        status = self._status(name)
        parts = [] if status is None else [status["connector"], *status["tasks"]]
        for part in parts:
            if part["state"] == "FAILED":
                raise RuntimeError(f"{name} failed: {part.get('trace', '')[:REPORTED_CHARS_MAX]}")
        return [str(part["state"]) for part in parts]

    def _status(self, name: str) -> Any:
        """None while Connect does not answer or does not know the connector yet."""
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(f"http://127.0.0.1:{self._port}/connectors/{name}/status", timeout=ANSWER_S_MAX) as answer:
                return json.load(answer)
        except (urllib.error.URLError, OSError):
            return None

    def _written(self, name: str, settings: Mapping[str, str]) -> Path:
        """For its owner only: it has passwords."""
        path = self.folder / f"{name}.properties"
        path.touch(mode=0o600)
        path.write_text(properties(settings))
        return path

    @property
    def _log(self) -> Path:
        return self.folder / "connect.log"

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-REPORTED_CHARS_MAX:]


def _worker_settings(brokers: str, offsets: Path, port: int) -> dict[str, str]:
    return {
        "bootstrap.servers": brokers,
        "listeners": f"http://127.0.0.1:{port}",
        "key.converter": CONVERTER,
        "value.converter": CONVERTER,
        "offset.storage.file.filename": str(offsets),
        "offset.flush.interval.ms": "1000",
        "consumer.isolation.level": "read_committed",
        "consumer.metadata.max.age.ms": "2000",
        "plugin.discovery": "service_load",
    }
