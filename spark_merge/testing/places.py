"""An output that is tried, its tasks without Spark, and what a reader of it sees."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sidecar.shared.model.nouns import Seq, TableName
from spark_merge.delivery.batches import TaskWork
from spark_merge.merge.cut import BatchLimits
from spark_merge.port.contract import Head, Outcome, Sink

Shown = tuple[int, int, str, tuple[str | None, ...], tuple[str | None, ...] | None]
"""seq, commit_ts, op (insert, update, delete), key, the row after it (None: deleted). Values are canonical text."""


@dataclass(frozen=True)
class Here:
    """`batches.Tasks` in this process, or what stands for Spark there. `before` is called before each task."""

    at_once: int = 2
    before: Callable[[], object] = lambda: None
    ready: bool = True
    job_s: float = 0.0

    def limits(self, most: BatchLimits) -> BatchLimits:
        return most

    def want(self) -> None:
        """There is nothing to start."""

    def cores(self, heads: Sequence[Head]) -> int:
        return self.at_once

    def run(self, work: Sequence[TaskWork]) -> list[Outcome]:
        return [self._run(one) for one in work]

    def _run(self, work: TaskWork) -> Outcome:
        self.before()
        outcome: Outcome = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(work)).carry_out()))
        return outcome


@dataclass(frozen=True)
class Place:
    """One output that outlives its sinks. `rows`: by table what a consumer has seen, in the order it saw it if `in_order`; only
    the newest of each key if `versioned` or `newest`, of which the latter has rows take effect in order, and has none that are deleted."""

    uri: str
    make: Callable[[str], Sink]
    rows: Callable[[], dict[TableName, list[Shown]]]
    in_order: bool = True
    versioned: bool = False
    newest: bool = False

    def sink(self, log_id: str = "log-1") -> Sink:
        return self.make(log_id)


def accepted(sink: Sink) -> Seq | None:
    """The last segment that it has."""
    result = sink.look()
    return None if result is None else result.seq
