"""A sink's rows for the keys of digests: all of them, in pieces, and no others."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.port.readable import Reading, RowsRead
from spark_merge.verify import by_keys
from spark_merge.verify.by_keys import lookups
from spark_merge.verify.digest import write_digests

SCHEMA = TableSchema(TableName("s", "t"), (Column("v", "text"), Column("id", "int"), Column("part", "text")), ("part", "id"))
KEYS = [(f"p'{number % 3}", str(number)) for number in range(23)]


class KeySink:
    """It has a row of each key that it is asked for."""

    finds_keys = True

    def __init__(self) -> None:
        self.asked: list[int] = []

    def reading(self, schema: TableSchema, *, parts: int, keys: pa.Table | None = None) -> Reading:
        assert keys is not None
        self.asked.append(keys.num_rows)
        return Reading(None, exact=False, parts=(lambda: iter([RowsRead(keys)]),))


@pytest.mark.parametrize("buckets", [1, 4])
def test_each_key_of_the_digests_is_looked_up_once_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buckets: int) -> None:
    monkeypatch.setattr(by_keys, "KEYS_AT_ONCE", 10)
    folder, sink = open_folder(str(tmp_path)), KeySink()
    rows = pa.table([["v"] * len(KEYS), [id for _, id in KEYS], [part for part, _ in KEYS]], names=["v", "id", "part"])
    written = write_digests(folder, "source", SCHEMA, iter([RowsRead(rows)]), buckets=buckets)
    assert written is not None
    parts = list(lookups(sink, SCHEMA, folder, [name for name, _ in written]))
    results = [tuple(row.values()) for part in parts for read in part() for row in read.rows.to_pylist()]
    assert sorted(results) == sorted(KEYS)
    assert sink.asked == [10, 10, 3]


def test_of_no_digests_nothing_is_looked_up(tmp_path: Path) -> None:
    assert list(lookups(KeySink(), SCHEMA, open_folder(str(tmp_path)), [])) == []
