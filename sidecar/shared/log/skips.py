"""Rows of the log that an operator skips in every output, because they cannot be decoded: one file a row, beside the segments.

    skips/{seq:020d}-{ordinal:010d}.json      what was skipped (the message's bytes, lane and position), why, when and by whom

- The file is the decision and the dead letter in one. It is created exclusively, and nothing removes it: neither retention nor a new owner.
- It is part of the log: every sink and every batch that is done again skips the same rows (P5). Only a row that cannot be decoded
  may have one (spark_merge/log/undecodable.py), so nobody can have delivered it before; from then on it is skipped, also by a version that
  could decode it.
- The row's key is not known. To a window it is as if the change had not been: a chunk's row of that key comes out.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import storage
from sidecar.shared.log.layout import SKIPS, skip_name, skip_of
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import CommitTs, Lane, Seq, TableName

Skips = Mapping[Seq, frozenset[int]]
"""The ordinals that are skipped, by segment; segments without any are not in it."""


@dataclass(frozen=True, slots=True)
class Skip:
    """`key` and `value` as the segment has them (manifest.DATA_COLUMNS). `skipped_ms`: wall clock. `by`: user@host."""

    seq: Seq
    ordinal: int
    commit_ts: CommitTs
    op: str
    table: TableName
    codec: str
    lane: Lane
    position: int
    key: bytes
    value: bytes
    reason: str
    skipped_ms: int = 0
    by: str = ""

    def to_json(self) -> dict[str, Any]:
        """JSON values only; ts and position as decimal strings, bytes in base64."""
        return {
            "seq": self.seq,
            "ordinal": self.ordinal,
            "commit_ts": str(self.commit_ts),
            "op": self.op,
            "schema": self.table.schema,
            "table": self.table.table,
            "codec": self.codec,
            "lane": self.lane,
            "position": str(self.position),
            "key": base64.b64encode(self.key).decode(),
            "value": base64.b64encode(self.value).decode(),
            "reason": self.reason,
            "skipped_ms": self.skipped_ms,
            "by": self.by,
        }

    def __str__(self) -> str:
        return f"segment {self.seq}, ordinal {self.ordinal}: {self.reason}"


class _Skip(msgspec.Struct):
    seq: Seq
    ordinal: int
    commit_ts: CommitTs
    op: str
    schema: str
    table: str
    codec: str
    lane: Lane
    position: int
    key: bytes
    value: bytes
    reason: str
    skipped_ms: int
    by: str


def skip_row(log: Folder, skip: Skip) -> bool:
    """Durable when it returns. False where the row has been skipped before: then nothing is changed."""
    data = msgspec.json.format(msgspec.json.encode(skip.to_json()), indent=1)
    return storage.create_exclusively(log, skip_name(skip.seq, skip.ordinal), data)


def skipped_rows(log: Folder) -> Skips:
    """All of the log. One listing of a folder that mostly is not there."""
    result: defaultdict[Seq, set[int]] = defaultdict(set)
    for seq, ordinal in _places(log):
        result[seq].add(ordinal)
    return {seq: frozenset(ordinals) for seq, ordinals in result.items()}


def read_skips(log: Folder) -> list[Skip]:
    """All of the log, in its order. Raises LogBroken."""
    names = [skip_name(*place) for place in _places(log)]
    files = storage.read_files(log, names)
    return [_from_json(log, name, files[name]) for name in names if name in files]


def _places(log: Folder) -> list[tuple[Seq, int]]:
    names = storage.list_names(log, under=SKIPS, deep=False)
    return sorted(place for name in names if (place := skip_of(f"{SKIPS}/{name}")) is not None)


def _from_json(log: Folder, name: str, data: bytes) -> Skip:
    try:
        skip = msgspec.json.decode(data, type=_Skip, strict=False)
    except ValueError as error:
        hint = "restore it from a backup: its name alone decides what is skipped, and stays in force"
        raise LogBroken(f"segment log {log}: {name} is not readable: {error}", hint=hint) from error
    fields = msgspec.structs.asdict(skip)
    return Skip(**{name: value for name, value in fields.items() if name != "schema"} | {"table": TableName(skip.schema, skip.table)})
