"""Schemas as JsonConverter writes them. What Debezium's readers look for is pinned here; each schema describes the payload beside it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import CommitTs
from spark_merge.codecs.encode.debezium import encoder
from spark_merge.codecs.encode.debezium_fields import PREFIX, DebeziumOptions
from spark_merge.codecs.encode.debezium_schema import SOURCE, envelope_schema, key_schema, text_of
from tests.unit.encode.debezium_tables import EVERY, KINDS, one_column
from tests.unit.encode.open_tables import changes

OPTIONS = DebeziumOptions(prefix="p")
TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str, "bytes": str, "int16": int, "int32": int, "int64": int, "boolean": bool, "float": (float, int), "double": (float, int),
}  # fmt: skip


def check(value: Any, schema: dict[str, Any]) -> None:
    """As JsonConverter reads it: every field of the payload has its schema, and the other way round."""
    if value is None:
        assert schema["optional"], schema
        return
    match schema["type"]:
        case "struct":
            assert list(value) == [one["field"] for one in schema["fields"]]
            for one in schema["fields"]:
                check(value[one["field"]], one)
        case "array":
            for one in value:
                check(one, schema["items"])
        case kind:
            assert isinstance(value, TYPES[kind]), (value, schema)


def test_every_message_has_the_form_that_its_schema_says() -> None:
    made = encoder(architecture="new", options={PREFIX: "p"})
    first, last = ([str(at), *(one.values[at] for one in KINDS[:-1]), "[1,2.5]"] for at in (0, -1))
    some: list[str | None] = ["1", *(None for _ in KINDS)]
    schema = one_column("char(9)")
    ddl = DdlRecord(CommitTs(7 << 18), "shop", "t", "DROP TABLE t")
    messages = [
        *made.rows(EVERY, changes(EVERY, (None, list(first)), (list(first), some), (list(last), None)), None),
        made.resolved(CommitTs(7 << 18)),
        made.ddl(ddl, schema, None),
        made.ddl(ddl, None, schema),
        made.ddl(ddl, EVERY, EVERY),
    ]
    for message in messages:
        for part in message:
            whole = json.loads(part or b"")
            check(whole["payload"], whole["schema"])
            assert whole["schema"]["optional"] is False


def test_an_envelope_byte_for_byte() -> None:
    source = text_of(SOURCE)
    image = (
        '{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"},{"type":"bytes","optional":true,"name":'
        '"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"2","connect.decimal.precision":"10"},"field":"c"}],'
        '"optional":true,"name":"p.shop.t.Value","field":"%s"}'
    )
    times = ",".join(f'{{"type":"int64","optional":true,"field":"{unit}"}}' for unit in ("ts_ms", "ts_us", "ts_ns"))
    assert text_of(envelope_schema(one_column("decimal(10,2)"), OPTIONS)) == (
        f'{{"type":"struct","fields":[{image % "before"},{image % "after"},{source[:-1]},"field":"source"}},'
        '{"type":"struct","fields":[{"type":"string","optional":false,"field":"id"},{"type":"int64","optional":false,"field":"total_order"},'
        '{"type":"int64","optional":false,"field":"data_collection_order"}],"optional":true,"name":"event.block","version":1,'
        f'"field":"transaction"}},{{"type":"string","optional":false,"field":"op"}},{times}],"optional":false,'
        '"name":"p.shop.t.Envelope","version":2}'
    )


def test_a_source_is_that_of_the_mysql_connector_and_commit_ts() -> None:
    assert (SOURCE["name"], SOURCE["version"]) == ("io.debezium.connector.mysql.Source", 1)
    assert [one["field"] for one in SOURCE["fields"]] == [
        "version", "connector", "name", "ts_ms", "snapshot", "db", "sequence", "ts_us", "ts_ns", "table", "server_id", "gtid", "file",
        "pos", "row", "thread", "query", "commit_ts",
    ]  # fmt: skip
    assert SOURCE["fields"][4] == {
        "type": "string", "optional": True, "name": "io.debezium.data.Enum", "version": 1,
        "parameters": {"allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"},
        "default": "false", "field": "snapshot",
    }  # fmt: skip


@pytest.mark.parametrize("key", [False, True])
def test_a_key_is_a_struct_of_the_handle_key(key: bool) -> None:
    schema = key_schema(one_column("date", in_key=key), OPTIONS)
    assert (schema["name"], schema["optional"], [one["field"] for one in schema["fields"]]) == (
        "p.shop.t.Key",
        False,
        ["c" if key else "id"],
    )
    assert not [one for one in schema["fields"] if one["optional"]]
