"""The Spark application as a thread beside the sidecar."""

from __future__ import annotations

from threading import Event

from sidecar.core.model import Seq, TableName
from sidecar.pace.sinks import SinkDelivery
from sidecar.process.background import Background
from spark_merge.contract import Delivered, Rows
from spark_merge.job import Job

IDLE_WAIT_S = 0.02
"""How long it rests when nothing is in the log: short beside a batch."""


class SparkLoop:
    """Delivers what is in the log until told to end, when nothing is left."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._delivering: Background | None = None
        self.counts: dict[TableName, Rows] = {}
        self.delivered = 0
        self._counted: Seq | None = None

    def start(self) -> None:
        self._delivering = Background(self._deliver, name="spark-merge")

    def _deliver(self, end: Event) -> None:
        while True:
            ending = end.is_set()
            batch = self._job.run_once()
            self._count(batch)
            if not batch and ending:
                return
            if not batch:
                end.wait(IDLE_WAIT_S)

    def _count(self, batch: list[Delivered]) -> None:
        for segment in batch:
            if self._counted is None or segment.seq > self._counted:  # each sink has its own, of the same rows
                self._counted = segment.seq
                self.delivered += 1
                for table, rows in segment.tables.items():
                    self.counts[table] = self.counts.get(table, Rows()).plus(rows)

    def accepted(self) -> Seq | None:
        return self._job.accepted()

    def sinks(self) -> tuple[SinkDelivery, ...]:
        return ()  # it tells how far the sinks are, not what they cost

    def told(self) -> None:
        """At the moment of asking."""

    def dropped(self) -> int:
        return sum(rows.dropped for rows in self.counts.values())

    def finish(self) -> None:
        """Wait until all of the log is delivered. Raises what the loop died of."""
        if self._delivering is not None:
            self._delivering.close()
            self._delivering.check()

    def check(self) -> None:
        if self._delivering is not None:
            self._delivering.check()
