"""Delivers a log in a process of its own, each batch's tasks and each call of the sink under a watchdog, to what is slow or hangs.

    python -m tests.support.watched LOG URI HANG_S FILE_S     FILE_S: how long each new file of a local disk takes; "hang", "hang-accept"

It prints how long the longest watched work took.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import IO

from sidecar.shared.log.storage import Folder, local, open_folder
from spark_merge.delivery import batches as delivery
from spark_merge.delivery.batches import Delivery, JobSettings, TaskWork
from spark_merge.delivery.watchdog import Watchdog
from spark_merge.port.contract import Outcome
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.places import Here

LIMIT_S = 600.0


def deliver_watched(log: Folder, uri: str, *, hang_s: float, file_s: str = "0") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", __spec__.name, log.root, uri, str(hang_s), file_s]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def for_ever() -> None:
    forever = Lock()
    forever.acquire()
    forever.acquire()


def make_slow(file_s: str) -> None:
    new_file = local.new_file

    @contextmanager
    def slow(folder: Folder, name: str, *, durable: bool) -> Iterator[IO[bytes]]:
        with new_file(folder, name, durable=durable) as file:
            yield file
            if file_s.startswith("hang") and name.startswith("_segments" if file_s == "hang-accept" else "s."):
                for_ever()
            elif not file_s.startswith("hang"):
                time.sleep(float(file_s))

    local.new_file = slow


class RecordingWatch:
    """A watch that notes its calls: progress, and how long a call may take."""

    def __init__(self) -> None:
        self.progress = 0
        self.calls_s: list[float] = []

    def progressed(self) -> None:
        self.progress += 1

    @contextmanager
    def may_take(self, seconds: float) -> Iterator[None]:
        self.calls_s.append(seconds)
        yield


@dataclass(frozen=True)
class WatchedHere(Here):
    """Spark's place and the worker's."""

    dog: Watchdog = field(default_factory=Watchdog)
    took_s: list[float] = field(default_factory=list)

    def run(self, work: Sequence[TaskWork]) -> list[Outcome]:
        began_s = time.monotonic()
        with self.dog.watched():
            done = super().run(work)
        self.took_s.append(time.monotonic() - began_s)
        return done


def main(log: str, uri: str, hang_s: str, file_s: str) -> None:
    delivery.ACCEPT_QUICK_S = -1.0  # all that there is in one batch
    make_slow(file_s)
    tasks = WatchedHere(dog=Watchdog(float(hang_s)))
    delivering = Delivery(open_sink(uri, log_id="cf"), JobSettings(open_folder(log)), tasks, watched=tasks.dog.watched)
    while delivering.deliver():
        pass
    sys.stdout.write(f"{max(tasks.took_s)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
