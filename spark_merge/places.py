"""Where a task runs: in this process, or on Spark. Both call `task.run`, so what is written is the same (port.md, cutting 1).

- Windows are merged by Spark, always: on one machine or a cluster, a task a core.
- Live rows that no chunk is among, of segments with up to `rows_max` together, run here: a Spark job costs 100 ms before its first row,
  this none.
  Larger ones (a backlog, a large transaction) go to Spark, which has more than one core. 0: everything does.

A task that runs here can not be "started again like a Spark task": if it hangs or dies, the worker does, and whoever minds the worker
starts it again (a batch that is done again changes nothing). `watchdog.Watchdog` sees to it that a hang is such a death. A child process
for it would be one more thing to mind, and each batch would pay for two more copies of its rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import Lock

from spark_merge.cache import DecodedRows
from spark_merge.contract import Head, Outcome
from spark_merge.delivery import Tasks, Work

WORKER_ROWS = 20_000
"""Up to here one core that decodes at once is done before a Spark job with two is (measured: 20,000 rows 0.48 s here, 0.46 s there;
1,000 rows 0.04 and 0.10 s). `spark.worker_rows` in the settings."""

WORKER_BYTES_MAX = 64 << 20
"""Of the segments' files, packed, so that few huge rows do not fill this process."""

WORKER, SPARK = "worker", "spark"
"""The places by name, in the report and the metrics."""


class Places:
    """`delivery.Tasks`: each batch to where it belongs. For several threads at once. `rows`: written or dropped so far, by place.
    `cache`: of what is decoded here, where several sinks read the same."""

    def __init__(
        self,
        spark: Tasks,
        *,
        rows_max: int = WORKER_ROWS,
        watched: Callable[[], AbstractContextManager[None]] = nullcontext,
        cache: DecodedRows | None = None,
    ) -> None:
        self._spark, self._rows_max, self._watched, self._cache = spark, rows_max, watched, cache
        self._counting = Lock()
        self.rows: Counter[str] = Counter()

    def cores(self, heads: Sequence[Head]) -> int:
        """Waits for Spark where it is needed."""
        return 1 if self._fits(heads) else self._spark.cores(heads)

    def run(self, work: Sequence[Work]) -> list[Outcome]:
        if not any(unit.chunks for one in work for unit in one.task.units) and self._few(_heads(work)):
            with self._watched():
                outcomes, place = [one.carry_out(self._cache) for one in work], WORKER
        else:
            outcomes, place = self._spark.run(work), SPARK
        with self._counting:
            self.rows[place] += sum(sum(rows) for outcome in outcomes for rows in outcome.counts.values())
        return outcomes

    def _fits(self, heads: Sequence[Head]) -> bool:
        return self._few(heads) and not any(head.due_chunks() for head in heads)

    def _few(self, heads: Sequence[Head]) -> bool:
        manifests = [head.manifest for head in heads]
        if not self._rows_max:
            return False
        return sum(m.rows for m in manifests) <= self._rows_max and sum(m.bytes for m in manifests) <= WORKER_BYTES_MAX


def _heads(work: Sequence[Work]) -> list[Head]:
    found = {unit.seq: one.source.heads[unit.seq] for one in work for unit in one.task.units}
    return list(found.values())
