"""What a real cluster wrote where flags and schema, or zone and value, do not go together (tests/data/real-cluster)."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from sidecar.shared.codecs.open_protocol import OpenProtocol
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Change, Column, Lane, Message, TableName, TableSchema
from spark_merge.codecs.decode.rows import decode
from tests.unit.decode.log import logged

MESSAGES = json.loads((Path(__file__).parents[2] / "data" / "real-cluster" / "open-protocol.json").read_bytes())
ID, V = Column("id", "int", nullable=False), Column("v", "text")


def decoded(what: str, *schemas: TableSchema, zone: str | ServerZone = "UTC") -> list[dict[str, Any]]:
    changes: list[Change] = []
    for one in MESSAGES[what]:
        message = Message(Lane("kafka/t/0"), one["offset"], b64decode(one["key_b64"]), b64decode(one["value_b64"]))
        changes += [envelope for envelope in OpenProtocol().envelopes(message) if isinstance(envelope, Change)]
    rows = logged(changes, codec="open-protocol")
    results: list[dict[str, Any]] = decode(
        rows, codec="open-protocol", schemas={schema.name: schema for schema in schemas}, server_tz=zone
    ).to_pylist()
    return results


def test_text_of_a_column_that_has_its_namesakes_binary_flag_stays_as_it_is() -> None:
    schema = TableSchema(TableName("ex_p", "pt0"), (ID, V, Column("b", "text", length=20)), ("id",))
    rows = decoded("new architecture, VARCHAR b made after a VARBINARY b was dropped", schema)
    assert [row["after"] for row in rows] == [["7", "g", "C:\\new\\table"], ["8", "h", 'say \\"hi\\"'], ["9", "i", "plain"]]


@pytest.mark.parametrize(
    ("what", "table"), [("new architecture, VARBINARY b added", ("ex_p", "pt")), ("classic, VARBINARY b added", ("ex_p0", "pt"))]
)
def test_a_binary_column_is_unquoted_with_its_flag_and_without(what: str, table: tuple[str, str]) -> None:
    schema = TableSchema(TableName(*table), (ID, V, Column("b", "binary")), ("id",))
    result = {row["after"][0]: row["after"][2] for row in decoded(what, schema)}
    assert result == {"4": "01FF", "5": "22", "6": "5C6E"}


def test_an_hour_that_the_servers_zone_has_twice_is_refused_by_name_or_taken_as_reported() -> None:
    schemas = (
        TableSchema(TableName("ex_tz", "ts"), (ID, Column("t", "timestamp")), ("id",)),
        TableSchema(TableName("ex_tz", "other"), (ID, Column("v", "int")), ("id",)),
    )
    what = "classic with --tz=America/New_York"
    with pytest.raises(FeedUnsuitable) as refused:
        decoded(what, *schemas, zone="America/New_York")
    assert "message kafka/t/0@166: table ex_tz.ts: column t: '2025-11-02 01:30:00' means two moments" in refused.value.message
    assert "kafka.ambiguous" in refused.value.hint
    assert "ticdc-dump skip --config FILE --seq 1 --ordinal 1" in refused.value.hint
    zone = ServerZone("America/New_York", "second")
    assert [row["after"][1] for row in decoded(what, *schemas, zone=zone)] == ["2025-07-01 06:30:00", "2025-11-02 06:30:00", "1"]
    assert zone.guessed == 1
