"""Spark's own standalone cluster on loopback: a master and its workers, each a process of pyspark's own jars, with authentication and
encryption on and nothing else open.

- They die with the process that started them, however it dies (`setpriv --pdeathsig`); executors end when their worker or driver is gone.
- Executors and their Python run as children of a worker, in its folder: so what is left is identified by folder and command line.
- An application is given `conf` as its SPARK_CONF_DIR. Executors use the same Python as the driver, since it is the same machine.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyspark

from tests.support.services.java import QUICK_JAVA

HOME = Path(os.environ.get("SPARK_HOME", Path(pyspark.__file__).parent))
START_S_MAX = 600.0
END_S_MAX = 300.0
DAEMON_MEMORY, EXECUTOR_MEMORY = "192m", "512m"
"""An executor's is the least that Spark takes, nearly."""
EXECUTOR = "CoarseGrainedExecutorBackend"

DEPLOYED = Path(__file__).parents[3] / "deploy" / "spark" / "spark-defaults.conf"
_OF_SECURITY = ("spark.authenticate", "spark.network.", "spark.io.", "spark.master.")
_HERE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": EXECUTOR_MEMORY,
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": " ".join(QUICK_JAVA),
}


def _read_conf(path: Path) -> dict[str, str]:
    lines = [line.split(None, 1) for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {name: value.strip() for name, value in lines}


def security() -> dict[str, str]:
    """What deploy/ has an operator set on a cluster, the secret of its example included."""
    return {name: value for name, value in _read_conf(DEPLOYED).items() if name.startswith(_OF_SECURITY)}


class SparkCluster:
    """`with SparkCluster(folder) as cluster`. `environment`: what workers have besides, and their executors of them."""

    def __init__(self, folder: Path, *, workers: int = 2, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.url = ""
        """`spark://host:port`."""
        self.conf = folder / "conf"
        self._environment = dict(environment or {})
        self._count = workers
        self._master: subprocess.Popen[bytes] | None = None
        self._workers: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def start(self) -> None:
        """Every worker is registered when it returns. Raises RuntimeError with the end of a log."""
        self.write_conf(self.conf, {"spark.authenticate.secret": secrets.token_hex(16)})
        try:
            self._master = self._launch("master", self.conf, "org.apache.spark.deploy.master.Master")
            self.url = self._reported("master", r"Starting Spark master at (spark://\S+)")
            self._reported("master", r"(elected leader)")
            for number in range(self._count):
                self.start_worker(number)
            self._await(lambda: len(self.alive()) == self._count, "a worker is not registered", "master")
        except BaseException:
            self.close()
            raise

    def write_conf(self, folder: Path, settings: Mapping[str, str]) -> Path:
        """A `spark-defaults.conf` for an application, with `settings` over what the cluster's own has. Only this user may read it."""
        folder.mkdir(parents=True, exist_ok=True)
        own = folder / "spark-defaults.conf"
        clusters = self.conf / own.name
        result = security() | _HERE | (_read_conf(clusters) if clusters.exists() else {}) | dict(settings)
        own.touch(mode=0o600)
        own.write_text("".join(f"{name} {value}\n" for name, value in result.items()))
        return folder

    def start_worker(self, number: int, *, conf: Path | None = None) -> None:
        """`conf`: another SPARK_CONF_DIR than the cluster's."""
        folder = self.folder / f"worker-{number}"
        arguments = ["--cores", "1", "--memory", "600m", "--work-dir", str(folder), self.url]
        self._workers[number] = self._launch(f"worker-{number}", conf or self.conf, "org.apache.spark.deploy.worker.Worker", *arguments)

    def kill_worker(self, number: int) -> None:
        """SIGKILL, as a machine that is lost: its executors end, too."""
        worker = self._workers.pop(number)
        worker.kill()
        worker.wait()

    def kill_executor(self, pid: int) -> None:
        """SIGKILL, with its Python, which would live on for a moment; they are gone when it returns."""
        ours = self._ours()
        doomed = {pid}
        while more := {child for child, (parent, _) in ours.items() if parent in doomed} - doomed:
            doomed |= more
        for one in doomed:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        self._await(lambda: not doomed & self._ours().keys(), "an executor does not end", "master")

    def worker_reports(self, number: int, pattern: str) -> None:
        """Until its log has it. Raises RuntimeError with the end of the log."""
        self._reported(f"worker-{number}", f"({pattern})")

    def executors(self) -> dict[int, int]:
        """PIDs of executors, each with its worker's number."""
        of = {worker.pid: number for number, worker in self._workers.items()}
        return {pid: of[parent] for pid, (parent, command) in self._ours().items() if parent in of and EXECUTOR in command}

    def executor_at(self, port: int) -> tuple[int, int]:
        """PID and worker's number of the executor whose task has a connection from `port` of 127.0.0.1. Raises AssertionError."""
        ours, executors = self._ours(), self.executors()
        pid = next((pid for pid in ours if _has_port(pid, port)), 0)
        while pid in ours and pid not in executors:
            pid = ours[pid][0]
        assert pid in executors, f"no executor has port {port}: {ours}"
        return pid, executors[pid]

    def alive(self) -> list[Any]:
        """Workers that the master counts on, as its status has them."""
        return [worker for worker in self._status()["workers"] if worker["state"] == "ALIVE"]

    def applications(self) -> list[str]:
        """Ids of those that run."""
        return [item["id"] for item in self._status()["activeapps"]]

    def left(self) -> list[int]:
        """PIDs of all processes of this cluster and of applications that were given its `conf`."""
        return list(self._ours())

    def close(self) -> None:
        """Ends all of it. Raises RuntimeError if something had to be killed that should have ended with its worker."""
        for process in (*self._workers.values(), *([self._master] if self._master else [])):
            process.kill()
            process.wait()
        self._workers.clear()
        self._master = None
        deadline = time.monotonic() + END_S_MAX
        while (left := self._ours()) and time.monotonic() < deadline:
            time.sleep(0.05)  # there is no event when another process's child ends
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        if left:
            raise RuntimeError(f"of the Spark cluster in {self.folder} were left: {left}")

    # ---- processes --------------------------------------------------------------------------------------------------

    def _launch(self, name: str, conf: Path, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        (self.folder / name).mkdir(parents=True, exist_ok=True)
        java = {"SPARK_DAEMON_MEMORY": DAEMON_MEMORY, "SPARK_DAEMON_JAVA_OPTS": " ".join(QUICK_JAVA)}
        spark = {"SPARK_HOME": str(HOME), "SPARK_CONF_DIR": str(conf), "SPARK_LOCAL_IP": "127.0.0.1", **java}
        command = ["setpriv", "--pdeathsig", "KILL", str(HOME / "bin" / "spark-class"), main]
        command += ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *arguments]
        with self._log_file(name).open("wb") as log:
            return subprocess.Popen(
                command, env={**os.environ, **spark, **self._environment}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _ours(self) -> dict[int, tuple[int, str]]:
        """By PID its parent's and the command line; ended ones that nobody has waited for yet are omitted."""
        ours = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                command = (entry / "cmdline").read_text(errors="replace").replace("\0", " ")
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                place = os.readlink(entry / "cwd")
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            if state != "Z" and int(entry.name) != os.getpid() and (str(self.folder) in command or place.startswith(f"{self.folder}/")):
                ours[int(entry.name)] = (int(parent), command)
        return ours

    # ---- what they say ----------------------------------------------------------------------------------------------

    def _status(self) -> Any:
        address = self._reported("master", r"MasterWebUI.* started at (http://\S+)")
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(f"{address}/json/", timeout=START_S_MAX) as answer:
            return json.load(answer)

    def _reported(self, name: str, pattern: str) -> str:
        self._await(lambda: re.search(pattern, self._log(name)) is not None, f"no {pattern!r}", name)
        match = re.search(pattern, self._log(name))
        assert match is not None
        return match[1]

    def _await(self, condition: Callable[[], bool], what: str, name: str) -> None:
        deadline = time.monotonic() + START_S_MAX
        while not condition():
            dead = any(process.poll() is not None for process in (self._master, *self._workers.values()) if process is not None)
            if dead or time.monotonic() > deadline:
                raise RuntimeError(
                    f"the Spark cluster does not start: {what}; the end of {self._log_file(name)}:\n{self._log(name)[-3000:]}"
                )
            time.sleep(0.05)  # only its log shows it

    def _log_file(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _log(self, name: str) -> str:
        return self._log_file(name).read_text(errors="replace")


def _has_port(pid: int, port: int) -> bool:
    """By Linux's /proc: a connected IPv4 socket of the process."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inodes = {f"socket:[{row[9]}]" for row in rows if int(row[1].partition(":")[2], 16) == port}
    try:
        return any(os.readlink(entry) in inodes for entry in Path(f"/proc/{pid}/fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return False
