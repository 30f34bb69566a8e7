"""`ticdc-dump tail` of this sidecar's settings, for the page of rows: a process of its own with the lowest priority, one at a time, ended
when it takes too long or says too much. So no row is decoded in the sidecar's process, and the command alone says which columns are shown.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Timer

import msgspec

from sidecar.shared.errors import RefusedRequest

LOOKUP_MAX_S = 60.0
OUTPUT_BYTES_MAX = 8 << 20
EVENTS_MAX, VALUE_CHARS_MAX = 100, 200
NICE = 19
"""The lowest priority of Linux' scheduler."""

Values = dict[str, str | None]


class DumpPlace(msgspec.Struct, frozen=True):
    """Where a chunk's row was read, as of `event_json` (spark_merge/tail/shown.py)."""

    id: str
    chunk: str
    low_ts: str
    high_ts: str


class ReplacedBy(msgspec.Struct, frozen=True):
    commit_ts: str
    time: str
    op: str
    before: Values | None = None
    after: Values | None = None


class ShownLine(msgspec.Struct, frozen=True):
    """What the page shows of a line of the command's output: an event, or what a sink has (`verdict`)."""

    kind: str
    text: str = ""
    time: str = ""
    commit_ts: str = ""
    op: str = ""
    key: Values | None = None
    before: Values | None = None
    after: Values | None = None
    dump: DumpPlace | None = None
    replaced_by: ReplacedBy | None = None
    sink: str = ""
    verdict: str = ""
    row: Values | None = None

    @property
    def changes(self) -> list[tuple[str, str | None, str | None]]:
        """Of an update: the columns that it has changed, before and after."""
        before, after = self.before or {}, self.after or {}
        return [(name, before.get(name), text) for name, text in after.items() if before and before.get(name) != text]


class _Failed(msgspec.Struct):
    error: str


@dataclass(frozen=True, slots=True)
class RowLookup:
    """`error`: why there are no lines."""

    events: tuple[ShownLine, ...] = ()
    sinks: tuple[ShownLine, ...] = ()
    error: str = ""


class RowLookups:
    """From any thread."""

    def __init__(
        self, config_path: Path, *, command: tuple[str, ...] = (sys.executable, "-m", "sidecar"), max_s: float = LOOKUP_MAX_S
    ) -> None:
        self._command = [*command, "tail", "--config", str(config_path), "--json"]
        self._command += ["--limit", str(EVENTS_MAX), "--value-chars", str(VALUE_CHARS_MAX)]
        self._max_s = max_s
        self._lock = Lock()

    def look(self, table: str, key: str) -> RowLookup:
        """`key` empty: the table's last rows. Raises RefusedRequest while another one runs."""
        if not self._lock.acquire(blocking=False):
            raise RefusedRequest("somebody else looks at rows now, and one may at a time", hint="ask again in a moment")
        try:
            return self._run([*self._command, *([f"--key={key}"] if key else []), "--", table])
        except (OSError, ValueError) as failed:  # a text that can be no argument
            return RowLookup(error=f"it could not be started: {failed}")
        finally:
            self._lock.release()

    def _run(self, command: list[str]) -> RowLookup:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None, "it is a pipe"
            with suppress(ProcessLookupError):  # it has ended
                os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
            timer = Timer(self._max_s, process.kill)
            timer.start()
            try:
                output = process.stdout.read(OUTPUT_BYTES_MAX + 1)
                process.kill() if len(output) > OUTPUT_BYTES_MAX else process.wait()
            finally:
                is_late = not timer.is_alive()
                timer.cancel()
        if len(output) > OUTPUT_BYTES_MAX:
            return RowLookup(error=f"the rows are more than {OUTPUT_BYTES_MAX >> 20} MiB: run `ticdc-dump tail` in a terminal")
        if is_late:
            return RowLookup(error=f"it had not ended after {self._max_s:.0f} s, and was stopped: run `ticdc-dump tail` in a terminal")
        return _lookup(output, process.returncode)


def _lookup(output: bytes, exit_code: int) -> RowLookup:
    try:
        lines = [msgspec.json.decode(line, type=ShownLine) for line in output.splitlines()]
    except msgspec.MsgspecError:
        with suppress(msgspec.MsgspecError):
            return RowLookup(error=msgspec.json.decode(output.splitlines()[-1], type=_Failed).error)
        lines = []
    if not lines:
        return RowLookup(error=f"it ended with exit code {exit_code}, and its output is no list of events")
    sinks = tuple(line for line in lines if line.kind == "sink")
    return RowLookup(tuple(line for line in lines if line.kind != "sink"), sinks)
