"""One sink's way through the log, a batch at a time; where tasks run is `Tasks`' concern, so nothing here knows Spark.

    manifests ─► cut to a batch ─► the sink plans tasks ─► they run, a stage after another ─► the sink accepts

- The sink's own accepted segment is the only position. A batch that died half-way is done again and changes nothing (P5).
- A batch is as many segments as are there, within the bounds; it ends at a DDL and where the schemas change. One that a committing sink
  has begun is done again as it was.
- Live rows do not wait for a dump's: what stands before a window in the log is a batch of its own, unless the sink accepts so slowly
  that one more would cost them more.
- Which segments a window reaches back to is known before a task runs: one that is missing is an error, never "no keys".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from time import monotonic
from typing import Protocol

from sidecar.core.model import CommitTs, Seq, TableName, TableSchema
from sidecar.errors import LogBroken, OwnershipLost
from sidecar.log.manifest import Manifest
from sidecar.log.storage import Folder
from spark_merge.cache import DecodedRows
from spark_merge.contract import Batch, Delivered, Head, Outcome, Sink, Task, Writer, delivered
from spark_merge.cut import BatchLimits, cut
from spark_merge.read import LoggedSchemas, new_manifests
from spark_merge.segments import Source
from spark_merge.task import needed, run

ACCEPT_QUICK_S = 0.5
"""A sink that takes longer to accept a batch than that gets windows and what stands before them at once: the merge is the lesser wait."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """`server_tz`: the TiCDC server's zone, in which the feed's timestamps are written. `epoch_max`: the owner this job works
    for; segments of a later one are not its to deliver. None: any owner's."""

    log: Folder
    server_tz: str = "UTC"
    limits: BatchLimits = field(default_factory=BatchLimits)
    epoch_max: int | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """A task with all that it needs, wherever it runs. Picklable."""

    task: Task
    writer: Writer
    source: Source

    def carry_out(self, cache: DecodedRows | None = None) -> Outcome:
        return run(self.task, self.writer, self.source, cache)


class Tasks(Protocol):
    """Where tasks run. For several threads at once."""

    def cores(self, heads: Sequence[Head]) -> int:
        """How many tasks of a batch of these segments may run at once."""

    def run(self, work: Sequence[Work]) -> list[Outcome]:
        """All of them, in any order. Raises what one of them raised, as the same error, or SinkError."""


class Delivery:
    """For one term of a sink, which it opens. `deliver` is called for ever by one thread."""

    def __init__(self, sink: Sink, settings: JobSettings, tasks: Tasks) -> None:
        self.sink = sink
        self.accept_s = 0.0
        """How long the sink took to accept the last batch."""
        self.upto_ts = CommitTs(0)
        """Of the last segment that was delivered here."""
        self._settings, self._tasks = settings, tasks
        self._standing = sink.open(epoch=settings.epoch_max)

    @property
    def accepted(self) -> Seq | None:
        return self._standing.accepted

    def deliver(self) -> list[Delivered]:
        """The next batch; empty when nothing new is in the log, or the sink wants more at once.

        Raises OwnershipLost before it delivers a segment of a later owner.
        """
        manifests = self._next()
        if not manifests:
            return []
        self._check_owner(manifests)
        heads = self._heads(manifests)
        batch = self.sink.plan(heads, cores=self._tasks.cores(heads))
        if batch is None:
            return []
        outcomes = [outcome for stage in batch.stages if stage for outcome in self._tasks.run(self._work(stage, batch))]
        began_s = monotonic()
        self.sink.accept(batch, outcomes)
        self.accept_s = monotonic() - began_s
        self._standing, self.upto_ts = replace(self._standing, accepted=batch.heads[-1].seq, begun=None), batch.heads[-1].upto_ts
        return delivered(batch, outcomes)

    def _next(self) -> list[Manifest]:
        log, limits, standing = self._settings.log, self._settings.limits, self._standing
        if standing.begun is None:
            found = cut(new_manifests(log, after=standing.accepted, limit=limits.segments_max), limits)
            return found if self.accept_s > ACCEPT_QUICK_S else _ahead_of_windows(found) or found
        found = new_manifests(log, after=standing.accepted, limit=standing.begun + 1)
        return [manifest for manifest in found if manifest.seq <= standing.begun]

    def _check_owner(self, manifests: Sequence[Manifest]) -> None:
        epoch, known = max(manifest.epoch for manifest in manifests), self._settings.epoch_max
        if known is not None and epoch > known:
            raise OwnershipLost(
                f"the log's segments up to {manifests[-1].seq} are of owner epoch {epoch}, this worker serves epoch {known}",
                hint="nothing: the later owner has a merge worker of its own, and two must not deliver to one sink",
            )

    def _heads(self, manifests: Sequence[Manifest]) -> list[Head]:
        names = {name for manifest in manifests for name in (manifest.schemas, manifest.next_schemas) if name}
        schemas = {name: LoggedSchemas(self._settings.log, name) for name in names}
        return [_head(manifest, schemas) for manifest in manifests]

    def _work(self, tasks: Sequence[Task], batch: Batch) -> list[Work]:
        heads = {head.seq: head for head in batch.heads}
        first, oldest = batch.heads[0].seq, min(min(needed(task)) for task in tasks)
        if oldest < first:
            earlier = new_manifests(self._settings.log, after=Seq(oldest - 1), limit=first - oldest)
            heads |= {head.seq: head for head in self._heads(earlier)}
        for seq in sorted(set().union(*map(needed, tasks)) - heads.keys()):
            raise LogBroken(
                f"segment log {self._settings.log}: segment {seq} is gone, and a window that closed after it begins there",
                hint="restore it from a backup, or start a new log folder and dump again",
            )
        settings = self._settings
        return [
            Work(task, batch.writer, Source(settings.log, {seq: heads[seq] for seq in needed(task)}, settings.server_tz)) for task in tasks
        ]


def _ahead_of_windows(manifests: Sequence[Manifest]) -> list[Manifest]:
    return list(takewhile(lambda manifest: not any(chunk.rows for window in manifest.windows for chunk in window.chunks), manifests))


def _head(manifest: Manifest, schemas: Mapping[str, Mapping[TableName, TableSchema]]) -> Head:
    slim = replace(manifest, progress=None, positions={})
    return Head(slim, schemas[manifest.schemas], schemas[manifest.next_schemas or manifest.schemas])
