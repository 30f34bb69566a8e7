"""Rows as digests: what two places must have in common for a row to be equal, in a few bytes.

    rows in canonical text ─► normalised ─► key, two 64-bit hashes of the row ─► by bucket of the key's hash ─► a file

- A digest has the key's text, so that a difference can be named without reading again, and 128 bits of the whole row.
- Equal values have equal digests, also where one value has several texts (shared/model/canonical.py): floats and JSON are normalised first.
- A file has one record batch for each bucket, in their order, also an empty one: a comparison reads one batch of each file.
- The digests of a row are the same on every machine of one version of polars; they are kept only while a verification runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import nan
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.port.keys import key_text
from spark_merge.port.readable import ReadPart, RowsRead, rows_of

DIGESTS = pa.schema(
    [
        ("key", pa.string()), ("high", pa.uint64()), ("low", pa.uint64()), ("commit_ts", pa.int64()), ("rank", pa.int32()),
        ("deleted", pa.bool_()),
    ]
)  # fmt: skip
"""`key`: merge.key_text of the handle key. `commit_ts`, `rank`, `deleted`: as readable.Versions; 0, 0 and false where the sink keeps
one row of each key. A deleted row's hashes are 0."""

FILE_ROWS = 500_000
"""Digests that are held before a file is written: some 40 MB."""

_HIGH_SEED, _LOW_SEED, _BUCKET_SEED, _PART_SEED = 0x7469, 0x6463, 0x6475, 0x6D70


def digests(schema: TableSchema, read: RowsRead) -> pa.Table:
    """One a row. `value.rows` has the schema's columns. Raises SinkError for a row without a key."""
    rows = read.rows.select(list(schema.column_names()))
    key = key_text([rows.column(name) for name in schema.key]) if rows.num_rows else pa.chunked_array([[]], pa.string())
    if key.null_count:
        names = ", ".join(schema.key)
        raise SinkError(
            f"{key.null_count} rows of {schema.name} have NULL in a column of the key ({names}), which no row of the source has",
            hint="another program has written there: delete these rows in the sink, and verify again",
        )
    high, low = _hashes(schema, rows)
    count = rows.num_rows
    if read.versions is None:
        commit_ts, rank, deleted = (
            pa.array(np.zeros(count, np.int64)),
            pa.array(np.zeros(count, np.int32)),
            pa.array(np.zeros(count, np.bool_)),
        )
    else:
        commit_ts, rank, deleted = read.versions
        gone = deleted.to_numpy(zero_copy_only=False)
        high, low = np.where(gone, 0, high), np.where(gone, 0, low)
    return pa.table([key, pa.array(high, pa.uint64()), pa.array(low, pa.uint64()), commit_ts, rank, deleted], schema=DIGESTS)


def buckets_of(keys: pa.ChunkedArray | pa.Array, count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The bucket of each key, from 0."""
    series = pl.from_arrow(keys)
    assert isinstance(series, pl.Series)
    return (series.hash(seed=_BUCKET_SEED) % count).to_numpy().astype(np.int64)


def write_digests(
    folder: Folder, path: str, schema: TableSchema, value: Iterator[RowsRead], *, buckets: int, rows_max: int | None = None
) -> list[tuple[str, int]] | None:
    """Files `{path}-{number}.arrow`, each with its rows. Writing again replaces them. None: there are more than `rows_max`, and what is
    written does not count."""
    written: list[tuple[str, int]] = []
    held: list[pa.Table] = []
    rows = all_rows = 0
    for piece in value:
        held.append(digests(schema, piece))
        rows += held[-1].num_rows
        all_rows += held[-1].num_rows
        if rows_max is not None and all_rows > rows_max:
            return None
        if rows >= FILE_ROWS:
            written.append(_write(folder, f"{path}-{len(written)}.arrow", pa.concat_tables(held), buckets))
            held, rows = [], 0
    if rows:
        written.append(_write(folder, f"{path}-{len(written)}.arrow", pa.concat_tables(held), buckets))
    return written


def read_bucket(folder: Folder, names: Sequence[str], bucket: int, part: tuple[int, int] = (0, 1)) -> pa.Table:
    """The digests of one bucket out of these files. `part`: which of how many parts of it, each with its keys."""
    number, count = part
    batches = []
    for name in names:
        with storage.open_to_read(folder, name) as file, pa.ipc.open_file(file) as reader:
            batch = reader.get_batch(bucket)
            if count > 1 and batch.num_rows:
                series = pl.from_arrow(batch.column("key"))
                assert isinstance(series, pl.Series)
                batch = batch.filter(pa.array((series.hash(seed=_PART_SEED) % count == number).to_numpy()))
            batches.append(batch)
    return pa.Table.from_batches(batches, DIGESTS)


def _write(folder: Folder, name: str, rows: pa.Table, buckets: int) -> tuple[str, int]:
    bucket = buckets_of(rows["key"], buckets)
    order = np.argsort(bucket, kind="stable")
    ends = np.searchsorted(bucket[order], np.arange(buckets), side="right")
    (batch,) = rows.take(pa.array(order)).combine_chunks().to_batches()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with storage.new_file(folder, name, durable=False) as out, pa.ipc.new_file(out, DIGESTS, options=options) as writer:
        for start, end in pairwise([0, *ends.tolist()]):
            writer.write_batch(batch.slice(start, end - start))
    return name, rows.num_rows


@dataclass(frozen=True, slots=True)
class DigestWork:
    """Writes the digests of one part: the files, each with its rows; None: it has more than `rows_max`. Picklable."""

    folder: Folder
    path: str
    schema: TableSchema
    part: ReadPart
    buckets: int
    rows_max: int | None = None

    def __call__(self) -> list[tuple[str, int]] | None:
        return write_digests(self.folder, self.path, self.schema, rows_of(self.part), buckets=self.buckets, rows_max=self.rows_max)


# ---- hashes ---------------------------------------------------------------------------------------------------------


def _hashes(schema: TableSchema, rows: pa.Table) -> tuple[Any, Any]:
    """Two uint64 for each row."""
    columns = [_normalised(column, rows.column(column.name)) for column in schema.columns]
    frame = pl.from_arrow(pa.table(columns, [f"c{place}" for place in range(len(columns))]))
    assert isinstance(frame, pl.DataFrame)
    return frame.hash_rows(seed=_HIGH_SEED).to_numpy(), frame.hash_rows(seed=_LOW_SEED).to_numpy()


def _normalised(column: Column, texts: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """One form for each value of a kind that has several texts. A text that is no value of the kind, which somebody has put into a sink,
    has a form that no value has."""
    match column.kind:
        case "float":
            return pc.cast(pc.cast(_doubles(texts), pa.float32()), pa.float64())
        case "double":
            return _doubles(texts)
        case "json":
            return pa.array([None if text is None else json_form(text) for text in texts.to_pylist()], pa.string())
        case _:
            return texts


def _doubles(texts: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    try:
        return pc.cast(texts, pa.float64())
    except pa.ArrowInvalid:
        return pa.array([None if text is None else _double(text) for text in texts.to_pylist()], pa.float64())


def _double(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return nan


def json_form(text: str) -> str:
    """Equal for equal JSON values: fields sorted, a whole number without a point, in ASCII, so that half a surrogate pair has a form, too.
    What Python cannot parse, because it is no JSON or has too many levels, is its own form."""
    try:
        return json.dumps(json.loads(text, parse_float=_whole_or_float), sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return text


def _whole_or_float(text: str) -> int | float:
    value = float(text)
    return int(value) if value.is_integer() else value
