"""One sink's way through the log, a batch at a time; where tasks run is `Tasks`' concern, so nothing here knows Spark.

    manifests ─► cut to a batch ─► the sink plans tasks ─► they run, a stage after another ─► the sink accepts

- The sink's own accepted segment is the only position, and the log must have that very segment (log/follow.py). A batch that died
  half-way is done again and changes nothing (P5).
- A batch is as many segments as are there, within the bounds; it ends at a DDL and where the schemas change. One that a committing sink
  has begun is done again as it was.
- A dump may be for some sinks only: for another one it is as if the log had neither its chunks nor its progress. A batch that a committing
  sink has begun is received under the name that is on record with it: a sink that has another name since then has the same rows to come.
- Live rows do not wait for dump rows: the segments before a window are a batch of their own. Two kinds of sink get both in one batch:
  one that accepts so slowly that a second batch would delay the live rows more (ACCEPT_QUICK_S), and one that gathers (`Gathers`).
- What stands before a segment with a row that cannot be decoded is delivered: the batch is cut in halves until it ends there. But for a
  batch that a committing sink has begun, which is done again as it was: its tasks before that row are done, the others wait for a `skip`.
- Rows that an operator has decided to skip (shared/log/skips.py) are read when the sink is opened: until then such a row ends every batch.
  So are the DDLs whose values a dump brings (delivery/rereads.py): until then a target that makes other ones stops there.
- Two tables never share a place of a sink that keeps tables: looked at when the sink is opened, for its routes may be others, and at each
  change of the tables, before anything of the batch is written.
- Which segments the windows of a batch reach back to is known before its first task runs: one that is missing is an error, never "no keys".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import takewhile
from time import monotonic
from typing import Protocol

from sidecar.shared.columns.zone import Ambiguous
from sidecar.shared.errors import FeedError, LogBroken, OwnershipLost, SinkError
from sidecar.shared.log.layout import WAY_OUT, dump_after
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.sink_tables import last_generation
from sidecar.shared.log.skips import skipped_rows
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import CommitTs, Seq, TableName, TableSchema
from spark_merge.delivery.complete import received
from spark_merge.delivery.rereads import Rereads, leave_at, rereads
from spark_merge.delivery.sink_record import SinkId, SinkRecord
from spark_merge.log.cache import DecodedRows
from spark_merge.log.follow import check_ends_as_begun, check_follows, check_has, check_next_begun
from spark_merge.log.read import LoggedSchemas, beginning, new_manifests
from spark_merge.log.segments import SegmentSource
from spark_merge.merge.cut import BatchLimits, cut
from spark_merge.merge.task import needed, run
from spark_merge.port.contract import (
    Accepted,
    Batch,
    Delivered,
    Gathers,
    Head,
    KeepsTables,
    MasksColumns,
    Outcome,
    Sink,
    Standing,
    Task,
    Writer,
    delivered,
    has_rows,
)
from spark_merge.port.foreign import noting

ACCEPT_QUICK_S = 0.5
"""A sink that takes longer to accept a batch than that gets windows and what stands before them at once: the merge is the lesser wait."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """`server_tz`: the TiCDC server's zone, in which the feed's timestamps are written. `epoch_max`: the owner this job works
    for; segments of a later one are not its to deliver. None: any owner's. `ambiguous`: which moment an hour that the zone has twice is."""

    log: Folder
    server_tz: str = "UTC"
    ambiguous: Ambiguous = "refuse"
    limits: BatchLimits = field(default_factory=BatchLimits)
    epoch_max: int | None = None


@dataclass(frozen=True, slots=True)
class TaskWork:
    """A task with all that it needs, wherever it runs. Picklable."""

    task: Task
    writer: Writer
    source: SegmentSource
    backlog: bool = False
    """More was in the log when the batch was cut."""

    def carry_out(self, cache: DecodedRows | None = None) -> Outcome:
        return run(self.task, self.writer, self.source, cache)


class Tasks(Protocol):
    """Where tasks run. For several threads at once."""

    def limits(self, most: BatchLimits) -> BatchLimits:
        """What the next batch may hold, `most` at the most."""

    def cores(self, heads: Sequence[Head]) -> int:
        """How many tasks of a batch of these segments may run at once."""

    def run(self, work: Sequence[TaskWork]) -> list[Outcome]:
        """All of them, in any order. Raises what one of them raised, as the same error, or SinkError."""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What a sink has accepted, and how long that took it. `guessed`: as of `Outcome`, of all its tasks. `more`: more was in the log."""

    segments: list[Delivered]
    upto_ts: CommitTs
    accept_s: float
    guessed: int
    more: bool


class Delivery:
    """For one term of a sink, which it opens. `deliver` is called for ever by one thread. `sink_id`: what it is called; a sink without one
    receives dumps for all sinks only, and nobody records which tables it has whole. `watched`: around each call of the sink (watchdog.py);
    tasks have a watch of their own."""

    def __init__(
        self,
        sink: Sink,
        settings: JobSettings,
        tasks: Tasks,
        *,
        sink_id: SinkId | None = None,
        watched: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.sink = sink
        self.gather_s = sink.gather_s if isinstance(sink, Gathers) else 0.0
        self._accept_s = 0.0
        """How long the sink took to accept the last batch."""
        self._settings, self._tasks, self._watched = settings, tasks, watched
        self._left: Sequence[Manifest] = ()
        """Manifests that were read and are in no batch yet."""
        self._apart: str | None = None
        """The schemas whose tables are known to have places of their own, by name."""
        generation = -1 if sink_id is None else last_generation(settings.log, sink_id.name)
        with noting(lambda: "opening the sink"), watched():
            if (before := sink.look()) is not None:
                check_has(settings.log, before)  # first: who opens it makes it this log's
            self._standing = self._opened()
        if self._standing.accepted not in (before, None):
            check_has(settings.log, self._standing.accepted)
        self.began = beginning(settings.log) if self.accepted is None else None
        """The first segment for a sink that has none; None for one that has some."""
        self.skips = skipped_rows(settings.log)
        self._name = "" if sink_id is None else sink_id.name
        self._rereads = rereads(settings.log, self._name)
        rules = sink.rules_identity if isinstance(sink, MasksColumns) else ""
        self.record = None if sink_id is None else SinkRecord(settings.log, sink_id, self._rereads, before=generation, rules=rules)
        if self.record is not None and self._standing.accepted is not None:
            self.record.resume(self._standing.accepted, self._standing.owner)
        elif self.record is not None and self._standing.begun is not None:
            self.record.check_begun()

    @property
    def accepted(self) -> Seq | None:
        accepted = self._standing.accepted
        return None if accepted is None else accepted.seq

    def deliver(self) -> BatchResult | None:
        """The next batch; None when nothing new is in the log.

        Raises OwnershipLost before it delivers a segment of a later owner, SinkError for a log that does not continue what the sink has.
        """
        manifests, more = self._next()
        while manifests:
            try:
                return self._batch(manifests, more=more)
            except FeedError:
                begun = self._begun_again()
                self._note_passed([manifest for manifest in manifests if self.accepted is not None and manifest.seq <= self.accepted])
                left = [manifest for manifest in manifests if self.accepted is None or manifest.seq > self.accepted]
                if len(manifests) == 1 or begun == manifests[-1].seq:
                    raise
                manifests, more = self._next() if begun is not None else (left[: max(1, len(left) // 2)], more)
        return None

    def _note_passed(self, manifests: Sequence[Manifest]) -> None:
        if self.record is not None and self.record.tables is not None:
            self.record.passed(manifests, self._standing.owner)

    def _begun_again(self) -> Seq | None:
        """The last segment of a batch that the sink has shown a part of: it takes no other one before it."""
        with self._watched():
            self._standing = self._opened()
        return None if self._standing.begun is None else self._standing.begun.seq

    def _opened(self) -> Standing:
        """Raises SinkError for a batch that is begun and cannot be the next one of this log."""
        standing = self.sink.open(epoch=self._settings.epoch_max)
        if standing.begun is not None:
            if not isinstance(standing.begun, Accepted):
                raise SinkError("the sink returned no Accepted as Standing.begun", hint="see the changelog: For writers of sinks")
            check_has(self._settings.log, standing.begun, how="begun")
        return standing

    @property
    def _receives_as(self) -> str:
        """The name by which the next batch is received."""
        begun_as = self._standing.begun_as if self._standing.begun is not None else None
        return self._name if begun_as is None else begun_as

    def _batch(self, manifests: Sequence[Manifest], *, more: bool) -> BatchResult:
        self._check_owner(manifests)
        check_follows(self._settings.log, self._standing.accepted, manifests)
        if self.record is not None and self.record.tables is None:
            self.record.begin(manifests[0], self._standing.owner)
        heads = self._heads(manifests)
        cores = self._tasks.cores(heads)
        segments = f"segments {heads[0].seq} to {heads[-1].seq}"
        with noting(lambda: f"planning {segments}"), self._watched():
            self._check_places(heads)
            batch = self.sink.plan(heads, cores=cores)
        needed_heads = self._needed(batch)
        work = ([replace(one, backlog=more) for one in self._work(stage, batch.writer, needed_heads)] for stage in batch.stages if stage)
        with noting(lambda: f"writing {segments}"):
            outcomes = [outcome for stage in work for outcome in self._tasks.run(stage)]
        began_s = monotonic()
        with noting(lambda: f"accepting {segments}"), self._watched():
            self.sink.accept(batch, outcomes)
        self._accept_s = monotonic() - began_s
        self._note_passed(manifests[: len(batch.heads)])
        last = batch.heads[-1]
        self._standing = replace(self._standing, accepted=Accepted.of(last.manifest), begun=None, begun_as=None)
        guessed = sum(outcome.guessed for outcome in outcomes)
        return BatchResult(delivered(batch, outcomes), last.upto_ts, self._accept_s, guessed, more)

    def _next(self) -> tuple[list[Manifest], bool]:
        """The next batch, and whether more is in the log."""
        standing = self._standing
        after = Seq((self.began or 0) - 1) if self.accepted is None else self.accepted
        if standing.begun is None:
            limits = self._tasks.limits(self._settings.limits)
            there = [received(manifest, self._receives_as) for manifest in self._ahead(after, limits.segments_max)]
            manifests = cut(there, limits)
            if not self.gather_s and self._accept_s <= ACCEPT_QUICK_S:
                manifests = _ahead_of_windows(manifests) or manifests
            return manifests, len(manifests) < len(there) or len(there) == limits.segments_max
        check_next_begun(self._settings.log, after, standing.begun)
        again = new_manifests(self._settings.log, after=after, limit=standing.begun.seq - after)
        check_ends_as_begun(self._settings.log, again, standing.begun)
        return [received(manifest, self._receives_as) for manifest in again], False

    def _ahead(self, after: Seq, limit: int) -> Sequence[Manifest]:
        """As `new_manifests`. Those that the last batch left are not read again while the log has the first one of them still: else each
        batch that ends at a DDL would cost as many reads as the largest one."""
        log, left = self._settings.log, [manifest for manifest in self._left if manifest.seq > after]
        if left and (left[0].seq != after + 1 or new_manifests(log, after=after, limit=1) != left[:1]):
            left = []
        more = new_manifests(log, after=left[-1].seq if left else after, limit=max(limit - len(left), 0))
        self._left = [*left, *more]
        return self._left[:limit]

    def _received(self, after: Seq, limit: int) -> list[Manifest]:
        return [received(manifest, self._receives_as) for manifest in new_manifests(self._settings.log, after=after, limit=limit)]

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
        return [_head(manifest, schemas, self._receives_as, self._rereads) for manifest in manifests]

    def _check_places(self, heads: Sequence[Head]) -> None:
        """Raises SinkError where two tables would share a place, before or after the DDLs of these segments."""
        if not isinstance(self.sink, KeepsTables):
            return
        for head in heads:
            steps = ((head.manifest.schemas, head.schemas, None), (head.manifest.next_schemas, head.next_schemas, head.schemas))
            for name, schemas, previous in steps:
                if name is not None and name != self._apart:
                    self.sink.check_places(*([one.name for one in some.values() if has_rows(one)] for some in (schemas, previous or {})))
                    self._apart = name

    def _needed(self, batch: Batch) -> dict[Seq, Head]:
        """All that a task of it reads. Raises LogBroken for one that is missing."""
        heads = {head.seq: head for head in batch.heads}
        seqs = {seq for stage in batch.stages for task in stage for seq in needed(task)}
        first = batch.heads[0].seq
        if (oldest := min(seqs, default=first)) < first:
            earlier = self._received(Seq(oldest - 1), first - oldest)
            heads |= {head.seq: head for head in self._heads(earlier)}
        for seq in sorted(seqs - heads.keys()):
            raise LogBroken(
                f"segment log {self._settings.log}: segment {seq} is gone, and a window that closed after it begins there",
                hint=WAY_OUT,
            )
        return heads

    def _work(self, tasks: Sequence[Task], writer: Writer, heads: Mapping[Seq, Head]) -> list[TaskWork]:
        return [TaskWork(task, writer, self._source({seq: heads[seq] for seq in needed(task)})) for task in tasks]

    def _source(self, heads: Mapping[Seq, Head]) -> SegmentSource:
        settings = self._settings
        skips = {seq: self.skips[seq] for seq in self.skips.keys() & heads.keys()}
        return SegmentSource(settings.log, heads, settings.server_tz, settings.ambiguous, skips)


def _ahead_of_windows(manifests: Sequence[Manifest]) -> list[Manifest]:
    return list(takewhile(lambda manifest: not any(chunk.rows for window in manifest.windows for chunk in window.chunks), manifests))


def _head(manifest: Manifest, schemas: Mapping[str, Mapping[TableName, TableSchema]], name: str, rereads: Rereads) -> Head:
    slim = replace(manifest, progress=None, more_dumps=(), positions={})
    after = schemas[manifest.next_schemas or manifest.schemas]
    return Head(slim, schemas[manifest.schemas], after, dump_after(manifest), name, leave_at(rereads, manifest, after))
