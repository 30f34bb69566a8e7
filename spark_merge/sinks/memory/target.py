"""What survives a worker: a target by its name, with its position. Each call is one step that a crash cannot split."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock

from sidecar.shared.model.nouns import TableName
from spark_merge.merge.rule import Image, OutputRow
from spark_merge.port.contract import Accepted, Outcome, Owner
from spark_merge.sinks.kit.position import check_owner
from spark_merge.sinks.memory.positions import MemoryPositions

Key = tuple[TableName, Image]


@dataclass(frozen=True, slots=True)
class Begun:
    """A committing sink's batch; its cut depends on the segments, as the sink called `sink` receives them, alone."""

    last: Accepted
    sink: str


@dataclass(slots=True)
class Target:
    """`rows`: the output in the order in which it appeared. `aside`: written and not shown. `slots`: the tasks of a batch that is begun,
    with the answers of those done. `newest`: versioned rows by key."""

    positions: MemoryPositions[Begun, None]
    rows: list[OutputRow] = field(default_factory=list)
    aside: dict[tuple[Owner, str], list[OutputRow]] = field(default_factory=dict)
    slots: dict[str, Outcome | None] = field(default_factory=dict)
    newest: dict[Key, OutputRow] = field(default_factory=dict)
    lock: RLock = field(default_factory=RLock)

    @property
    def accepted(self) -> Accepted | None:
        stored = self.positions.read()
        return None if stored is None else stored.state.accepted

    @contextmanager
    def writing(self, owner: Owner) -> Iterator[None]:
        """A transaction of `owner`. Raises OwnershipLost if it is an earlier one."""
        with self.lock:
            check_owner(self.positions.place, self.positions.read(), owner)
            yield

    def slot(self, task: str) -> Outcome | None:
        """What the task answered; None: it is due. A task of a batch that is accepted is done, with nothing to say any more."""
        return self.slots.get(task, Outcome(task, {}))


_targets: dict[str, Target] = {}


def target(name: str) -> Target:
    """Made when it is first requested."""
    return _targets.setdefault(name, Target(MemoryPositions(f"memory target {name}")))
