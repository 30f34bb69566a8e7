"""A changefeed's dump: what operators ask of it, and the table of its states. Nothing here waits, and no change waits for it (P3).

                 no dump   running    paused     finished   failed    stopped
    StartDump    running   -          -          running    running   running      under a dump id of its own
    RestartDump  -         running    running    running    running   running      the same scope from the start, another dump id
    PauseDump    -         paused     -          -          -         -
    ResumeDump   -         -          running    -          running   -             with other settings, if it says so
    SetDump      -         running    paused     -          -         -             the next chunk is read with other settings
    StopDump     -         stopped    stopped    -          -         -
    Complete     .         finished   finished   .          .         .            the log has the last chunk
    Failure      .         failed     failed     finished   .         .            the source refused, or a mark came as it must not

    -  refused: raises RefusedRequest, which names the state, and changes nothing          .  does not happen

While a dump is there, a `dump_run.Run` is, with readers, windows and marks; a finished one stays until its last windows have closed.
Of one that failed or was stopped nothing is left but its record: its marks are not ours and its events change nothing. The record of one
that failed is kept in step with the DDLs, so that ResumeDump may go on from it.

A source that is away is no Failure. A dump goes on without its answers: the range of a SELECT is asked for again; where it is a mark, by
a new Run from what the log holds, as after a death (`dump_run.MarkLost`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from sidecar.core.chunk import ClosedWindow
from sidecar.core.dump_run import Failure, MarkLost, Run
from sidecar.core.dump_start import Demand, DumpLimits, DumpRoom, Ground, changed, demand_of_none, once_more, resumed, started
from sidecar.core.messages import (
    Command,
    PauseDump,
    Request,
    RestartDump,
    ResumeDump,
    SegmentBuilt,
    SetDump,
    SourceEvent,
    StartDump,
    StopDump,
)
from sidecar.core.model import CommitTs, Mark, Seq
from sidecar.core.progress import OVER, DumpState, Progress
from sidecar.core.schema_step import TableStep
from sidecar.errors import MarkError, RefusedRequest


@dataclass(frozen=True, slots=True)
class Complete:
    """The log has the last chunk of the last table."""


_NEXT: Mapping[type[Request | Complete | Failure], Mapping[DumpState, DumpState]] = {
    StartDump: dict.fromkeys(OVER, DumpState.RUNNING),
    RestartDump: dict.fromkeys(DumpState, DumpState.RUNNING),
    PauseDump: {DumpState.RUNNING: DumpState.PAUSED},
    ResumeDump: {DumpState.PAUSED: DumpState.RUNNING, DumpState.FAILED: DumpState.RUNNING},
    SetDump: {DumpState.RUNNING: DumpState.RUNNING, DumpState.PAUSED: DumpState.PAUSED},
    StopDump: {DumpState.RUNNING: DumpState.STOPPED, DumpState.PAUSED: DumpState.STOPPED},
    Complete: {DumpState.RUNNING: DumpState.FINISHED, DumpState.PAUSED: DumpState.FINISHED},
    Failure: {DumpState.RUNNING: DumpState.FAILED, DumpState.PAUSED: DumpState.FAILED},
}
"""What follows when this happens in this state; what is not here is illegal."""


class Dump:
    """The changefeed's dump: at most one that is not over."""

    def __init__(
        self,
        *,
        changefeed_id: str,
        epoch: int,
        limits: DumpLimits,
        progress: Progress | None,
        after_ts: CommitTs,
        next_seq: Seq,
    ) -> None:
        """`progress`: as recovered, None if there never was one. `after_ts`, `next_seq`: where the log stands."""
        self._ground = Ground(changefeed_id, epoch, limits, after_ts, next_seq)
        self._run: Run | None = None
        self._over: Progress | None = None
        if progress is not None:
            self._take(replace(progress, epoch=epoch, revision=progress.revision + 1))

    @property
    def progress(self) -> Progress | None:
        """Of the dump that is there, else of the last one that was; None if there never was one."""
        return self._over if self._run is None else self._run.progress

    # ---- what the pipeline asks ------------------------------------------------------------------------------------

    def request(self, request: Request) -> None:
        """Carry out an operator's request. Raises RefusedRequest, naming the state, and changes nothing."""
        last = self.progress
        match request:
            case StartDump():
                if last is not None and last.state not in _NEXT[StartDump]:
                    raise RefusedRequest(f"a dump is {last.state} already", hint="stop it, or use dumprestart")
                self._start(request)
            case RestartDump(dump_id):
                if last is None or last.state not in _NEXT[RestartDump]:
                    raise RefusedRequest("there is no dump to restart", hint="use dumpstart")
                self._start(once_more(last, dump_id))
            case ResumeDump(settings) if last is not None and last.state is DumpState.FAILED:
                self._take(resumed(last, settings))
            case PauseDump() | ResumeDump() | StopDump() | SetDump():
                if self._run is None or self._run.progress.state not in _NEXT[type(request)]:
                    raise RefusedRequest(f"the dump is {last.state if last else 'not started'}", hint="see dumpquery for what it is doing")
                if isinstance(request, SetDump | ResumeDump):
                    self._run.progress = changed(self._run.progress, request.settings)
                self._move(self._run, request)
            case _:
                assert_never(request)

    def handle(self, event: SourceEvent) -> list[Command]:
        """Take what the source finished. Raises MarkRowTaken when another writer has the watermark row."""
        if self._run is None:
            return []
        outcome = self._run.handle(event)
        match outcome:
            case Failure():
                self._fail(self._run, outcome)
                return []
            case MarkLost():
                self._take(self._run.progress)
                return []
            case _:
                return outcome

    def next(self) -> list[Command]:
        """What can begin now."""
        return self._run.next() if self._run is not None and self._run.progress.state is DumpState.RUNNING else []

    def allow(self, room: DumpRoom) -> None:
        """What the sinks leave to it from now on."""
        self._ground.room = room

    def demand(self) -> Demand:
        """What it takes, and whether it would take more."""
        return demand_of_none(self._ground.limits) if self._run is None else self._run.demand()

    def segment(self, built: SegmentBuilt, marks: list[Mark]) -> tuple[ClosedWindow, ...]:
        """The windows that close in this segment, oldest first; `marks` are the watermark rows in it, in order.

        A mark of ours that is doubled, out of order or of the wrong kind fails the dump, and no window closes: live changes go on (P3).
        """
        closed: tuple[ClosedWindow, ...] = ()
        if self._run is not None:
            try:
                closed = self._run.segment(built, marks)
            except MarkError as error:
                self._fail(self._run, Failure(f"{error.message} ({error.hint})"))
            if closed:
                self._advance(self._run, seq=built.seq)
        self._ground.after_ts, self._ground.next_seq = built.upto_ts, Seq(built.seq + 1)
        return closed

    def changed(self, steps: Iterable[TableStep]) -> None:
        """A DDL is the last thing in the segment just built; `steps` are the tables that it changed."""
        if self._run is not None:
            if self._run.progress.state not in OVER and self._run.changed(list(steps)):
                self._advance(self._run)
        elif self._over is not None and self._over.state is DumpState.FAILED:
            left = Run(self._over, self._ground)
            if left.changed(list(steps)):
                left.record(DumpState.FAILED, reason=self._over.reason)
                self._over = left.progress

    def closes_by(self, upto_ts: CommitTs) -> bool:
        """Whether a window waits for a segment up to `upto_ts`, even an empty one."""
        return self._run is not None and self._run.windows.closes_by(upto_ts)

    def oldest_open_seq(self) -> Seq | None:
        return None if self._run is None else self._run.windows.oldest_first_seq()

    def open_windows(self) -> int:
        return 0 if self._run is None else len(self._run.windows)

    def full(self) -> bool:
        """Whether what is read and not closed in the log has reached its bounds."""
        return self._run is not None and self._run.full()

    # ---- state -----------------------------------------------------------------------------------------------------

    def _start(self, request: StartDump) -> None:
        progress = started(request, after=self.progress, ground=self._ground)
        self._ground.marks = 0
        self._take(progress)

    def _take(self, progress: Progress) -> None:
        """Go on from `progress` with nothing open and nothing under way. The marks of what was are no longer ours."""
        self._run, self._over = (None, progress) if progress.state in OVER else (Run(progress, self._ground), None)

    def _fail(self, run: Run, failure: Failure) -> None:
        if run.progress.state in OVER:  # finished: the log has all of it
            self._take(run.progress)
        else:
            self._move(run, failure)

    def _move(self, run: Run, happened: PauseDump | ResumeDump | StopDump | SetDump | Failure) -> None:
        run.record(_NEXT[type(happened)][run.progress.state], reason=happened.reason if isinstance(happened, Failure) else None)
        if run.progress.state in (DumpState.FAILED, DumpState.STOPPED):
            self._take(run.progress)

    def _advance(self, run: Run, *, seq: Seq | None = None) -> None:
        """The log, or the dump's tables, are others now: on record with what follows when that completes the dump."""
        state = run.progress.state
        run.record(_NEXT[Complete].get(state, state) if run.complete() else state, seq=seq)
