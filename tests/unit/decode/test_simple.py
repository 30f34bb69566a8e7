"""Rows of simple that TiCDC would write, and what is none of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from sidecar.shared.codecs.simple import Simple, encode_unread_row
from sidecar.shared.columns.simple import written
from sidecar.shared.columns.values import UnfitValue
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.errors import FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import Change, Column, CommitTs, Lane, Message, Rank, TableName, TableSchema
from spark_merge.codecs.decode.rows import decode
from tests.unit.decode.log import logged
from tests.unit.encode.simple_slow import as_json, row_head

LANE = Lane("kafka/t/0")
TABLE = TableSchema(
    TableName("shop", "t"),
    (
        Column("id", "int", nullable=False),
        Column("at", "timestamp", scale=3),
        Column("b", "binary"),
        Column("e", "enum", elements=("x", "y")),
        Column("d", "double"),
    ),
    ("id",),
)
IMAGE = {"at": {"location": "Etc/UTC", "value": "2026-01-02 03:04:05.678"}, "b": "AP8=", "d": "1e21", "e": "2", "id": "1"}
TEXTS = ["1", "2026-01-02 03:04:05.678", "00FF", "y", "1e+21"]


def event(type_: str = "INSERT", **images: Any) -> dict[str, Any]:
    return row_head(TABLE.name, type_, 10) | images


def rows(*events: Mapping[str, Any], zone: ServerZone | None = None, whole: bool = True) -> list[dict[str, Any]]:
    read = [change for place, one in enumerate(events) for change in Simple().envelopes(Message(LANE, place, b"", as_json(dict(one))))]
    changes = [change for change in read if isinstance(change, Change)]
    assert len(changes) == len(events)
    table = decode(
        logged(changes, codec="simple"), codec="simple", schemas={TABLE.name: TABLE}, server_tz=zone or ServerZone(), whole=whole
    )
    return [{name: row[name] for name in ("op", "before", "after")} for row in table.sort_by("ordinal").to_pylist()]


def afters(*images: Mapping[str, Any], zone: ServerZone | None = None) -> list[list[str | None]]:
    return [row["after"] for row in rows(*(event(data=image) for image in images), zone=zone)]


def test_each_type_has_its_images() -> None:
    other = IMAGE | {"e": "0", "b": None, "d": "-0", "at": None}
    texts = ["1", None, None, "", "-0.0"]
    assert rows(event(data=IMAGE), event("UPDATE", data=other, old=IMAGE), event("DELETE", old=other)) == [
        {"op": "insert", "before": None, "after": TEXTS},
        {"op": "update", "before": TEXTS, "after": texts},
        {"op": "delete", "before": texts, "after": None},
    ]


def test_a_delete_may_have_its_key_alone() -> None:
    assert rows(event("DELETE", old={"id": "7"})) == [{"op": "delete", "before": ["7", None, None, None, None], "after": None}]


def at(location: str, value: str) -> dict[str, Any]:
    return IMAGE | {"at": {"location": location, "value": value}}


def test_a_timestamp_is_of_the_zone_that_it_names_and_else_of_the_servers() -> None:
    images = [
        at("Asia/Shanghai", "2026-01-02 08:00:00.000"),
        at("Local", "2026-01-02 08:00:00.000"),
        at("Etc/UTC", "2026-01-02 08:00:00.000"),
        at("", "2026-01-02 08:00:00.000"),
        at("Asia/Shanghai", "0000-00-00 00:00:00"),
        IMAGE | {"at": None},
        at("America/New_York", "2026-01-02 08:00:00"),
    ]
    assert [image[1] for image in afters(*images, zone=ServerZone("Europe/Berlin"))] == [
        "2026-01-02 00:00:00.000",
        "2026-01-02 07:00:00.000",
        "2026-01-02 08:00:00.000",
        "2026-01-02 07:00:00.000",
        "0000-00-00 00:00:00.000",
        None,
        "2026-01-02 13:00:00.000",
    ]


def test_an_hour_that_is_there_twice_is_taken_as_the_server_zones_are_and_counted() -> None:
    twice = at("America/New_York", "2026-11-01 01:30:00.000")
    with pytest.raises(FeedUnsuitable, match="means two moments in the time zone America/New_York"):
        afters(IMAGE, twice)
    zone = ServerZone("UTC", "second")
    assert afters(IMAGE, twice, zone=zone)[1][1] == "2026-11-01 06:30:00.000"
    assert zone.guessed == 1


@pytest.mark.parametrize("location", ["Nowhere/Town", "../etc/passwd", "/etc/passwd", "x" * 5000, "\0"])
def test_a_zone_that_is_none_is_refused_with_its_row(location: str) -> None:
    with pytest.raises(FeedUnsuitable, match=r"^message kafka/t/0@1: table shop\.t: column at: .* is the name of no time zone"):
        afters(IMAGE, at(location, "2026-01-02 08:00:00.000"), IMAGE)


@pytest.mark.parametrize(
    ("image", "text"),
    [
        ({**IMAGE, "more": "1"}, "column more is in the row (data) and not in the schema"),
        ({name: cell for name, cell in IMAGE.items() if name != "e"}, "column e is in the schema and not in the row (data)"),
        ({**IMAGE, "b": "AP8"}, "column b: 'AP8' is not base64"),
        ({**IMAGE, "b": "AP9="}, "column b: 'AP9=' is not base64"),
        ({**IMAGE, "e": "3"}, "column e: 3 is not an index into the 2 labels of the enum"),
        ({**IMAGE, "e": 2}, "column e: 2 (data) is neither text nor null"),
        ({**IMAGE, "at": "2026-01-02 03:04:05.678"}, "column at: '2026-01-02 03:04:05.678' (data) is not the location and value"),
        ({**IMAGE, "at": {"location": "UTC"}}, "(data) is not the location and value of a timestamp"),
        ({**IMAGE, "at": {"location": "UTC", "value": "x", "more": 1}}, "(data) is not the location and value of a timestamp"),
        ({**IMAGE, "at": {"location": "UTC", "value": "x"}}, "column at: 'x' is not a timestamp"),
        ({**IMAGE, "d": "one"}, "column d: 'one' is not a number"),
        ({**IMAGE, "id": None}, "column id: a key column is null"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_by_its_place(image: dict[str, Any], text: str) -> None:
    with pytest.raises(FeedUnsuitable) as caught:
        rows(event(data=IMAGE), event(data=image))
    assert caught.value.message.startswith("message kafka/t/0@1: table shop.t: ")
    assert text in caught.value.message


def test_a_row_that_ticdc_says_is_corrupted_is_refused() -> None:
    checksum = {"version": 1, "corrupted": False, "current": 7, "previous": 0}
    assert len(rows(event(data=IMAGE, checksum=checksum), event(data=IMAGE))) == 2
    with pytest.raises(FeedUnsuitable, match=r"^message kafka/t/0@1: .*does not have the checksum with which it was written") as refused:
        rows(event(data=IMAGE), event(data=IMAGE, checksum=checksum | {"corrupted": True}))
    assert "--seq 1 --ordinal 1" in refused.value.hint


@pytest.mark.parametrize("deleted", [False, True])
def test_a_row_that_could_not_be_read_is_refused_with_the_reason(deleted: bool) -> None:
    value = encode_unread_row(TABLE.name, CommitTs(10), deleted=deleted, why="it is garbage-collected")
    (change,) = Simple().envelopes(Message(LANE, 3, b"", value))
    assert isinstance(change, Change)
    assert change.rank is (Rank.DELETE if deleted else Rank.PUT)
    for codec in ("simple", "canal-json"):
        with pytest.raises(FeedUnsuitable, match=r"^message kafka/t/0@3: .*not read from TiDB: it is garbage-collected") as refused:
            decode(logged([change], codec=codec), codec=codec, schemas={TABLE.name: TABLE}, server_tz=ServerZone())
        assert "--keys" in refused.value.hint


def test_columns_that_the_schema_does_not_have_are_passed_over_where_rows_need_not_be_whole() -> None:
    assert rows(event(data={**IMAGE, "more": "1"}), whole=False)[0]["after"] == TEXTS


@pytest.mark.parametrize("value", [b"{", b"[]", b'{"type":"INSERT","data":[]}', b'{"type":"INSERT"}', b'{"type":"UPDATE"}'])
def test_what_is_no_row_is_unreadable(value: bytes) -> None:
    (change,) = Simple().envelopes(Message(LANE, 0, b"", as_json(event(data=IMAGE))))
    assert isinstance(change, Change)
    with pytest.raises(MessageUnreadable):
        decode(logged([change._replace(value=value)], codec="simple"), codec="simple", schemas={TABLE.name: TABLE})


def test_texts_that_go_escapes_are_themselves() -> None:
    assert json.loads(as_json({"a": "<&>\u2028"})) == {"a": "<&>\u2028"}
    assert b"<" not in as_json({"a": "<"})


@pytest.mark.parametrize(
    ("column", "text", "cell"),
    [
        (Column("e", "enum", elements=("x", "y")), "y", "2"),
        (Column("e", "enum", elements=("x", "y")), "", "0"),
        (Column("s", "set", elements=("x", "y", "z")), "x,z", "5"),
        (Column("s", "set", elements=("x", "y", "z")), "", "0"),
        (Column("y", "year"), "0000", "0"),
        (Column("b", "binary"), "00FF", "AP8="),
        (Column("t", "timestamp", scale=1), "2026-01-02 03:04:05.6", {"location": "UTC", "value": "2026-01-02 03:04:05.6"}),
        (Column("d", "decimal", scale=2), "-0.50", "-0.50"),
        (Column("n", "int"), None, None),
    ],
)
def test_what_is_read_from_tidb_is_written_as_ticdc_does(column: Column, text: str | None, cell: object) -> None:
    assert written(text, column) == cell


def test_a_label_that_is_not_known_cannot_be_written() -> None:
    with pytest.raises(UnfitValue, match="none of the 0 labels"):
        written("x", Column("e", "enum"))
