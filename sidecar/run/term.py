"""One term of ownership: from the lease that was won to the error, the loss or the end that closes it.

    definition -> schemas -> source, feed, log -> attach -> step, step, step …

- Everything that may write is made for this term's epoch and closed with it; nothing is carried over to the next one.
- Every write is fenced on its own (manifests by exclusive creation, marks by their optimistic lock, progress by the owner key);
  asking `held` before each step and each commit keeps a process that slept from even trying.
- What a retry can help ends the term, not the process: the next one begins where the log ends.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from threading import Event

from sidecar.adapters.tidb.source import mark_row_id
from sidecar.config import Config
from sidecar.core.dump_start import DumpLimits
from sidecar.core.model import CommitTs, Seq
from sidecar.errors import LogBroken, OwnershipLost
from sidecar.log import storage
from sidecar.log.identity import claim_log
from sidecar.log.segment_log import FolderLog
from sidecar.pipeline import Limits, Outside, Pipeline, attach
from sidecar.ports import Ownership, SegmentLog
from sidecar.ticdc.changefeed import Changefeed

POLL_S = 0.2
"""While nothing is under way: it costs five steps a second. The broker's messages end the wait at once."""
POLL_BUSY_S = 0.01
"""While the source works: what it finished is heard of this soon. Not while it is away."""
RETAIN_EVERY_S = 10.0


Opening = Callable[[SegmentLog, ExitStack], Outside]
"""Connects feed and source over the log of this term; what is to be closed with the term is put on the stack as soon as it is there."""


class Term:
    """`epoch` was just granted. `pipeline` is there once `begin` has returned."""

    def __init__(self, config: Config, changefeed: Changefeed, ownership: Ownership, *, epoch: int) -> None:
        self.config = config
        self.changefeed = changefeed
        self.ownership = ownership
        self.epoch = epoch
        self.pipeline: Pipeline
        self._folder = storage.log_folder(config.log.uri)
        self._log = FolderLog(self._folder, check_held=partial(check_held, ownership))
        self._opened = ExitStack()
        self._retain_due_s = 0.0
        self._told_before: Seq | None = None

    def begin(self, opening: Opening) -> None:
        """Recover the log and attach to the feed. Raises what keeps it from doing so; `close` is due in any case."""
        self._log.id = claim_log(self._folder, self.changefeed.log_id)
        outside = opening(self._log, self._opened)
        self._told_before = outside.deliveries.accepted() if outside.deliveries is not None else None
        bounds = limits(self.config, self.changefeed)
        self.pipeline = attach(outside, changefeed_id=mark_row_id(self.changefeed.name), epoch=self.epoch, limits=bounds)

    def run(self, stopping: Event, seen: Callable[[Pipeline, float], None]) -> None:
        """Step until `stopping`; `seen(pipeline, now_s)` is called after each step. Raises what ends the term."""
        pipeline, clock = self.pipeline, self.pipeline.outside.clock
        while not stopping.is_set():
            check_held(self.ownership)
            try:
                pipeline.step(poll_s=POLL_BUSY_S if pipeline.source_busy() and pipeline.outage is None else POLL_S)
            except LogBroken as error:
                if self.ownership.held():
                    raise
                raise OwnershipLost(
                    f"another process owns the changefeed by now, and swept what this one was writing: {error}",
                    hint="nothing: it becomes a standby",
                ) from error
            now_s = clock.now_s()
            seen(pipeline, now_s)
            if self.config.log.retain and now_s >= self._retain_due_s:
                self._retain_due_s = now_s + (0.0 if self._retain() else RETAIN_EVERY_S)

    def close(self) -> None:
        """Free what this term holds, in the order opposite to its making."""
        self._opened.close()

    def _retain(self) -> int:
        """Only by what was told in this term: what a former one left may be of other sinks than are served now (P4)."""
        deliveries = self.pipeline.outside.deliveries
        delivered = deliveries.accepted() if deliveries is not None else None
        if delivered is None or delivered == self._told_before:
            return 0
        self._told_before = None
        return self._log.retain(delivered=delivered, open_from=self.pipeline.dump.oldest_open_seq())


def check_held(ownership: Ownership) -> None:
    """Raises OwnershipLost when the lease may have run out."""
    if not ownership.held():
        raise OwnershipLost(
            "the lease of this changefeed may have run out: this process may not write any more",
            hint="nothing: it becomes a standby; if it happens often, look at etcd's latency or raise etcd.lease_s",
        )


def limits(config: Config, changefeed: Changefeed) -> Limits:
    """Key-values come from where their puller was told to begin, whatever start-ts is."""
    dump = config.dump
    return Limits(
        held_bytes_max=config.log.held_bytes_max,
        start_ts=CommitTs(changefeed.start_ts if config.encoded else 0),
        dump=DumpLimits(
            readers=dump.readers,
            window_chunks_max=dump.window_chunks_max,
            open_windows_max=dump.open_windows_max,
            chunk_bytes_max=dump.chunk_bytes_max,
            delivery_bound_s=dump.delivery_bound_s,
            strict_bound=dump.strict_bound,
        ),
    )
