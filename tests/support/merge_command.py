"""`ticdc-dump merge` as it is used: a process with a settings file, started alone or by spark-submit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import sidecar
from spark_merge.delivery.places import WORKER_ROWS
from tests.support.services.spark import HOME

ENTRY = Path(sidecar.__file__).with_name("__main__.py")
END_S_MAX = 600.0
"""Spark itself gives a cluster that does not answer a minute."""


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """What it delivers, and with which Spark. The merge worker reads no other settings."""

    log: str
    sinks: tuple[str, ...]
    master: str
    memory: str = "512m"
    worker_rows: int = WORKER_ROWS

    def toml(self) -> str:
        elsewhere = '[changefeed]\nid = "any"\n[etcd]\nendpoints = ["127.0.0.1:1"]\n[source]\nhost = "nowhere"\nuser = "nobody"\n'
        spark = f'[spark]\nmaster = "{self.master}"\nmemory = "{self.memory}"\nworker_rows = {self.worker_rows}\n'
        return f'sinks = {list(self.sinks)}\n{elsewhere}[log]\nuri = "{self.log}"\n{spark}'


class MergeCommand:
    """`with MergeCommand(folder, …) as worker`: runs until the body ends. It dies with this process, too.

    `conf`: its SPARK_CONF_DIR. `submit`: options for spark-submit, which then starts it.
    """

    def __init__(
        self,
        folder: Path,
        settings: MergeSettings,
        *,
        conf: Path,
        environment: Mapping[str, str],
        epoch: int = 1,
        submit: Sequence[str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "merge.log"
        config = folder / "sidecar.toml"
        config.write_text(settings.toml())
        arguments = ["merge", "--config", str(config), "--log-id", "log-1", "--epoch", str(epoch)]
        python = [sys.executable, str(ENTRY)]
        spark = [str(HOME / "bin" / "spark-submit"), *(submit or ()), str(ENTRY)]
        if submit is not None:
            arguments.append("--end-with-stdin")  # it is the JVM's child: when that dies, its standard input ends
        self._command = ["setpriv", "--pdeathsig", "KILL", *(python if submit is None else spark), *arguments]
        self._environment = {**os.environ, "SPARK_CONF_DIR": str(conf), "PYSPARK_PYTHON": sys.executable, **environment}

    def __enter__(self) -> Self:
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(self._command, env=self._environment, stdin=subprocess.PIPE, stdout=log, stderr=log)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def runs(self) -> bool:
        return self._process.poll() is None

    def reported(self) -> str:
        """All that it said."""
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()

    def ended(self) -> int:
        """Its exit code, once it has ended on its own."""
        return self._process.wait(END_S_MAX)
