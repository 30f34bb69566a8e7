"""Frames: every row once and in order, whatever its size and neighbours; what cannot be told stops by name."""

from __future__ import annotations

import io
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from sidecar.control.answers import RESPONSE_BYTES_MAX
from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, ColumnDefinition, CommitTs, Seq, TableDefinition, TableName, TableSchema
from spark_merge.port.contract import CHANGES, ChunkPiece, DueChunk, Survivors
from spark_merge.sinks.spool import frames as module
from spark_merge.sinks.spool.frames import FRAME_BYTES_MAX, ROW_BYTES_MAX, FrameFile, read_frames, table_columns
from tests.support.deliveries import ORDERS, SCHEMA, Row, change
from tests.support.subscriber import rows_of
from ticdc_dump.v1 import delivery_pb2 as pb

WIDE = TableSchema(TableName("shop", "wide"), tuple(Column(f"c{n}", "text") for n in range(5)), ("c0",))


def frames_of(pieces: list[tuple[TableSchema, Any]]) -> list[pb.Delivery]:
    out = io.BytesIO()
    file = FrameFile(out, 7)
    for schema, piece in pieces:
        file.add(schema, piece)
    file.close()
    assert file.bytes == len(out.getvalue())
    out.seek(0)
    return list(read_frames(out, "frames"))


def changes(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, CHANGES)


def chunk_piece(rows: list[list[str | None]]) -> ChunkPiece:
    due = DueChunk(ORDERS, CommitTs(5), CommitTs(9), Seq(1), Seq(7), 0, "d1", "c", len(rows))
    columns = {name: pa.array([row[at] for row in rows], pa.string()) for at, name in enumerate(SCHEMA.column_names())}
    return ChunkPiece(due, Survivors(pa.table(columns), pa.array(range(len(rows)), pa.int64()), 0))


def random_pieces(random: Random) -> tuple[list[tuple[TableSchema, Any]], list[tuple[object, ...]]]:
    """Pieces of two tables and of chunks, and what a subscriber is to have of them."""
    pieces: list[tuple[TableSchema, Any]] = []
    expected: list[tuple[object, ...]] = []
    for number in range(random.randrange(1, 12)):
        count = random.choice([1, 1, 2, 40, 300])
        if random.random() < 0.2:
            rows = [[str(at), random.choice([None, "", "µ\0x"])] for at in range(count)]
            pieces.append((SCHEMA, chunk_piece(rows)))
            expected += [(9, at, ORDERS, "insert", None, tuple(row), "d1") for at, row in enumerate(rows)]
            continue
        schema = random.choice([SCHEMA, WIDE])
        made = []
        for at in range(count):
            images = [
                (str(random.randrange(9)), *(random.choice([None, "", "x" * random.randrange(200)]) for _ in schema.columns[1:]))
                for _ in range(2)
            ]
            before, after = random.choice([(None, images[0]), (images[1], images[0]), (images[1], None)])
            op = "delete" if after is None else "insert" if before is None else "update"
            made.append(change(7, number, before=before, after=after, table=schema.name, ordinal=at))
            expected.append((number, at, schema.name, op, before, after, ""))
        pieces.append((schema, changes(made)))
    return pieces, expected


@pytest.mark.parametrize("seed", range(30))
def test_every_row_is_reported_once_and_in_order_however_frames_are_cut(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    size = random.choice([200, 3_000, 1 << 20])
    monkeypatch.setattr(module, "FRAME_BYTES", size)
    monkeypatch.setattr(module, "FRAME_BYTES_MAX", random.choice([size, 4 * size]))
    pieces, expected = random_pieces(random)
    deliveries = frames_of(pieces)
    assert all(delivery.seq == 7 for delivery in deliveries)
    assert [(row.commit_ts, row.ordinal, row.table, row.op, row.before, row.after, row.dump_id) for row in rows_of(deliveries)] == expected


def test_rows_of_very_different_size_are_cut_where_they_are_large() -> None:
    rows = [change(7, at, after=[str(at), "x" * (1_500_000 if at > 995 else 1)], ordinal=at) for at in range(1000)]
    deliveries = frames_of([(SCHEMA, changes(rows))])
    assert [row.ordinal for row in rows_of(deliveries)] == list(range(1000))
    assert max(delivery.ByteSize() for delivery in deliveries) <= FRAME_BYTES_MAX


def test_a_row_that_fits_into_no_message_stops_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ROW_BYTES_MAX + FRAME_BYTES_MAX <= RESPONSE_BYTES_MAX, "with what ends a segment"
    monkeypatch.setattr(module, "FRAME_BYTES_MAX", 100)
    monkeypatch.setattr(module, "ROW_BYTES_MAX", 1000)
    rows = [change(7, 11, after=["1", "x"]), change(7, 12, after=["2", "x" * 2000], ordinal=1)]
    with pytest.raises(SinkError, match=r'a row of shop\.orders in segment 7, key \["2"\], commit_ts 12, is 2,0\d\d bytes'):
        frames_of([(SCHEMA, changes(rows))])


def test_images_of_other_columns_stop() -> None:
    with pytest.raises(SinkError, match=r"a change of shop\.orders in segment 7 has not the 2 columns"):
        frames_of(
            [(WIDE, changes([change(7, 1, after=list("abcde"), table=WIDE.name)])), (SCHEMA, changes([change(7, 1, after=list("abc"))]))]
        )
    neither = change(7, 1, after=["1", "x"]) | {"after": None}
    with pytest.raises(SinkError, match="or no row at all"):
        frames_of([(SCHEMA, changes([neither]))])


@pytest.mark.parametrize(
    "piece", [changes([change(7, 1, after=["41", "x" * 99]) | {"key": '["41"]'}]), chunk_piece([["41", "x" * 99]])], ids=["live", "dump"]
)
def test_a_row_that_no_subscriber_can_have_is_named_by_its_key(piece: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROW_BYTES_MAX", 99)
    with pytest.raises(SinkError, match=r'a row of shop\.orders in segment 7, .*key \["41"\], commit_ts \d+, is .* bytes of text'):
        frames_of([(SCHEMA, piece)])


@pytest.mark.parametrize("cut", [1, 3, 4, 20])
def test_a_file_that_is_cut_is_reported(cut: int) -> None:
    out = io.BytesIO()
    file = FrameFile(out, 7)
    file.add(SCHEMA, changes([change(7, 1, after=["1", "some text or other"])]))
    file.close()
    with pytest.raises(SinkError, match="a frame is cut"):
        list(read_frames(io.BytesIO(out.getvalue()[:cut]), "file"))


def test_columns_are_reported_with_what_decides_their_text_and_with_tidbs_type_where_it_is_known() -> None:
    columns = (Column("id", "int", nullable=False), Column("k", "enum", elements=("a", "b")), Column("d", "decimal", length=10, scale=2))
    plain = TableSchema(ORDERS, columns, ("id",), table_id=5)
    made_of = TableDefinition((ColumnDefinition("id", "bigint(20)"), ColumnDefinition("v", "int"), ColumnDefinition("d", "decimal(10,2)")))
    defined = TableSchema(ORDERS, columns, ("id",), definition=made_of)
    result = table_columns(plain)
    assert [(column.name, column.kind, column.nullable, column.type) for column in result.columns] == [
        ("id", "int", False, ""), ("k", "enum", True, ""), ("d", "decimal", True, "")
    ]  # fmt: skip
    assert (list(result.columns[1].elements), result.columns[2].length, result.columns[2].scale) == (["a", "b"], 10, 2)
    assert [column.type for column in table_columns(defined).columns] == ["bigint(20)", "", "decimal(10,2)"]
    assert result.id == table_columns(TableSchema(ORDERS, columns, ("id",))).id != table_columns(defined).id
