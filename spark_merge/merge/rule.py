"""The merge rule, slow and obvious: the oracle that `survivors.py` is held equal to, and the simulation's sink.

Read this first: everything `survivors.py` and the sinks do for a batch must give exactly `merged`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sidecar.shared.log.manifest import Manifest
from sidecar.shared.model.chunk import ChunkFile
from sidecar.shared.model.nouns import TableName
from spark_merge.port.contract import RANK_CHUNK

Image = tuple[str | None, ...]
"""A row's canonical text, in the order of the table schema's columns."""


class OutputRow(NamedTuple):
    """One row of the output. Its order is seq, commit_ts, rank, then for changes `ordinal`, for dump rows the chunk's place
    in the manifest and `ordinal`, the row's number in the chunk. `key` is the handle key's canonical text."""

    seq: int
    commit_ts: int
    rank: int
    ordinal: int
    table: TableName
    op: str
    key: Image
    before: Image | None
    after: Image | None
    dump_id: str | None = None


def merged(
    manifest: Manifest,
    changes: Sequence[OutputRow],
    *,
    rows_of: Callable[[ChunkFile], Iterable[tuple[Image, Image | None]]],
) -> list[OutputRow]:
    """Segment `manifest.seq` as it is put out: its changes, and the survivors of the chunks whose windows closed in it.

    `changes`: decoded changes of this segment and of all earlier ones back to the oldest `first_seq` of its windows.
    `rows_of`: a chunk's rows as (key, image), in the chunk's order; without an image a key that the source does not have.
    """
    output = sorted((change for change in changes if change.seq == manifest.seq), key=lambda row: row[:4])
    for window in manifest.windows:
        for chunk in window.chunks:
            touched = {c.key for c in changes if c.table == chunk.table and window.low_ts < c.commit_ts <= window.high_ts}
            output += [
                OutputRow(
                    manifest.seq,
                    window.high_ts,
                    RANK_CHUNK,
                    number,
                    chunk.table,
                    "delete" if image is None else "insert",
                    key,
                    None,
                    image,
                    window.dump_id,
                )
                for number, (key, image) in enumerate(rows_of(chunk))
                if key not in touched
            ]
    return sorted(output, key=lambda row: row[:3])  # stable: chunks stay in the manifest's order, rows in their chunk's
