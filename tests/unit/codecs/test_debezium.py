"""Debezium's form as our own sink writes it: what is read of a message, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sidecar.shared.codecs.debezium import Debezium
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import Change, CommitTs, Ddl, Lane, Message, Rank, Resolved

LANE = Lane("kafka/p/0")
SOURCE = {"commit_ts": 7, "db": "shop", "table": "t"}


def message(value: Any) -> Message:
    return Message(LANE, 3, b"k", value if isinstance(value, bytes | None) else json.dumps(value).encode())


@pytest.mark.parametrize("framed", [False, True])
def test_rows_ddls_and_marks_with_a_schema_or_without(framed: bool) -> None:
    def read(payload: dict[str, Any]) -> Any:
        given = message({"schema": {"type": "struct"}, "payload": payload} if framed else payload)
        (envelope,) = Debezium().envelopes(given)
        return envelope, given.value

    for op, rank in (("c", Rank.PUT), ("u", Rank.PUT), ("r", Rank.PUT), ("d", Rank.DELETE)):
        row, value = read({"op": op, "before": None, "after": {"payload": 1}, "source": SOURCE, "ts_ms": 1})
        assert row == Change(CommitTs(7), rank, "shop", "t", b"k", value, LANE, 3)
    ddl, _ = read({"source": SOURCE | {"table": None}, "databaseName": "shop", "ddl": "DROP DATABASE shop"})
    assert ddl == Ddl(CommitTs(7), Rank.DDL, "shop", "", "DROP DATABASE shop", LANE, 3)
    mark, _ = read({"ts_ms": 1, "commit_ts": 9})
    assert mark == Resolved(LANE, CommitTs(9), 3)


def test_a_tombstone_is_nothing() -> None:
    assert Debezium().envelopes(message(None)) == []
    assert Debezium().parts(message(None)) == []


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"\xff",
        {},
        {"ts_ms": 1},
        {"op": "t", "source": SOURCE},
        {"op": "c", "source": {"db": "shop", "table": "t"}},
        {"op": "c", "source": SOURCE | {"table": None}},
        {"op": "c", "source": SOURCE | {"commit_ts": 0}},
        {"payload": {"op": "c"}},
    ],
)
def test_what_our_sink_does_not_write_is_refused_by_its_place(value: Any) -> None:
    """TiCDC's own messages of this protocol among them: without TiDB's extension they have no commit_ts."""
    with pytest.raises(MessageUnreadable, match="kafka/p/0@3"):
        Debezium().envelopes(message(value))
