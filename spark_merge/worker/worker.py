"""The merge worker: the long-running Spark application that delivers one log to its sinks (`ticdc-dump merge`).

    Job: each sink's loop ─► delivered.json, written here after each batch

- Its only position is the sinks' last accepted segment: it can be killed at any moment and started anywhere else.
- It delivers at once, without Spark, which on one machine is there only while large batches need it (spark_tasks.py); only what
  must be Spark's waits (delivery/places.py).
- Started by a sidecar it belongs to that owner's epoch. Segments of a later owner end it: the later owner has a worker of its
  own, and two must not deliver to one sink.
- Verifications run in a process of their own (spark_merge/verify/process.py), and end no delivery.
- A sink that fails is tried again in its loop, and holds no other (delivery/loop.py). A report that cannot be written is tried again, too.
  On any other error the worker ends, and where something hangs in this process (delivery/watchdog.py): its supervisor starts it again.
- It ends when its standard input does, if set so: a sidecar that is killed leaves no worker behind. A line there is the epoch in which
  that sidecar has become the owner again: the loops open their sinks with it, and Spark stays. Or it says how many of Spark's tasks are to
  read chunks of dumps (reading.py).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from sidecar.shared.errors import LogError, LogUnreachable, StorageFull, TicdcDumpError
from sidecar.shared.log import storage
from sidecar.shared.log.delivery_report import (
    DELIVERED_NAME,
    RUNNING,
    SPARK_READY,
    SPARK_STARTING,
    STOPPED,
    DeliveryReport,
    report_from_json,
)
from sidecar.shared.log.identity import own_of
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.model.sink_delivery import SinkDelivery
from sidecar.shared.process.background import Background
from sidecar.shared.process.limits import limits, local_threads
from sidecar.shared.reads.remote_wire import ReadersWanted
from spark_merge.delivery.batches import JobSettings
from spark_merge.delivery.places import WORKER_ROWS
from spark_merge.sinks.mysql.server import SqlServer
from spark_merge.sinks.registry import open_sinks, outputs_of
from spark_merge.verify.lateness import LATE_S, Lateness
from spark_merge.verify.link import BeginVerifying
from spark_merge.verify.process import VerifyProcess
from spark_merge.worker.job import SparkJob
from spark_merge.worker.spark_tasks import SUBMITTED, RunningSpark, SparkTasks

if TYPE_CHECKING:
    from spark_merge.worker.read_task import ReadingSettings
    from spark_merge.worker.reading import ReadingJobs

STDIN = 0

REPORT_EVERY_S, REPORT_REMOTE_EVERY_S = 0.05, 1.0
"""After a batch a report follows so soon; batches in between are in it. Object stores limit how often one object is replaced (GCS: once a
second), and answer 429 beyond that."""

END_VERIFYING_S = 2.0
"""For the process of verifications to be killed: it would end with this one, a moment later."""

LOOK_EVERY_S = 1.0
"""Between two looks at what ended a loop or Spark, where no batch comes."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """`log_id` names the log for ever, in every sink (shared/log/identity.py::name_of). `worker_rows`: delivery/places.py. `source`: what
    the sinks are verified with; None: they are not. `late_s`: as of Lateness. `reading`: with what
    Spark's tasks read a dump's chunks; None: they do not. `idle_s`: as of SparkTasks."""

    job: JobSettings
    sinks: tuple[str, ...]
    log_id: str
    master: str
    memory: str
    worker_rows: int = WORKER_ROWS
    source: SqlServer | None = None
    late_s: float = LATE_S
    reading: ReadingSettings | None = None
    idle_s: float = 0.0

    @property
    def spark_when_needed(self) -> bool:
        """Whether Spark is there only while it is needed: on this machine it takes memory and cores. It starts at once where a dump cannot
        begin without it, and on a cluster, so that what is wrong with it shows."""
        on_cluster = not self.master.startswith("local") or SUBMITTED in os.environ
        return self.worker_rows > 0 and self.reading is None and not on_cluster


class Worker:
    """Runs until `end` or until an error ends it. `watched`: around what runs in this process (`watchdog.Watchdog`). `notice(what)`
    receives each sink that fails, and that delivers again, and the same of Spark."""

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
        self._spark_error = ""
        self._unreported = False
        self._previous: DeliveryReport | None = None
        self._job_runs: SparkJob | None = None
        self._reading: ReadingJobs | None = None
        self._wanted: ReadersWanted | None = None
        self._verifications: VerifyProcess | None = None
        self._serving = Lock()

    def serve(self, epoch: int) -> None:
        """The owner of the log is the same, of this later epoch. From any thread."""
        with self._serving:
            self.settings = replace(self.settings, job=replace(self.settings.job, epoch_max=epoch))
            if self._job_runs is not None:
                self._job_runs.serve(self.settings.job)

    def read(self, wanted: ReadersWanted) -> None:
        """Let so many tasks read chunks of dumps. From any thread."""
        with self._serving:
            self._wanted = wanted
            if self._reading is not None:
                self._reading.want(wanted)

    def run(self) -> None:
        """Raises what stops it: ConfigError, LogBroken, OwnershipLost, LogUnreachable where the log cannot be read at the start, or what
        Spark died of. All of it is safe to start again, and the report beside the log says what it was."""
        self._previous = self._previous_report()
        job: SparkJob | None = None
        verifying: Background | None = None
        try:
            with self._serving:
                self._job_runs = job = self._job()
                if self.settings.reading is not None:
                    from spark_merge.worker.reading import ReadingJobs

                    self._reading = ReadingJobs(self.settings.reading, job.spark, self._notice)
                    if self._wanted is not None:
                        self._reading.want(self._wanted)
            job.start()
            verifying = self._verifying(job)
            self._mind(job)
        except Exception as error:
            with suppress(LogError, LogUnreachable, StorageFull):  # what cannot be written beside the log is still raised
                self._report(job, STOPPED, error=_error_text(error))
            raise
        finally:
            if self._reading is not None:
                self._reading.close()
            if verifying is not None:
                verifying.close(END_VERIFYING_S)
            if job is not None:
                job.close()

    def _verifying(self, job: SparkJob) -> Background | None:
        settings = self.settings
        if settings.source is None:
            return None
        clustered = not settings.master.startswith("local") or SUBMITTED in os.environ
        cores = local_threads(settings.master, cpus := limits().cpus) or cpus
        begin = BeginVerifying(settings.job, settings.sinks, settings.log_id, settings.source, on_spark=clustered, cores=cores)
        lateness = Lateness(job.batches_s, job.last_batches_s, settings.late_s)
        self._verifications = VerifyProcess(begin, lateness, job.spark if clustered else None, self._notice)
        return Background(self._verifications.run, name="verify")

    def _job(self) -> SparkJob:
        settings = self.settings
        sinks = open_sinks(settings.sinks, log_id=settings.log_id)
        spark = SparkTasks(partial(_begin_spark, settings), when_needed=settings.spark_when_needed, idle_s=settings.idle_s)
        outputs = outputs_of(settings.sinks)
        return SparkJob(spark, sinks, settings.job, worker_rows=settings.worker_rows, watched=self._watched, outputs=outputs)

    def _mind(self, job: SparkJob) -> None:
        report_every_s = REPORT_EVERY_S if self.settings.job.log.protocol == "file" else REPORT_REMOTE_EVERY_S
        while not self.ending.is_set():
            job.changed.wait(LOOK_EVERY_S)
            job.changed.clear()
            job.check()
            job.forget_old()
            job.spark.end_if_idle()
            self._notice_errors(job)
            if job.opened():
                self._report_if_it_can_be(job)
            self.ending.wait(report_every_s)

    def _report_if_it_can_be(self, job: SparkJob) -> None:
        """No delivery rests on a report: one that cannot be written now is written when there is room, and the sinks continue."""
        try:
            self._report(job, RUNNING)
        except (StorageFull, LogUnreachable) as error:
            if not self._unreported:
                self._notice(f"the report cannot be written, and is tried again: {error}")
            self._unreported = True
        else:
            self._unreported = False

    def _notice_errors(self, job: SparkJob) -> None:
        if (spark := str(job.spark.error or "")) != self._spark_error:
            self._notice(f"Spark does not start, all runs without it, and it is tried again: {spark}" if spark else "Spark starts again")
        self._spark_error = spark
        errors = {sink.sink: sink.error for sink in job.sinks()}
        for sink, error in errors.items():
            if error != self._errors.get(sink, ""):
                self._notice(f"{sink} has stopped, and is tried again: {error}" if error else f"{sink} delivers again")
        self._errors = errors

    def _previous_report(self) -> DeliveryReport | None:
        data = storage.read_files(self.settings.job.log, [DELIVERED_NAME]).get(DELIVERED_NAME)
        try:
            report = None if data is None else report_from_json(data)
        except ValueError:
            return None  # it is a projection: this worker's own replaces it
        return report if report is not None and report.log in ("", own_of(self.settings.log_id)) else None

    def _report(self, job: SparkJob | None, state: str, *, error: str = "") -> None:
        """`seq`: the last segment that all sinks have accepted; its ts is reported where the log still has it. If a worker did not come so
        far, the previous report stays, but for the error."""
        storage.write_atomically(self.settings.job.log, DELIVERED_NAME, self._reported(job, state, error).to_json())

    def _reported(self, job: SparkJob | None, state: str, error: str) -> DeliveryReport:
        now_ms, previous = int(time.time() * 1000), self._previous
        if job is None:
            before = previous or DeliveryReport(None, CommitTs(0), state, now_ms)
            return replace(before, state=state, written_ms=now_ms, pid=os.getpid(), error=error, spark="", verification_waits_for="")
        seq, upto_ts = job.position()
        return DeliveryReport(
            seq=seq,
            upto_ts=upto_ts,
            state=state,
            written_ms=now_ms,
            pid=os.getpid(),
            error=error or (previous.error if previous is not None and not job.delivered else ""),
            dropped={table: rows.dropped for table, rows in list(job.counts.items()) if rows.dropped},
            rows=job.rows(),
            spark=SPARK_READY if job.spark.ready else SPARK_STARTING if job.spark.begun else "",
            sinks=tuple(map(self._where_it_was, job.sinks())),
            log=own_of(self.settings.log_id),
            skipped=job.skipped(),
            guessed=job.guessed(),
            epoch=self.settings.job.epoch_max or 0,
            verification_waits_for=self._verifications.starvation.waits_for if self._verifications is not None else "",
        )

    def _where_it_was(self, sink: SinkDelivery) -> SinkDelivery:
        """With the position that the previous worker reported, where it cannot be opened: its lag does not restart with each worker."""
        previous = self._previous.sinks if self._previous is not None and sink.accepted is None else ()
        return next((replace(sink, upto_ts=one.upto_ts) for one in previous if one.sink == sink.sink), sink)


def _begin_spark(settings: WorkerSettings) -> RunningSpark:
    from spark_merge.worker.session import OpenSession, session  # pyspark: 10 MB that an idle worker does not need

    return OpenSession(session(master=settings.master, memory=settings.memory))


def _error_text(error: Exception) -> str:
    """Ours in full; of any other its first line, for the trace is on standard error."""
    return str(error) if isinstance(error, TicdcDumpError) else f"{type(error).__name__}: {error}".partition("\n")[0]


def end_with_stdin(worker: Worker) -> None:
    """Let `worker` end when its standard input does: its parent process is gone. Each line is an epoch that it serves from then on, or how
    many readers are wanted."""

    def wait() -> None:
        said = b""
        try:
            while data := os.read(STDIN, 4096):  # not sys.stdin: Python's own lock of it, held at the end, makes that an abort
                *lines, said = (said + data).split(b"\n")
                for line in lines:
                    if line.isdigit():
                        worker.serve(int(line))
                    else:
                        worker.read(ReadersWanted.of(line))
        finally:
            worker.ending.set()

    Thread(target=wait, name="stdin", daemon=True).start()  # a read of stdin cannot be interrupted, and nobody waits for it
