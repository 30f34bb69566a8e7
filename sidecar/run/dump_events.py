"""What the log reports of dumps: they are queued, begin, have done with a table, change their state or their pace.

Tables that are done within one status are a line each, up to TABLES_REPORTED_MAX; the rest is one line. Rates are of this owner.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from sidecar.control.status import SidecarStatus
from sidecar.run.log_event import LogEvent, given
from sidecar.shared.config import DumpSection
from sidecar.shared.errors import parted
from sidecar.shared.model.messages import Pace
from sidecar.shared.model.nouns import TableName
from sidecar.shared.model.progress import OVER, DumpState, Progress

TABLES_REPORTED_MAX = 20
"""Tables that are done within one status, a line each; the others are one line. A dump can have ten thousand small tables."""


@dataclass(slots=True)
class _Seen:
    """Since when this owner has watched something, and what there was of it then."""

    since_s: float
    rows: int


@dataclass(slots=True)
class _DumpSeen:
    """`free_s`: when it last began, continued or was done with a table: the next one is read from then on, as far as the log shows.
    `rows_before`: when this owner began to watch. `tables`: those that have rows and are not done."""

    free_s: float
    rows_before: int = 0
    running_s: float = 0.0
    tables: dict[TableName, _Seen] = field(default_factory=dict)


class DumpEvents:
    """Of one term. `defaults`: the settings of a dump that does not say its own."""

    def __init__(self, defaults: DumpSection) -> None:
        self._defaults = defaults
        self._seen: dict[str, _DumpSeen] = {}
        self._at_s = 0.0

    def received(self, before: SidecarStatus | None, now: SidecarStatus, at_s: float) -> Iterator[LogEvent]:
        """What a status says of its dumps that the one before it did not."""
        self._seen = {dump.dump_id: self._seen[dump.dump_id] for dump in now.dumps if dump.dump_id in self._seen}
        for dump in now.dumps:
            then = before.dump(dump.dump_id) if before is not None else None
            yield from self._of_dump(then, dump, at_s, is_first=before is None)
        self._at_s = at_s

    def _of_dump(self, before: Progress | None, now: Progress, at_s: float, *, is_first: bool) -> Iterator[LogEvent]:
        if now.dump_id not in self._seen:
            seen = self._seen[now.dump_id] = _DumpSeen(self._at_s, running_s=at_s - self._at_s)
            if is_first:
                seen.free_s, seen.running_s, seen.rows_before = at_s, 0.0, rows_in(now)
                seen.tables = {table.table: _Seen(at_s, table.rows) for table in now.tables if table.chunks}
                if now.state is DumpState.FAILED:  # maybe by this very start: the log is another one
                    yield self._state(seen, now)
                elif now.state not in OVER:  # else it was reported by the owner that it had then
                    yield _taken_over(now)
                return
            if now.state is DumpState.QUEUED:
                seen.running_s = 0.0
                yield LogEvent("dump queued", _outline(now))
                return
            yield LogEvent("dump begun", _outline(now) | given(**asdict(now.pace)))
        seen = self._seen[now.dump_id]
        if before is not None and before.state is DumpState.RUNNING:
            seen.running_s += at_s - self._at_s
        if before is now:
            return
        yield from self._tables_done(seen, before, now, at_s)
        if before is not None and (before.pace, before.chunk_rows) != (now.pace, now.chunk_rows):
            yield LogEvent("dump set", {"dump": now.dump_id, "chunk_rows": now.chunk_rows, **_in_force(now.pace, self._defaults)})
        if before is not None and before.state is DumpState.QUEUED and now.state is DumpState.RUNNING:
            yield LogEvent("dump begun", _outline(now) | given(**asdict(now.pace)))
        elif now.state is not (before.state if before else DumpState.RUNNING):
            yield self._state(seen, now)
        else:
            return
        seen.free_s = at_s

    def _tables_done(self, seen: _DumpSeen, before: Progress | None, now: Progress, at_s: float) -> Iterator[LogEvent]:
        done_before = {table.table for table in before.tables if table.complete_at is not None} if before else set()
        done = []
        for table in now.tables:
            if table.table in done_before:
                continue
            if table.chunks or table.complete_at is not None:
                watched = seen.tables.setdefault(table.table, _Seen(seen.free_s, 0))
                if table.complete_at is not None:
                    done.append((table, seen.tables.pop(table.table, watched)))
        for table, watched in done[:TABLES_REPORTED_MAX]:
            yield LogEvent("table done", {"table": str(table.table), **_figures(table.rows, watched.rows, at_s - watched.since_s)})
        if rest := done[TABLES_REPORTED_MAX:]:
            yield LogEvent("tables done", {"tables": len(rest), "rows": sum(table.rows for table, _ in rest)})
        if done:
            seen.free_s = at_s

    def _state(self, seen: _DumpSeen, now: Progress) -> LogEvent:
        event = "dump resumed" if now.state is DumpState.RUNNING else f"dump {now.state}"
        values = {"dump": now.dump_id, "tables": tables_done(now), **_figures(rows_in(now), seen.rows_before, seen.running_s)}
        if now.state in OVER:
            values["bytes"] = sum(table.bytes for table in now.tables)
        reason, hint = parted(now.reason or "")
        return LogEvent(event, values | given(reason=reason, hint=hint), "warning" if now.reason else "info")


def _outline(dump: Progress) -> dict[str, object]:
    values = {"dump": dump.dump_id, "tables": tables_done(dump), "brackets": str(dump.brackets), "chunk_rows": dump.chunk_rows}
    return values | given(sinks=", ".join(dump.sinks))


def _taken_over(dump: Progress) -> LogEvent:
    return LogEvent("dump taken over", _outline(dump) | {"state": str(dump.state), "rows": rows_in(dump)})


def _figures(rows: int, of_previous: int, seconds: float) -> dict[str, object]:
    """`of_previous`: rows of earlier owners. A table that was begun again has none."""
    of_previous = of_previous if of_previous <= rows else 0
    values: dict[str, object] = {"rows": rows, "seconds": round(seconds, 1)}
    return values | given(rows_of_previous_owners=of_previous, rows_per_s=round((rows - of_previous) / seconds) if seconds > 0 else 0)


def tables_done(dump: Progress) -> str:
    return f"{sum(table.complete_at is not None for table in dump.tables)}/{len(dump.tables)}"


def rows_in(dump: Progress) -> int:
    return sum(table.rows for table in dump.tables)


def _in_force(pace: Pace, defaults: DumpSection) -> dict[str, object]:
    """What holds where the operator gave nothing, too. A bound of 0 is made of what delivery takes without a dump."""
    return asdict(pace) | {
        "readers": pace.readers or defaults.readers,
        "rows_per_s": pace.rows_per_s or "unbounded",
        "bytes_per_s": pace.bytes_per_s or "unbounded",
        "delivery_bound_s": pace.delivery_bound_s or defaults.delivery_bound_s or "automatic",
    }
