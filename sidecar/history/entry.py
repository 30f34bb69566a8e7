"""One operation in the history of a changefeed: a dump or a verification, who requested it, and its result.

- An entry is bounded whatever it is made of. Its texts come from clusters and callers: each is cut and has no control characters.
- What an entry does not keep is counted: tables beyond the first ones, older commands.
- The history keeps HISTORY_MAX operations. An operation that is not over stays, whatever its age: of a dump that runs the history says
  that it is over, and then it gets its certificate. Of the others those go that were recorded longest ago (`surplus`).
- A time is in milliseconds since 1970 by the clock of the owner that recorded it; 0: not known, or not yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Any

import msgspec

from sidecar.shared.model.messages import NOT_RECORDED, Asker
from sidecar.shared.model.nouns import OperationId, operation_id
from sidecar.shared.model.progress import OVER, DumpState, Progress

HISTORY_MAX = 1000
"""Entries of a changefeed: a second list of a year of hourly verifications would be no history that a person reads."""
TABLES_KEPT_MAX = 10
"""Names of an entry: they tell operations apart. `dumpquery` has all of the dump that is there."""
SINKS_KEPT_MAX = 10
COMMANDS_KEPT_MAX = 10
"""The last ones of an operation: a program that pauses and resumes for days makes thousands."""
NAME_CHARACTERS_MAX = 140
"""A table's name with its schema has two times 64 and a dot."""
TEXT_CHARACTERS_MAX = 500
"""Of an error; all of it is in the sidecar's log."""


class OperationKind(StrEnum):
    DUMP = "dump"
    VERIFICATION = "verification"


@dataclass(frozen=True, slots=True)
class OperationScope:
    """`tables`: the names of the first of `table_count`. `by_keys`, `filtered`: of how many of them the operation has only rows with
    given keys, or only rows of a predicate. `sinks`: the names of the first; empty: all sinks. `for_ddl`: as of Progress; 0: of none."""

    tables: tuple[str, ...] = ()
    table_count: int = 0
    by_keys: int = 0
    filtered: int = 0
    sinks: tuple[str, ...] = ()
    for_ddl: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", _names(self.tables, TABLES_KEPT_MAX))
        object.__setattr__(self, "sinks", _names(self.sinks, SINKS_KEPT_MAX))


@dataclass(frozen=True, slots=True)
class OperationCommand:
    """A later request that changed an operation: `pause`, `set readers=2`."""

    command: str
    asked_by: Asker
    at_ms: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "command", one_line(self.command, NAME_CHARACTERS_MAX))
        object.__setattr__(self, "asked_by", _bounded(self.asked_by))


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """`id`: of the operation, unique in the history. `result`: why it failed, or its outcome, in a few
    words. `running_s`: for how long it was in the state running until `running_since_ms`, where it runs, else in all.
    `commands`: the last ones, oldest first; `commands_before`: how many older ones are not kept. `restart_of`: the dump that this one was
    started again from; empty: none."""

    id: OperationId
    kind: OperationKind
    scope: OperationScope
    asked_by: Asker
    started_ms: int
    state: DumpState = DumpState.RUNNING
    ended_ms: int = 0
    result: str = ""
    rows: int = 0
    bytes: int = 0
    chunks: int = 0
    running_s: float = 0.0
    running_since_ms: int = 0
    commands: tuple[OperationCommand, ...] = ()
    commands_before: int = 0
    restart_of: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "asked_by", _bounded(self.asked_by))
        object.__setattr__(self, "result", one_line(self.result, TEXT_CHARACTERS_MAX))
        object.__setattr__(self, "commands_before", self.commands_before + len(self.commands[:-COMMANDS_KEPT_MAX]))
        object.__setattr__(self, "commands", self.commands[-COMMANDS_KEPT_MAX:])

    def running_s_at(self, now_ms: int) -> float:
        """A clock that was set back counts for nothing."""
        return round(self.running_s + (max(now_ms - self.running_since_ms, 0) / 1000 if self.running_since_ms else 0.0), 3)

    def commanded(self, command: str, asked_by: Asker, at_ms: int) -> HistoryEntry:
        return replace(self, commands=(*self.commands, OperationCommand(command, asked_by, at_ms)))

    def to_json(self) -> dict[str, Any]:
        """JSON values only."""
        return asdict(self)


_ALWAYS = frozenset(field.name for field in fields(HistoryEntry)) - {"restart_of"}
"""What each version has written."""


def entry_from_json(value: dict[str, Any]) -> HistoryEntry:
    """The inverse of `HistoryEntry.to_json`. Raises TypeError or ValueError for what is not one."""
    made: HistoryEntry = msgspec.convert(value, HistoryEntry, strict=False)
    if missing := _ALWAYS - value.keys():
        raise ValueError(f"it has no {min(missing)}")
    operation_id(made.id)
    return made


def surplus(states: Mapping[OperationId, DumpState], *, but: Collection[OperationId]) -> list[OperationId]:
    """Those that go. `states`: of all operations, the one that was recorded longest ago first. `but`: those that are being recorded."""
    over = [one for one, state in states.items() if state in OVER and one not in but]
    return over[: max(len(states) - HISTORY_MAX, 0)]


def of_dump(progress: Progress, asked_by: Asker = NOT_RECORDED, *, started_ms: int = 0, now_ms: int) -> HistoryEntry:
    """A dump that is not in the history yet."""
    entry = HistoryEntry(operation_id(progress.dump_id), OperationKind.DUMP, OperationScope(), asked_by, started_ms)
    return advanced(entry, progress, now_ms)


def advanced(entry: HistoryEntry, progress: Progress, now_ms: int) -> HistoryEntry:
    """A dump's entry in step with its progress."""
    tables = progress.tables
    keyed, narrowed = sum(bool(table.key_count) for table in tables), sum(not table.whole and not table.key_count for table in tables)
    names = tuple(str(table.table) for table in tables[:TABLES_KEPT_MAX])
    return replace(
        entry,
        scope=OperationScope(names, len(tables), keyed, narrowed, progress.sinks, progress.for_ddl or 0),
        state=progress.state,
        ended_ms=(entry.ended_ms or now_ms) if progress.state in OVER else 0,
        result=progress.reason or "",
        rows=sum(table.rows for table in tables),
        bytes=sum(table.bytes for table in tables),
        chunks=sum(table.chunks for table in tables),
        running_s=entry.running_s_at(now_ms),
        running_since_ms=now_ms if progress.state is DumpState.RUNNING else 0,
    )


def one_line(text: str, characters_max: int) -> str:
    """`text` in one line of a bounded length, without characters that a terminal, or a reader's eye, takes for something else: control
    characters, line ends, marks that reverse the direction of a text."""
    shown = "".join(one if one.isprintable() else " " for one in text[: characters_max + 1])
    return shown if len(shown) <= characters_max else f"{shown[: characters_max - 1]}…"


def _names(value: Iterable[str], at_most: int) -> tuple[str, ...]:
    return tuple(one_line(name, NAME_CHARACTERS_MAX) for name in tuple(value)[:at_most])


def _bounded(asker: Asker) -> Asker:
    return Asker(*(one_line(text, NAME_CHARACTERS_MAX) for text in (asker.name, asker.address, asker.reason)))
