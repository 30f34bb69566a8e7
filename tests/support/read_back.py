"""A table of an output as the product reads it back (spark_merge/readable.py)."""

from __future__ import annotations

import pickle
from dataclasses import replace

from sidecar.core.model import TableSchema
from spark_merge.readable import Readable, Reading, newest
from spark_merge.sinks.registry import open_sink

Texts = tuple[str | None, ...]
PARTS = 3


def reading_of(uri: str, schema: TableSchema, *, log_id: str = "recorded", parts: int = PARTS) -> Reading:
    """As another process has it: its parts have been pickled."""
    sink = open_sink(uri, log_id=log_id)
    try:
        assert isinstance(sink, Readable)
        found = sink.reading(schema, parts=parts)
        assert found.exact
        assert found.form is None
        assert found.accepted == sink.look()
        assert len(found.parts) <= parts
        return replace(found, parts=pickle.loads(pickle.dumps(found.parts)))
    finally:
        sink.close()


def read_back(uri: str, schema: TableSchema, *, log_id: str = "recorded", parts: int = PARTS) -> list[Texts]:
    """Canonical text in the schema's columns, each key once."""
    rows = newest(reading_of(uri, schema, log_id=log_id, parts=parts), schema)
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
