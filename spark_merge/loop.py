"""One sink's loop: it delivers what is in the log in a thread of its own, so that a slow or broken sink holds no other (P3).

    open ─► deliver ─► deliver ─► …   what a sink can recover from: closed, and opened again after a while

A sink that gathers waits before its next batch, and that counts as the batch's time: to a dump's pace it is a sink whose batches take long.

An error of the sink, of the log's storage, or of a row that cannot be decoded (until an operator leaves it out: sidecar/log/skips.py) is
told and tried again. So is a defect, an error that is not of `sidecar.errors`: it is this sink's error, with its traceback in the log, and
the other sinks continue. All others (a log that is broken, a later owner, Spark gone) end the loop, and `check` raises them.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from threading import Event

from sidecar.core.model import FIRST_SEQ, CommitTs, Seq, TableName
from sidecar.errors import FeedError, LogUnreachable, SinkError, StorageFull, TicdcDumpError
from sidecar.log.skips import Skips
from sidecar.pace.sinks import BATCHES_KEPT, BatchDone, DroppedRows, SinkDelivery
from sidecar.process.background import Background
from spark_merge.contract import Certifies, Delivered, Rows, Sink
from spark_merge.delivery import Delivery, JobSettings, Tasks
from spark_merge.read import new_manifests
from spark_merge.sink_record import SinkId, SinkRecord

IDLE_WAIT_S, IDLE_WAIT_REMOTE_S = 0.03, 0.2
"""Between two looks into an idle log: three small reads each, some 0.1 ms on a local disk; where requests are paid for, more seldom."""

CERTIFY_EVERY_S = 5.0
"""Between two listings of the log's certificates."""

_log = logging.getLogger("spark_merge.loop")

RETRY_FIRST_S, RETRY_MAX_S = 1.0, 60.0
"""Waits double from the first to the last while a sink fails."""


class SinkLoop:
    """`told(segments)` is called after each batch and with none after anything else that a report should hold, by the loop's thread.
    `watched`: as of Delivery."""

    def __init__(
        self,
        sink_id: SinkId,
        sink: Sink,
        settings: JobSettings,
        tasks: Tasks,
        told: Callable[[list[Delivered]], None],
        *,
        watched: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.sink = sink
        self.error: TicdcDumpError | None = None
        """What it failed of last, until something has succeeded."""
        self.upto_ts = CommitTs(0)
        """Of the last segment that the sink has accepted."""
        self.opened = False
        self.skips: Skips = {}
        """What is left out, as known when the sink was opened."""
        self.guessed = 0
        """TIMESTAMPs that stood for two moments, since this loop began."""
        self.name, self._settings, self._tasks, self._told, self._watched = sink_id.name, settings, tasks, told, watched
        self._id = sink_id
        self._record: SinkRecord | None = None
        self._begins = FIRST_SEQ
        self._accepted: Seq | None = None
        self._batches: deque[BatchDone] = deque(maxlen=BATCHES_KEPT)
        self._batch_began_s: float | None = None
        self._batch_s = self._gather_s = 0.0
        self._to_the_end = False
        self._certify_due_s = 0.0
        self._running: Background | None = None

    def start(self) -> None:
        self._running = Background(self._run, name=f"deliver-{self.name}")

    def standing(self) -> SinkDelivery:
        began, tables_seq = self._begins, None
        if (record := self._record) is not None and (tables := record.tables) is not None:
            began = FIRST_SEQ if tables.began_ts is None else tables.began_seq
            tables_seq = record.written_seq
        return SinkDelivery(self.name, self._accepted, tuple(self._batches), str(self.error or ""), began, tables_seq)

    def batch_s(self) -> float:
        """How long the last batch took, or the one that is under way has taken, beyond the time for which the sink gathers."""
        began_s = self._batch_began_s
        batch_s = self._batch_s if began_s is None else max(self._batch_s, time.monotonic() - began_s)
        return max(batch_s - self._gather_s, 0.0)

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
            try:
                self._deliver(ending)
            except (SinkError, StorageFull, LogUnreachable, FeedError) as error:
                self.error = error
                self._told([])
            except TicdcDumpError:
                raise
            except Exception as error:  # noqa: BLE001  # a defect may not end the other sinks: it is logged and reported
                _log.exception("%s failed with a defect, and is tried again", self.name)
                self.error = _defect(error)
                self._told([])
            else:
                return
            finally:
                self.sink.close()
            wait_s = RETRY_FIRST_S if self._accepted != before else min(wait_s * 2, RETRY_MAX_S)
            if ending.wait(wait_s):
                return

    def _deliver(self, ending: Event) -> None:
        delivery = Delivery(self.sink, self._settings, self._tasks, sink_id=self._id, watched=self._watched)
        self._accepted, self.upto_ts = delivery.accepted, self._position(delivery.accepted)
        self.opened, self.skips = True, delivery.skips
        self._record, self._begins = delivery.record, delivery.began or FIRST_SEQ
        self._told([])
        gathers = False
        while not ending.is_set() or self._to_the_end:
            last = ending.is_set()
            began_s = time.monotonic()
            if gathers and ending.wait(delivery.gather_s) and not self._to_the_end:
                return
            segments = self._timed(delivery)
            self._certify(last=last and not segments)
            gathers = bool(segments) and not delivery.more
            if segments:
                self._note(segments, delivery, time.monotonic() - began_s)
            if segments or self.error:
                self.error = None
                self._told(segments)
            elif last:
                return
            else:
                ending.wait(IDLE_WAIT_S if self._settings.log.protocol == "file" else IDLE_WAIT_REMOTE_S)

    def _certify(self, *, last: bool) -> None:
        """A look for certificates now and then, and before the loop ends."""
        now_s = time.monotonic()
        if self._accepted is not None and isinstance(self.sink, Certifies) and (last or now_s >= self._certify_due_s):
            self._certify_due_s = now_s + CERTIFY_EVERY_S
            self.sink.certify(self._settings.log, self.name, self._accepted)

    def _timed(self, delivery: Delivery) -> list[Delivered]:
        self._gather_s = delivery.gather_s
        self._batch_began_s = began_s = time.monotonic()
        try:
            return delivery.deliver()
        finally:
            self._batch_s, self._batch_began_s = time.monotonic() - began_s, None

    def _note(self, segments: list[Delivered], delivery: Delivery, seconds: float) -> None:
        tables: dict[TableName, Rows] = {}
        for segment in segments:
            for table, found in segment.tables.items():
                tables[table] = tables.get(table, Rows()).plus(found)
        rows = reduce(Rows.plus, tables.values(), Rows())
        done = BatchDone(
            last=segments[-1].seq,
            segments=len(segments),
            log_rows=rows.log,
            dump_rows=rows.dump + rows.dropped,
            seconds=seconds,
            accept_s=delivery.accept_s,
            accepted_ms=int(time.time() * 1000),
            dropped=tuple(DroppedRows(*table, found.dropped) for table, found in sorted(tables.items()) if found.dropped),
        )
        self._batches.append(done)
        self.guessed += delivery.guessed
        self._accepted, self.upto_ts = delivery.accepted, delivery.upto_ts

    def _position(self, seq: Seq | None) -> CommitTs:
        """Where the log still has it."""
        if seq is None:
            return CommitTs(0)
        found = new_manifests(self._settings.log, after=Seq(seq - 1), limit=1)
        return found[0].upto_ts if found and found[0].seq == seq else CommitTs(0)


def _defect(error: Exception) -> SinkError:
    """As the sink's error: the first line of what was raised."""
    text = f"{type(error).__name__}: {error}".partition("\n")[0]
    return SinkError(
        f"delivering failed with a defect: {text}", hint="report this with the traceback in the merge worker's log; it is retried"
    )
