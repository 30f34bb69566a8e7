"""What a row is in a bulk request, what a table is called, and what a URI says; without a server."""

from __future__ import annotations

import json
import pickle
from hashlib import sha256

import pyarrow as pa
import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, CommitTs, Seq, TableName, TableSchema
from spark_merge.codecs.encode.block import of_changes
from spark_merge.ddl.routes import check_apart, routes_of
from spark_merge.port.contract import CHANGES, Accepted, Owner
from spark_merge.sinks.kit.position import OutputState
from spark_merge.sinks.opensearch import fields
from spark_merge.sinks.opensearch.documents import lines
from spark_merge.sinks.opensearch.fields import Forms
from spark_merge.sinks.opensearch.names import IndexNames, checked_pattern, physical
from spark_merge.sinks.opensearch.position import OwnedPosition, WrittenBatch, _state_of
from spark_merge.sinks.opensearch.sink import OpenSearchSink
from spark_merge.sinks.opensearch.uri import settings_of
from spark_merge.sinks.opensearch.writer import BulkWriter
from spark_merge.sinks.registry import _read, leaves, name_of, open_sink

T, FORMS = TableName("shop", "t"), Forms()


def sent(columns: tuple[Column, ...], *rows: tuple[str, list[str | None]], key: tuple[str, ...] = (), forms: Forms = FORMS) -> list[str]:
    """The lines of rows (op, image) at commit_ts 50, 51, …"""
    schema = TableSchema(T, columns, key or (columns[0].name,))
    made = [
        {"seq": 1, "commit_ts": 50 + at, "rank": 0, "ordinal": at, "schema": "shop", "table": "t", "op": op, "key": "",
         "before": image if op == "delete" else None, "after": None if op == "delete" else image}
        for at, (op, image) in enumerate(rows)
    ]  # fmt: skip
    block = of_changes(schema, 1, pa.RecordBatch.from_pylist(made, CHANGES))
    text = "".join(line for _, result in lines(block, "shop.t", forms) for line in result.to_pylist())
    assert text.endswith("\n")
    return text[:-1].split("\n")


ID, NOTE = Column("id", "int"), Column("note", "text")


def test_a_put_is_its_action_and_document_and_a_delete_its_action_alone() -> None:
    action, document, gone = sent((ID, NOTE), ("insert", ["5", 'a "quoted"\n text\\ µ']), ("delete", ["6", None]))
    assert json.loads(action) == {"index": {"_index": "shop.t", "_id": '["5"]', "version": 101, "version_type": "external_gte"}}
    assert json.loads(document) == {"id": 5, "note": 'a "quoted"\n text\\ µ'}
    assert json.loads(gone) == {"delete": {"_index": "shop.t", "_id": '["6"]', "version": 102, "version_type": "external_gte"}}


@pytest.mark.parametrize(
    ("column", "text", "value"),
    [
        (Column("c", "uint"), "18446744073709551615", "18446744073709551615"),
        (Column("c", "bit", length=64), "18446744073709551615", "18446744073709551615"),
        (Column("c", "int"), "-9223372036854775808", "-9223372036854775808"),
        (Column("c", "double"), "1.7976931348623157e+308", "1.7976931348623157e+308"),
        (Column("c", "decimal", length=65, scale=30), "-" + "9" * 35 + "." + "9" * 30, '"-' + "9" * 35 + "." + "9" * 30 + '"'),
        (Column("c", "date"), "0000-00-00", '"0000-00-00"'),
        (Column("c", "datetime", scale=6), "2020-02-30 23:59:59.999999", '"2020-02-30 23:59:59.999999"'),
        (Column("c", "time"), "-838:59:59", '"-838:59:59"'),
        (Column("c", "year"), "0000", "0"),
        (Column("c", "year"), "2024", "2024"),
        (Column("c", "binary"), "00FF", '"00FF"'),
        (Column("c", "enum"), "", '""'),
        (Column("c", "set"), "", "[]"),
        (Column("c", "set"), 'a,b"c', '["a","b\\"c"]'),
        (Column("c", "json"), '{"a": 1.0}', '"{\\"a\\": 1.0}"'),
        (Column("c", "vector"), "[1,2]", '"[1,2]"'),
        (Column("c", "text"), None, "null"),
    ],
)
def test_a_value_has_all_that_its_canonical_text_has(column: Column, text: str | None, value: str) -> None:
    _, document = sent((ID, column), ("insert", ["1", text]))
    assert document == '{"id":1,"c":' + value + "}"


def test_a_json_is_an_object_by_option_and_what_is_none_is_refused() -> None:
    results: list[str | None] = ["1", '{"b": [1.10, 18446744073709551615]}']
    _, document = sent((ID, Column("j", "json")), ("insert", results), forms=Forms(json="object"))
    assert document == '{"id":1,"j":{"b":[1.10,18446744073709551615]}}'
    with pytest.raises(SinkError, match=r"shop\.t\.j in segment 1 holds a json that is none"):
        sent((ID, Column("j", "json")), ("insert", ["1", "{"]), forms=Forms(json="object"))


def test_a_key_that_is_longer_than_an_id_may_be_is_its_hash() -> None:
    key = "µ" * 300
    (gone,) = sent((NOTE,), ("delete", [key]))
    assert json.loads(gone)["delete"]["_id"] == "sha256:" + sha256(f'["{key}"]'.encode()).hexdigest()


def test_decimals_are_scaled_only_where_a_double_distinguishes_them() -> None:
    forms = Forms(decimal="scaled_float")
    small, large = (forms.mapping(Column("c", "decimal", length=digits, scale=2), unsigned_long=True) for digits in (15, 16))
    assert (small, large) == ({"type": "scaled_float", "scaling_factor": 100.0}, {"type": "keyword"})


def test_unsigned_numbers_are_keywords_where_the_server_has_no_type_for_them() -> None:
    assert Forms().mapping(Column("c", "uint"), unsigned_long=False) == {"type": "keyword"}


def test_columns_that_no_document_can_have_are_reported() -> None:
    schema = TableSchema(T, (ID, Column("_id", "int"), Column("a.b", "int")), ("id",))
    assert [problem for problem, _ in fields.problems(schema)] == [
        "column _id of shop.t has a name that the server keeps for itself",
        "column 'a.b' of shop.t cannot be a field: a dot is the way into an object",
    ]


def test_a_table_is_called_by_pattern_and_routes_and_none_shares_a_name() -> None:
    names = IndexNames("x-{schema}.{table}", routes_of("shop.*=>mall.*"))
    assert names.alias(TableName("shop", "Orders")) == "x-mall.orders"
    assert physical("x", 4) == "x-v4"
    with pytest.raises(SinkError, match=r"shop\.Orders and mall\.orders would both be x-mall\.orders"):
        check_apart(
            [TableName("shop", "Orders"), TableName("mall", "orders")], (), lambda name: [names.alias_of(name)], routes=names.routes
        )
    for odd in ("a b", "a,b", "a#b", "é" * 120):
        with pytest.raises(SinkError, match="would be index"):
            IndexNames().check([TableName("s", odd)])
    for pattern in ("fixed", "{schema}", "_{table}", "{table} x", "{table}{row}", "{table"):
        with pytest.raises(SinkError, match="index="):
            checked_pattern(pattern)


def test_a_uri_names_hosts_and_keeps_its_password_out_of_sight() -> None:
    uri = "opensearch+ssl://me:s%23cret@one:9201,two/?bulk-rows=7&ddl-done=5,6&gc-deletes=2h&refresh=accept&replicas=0"
    settings = settings_of(_read(uri, "log")[1])
    assert settings.server.hosts == (("one", 9201), ("two", 9200))
    assert (settings.server.tls, settings.server.password()) == (True, "s#cret")
    assert (settings.bulk_rows, sorted(settings.done), settings.gc_deletes, settings.replicas) == (7, [5, 6], "2h", 0)
    writer = BulkWriter(settings, OwnedPosition(settings.server, "p", Owner(1, 1)))
    assert b"cret" not in pickle.dumps(writer)
    assert pickle.loads(pickle.dumps(writer)) == writer
    assert "cret" not in name_of(uri) + repr(settings)
    assert "DELETE /ticdc_dump" in leaves("elasticsearch://host/")
    assert isinstance(open_sink("elasticsearch://host/", log_id="log"), OpenSearchSink)


@pytest.mark.parametrize(
    ("tail", "problem"),
    [
        ("host:0/", "no usable host and port"), ("host:x/", "no usable host and port"), (":9200/", "no usable host"),
        ("host/path", "names hosts, and nothing behind them"), ("host/?bulk-rows=0", "bulk-rows"), ("host/?gc-deletes=long", "gc-deletes"),
        ("host/?json=xml", "json='xml' is none of text, object"), ("host/?position-index=A", "position-index"),
        ("host/?ddl-anew=x", "ddl-anew"), ("host/?ssl-cert=c", "ssl-cert without ssl-ca"), ("host/?routes=a", "route"),
        ("host/?nothing=1", "has no parameter nothing"), ("host/?index=x", "must hold"), ("u@host/?password-file=/none", "password-file"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(tail: str, problem: str) -> None:
    with pytest.raises(SinkError, match=problem):
        open_sink(f"opensearch://{tail}", log_id="log")


def test_a_position_that_0_4_wrote_is_read() -> None:
    source = {
        "log": "default/feed 1#ab", "epoch": 3, "incarnation": 4, "by": "0123456789abcdef",
        "accepted": {"seq": 5, "upto_ts": "9223372036854775807", "manifest": "id"}, "written": {"seq": 6, "there": {"a": "a-v1"}},
    }  # fmt: skip
    accepted, written = Accepted(Seq(5), CommitTs((1 << 63) - 1), "id"), WrittenBatch(Seq(6), {"a": "a-v1"})
    assert _state_of(source) == OutputState("default/feed 1#ab", Owner(3, 4), accepted, written)
    accepted_by_0_2 = {"seq": 5, "upto_ts": None, "manifest": ""}
    assert _state_of(source | {"accepted": accepted_by_0_2, "written": None}).accepted == Accepted(Seq(5))
