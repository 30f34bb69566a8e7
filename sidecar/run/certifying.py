"""A term's certificates: manifests are followed as they appear, and what a dump's certificate needs is kept until the dump is over.

    history says that a dump is over ─► manifests to the end ─► batches of the sinks ─► parts ─► certificate

- Only manifests and schemas are read. What is collected is in parts, durably, before retention may remove the segments (`collected`).
- A dump is certified from its first window or not at all: one that was under way when the following began has no certificate.
- The history is read before the manifests are read: so a dump that is finished there has its last window among them.
- A service beside the stream (auxiliary.py): an error of the storage or of etcd is tried again, for HOLD_MAX_S. Any other one, and one that
  lasts longer, ends the certificates that are collected, with a line, and this life of the service; the next one collects those of later
  dumps, and of these where the log has all that their parts lack.
- What is wrong with one dump's files, or with its id, costs that dump's certificate alone, with a line.
- What is collected is bounded: a dump gets no certificate if IDLE_SEGMENTS_MAX segments close no window of it.
- Where segments were removed that were not read, as on a full volume, they continue where the log begins now (`_continue_at`): a dump whose
  windows may have been among them gets no certificate, with a line.
- An owner writes and removes parts of its own epoch (shared/log/certificate_parts.py). All else it writes as the owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from itertools import chain
from threading import Event
from time import monotonic
from typing import Any

from msgspec import structs

from sidecar.history.entry import HistoryEntry
from sidecar.ports import Deliveries, OperationHistory
from sidecar.run.collecting import NO_HINT, CollectedDump, PassedWindows, ReadSegment
from sidecar.run.dump_reports import DumpReports
from sidecar.run.followed_log import FollowedLog
from sidecar.run.log_event import LogEvent
from sidecar.run.logs import say
from sidecar.shared.errors import LogBroken, OwnershipLost, TicdcDumpError
from sidecar.shared.log.certificate import ChunkLine, SegmentLine, write_certificate
from sidecar.shared.log.certificate_parts import Line, ScopeLine, collected, read_parts, remove_parts, taken_over, write_part
from sidecar.shared.log.certificate_sums import DumpSums
from sidecar.shared.log.dump_files import CERTIFICATES, REPORTS
from sidecar.shared.log.layout import manifest_name, missing_files
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.owned import OwnedLog
from sidecar.shared.model.nouns import OperationId, Seq, operation_id
from sidecar.shared.model.progress import DumpState
from sidecar.shared.model.sink_delivery import SinkDelivery

FOLLOW_S, FOLLOW_REMOTE_S = 0.5, 2.0
"""Between two looks for manifests, and for batches: a report has the last 64 of a sink."""
ASK_S = 2.0
"""Between two questions to the history."""
SAVE_S, SAVE_IDLE_S = 20.0, 300.0
HOLD_MAX_S = 300.0
"""Retention waits for certificates while every attempt fails."""
IDLE_SEGMENTS_MAX = 400_000
"""Since the last window of the dump: each segment is a line, 80 MB in all. By the log's time it would depend on clocks."""
PENDING_LINES_MAX = 20_000
"""A part is written after so long, or with so many lines: retention waits for it. Idle: no window of the dump has closed since, as while it
is paused."""
ACCEPT_WAIT_S = 600.0
"""For the sinks; after that, the certificate says what they have."""
MANIFESTS_AT_ONCE_MAX = 64
LOOK_BACK = 1_000
"""Of the last ones, to know whose rows a batch dropped; and segments that a next term reads again for that, where they are there."""


class TermCertificates:
    """`log_line` receives a line for each certificate, and for each dump that gets none. `now_s`: as of Clock."""

    def __init__(
        self,
        log: OwnedLog,
        history: OperationHistory,
        deliveries: Deliveries,
        reports: DumpReports,
        *,
        now_s: Callable[[], float] = monotonic,
        log_line: Callable[[LogEvent], object] = say,
    ) -> None:
        self._owned, self._log, self._followed = log, log.folder, FollowedLog(log.folder)
        self._history, self._deliveries, self._reports = history, deliveries, reports
        self._now_s, self._log_line = now_s, log_line
        self._dumps: dict[OperationId, CollectedDump] = {}
        self._over: set[OperationId] = set()
        """Dumps that have a certificate, or get none."""
        self._written: set[OperationId] = set()
        """Those whose parts may be there yet."""
        self._ended: dict[OperationId, tuple[HistoryEntry, float]] = {}
        """Finished ones, that wait for their sinks since then."""
        self._next: Seq | None = None
        self._latest: Manifest | None = None
        self._at_once = 1
        self._windows = PassedWindows()
        self._foreign: set[str] = set()
        self._requested_s, self._saved_s = -ASK_S, -SAVE_IDLE_S
        self._collected: Seq | None = Seq(-1)

    def collected(self) -> Seq | None:
        """Segments up to this one may go, as far as certificates need them; None: all. Any thread."""
        return self._collected

    def serve(self, ending: Event) -> None:
        """A life of the service. Raises what ends it."""
        self._next = None
        self._ended.clear()
        well_s = self._now_s()
        while not ending.wait(FOLLOW_S if self._log.protocol == "file" else FOLLOW_REMOTE_S):
            try:
                self.step()
                well_s = self._now_s()
            except OwnershipLost:
                raise
            except TicdcDumpError as error:
                if not error.retryable:
                    self._give_up(str(error))
                    raise
                if self._now_s() - well_s >= HOLD_MAX_S:
                    self._let_go(str(error))
                    raise
            except Exception as error:
                self._give_up(f"a defect: {error!r}")
                raise

    def step(self) -> None:
        """Follow to the end of the log. Raises OwnershipLost, and what the storage and the history raise: then it may be called again."""
        self._owned.check_held()
        if self._next is None:
            self._resume()
        states = self._states()
        while self._read_on():
            pass
        for sink in self._deliveries.sinks():
            self._note_batches(sink)
        for dump in self._dumps.values():
            self._reports.collect(dump)
        for dump_id, entry in states.items():
            self._separate(dump_id, partial(self._settle, dump_id, entry))
        for dump_id, (entry, since_s) in list(self._ended.items()):
            if self._now_s() - since_s >= ACCEPT_WAIT_S or self._is_accepted(self._dumps[dump_id]):
                self._separate(dump_id, partial(self._certify, self._dumps[dump_id], entry))
        self._save()

    def _separate(self, dump_id: OperationId, work: Callable[[], object]) -> None:
        """What is wrong with one dump's files costs its certificate alone."""
        try:
            work()
        except LogBroken as error:
            self._drop(dump_id, error.message)

    # ---- reading ----------------------------------------------------------------------------------------------------------

    def _resume(self) -> None:
        """Where an earlier term has come to, or at the beginning of the log."""
        held, self._collected = self._collected, Seq(-1)  # before the log is listed: else what is there may be gone when it is read
        try:
            run = self._followed.there()
        except TicdcDumpError:
            self._collected = held
            raise
        self._over = set(CERTIFICATES.ids(self._log))
        self._dumps = {}
        for dump_id in collected(self._log):
            if dump_id in self._over:
                remove_parts(self._log, self._owned.epoch, dump_id)
            else:
                self._resume_dump(dump_id, run)
        begins = min((Seq(dump.saved + 1) for dump in self._dumps.values()), default=Seq(run.start))
        self._windows = PassedWindows(Seq(max(run.start, begins - LOOK_BACK)))
        for start in range(self._windows.begins, begins, MANIFESTS_AT_ONCE_MAX):
            for segment in self._followed.read(range(start, min(start + MANIFESTS_AT_ONCE_MAX, begins))):
                self._windows.remember(segment.manifest)
        self._next = begins

    def _resume_dump(self, dump_id: OperationId, run: range) -> None:
        self._reports.chunks.forget(dump_id)
        try:
            lines = taken_over(self._log, self._owned.epoch, dump_id)
            dump = CollectedDump.resumed(dump_id, self._reports.chunks.passed(dump_id, lines))
        except LogBroken as error:
            self._drop(dump_id, error.message)
            return
        if dump is None or not run.start <= dump.saved + 1 <= run.stop:
            place = "nothing" if dump is None else f"segment {dump.saved}"
            self._drop(dump_id, f"its parts come to {place}, and the log has segments {run.start} to {run.stop - 1}")
            return
        self._dumps[dump_id] = dump

    def _read_on(self) -> bool:
        """Whether there may be more."""
        assert self._next is not None
        begins = self._next
        for segment in self._followed.read(range(begins, begins + self._at_once)):
            self._pass(segment)
        accepted = self._deliveries.accepted()
        if self._next == begins and accepted is not None and accepted >= begins:  # it was there
            self._continue_at(begins, Seq(self._followed.there().start))
        whole = self._next == begins + self._at_once
        self._at_once = min(4 * self._at_once, MANIFESTS_AT_ONCE_MAX) if whole else 1
        return whole

    def _continue_at(self, removed: Seq, first: Seq) -> None:
        if first > removed:
            why = f"segments {removed} to {first - 1} were removed before they were read"
            for dump_id, dump in list(self._dumps.items()):
                if (entry := self._history.find(dump_id)) is not None and entry.state is DumpState.FINISHED:
                    self._separate(dump_id, partial(self._certify, dump, entry))
                else:
                    self._drop(dump_id, why)
            self._next, self._windows = first, PassedWindows(first)

    def _pass(self, segment: ReadSegment) -> None:
        manifest = segment.manifest
        for text in dict.fromkeys(window.dump_id for window in manifest.windows):
            dump_id = self._known_id(text)
            if dump_id is not None and dump_id not in self._over and dump_id not in self._dumps:
                self._separate(dump_id, partial(self._begin_dump, dump_id, manifest))
        for dump_id, dump in list(self._dumps.items()):
            self._separate(dump_id, partial(self._add, dump, segment))
        self._windows.remember(manifest)
        self._next, self._latest = Seq(manifest.seq + 1), manifest

    def _known_id(self, text: str) -> OperationId | None:
        """None for an id that no dump of this program has: a certificate has the dump's id as its name."""
        try:
            return operation_id(text)
        except ValueError as error:
            if text not in self._foreign:
                self._foreign.add(text)
                hint = "nothing: another program wrote these windows, and their dump gets no certificate"
                self._log_line(LogEvent("windows of a foreign dump", {"reason": str(error), "hint": hint}, "warning"))
            return None

    def _add(self, dump: CollectedDump, segment: ReadSegment) -> None:
        mine = [window for window in segment.manifest.windows if window.dump_id == dump.dump_id]
        dump.add(segment, self._followed.schemas_of(segment.manifest) if mine else {})
        self._reach_back(dump, min((window.first_seq for window in mine), default=dump.first))
        if segment.manifest.seq - dump.last > IDLE_SEGMENTS_MAX:
            self._drop(dump.dump_id, f"no window of it has closed in {IDLE_SEGMENTS_MAX:,} segments")

    def _begin_dump(self, dump_id: OperationId, manifest: Manifest) -> None:
        windows = [window for window in manifest.windows if window.dump_id == dump_id]
        here, progress = sum(len(window.chunks) for window in windows), self._followed.dump_of(manifest, dump_id)
        known = None if progress is None else sum(table.chunks for table in progress.tables)
        if known is None or known > here:
            self._drop(dump_id, f"its first windows closed before segment {manifest.seq}, where this version began to follow it")
        else:
            self._dumps[dump_id] = self._windows.begun(dump_id, manifest.seq, windows)

    def _reach_back(self, dump: CollectedDump, first: Seq) -> None:
        """A window of the dump began in segment `first`: the segments from there on are a part of their own."""
        if first >= dump.first:
            return
        for start in range(first, dump.first, MANIFESTS_AT_ONCE_MAX):
            seqs = range(start, min(start + MANIFESTS_AT_ONCE_MAX, dump.first))
            lines = [segment.line for segment in self._followed.read(seqs)]
            if len(lines) < len(seqs):
                raise missing_files(self._log, [manifest_name(Seq(seqs[len(lines)]))])
            write_part(self._log, self._owned.epoch, dump.dump_id, Seq(seqs[0]), Seq(seqs[-1]), lines)
        dump.first = first

    def _note_batches(self, sink: SinkDelivery) -> None:
        assert self._next is not None
        for dump in self._dumps.values():
            for batch in sink.batches if dump.accepted_by(sink.sink) else ():
                first = Seq(batch.last - batch.segments + 1)
                if batch.last < self._next and batch.last > dump.passed.get(sink.sink, -1) and batch.last >= dump.first:
                    dump.note(sink.sink, batch, self._windows.within(first, batch.last))

    # ---- the end of a dump ------------------------------------------------------------------------------------------------

    def _states(self) -> dict[OperationId, HistoryEntry | None]:
        """What the history says of the dumps that are collected, where it is time to ask."""
        now_s = self._now_s()
        if now_s - self._requested_s < ASK_S:
            return {}
        self._requested_s = now_s
        return {dump_id: self._history.find(dump_id) for dump_id in self._dumps if dump_id not in self._ended}

    def _settle(self, dump_id: OperationId, entry: HistoryEntry | None) -> None:
        if dump_id not in self._dumps:
            return
        state = None if entry is None else entry.state
        if entry is not None and state is DumpState.FINISHED:
            self._ended[dump_id] = entry, self._now_s()
            return
        over = state is DumpState.STOPPED or (state in (None, DumpState.FAILED) and not self._is_resumable(dump_id))
        if entry is not None and state in (DumpState.STOPPED, DumpState.FAILED):
            self._reports.write(entry, self._lines(self._dumps[dump_id]), {}, certified=False)
        if over:
            self._drop(dump_id, "")
            self._remove_old(dump_id)

    def _is_resumable(self, dump_id: OperationId) -> bool:
        """Whether the log knows the dump still."""
        return self._latest is None or any(one["dump_id"] == dump_id for one in self._latest.dumps)

    def _is_accepted(self, dump: CollectedDump) -> bool:
        sinks = [sink for sink in self._deliveries.sinks() if dump.accepted_by(sink.sink)]
        return bool(sinks) and all(sink.accepted is not None and sink.accepted >= dump.last for sink in sinks)

    def _certify(self, dump: CollectedDump, entry: HistoryEntry) -> None:
        if dump.dump_id in self._written:
            self._forget(dump.dump_id)
        elif entry.chunks > (sums := DumpSums(self._lines(dump))).chunks:  # of the parts that are there: an earlier owner may wake
            self._reports.write(entry, self._lines(dump), {}, certified=False)
            self._drop(dump.dump_id, f"{sums.chunks} of its {entry.chunks} chunks were collected")
        else:
            self._write_certificate(dump, entry, sums)
            self._forget(dump.dump_id)
        self._remove_old(dump.dump_id)

    def _write_certificate(self, dump: CollectedDump, entry: HistoryEntry, sums: DumpSums) -> None:
        head = self._head(dump, entry, sums)
        chunks = (line for line in self._lines(dump) if isinstance(line, ChunkLine))
        segments = (line for line in self._lines(dump) if isinstance(line, SegmentLine) and line.seq <= sums.last)
        accepted = {one["sink"]: one["seq"] for one in head["accepted"]}
        self._reports.write(entry, self._lines(dump), accepted, certified=True)  # first: a certificate is written once
        write_certificate(self._log, head, tables=sums.schemas, chunks=chunks, segments=segments)
        self._written.add(dump.dump_id)
        values = {"dump": dump.dump_id, "chunks": sums.chunks, "segments": sums.last - sums.first + 1}
        self._log_line(LogEvent("certificate written", values))

    def _remove_old(self, dump_id: OperationId) -> None:
        for files in (CERTIFICATES, REPORTS):
            files.remove_old(self._log, lambda: [dump_id, *(one.id for one in self._history.entries())])

    def _lines(self, dump: CollectedDump) -> Iterator[Line]:
        return chain(read_parts(self._log, self._owned.epoch, dump.dump_id), self._scoped(dump), dump.pending)

    def _head(self, dump: CollectedDump, entry: HistoryEntry, sums: DumpSums) -> dict[str, Any]:
        scope = sums.scope
        sinks = [sink for sink in self._deliveries.sinks() if dump.accepted_by(sink.sink)]
        return {
            "dump_id": dump.dump_id,
            **asdict(self._reports.facts()),
            "asked_by": asdict(entry.asked_by),
            "started_ms": entry.started_ms,
            "ended_ms": entry.ended_ms,
            **sums.counts(),
            "scope": {"tables": [] if scope is None else [structs.asdict(one) for one in scope.tables], "sinks": dump.sinks},
            "rows": sums.rows(),
            "accepted": [self._followed.accepted(sink) for sink in sinks],
            "holes": sums.holes(self._followed.open_holes(sinks)),
        }

    # ---- what is kept -----------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        """Parts where they are due, and what retention may remove."""
        now_s = self._now_s()
        waited_s = now_s - self._saved_s
        due = waited_s >= (SAVE_S if any(dump.windows is not None for dump in self._dumps.values()) else SAVE_IDLE_S)
        for dump in list(self._dumps.values()):
            if dump.read > dump.saved and (due or len(dump.pending) >= PENDING_LINES_MAX):
                self._separate(dump.dump_id, partial(self._save_dump, dump))
        self._saved_s = now_s if due else self._saved_s
        assert self._next is not None
        self._collected = min([dump.saved for dump in self._dumps.values()], default=Seq(self._next - 1))

    def _save_dump(self, dump: CollectedDump) -> None:
        lines = [*self._scoped(dump), *dump.pending]
        write_part(self._log, self._owned.epoch, dump.dump_id, Seq(dump.saved + 1), dump.read, lines)
        dump.saved_lines()

    def _scoped(self, dump: CollectedDump) -> list[ScopeLine]:
        """The dump's scope as of the last window that is in no part."""
        progress = None if dump.windows is None else self._followed.dump_of(dump.windows, dump.dump_id)
        return [] if progress is None else [ScopeLine.of(dump.last, progress)]

    def _drop(self, dump_id: OperationId, why: str) -> None:
        """It gets no certificate. `why`: empty for a dump that was stopped."""
        if why:
            self._log_line(LogEvent("no certificate", {"dump": dump_id, "reason": why, "hint": NO_HINT}, "warning"))
        self._forget(dump_id)

    def _forget(self, dump_id: OperationId) -> None:
        self._owned.check_held()  # a late owner's error may be what a later one's retention has removed
        try:
            remove_parts(self._log, self._owned.epoch, dump_id)
        except LogBroken as error:
            values = {"dump": dump_id, "reason": error.message, "hint": error.hint}
            self._log_line(LogEvent("parts of a certificate remain", values, "warning"))
        self._over.add(dump_id)
        self._dumps.pop(dump_id, None)
        self._ended.pop(dump_id, None)

    def _give_up(self, why: str) -> None:
        """No certificate of a dump that is collected; and nothing is kept for them."""
        for dump_id in list(self._dumps):
            with suppress(TicdcDumpError):
                self._drop(dump_id, why)
        self._let_go(why)

    def _let_go(self, why: str) -> None:
        """Nothing is kept for them. The next life collects on where the log has all that the parts lack."""
        self._collected = None
        self._log_line(LogEvent("certificates ended", {"reason": why}, "warning"))
