"""A sink's rows as the product reads them back (spark_merge/port/readable.py)."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import pyarrow as pa

from sidecar.shared.model.nouns import TableSchema
from spark_merge.port.readable import Readable, Reading, newest
from spark_merge.sinks.registry import open_sink
from tests.contract.test_protocols import EVERY_TYPE
from tests.support.recorded_target import Read, Texts
from tests.unit.encode.open_tables import Image, pairs

PADDED = 4
EVERY_TYPE_PADDED = replace(
    EVERY_TYPE, columns=tuple(replace(one, length=PADDED) if f" binary({PADDED})" in one.name else one for one in EVERY_TYPE.columns)
)


def read_back(uri: str, *, log_id: str = "recorded", parts: int = 3) -> Read:
    """Each table by a sink of its own, which nobody has opened."""
    return lambda schema: texts_of(reading_of(uri, schema, log_id=log_id, parts=parts), schema)


def reading_of(uri: str, schema: TableSchema, *, log_id: str, parts: int, keys: Sequence[Sequence[str]] | None = None) -> Reading:
    """As a task has it: pickled. `keys`: in the order of `schema.key`."""
    sink = open_sink(uri, log_id=log_id)
    assert isinstance(sink, Readable)
    requested = None
    if keys is not None:
        requested = pa.table({name: pa.array([key[at] for key in keys], pa.string()) for at, name in enumerate(schema.key)})
    try:
        reading: Reading = pickle.loads(pickle.dumps(sink.reading(schema, parts=parts, keys=requested)))
        return reading
    finally:
        sink.close()


def texts_of(reading: Reading, schema: TableSchema) -> list[Texts]:
    rows = newest(reading, schema)
    assert rows.column_names == list(schema.column_names())
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def images(random: Random) -> Iterator[Image]:
    padded = next(at for at, column in enumerate(EVERY_TYPE_PADDED.columns) if column.length == PADDED)
    while True:
        for _, after in pairs(EVERY_TYPE_PADDED, random):
            if after is not None:
                text = after[padded]
                after[padded] = None if text is None else text[: 2 * PADDED].ljust(2 * PADDED, "0")
                yield after


def table_of(schema: TableSchema, rows: list[Image]) -> pa.Table:
    return pa.table({name: pa.array([row[at] for row in rows], pa.string()) for at, name in enumerate(schema.column_names())})


def rows_of(table: pa.Table) -> list[tuple[str | None, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
