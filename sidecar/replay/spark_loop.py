"""The Spark application as a thread beside the sidecar."""

from __future__ import annotations

from threading import Event, Thread

from sidecar.core.model import Seq, TableName
from spark_merge.contract import Delivered
from spark_merge.job import Job

IDLE_WAIT_S = 0.02
"""How long it rests when nothing is in the log: short beside a micro-batch."""


class SparkLoop(Thread):
    """Delivers what is in the log until told to end, when nothing is left."""

    def __init__(self, job: Job) -> None:
        super().__init__(name="spark-merge", daemon=True)
        self._job = job
        self._end = Event()
        self.error: BaseException | None = None
        self.counts: dict[TableName, tuple[int, int, int]] = {}
        self.delivered = 0
        self._accepted: Seq | None = None

    def run(self) -> None:
        try:
            while True:
                ending = self._end.is_set()
                batch = self._job.run_once()
                self._count(batch)
                if not batch and ending:
                    return
                if not batch:
                    self._end.wait(IDLE_WAIT_S)
        except BaseException as error:  # noqa: BLE001  # handed to the thread that waits, which raises it
            self.error = error

    def _count(self, batch: list[Delivered]) -> None:
        for segment in {segment.seq: segment for segment in batch}.values():  # each sink has its own, of the same rows
            self.delivered += 1
            self._accepted = segment.seq
            for table, counts in segment.tables.items():
                before = self.counts.get(table, (0, 0, 0))
                self.counts[table] = (before[0] + counts[0], before[1] + counts[1], before[2] + counts[2])

    def accepted(self) -> Seq | None:
        return self._accepted

    def dropped(self) -> int:
        return sum(counts[2] for counts in self.counts.values())

    def finish(self) -> None:
        """Wait until all of the log is delivered. Raises what the loop died of."""
        self._end.set()
        self.join()
        self.check()

    def check(self) -> None:
        if self.error is not None:
            raise self.error
