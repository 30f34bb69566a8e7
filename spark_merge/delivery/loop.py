"""One sink's loop: it delivers what is in the log in a thread of its own, so that a slow or broken sink holds no other (P3).

    open ─► deliver ─► deliver ─► …   what a sink can recover from: closed, and opened again after a while
                                      the owner has another epoch: closed, and opened again with it at once

A sink that gathers waits before its next batch, and that counts as the batch's time: to a dump's pace it is a sink whose batches take long.

An error of the sink, of the log's storage, of a library (port/foreign.py), or of a row that cannot be decoded (until an operator
skips it: sidecar/shared/log/skips.py) is reported and tried again; all others (a log that is broken, a later owner, Spark gone) end the
loop, and `check` raises them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from threading import Event
from traceback import print_exception

from sidecar.shared.errors import FeedError, LogUnreachable, OwnershipLost, SinkError, StorageFull, TicdcDumpError
from sidecar.shared.log.skips import Skips
from sidecar.shared.model.nouns import FIRST_SEQ, CommitTs, Seq, TableName
from sidecar.shared.model.sink_delivery import BATCHES_KEPT, BatchDone, DroppedRows, SinkDelivery
from sidecar.shared.process.background import Background
from spark_merge.delivery.batches import BatchResult, Delivery, JobSettings, Tasks
from spark_merge.delivery.sink_record import SinkId
from spark_merge.log.read import new_manifests
from spark_merge.port.contract import Certifies, Delivered, Rows, Sink
from spark_merge.port.foreign import is_foreign, unknown
from spark_merge.port.maintained import CountsFiles

IDLE_WAIT_S, IDLE_WAIT_REMOTE_S = 0.03, 0.2
"""Between two looks into an idle log: three small reads each, some 0.1 ms on a local disk; where requests are paid for, more seldom."""

CERTIFY_EVERY_S = 5.0
"""Between two listings of the log's certificates."""

RETRY_FIRST_S, RETRY_MAX_S = 1.0, 60.0
"""Waits double from the first to the last while a sink fails."""

EPOCH_WAIT_S = 2.0
"""A segment of a later epoch can come before the word that the owner is the same."""


class SinkLoop:
    """The loop's thread calls `reported(segments)` after each batch, and with no segments after any other event that a report holds.
    `watched`: as of Delivery."""

    def __init__(
        self,
        sink_id: SinkId,
        sink: Sink,
        settings: JobSettings,
        tasks: Tasks,
        reported: Callable[[list[Delivered]], None],
        *,
        watched: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.sink = sink
        self.error: TicdcDumpError | None = None
        """What it failed of last, until something has succeeded."""
        self.upto_ts = CommitTs(0)
        """Of the last segment that the sink has accepted."""
        self.guessed = 0
        """TIMESTAMPs that stood for two moments, since this loop began."""
        self.name, self._settings, self._tasks, self._reported, self._watched = sink_id.name, settings, tasks, reported, watched
        self._id = sink_id
        self._delivery: Delivery | None = None
        """Of the last opening."""
        self._accepted: Seq | None = None
        self._batches: deque[BatchDone] = deque(maxlen=BATCHES_KEPT)
        self._batch_began_s: float | None = None
        self._batch_s = 0.0
        self.took_s: deque[float] = deque(maxlen=BATCHES_KEPT)
        """The last batches, without `gather_s` before them."""
        self._to_the_end = False
        self._certify_due_s = 0.0
        self._running: Background | None = None
        self._serves = Event()

    def serve(self, settings: JobSettings) -> None:
        """Open the sink again with these settings, after the batch that is under way. From any thread."""
        self._settings = settings
        self._serves.set()

    def start(self) -> None:
        self._running = Background(self._run, name=f"deliver-{self.name}")

    @property
    def opened(self) -> bool:
        return self._delivery is not None

    @property
    def skips(self) -> Skips:
        """Rows of the log that are skipped, as known when the sink was opened."""
        return {} if self._delivery is None else self._delivery.skips

    def standing(self) -> SinkDelivery:
        began, tables_seq, gather_s = FIRST_SEQ, None, 0.0
        if (delivery := self._delivery) is not None:
            began, gather_s = delivery.began or FIRST_SEQ, delivery.gather_s
            if (record := delivery.record) is not None and (tables := record.tables) is not None:
                began = FIRST_SEQ if tables.began_ts is None else tables.began_seq
                tables_seq = record.written_seq
        error, batches = str(self.error or ""), tuple(self._batches)
        files = tuple(self.sink.small_files()) if isinstance(self.sink, CountsFiles) else ()
        return SinkDelivery(self.name, self._accepted, batches, error, began, tables_seq, self.upto_ts, gather_s, files)

    def batch_s(self) -> float:
        """How long the last batch took, or the one that is under way has taken, as `took_s`."""
        began_s = self._batch_began_s
        return self._batch_s if began_s is None else max(self._batch_s, time.monotonic() - began_s)

    def check(self) -> None:
        """Raises what ended the loop."""
        if self._running is not None:
            self._running.check()

    def end(self, *, to_the_end: bool) -> None:
        """After the batch that is under way, or with `to_the_end` when nothing is left in the log; `close` waits for that."""
        self._to_the_end = to_the_end
        if self._running is not None:
            self._running.close(0)

    def close(self, timeout_s: float | None) -> None:
        """One that has not ended by then is left behind: it may hang."""
        if self._running is not None:
            self._running.close(timeout_s)

    def _run(self, ending: Event) -> None:
        wait_s = RETRY_FIRST_S
        while True:
            before = self._accepted
            self._serves.clear()
            try:
                if self._deliver(ending):
                    continue
            except OwnershipLost:
                if self._settings.epoch_max is None or not self._serves.wait(EPOCH_WAIT_S):
                    raise
                continue
            except (SinkError, StorageFull, LogUnreachable, FeedError) as error:
                self.error = error
                self._reported([])
            except BaseException as error:
                if not is_foreign(error):
                    raise
                print_exception(error)  # a defect's place is in no text of ours
                self.error = unknown(error)
                self._reported([])
            else:
                return
            finally:
                self.sink.close()
            wait_s = RETRY_FIRST_S if self._accepted != before else min(wait_s * 2, RETRY_MAX_S)
            if ending.wait(wait_s):
                return

    def _deliver(self, ending: Event) -> bool:
        """Until the end: False, or until the owner has another epoch: True."""
        delivery = Delivery(self.sink, self._settings, self._tasks, sink_id=self._id, watched=self._watched)
        self._accepted, self.upto_ts, self._delivery = delivery.accepted, self._position(delivery.accepted), delivery
        self._reported([])
        gathers = False
        while not ending.is_set() or self._to_the_end:
            if self._serves.is_set():
                return True
            last = ending.is_set()
            began_s = time.monotonic()
            if gathers and ending.wait(delivery.gather_s) and not self._to_the_end:
                return False
            batch = self._timed(delivery)
            self._certify(last=last and batch is None)
            gathers = batch is not None and not batch.more
            if batch is not None:
                self._note(batch, time.monotonic() - began_s)
            if batch is not None or self.error:
                self.error = None
                self._reported(batch.segments if batch is not None else [])
            elif last:
                return False
            else:
                ending.wait(IDLE_WAIT_S if self._settings.log.protocol == "file" else IDLE_WAIT_REMOTE_S)
        return False

    def _certify(self, *, last: bool) -> None:
        """A look for certificates now and then, and before the loop ends."""
        now_s = time.monotonic()
        if self._accepted is not None and isinstance(self.sink, Certifies) and (last or now_s >= self._certify_due_s):
            self._certify_due_s = now_s + CERTIFY_EVERY_S
            self.sink.certify(self._settings.log, self.name, self._accepted)

    def _timed(self, delivery: Delivery) -> BatchResult | None:
        self._batch_began_s = began_s = time.monotonic()
        try:
            batch = delivery.deliver()
        finally:
            self._batch_s, self._batch_began_s = time.monotonic() - began_s, None
        if batch is not None:
            self.took_s.append(self._batch_s)
        return batch

    def _note(self, batch: BatchResult, seconds: float) -> None:
        tables: dict[TableName, Rows] = {}
        for segment in batch.segments:
            for table, result in segment.tables.items():
                tables[table] = tables.get(table, Rows()).plus(result)
        rows = reduce(Rows.plus, tables.values(), Rows())
        done = BatchDone(
            last=(last := batch.segments[-1].seq),
            segments=len(batch.segments),
            log_rows=rows.log,
            dump_rows=rows.dump + rows.dropped,
            seconds=seconds,
            accept_s=batch.accept_s,
            accepted_ms=int(time.time() * 1000),
            dropped=tuple(DroppedRows(*table, result.dropped) for table, result in sorted(tables.items()) if result.dropped),
        )
        self._batches.append(done)
        self.guessed += batch.guessed
        self._accepted, self.upto_ts = last, batch.upto_ts

    def _position(self, seq: Seq | None) -> CommitTs:
        """Where the log still has it."""
        if seq is None:
            return CommitTs(0)
        manifests = new_manifests(self._settings.log, after=Seq(seq - 1), limit=1)
        return manifests[0].upto_ts if manifests and manifests[0].seq == seq else CommitTs(0)
