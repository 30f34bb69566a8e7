"""An output that begins where its recording begins, judged: from the truth at the start it leads to the truth at every snapshot.

The rows at the start stand for a dump that was complete then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sidecar.replay.judge.rows import rows_by_key
from sidecar.replay.judge.verify import replay
from tests.support.replaying import Stage


def check_from_start(made: Stage, output: Iterable[dict[str, Any]]) -> None:
    """`output`: a jsonl sink's rows in order, to the recording's end."""
    start_ts, end_ts = made.recording.start_ts, made.recording.end_ts
    rows = [*_at_start(made), *output]
    complete_at = dict.fromkeys(made.tables, start_ts)
    verdict = replay(rows, made.truth, upto_ts=end_ts, complete_at=complete_at, tables=made.tables, steps=made.feed.steps)
    assert verdict.ok, [table for table in verdict.tables if not table.equal] or verdict.unexpected_rows
    assert all(table.snapshots_compared > 0 for table in verdict.tables)


def _at_start(made: Stage) -> Iterator[dict[str, Any]]:
    recording = made.recording
    for name, rows in recording.truth(recording.start_ts).items():
        schema = recording.schemas[name]
        for key, row in rows_by_key(schema, rows).items() if name in made.tables else ():
            yield {
                "seq": -1,
                "ordinal": 0,
                "commit_ts": str(recording.start_ts),
                "schema": name.schema,
                "table": name.table,
                "op": "insert",
                "key": dict(zip(schema.key, key, strict=True)),
                "before": None,
                "after": dict(zip(schema.column_names(), row, strict=True)),
                "origin": "dump",
                "dump_id": "start",
            }
