"""A table of an output as the product reads it back (spark_merge/port/readable.py)."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import partial

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema
from spark_merge.port.readable import Readable, Reading, newest
from spark_merge.sinks.registry import open_sink
from tests.support.recorded_target import Judge, RecordedLog
from tests.support.replaying import Stage
from tests.support.targets.target import MOVE_ROWS

Texts = tuple[str | None, ...]
PARTS = 3
LOST = frozenset[str]().union(*MOVE_ROWS.values())
"""Tables of the recordings whose rows are not the source's after a DDL that moves rows without a change of each."""


def reading_of(uri: str, schema: TableSchema, *, log_id: str = "recorded", parts: int = PARTS) -> Reading:
    """As another process has it: its parts have been pickled."""
    sink = open_sink(uri, log_id=log_id)
    try:
        assert isinstance(sink, Readable)
        reading = sink.reading(schema, parts=parts)
        assert reading.exact
        assert reading.form is None
        assert reading.accepted == sink.look()
        assert len(reading.parts) <= parts
        return replace(reading, parts=pickle.loads(pickle.dumps(reading.parts)))
    finally:
        sink.close()


def read_back(uri: str, schema: TableSchema, *, log_id: str = "recorded", parts: int = PARTS) -> list[Texts]:
    """Canonical text in the schema's columns, each key once."""
    rows = newest(reading_of(uri, schema, log_id=log_id, parts=parts), schema)
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


class LogJudge(Judge):
    """Of a log of changes: what its rows are at present columns may not be known. `refused`: tables, with what the error says."""

    def __init__(self, made: Stage, uri: str, log: RecordedLog) -> None:
        super().__init__(made, partial(read_back, uri), log, lambda name, _: name.table not in LOST)
        self.refused: dict[TableName, str] = {}

    def check(self, name: TableName, ts: CommitTs, *, whole: bool) -> None:
        try:
            super().check(name, ts, whole=whole)
        except SinkError as error:
            self.refused[name] = error.message
