"""What survives a worker: a target by its name, and the two rules that all kinds share. Each call is one step that a crash cannot split."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock

from sidecar.core.model import Seq, TableName
from sidecar.errors import OwnershipLost
from spark_merge.merge.rule import Image, OutputRow
from spark_merge.port.contract import Accepted, Batch, Outcome, Owner
from spark_merge.sinks.fence import check_log, check_next

Key = tuple[TableName, Image]


@dataclass(slots=True)
class Begun:
    """A committing sink's batch; its cut depends on the segments, as the sink called `sink` receives them, alone. `slots`: its tasks, with
    the answers of those done."""

    last: Seq
    sink: str
    slots: dict[str, Outcome | None]


@dataclass(slots=True)
class Target:
    """`rows`: the output in the order in which it appeared. `aside`: written and not shown. `newest`: versioned rows by key."""

    log_id: str
    owner: Owner | None = None
    accepted: Accepted | None = None
    rows: list[OutputRow] = field(default_factory=list)
    aside: dict[tuple[Owner, str], list[OutputRow]] = field(default_factory=dict)
    begun: Begun | None = None
    newest: dict[Key, OutputRow] = field(default_factory=dict)
    ddls: list[str] = field(default_factory=list)
    lock: RLock = field(default_factory=RLock)

    def take_over(self, epoch: int | None) -> Owner:
        """The next owner; it fences all before it. Raises OwnershipLost if a later epoch is there."""
        with self.lock:
            self.owner = Owner.after(self.owner, epoch, of="the target")
            return self.owner

    @contextmanager
    def writing(self, owner: Owner) -> Iterator[None]:
        """A transaction of `owner`. Raises OwnershipLost if it is a former one."""
        with self.lock:
            if owner != self.owner:
                raise OwnershipLost(f"the target has owner {self.owner}, this is {owner}", hint="nothing: it has a later owner")
            yield

    def slot(self, task: str) -> Outcome | None:
        """What the task answered; None: it is due. A task of a batch that is accepted is done, with nothing to say any more."""
        if self.begun is None or task not in self.begun.slots:
            return Outcome(task, {})
        return self.begun.slots[task]

    def fill(self, task: str, outcome: Outcome) -> None:
        assert self.begun is not None, "a task that is due is of the batch that is begun"
        self.begun.slots[task] = outcome

    def advance(self, owner: Owner, batch: Batch) -> None:
        """The last durable step. Raises OwnershipLost, SinkError for a gap or a step back."""
        with self.writing(owner):
            first = batch.heads[0].seq
            check_next("the target", self.accepted and self.accepted.seq, first)
            self.ddls += [ddl.query for head in batch.heads for ddl in head.ddls]
            self.accepted, self.begun = Accepted.of(batch.heads[-1].manifest), None


_targets: dict[str, Target] = {}


def target(name: str, log_id: str) -> Target:
    """The target of that name, made when it is first asked for. Raises SinkError for another log's."""
    found = _targets.setdefault(name, Target(log_id))
    check_log(f"memory target {name}", found.log_id, log_id, hint="use another target")
    found.log_id = log_id
    return found
