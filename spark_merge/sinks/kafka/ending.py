"""What ends a segment in the topics: its DDLs, then a resolved mark in every partition.

All of it is a function of the manifest, so a batch that is done again writes the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import CommitTs, Seq, TableName, TableSchema
from spark_merge.port.contract import Head, Task

HEADER = "ticdc-dump"
"""`log SEQ ORDINAL OP` of a live row, `dump SEQ ORDINAL DUMP_ID CHUNK` of a dump's, `tombstone SEQ ORDINAL` behind a delete of either, `ddl
SEQ NUMBER`, `resolved SEQ`: SEQ is the segment of the log, ORDINAL the row's place in it or in its chunk, CHUNK the chunk's place in the
segment."""

TS_HEADER = "ticdc-dump-commit-ts"
"""Of each row in a protocol of which a deleted row's message does not have it: the commit_ts, in digits."""

DUMP_HEADER = "ticdc-dump-progress"
"""Of each resolved mark from a log's first dump on: `sidecar.shared.model.progress.SegmentDump.to_json`."""


@dataclass(frozen=True, slots=True)
class TopicEnding:
    """`part`: of the live unit that ends the segment. `ddls` with their table's schema before and after. `topics`: those that a resolved
    mark goes to. `dump`: the mark's DUMP_HEADER."""

    part: int
    codec: str
    upto_ts: CommitTs
    topics: tuple[str, ...]
    ddls: tuple[tuple[DdlRecord, TableSchema | None, TableSchema | None], ...] = ()
    dump: bytes | None = None


def endings(heads: Sequence[Head], value: Sequence[Sequence[Task]], topics: Mapping[Seq, frozenset[str]]) -> dict[Seq, TopicEnding]:
    """Of each segment."""
    parts = {unit.seq: unit.part for tasks in value for task in tasks for unit in task.units if unit.live}
    return {
        head.seq: TopicEnding(
            parts[head.seq],
            head.manifest.codec,
            head.upto_ts,
            tuple(sorted(topics[head.seq])),
            tuple((ddl, *_tables_of(ddl, head)) for ddl in head.ddls),
            None if head.dump is None else msgspec.json.encode(head.dump.to_json()),
        )
        for head in heads
    }


def _tables_of(ddl: DdlRecord, head: Head) -> tuple[TableSchema | None, TableSchema | None]:
    """Its table before and after it: one that it renames has another name before."""
    name = TableName(ddl.schema, ddl.table)
    before, after = head.schemas.get(name), head.next_schemas.get(name)
    if before is None and after is not None and after.table_id:
        before = next((schema for schema in head.schemas.values() if schema.table_id == after.table_id), None)
    return before, after
