"""Rows of key-values in the log to changes: both images of every row, whatever their number, and the place of one that is broken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sidecar.replay.kv_rows import row_key, row_value
from sidecar.shared.codecs.kv import encode_images
from sidecar.shared.errors import FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import Change, CommitTs, Lane, Rank, TableName, TableSchema
from sidecar.shared.rowcodec.kv_layout import layout_of
from sidecar.shared.rowcodec.kv_table import kv_table
from spark_merge.codecs.decode import rows as decode_module
from spark_merge.codecs.decode.kv_rows import _SLOW_ROWS_MAX
from spark_merge.codecs.decode.rows import decode
from tests.support.kv_encoder import column, info
from tests.unit.decode.log import logged

INFO: dict[str, Any] = info([column(1, "id", "bigint", primary=True), column(2, "v", "varchar", collation="utf8mb4_bin")], int_handle=True)
TABLE = kv_table(INFO, schema="shop")
NAME = TableName("shop", "t")
SCHEMAS = {NAME: replace(TABLE.schema, layout=layout_of(1, INFO, new_collation=True))}
FEW_AND_MANY = [1, _SLOW_ROWS_MAX, _SLOW_ROWS_MAX + 1, 500]


def change(handle: int, new: str | None, old: str | None, *, position: int = 7) -> Change:
    values = [b"" if text is None else row_value(TABLE, {"v": text}) for text in (new, old)]
    rank = Rank.DELETE if new is None else Rank.PUT
    return Change(CommitTs(100 + handle), rank, *NAME, row_key(104, handle), encode_images(*values), Lane("kv/104"), position)


def decoded(changes: list[Change], schemas: dict[TableName, TableSchema] = SCHEMAS) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = decode(logged(changes, codec="kv"), codec="kv", schemas=schemas).to_pylist()
    return results


@pytest.mark.parametrize("count", FEW_AND_MANY)
def test_each_row_has_its_images(count: int) -> None:
    kinds = [("new", None), ("new", "old"), (None, "old"), ("n" * 300, "o")]
    changes = [change(handle, *kinds[handle % 4]) for handle in range(count)]
    results = decoded(changes)
    assert [(row["op"], row["before"], row["after"]) for row in results] == [
        (
            ("insert", "update", "delete", "update")[handle % 4],
            None if kinds[handle % 4][1] is None else [str(handle), kinds[handle % 4][1]],
            None if kinds[handle % 4][0] is None else [str(handle), kinds[handle % 4][0]],
        )
        for handle in range(count)
    ]
    assert [row["commit_ts"] for row in results] == [100 + handle for handle in range(count)]


@pytest.mark.parametrize("count", FEW_AND_MANY)
@pytest.mark.parametrize("image", ["new", "old"])
def test_a_broken_row_is_named_with_its_lane_position_and_table(count: int, image: str) -> None:
    changes = [change(handle, "new", "old", position=1000 + handle) for handle in range(count)]
    good, broken = row_value(TABLE, {"v": "x"}), row_value(TABLE, {"v": "x"})[:-1]
    changes[count // 2] = changes[count // 2]._replace(value=encode_images(*((broken, good) if image == "new" else (good, broken))))
    with pytest.raises(MessageUnreadable) as refused:
        decoded(changes)
    assert f"message kv/104@{1000 + count // 2}: table shop.t: {image} value: table shop.t (id 104), key " in str(refused.value)


@pytest.mark.parametrize(("value", "text"), [(b"", "too short"), (b"\0\0\0\1", "too short"), (b"\0\0\0\5abcd", "longer than all of it")])
def test_a_logged_value_that_is_no_pair_of_images_is_named(value: bytes, text: str) -> None:
    changes = [change(0, "new", "old"), change(1, "new", "old", position=9)._replace(value=value)]
    with pytest.raises(MessageUnreadable, match="kv/104@9.*" + text):
        decoded(changes)


def test_a_schema_of_another_feed_is_refused() -> None:
    with pytest.raises(FeedUnsuitable, match="not one of key-values"):
        decoded([change(1, "new", None)], {NAME: TABLE.schema})


def test_large_values_are_read_in_smaller_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_module, "_BLOCK_BYTES_MAX", 1000)
    changes = [change(handle, "n" * (2000 if handle == 3 else 90), None) for handle in range(40)]
    assert [row["key"] for row in decoded(changes)] == [row["key"] for row in decoded(changes[:20]) + decoded(changes[20:])]
    assert len(decoded(changes)) == 40
