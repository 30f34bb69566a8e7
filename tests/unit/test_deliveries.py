from __future__ import annotations

import pyarrow as pa
import pytest

from sidecar.core.model import TableName
from sidecar.errors import SinkError
from spark_merge.sinks.deliveries import Chunk, FileOf, by_file
from tests.support.deliveries import ARROW_SCHEMA, ORDERS, Row, batches, change, chunk

USERS = TableName("shop", "users")


def shape(rows: list[Row], *, rows_max: int) -> list[tuple[FileOf, list[str]]]:
    """Each file's rows in order: a change by its ordinal, a chunk by its path."""
    found: list[tuple[FileOf, list[str]]] = []
    for file, pieces in by_file(iter(batches(rows, rows_max=rows_max))):
        texts: list[str] = []
        for piece in pieces:
            if isinstance(piece, Chunk):
                texts.append(f"{piece.path}@{piece.commit_ts}:{','.join(piece.touched.to_pylist())}")
            else:
                assert piece.num_rows > 0
                texts += [str(ordinal) for ordinal in piece.column("ordinal").to_pylist()]
        found.append((file, texts))
    return found


@pytest.mark.parametrize("rows_max", [1, 2, 3, 100])
def test_files_and_pieces_are_the_same_however_the_batches_are_cut(rows_max: int) -> None:
    rows = [
        chunk(1, 5, "first", touched=["a", "b"]),
        change(1, 6, after=["1", "x"], ordinal=1),
        change(1, 7, after=["2", "x"], ordinal=2),
        chunk(1, 7, "second", ordinal=0),
        chunk(1, 7, "third", ordinal=1),
        change(1, 8, after=["3", "x"], ordinal=3),
        change(1, 8, after=["3", "x"], table=USERS, ordinal=4),
        change(2, 9, after=["4", "x"], table=USERS, ordinal=0),
        chunk(2, 9, "last", table=USERS),
    ]
    assert shape(rows, rows_max=rows_max) == [
        (FileOf(1, ORDERS), ['first@5:["a"],["b"]', "1", "2", "second@7:", "third@7:", "3"]),
        (FileOf(1, USERS), ["4"]),
        (FileOf(2, USERS), ["0", "last@9:"]),
    ]


def test_no_batches_and_empty_batches_are_no_files() -> None:
    assert list(by_file(iter([]))) == []
    assert list(by_file(iter([pa.RecordBatch.from_pylist([], ARROW_SCHEMA)]))) == []


def test_a_table_whose_rows_come_apart_is_refused() -> None:
    first, second = batches([change(1, 5, after=["1", "x"])]), batches([change(1, 5, after=["1", "x"], table=USERS)])
    with pytest.raises(SinkError, match=r"shop\.orders in segment 1 came in two parts"):
        [list(pieces) for _, pieces in by_file(iter([*first, *second, *first]))]
