"""The worker's job: a loop for each sink, their tasks carried out here or by Spark.

    SinkLoop (a thread a sink) ─► Delivery: a batch ─► Places: here | SparkTasks ─► Work.carry_out ─► Outcome

Nothing but tasks and outcomes passes through the JVM: a task opens segments and chunks itself, by path, with the log's own storage, and
hands its rows to the sink's writer. No frame, no shuffle: what a chunk's task needs is known from the manifests (delivery/batches.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from threading import Event, Lock
from time import monotonic

from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.sink_delivery import SinkDelivery
from spark_merge.delivery.batches import JobSettings
from spark_merge.delivery.loop import SinkLoop
from spark_merge.delivery.places import WORKER_ROWS, Places
from spark_merge.delivery.sink_record import SinkId
from spark_merge.log.cache import DecodedRows
from spark_merge.port.contract import Delivered, Rows, Sink
from spark_merge.worker.spark_tasks import SparkTasks

CLOSE_WAIT_S = 15.0
"""For the batches that are under way; one that is cut off is done again. Below what the sidecar gives its worker to end."""


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
