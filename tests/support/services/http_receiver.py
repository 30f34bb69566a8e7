"""The sample receiver of the http: sink, deploy/http/receiver.py, as a process of its own; each path is an output."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from threading import Event
from typing import Any

from sidecar.shared.model.nouns import TableName
from sidecar.shared.process.background import Background
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.places import Place, Shown
from tests.support.services.freezing import freeze, thaw
from tests.support.services.ports import free_port

SCRIPT = Path(__file__).parents[3] / "deploy" / "http" / "receiver.py"
START_S_MAX = 300.0

DYING = """
import os, runpy, sqlite3, sys
left = int(sys.argv.pop(1))

def step():
    global left
    if left == 0:
        os._exit(9)
    left -= 1

class Connection(sqlite3.Connection):
    def execute(self, *args):
        step()
        cursor = super().execute(*args)
        step()
        return cursor

    def executemany(self, *args):
        step()
        cursor = super().executemany(*args)
        step()
        return cursor

connect = sqlite3.connect
sqlite3.connect = lambda *args, **named: connect(*args, factory=Connection, **named)
sys.argv[0] = sys.argv[1]
del sys.argv[1]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""The program given, which dies before or after the statement that is its so many-th step."""


class HttpReceiver:
    """`arguments`: of the program, besides file and address."""

    def __init__(self, folder: Path, *arguments: str, scheme: str = "http") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file, self._log = folder / "merged.db", folder / "receiver.log"
        self.port = free_port()
        self._arguments, self._scheme = arguments, scheme
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> HttpReceiver:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self, *, dies_at: int | None = None) -> None:
        """Returns when it listens, or has died before. `dies_at`: a step, see DYING."""
        first = ["-c", DYING, str(dies_at)] if dies_at is not None else []
        command = [sys.executable, *first, str(SCRIPT), "--db", str(self.file), "--listen", f"127.0.0.1:{self.port}", *self._arguments]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said.startswith("listening") or dies_at is not None, self._log.read_text()[-2000:]

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.ended()

    def freeze(self) -> None:
        assert self.process is not None
        freeze(self.process.pid)

    def thaw(self) -> None:
        assert self.process is not None
        thaw(self.process.pid)

    def ended(self) -> None:
        """Waits for its end."""
        assert self.process is not None
        self.process.wait(START_S_MAX)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def url(self, output: str) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}/{output}"

    # ---- what it has -----------------------------------------------------------------------------------------------------

    def query(self, sql: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(self.file, timeout=START_S_MAX)) as db:
            return db.execute(sql, values).fetchall()

    def records(self, output: str, *, shown: bool = True) -> list[dict[str, Any]]:
        """Its lines in order; with `shown` none of a segment that has not ended."""
        sql = f"SELECT line FROM {'shown' if shown else 'record'} WHERE output = ? ORDER BY n"
        return [json.loads(line) for (line,) in self.query(sql, (f"/{output}",))]

    def rows(self, output: str) -> list[dict[str, Any]]:
        return [record for record in self.records(output) if "kind" not in record]

    def place(self, output: str, **parameters: str) -> Place:
        """Of the sink with its tables of spark_merge/testing/histories.py."""
        uri = self.uri(output, **parameters)

        def rows() -> dict[TableName, list[Shown]]:
            result: dict[TableName, list[Shown]] = {}
            for row in self.rows(output):
                after = None if row["after"] is None else tuple(row["after"].values())
                shown = (row["seq"], int(row["commit_ts"]), row["op"], tuple(row["key"].values()), after)
                result.setdefault(TableName(row["schema"], row["table"]), []).append(shown)
            return result

        return Place(uri, lambda log_id: open_sink(uri, log_id=log_id), rows)

    def uri(self, output: str, **parameters: str) -> str:
        query = "&".join(f"{name.replace('_', '-')}={value}" for name, value in parameters.items())
        return f"{self.url(output)}{'?' if query else ''}{query}"


class Revived:
    """Starts the receiver again whenever it has died, as long as it lives itself; each life is a step longer than the one before."""

    def __init__(self, receiver: HttpReceiver) -> None:
        self.deaths = 0
        self._receiver = receiver
        self._running: Background | None = None

    def __enter__(self) -> Revived:
        self._running = Background(self._run, name="revives")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._running is not None
        self._running.close(START_S_MAX)
        self._running.check()

    def _run(self, ending: Event) -> None:
        while not ending.is_set():
            process = self._receiver.process
            assert process is not None
            if process.poll() is None:
                ending.wait(0.01)
                continue
            self._receiver.ended()
            self.deaths += 1
            self._receiver.start(dies_at=FIRST_LIFE + self.deaths)


FIRST_LIFE = 8
"""Steps until it listens."""
