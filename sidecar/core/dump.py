"""One dump: the requests of operators, and the table of its states. Nothing here waits, and no change waits for it (P3).

                 queued    running    paused     finished   failed    stopped
    Begin        running   .          .          .          .         .         no other dump holds its tables (dumps)
    PauseDump    -         paused     -          -          -         -
    ResumeDump   -         -          running    -          queued    -         with other settings, if it says so
    SetDump      queued    running    paused     -          -         -         the next chunk is read with other settings
    StopDump     stopped   stopped    stopped    -          -         -
    Complete     finished  finished   finished   .          .         .         the log has the last chunk, or no table is left
    Failure      .         failed     failed     finished   .         .         the source refused, or a mark came as it must not

    -  refused: raises RefusedRequest, which names the state, and changes nothing          .  does not happen

While a dump is running or paused, it has a `dump_run.Run`, with readers, windows and marks. A finished one has it until its last window has
closed. Of one that failed or was stopped only its record is left: its marks are not ours and its events change nothing. The records of
those that wait or have failed are kept in step with the DDLs, so that they can begin or resume.

A source that is away is no Failure. The dump continues without its answers. It requests the range of a SELECT again. For a mark, a new Run
begins from what the log holds, as after a death (`dump_run.MarkLost`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sidecar.core.dump_run import Failure, MarkLost, Run
from sidecar.core.dump_start import Ground, changed, lacking_after_stop, resumed
from sidecar.shared.errors import MarkError, RefusedRequest
from sidecar.shared.model.chunk import ClosedWindow
from sidecar.shared.model.messages import Command, PauseDump, ResumeDump, SegmentBuilt, SetDump, SourceEvent, StopDump
from sidecar.shared.model.nouns import CommitTs, Mark, Seq, TableName
from sidecar.shared.model.progress import OVER, DumpState, Progress
from sidecar.shared.model.schema_step import TableStep


@dataclass(frozen=True, slots=True)
class Begin:
    """No other dump holds its tables."""


@dataclass(frozen=True, slots=True)
class Complete:
    """The log has the last chunk of the last table."""


ChangeOfOne = PauseDump | ResumeDump | SetDump | StopDump
"""The requests that change a dump. RestartDump makes another one."""

NEXT: Mapping[type[ChangeOfOne | Begin | Complete | Failure], Mapping[DumpState, DumpState]] = {
    Begin: {DumpState.QUEUED: DumpState.RUNNING},
    PauseDump: {DumpState.RUNNING: DumpState.PAUSED},
    ResumeDump: {DumpState.PAUSED: DumpState.RUNNING, DumpState.FAILED: DumpState.QUEUED},
    SetDump: {state: state for state in (DumpState.QUEUED, DumpState.RUNNING, DumpState.PAUSED)},
    StopDump: dict.fromkeys((DumpState.QUEUED, DumpState.RUNNING, DumpState.PAUSED), DumpState.STOPPED),
    Complete: dict.fromkeys((DumpState.QUEUED, DumpState.RUNNING, DumpState.PAUSED), DumpState.FINISHED),
    Failure: dict.fromkeys((DumpState.RUNNING, DumpState.PAUSED), DumpState.FAILED),
}
"""What follows when this happens in this state; what is not here is illegal."""

POSSIBLE: Mapping[DumpState | None, str] = {
    None: "start one with dumpstart",
    DumpState.QUEUED: "it begins when the dumps before it are over; dumpset changes it, dumpstop ends it",
    DumpState.RUNNING: "dumpset changes it, dumppause pauses it, dumpstop ends it",
    DumpState.PAUSED: "dumpresume continues it, dumpset changes it, dumpstop ends it",
    DumpState.FINISHED: "start another one with dumpstart, or the same one again with dumprestart",
    DumpState.FAILED: "dumpresume continues it, dumprestart begins it again; dumpquery says why it has failed",
    DumpState.STOPPED: "start another one with dumpstart, or the same one again with dumprestart",
}
"""For an operator whose request is refused in this state: the commands that are not. None: there is no dump."""

_ACTIVE = frozenset({DumpState.RUNNING, DumpState.PAUSED})
_IN_STEP = frozenset({DumpState.QUEUED, DumpState.FAILED})


class Dump:
    """`ground`: what it shares with the other dumps."""

    def __init__(self, progress: Progress, ground: Ground) -> None:
        self._ground = ground
        self._marks = 0
        self._run: Run | None = None
        self._record = progress
        self._take(progress)

    @property
    def progress(self) -> Progress:
        return self._record if self._run is None else self._run.progress

    @property
    def tables(self) -> frozenset[TableName]:
        return frozenset(table.table for table in self.progress.tables)

    # ---- what an operator asks -------------------------------------------------------------------------------------

    def request(self, request: ChangeOfOne) -> None:
        """Carry it out. Raises RefusedRequest, naming the state, and changes nothing."""
        progress = self.progress
        if progress.state not in NEXT[type(request)]:
            raise RefusedRequest(f"dump {progress.dump_id} is {progress.state}", hint=POSSIBLE[progress.state])
        if isinstance(request, ResumeDump) and progress.state is DumpState.FAILED:
            self._take(resumed(progress, request.settings, ground=self._ground))
            return
        if isinstance(request, SetDump | ResumeDump):
            self._set(changed(progress, request.settings))
        self._move(request)

    def begin(self) -> None:
        """Of one that is queued."""
        self._move(Begin())
        self._take(self._record)

    def end(self) -> None:
        """Close for good what is open: its marks are no longer ours."""
        self._record = self.progress
        self._close()

    # ---- what happens ----------------------------------------------------------------------------------------------

    def handle(self, event: SourceEvent) -> list[Command]:
        """Take what the source finished. Raises MarkRowTaken when another writer has the watermark row."""
        if self._run is None:
            return []
        outcome = self._run.handle(event)
        match outcome:
            case Failure():
                self._fail(outcome)
                return []
            case MarkLost():
                self._take(self._run.progress)
                return []
            case _:
                return outcome

    def next(self) -> list[Command]:
        """What can begin now."""
        return self._run.next() if self._run is not None and self._run.progress.state is DumpState.RUNNING else []

    def closes_by(self, upto_ts: CommitTs) -> bool | None:
        """As of Windows."""
        return None if self._run is None else self._run.windows.closes_by(upto_ts, self._ground.room.fits)

    def segment(self, built: SegmentBuilt, marks: list[Mark]) -> tuple[ClosedWindow, ...]:
        """The windows that close in this segment, oldest first. A mark of ours that is doubled, out of order or of the wrong kind fails the
        dump, and no window closes: live changes continue (P3)."""
        closed: tuple[ClosedWindow, ...] = ()
        if self._run is not None:
            try:
                closed = self._run.segment(built, marks)
            except MarkError as error:
                self._fail(Failure(f"{error.message} ({error.hint})"))
            if closed:
                self._advance(seq=built.seq, may_complete=not built.ddl)
                if self._run.too_old(built.upto_ts):
                    self._take(self._run.progress)
            self._close_if_over()
        return closed

    def changed(self, steps: Iterable[TableStep]) -> None:
        """A DDL is the last thing in the segment just built; `steps` are the tables that it changed. It decides whether the
        dump is complete."""
        if self._run is not None:
            if self._run.progress.state not in OVER and (self._run.changed(list(steps)) or self._run.complete()):
                self._advance()
                self._close_if_over()
        elif self._record.state in _IN_STEP:
            resting = Run(self._record, self._ground, first_mark=self._marks)
            if resting.changed(list(steps)):
                state = self._record.state
                if state is DumpState.QUEUED and resting.complete():
                    state = NEXT[Complete][state]
                resting.record(state, reason=self._record.reason)
                self._record = resting.progress

    # ---- state -----------------------------------------------------------------------------------------------------

    def _set(self, progress: Progress) -> None:
        if self._run is None:
            self._record = progress
        else:
            self._run.progress = progress

    def _take(self, progress: Progress) -> None:
        """Continue from `progress` with nothing open and nothing under way. Marks that were sent before are no longer ours."""
        self._close()
        self._record = progress
        if progress.state is DumpState.FINISHED and any(table.keys for table in progress.tables):
            self._record = replace(progress.without_keys(), revision=self._ground.next_revision())
        if progress.state in _ACTIVE:
            self._run = Run(progress, self._ground, first_mark=self._marks)
            self._ground.runs.append(self._run)

    def _close(self) -> None:
        if self._run is not None:
            self._marks = self._run.marks_sent
            self._ground.runs.remove(self._run)
        self._run = None

    def _close_if_over(self) -> None:
        """A finished dump with no window left takes no part in what is shared."""
        if self._run is not None and self._run.progress.state in OVER and not self._run.windows:
            self._take(self._run.progress)

    def _fail(self, failure: Failure) -> None:
        if self.progress.state in OVER:  # finished: the log has all of it
            self._take(self.progress)
        else:
            self._move(failure)

    def _move(self, happened: ChangeOfOne | Begin | Failure) -> None:
        state = NEXT[type(happened)][self.progress.state]
        if self._run is None:
            reason = self._reason(happened) or self._record.reason
            self._record = replace(self._record, state=state, revision=self._ground.next_revision(), reason=reason)
        else:
            self._run.record(state, reason=self._reason(happened))
            if state not in _ACTIVE:
                self._take(self._run.progress)

    def _reason(self, happened: ChangeOfOne | Begin | Failure) -> str | None:
        if isinstance(happened, StopDump):
            return lacking_after_stop(self.progress)
        return happened.reason if isinstance(happened, Failure) else None

    def _advance(self, *, seq: Seq | None = None, may_complete: bool = True) -> None:
        """The log, or the dump's tables, are others now: on record with what follows when that completes the dump."""
        assert self._run is not None
        state = self._run.progress.state
        self._run.record(NEXT[Complete].get(state, state) if may_complete and self._run.complete() else state, seq=seq)
