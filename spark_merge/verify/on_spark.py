"""A worker's verifications as a thread beside its deliveries, whose work is Spark's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from sidecar.process.background import Background
from spark_merge.delivery import JobSettings
from spark_merge.job import SparkJob, SparkTasks
from spark_merge.sinks.mysql.server import SqlServer
from spark_merge.sinks.registry import name_of, open_sink
from spark_merge.verify.runner import LATE_S, Verifications, VerifySettings
from spark_merge.verify.source import SqlSource

R = TypeVar("R")

HERE_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class OnSpark:
    """`context.TaskRunner`. What is done in this process before a Spark job has begun runs here."""

    tasks: SparkTasks

    @property
    def cores(self) -> int:
        return self.tasks.cores(())

    def run(self, work: Sequence[Callable[[], R]], *, rows: int) -> list[R]:
        return [one() for one in work] if rows <= HERE_ROWS else self.tasks.each(work)


@dataclass(frozen=True, slots=True)
class VerifySource:
    """What the worker of a log compares its sinks with. `late_s`: VerifySettings."""

    server: SqlServer
    late_s: float = LATE_S


def begin(
    job: SparkJob, settings: JobSettings, uris: Sequence[str], log_id: str, source: VerifySource, notice: Callable[[str], object]
) -> Background:
    """`uris`: the sinks'. Its sinks are its own: the deliveries' are their threads'."""
    sinks = {name_of(uri): partial(open_sink, uri, log_id=log_id) for uri in uris}
    found = VerifySettings(
        settings, SqlSource(source.server), OnSpark(job.spark), sinks, batch_s=job.batch_s, late_s=source.late_s, notice=notice
    )
    return Background(Verifications(found).run, name="verify")
