"""Where a task runs: in this process, or on Spark. Both call `task.run`, so the output is the same.

A Spark job costs a fixed time before its first row (0.1 s on a quiet machine, 0.5 s and more on a busy one); this process costs none, but
it has one core for the task. So a batch runs here if this process is expected to end it first:

    cost x row_s  <=  job_s + cost x row_s / cores             cost: rows, weighted by what decoding and merging take

- `row_s` is measured here, for each sink alone, and `job_s` by Spark's own jobs. Up to `rows_max` live rows, or as many rows of chunks
  as cost the same, nothing is compared: that is half a second of one core at most, and it runs here.
- A batch whose files are larger than WORKER_BYTES_MAX is always Spark's: this process has one core for it. Memory does not follow a batch's
  bytes, wherever it runs: what a task holds is bounded (port/pieces.py).
- While Spark is not there, everything that may run here does, and batches are cut so that it may. Spark on this machine is wanted when
  batches that it could get have taken START_WORTH_S here, a dump's too: what is over sooner would only share its cores with the start
  (worker/spark_tasks.py). It could get a batch of half the rows that one is cut to, or more, in a backlog: more was in the log, and would
  be in that batch too. What runs here although Spark is ready does not want it. A cluster's starts at once.
- `rows_max` 0: everything runs on Spark.

A task that runs here cannot be started again like a Spark task: if it hangs or dies, the worker does, and the sidecar starts the worker
again (a batch that is delivered again changes nothing). `watchdog.Watchdog` turns a hang into such a death.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from statistics import median
from time import monotonic
from typing import Protocol

from sidecar.shared.log.manifest import Manifest
from sidecar.shared.model.nouns import Seq
from spark_merge.delivery.batches import Tasks, TaskWork
from spark_merge.log.cache import DecodedRows
from spark_merge.merge.cut import LIVE_ROW_COST, BatchLimits
from spark_merge.port.contract import DueChunk, Head, Outcome, Unit

WORKER_ROWS = 20_000
"""Up to here one core that decodes at once is done before a Spark job with two is (measured: 20,000 live rows 0.48 s here, 0.46 s there;
1,000 rows 0.04 and 0.10 s). `spark.worker_rows` in the settings."""

WORKER_BYTES_MAX = 64 << 20
"""Of the segments' and chunks' files, packed: a second or two of one core, however few rows they have."""

START_WORTH_S = 3.0
"""Of large batches in this process, before Spark is wanted: its start takes more of a core. Measured: 300,000 rows of a dump took 2.4 s
here, and 5.2 s beside a start of Spark, which came too late for them."""

LARGE_APART_S = 60.0
"""Large batches that are so far apart are no one backlog, and nothing is added up."""

MEASURED_COST_MIN = 3_000
"""A batch that costs less says little of what a row takes."""
MEASURED_BATCHES = 9

WORKER, SPARK = "worker", "spark"
"""The places by name, in the report and the metrics."""


class SparkPlace(Tasks, Protocol):
    """Tasks on Spark, and what is known of it without waiting."""

    @property
    def ready(self) -> bool: ...

    def want(self) -> None:
        """There are batches enough for it: start, if it has not."""

    @property
    def job_s(self) -> float:
        """What a job takes besides its tasks. Known when `ready`."""


class Places:
    """`batches.Tasks` of one sink: each batch where it ends first. `rows`: written or dropped so far, by place. `cache`: of decoded rows,
    shared by the sinks."""

    def __init__(
        self,
        spark: SparkPlace,
        *,
        rows_max: int = WORKER_ROWS,
        watched: Callable[[], AbstractContextManager[None]] = nullcontext,
        cache: DecodedRows | None = None,
    ) -> None:
        self._spark, self._rows_max, self._watched = spark, rows_max, watched
        self._cache = DecodedRows() if cache is None else cache
        self._row_s: deque[float] = deque(maxlen=MEASURED_BATCHES)
        self._large_s = self._large_ended_s = 0.0
        self.rows: Counter[str] = Counter()

    def limits(self, most: BatchLimits) -> BatchLimits:
        if self._spark.ready or not self._rows_max:
            return most
        return replace(most, rows_max=min(most.rows_max, self._rows_max), bytes_max=min(most.bytes_max, WORKER_BYTES_MAX))

    def cores(self, heads: Sequence[Head]) -> int:
        """Waits for Spark where it is needed."""
        whole = [Unit(head.seq, live=True, chunks=tuple(head.due_chunks())) for head in heads]
        return 1 if self._ends_here_first({head.seq: head for head in heads}, whole) else self._spark.cores(heads)

    def run(self, work: Sequence[TaskWork]) -> list[Outcome]:
        heads = {seq: head for one in work for seq, head in one.source.heads.items()}
        units = [unit for one in work for unit in one.task.units]
        if self._ends_here_first(heads, units):
            began_s, ready = monotonic(), self._spark.ready
            with self._watched():
                outcomes, place = [one.carry_out(self._cache) for one in work], WORKER
            ended_s, (cost, _) = monotonic(), _cost(heads, units)
            if cost >= MEASURED_COST_MIN:
                self._row_s.append((ended_s - began_s) / cost)
            if not ready and 2 * _rows(heads, units) >= self._rows_max and any(one.backlog for one in work):
                self._note_large(began_s, ended_s)
        else:
            outcomes, place = self._spark.run(work), SPARK
        self.rows[place] += sum(sum(rows) for outcome in outcomes for rows in outcome.counts.values())
        return outcomes

    def _note_large(self, began_s: float, ended_s: float) -> None:
        before_s = self._large_s if began_s - self._large_ended_s < LARGE_APART_S else 0.0
        self._large_s, self._large_ended_s = before_s + ended_s - began_s, ended_s
        if self._large_s >= START_WORTH_S:
            self._spark.want()

    def _ends_here_first(self, heads: Mapping[Seq, Head], units: Sequence[Unit]) -> bool:
        cost, size = _cost(heads, units)
        if not self._rows_max or size > WORKER_BYTES_MAX:
            return False
        if not self._spark.ready or cost <= self._rows_max * LIVE_ROW_COST:
            return True
        if not self._row_s:
            return False
        here_s = cost * median(self._row_s)
        return here_s <= self._spark.job_s + here_s / self._spark.cores(list(heads.values()))


def _rows(heads: Mapping[Seq, Head], units: Sequence[Unit]) -> int:
    """As a batch's bound counts them (merge/cut.py)."""
    live, chunks = _files(heads, units)
    return sum(manifest.rows for manifest in live) + sum(chunk.rows for chunk in chunks)


def _cost(heads: Mapping[Seq, Head], units: Sequence[Unit]) -> tuple[int, int]:
    """What these units cost, as rows of chunks, and the bytes of their files."""
    live, chunks = _files(heads, units)
    cost = LIVE_ROW_COST * sum(manifest.rows for manifest in live) + sum(chunk.rows for chunk in chunks)
    return cost, sum(manifest.bytes for manifest in live) + sum(chunk.bytes for chunk in chunks)


def _files(heads: Mapping[Seq, Head], units: Sequence[Unit]) -> tuple[list[Manifest], list[DueChunk]]:
    """What these units are read from: segments, each once, and chunks."""
    live = [heads[seq].manifest for seq in {unit.seq for unit in units if unit.live}]
    return live, [chunk for unit in units for chunk in unit.chunks]
