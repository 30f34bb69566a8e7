"""When the entries of a changefeed's dumps change: at a request, at a change of a dump's state, and never with a chunk.

- An entry is due together with the progress that it describes, and both become durable in one step: neither is ahead of the other.
- The log may be ahead of both, after a death between a manifest and the progress store. The first save of the next owner brings the
  entry to the recovered progress. Where the entry is there already, nothing is due.
- A recovered dump without an entry was started by the sidecar at the DDL where the log ends, or by a version without a history. A dump
  that is over is not added: it has left the history.
- The recorder reads the history once, and never writes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

from sidecar.core.messages import PauseDump, Request, RestartDump, ResumeDump, SetDump, Settings, StartDump, StopDump
from sidecar.core.model import CommitTs
from sidecar.core.progress import OVER, DumpState, Progress
from sidecar.core.schema_step import dump_after_ddl
from sidecar.history.entry import HistoryEntry, OperationKind, advanced, of_dump
from sidecar.ports import OperationHistory

_WORDS = {PauseDump: "pause", ResumeDump: "resume", SetDump: "set", StopDump: "stop", RestartDump: "restart"}
END_NOT_SEEN = "finished as the sidecar died: rows as recorded before"


class DumpRecorder:
    """Of one term, in the pipeline's thread. `wall_ms`: milliseconds since 1970."""

    def __init__(self, history: OperationHistory, wall_ms: Callable[[], int], progress: Progress | None, *, after_ts: CommitTs) -> None:
        """`progress`: as recovered, None if there was no dump. `after_ts`: where the log ends."""
        self._wall_ms = wall_ms
        self._request: Request | None = None
        self._last = progress
        self._entry = self._recorded = history.find(progress.dump_id) if progress is not None else None
        self._left: tuple[HistoryEntry, ...] = ()
        if progress is not None and self._entry is None and progress.state not in OVER:
            self._recover(history, progress, after_ts)

    def _recover(self, history: OperationHistory, progress: Progress, after_ts: CommitTs) -> None:
        dump_id, asker = dump_after_ddl(after_ts)
        now_ms = self._wall_ms()
        if progress.dump_id != dump_id:
            self._entry = of_dump(progress, now_ms=now_ms)
            return
        self._entry = of_dump(progress, asker, started_ms=now_ms, now_ms=now_ms)
        before = [entry for entry in history.entries() if entry.kind is OperationKind.DUMP and entry.state not in OVER]
        self._left = tuple(replace(one, state=DumpState.FINISHED, ended_ms=now_ms, result=END_NOT_SEEN) for one in before)

    def asked(self, request: Request, *, last: Progress | None = None) -> None:
        """`request` is carried out, and the next progress to be saved shows it. `last`: the dump until then, if that was not saved."""
        self._request = request
        self._last = last or self._last

    def due(self, progress: Progress) -> tuple[HistoryEntry, ...]:
        """The entries that are to be durable with `progress`; mostly none."""
        request, self._request = self._request, None
        last, self._last = self._last, progress
        left, self._left = self._left, ()
        if request is None and (self._entry is None or (self._entry is self._recorded and self._entry.state is progress.state)):
            return ()
        now_ms = self._wall_ms()
        if isinstance(request, StartDump | RestartDump):
            left = self._ended(request, last, now_ms)
            entry = of_dump(progress, request.asker, started_ms=now_ms, now_ms=now_ms)
        else:
            entry = advanced(self._entry or of_dump(progress, now_ms=now_ms), progress, now_ms)
            entry = entry if request is None else entry.commanded(_words(request), request.asker, now_ms)
        self._entry = self._recorded = entry
        return (*left, entry)

    def _ended(self, request: StartDump | RestartDump, last: Progress | None, now_ms: int) -> tuple[HistoryEntry, ...]:
        """The entry of the dump before the one that `request` starts, if it is not recorded as over."""
        if self._entry is None or last is None or self._entry.state in OVER:
            return ()
        if last.state in OVER:
            return (advanced(self._entry, last, now_ms),)
        stopped = advanced(self._entry, replace(last, state=DumpState.STOPPED), now_ms)
        return (stopped.commanded(_words(request), request.asker, now_ms),)


def _words(request: Request) -> str:
    """A command as an operator types it, without its `dump`."""
    settings = request.settings if isinstance(request, SetDump | ResumeDump) else Settings()
    given = [f"{field.name}={value}" for field in fields(Settings) if (value := getattr(settings, field.name)) is not None]
    return " ".join([_WORDS[type(request)], *given])
