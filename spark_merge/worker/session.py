"""Spark's session: made here only, and ended here. Nothing else of the worker knows pyspark or py4j, so an idle worker loads neither.

A session on one machine has a JVM that is a child of this process, and ends when its standard input does (pyspark.java_gateway). Under
spark-submit the JVM is this process's parent, and only Spark ends it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import TypeVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sidecar.shared.errors import ConfigError, SinkError, SparkLost
from sidecar.shared.process.limits import limits, local_master
from spark_merge.delivery.task_errors import error_of_task
from spark_merge.worker.spark_tasks import LOST_HINT, SUBMITTED

T = TypeVar("T")
R = TypeVar("R")

LOG4J = (Path(__file__).parents[1] / "log4j2.properties").as_uri()
"""Errors only, on standard error: what an operator must see of Spark's own log."""

JVM_END_S = 10.0
"""For a JVM to end after its standard input: it stops Spark and removes its files, in one second where nothing is amiss."""

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
        refused = _refused(master, error)
        _end_failed()
        raise refused from error
    except Py4JError as error:
        _end_failed()
        raise SparkLost(f"Spark's JVM does not answer: {error}", hint=LOST_HINT) from error
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


def _end_failed() -> None:
    """The JVM that a start has begun before it failed: the next start is a JVM of its own."""
    if (jvm := getattr(SparkContext._gateway, "proc", None)) is not None:
        SparkContext._active_spark_context = None
        _end_jvm(jvm)


def _end_jvm(jvm: Popen[bytes]) -> None:
    """It is a child of this process and receives no request, for it may hang. What pyspark keeps of it is forgotten."""
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    with suppress(OSError):
        jvm.stdin.close()  # type: ignore[union-attr]  # pyspark makes the pipe
    try:
        jvm.wait(JVM_END_S)
    except TimeoutExpired:
        jvm.kill()
        jvm.wait()
    if gateway is not None:
        gateway.close()


class OpenSession:
    """`spark_tasks.RunningSpark` of a session. Under spark-submit, where the JVM is no child of this process, and where only the session
    has ended, the next job reports it."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._context = spark, spark.sparkContext
        self._jvm: Popen[bytes] | None = getattr(self._context._gateway, "proc", None)

    def cores(self) -> int:
        with self._asking():
            return int(self._context.defaultParallelism)

    def work(self, task: Callable[[T], R], over: Sequence[T], *, pool: str, group: str = "") -> list[R]:
        with self._asking():
            self._context.setLocalProperty("spark.scheduler.pool", pool)
            if group:
                self._context.setJobGroup(group, "beside deliveries", interruptOnCancel=True)
            job: list[R] = self._context.parallelize(over, len(over)).map(task).collect()
        return job

    def cancel(self, group: str) -> None:
        with self._asking():
            self._context.cancelJobGroup(group)

    def driver_host(self) -> str:
        with self._asking():
            return str(self._context.getConf().get("spark.driver.host"))

    def check(self) -> None:
        if self._jvm is not None and self._jvm.poll() is not None:
            raise SparkLost(f"Spark's JVM has ended with exit code {self._jvm.returncode}", hint=LOST_HINT)

    def end(self) -> None:
        """A JVM that is a child of this process ends. Without such a child, Spark's own session does."""
        if self._jvm is None:
            self._spark.stop()
            return
        self._context._jsc = None
        self._context.stop()  # what is of it in this process
        _end_jvm(self._jvm)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Around each call of the JVM."""
        try:
            yield
        except (PySparkException, Py4JError, OSError) as error:
            raise error_of_task(error) or self._failure(error) from error

    def _failure(self, error: Exception) -> SinkError | SparkLost:
        try:
            gone = self._context._jsc.sc().isStopped()
        except (Py4JError, OSError, AttributeError):  # the JVM does not answer; a context that was stopped here has none
            gone = True
        if gone:
            return SparkLost(f"Spark's session is gone: {error}", hint=LOST_HINT)
        return SinkError(
            f"a Spark task failed: {error}",
            hint="see the task's error above; nothing accepted is lost, the batch is done again",
        )
