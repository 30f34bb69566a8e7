"""A Parquet file has its rows in order, however they come; one of few rows is not packed."""

from __future__ import annotations

import io

import pyarrow.parquet as pq
import pytest

from spark_merge.codecs.encode.block import of_changes
from spark_merge.codecs.encode.typed import file_schema
from spark_merge.sinks.formats.parquet import FEW_ROWS, writing_parquet
from tests.support.deliveries import SCHEMA, batches, change


@pytest.mark.parametrize(
    ("sizes", "compression"),
    [
        ([], None),
        ([1], "UNCOMPRESSED"),
        ([FEW_ROWS], "UNCOMPRESSED"),
        ([FEW_ROWS + 1], "ZSTD"),
        ([1, 1], "ZSTD"),
        ([1, FEW_ROWS + 1, 1], "ZSTD"),
        ([FEW_ROWS + 1, 1], "ZSTD"),
    ],
)
def test_blocks_of_any_sizes_are_rows_in_order(sizes: list[int], compression: str | None) -> None:
    file, written = io.BytesIO(), 0
    with writing_parquet(file, SCHEMA) as write:
        for size in sizes:
            rows = [change(7, number, after=[str(number), "x"], ordinal=number) for number in range(written, written + size)]
            [batch] = batches(rows, rows_max=1_000)
            write(of_changes(SCHEMA, 7, batch))
            written += size
    result = pq.ParquetFile(io.BytesIO(file.getvalue()))
    assert result.read()["_ordinal"].to_pylist() == list(range(sum(sizes)))
    assert result.schema_arrow.equals(file_schema(SCHEMA))
    if sizes:
        assert result.metadata.row_group(0).column(0).compression == compression
