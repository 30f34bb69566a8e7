"""How time goes by while a recording is played, whatever its feed."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

from sidecar.ports import Clock
from sidecar.shared.model.nouns import CommitTs


@dataclass(frozen=True, slots=True)
class RecordedTime:
    """`speed` recorded seconds a second, from `origin_s` of the clock on. `wait` lets time pass while nothing is there."""

    speed: float
    clock: Clock
    wait: Callable[[float], None]
    origin_s: float

    def passed_ms(self) -> int:
        return int((self.clock.now_s() - self.origin_s) * self.speed * 1000)

    def let_pass(self, missing_ms: int, *, timeout_s: float) -> None:
        """Recorded milliseconds, or the timeout if that is sooner."""
        missing_s = missing_ms / 1000 / self.speed
        if missing_s > 0 and timeout_s > 0:
            self.wait(min(missing_s, timeout_s))


def recorded_time(speed: float | None, clock: Clock | None, wait: Callable[[float], None]) -> RecordedTime | None:
    """From now on; None at full speed. Raises ValueError for a speed without a clock."""
    if speed is None:
        return None
    if clock is None:
        raise ValueError("recorded time needs a clock")
    return RecordedTime(speed, clock, wait, clock.now_s())


def tick(last_ts: int, taken: Container[CommitTs | None]) -> CommitTs:
    """The next TSO after `last_ts` that no commit of the recording has."""
    ts = CommitTs(last_ts + 1)
    while ts in taken:
        ts = CommitTs(ts + 1)
    return ts
