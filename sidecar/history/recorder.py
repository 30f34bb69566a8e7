"""When the entries of a changefeed's dumps change: at a request, at a change of a dump's state, and never with a chunk.

- An entry is due together with the progress that it describes, and both become durable in one step: neither is ahead of the other.
- The log may be ahead of both, after a death between a manifest and the progress store. The first save of the next owner brings the
  entry to the recovered progress. Where the entry is there already, nothing is due.
- A recovered dump without an entry was started by the sidecar at the DDL where the log ends, or by a version without a history. A dump
  that is over is not added: it has left the history.
- The recorder is given the history as a term begins, and writes none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace

from sidecar.history.entry import HistoryEntry, OperationKind, advanced, of_dump
from sidecar.shared.model.messages import PauseDump, Request, RestartDump, ResumeDump, SetDump, Settings, StartDump, StopDump
from sidecar.shared.model.nouns import CommitTs, operation_id
from sidecar.shared.model.progress import OVER, DumpState, Progress
from sidecar.shared.model.schema_step import dump_after_ddl

_WORDS = {PauseDump: "pause", ResumeDump: "resume", SetDump: "set", StopDump: "stop", RestartDump: "restart"}
END_NOT_RECORDED = "the sidecar died as it ended: rows and state as recorded before"


@dataclass(slots=True)
class _Known:
    """A dump as it was last seen, and its entry, as recorded."""

    progress: Progress
    entry: HistoryEntry | None
    recorded: bool = True


class DumpRecorder:
    """Of one term, in the pipeline's thread. `wall_ms`: milliseconds since 1970."""

    def __init__(
        self, history: Iterable[HistoryEntry], wall_ms: Callable[[], int], recovered: Iterable[Progress], *, after_ts: CommitTs
    ) -> None:
        """`history`: as it is on record. `recovered`: the dumps that are there. `after_ts`: where the log ends."""
        entries = {entry.id: entry for entry in history}
        self._wall_ms = wall_ms
        self._request: Request | None = None
        self._intended = ""
        self._known: dict[str, _Known] = {}
        self._left: tuple[HistoryEntry, ...] = ()
        for progress in recovered:
            known = self._known[progress.dump_id] = _Known(progress, entries.get(operation_id(progress.dump_id)))
            if known.entry is None and progress.state not in OVER:
                known.entry, known.recorded = self._recovered(progress, after_ts), False
        self._left = self._end_not_recorded(entries.values())

    def _recovered(self, progress: Progress, after_ts: CommitTs) -> HistoryEntry:
        dump_id, asker = dump_after_ddl(after_ts)
        now_ms = self._wall_ms()
        if progress.dump_id != dump_id:
            return of_dump(progress, now_ms=now_ms)
        return of_dump(progress, asker, started_ms=now_ms, now_ms=now_ms)

    def _end_not_recorded(self, history: Iterable[HistoryEntry]) -> tuple[HistoryEntry, ...]:
        """Of dumps that are not there any more: an owner died between the log, which has forgotten them, and the store."""
        before = [entry for entry in history if entry.kind is OperationKind.DUMP and entry.state not in OVER]
        gone, now_ms = [one for one in before if one.id not in self._known], self._wall_ms()
        return tuple(replace(one, state=DumpState.STOPPED, ended_ms=now_ms, running_since_ms=0, result=END_NOT_RECORDED) for one in gone)

    def requested(self, request: Request, *, intended: Progress | None = None, last: Iterable[Progress] = ()) -> None:
        """`request` is carried out, and the next progress to be saved shows it. `intended`: the dump that it is for, None for one that it
        starts. `last`: the dumps until then, if those were not saved."""
        self._request, self._intended = request, intended.dump_id if intended is not None else ""
        for progress in last:
            if progress.dump_id in self._known:
                self._known[progress.dump_id].progress = progress

    def due(self, dumps: Iterable[Progress]) -> tuple[HistoryEntry, ...]:
        """The entries that are to be durable with these; mostly none."""
        request, self._request = self._request, None
        due, self._left = list(self._left), ()
        there = {progress.dump_id: progress for progress in dumps}
        due += [entry for dump_id in self._known.keys() - there.keys() for entry in self._gone(self._known.pop(dump_id), request)]
        for progress in there.values():
            due += self._of_one(progress, request)
        return tuple(due)

    def _of_one(self, progress: Progress, request: Request | None) -> Iterator[HistoryEntry]:
        now_ms = self._wall_ms()
        known = self._known.setdefault(progress.dump_id, _Known(progress, None))
        known.progress = progress
        if isinstance(request, StartDump | RestartDump):
            intended = progress.dump_id == (request.dump_id if isinstance(request, StartDump) else request.new_dump_id)
        else:
            intended = request is not None and progress.dump_id == self._intended
        if not intended and (known.entry is None or (known.recorded and known.entry.state is progress.state)):
            return
        if request is not None and intended and isinstance(request, StartDump | RestartDump):
            known.entry = of_dump(progress, request.asker, started_ms=now_ms, now_ms=now_ms)
            if isinstance(request, RestartDump):
                known.entry = replace(known.entry, restart_of=self._intended)
        else:
            known.entry = advanced(known.entry or of_dump(progress, now_ms=now_ms), progress, now_ms)
            if request is not None and intended:
                known.entry = known.entry.commanded(_words(request), request.asker, now_ms)
        known.recorded = True
        yield known.entry

    def _gone(self, known: _Known, request: Request | None) -> Iterator[HistoryEntry]:
        """The entry of a dump that is forgotten, if it is not recorded as over."""
        if known.entry is None or known.entry.state in OVER:
            return
        now_ms, last = self._wall_ms(), known.progress
        if last.state in OVER:
            yield advanced(known.entry, last, now_ms)
            return
        stopped = advanced(known.entry, replace(last, state=DumpState.STOPPED), now_ms)
        yield stopped.commanded(_words(request), request.asker, now_ms) if request is not None else stopped


def _words(request: Request) -> str:
    """A command as an operator types it, without its `dump`."""
    settings = request.settings if isinstance(request, SetDump | ResumeDump) else Settings()
    given = [f"{field.name}={value}" for field in fields(Settings) if (value := getattr(settings, field.name)) is not None]
    return " ".join([_WORDS[type(request)], *given])
