"""Rows as the target has them, for any table, rules, changes and chunks: what the words of the rules say of each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.masks.rows import masked_pieces, masked_rows
from spark_merge.masks.tables import MaskedTable, masked_table
from spark_merge.port import pieces
from spark_merge.port.contract import CHANGES, RAW_CHANGES, ChunkPiece, Piece, Survivors
from tests.support.deliveries import DUE
from tests.support.masked import SALT, rules, slow_image

TEXTS = st.one_of(st.none(), st.sampled_from(["", "a", "a@x", "µ\x00'\"", "NULL"]), st.text(max_size=4))
KINDS = st.sampled_from(["", "leave-out", "hash", "constant", "null"])


@st.composite
def tables(draw: st.DrawFn) -> MaskedTable:
    """Columns k, c0, c1 …, at least one of them masked; the key stands anywhere."""
    kinds = [*draw(st.lists(KINDS, max_size=4)), draw(KINDS.filter(bool))]
    columns = [Column(f"c{number}", "text") for number in range(len(kinds))]
    columns.insert(draw(st.integers(0, len(kinds))), Column("k", "text", nullable=False))
    by_kind = {kind: [f"s.t.c{number}" for number, one in enumerate(kinds) if one == kind] for kind in set(kinds)}
    constants = [f"{rule}=>'it''s'" for rule in by_kind.get("constant", [])] + [f"{rule}=>NULL" for rule in by_kind.get("null", [])]
    given = {
        "leave_out": ",".join(by_kind.get("leave-out", [])),
        "hash": ",".join(by_kind.get("hash", [])),
        "constant": ",".join(constants),
    }
    source = TableSchema(TableName("s", "t"), tuple(columns), ("k",))
    return masked_table(source, rules(**given).of(source), SALT, statements=False)


def images(table: MaskedTable, draw: st.DrawFn, count: int) -> list[tuple[str | None, ...]]:
    place = table.source.column_names().index("k")
    one = st.tuples(*(st.text(max_size=2) if at == place else TEXTS for at in range(len(table.source.columns))))
    return draw(st.lists(one, min_size=count, max_size=count))


def row(number: int, before: Any, after: Any) -> dict[str, Any]:
    op = "delete" if after is None else "insert" if before is None else "update"
    return {
        "seq": 1, "commit_ts": number, "rank": 1, "ordinal": number, "schema": "s", "table": "t", "op": op, "key": f'["{number}"]',
        "before": before, "after": after,
    }  # fmt: skip


@st.composite
def changes(draw: st.DrawFn) -> tuple[MaskedTable, pa.Table]:
    """A slice of some rows, in several chunks of memory, as tasks have it."""
    table = draw(tables())
    count = draw(st.integers(1, 6))
    befores, afters = images(table, draw, count), images(table, draw, count)
    ops = draw(st.lists(st.sampled_from(["insert", "update", "delete"]), min_size=count, max_size=count))
    rows = [
        row(number, None if op == "insert" else list(before), None if op == "delete" else list(after))
        for number, (op, before, after) in enumerate(zip(ops, befores, afters, strict=True))
    ]
    cut = draw(st.integers(0, count))
    whole = pa.concat_tables([pa.Table.from_pylist(part, CHANGES) for part in (rows[:cut], rows[cut:])])
    start = draw(st.integers(0, count - 1))
    return table, whole.slice(start)


@given(changes())
def test_changes_are_masked_image_by_image(drawn: tuple[MaskedTable, pa.Table]) -> None:
    table, piece = drawn
    rows = [
        {name: tuple(slow(table, value)) if name in ("before", "after") and value is not None else value for name, value in one.items()}
        for one in piece.to_pylist()
    ]
    shown = joined(masked_pieces(table, piece, SALT, codec="c"))
    assert shown.schema == CHANGES
    shown.validate(full=True)
    result = [
        {name: tuple(value) if name in ("before", "after") and value is not None else value for name, value in one.items()}
        for one in shown.to_pylist()
    ]
    assert result == rows


def slow(table: MaskedTable, image: Sequence[str | None]) -> Sequence[str | None]:
    return slow_image(table.source, table.masks, image)


def joined(shown: Any) -> pa.Table:
    return pa.concat_tables(list(shown))


@given(st.data(), st.booleans())
def test_chunks_are_masked_row_by_row_and_of_keys_alone_nothing_is_made_up(data: st.DataObject, deletes: bool) -> None:
    table = data.draw(tables())
    place = table.source.column_names().index("k")
    rows = data.draw(st.composite(lambda draw: images(table, draw, draw(st.integers(0, 5))))())
    if deletes:
        rows = [tuple(text if at == place else None for at, text in enumerate(one)) for one in rows]
    columns = {name: pa.array([one[at] for one in rows], pa.string()) for at, name in enumerate(table.source.column_names())}
    piece = ChunkPiece(DUE, Survivors(pa.table(columns), pa.array(range(len(rows)), pa.int64()), 3), deletes=deletes)
    (shown,) = masked_pieces(table, piece, SALT, codec="c")
    assert isinstance(shown, ChunkPiece)
    assert (shown.deletes, shown.survivors.dropped, shown.survivors.ordinals) == (deletes, 3, piece.survivors.ordinals)
    assert shown.survivors.rows.column_names == list(table.schema.column_names())
    result = list(zip(*(column.to_pylist() for column in shown.survivors.rows.columns), strict=True))
    assert result == [slow_image(table.source, table.masks, one, keys_only=deletes) for one in rows]


SOURCE = TableSchema(TableName("s", "t"), (Column("k", "text", nullable=False), Column("v", "text")), ("k",))
HASHED = masked_table(SOURCE, rules(hash="*.*.v").of(SOURCE), SALT, statements=False)


@pytest.mark.parametrize(("codec", "kept"), [("canal-json", []), ("open-protocol", []), ("kv", ["message_key"])])
def test_a_message_as_ticdc_wrote_it_is_no_part_of_a_masked_row(codec: str, kept: list[str]) -> None:
    """The key of a raw key-value has the table and the handle key."""
    raw = row(1, None, ["1", "secret"]) | {"message_key": b"k", "message_value": b"secret", "lane": "l", "position": 1}
    (shown,) = masked_pieces(HASHED, pa.Table.from_pylist([raw], RAW_CHANGES), SALT, codec=codec)
    assert isinstance(shown, pa.Table)
    assert shown.column_names == [*CHANGES.names, *kept]
    assert b"secret" not in b"".join(shown.combine_chunks().to_batches()[0].serialize().to_pybytes().split(b"\n"))


def test_a_row_of_other_columns_than_the_schema_is_refused() -> None:
    piece = pa.Table.from_pylist([row(1, None, ["1", "x"]), row(2, None, ["1"])], CHANGES)
    with pytest.raises(SinkError, match=r"a row of s.t has 1 columns, its schema has 2"):
        list(masked_pieces(HASHED, piece, SALT, codec="c"))


def test_a_piece_stays_bounded_though_hashes_are_longer_than_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES_MAX", 2_000)
    piece = pa.Table.from_pylist([row(number, None, [str(number), "x"]) for number in range(50)], CHANGES)
    shown: list[Piece] = list(masked_pieces(HASHED, piece, SALT, codec="c"))
    assert len(shown) > 2
    assert all(pieces.size_of(one) <= 2_000 for one in shown)
    assert joined(shown)["ordinal"].to_pylist() == list(range(50))


def test_rows_of_the_source_are_masked_as_those_of_the_log() -> None:
    rows = pa.table({"k": ["1", "2"], "v": pa.array(["x", None])})
    assert masked_rows(HASHED, rows, SALT).to_pylist() == [
        dict(zip("kv", slow(HASHED, image), strict=True)) for image in (("1", "x"), ("2", None))
    ]
