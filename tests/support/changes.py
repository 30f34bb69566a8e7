"""Changes, DDLs and resolved marks made by hand, and a Sequence to put them in."""

from __future__ import annotations

from collections.abc import Hashable

from sidecar.core.sequence import Sequence
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.model.nouns import Change, CommitTs, Ddl, Envelope, Lane, Rank, Resolved, Segment


def put(ts: int, key: str, *, lane: str = "a", position: int = 0, table: str = "t", value: str = "v", rank: Rank = Rank.PUT) -> Change:
    return Change(CommitTs(ts), rank, "s", table, key.encode(), value.encode(), Lane(lane), position)


def delete(ts: int, key: str, *, lane: str = "a", position: int = 0) -> Change:
    return put(ts, key, lane=lane, position=position, rank=Rank.DELETE)


def ddl(ts: int, *, lane: str = "a", position: int = 0, query: str = "alter table t") -> Ddl:
    return Ddl(CommitTs(ts), Rank.DDL, "s", "t", query, Lane(lane), position)


def resolved(ts: int, *, lane: str = "a", position: int = 0) -> Resolved:
    return Resolved(Lane(lane), CommitTs(ts), position)


def identity(change: Change) -> Hashable:
    return (change.schema, change.table, change.rank, change.key, change.value)


def sequence(*, after_ts: int = 0, held_bytes_max: int = 1 << 20, positions: dict[Lane, int] | None = None) -> Sequence:
    return Sequence(identity, MemorySpill(), CommitTs(after_ts), held_bytes_max, positions or {})


def accept(into: Sequence, *envelopes: Envelope) -> None:
    """Each envelope is a message of its own, at its own position."""
    for envelope in envelopes:
        into.accept(envelope.lane, envelope.position, [envelope])


def release(source: Sequence, lanes: set[str], *, even_if_empty: bool = False) -> list[tuple[Segment, list[Change]]]:
    upto_ts = source.upto({Lane(lane) for lane in lanes})
    if upto_ts is None:
        return []
    return [(segment, list(segment.changes)) for segment in source.release(upto_ts, even_if_empty=even_if_empty)]


def keys(segments: list[tuple[Segment, list[Change]]]) -> list[str]:
    return [change.key.decode() for _, changes in segments for change in changes]
