"""ClickHouse's engine in a process of its own, over a folder: started, killed, frozen, started again over what it had (clickhouse_front.py
says what it is, and what it is not)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from base64 import b64encode
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from tests.support.services.freezing import freeze, thaw
from tests.support.services.ports import free_ports

START_S_MAX = 300.0


class ClickHouse:
    """`with ClickHouse(folder) as server`."""

    host = "127.0.0.1"
    user = "tester"
    password = "p@ss:w/ord #1%"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (self.port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None, "it is not running"
        return self._process.pid

    def start(self) -> None:
        """Raises RuntimeError with the end of its log."""
        assert self._process is None, "it is running"
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "tests.support.services.clickhouse_front"]
        command += [str(self.port), str(self.folder / "data"), self.user, self.password]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=Path(__file__).parents[3])
        give_up_s = time.monotonic() + START_S_MAX
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > give_up_s:
                self.kill()
                raise RuntimeError(f"chdb does not answer: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL; nothing if it is not running."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait(START_S_MAX)

    def freeze(self) -> None:
        freeze(self.pid)

    def thaw(self) -> None:
        thaw(self.pid)

    def _answers(self) -> bool:
        try:
            return self.rows("SELECT 1") == [[1]]
        except (urllib.error.URLError, ConnectionError):
            return False

    # ---- as an operator or reader, without the driver that the sink uses ----------------------------------------------------------

    def post(self, query: str | bytes, path: str = "/") -> bytes:
        login = b64encode(f"{self.user}:{self.password}".encode()).decode()
        url = f"http://{self.host}:{self.port}{path}"
        request = urllib.request.Request(
            url, query.encode() if isinstance(query, str) else query, {"Authorization": f"Basic {login}"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=START_S_MAX) as answer:
            data: bytes = answer.read()
        return data

    def execute(self, *queries: str) -> None:
        for query in queries:
            self.post(query)

    def rows(self, query: str) -> list[list[Any]]:
        return [json.loads(line) for line in self.post(f"{query} FORMAT JSONCompactEachRow").splitlines()]

    def arrow(self, query: str) -> pa.Table:
        data = self.post(f"{query} SETTINGS output_format_arrow_string_as_string = 0 FORMAT ArrowStream")
        return pa.ipc.open_stream(data).read_all()

    def fail(self, code: int, *, times: int, of: str = "INSERT") -> None:
        """The next queries that begin with `of`."""
        self.post("", f"/fail?code={code}&times={times}&of={of}")
