"""One term of ownership: from the lease that was won to the error, the loss or the end that closes it.

    definition -> schemas -> source, feed, log -> attach -> step, step, step …

- Everything that may write is made for this term's epoch and closed with it; the merge worker and the pace
  alone live from term to term (between_terms.py).
- Every write is fenced on its own (manifests by exclusive creation, marks by their optimistic lock, progress by the owner key);
  asking `held` before each step and each commit keeps a process that slept from even trying.
- What a retry can help ends the term, not the process: the next one begins where the log ends.
- A volume without room ends the term too, and gives up the log's reserve (shared/log/reserve.py). The next term makes room before it
  writes: it waits for the worker's report, and retention removes what every sink has accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Event
from time import monotonic

from sidecar.adapters.clock import wall_ms
from sidecar.adapters.tidb.source import mark_row_id
from sidecar.core.dump_start import DumpLimits
from sidecar.feeds.contract import Parking
from sidecar.pipeline import Outside, Pipeline, PipelineLimits, attach
from sidecar.ports import Deliveries, Ownership, SegmentLog
from sidecar.run.auxiliary import Services
from sidecar.run.gc_hold import GcHoldState, TsoReads, begin_gc_hold, tso_reads
from sidecar.run.logs import say
from sidecar.run.retention import CERTIFICATES, VERIFICATIONS, WINDOWS, RetentionHolds
from sidecar.shared.config import Config
from sidecar.shared.errors import FeedError, LogBroken, OwnershipLost, StorageFull, parted
from sidecar.shared.log import reserve, storage
from sidecar.shared.log.identity import claim_log
from sidecar.shared.log.owned import OwnedLog
from sidecar.shared.log.parked import HOW_TO_PASS
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import CommitTs, Seq
from sidecar.shared.ticdc.changefeed import Changefeed
from sidecar.shared.ticdc.suitability import no_marks

POLL_S = 0.2
"""While nothing is under way: it costs five steps a second. The broker's messages end the wait at once."""
POLL_BUSY_S = 0.01
"""While the source works: its results are received this soon. Not while it is away."""
RETAIN_EVERY_S = 10.0
NOTE_EVERY_S = 5.0
"""What is read as of a moment: a hold in PD is renewed less often."""
REPORTED_WAIT_S, REPORTED_LOOK_S = 10.0, 0.1
"""For the worker's report, where there is no room: a worker reports every second. One that still starts is kept for the next term."""


Opening = Callable[[SegmentLog, ExitStack], Outside]
"""Connects feed and source over the log of this term; what is to be closed with the term is put on the stack as soon as it is there."""


class Term:
    """`epoch` was just granted. `worker_epoch`: of the managed worker that an earlier term of this process has kept, if any. `pipeline` is
    there once `begin` has returned. `kept_from`: the first segment that somebody else still reads. `collected`: the last segment that
    certificates have no need of, None where they need none. `parking`: of messages that stop the stream. `full`: the log's volume has no
    room left. `sinks`: their names. `reads`: what is read as of a moment of TiDB, for any thread."""

    def __init__(
        self,
        config: Config,
        changefeed: Changefeed,
        ownership: Ownership,
        deliveries: Deliveries,
        *,
        epoch: int,
        worker_epoch: int | None = None,
    ) -> None:
        self.config = config
        self.changefeed = changefeed
        self.ownership = ownership
        self.epoch = epoch
        self.full = False
        self.sinks: tuple[str, ...] = ()
        self.kept_from: Callable[[], Seq | None] = lambda: None
        self.collected: Callable[[], Seq | None] = lambda: None
        self.parking: Parking | None = None
        self.holds = RetentionHolds(say)
        self.reads = TsoReads()
        self.pipeline: Pipeline
        self._folder = storage.log_folder(config.log.uri)
        self._log = FolderLog(self._folder, check_held=partial(check_held, ownership))
        self._opened = ExitStack()
        self._retain_due_s = self._note_due_s = 0.0
        self._deliveries = deliveries
        self._worker_epochs = {epoch, worker_epoch}
        reported = deliveries.report_times()
        self._reported_before_ms = None if reported is None else reported.written_ms

    def make_room(self, stopping: Event) -> None:
        """Where an earlier term ended for want of it: remove what every sink has accepted. Nothing is written but retention's note."""
        if self.config.log.retain:
            with self._judging_the_log():
                self._make_room(stopping)

    def _make_room(self, stopping: Event) -> None:
        until_s = monotonic() + REPORTED_WAIT_S
        while (delivered := self._delivered()) is None:
            check_held(self.ownership)
            if monotonic() > until_s or stopping.wait(REPORTED_LOOK_S):
                return
        self._log.recover(epoch=self.epoch)
        while self._log.retain(delivered=delivered, open_from=None) or not self._log.learned:
            pass

    def begin(self, opening: Opening) -> None:
        """Recover the log and attach to the feed. Raises what keeps it from doing so; `close` is due in any case."""
        with self._judging_the_log():
            self._log.id = claim_log(self._folder, self.changefeed.log_id)
            reserve.take(self._folder)
            outside = opening(self._log, self._opened)
            bounds = limits(self.config, self.changefeed, self.sinks)
            self.pipeline = attach(outside, changefeed_id=mark_row_id(self.changefeed.name), epoch=self.epoch, limits=bounds)

    def run(self, stopping: Event, seen: Callable[[Pipeline, float], None]) -> None:
        """Step until `stopping`; `seen(pipeline, now_s)` is called after each step. Raises what ends the term."""
        pipeline, clock = self.pipeline, self.pipeline.outside.clock
        while not stopping.is_set():
            check_held(self.ownership)
            with self._judging_the_log(), self._keeping_what_stops():
                self._step()
            now_s = clock.now_s()
            seen(pipeline, now_s)
            if now_s >= self._note_due_s:
                self._note_due_s = now_s + NOTE_EVERY_S
                self._note_reads()
            if self.config.log.retain and now_s >= self._retain_due_s:
                with self._judging_the_log():
                    self._retain_due_s = now_s + (0.0 if self._retain() else RETAIN_EVERY_S)

    def _step(self) -> None:
        pipeline = self.pipeline
        pipeline.step(poll_s=POLL_BUSY_S if pipeline.source_busy() and pipeline.outage is None else POLL_S)

    def serve_gc_hold(self, services: Services) -> Callable[[], GcHoldState | None]:
        """What the term reads as of a moment of TiDB stays readable, as far as PD goes along. What is known of that."""
        self._note_reads()
        return begin_gc_hold(self.config, self.changefeed, lambda: self.reads, services)

    def _note_reads(self) -> None:
        pipeline = self.pipeline
        window, verification = pipeline.dump.oldest_open_seq(), self.kept_from()
        self.reads = tso_reads(self.config, pipeline.sequence.after_ts, window=window, verification=verification)

    def owned(self, folder: Folder) -> OwnedLog:
        """For what is written beside the segments."""
        return OwnedLog(folder, self.epoch, partial(check_held, self.ownership))

    def close(self) -> None:
        """Free what this term holds, in the order opposite to its making; then, on a full volume, the reserve: nobody of ours writes."""
        with ExitStack() as closing:
            if self.full and self.ownership.held():
                closing.callback(reserve.give_up, self._folder)
            closing.callback(self._opened.close)

    def _retain(self) -> bool:
        """Whether there may be more to do. A certificate that has not come to a segment needs what a sink needs that has not: that, and
        where its windows began."""
        delivered, collected = self._delivered(), self.collected()
        needed = {WINDOWS: self.pipeline.dump.oldest_open_seq(), VERIFICATIONS: self.kept_from()}
        to_collect = {CERTIFICATES: None if collected is None else Seq(collected + 1)}
        self.holds.see(needed | to_collect, delivered, self.pipeline.outside.clock.now_s())
        passed = delivered if delivered is None or collected is None else min(delivered, collected)
        if passed is None:
            return False
        open_from = min((seq for seq in needed.values() if seq is not None), default=None)
        return self._log.retain(delivered=passed, open_from=open_from) > 0 or not self._log.learned

    def _delivered(self) -> Seq | None:
        """What every sink has accepted, as a worker of ours has reported in this term. What was reported before, or by another owner's
        worker, may be of other sinks than are served now (P4)."""
        reported = self._deliveries.report_times()
        if reported is None:
            return self._deliveries.accepted()
        if reported.written_ms == self._reported_before_ms or (self.config.spark.managed and reported.epoch not in self._worker_epochs):
            return None
        return reported.accepted

    @contextmanager
    def _judging_the_log(self) -> Iterator[None]:
        """Around whatever uses the log. Only an owner can tell that its log is broken: to others, the owner's retention looks so."""
        try:
            yield
        except LogBroken as error:
            if self.ownership.held():
                raise
            raise OwnershipLost(
                f"another process owns the changefeed by now, and removed what this one used: {error}",
                hint="nothing: it becomes a standby",
            ) from error
        except StorageFull as error:
            if error.place != str(self._folder):
                raise
            self.full = True
            raise self._explained(error) from error

    @contextmanager
    def _keeping_what_stops(self) -> Iterator[None]:
        """A message that stops the stream is kept, and the error says how it can be passed."""
        try:
            yield
        except FeedError as error:
            if self.parking is None or self.parking.note_stop(error, wall_ms()) is None:
                raise
            raise type(error)(error.message, hint=f"{error.hint}; {HOW_TO_PASS}") from error

    def _explained(self, error: StorageFull) -> StorageFull:
        """With where the log and the sinks are, and so what an operator can do."""
        segments, sinks = self._log.segments, self._deliveries.sinks()
        volume_bytes = storage.volume_bytes(self._folder)
        room = f"{volume_bytes[0]} of the volume's {volume_bytes[1]} bytes are free" if volume_bytes else "its bound is the storage's own"
        log = f"the log has segments {segments[0]} to {segments[-1]}" if segments else "the log has no segment"
        if not self.config.log.retain:
            why, hint = "log.retain is false: none is removed", "set log.retain = true, which removes what every sink has accepted"
        elif not sinks:
            why, hint = "the merge worker has not reported what the sinks have accepted", "see the merge worker's own lines for why"
        else:
            last = min(sinks, key=lambda sink: -1 if sink.accepted is None else sink.accepted)
            why = f"sink {last.sink} has accepted {'none' if last.accepted is None else f'up to {last.accepted}'} by the last report"
            hint = f"mend that sink ({parted(last.error)[0]})" if last.error else "wait for that sink: what all have accepted is removed"
        return StorageFull(
            f"{error.message} ({room}); {log}; {why}",
            hint=f"{hint}; or make room on the volume, or enlarge it: nothing is lost, and it continues automatically",
            place=error.place,
        )


def check_held(ownership: Ownership) -> None:
    """Raises OwnershipLost when the lease may have run out."""
    if not ownership.held():
        raise OwnershipLost(
            "the lease of this changefeed may have run out: this process may not write any more",
            hint="nothing: it becomes a standby; if it happens often, look at etcd's latency or raise etcd.lease_s",
        )


def limits(config: Config, changefeed: Changefeed, sinks: tuple[str, ...] = ()) -> PipelineLimits:
    """Key-values come from where their puller was made to begin, whatever start-ts is."""
    dump = config.dump
    return PipelineLimits(
        held_bytes_max=config.log.held_bytes_max,
        start_ts=CommitTs(changefeed.start_ts if config.encoded else 0),
        dump=DumpLimits(
            readers=dump.readers,
            window_chunks_max=dump.window_chunks_max,
            open_windows_max=dump.open_windows_max,
            chunk_bytes_max=dump.chunk_bytes_max,
            delivery_bound_s=dump.delivery_bound_s,
            delivery_bound_max_s=dump.delivery_bound_max_s,
            strict_bound=dump.strict_bound,
            sinks=sinks,
            no_marks=no_marks(changefeed, encoded=config.encoded),
        ),
    )
