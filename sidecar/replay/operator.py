"""The operator, as chance has it."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from sidecar.shared.errors import RefusedRequest
from sidecar.shared.model.messages import Asker, PauseDump, Request, RestartDump, ResumeDump, StartDump

OPERATOR = Asker("the replay")


@dataclass(slots=True)
class Script:
    """Starts the dump, pauses and resumes it, now and then restarts it: the requests port. A step is a `take`.

    As an operator does: a request that was not answered, because the sidecar died, is made again.
    """

    rng: Random
    start: StartDump
    steps: int = 0
    plan: dict[int, Request] = field(default_factory=dict)
    unanswered: Request | None = None

    def __post_init__(self) -> None:
        at = self.rng.randint(5, 40)
        self.plan[at] = self.start
        for number in range(self.rng.randrange(3)):
            at += self.rng.randint(5, 60)
            if self.rng.random() < 0.25:
                self.plan[at] = RestartDump(f"{self.rng.getrandbits(48):012x}{number:04x}", asker=OPERATOR)
                continue
            self.plan[at] = PauseDump(asker=OPERATOR)
            at += self.rng.randint(2, 20)
            self.plan[at] = ResumeDump(asker=OPERATOR)

    def take(self) -> Request | None:
        self.steps += 1
        due = min((step for step in self.plan if step <= self.steps), default=None)
        if self.unanswered is None and due is not None:
            self.unanswered = self.plan.pop(due)
        return self.unanswered

    def answer(self, refused: RefusedRequest | None) -> None:  # noqa: ARG002  # chance does not mind a refusal
        """A pause that comes after the dump is finished is refused, as it should be: it was made by chance."""
        self.unanswered = None
