"""The Parquet files of the log: a segment's rows in row groups of bounded size, and a chunk's rows. Every page has a checksum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sidecar.shared.log import storage
from sidecar.shared.log.hashed import HashedFile
from sidecar.shared.log.row_sums import rows_sum
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.chunk import WrittenChunk
from sidecar.shared.model.nouns import Change, Rank

ROW_GROUP_ROWS_MAX = 32_768
ROW_GROUP_BYTES_MAX = 4 << 20
"""Keys and values of one row group. Bounds what a segment of any length holds in memory: measured, ten times this at most."""

ROWS_SCHEMA = pa.schema(
    [
        pa.field("ordinal", pa.int64(), nullable=False),
        pa.field("commit_ts", pa.int64(), nullable=False),
        pa.field("op", pa.string(), nullable=False),
        pa.field("schema", pa.string(), nullable=False),
        pa.field("table", pa.string(), nullable=False),
        pa.field("codec", pa.string(), nullable=False),
        pa.field("key", pa.binary(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
        pa.field("lane", pa.string(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
    ]
)
"""DATA_COLUMNS with their types."""

_ROWS_PARQUET = {
    "compression": "zstd",
    "compression_level": 1,  # measured: the CPU of snappy, half its bytes
    "use_dictionary": ["op", "schema", "table", "codec", "lane"],
    "write_statistics": ["commit_ts", "schema", "table"],  # of the bytes they cost 10 % and tell nothing
    "write_page_checksum": True,  # measured: without it two of three flipped bits come out as other data; 0.3 % more bytes
}
_CHUNK_PARQUET = {
    "compression": "lz4",  # measured: read a third faster than snappy and zstd; a chunk is read once and lives shortly
    "use_dictionary": False,
    "write_statistics": False,
    "write_page_checksum": True,
}


def write_rows(file: HashedFile, changes: Iterable[Change], codec: str, by_table: Counter[tuple[str, str]]) -> int:
    """A segment's rows, counted into `by_table`; how many they are."""
    rows = 0
    with _parquet(file, ROWS_SCHEMA, _ROWS_PARQUET) as writer:
        for group in _row_groups(changes, codec, by_table):
            writer.write_table(group, row_group_size=ROW_GROUP_ROWS_MAX)
            rows += group.num_rows
    return rows


def write_chunk(log: Folder, path: str, rows: pa.Table, *, row_sums: bool = False) -> WrittenChunk:
    """Write a chunk's rows, columns of pa.string in canonical text, durably under `path` in the log. `row_sums`: with `rows_sum`.

    Any thread, any process. Raises StorageFull or LogBroken; then there is no file, or the one that was there.
    """
    with storage.new_file(log, path) as opened:
        file = HashedFile(opened)
        with _parquet(file, rows.schema, _CHUNK_PARQUET) as writer:
            writer.write_table(rows)
        return WrittenChunk(file.tell(), file.sha256(), rows_sum(rows) if row_sums else "")


def _row_groups(changes: Iterable[Change], codec: str, by_table: Counter[tuple[str, str]]) -> Iterator[pa.Table]:
    """The rows are added to `by_table`."""
    rows: list[Change] = []
    ordinal = held_bytes = 0
    for change in changes:
        rows.append(change)
        held_bytes += len(change.key) + len(change.value)
        if held_bytes >= ROW_GROUP_BYTES_MAX or len(rows) >= ROW_GROUP_ROWS_MAX:
            yield _row_group(rows, ordinal, codec, by_table)
            ordinal += len(rows)
            rows, held_bytes = [], 0
    if rows:
        yield _row_group(rows, ordinal, codec, by_table)


def _row_group(rows: list[Change], ordinal: int, codec: str, by_table: Counter[tuple[str, str]]) -> pa.Table:
    commit_ts, ranks, schemas, tables, keys, values, lanes, positions = zip(*rows, strict=True)
    by_table.update(zip(schemas, tables, strict=True))
    columns: list[Any] = [
        range(ordinal, ordinal + len(rows)),
        commit_ts,
        ["delete" if rank == Rank.DELETE else "put" for rank in ranks],
        schemas,
        tables,
        [codec] * len(rows),
        keys,
        values,
        lanes,
        positions,
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ROWS_SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=ROWS_SCHEMA)


@contextmanager
def _parquet(file: HashedFile, schema: pa.Schema, options: dict[str, Any]) -> Iterator[pq.ParquetWriter]:
    writer = pq.ParquetWriter(file, schema, **options)
    try:
        yield writer
        writer.close()
    except BaseException:
        writer.is_open = False  # or its destructor writes on to a file that is given up
        raise
