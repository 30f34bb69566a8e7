"""The product beside the rig, as its users run it: `ticdc-dump run` as a process, operated by the `cdc` command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sidecar.control.answers import CallFailed
from sidecar.control.client import Access, ControlClient
from sidecar.control.wire import status_json
from tests.support.services.freezing import freeze
from ticdc_dump.v1 import control_pb2

BIN = Path(sys.executable).parent
POLL_S = 0.2

_REPOSITORY = Path(__file__).parents[3]


class SidecarProcess:
    """`ticdc-dump run --config`. Its output goes to `log`. A context manager: leaving it kills what is left."""

    def __init__(self, config: Path, log: Path) -> None:
        self.config = config
        self.log = log
        settings = tomllib.loads(config.read_text())
        self.changefeed_id = str(settings["changefeed"]["id"] if "changefeed" in settings else settings["binlog"]["name"])
        self.address = str(settings["control"]["listen"])
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    def start(self) -> None:
        self._process = _started("run", self.config, self.log)

    def stop(self, *, timeout_s: float = 60.0) -> int:
        """SIGTERM, as systemd does it; the exit code."""
        self._send(signal.SIGTERM)
        return self._running.wait(timeout_s)

    def kill(self) -> None:
        """SIGKILL; nothing if it has ended."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def freeze(self) -> None:
        freeze(self.pid)

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    def ended(self) -> int | None:
        """The exit code, None while it runs."""
        return self._running.poll()

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "start it first"
        return self._process

    def _send(self, number: int) -> None:
        os.kill(self._running.pid, number)

    # ---- its operator ------------------------------------------------------------------------------------------------------

    def cdc(self, command: str, *arguments: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """`cdc cli changefeed {command} -c … {arguments}`."""
        words = [str(BIN / "cdc"), "cli", "changefeed", command, "-c", self.changefeed_id, *arguments]
        environment = os.environ | {"TICDC_DUMP_ADDR": self.address}
        return subprocess.run(words, capture_output=True, text=True, timeout=timeout_s, check=False, env=environment)

    def ask(self, command: str, *arguments: str, timeout_s: float = 60.0) -> dict[str, Any]:
        """The answer's JSON. Raises AssertionError with what was said instead, if it failed."""
        done = self.cdc(command, *arguments, "--json", "--timeout", str(timeout_s / 2), timeout_s=timeout_s)
        assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}"
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def await_status(self, wanted: Callable[[dict[str, Any]], bool], *, timeout_s: float) -> dict[str, Any]:
        """Ask until `wanted` is true of the status; a sidecar that does not answer is queried again. Raises TimeoutError."""
        until_s, last = time.monotonic() + timeout_s, ""
        request = control_pb2.DumpRequest(changefeed=control_pb2.Changefeed(id=self.changefeed_id))
        while time.monotonic() < until_s:
            try:
                with ControlClient(self.address, Access(patience_s=1.0)) as client:
                    status = status_json(client.call("Query", request))
            except CallFailed as error:
                last = str(error)
            else:
                if wanted(status):
                    return status
                last = json.dumps(status)
            if self.ended() is not None:
                raise TimeoutError(f"the sidecar ended with {self.ended()}: {self.log.read_text()[-3000:]}")
            time.sleep(POLL_S)  # a query is of one moment
        raise TimeoutError(f"not within {timeout_s} s; last: {last[-3000:]}")


class MergeWorkerProcess:
    """`ticdc-dump merge --config`, for a sidecar whose settings leave the worker to others. Its killer starts it again.
    `slow_job_s`: by how much each of its Spark's jobs takes longer. `odd`: with a defect in its `sqlite:` sinks (odd_worker.py)."""

    def __init__(self, config: Path, log: Path, *, slow_job_s: float = 0.0, odd: bool = False) -> None:
        self.config = config
        self.log = log
        self._program = [str(BIN / "ticdc-dump")]
        if slow_job_s:
            self._program = [sys.executable, "-m", "tests.tools.rig.slow_worker", str(slow_job_s)]
        elif odd:
            self._program = [sys.executable, "-m", "tests.tools.rig.odd_worker"]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    def start(self) -> None:
        self._process = _started("merge", self.config, self.log, program=self._program)

    @property
    def pid(self) -> int | None:
        """Of the driver; None before it was started."""
        return None if self._process is None else self._process.pid

    def ended(self) -> int | None:
        """The driver's exit code, None while it runs."""
        assert self._process is not None, "start it first"
        return self._process.poll()

    def kill(self) -> None:
        """SIGKILL for the driver with its JVM and Python workers."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def _started(command: str, config: Path, log: Path, *, program: Sequence[str] = (str(BIN / "ticdc-dump"),)) -> subprocess.Popen[bytes]:
    """`ticdc-dump {command} --config`, in a process group of its own."""
    words = [*program, command, "--config", str(config)]
    with log.open("ab") as out:
        return subprocess.Popen(words, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True, cwd=_REPOSITORY)
