"""A sink's rows as the product reads them back (spark_merge/port/readable.py)."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pyarrow as pa

from sidecar.core.model import TableSchema
from spark_merge.port.readable import Readable, Reading, newest
from spark_merge.sinks.registry import open_sink
from tests.support.recorded_target import Read, Texts


def read_back(uri: str, *, log_id: str = "recorded", parts: int = 3) -> Read:
    """Each table by a sink of its own, which nobody has opened."""
    return lambda schema: texts_of(reading_of(uri, schema, log_id=log_id, parts=parts), schema)


def reading_of(uri: str, schema: TableSchema, *, log_id: str, parts: int, keys: Sequence[Sequence[str]] | None = None) -> Reading:
    """As a task has it: pickled. `keys`: in the order of `schema.key`."""
    sink = open_sink(uri, log_id=log_id)
    assert isinstance(sink, Readable)
    asked = None
    if keys is not None:
        asked = pa.table({name: pa.array([key[at] for key in keys], pa.string()) for at, name in enumerate(schema.key)})
    try:
        found: Reading = pickle.loads(pickle.dumps(sink.reading(schema, parts=parts, keys=asked)))
        return found
    finally:
        sink.close()


def texts_of(reading: Reading, schema: TableSchema) -> list[Texts]:
    rows = newest(reading, schema)
    assert rows.column_names == list(schema.column_names())
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
