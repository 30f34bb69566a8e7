"""What a sequence scenario may say, a line each:

    new after=10 positions=a:3 held_bytes_max=700      start there; without it: from 0, with plenty of memory
    a@0 put 5 x; delete 6 y; ddl 7 alter table t; resolved 9       the message at position 0 of lane a, and what it holds
    release lanes=a,b [even_if_empty]

Segments come out as `(after_ts, upto_ts] rows | ddls | positions`; repeats and spilled rows when there are more of them.
"""

from __future__ import annotations

from sidecar.core.sequence import Sequence
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.model.nouns import Change, CommitTs, Envelope, Lane, Segment
from tests.support import changes

LARGE_BYTES = 1 << 20


class SequencePlayer:
    def __init__(self) -> None:
        self.sequence = changes.sequence()

    def play(self, line: str) -> list[str]:
        repeats, spilled = self.sequence.repeats, self.sequence.spilled_rows
        word, _, rest = line.partition(" ")
        match word:
            case "new":
                self._new(dict(pair.split("=") for pair in rest.split()))
                return []
            case "release":
                out = self._release(rest.split())
            case _:
                lane, position = word.split("@")
                self.sequence.accept(Lane(lane), int(position), [_envelope(part, lane, int(position)) for part in rest.split("; ")])
                out = []
        if self.sequence.repeats > repeats:
            out.append(f"repeats {self.sequence.repeats}")
        if self.sequence.spilled_rows > spilled:
            out.append(f"spilled {self.sequence.spilled_rows} rows")
        return out

    def _new(self, given: dict[str, str]) -> None:
        pairs = [pair.split(":") for pair in given.get("positions", "").split(",") if pair]
        self.sequence = Sequence(
            changes.identity,
            MemorySpill(),
            CommitTs(int(given.get("after", 0))),
            int(given.get("held_bytes_max", LARGE_BYTES)),
            {Lane(lane): int(position) for lane, position in pairs},
        )

    def _release(self, words: list[str]) -> list[str]:
        lanes = set(words[0].removeprefix("lanes=").split(","))
        released = changes.release(self.sequence, lanes, even_if_empty="even_if_empty" in words)
        return [_segment(segment, rows) for segment, rows in released] or ["nothing"]


def _envelope(text: str, lane: str, position: int) -> Envelope:
    kind, ts, *rest = text.split(" ", 2)
    match kind:
        case "put":
            return changes.put(int(ts), rest[0], lane=lane, position=position)
        case "delete":
            return changes.delete(int(ts), rest[0], lane=lane, position=position)
        case "ddl":
            return changes.ddl(int(ts), lane=lane, position=position, query=rest[0])
        case "resolved":
            return changes.resolved(int(ts), lane=lane, position=position)
        case _:
            raise AssertionError(f"not understood: {text}")


def _segment(segment: Segment, rows: list[Change]) -> str:
    reported = ", ".join(f"{row.rank.name.lower()} {row.commit_ts} {row.key.decode()}" for row in rows) or "no rows"
    ddls = "".join(f" | ddl {ddl.commit_ts} {ddl.query}" for ddl in segment.ddls)
    positions = " ".join(f"{lane}@{position}" for lane, position in sorted(segment.positions.items())) or "the beginning"
    return f"({segment.after_ts}, {segment.upto_ts}] {reported}{ddls} | read on from {positions}"
