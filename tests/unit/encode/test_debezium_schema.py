"""Schemas as JsonConverter writes them. What Debezium's readers look for is pinned here; each schema describes the payload beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import CommitTs, TableDefinition
from sidecar.shared.sql.text import quoted_text
from spark_merge.codecs.encode.debezium import encoder
from spark_merge.codecs.encode.debezium_fields import INVALID_DATES, PREFIX, DebeziumOptions
from spark_merge.codecs.encode.debezium_schema import SOURCE, envelope_schema, key_schema, text_of
from tests.unit.encode.debezium_tables import EVERY, KINDS, Kinds, one_column
from tests.unit.encode.open_tables import changes

OPTIONS = DebeziumOptions(prefix="p")
REPLACING = replace(OPTIONS, invalid_dates="null-or-epoch")
NONE = object()
NO_LITERAL = ("binary", "bit", "json", "vector")
"""Kinds whose default the definition does not give as their text (type_cast.py)."""
ROUNDED = "float(7,4)"
"""Of it neither."""

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


def defaulted(sql: str, default: str, *, nullable: bool = False, in_key: bool = False, options: DebeziumOptions = REPLACING) -> Any:
    """The default of the column `c` in a row's schema, `NONE` without one."""
    schema = one_column(sql, nullable=nullable, in_key=in_key)
    assert schema.definition is not None
    columns = tuple(replace(one, default=default) if one.name == "c" else one for one in schema.definition.columns)
    whole = envelope_schema(replace(schema, definition=TableDefinition(columns)), options)
    (field,) = [one for one in whole["fields"][1]["fields"] if one["field"] == "c"]
    check(field.get("default"), {**field, "optional": True})
    return field.get("default", NONE)


@pytest.mark.parametrize("kind", [one for one in KINDS if one.kind not in NO_LITERAL and one.sql != ROUNDED], ids=lambda one: one.sql)
def test_a_required_field_has_as_default_what_a_row_with_that_value_has(kind: Kinds) -> None:
    """Debezium's JDBC sink adds no required column without one."""
    made = encoder(architecture="new", options={PREFIX: "p", INVALID_DATES: "null-or-epoch"})
    schema = one_column(kind.sql, nullable=False)
    for text in kind.values:
        (message,) = made.rows(schema, changes(schema, (None, ["1", text])), None)
        value = json.loads(message[1] or b"")["payload"]["after"]["c"]
        literals = [quoted_text(text)] if kind.kind not in ("int", "uint", "decimal") else [quoted_text(text), text]
        assert [defaulted(kind.sql, literal) for literal in literals] == [value] * len(literals)
        assert defaulted(kind.sql, literals[0], nullable=True) is NONE, "a reader would put it where a value is NULL"
        assert defaulted(kind.sql, literals[0], in_key=True) is NONE


@pytest.mark.parametrize(
    ("sql", "default"), [("timestamp", "CURRENT_TIMESTAMP"), ("char(9)", "uuid()"), ("bit(9)", "b'1'"), ("longblob", "'a'")]
)
def test_a_default_that_is_no_plain_literal_is_left_out(sql: str, default: str) -> None:
    assert defaulted(sql, default) is NONE


@pytest.mark.parametrize(
    ("sql", "default", "options"),
    [
        ("date", "'0000-00-00'", OPTIONS),
        ("datetime", "'2020-02-30 00:00:00'", OPTIONS),
        ("timestamp(6)", "'0000-00-00 00:00:00.000000'", OPTIONS),
        ("bigint(20) unsigned", "'18446744073709551615'", replace(OPTIONS, unsigned="long")),
        ("double", "'1e400'", OPTIONS),
    ],
)
def test_a_default_that_no_row_can_have_is_left_out(sql: str, default: str, options: DebeziumOptions) -> None:
    """Such a value of a row stops the sink; the table's other rows do not."""
    assert defaulted(sql, default, options=options) is NONE


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
