"""`PositionStore` in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import Generic

from spark_merge.sinks.kit.position import Detail, Missed, OutputState, Payload, Stored


@dataclass(slots=True)
class MemoryPositions(Generic[Detail, Payload]):
    """What outlives a worker: several keepers may share it. `payloads`: of all swaps that succeeded with one."""

    place: str = "the position in memory"
    stored: Stored[Detail] | None = None
    payloads: list[Payload] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def read(self) -> Stored[Detail] | None:
        with self.lock:
            return self.stored

    def compare_and_swap(
        self, before: Stored[Detail] | None, after: OutputState[Detail], payload: Payload | None = None
    ) -> Stored[Detail] | Missed:
        with self.lock:
            if (before and before.version) != (self.stored and self.stored.version):
                return Missed.CONFLICT
            version = 1 if before is None else int(str(before.version)) + 1
            self.stored = Stored(after, version)
            if payload is not None:
                self.payloads.append(payload)
            return self.stored
