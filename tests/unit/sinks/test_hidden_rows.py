"""Which rows Iceberg's delete files hide, also where many keys have one hash."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.sinks.iceberg import hidden_rows
from spark_merge.sinks.iceberg.hidden_rows import DeletedKeys, DeleteFile
from tests.support.deliveries import ORDERS

SCHEMA = TableSchema(ORDERS, (Column("a", "int"), Column("b", "text"), Column("v", "text")), ("a", "b"))
TYPES = pa.schema(
    [pa.field("x", pa.int64(), metadata={b"PARQUET:field_id": b"7"}), pa.field("y", pa.string(), metadata={b"PARQUET:field_id": b"8"})]
)


def few_hashes(texts: pa.Array) -> Any:
    return np.array([len(text) for text in texts.to_pylist()], np.uint64)


@pytest.mark.parametrize("collide", [False, True])
@pytest.mark.parametrize("key", [("a",), ("a", "b")])
def test_a_row_is_hidden_by_the_greatest_number_of_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: tuple[str, ...], collide: bool
) -> None:
    if collide:
        monkeypatch.setattr(hidden_rows, "text_hashes", few_hashes)
    rng, expected, files = Random(3), dict[tuple[str, ...], int](), list[DeleteFile]()
    ids = {"a": 7, "b": 8}
    for number in range(5):
        keys = [(rng.randrange(40), rng.choice("xyz")) for _ in range(30)]
        name = f"{number}.parquet"
        columns = [[one[place] for one in keys] for place in range(2)]
        pq.write_table(pa.table(columns, schema=TYPES), tmp_path / name)
        files.append(DeleteFile(open_folder(str(tmp_path)), name, 1, number, tuple(ids[one] for one in key), key))
        for a, b in keys:
            expected[(str(a), b)[: len(key)]] = number
    rng.shuffle(files)
    rows = pa.table({"a": [str(n) for n in range(50)] * 3, "b": [b for b in "xyz" for _ in range(50)], "v": [None] * 150})
    numbers = DeletedKeys(SCHEMA, files[0].ids, key, files).numbers_of(rows)
    assert numbers.tolist() == [expected.get((row["a"], row["b"])[: len(key)], -1) for row in rows.to_pylist()]


def test_without_deletes_no_row_is_hidden() -> None:
    rows = pa.table({"a": ["1", "2"], "b": ["x", "y"]})
    assert DeletedKeys(SCHEMA, (7,), ("a",), []).numbers_of(rows).tolist() == [-1, -1]
