"""The tasks of Spark that read chunks of dumps (read_task.py): the worker keeps as many at work as the sidecar wants.

sidecar: ReadersWanted ──► ReadingJobs: a thread a reader, job after job of one task ──► read_slice
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import Condition, Event
from typing import Protocol

from msgspec import structs

from sidecar.shared.errors import SinkError, SparkLost, TicdcDumpError
from sidecar.shared.process.background import Background
from sidecar.shared.reads.remote_wire import ReadersWanted, ReadsPlace
from spark_merge.worker.read_task import CUT, ReadingSettings, read_slice

READ_RETRY_FIRST_S, READ_RETRY_MAX_S = 1.0, 30.0
POOL = "dump"
"""Of Spark's scheduler: all readers have one share of the cores, beside each sink's."""


class ReadTasks(Protocol):
    """What runs them (`spark_tasks.SparkTasks`)."""

    def each(self, work: Sequence[Callable[[], int]], *, group: str) -> list[int]: ...

    def cancel(self, group: str) -> None: ...

    def driver_host(self) -> str: ...


class ReadingJobs:
    """For any thread. `notice` receives what a task died of, once for each text. Nothing of it ends a delivery."""

    def __init__(self, settings: ReadingSettings, tasks: ReadTasks, notice: Callable[[str], object]) -> None:
        self._settings, self._tasks, self._notice = settings, tasks, notice
        self._changed = Condition()
        self._wanted = 0
        self._place: ReadsPlace | None = None
        self._running: set[int] = set()
        self._noticed = ""

    def want(self, wanted: ReadersWanted) -> None:
        """So many are at work from now on; those that are too many end with their slice."""
        with self._changed:
            self._wanted, self._place = wanted.readers, wanted.place
            self._changed.notify_all()
            for number in set(range(wanted.readers)) - self._running:
                self._running.add(number)
                Background(partial(self._keep_reading, number), name=POOL)

    def close(self) -> None:
        """Tasks that are under way are cut off."""
        with self._changed:
            self._wanted = 0
            self._changed.notify_all()
            is_running = bool(self._running)
        if is_running:
            with suppress(SinkError, SparkLost):  # then they are over, too
                self._tasks.cancel(POOL)

    def _keep_reading(self, number: int, _: Event) -> None:
        pause_s = READ_RETRY_FIRST_S
        while (place := self._place_of(number)) is not None:
            try:
                known = place if place.host else structs.replace(place, host=self._tasks.driver_host())
                if self._tasks.each([partial(read_slice, self._settings, known)], group=POOL) != [CUT]:
                    pause_s = READ_RETRY_FIRST_S
                    continue
            except Exception as error:  # noqa: BLE001  # as Spark reports a task, or a defect: the sidecar sees that nobody reads
                self._note(error, number)
            with self._changed:
                self._changed.wait_for(lambda: number >= self._wanted, pause_s)
            pause_s = min(2 * pause_s, READ_RETRY_MAX_S)

    def _place_of(self, number: int) -> ReadsPlace | None:
        """None: this one is not wanted any more, and ends."""
        with self._changed:
            if number < self._wanted:
                return self._place
            self._running.discard(number)
            return None

    def _note(self, error: Exception, number: int) -> None:
        """SparkLost is the worker's own end."""
        text = str(error) if isinstance(error, TicdcDumpError) else f"a defect: {error!r}"
        if number < self._wanted and text != self._noticed and not isinstance(error, SparkLost):
            self._noticed = text
            self._notice(f"a task that reads chunks of a dump has ended, and another one begins: {text}")
