"""Rows of a sink that finds keys: those whose keys the source's digests have, and no others.

    digests of the source's ranges ─► KEYS_AT_ONCE keys ─► the sink's rows with these keys

A part of the rows is compared at the cost of that part. Rows that the sink alone has are not looked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import TableSchema
from spark_merge.port.readable import Readable, ReadPart, RowsRead, rows_of
from spark_merge.verify.look import key_of
from spark_merge.verify.source import key_table

KEYS_AT_ONCE = 20_000
"""Of a task, whose SELECTs are some MB of text."""


@dataclass(frozen=True, slots=True)
class OneAfterAnother:
    """`ReadPart`."""

    parts: tuple[ReadPart, ...]

    def __call__(self) -> Iterator[RowsRead]:
        for part in self.parts:
            yield from rows_of(part)


def lookups(sink: Readable, schema: TableSchema, folder: Folder, digests: Sequence[str]) -> Iterator[ReadPart]:
    """Parts of the sink with the rows whose keys these files have (digest.write_digests). Raises SinkError."""
    for name in digests:
        keys = _keys(folder, name)
        while piece := list(islice(keys, KEYS_AT_ONCE)):
            yield OneAfterAnother(sink.reading(schema, parts=1, keys=key_table(schema, piece)).parts)


def _keys(folder: Folder, name: str) -> Iterator[tuple[str, ...]]:
    with storage.open_to_read(folder, name) as file, pa.ipc.open_file(file) as reader:
        for number in range(reader.num_record_batches):
            yield from map(key_of, reader.get_batch(number).column("key").to_pylist())
