"""The Spark application: a loop for each sink, their tasks carried out here or by Spark. Only this file knows a session.

    SinkLoop (a thread a sink) ─► Delivery: a batch ─► Places: here | SparkTasks ─► Work.carry_out ─► Outcome

Nothing but tasks and outcomes passes through the JVM: a task opens segments and chunks itself, by path, with the log's own storage, and
hands its rows to the sink's writer. No frame, no shuffle: what a chunk's task needs is known from the manifests (delivery/batches.py).
"""

from __future__ import annotations

import os
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from subprocess import Popen
from threading import Event, Lock, current_thread
from time import monotonic
from typing import TypeVar

import stamina
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sidecar.shared.errors import ConfigError, SinkError, SparkLost
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.sink_delivery import SinkDelivery
from sidecar.shared.process.background import Background
from sidecar.shared.process.limits import limits, local_master
from spark_merge.delivery.batches import JobSettings, TaskWork
from spark_merge.delivery.loop import SinkLoop
from spark_merge.delivery.places import WORKER_ROWS, Places
from spark_merge.delivery.sink_record import SinkId
from spark_merge.delivery.task_errors import error_of_task, notifying
from spark_merge.delivery.watchdog import HANG_S, Watchdog
from spark_merge.log.cache import DecodedRows
from spark_merge.merge.cut import BatchLimits
from spark_merge.port.contract import Delivered, Head, Outcome, Rows, Sink

T = TypeVar("T")
R = TypeVar("R")

LOG4J = (Path(__file__).parents[1] / "log4j2.properties").as_uri()
"""Errors only, on standard error: what an operator must see of Spark's own log."""

JOBS_MEASURED = 8
"""Of which what a job takes besides its tasks is the least: a minute or less of a dump."""

LOAD_TRIES = 3
"""Of what tasks need, because Spark on one machine does not retry a task."""

CLOSE_WAIT_S = 15.0
"""For the batches that are under way; one that is cut off is done again. Below what the sidecar gives its worker to end."""

_LOST_HINT = "nothing: the worker ends, and begins where the sinks are"

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set where spark-submit started this process."""

SECRET = "spark.authenticate.secret"
SECURITY: dict[str, bool | float | int | str | None] = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",  # which does not encrypt
    "spark.io.encryption.enabled": "true",
}
"""No session without them, on one machine either: Spark's ports take anybody's commands else. A local master, YARN and Kubernetes make
the secret of an application themselves, a standalone cluster has one of its own (Spark's docs, security.html)."""


def session(*, master: str, memory: str = "2g") -> SparkSession:
    """The application's session. Under `spark-submit` its own settings of master and memory hold, not these; what else Spark is to know
    of a cluster is in its own `spark-defaults.conf`. Raises ConfigError where Spark does not start or the cluster does not take it."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # or Spark looks for a name of this machine, and complains
    builder = SparkSession.builder.appName("ticdc-dump").config(map=SECURITY)
    if SUBMITTED not in os.environ:
        builder = builder.master(local_master(master, limits().cpus)).config("spark.driver.memory", memory)
    try:
        or_create: SparkSession = (
            builder.config("spark.python.daemon.module", "spark_merge.worker.daemon")
            .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={LOG4J}")
            .config("spark.scheduler.mode", "FAIR")  # each sink has a pool: one with many tasks holds no other up
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
    except (PySparkException, Py4JJavaError) as error:
        raise _refused(master, error) from error
    return or_create


def _refused(master: str, error: Exception) -> ConfigError:
    """What Spark's error of a start means to an operator."""
    known = SparkConf()  # Spark's own settings, once there is a JVM; empty before
    master = known.get("spark.master", master) or master
    if master.startswith("spark://") and not known.contains(SECRET):
        return ConfigError(
            f"{master} is refused: a standalone cluster needs a secret, and {SECRET} is not set",
            hint=f"set spark.authenticate and {SECRET} on the cluster's master and workers, and the same in the spark-defaults.conf of"
            " SPARK_CONF_DIR here, a file that only this user may read (deploy/spark/README.md)",
        )
    if master.startswith("spark://"):
        return ConfigError(
            f"the Spark cluster at {master} does not take this application: it does not answer, its {SECRET} is another one,"
            " or its executors do not start",
            hint=f"compare the address and {SECRET} with the cluster's, whose own log may say more (deploy/spark/README.md)",
        )
    reported = error.java_exception.toString() if isinstance(error, Py4JJavaError) else str(error)
    return ConfigError(
        f"Spark at {master} does not start: {reported.strip()}",
        hint="see Spark's own lines above; `ticdc-dump check` looks at Java and pyspark",
    )


BESIDE = "ticdc-dump-beside"
"""Of jobs that are no delivery's."""


class SparkTasks:
    """`batches.Tasks`: each task is one of a Spark job. `begin` makes the session, in the background: what needs it waits, and nobody
    else. `when_needed`: not before something needs it or will soon (`want`), for a start takes a core for many seconds. Each thread's
    jobs are a pool of their own, with a fair share of the cores. A task that makes no progress for `hang_s` ends its Python worker, and
    so fails (delivery/watchdog.py)."""

    def __init__(self, begin: Callable[[], SparkSession], *, hang_s: float = HANG_S, when_needed: bool = False) -> None:
        self._parallel = 1
        self._hang_s = hang_s
        self._jobs_s: deque[float] = deque(maxlen=JOBS_MEASURED)
        self._ready = Event()
        self._spark: SparkSession | None = None
        self._jvm: Popen[bytes] | None = None
        self._begin, self._beginning = begin, Lock()
        self._starting = None if when_needed else self._in_background()

    @property
    def ready(self) -> bool:
        return self._ready.is_set()

    @property
    def begun(self) -> bool:
        """Whether it starts, or has started."""
        return self._starting is not None

    def want(self) -> None:
        """It will be of use soon: it starts, if it has not, and nobody waits for it."""
        with self._beginning:
            self._starting = self._starting or self._in_background()

    @property
    def job_s(self) -> float:
        """What a job takes besides its tasks: the least of the last ones, for tasks that wait for a core make it look more."""
        return min(self._jobs_s, default=0.0)

    def limits(self, most: BatchLimits) -> BatchLimits:
        return most

    def check(self) -> None:
        """Raises what kept it from starting, and SparkLost when its JVM has ended since. Under spark-submit, where the JVM is no child of
        this process, and where only the session has ended, the next job reports it."""
        if self._starting is not None:
            self._starting.check()
        if self._jvm is not None and self._jvm.poll() is not None:
            raise SparkLost(f"Spark's JVM has ended with exit code {self._jvm.returncode}", hint=_LOST_HINT)

    def cores(self, heads: Sequence[Head]) -> int:  # noqa: ARG002  # Spark has as many for each batch
        context = self._session().sparkContext
        with self._asking():
            self._parallel = int(context.defaultParallelism)  # executors come and go
        return self._parallel

    def run(self, work: Sequence[TaskWork]) -> list[Outcome]:
        """Raises SparkLost where the session is gone: it does not come back in this process."""
        context = self._session().sparkContext
        with self._asking():
            context.setLocalProperty("spark.scheduler.pool", current_thread().name)
            began_s = monotonic()
            done = self._job(notifying(partial(_carried_out, self._hang_s)), work)
        took_s = [seconds for seconds, _ in done]
        self._jobs_s.append(max(monotonic() - began_s - max(max(took_s), sum(took_s) / self._parallel), 0.0))
        return [outcome for _, outcome in done]

    def each(self, work: Sequence[Callable[[], R]], *, group: str = BESIDE) -> list[R]:
        """What each returns. Picklable work that is no sink's; `cancel` ends that of a group. Raises as `run`."""
        context = self._session().sparkContext
        with self._asking():
            context.setLocalProperty("spark.scheduler.pool", current_thread().name)
            context.setJobGroup(group, "beside deliveries", interruptOnCancel=True)
            return self._job(notifying(partial(_called, self._hang_s)), work)

    def cancel(self, group: str = BESIDE) -> None:
        """End the work of `each` that is under way: its caller is gone."""
        if self._ready.is_set() and self._spark is not None:
            with self._asking():
                self._spark.sparkContext.cancelJobGroup(group)

    def driver_host(self) -> str:
        """Where executors reach this machine. Raises as `run`."""
        context = self._session().sparkContext
        with self._asking():
            return str(context.getConf().get("spark.driver.host"))

    def each_or_cores(self, work: Sequence[Callable[[], R]] | None) -> list[R] | list[int]:
        """As `each`; without work how many cores there are."""
        return [self.cores(())] if work is None else self.each(work)

    def _session(self) -> SparkSession:
        self.want()
        while not self._ready.wait(0.1):
            self.check()
        assert self._spark is not None
        return self._spark

    def _in_background(self) -> Background:
        return Background(lambda _: self._start(), name="spark")

    def _start(self) -> None:
        """Python workers too: they load what tasks need, seconds that the first window need not wait for. One may die of that, as a task
        may; what fails each time is what keeps every task from running."""
        try:
            self._spark = self._begin()
            self._jvm = getattr(self._spark.sparkContext._gateway, "proc", None)
            self._parallel = int(self._spark.sparkContext.defaultParallelism)
            for attempt in stamina.retry_context(on=(PySparkException, Py4JJavaError), attempts=LOAD_TRIES):
                with attempt:
                    self._empty_job()
            began_s = monotonic()
            self._empty_job()
            self._jobs_s.append(monotonic() - began_s)
            self._ready.set()
        except (PySparkException, Py4JError, OSError) as error:
            raise SparkLost(
                f"Spark ended while it started: {error}", hint="see Spark's own lines above; `ticdc-dump check --spark` tries it alone"
            ) from error

    def _empty_job(self) -> None:
        self._job(_nothing, range(self._parallel))

    def _job(self, task: Callable[[T], R], over: Sequence[T]) -> list[R]:
        """A task for each of `over`."""
        assert self._spark is not None
        job: list[R] = self._spark.sparkContext.parallelize(over, len(over)).map(task).collect()
        return job

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Around each call of the JVM."""
        try:
            yield
        except (PySparkException, Py4JError, OSError) as error:
            raise error_of_task(error) or self._failure(error) from error

    def _failure(self, error: Exception) -> SinkError | SparkLost:
        try:
            gone = self._session().sparkContext._jsc.sc().isStopped()
        except (Py4JError, OSError, AttributeError):  # the JVM does not answer; a context that was stopped here has none
            gone = True
        if gone:
            return SparkLost(f"Spark's session is gone: {error}", hint=_LOST_HINT)
        return SinkError(
            f"a Spark task failed: {error}",
            hint="see the task's error above; nothing accepted is lost, the batch is done again",
        )


class SparkJob:
    """Delivers one log to the sinks, by name, each in a loop of its own. A program with a sidecar uses it as `ports.Deliveries`.

    `counts` and `delivered`: rows by table and segments, each counted once, when the first sink has it. `outputs`: the sinks' URIs without
    secrets, by name; of a sink that is not in it, its name.
    """

    def __init__(
        self,
        spark: SparkTasks,
        sinks: Mapping[str, Sink],
        settings: JobSettings,
        *,
        worker_rows: int = WORKER_ROWS,
        watched: Callable[[], AbstractContextManager[None]] = nullcontext,
        outputs: Mapping[str, str] | None = None,
    ) -> None:
        self.spark = spark
        self.changed = Event()
        """Set after each batch, and when a sink begins or fails."""
        self.counts: dict[TableName, Rows] = {}
        self.delivered = 0
        cache = self._cache = DecodedRows()
        self._places = {name: Places(spark, rows_max=worker_rows, watched=watched, cache=cache) for name in sinks}
        self._counting, self._counted = Lock(), -1
        ids = [SinkId(name, (outputs or {}).get(name, name)) for name in sinks]
        self._loops = [SinkLoop(one, sinks[one.name], settings, self._places[one.name], self._count, watched=watched) for one in ids]

    def start(self) -> None:
        for loop in self._loops:
            loop.start()

    def serve(self, settings: JobSettings) -> None:
        """Deliver with these settings from the next batch on. From any thread."""
        for loop in self._loops:
            loop.serve(settings)

    def check(self) -> None:
        """Raises what ended a loop, or Spark."""
        self.spark.check()
        for loop in self._loops:
            loop.check()

    def forget_old(self) -> None:
        """Of decoded rows, what nobody has requested for a while: an idle log holds no memory."""
        self._cache.expire()

    def opened(self) -> bool:
        """Whether each sink's position is known, or why it is not."""
        return all(loop.opened or loop.error for loop in self._loops)

    def batches_s(self) -> Mapping[str, float]:
        """As `SinkLoop.batch_s`, of each sink that does not fail."""
        return {loop.name: loop.batch_s() for loop in self._loops if loop.error is None}

    def last_batches_s(self) -> Mapping[str, list[float]]:
        """As `SinkLoop.took_s`, of each sink."""
        return {loop.name: list(loop.took_s) for loop in self._loops}

    def sinks(self) -> tuple[SinkDelivery, ...]:
        return tuple(loop.standing() for loop in self._loops)

    def report_times(self) -> None:
        """Nothing to do: what this reports is current whenever it is read."""

    def rows(self) -> Mapping[str, int]:
        """By place, of all sinks together."""
        return dict(sum((places.rows for places in self._places.values()), Counter()))

    def skipped(self) -> int:
        """Rows of the log that are skipped, as far as its sinks know."""
        return max((sum(map(len, loop.skips.values())) for loop in self._loops), default=0)

    def guessed(self) -> int:
        """TIMESTAMPs that stood for two moments, as the sink that has had most of them."""
        return max((loop.guessed for loop in self._loops), default=0)

    def position(self) -> tuple[Seq | None, CommitTs]:
        """The last segment that every sink has accepted, and its position (0: unknown)."""
        standing = [(loop.standing().accepted, loop.upto_ts) for loop in self._loops]
        known = [(seq, upto_ts) for seq, upto_ts in standing if seq is not None]
        return min(known) if len(known) == len(standing) and known else (None, CommitTs(0))

    def accepted(self) -> Seq | None:
        return self.position()[0]

    def finish(self) -> None:
        """Wait until all of the log is delivered. Raises as `check`, and the error of a sink that did not come to the end: nobody tries it
        again."""
        self.close(to_the_end=True)
        self.check()
        for loop in self._loops:
            if loop.error is not None:
                raise loop.error

    def close(self, *, to_the_end: bool = False) -> None:
        """Returns when no batch is under way, or after CLOSE_WAIT_S without `to_the_end`."""
        for loop in self._loops:
            loop.end(to_the_end=to_the_end)
        until_s = monotonic() + CLOSE_WAIT_S
        for loop in self._loops:
            loop.close(None if to_the_end else max(until_s - monotonic(), 0))

    def _count(self, segments: list[Delivered]) -> None:
        with self._counting:
            for segment in segments:
                if segment.seq > self._counted:  # each sink has its own, of the same rows
                    self._counted = segment.seq
                    self.delivered += 1
                    for table, rows in segment.tables.items():
                        self.counts[table] = self.counts.get(table, Rows()).plus(rows)
        self.changed.set()


def _carried_out(hang_s: float, work: TaskWork) -> tuple[float, Outcome]:
    """In a Python worker, which carries out a task at a time: how long it took, too."""
    began_s = monotonic()
    with Watchdog(hang_s).watched():
        outcome = work.carry_out()
    return monotonic() - began_s, outcome


def _called(hang_s: float, work: Callable[[], R]) -> R:
    with Watchdog(hang_s).watched():
        return work()


def _nothing(_: int) -> None:
    """In a task: unpickling this function has loaded this module and all that tasks need."""
