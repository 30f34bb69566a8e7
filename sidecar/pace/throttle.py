"""The pace that operators set: each chunk of a dump is paid for with time in which that dump reads no further.

Times are by the pipeline's clock. A chunk is paid for when it has been read, by the settings that its dump has then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sidecar.shared.model.messages import ChunkLost, ChunkMisfit, ChunkRead, Command, ReadChunk, SourceEvent, SourceFailed
from sidecar.shared.model.progress import DumpState, Progress


@dataclass(slots=True)
class Throttle:
    """Of all dumps of a term."""

    _dump_of: dict[int, str] = field(default_factory=dict)
    _paid_until_s: dict[str, float] = field(default_factory=dict)

    def requested(self, commands: Iterable[Command]) -> None:
        self._dump_of |= {command.number: command.dump_id for command in commands if isinstance(command, ReadChunk)}

    def pay(self, events: Iterable[SourceEvent], dumps: Iterable[Progress], now_s: float) -> None:
        """For what the source has finished."""
        pace_of = {dump.dump_id: dump.pace for dump in dumps}
        for event in events:
            match event:
                case (
                    ChunkRead(number=number)
                    | ChunkMisfit(ReadChunk(number=number))
                    | ChunkLost(ReadChunk(number=number))
                    | SourceFailed(ReadChunk(number=number))
                ):
                    dump_id = self._dump_of.pop(number, "")
                case _:
                    continue
            if isinstance(event, ChunkRead) and dump_id in pace_of:
                cost_s = pace_of[dump_id].cost_s(event.file.rows, event.file.bytes)
                self._paid_until_s[dump_id] = max(self._paid_until_s.get(dump_id, now_s), now_s) + cost_s
        self._paid_until_s = {dump_id: until_s for dump_id, until_s in self._paid_until_s.items() if dump_id in pace_of}

    def held(self, dumps: Iterable[Progress], now_s: float) -> frozenset[str]:
        """The ids of those that may not read on yet."""
        return frozenset(dump.dump_id for dump in dumps if self._paid_until_s.get(dump.dump_id, now_s) > now_s)

    def wait_s(self, dumps: Iterable[Progress], now_s: float) -> float:
        """Seconds until a dump that runs may read on; 0 or less: now."""
        running = [dump.dump_id for dump in dumps if dump.state is DumpState.RUNNING]
        return min((self._paid_until_s.get(dump_id, now_s) - now_s for dump_id in running), default=0.0)
