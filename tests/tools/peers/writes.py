"""The writes: sessions that update random rows at a steady rate, each write on its own and committed by itself.

A process of its own (`python -m tests.tools.peers.writes FOLDER`), so that it shares no interpreter with what measures. It writes until its
standard input ends, and then what it wrote, two int64 a write: its number, and the time before its UPDATE was sent.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

import numpy as np

from tests.tools.peers.arrivals import Writes
from tests.tools.peers.big import UPDATE
from tests.tools.rig.binlog import MySqlAddress

SETTINGS_FILE, WRITES_FILE, LOG_FILE = "writes.json", "writes.int64", "writes.log"
BEHIND_S_MAX = 1.0
"""How much of what a slow server has cost is made up for."""
END_S_MAX = 30.0

_REPOSITORY = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """`first_number`: of the first write; they go up by one."""

    source: MySqlAddress
    rows: int
    writes_per_s: float
    sessions: int
    first_number: int


class WriterProcess:
    """`with WriterProcess(folder, settings) as writer: …; writes = writer.stop()`. Leaving it kills what is left."""

    def __init__(self, folder: Path, settings: WriteSettings) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        (folder / SETTINGS_FILE).write_text(json.dumps(asdict(settings)))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with (self.folder / LOG_FILE).open("wb") as log:
            command = [sys.executable, "-m", "tests.tools.peers.writes", str(self.folder)]
            self._process = subprocess.Popen(
                command, cwd=_REPOSITORY, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def check(self) -> None:
        """Raises RuntimeError with what it said if it has ended by itself."""
        assert self._process is not None, "enter it first"
        if self._process.poll() is not None:
            raise RuntimeError(f"the writer ended with {self._process.returncode}: {(self.folder / LOG_FILE).read_text()[-3000:]}")

    def stop(self) -> Writes:
        """Everything that was written, all of it committed."""
        self.check()
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(END_S_MAX)
        if self._process.returncode:
            self.check()
        return Writes.read(self.folder / WRITES_FILE)


class Sessions:
    """The sessions' threads. A session whose statement fails ends them all; `stop` raises it."""

    def __init__(self, settings: WriteSettings) -> None:
        self._settings = settings
        self._end = threading.Event()
        self._error: BaseException | None = None
        self._done: list[list[tuple[int, int]]] = [[] for _ in range(settings.sessions)]
        self._threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(settings.sessions)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> list[tuple[int, int]]:
        self._end.set()
        for thread in self._threads:
            thread.join()
        if self._error is not None:
            raise self._error
        return [write for done in self._done for write in done]

    def _run(self, session: int) -> None:
        try:
            self._write(session)
        except BaseException as error:  # noqa: BLE001  (handed to the thread that stops it)
            self._error = error
            self._end.set()

    def _write(self, session: int) -> None:
        settings, numbers, done = self._settings, Random(session), self._done[session]
        connection: Any = settings.source.connect()
        every_s = settings.sessions / settings.writes_per_s
        number = settings.first_number + session
        try:
            with connection.cursor() as cursor:
                due_s = time.monotonic()
                while not self._end.wait(max(0.0, due_s - time.monotonic())):
                    began_ns = time.time_ns()
                    changed = cursor.execute(UPDATE, (number, numbers.randint(1, settings.rows)))
                    assert changed == 1, "every id of the range is there"
                    done.append((number, began_ns))
                    number += settings.sessions
                    due_s = max(due_s + every_s, time.monotonic() - BEHIND_S_MAX)
        finally:
            connection.close()


def main() -> None:
    folder = Path(sys.argv[1])
    result = json.loads((folder / SETTINGS_FILE).read_text())
    sessions = Sessions(WriteSettings(**(result | {"source": MySqlAddress(**result["source"])})))
    sessions.start()
    ending = threading.Thread(target=sys.stdin.buffer.read, daemon=True)
    ending.start()
    ending.join()
    np.array(sessions.stop(), dtype=np.int64).reshape(-1, 2).tofile(folder / WRITES_FILE)


if __name__ == "__main__":
    main()
