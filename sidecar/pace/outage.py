"""An outage of the source, as the pipeline knows it: since when, the last error, and when the source is queried again.

The source has tried for a time of its own before it says that it is away (`SourceFailed.away`), so the pause between attempts is short. It
protects a source that refuses at once from endless queries. An outage is over with the first answer of any kind, of reads with an answer
of a read; the end of who read a chunk is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sidecar.shared.model.messages import ChunkLost, MarkSent, ReadChunk, SourceEvent, SourceFailed

AGAIN_AFTER_S = 5.0


@dataclass(frozen=True, slots=True)
class Outage:
    """Times by the pipeline's clock. `since_s`: when the source last answered, or received the first command that it has not answered.
    `of_reads`: a chunk was not read, so that a mark is sent says nothing."""

    since_s: float
    again_s: float
    said: str
    of_reads: bool = field(default=False, compare=False)


def outage(before: Outage | None, events: Iterable[SourceEvent], *, answered_s: float, now_s: float) -> Outage | None:
    """After these events. `answered_s`: when the source last answered before them."""
    result = before
    for event in events:
        if isinstance(event, SourceFailed) and event.away:
            of_reads = isinstance(event.command, ReadChunk)
            result = Outage(result.since_s if result else answered_s, now_s + AGAIN_AFTER_S, event.reason, of_reads)
        elif not isinstance(event, ChunkLost) and not (isinstance(event, MarkSent) and result is not None and result.of_reads):
            result = None
    return result
