"""What the rig writes, read by the product: every type, both protocols. The texts are the canonical ones of model.Kind."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from sidecar.shared.model.nouns import Change as Read
from sidecar.shared.model.nouns import Ddl, Lane, Message, Resolved
from tests.tools.rig import canal_json, open_protocol
from tests.tools.rig.changes import Change
from tests.tools.rig.reading import decoded, envelopes
from tests.tools.rig.row_image import Value
from tests.unit.rig.shapes import ID, column, table

TS = 470609286571753507
PROTOCOLS = ("open-protocol", "canal-json")

CASES: list[tuple[str, list[tuple[Value, str | None]]]] = [
    ("tinyint", [(-128, "-128"), (127, "127")]),
    ("tinyint unsigned", [(255, "255")]),
    ("bigint", [(-(2**63), str(-(2**63)))]),
    ("bigint unsigned", [(2**64 - 1, str(2**64 - 1)), (0, "0")]),
    ("float", [(90.6122, "90.61219787597656"), (-0.0, "-0.0")]),
    ("double", [(1e-7, "1e-07"), (1.5e300, "1.5e+300"), (5e-324, "5e-324"), (0.1 + 0.2, "0.30000000000000004")]),
    ("decimal(65,30)", [("-" + "9" * 35 + "." + "9" * 30, "-" + "9" * 35 + "." + "9" * 30)]),
    ("decimal(20,0) unsigned", [("9" * 20, "9" * 20)]),
    ("bit(64)", [(2**64 - 1, str(2**64 - 1))]),
    ("bit(1)", [(0, "0")]),
    ("year", [(0, "0000"), (2155, "2155")]),
    ("enum('a','it''s','ü')", [(2, "it's"), (3, "ü"), (0, "")]),
    ("set('x','y','z')", [(5, "x,z"), (0, "")]),
    ("date", [("0000-00-00", "0000-00-00"), ("9999-12-31", "9999-12-31")]),
    ("time(6)", [("-838:59:59.000000", "-838:59:59.000000")]),
    ("datetime(3)", [("0000-00-00 00:00:00.000", "0000-00-00 00:00:00.000")]),
    ("timestamp", [("2038-01-19 03:14:07", "2038-01-19 03:14:07")]),
    ("char(9)", [("emoji😀".encode(), "emoji😀")]),
    ("varchar(99)", [("<&>\u2028\u2029\"\\\n\0".encode(), "<&>\u2028\u2029\"\\\n\0"), (b"", "")]),
    ("longtext", [("é<\u2028".encode(), "é<\u2028")]),
    ("json", [(b'{"a": 1.0}', '{"a": 1.0}')]),
    ("binary(4)", [(b"\0\0\0\0", "00000000"), (b'\\"\n\x7f', "5C220A7F")]),
    ("varbinary(256)", [(bytes(range(256)), bytes(range(256)).hex().upper())]),
    ("varbinary(16)", [("é\u0080\ufeff\U000e0001".encode(), "C3A9C280EFBBBFF3A08081")]),
    ("longblob", [(b"\xff\0", "FF00")]),
]  # fmt: skip


def written(protocol: str, changes: Iterable[Change]) -> list[Message]:
    if protocol == "canal-json":
        return [Message(Lane("l"), at, *canal_json.row(change, TS, now_ms=7)) for at, change in enumerate(changes)]
    return [Message(Lane("l"), 0, *open_protocol.message([open_protocol.row(change, TS) for change in changes]))]


def read(protocol: str, changes: list[Change]) -> list[dict[str, Any]]:
    results = [change for change in envelopes(written(protocol, changes), protocol) if isinstance(change, Read)]
    schema = changes[0].table.schema()
    return sorted(decoded(results, {schema.name: schema}, protocol), key=lambda row: (row["ordinal"], row["rank"]))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("column_type", "values"), CASES, ids=[case[0] for case in CASES])
def test_a_value_is_read_as_its_canonical_text(protocol: str, column_type: str, values: list[tuple[Value, str | None]]) -> None:
    t = table(ID, column("v", column_type))
    cases = [*values, (None, None)]
    rows = read(protocol, [Change(t, None, (number, value)) for number, (value, _) in enumerate(cases)])
    assert [row["after"][1] for row in rows] == [text for _, text in cases]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_insert_update_and_delete_keep_their_images(protocol: str) -> None:
    t = table(ID, column("v", "varchar(9)"))
    rows = read(protocol, [Change(t, None, (1, b"a")), Change(t, (1, b"a"), (1, b"b")), Change(t, (1, b"b"), None)])
    assert [(row["op"], row["before"], row["after"]) for row in rows] == [
        ("insert", None, ["1", "a"]),
        ("update", ["1", "a"], ["1", "b"]),
        ("delete", ["1", "b"], None),
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_marks_and_ddls_are_read_with_their_ts(protocol: str) -> None:
    fields: dict[str, Any] = {"commit_ts": TS, "schema": "shop", "table": "t", "query": "alter table t add a int", "action": 5}
    if protocol == "canal-json":
        records: list[tuple[bytes | None, bytes]] = [canal_json.resolved(TS, now_ms=7), canal_json.ddl(**fields, now_ms=7)]
    else:
        records = [open_protocol.resolved(TS), open_protocol.ddl(**fields)]
    mark, ddl = envelopes([Message(Lane("l"), at, key, value) for at, (key, value) in enumerate(records)], protocol)
    assert isinstance(mark, Resolved)
    assert isinstance(ddl, Ddl)
    assert (mark.ts, ddl.commit_ts, ddl.schema, ddl.table, ddl.query) == (TS, TS, "shop", "t", "alter table t add a int")


def test_open_protocol_is_written_byte_for_byte_as_in_the_recordings() -> None:
    t = table(
        column("id", "bigint unsigned", nullable=False), column("v", "varchar(60)"), name="uid"
    )  # recordings/shop, the first update of shop.uid
    key, value = open_protocol.row(Change(t, (18446744073709551305, b"gamma"), (18446744073709551305, b" O'Neil")), 470609286623920148)
    assert key == b'{"ts":470609286623920148,"scm":"shop","tbl":"uid","rid":-311,"t":1}'
    assert value == (
        b'{"u":{"id":{"t":8,"h":true,"f":139,"v":18446744073709551305},"v":{"t":15,"f":64,"v":" O\'Neil"}},'
        b'"p":{"id":{"t":8,"h":true,"f":139,"v":18446744073709551305},"v":{"t":15,"f":64,"v":"gamma"}}}'
    )


def test_flags_are_ticdcs() -> None:
    t = table(
        column("customer_id", "bigint", nullable=False),
        column("seq", "int unsigned", nullable=False),
        column("flags", "bit(12)"),
        column("y", "year"),
        column("e", "enum('a')"),
        column("email", "varchar(9)", nullable=False),
        primary=("customer_id", "seq"),
        unique=(("email",),),
    )
    assert {item.name: item.flags for item in t.columns} == {
        "customer_id": 43, "seq": 171, "flags": 193, "y": 193, "e": 64, "email": 16,
    }  # fmt: skip


def test_canal_json_promotes_large_unsigned_values() -> None:
    t = table(ID, column("a", "int unsigned"), column("b", "bigint unsigned"))
    _, value = canal_json.row(Change(t, None, (1, 2**31, 2**63)), TS, now_ms=7)
    assert json.loads(value)["sqlType"] == {"id": 4, "a": -5, "b": 3}
