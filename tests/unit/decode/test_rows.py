"""One change of each shape and each refusal, in both protocols, against the change frame."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pyarrow as pa
import pytest

from sidecar.shared.errors import FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import MARK_TABLE, Change, Column, CommitTs, Lane, Rank, TableName, TableSchema
from spark_merge.codecs.decode.rows import decode
from spark_merge.codecs.images import Cells
from spark_merge.codecs.protocols import decoder_module
from spark_merge.port.contract import CHANGES
from tests.unit.decode.log import change, logged

NAME = TableName("shop", "t")
SCHEMA = TableSchema(
    NAME,
    (
        Column("id", "int", nullable=False),
        Column("na me.1", "text"),
        Column("body", "text"),
        Column("b", "binary", length=3),
        Column("e", "enum", elements=("x", "y")),
        Column("at", "timestamp", scale=3),
    ),
    ("id",),
)
OPEN, CANAL = "open-protocol", "canal-json"


def open_image(**changed: Any) -> dict[str, Any]:
    return {
        "id": {"t": 3, "h": True, "f": 11, "v": 1},
        "na me.1": {"t": 15, "f": 64, "v": "n"},
        "body": {"t": 252, "f": 64, "v": b64encode("é".encode()).decode()},
        "b": {"t": 254, "f": 65, "v": r"\x01\""},
        "e": {"t": 247, "f": 64, "v": 2},
        "at": {"t": 7, "f": 65, "v": "2020-01-01 08:00:00.250"},
    } | changed


def canal_row(type_: str, *, old: dict[str, Any] | None = None, **changed: Any) -> dict[str, Any]:
    data = {"id": "1", "na me.1": "n", "body": "é", "b": '\x01"', "e": "2", "at": "2020-01-01 08:00:00.250"} | changed
    types = {"id": "int", "na me.1": "varchar(9)", "body": "text", "b": "binary", "e": "enum('x','y')", "at": "timestamp"}
    return {"database": "shop", "table": "t", "type": type_, "mysqlType": types, "data": [data], "old": None if old is None else [old]}


TEXTS = ["1", "n", "é", "012200", "y", "2020-01-01 00:00:00.250"]


def decoded(*changes: Change, codec: str = OPEN, schema: TableSchema = SCHEMA) -> list[dict[str, Any]]:
    rows = decode(logged(changes, codec=codec), codec=codec, schemas={schema.name: schema}, server_tz="Asia/Shanghai")
    results: list[dict[str, Any]] = rows.to_pylist()
    return results


def test_output_is_the_change_frame_even_when_empty() -> None:
    assert decode(logged([], codec=OPEN), codec=OPEN, schemas={}).schema == CHANGES


@pytest.mark.parametrize(
    ("codec", "value"),
    [(OPEN, {"u": open_image()}), (CANAL, canal_row("INSERT"))],
)
def test_an_insert(codec: str, value: object) -> None:
    assert decoded(change(value), codec=codec) == [
        {
            "seq": 1, "commit_ts": 100, "rank": 1, "ordinal": 0, "schema": "shop", "table": "t", "op": "insert", "key": '["1"]',
            "before": None, "after": TEXTS,
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("codec", "value"),
    [(OPEN, {"d": open_image()}), (CANAL, canal_row("DELETE"))],
)
def test_a_delete(codec: str, value: object) -> None:
    (row,) = decoded(change(value, rank=Rank.DELETE), codec=codec)
    assert (row["rank"], row["op"], row["key"], row["before"], row["after"]) == (0, "delete", '["1"]', TEXTS, None)


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (OPEN, {"u": open_image(), "p": open_image(e={"t": 247, "f": 64, "v": None})}),
        (CANAL, canal_row("UPDATE", old=canal_row("INSERT", e=None)["data"][0])),
        (CANAL, canal_row("UPDATE", old={"e": None})),
    ],
    ids=["open-protocol", "canal-json", "canal-json only-output-updated-columns"],
)
def test_an_update(codec: str, value: object) -> None:
    (row,) = decoded(change(value), codec=codec)
    assert (row["rank"], row["op"], row["key"], row["after"]) == (1, "update", '["1"]', TEXTS)
    assert row["before"] == [*TEXTS[:4], None, TEXTS[5]]


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (OPEN, {"u": open_image(), "p": open_image(id={"t": 3, "f": 11, "v": 7})}),
        (CANAL, canal_row("UPDATE", old={"id": "7"})),
    ],
)
def test_an_update_of_the_key_is_a_delete_and_an_insert_of_one_ordinal(codec: str, value: object) -> None:
    insert, delete = decoded(change(value), codec=codec)
    assert [insert[name] for name in ("rank", "op", "ordinal", "key", "before", "after")] == [1, "insert", 0, '["1"]', None, TEXTS]
    assert [delete[name] for name in ("rank", "op", "ordinal", "key", "before", "after")] == [
        0, "delete", 0, '["7"]', ["7", *TEXTS[1:]], None,
    ]  # fmt: skip


def test_an_update_without_its_old_value_looks_like_an_insert() -> None:
    (row,) = decoded(change({"u": open_image()}))
    assert row["op"] == "insert"


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (OPEN, {"d": {"id": open_image()["id"]}}),
        (CANAL, {"type": "DELETE", "mysqlType": {"id": "int"}, "data": [{"id": "1"}], "old": None}),
    ],
)
def test_a_delete_may_carry_the_key_alone(codec: str, value: object) -> None:
    (row,) = decoded(change(value, rank=Rank.DELETE), codec=codec)
    assert (row["key"], row["before"]) == ('["1"]', ["1", None, None, None, None, None])


@pytest.mark.parametrize("of_text", [True, False])
def test_a_columns_type_may_change_between_rows(of_text: bool) -> None:
    name = "body" if of_text else "b"
    plain = {"t": 15, "f": 64 if of_text else 65, "v": "ab"}
    coded = {"t": 252, "f": 64 if of_text else 65, "v": b64encode(b"ab").decode()}
    rows = decoded(change({"u": open_image(**{name: plain})}), change({"u": open_image(**{name: coded})}))
    index = SCHEMA.column_names().index(name)
    assert {row["after"][index] for row in rows} == {"ab" if of_text else "616200"}


def test_marks_are_left_out_and_tables_keep_their_first_rows_order() -> None:
    other = TableSchema(TableName("a", "t"), SCHEMA.columns[:1], ("id",))
    mark = Change(CommitTs(100), Rank.PUT, *MARK_TABLE, b"", b"unread", Lane("l"), 1)
    small = Change(CommitTs(101), Rank.PUT, "a", "t", b"", b'{"u":{"id":{"t":3,"f":11,"v":5}}}', Lane("l"), 2)
    rows = logged([change({"u": open_image()}), mark, small, change({"u": open_image()})], codec=OPEN)
    result = decode(rows, codec=OPEN, schemas={NAME: SCHEMA, other.name: other}, server_tz="Asia/Shanghai").to_pylist()
    assert [(row["schema"], row["ordinal"]) for row in result] == [("shop", 0), ("shop", 3), ("a", 2)]
    assert decode(rows.slice(1, 1), codec=OPEN, schemas={}).num_rows == 0


def test_more_rows_than_a_block_and_chunked_input_decode_alike() -> None:
    rows = logged([change({"u": open_image(id={"t": 3, "f": 11, "v": number})}) for number in range(5000)], codec=OPEN)
    chunked = pa.concat_tables([rows.slice(0, 1234), rows.slice(1234)])
    result = decode(chunked, codec=OPEN, schemas={NAME: SCHEMA}, server_tz="Asia/Shanghai")
    assert result["key"].to_pylist() == [f'["{number}"]' for number in range(5000)]


def broken(**changed: Any) -> dict[str, Any]:
    return {"u": open_image(**changed)}


def without(image: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in image.items() if key != name}


AT = "message kafka/t/0@8: table shop.t: "


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (broken(extra={"t": 3, "f": 0, "v": 1}), "column extra is in the row (u) and not in the schema"),
        ({"u": without(open_image(), "body")}, "column body is in the schema and not in the row (u)"),
        ({"u": open_image(), "p": {}}, "column id is not in the old image: only-output-updated-columns is set"),
        (broken(id={"t": 15, "f": 0, "v": 1}), "column id: {'t': 15, 'f': 0, 'v': 1} (u) does not fit kind int: Invalid enum value 15"),
        (broken(id={"t": 3, "f": 0, "v": "1"}), "column id: {'t': 3, 'f': 0, 'v': '1'} (u) does not fit kind int: Expected `int | null`"),
        (broken(id={"t": 3, "f": 0, "v": None}), "column id: a key column is null"),
        (broken(id={"t": 3, "f": 0, "v": 2**63}), "column id: 9223372036854775808 is out of range for kind int"),
        (broken(body={"t": 252, "f": 64, "v": "é"}), "column body: 'é' is not base64"),
        (broken(body={"t": 252, "f": 64, "v": "YWJj=="}), "column body: 'YWJj==' is not base64"),
        (broken(body={"t": 252, "f": 64, "v": "YR=="}), "column body: 'YR==' is not base64"),
        (broken(body={"t": 252, "f": 64, "v": "/w=="}), "column body: b'\\xff' is not UTF-8"),
        (broken(b={"t": 15, "f": 64, "v": 'a"b'}), "column b: 'a\"b' is of a binary column and not a Go quoted text"),
        (broken(b={"t": 15, "f": 65, "v": "\\q"}), "column b: '\\\\q' is of a binary column and not a Go quoted text"),
        (broken(b={"t": 15, "f": 65, "v": "long"}), "column b: b'long' is longer than binary(3)"),
        (broken(e={"t": 247, "f": 64, "v": 3}), "column e: 3 is not an index into the 2 labels of the enum"),
        (broken(at={"t": 7, "f": 64, "v": "x" * 200}), "column at: '" + "x" * 79 + "… is not a timestamp"),
    ],
)
def test_open_protocol_rows_that_do_not_fit_the_schema_are_refused(value: object, text: str) -> None:
    with pytest.raises(FeedUnsuitable) as refused:
        decoded(change({"u": open_image()}), change(value, position=8))
    assert refused.value.message.startswith(AT + text)
    assert refused.value.message.endswith(" (segment 1, ordinal 1 of the log)")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"{", "the value is not JSON (Input data was truncated): b'{'"),
        (b"[]", "the value is not a row of open-protocol: b'[]'"),
        ({"u": 1}, "the value is not a row of open-protocol: b'{\"u\": 1}'"),
        ({"q": "drop", "t": 4}, 'the value is not a row of open-protocol: b\'{"q": "drop", "t": 4}\''),
        ({}, "the row is neither u, nor u and p, nor d alone"),
        ({"p": open_image()}, "the row is neither u, nor u and p, nor d alone"),
        ({"u": open_image(), "d": open_image()}, "the row is neither u, nor u and p, nor d alone"),
        ({"d": open_image()}, "logged as put, its value is another"),
    ],
)
def test_open_protocol_values_that_are_no_rows_are_refused(value: object, text: str) -> None:
    with pytest.raises(MessageUnreadable) as refused:
        decoded(change({"u": open_image()}), change(value, position=8))
    assert str(refused.value).startswith(AT + text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (canal_row("INSERT", extra="1"), "column extra is in the row (data) and not in the schema"),
        (canal_row("UPDATE", old={"extra": "1"}), "column extra is in the row (old) and not in the schema"),
        (canal_row("INSERT") | {"data": [{"id": "1", "e": "1"}]}, "column na me.1 is in the schema and not in the row (data)"),
        (canal_row("DELETE") | {"data": [{"id": "1", "e": "1"}]}, "column na me.1 is in the schema and not in the row (data)"),
        (canal_row("INSERT", id="x"), "column id: 'x' is not an integer"),
        (canal_row("INSERT", b="\u0100"), "column b: 'Ā' is not ISO-8859-1"),
        (canal_row("INSERT") | {"mysqlType": canal_row("INSERT")["mysqlType"] | {"id": "bigint unsigned"}},
         "column id: type 'bigint unsigned' does not fit kind int"),
        (canal_row("INSERT") | {"mysqlType": canal_row("INSERT")["mysqlType"] | {"body": "blob"}},
         "column body: type 'blob' does not fit kind text"),
    ],
)  # fmt: skip
def test_canal_json_rows_that_do_not_fit_the_schema_are_refused(value: dict[str, Any], text: str) -> None:
    rank = Rank.DELETE if value["type"] == "DELETE" else Rank.PUT
    with pytest.raises(FeedUnsuitable) as refused:
        decoded(change(canal_row("INSERT")), change(value, position=8, rank=rank), codec=CANAL)
    assert str(refused.value).startswith(AT + text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"\xff", "the value is not JSON"),
        ({"type": "QUERY"}, 'the value is not a row of canal-json: b\'{"type": "QUERY"}\''),
        (canal_row("INSERT") | {"data": None}, "the value is not a row of canal-json"),
        (canal_row("INSERT", id=1), "column id: 1 (data) is neither text nor null"),
        (canal_row("INSERT", old={}), "the row is of type INSERT and has old"),
        (canal_row("UPDATE"), "the row is of type UPDATE and lacks old"),
        (canal_row("DELETE"), "logged as put, its value is another"),
    ],
)
def test_canal_json_values_that_are_no_rows_are_refused(value: object, text: str) -> None:
    with pytest.raises(MessageUnreadable) as refused:
        decoded(change(canal_row("INSERT")), change(value, position=8), codec=CANAL)
    assert str(refused.value).startswith(AT + text)


def test_tables_without_schema_or_key_are_refused_with_the_way_out() -> None:
    with pytest.raises(
        FeedUnsuitable,
        match=r"message kafka/t/0@7: table shop.t has no schema here \(segment 1, ordinal 0 of the log\)\n  what to do: let the changefeed",
    ):
        decode(logged([change({})], codec=OPEN), codec=OPEN, schemas={})
    with pytest.raises(
        FeedUnsuitable, match=r"table shop.t has no handle key \(segment 1, ordinal 0 of the log\)\n  what to do: unset force-replicate"
    ):
        decoded(change({}), schema=TableSchema(NAME, SCHEMA.columns, ()))


def test_of_a_row_that_is_in_no_log_no_place_in_one_is_reported() -> None:
    rows = logged([change({"u": {}})], codec=OPEN)
    of_no_log = rows.set_column(0, "seq", pa.nulls(1, pa.int64()))
    with pytest.raises(FeedUnsuitable) as refused:
        decode(of_no_log, codec=OPEN, schemas={NAME: SCHEMA})
    assert "segment" not in str(refused.value)
    assert "skip" not in str(refused.value)


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(FeedUnsuitable, match=r"rows of codec avro are not decoded here"):
        decode(logged([], codec="avro"), codec="avro", schemas={})


@pytest.mark.parametrize("broken", [0, 1, 2])
@pytest.mark.parametrize("codec", [OPEN, CANAL])
def test_what_a_library_raises_is_refused_as_the_row_that_it_is_raised_for(
    codec: str, broken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = decoder_module(codec)
    cells = module.cells

    def raising(values: list[bytes], schema: TableSchema, *, whole: bool = True) -> Cells:
        if any(b"broken" in value for value in values):
            raise ValueError("a name that cannot be a field")
        return cells(values, schema, whole=whole)

    monkeypatch.setattr(module, "cells", raising)
    bodies = [b64encode(text).decode() for text in (b"fine", b"fine", b"fine")]
    images = [open_image(id={"t": 3, "f": 11, "v": n}) if codec == OPEN else canal_row("INSERT", id=str(n)) for n in range(len(bodies))]
    changes = [change({"u": image} if codec == OPEN else image, position=n) for n, image in enumerate(images)]
    changes[broken] = changes[broken]._replace(value=changes[broken].value.replace(b'"n"', b'"broken"'))
    with pytest.raises(
        MessageUnreadable, match=rf"@{broken}: table shop\.t: ValueError: a name that cannot be a field .*ordinal {broken} "
    ):
        decode(logged(changes, codec=codec), codec=codec, schemas={NAME: SCHEMA})
