"""Deaths on purpose: the sidecar dies before or after a durable step, and everything that is not durable is lost.

The durable steps are those of `pipeline.py`. A crash is an exception that nothing but the replay's loop catches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from sidecar.feeds.around import FeedAround
from sidecar.history.entry import HistoryEntry
from sidecar.ports import Feed, OperationHistory, ProgressStore, SegmentLog
from sidecar.shared.log.manifest import DataFile, LoggedDumps, Manifest
from sidecar.shared.model.nouns import Change, Lane, Seq, TableName, TableSchema
from sidecar.shared.model.progress import Progress

T = TypeVar("T")


class Crash(Exception):
    """The sidecar dies here."""


@dataclass(slots=True)
class CrashFate:
    """Decides where the sidecar dies: `crashes` times at most, at each point before or after a durable step with `chance`;
    or, `at` given, once, at that point, counted from 1. `due`: whether the next one may come. `points` is how many there were."""

    rng: Random
    crashes: int
    chance: float = 0.03
    at: int | None = None
    due: Callable[[], bool] = lambda: True
    points: int = 0
    deaths: list[str] = field(default_factory=list)

    def around(self, step: str, act: Callable[[], T]) -> T:
        self._perhaps(f"before {step}")
        answer = act()
        self._perhaps(f"after {step}")
        return answer

    def _perhaps(self, where: str) -> None:
        self.points += 1
        if self.points == self.at or (self.at is None and self.crashes and self.rng.random() < self.chance and self.due()):
            self.crashes -= 1
            self.deaths.append(where)
            raise Crash(where)


@dataclass(frozen=True, slots=True)
class MortalLog:
    """A segment log whose owner may die at its steps."""

    log: SegmentLog
    fate: CrashFate

    def recover(self, *, epoch: int) -> Manifest | None:
        return self.log.recover(epoch=epoch)

    @property
    def id(self) -> str:
        return self.log.id

    def write_data(self, seq: Seq, *, epoch: int, codec: str, changes: Iterable[Change]) -> DataFile:
        return self.fate.around("segment data", lambda: self.log.write_data(seq, epoch=epoch, codec=codec, changes=changes))

    def write_schemas(self, schemas: Mapping[TableName, TableSchema]) -> str:
        return self.log.write_schemas(schemas)

    def read_schemas(self, name: str) -> dict[TableName, TableSchema]:
        return self.log.read_schemas(name)

    def write_dumps(self, dumps: Sequence[Progress]) -> LoggedDumps:
        return self.log.write_dumps(dumps)

    def commit(self, manifest: Manifest) -> None:
        self.fate.around("manifest", lambda: self.log.commit(manifest))


@dataclass(frozen=True, slots=True)
class MortalProgress:
    stored: ProgressStore
    fate: CrashFate

    @property
    def history(self) -> OperationHistory:
        return self.stored.history

    def load(self) -> tuple[Progress, ...]:
        return self.stored.load()

    def save(self, dumps: Sequence[Progress], entries: Sequence[HistoryEntry] = ()) -> None:
        self.fate.around("progress", lambda: self.stored.save(dumps, entries))


class MortalFeed(FeedAround[Feed]):
    def __init__(self, feed: Feed, fate: CrashFate) -> None:
        super().__init__(feed)
        self._fate = fate

    def acknowledge(self, positions: Mapping[Lane, int]) -> None:
        self._fate.around("acknowledge", lambda: super(MortalFeed, self).acknowledge(positions))
