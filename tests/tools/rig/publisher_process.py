"""The publisher's process and what tests do to it: kill, freeze, pause, send again from an older checkpoint.

It ends with the process that started it (its standard input closes), and is restarted by nobody but the test.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from tests.support.services.freezing import freeze
from tests.tools.rig.publisher import SETTINGS_FILE, Checkpoint, Settings, read_checkpoints, write_checkpoint

LOG_FILE = "publisher.log"
STOP_S_MAX = 10.0
POLL_S = 0.05

_REPOSITORY = Path(__file__).parents[3]


class PublisherProcess:
    """`folder` holds its settings, checkpoints and log."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.settings = settings
        (folder / SETTINGS_FILE).write_bytes(msgspec.json.encode(settings))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the publisher is not running"
        return self._process.pid

    def is_running(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        """Read on from the last checkpoint."""
        assert self._process is None, "the publisher is running"
        with (self.folder / LOG_FILE).open("ab") as log:
            command = [sys.executable, "-m", "tests.tools.rig.publisher", str(self.folder)]
            self._process = subprocess.Popen(
                command, cwd=_REPOSITORY, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        """SIGKILL; nothing if it is not running. What follows its last checkpoint will be repeated."""
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            process.wait(STOP_S_MAX)
            if process.stdin is not None:
                process.stdin.close()

    def restart(self) -> None:
        self.kill()
        self.start()

    def freeze(self) -> None:
        """SIGSTOP: neither rows nor marks come, connections stay."""
        assert self._process is not None, "the publisher is not running"
        freeze(self._process.pid)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def resend(self, checkpoint: Checkpoint) -> None:
        """Start again from an older checkpoint: resolved goes back, rows come again with the same commit_ts."""
        self.kill()
        write_checkpoint(self.folder, checkpoint)
        self.start()

    def checkpoints(self) -> list[Checkpoint]:
        """From the changefeed's start on, in the order in which they were written."""
        return read_checkpoints(self.folder, self.settings.start)

    def await_gtid(self, gtid: str, *, timeout_s: float) -> Checkpoint:
        """Wait until everything up to `gtid` (of MariaDB's one domain) is in Kafka. Raises TimeoutError."""
        wanted = _sequence(gtid)
        give_up_s = time.monotonic() + timeout_s
        while True:
            last = self.checkpoints()[-1]
            if _sequence(last.gtid) >= wanted:
                return last
            self.check()
            if time.monotonic() > give_up_s:
                raise TimeoutError(f"the publisher is at {last.gtid} after {timeout_s} s, and not at {gtid}: {self.log_tail()}")
            time.sleep(POLL_S)  # its checkpoints are lines in a file

    def check(self) -> None:
        """Raises RuntimeError with the end of its log if it has ended on its own."""
        if self._process is not None and self._process.poll() is not None:
            raise RuntimeError(f"the publisher ended with {self._process.returncode}: {self.log_tail()}")

    def log_tail(self) -> str:
        path = self.folder / LOG_FILE
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "the publisher is not running"
        self._process.send_signal(number)


def _sequence(gtid: str) -> int:
    """N of `domain-server-N`; 0 for none."""
    return int(gtid.rpartition("-")[2] or 0)
