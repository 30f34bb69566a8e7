"""The merge worker: the long-running Spark application that delivers one log to its sinks (`ticdc-dump merge`).

    Job: each sink's loop ─► delivered.json, written here after each batch

- Its only position is the sinks' last accepted segment: it can be killed at any moment and started anywhere else.
- It delivers live rows at once, while Spark still starts; windows wait for Spark.
- Started by a sidecar it belongs to that owner's epoch. Segments of a later owner end it: the later owner has a worker of its
  own, and two must not deliver to one sink.
- A sink that fails is tried again and holds no other; if none goes on, the worker ends. So it does on any other error, and where
  something hangs in this process (places.py): whoever minds it starts it again.
- It ends when its standard input does, if told so: a sidecar that is killed leaves no worker behind.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from threading import Event, Thread
from urllib.parse import urlsplit, urlunsplit

from sidecar.errors import ConfigError, TicdcDumpError
from sidecar.log import storage
from sidecar.log.delivered import DELIVERED_NAME, DeliveryReport
from spark_merge.delivery import JobSettings
from spark_merge.job import Job, SparkTasks, session
from spark_merge.places import WORKER_ROWS
from spark_merge.sinks.registry import open_sink

STDIN = 0

REPORT_EVERY_S = 0.05
"""After a batch a report follows so soon; batches in between are in it."""

LOOK_EVERY_S = 1.0
"""Between two looks at what ended a loop or Spark, where no batch comes."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """`log_id` names the log for ever, in every sink. `worker_rows`: places.py."""

    job: JobSettings
    sinks: tuple[str, ...]
    log_id: str
    master: str
    memory: str
    worker_rows: int = WORKER_ROWS


class Worker:
    """Runs until told to end or until an error ends it. `watched`: around what runs in this process (`places.Watchdog`). `notice(what)`
    hears of each sink that fails, and that goes on again."""

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        watched: Callable[[], AbstractContextManager[None]] = nullcontext,
        notice: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.settings = settings
        self.ending = Event()
        self._watched, self._notice = watched, notice
        self._errors: dict[str, str] = {}

    def run(self) -> None:
        """Raises what stops it: SinkError, LogBroken, StorageFull or what Spark died of. All of it is safe to start again."""
        settings = self.settings
        sinks = {name_of(uri): open_sink(uri, log_id=settings.log_id) for uri in settings.sinks}
        if len(sinks) < len(settings.sinks):
            raise ConfigError(f"sinks names one output twice: {', '.join(map(name_of, settings.sinks))}", hint="name each output once")
        spark = SparkTasks(partial(session, master=settings.master, memory=settings.memory))
        job = Job(spark, sinks, settings.job, worker_rows=settings.worker_rows, watched=self._watched)
        job.start()
        try:
            self._mind(job)
        except TicdcDumpError as error:
            self._report(job, "stopped", error=str(error))
            raise
        finally:
            job.close()

    def _mind(self, job: Job) -> None:
        while not self.ending.is_set():
            job.changed.wait(LOOK_EVERY_S)
            job.changed.clear()
            job.check()
            self._notice_errors(job)
            if job.opened():
                self._report(job, "running")
            self.ending.wait(REPORT_EVERY_S)

    def _notice_errors(self, job: Job) -> None:
        errors = {sink.sink: sink.error for sink in job.sinks()}
        for sink, error in errors.items():
            if error != self._errors.get(sink, ""):
                self._notice(f"{sink} does not go on, and is tried again: {error}" if error else f"{sink} goes on again")
        self._errors = errors

    def _report(self, job: Job, state: str, *, error: str = "") -> None:
        """`seq`: the last segment that all sinks have accepted; its ts is told where the log still has it."""
        seq, upto_ts = job.position()
        report = DeliveryReport(
            seq=seq,
            upto_ts=upto_ts,
            state=state,
            written_ms=int(time.time() * 1000),
            pid=os.getpid(),
            error=error,
            dropped={table: rows.dropped for table, rows in list(job.counts.items()) if rows.dropped},
            rows=job.rows(),
            spark="ready" if job.spark.ready else "starting",
            sinks=job.sinks(),
        )
        storage.write_atomically(self.settings.job.log, DELIVERED_NAME, report.to_json())


def name_of(uri: str) -> str:
    """A sink's URI as it may be shown: its parameters but `format` may be secrets."""
    parts = urlsplit(uri)
    kept = "&".join(part for part in parts.query.split("&") if part.startswith("format="))
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, kept, ""))


def end_with_stdin(worker: Worker) -> None:
    """Let `worker` end when its standard input does: whoever started it is gone."""

    def wait() -> None:
        while os.read(STDIN, 1):  # not sys.stdin: Python's own lock of it, held at the end, makes that an abort
            pass
        worker.ending.set()

    Thread(target=wait, name="stdin", daemon=True).start()  # a read of stdin cannot be told to end, and nobody waits for it
