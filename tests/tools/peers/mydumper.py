"""mydumper, where it is installed: how fast rows can leave the server without an order among them and without a live stream.

`-k` (no locks): other lock modes hang on the rig's MariaDB.
"""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
from pathlib import Path

from tests.tools.peers.big import NAME, TABLE, TEXT_BYTES_MIN
from tests.tools.peers.system import kill_tree
from tests.tools.rig.binlog import MySqlAddress
from tests.tools.rig.tables import SCHEMA

QUALIFIED_SINCE = (0, 11)
"""From this version on `--tables-list` takes names with their database."""
DUMP_S_MAX = 600.0


def version() -> str | None:
    """As `0.10.1`; None where it is not installed."""
    program = shutil.which("mydumper")
    if program is None:
        return None
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False)
    match = re.search(r"(\d+\.\d+(?:\.\d+)?)", done.stdout + done.stderr)
    return match[1] if match else "of unknown version"


def command(source: MySqlAddress, out: Path, *, threads: int, rows: int, installed: str) -> list[str]:
    """With several threads the table is cut into as many parts, else one of them would do it all."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", installed)[:2])
    table = TABLE if numbers and numbers < QUALIFIED_SINCE else NAME
    address = ["-h", source.host, "-P", str(source.port), "-u", source.user, "-p", source.password]
    parts = ["-r", str(-(-rows // threads))] if threads > 1 else []
    return ["mydumper", *address, "-B", SCHEMA, "-T", table, "-k", "-t", str(threads), *parts, "-o", str(out)]


class Mydumper:
    """One dump: start it by entering, `wait` until its files are there. Leaving it kills what is left."""

    def __init__(self, source: MySqlAddress, folder: Path, *, threads: int, rows: int) -> None:
        folder.mkdir(parents=True)
        self._out, self._log, self._rows = folder / "out", folder / "mydumper.log", rows
        installed = version()
        assert installed is not None, "ask version() first"
        self._command = command(source, self._out, threads=threads, rows=rows, installed=installed)

    def __enter__(self) -> Mydumper:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            kill_tree(self._process.pid)
            self._process.wait()

    def wait(self) -> float:
        """Its CPU seconds: it is over too soon for samples. Raises RuntimeError if it failed or its files are too small for the table."""
        before_s = _children_s()
        status = self._process.wait(DUMP_S_MAX)
        cpu_s = _children_s() - before_s
        size = sum(path.stat().st_size for path in self._out.glob(f"{NAME}*.sql"))
        if status or size < self._rows * TEXT_BYTES_MIN:
            raise RuntimeError(f"mydumper ended with {status} and {size:,} bytes: {self._log.read_text()[-2000:]}")
        return cpu_s


def _children_s() -> float:
    """CPU of the children that have been waited for; nobody else waits for one meanwhile."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
