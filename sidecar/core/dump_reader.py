"""Where one reader of a dump is, and a range whose SELECT has to wait. The transitions are `dump.Dump`'s."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from sidecar.core.model import CommitTs
from sidecar.core.plan import Work

NO_TS = CommitTs(0)


class Phase(Enum):
    IDLE = auto()
    OPENING = auto()
    READING = auto()
    CLOSING = auto()


@dataclass(slots=True)
class Reader:
    """`window`: the number of the window it works on; `mark`: the mark it waits for; `chunk`: the chunk it reads;
    `asked_ts`: what had left the feed when the chunk was asked for.
    `work` None while it is READING: a DDL has passed since, the chunk is not wanted."""

    phase: Phase = Phase.IDLE
    window: int = -1
    mark: int = -1
    chunk: int = -1
    chunks_left: int = 0
    asked_ts: CommitTs = NO_TS
    work: Work | None = None


@dataclass(frozen=True, slots=True)
class Doubt:
    """A range whose SELECT did not fit the table: asked for again when the log has reached `until_ts`."""

    until_ts: CommitTs
    work: Work
