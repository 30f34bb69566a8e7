"""avro's names and wire format, and its rows read back."""

from __future__ import annotations

import pytest

from sidecar.shared.codecs import avro, debezium, debezium_avro
from sidecar.shared.codecs.avro import avro_name, row_json, wire_head, wire_parts
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import Change, CommitTs, Ddl, Lane, Message, Rank

TS = CommitTs(470609322879221771)


@pytest.mark.parametrize(
    ("name", "sanitized"),
    [
        ("normalColumnName123", "normalColumnName123"), ("1ColumnNameStartWithNumber", "_1ColumnNameStartWithNumber"), ("A.B", "A_B"),
        ("columnNameWith中文", "columnNameWith__"), ("中", "_"), ("٣", "_"), ("_", "_"), ("", ""), ("a-b c", "a_b_c"),
    ],
)  # fmt: skip
def test_names_are_sanitized_as_ticdc_does(name: str, sanitized: str) -> None:
    """The first four: pingcap/tiflow pkg/sink/codec/avro/avro_test.go."""
    assert avro_name(name) == sanitized


def test_a_wire_head_says_the_schema() -> None:
    assert wire_head(258) == b"\0\0\0\1\2"
    assert wire_parts(b"\0\0\0\1\2x") == (258, b"x")
    for wrong in (b"", b"\0\0\0\0", b"\1\0\0\0\0x", b'{"a":1}'):
        with pytest.raises(ValueError, match="not with 0x00"):
            wire_parts(wrong)


def _read(value: bytes) -> list[object]:
    return list(avro.codec("none").envelopes(Message(Lane("t/0"), 3, b"k", value)))


@pytest.mark.parametrize(
    ("value", "rank"),
    [(None, Rank.DELETE), ({"id": 1, "_tidb_op": "d"}, Rank.DELETE), ({"id": 1}, Rank.PUT), ({"_tidb_op": "u"}, Rank.PUT)],
)
def test_a_row_is_a_change(value: object, rank: Rank) -> None:
    data = row_json(TS, "shop", "t", "{}", {"id": 1}, value)
    assert _read(data) == [Change(TS, rank, "shop", "t", b"k", data, Lane("t/0"), 3)]


@pytest.mark.parametrize("value", [b'{"commitTs":"x"}', b'{"commitTs":1}', b'{"commitTs":'])
def test_what_is_no_row_is_refused(value: bytes) -> None:
    with pytest.raises(MessageUnreadable, match="a row of avro"):
        _read(value)


def test_a_ddl_is_debeziums() -> None:
    value = b'{"source":{"commit_ts":7,"db":"shop","table":"t"},"ddl":"DROP TABLE t"}'
    assert _read(value) == [Ddl(CommitTs(7), Rank.DDL, "shop", "t", "DROP TABLE t", Lane("t/0"), 3)]


def test_debezium_avro_is_read_as_debezium() -> None:
    assert debezium_avro.codec("none") == debezium.codec("none")
