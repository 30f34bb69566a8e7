"""The Spark application: each sink's delivery in turn, its tasks carried out by Spark (design 8). Only this file knows a session.

Nothing but tasks and outcomes passes through the JVM: a task opens segments and chunks itself, by path, with the log's own storage, and
hands its rows to the sink's writer. No frame, no shuffle: what a chunk's task needs is known from the manifests (delivery.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sidecar.core.model import Seq
from sidecar.errors import ConfigError, SinkError
from spark_merge.contract import Delivered, Outcome, Sink
from spark_merge.delivery import Delivery, JobSettings, Work
from spark_merge.task_errors import telling, told

__all__ = ["Job", "JobSettings", "session"]

LOG4J = Path(__file__).with_name("log4j2.properties").as_uri()
"""Errors only, on standard error: what an operator must see of Spark's own log."""

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
        builder = builder.master(master).config("spark.driver.memory", memory)
    try:
        found: SparkSession = (
            builder.config("spark.python.daemon.module", "spark_merge.daemon")
            .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={LOG4J}")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
    except (PySparkException, Py4JJavaError) as error:
        raise _refused(master, error) from error
    return found


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
    told = error.java_exception.toString() if isinstance(error, Py4JJavaError) else str(error)
    return ConfigError(
        f"Spark at {master} does not start: {told.strip()}",
        hint="see Spark's own lines above; `ticdc-dump check` looks at Java and pyspark",
    )


class SparkTasks:
    """`delivery.Tasks`: each task is one of a Spark job."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    @property
    def cores(self) -> int:
        return int(self._context.defaultParallelism)

    def run(self, work: Sequence[Work]) -> list[Outcome]:
        try:
            outcomes: list[Outcome] = self._context.parallelize(work, len(work)).map(telling(Work.carry_out)).collect()
        except (PySparkException, Py4JJavaError) as error:
            raise told(error) or SinkError(
                f"a Spark task failed: {error}",
                hint="see the task's error above; nothing accepted is lost, the batch is done again when the job starts again",
            ) from error
        return outcomes

    def warm_up(self) -> None:
        """Let Spark start its Python workers, which load what tasks need: seconds that the first segments need not wait for."""
        self._context.parallelize(range(self.cores), self.cores).map(_nothing).collect()


class Job:
    """Delivers the log to the sinks, which it opens. `run_once` is called for ever by one thread."""

    def __init__(self, spark: SparkSession, sinks: Sequence[Sink], settings: JobSettings) -> None:
        self._tasks = SparkTasks(spark)
        self._deliveries = [Delivery(sink, settings, self._tasks) for sink in sinks]

    def warm_up(self) -> None:
        self._tasks.warm_up()

    def run_once(self) -> list[Delivered]:
        """Deliver to every sink its next batch: each one's outcome, of the same rows. Empty when nothing new is in the log for any."""
        return [segment for delivery in self._deliveries for segment in delivery.deliver()]

    def accepted(self) -> Seq | None:
        """The last segment that every sink has accepted."""
        known = [delivery.accepted for delivery in self._deliveries]
        return None if None in known else min((seq for seq in known if seq is not None), default=None)

    @property
    def accept_s(self) -> float:
        """How long the sinks took to accept their last batches."""
        return sum(delivery.accept_s for delivery in self._deliveries)


def _nothing(_: int) -> None:
    """In a task: unpickling this function has loaded this module and all that tasks need."""
