"""Messages as Debezium's MySQL connector writes them: bytes by hand, options, and the error of a value that has no form."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import sidecar
from sidecar.shared.errors import ConfigError, SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import CommitTs, TableDefinition, TableSchema
from spark_merge.codecs.encode.debezium import DebeziumEncoder, encoder
from spark_merge.codecs.encode.debezium_fields import BARE, DECIMALS, INVALID_DATES, KEY_OF_DELETED, PREFIX, UNSIGNED
from spark_merge.port.contract import CHANGES, RANK_CHUNK
from tests.support.deliveries import change
from tests.unit.encode.debezium_tables import EVERY, KINDS, one_column
from tests.unit.encode.open_tables import Image, changes

TS = CommitTs((1_795_231_963_612 << 18) + 5)
Pair = tuple[Image | None, Image | None]
ORDERS = one_column("char(9)")


def made(**options: str) -> DebeziumEncoder:
    return encoder(
        architecture="classic", options={PREFIX: "p", BARE: "true"} | {name.replace("_", "-"): text for name, text in options.items()}
    )


def payloads(made_by: DebeziumEncoder, schema: TableSchema, *pairs: Pair, **more: Any) -> list[tuple[Any, Any]]:
    return [
        (json.loads(key or b""), json.loads(value or b"")) for key, value in made_by.rows(schema, changes(schema, *pairs), None, **more)
    ]


def test_a_row_byte_for_byte() -> None:
    rows = pa.Table.from_pylist([change(7, TS, before=["1", "a"], after=["1", 'é"'], table=ORDERS.name)], CHANGES)
    assert list(made().rows(ORDERS, rows, None)) == [
        (
            b'{"id":1}',
            f'{{"before":{{"id":1,"c":"a"}},"after":{{"id":1,"c":"é\\""}},"source":{{"version":"{sidecar.__version__}","connector":"mysql",'
            '"name":"p","ts_ms":1795231963612,"snapshot":"false","db":"shop","sequence":null,"ts_us":1795231963612000,'
            f'"ts_ns":1795231963612000005,"table":"t","server_id":0,"gtid":null,"file":"","pos":{TS},"row":0,"thread":null,"query":null,'
            f'"commit_ts":{TS}}},"transaction":null,"op":"u","ts_ms":1795231963612,"ts_us":1795231963612000,'
            '"ts_ns":1795231963612000005}'.encode(),
        )
    ]


def test_a_schema_is_in_front_of_each_payload() -> None:
    (key, value) = next(iter(made(debezium_disable_schema="false").rows(ORDERS, changes(ORDERS, (None, ["1", "a"])), None)))
    (bare_key, bare_value) = made().rows(ORDERS, changes(ORDERS, (None, ["1", "a"])), None)[0]
    whole = [json.loads(part or b"") for part in (key, value)]
    assert [list(one) for one in whole] == [["schema", "payload"]] * 2
    assert [one["payload"] for one in whole] == [json.loads(bare_key or b""), json.loads(bare_value or b"")]
    assert key == (
        b'{"schema":{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"}],"optional":false,"name":"p.shop.t.Key"},'
        b'"payload":{"id":1}}'
    )


def test_messages_with_schemas_are_a_sequence_like_any_other() -> None:
    pairs: list[Pair] = [(None, [str(at), "a"]) for at in range(5)]
    rows = made(debezium_disable_schema="false").rows(ORDERS, changes(ORDERS, *pairs), None)
    assert len(rows) == 5
    assert [rows[at] for at in range(5)] == list(rows)
    assert list(rows[1:3]) == list(rows)[1:3]
    assert rows[-1] == list(rows)[-1]


def test_ops_are_those_of_debezium_and_a_dump_is_an_incremental_snapshot() -> None:
    live = payloads(made(), ORDERS, (None, ["1", "a"]), (["1", "a"], ["1", "b"]), (["1", "b"], None))
    assert [(value["op"], value["source"]["snapshot"]) for _, value in live] == [("c", "false"), ("u", "false"), ("d", "false")]
    rows = changes(ORDERS, (None, ["1", "a"]), (["2", None], None))
    rows = rows.set_column(2, CHANGES.field("rank"), pa.array([RANK_CHUNK] * 2, pa.int32()))
    dumped = [json.loads(value or b"") for _, value in made().rows(ORDERS, rows, None, keys_only=True)]
    assert [(one["op"], one["source"]["snapshot"]) for one in dumped] == [("r", "incremental"), ("d", "incremental")]


def test_positions_rise_strictly_with_commit_ts() -> None:
    times = [TS - 5 + (1 << 18) - 1, TS - 5 + (1 << 18), TS - 5 + (1 << 18) + 1]
    rows = pa.Table.from_pylist([change(7, ts, after=["1", "a"], table=ORDERS.name) for ts in times], CHANGES)
    sources = [json.loads(value or b"")["source"] for _, value in made().rows(ORDERS, rows, None)]
    assert [one["pos"] for one in sources] == times
    assert [one["ts_ns"] - 1_795_231_963_612_000_000 for one in sources] == [262_143, 1_000_000, 1_000_001]


def test_of_a_delete_whose_key_alone_is_known_other_columns_are_null_or_zero() -> None:
    image: Image = ["1", *(None for _ in KINDS)]
    ((key, value),) = payloads(made(), EVERY, (image, None), keys_only=True)
    assert key == {"id": 1}
    assert value["before"] == {"id": 1} | {column.name: None for column in EVERY.columns[1:]}
    strict = replace(EVERY, columns=tuple(replace(one, nullable=False) for one in EVERY.columns))
    ((_, value),) = payloads(made(), strict, (image, None), keys_only=True)
    zeros = {kind: value["before"][column.name] for kind, column in zip((one.sql for one in KINDS), EVERY.columns[1:], strict=True)}
    assert None not in zeros.values()
    by_hand = {
        "bigint(20)": 0, "bigint(20) unsigned": "AA==", "decimal(10,2)": "AA==", "float": 0, "char(9)": "", "longblob": "", "json": "{}",
        "date": 0, "datetime(4)": 0, "timestamp": "1970-01-01T00:00:00Z", "time(6)": 0, "bit(1)": False, "bit(9)": "AAA=", "year(4)": 0,
        "vector(3)": [],
    }  # fmt: skip
    assert {sql: zeros[sql] for sql in by_hand} == by_hand


def test_a_whole_delete_has_its_key_alone_if_the_option_says_so() -> None:
    deleted = payloads(made(delete_only_output_handle_key_columns="true"), ORDERS, (["1", "a"], None), (["1", "a"], ["1", "b"]))
    assert [value["before"] for _, value in deleted] == [{"id": 1, "c": None}, {"id": 1, "c": "a"}]


def test_a_key_has_its_columns_in_the_keys_order() -> None:
    schema = replace(ORDERS, key=("c", "id"))
    ((key, _),) = made().rows(schema, changes(schema, (None, ["1", "a"])), None)
    assert key == b'{"c":"a","id":1}'


def test_null_is_null_whatever_the_columns_default() -> None:
    assert ORDERS.definition is not None
    columns = tuple(replace(one, default="'x'") for one in ORDERS.definition.columns)
    schema = replace(ORDERS, definition=TableDefinition(columns))
    (_, value) = next(iter(made(debezium_disable_schema="false").rows(schema, changes(schema, (None, ["1", None])), None)))
    assert json.loads(value or b"")["payload"]["after"] == {"id": 1, "c": None}
    row_schema = json.loads(value or b"")["schema"]["fields"][1]
    assert not [one for one in row_schema["fields"] if "default" in one]


def test_a_ddl_and_a_mark() -> None:
    ddl = DdlRecord(TS, "shop", "t", "ALTER TABLE `t` ADD COLUMN `é` INT")
    key, value = made().ddl(ddl, ORDERS, ORDERS)
    assert json.loads(key or b"") == {"databaseName": "shop"}
    payload = json.loads(value or b"")
    assert list(payload) == ["source", "ts_ms", "databaseName", "schemaName", "ddl", "tableChanges"]
    assert (payload["ts_ms"], payload["ddl"], payload["schemaName"]) == (1_795_231_963_612, ddl.query, None)
    assert (payload["source"]["commit_ts"], payload["source"]["table"]) == (TS, "t")
    assert [(one["type"], one["id"]) for one in payload["tableChanges"]] == [("ALTER", '"shop"."t"')]
    key, value = made(debezium_disable_schema="false").resolved(TS)
    assert (json.loads(key or b"")["payload"], json.loads(value or b"")["payload"]) == (
        {"serverName": "p"},
        {"ts_ms": 1_795_231_963_612, "commit_ts": TS},
    )
    _, value = made().ddl(replace(ddl, table=""), None, None)
    assert (json.loads(value or b"")["source"]["table"], json.loads(value or b"")["tableChanges"]) == (None, [])


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sql", ["date", "datetime(3)", "timestamp"])
@pytest.mark.parametrize("day", ["0000-00-00", "2020-00-10", "2020-02-30", "0000-03-01"])
def test_a_date_that_no_calendar_has_stops_the_sink_or_is_null_or_1970(sql: str, day: str) -> None:
    text = {"date": day, "datetime(3)": f"{day} 00:00:00.000", "timestamp": f"{day} 00:00:00"}[sql]
    schema = one_column(sql)
    rows: Pair = (None, ["1", text])
    with pytest.raises(SinkError, match=rf'(?s)shop\.t\.c of the row with key \["1"\] is {text}, which no.*{INVALID_DATES}=null-or-epoch'):
        payloads(made(), schema, rows)
    ((_, value),) = payloads(made(invalid_dates="null-or-epoch"), schema, rows)
    assert value["after"] == {"id": 1, "c": None}
    ((_, value),) = payloads(made(invalid_dates="null-or-epoch"), one_column(sql, nullable=False), rows)
    assert value["after"] == {"id": 1, "c": "1970-01-01T00:00:00Z" if sql == "timestamp" else 0}
    with pytest.raises(SinkError, match="In a handle key such a value cannot be written"):
        payloads(made(invalid_dates="null-or-epoch"), one_column(sql, nullable=False, in_key=True), rows)


def test_a_number_that_a_long_does_not_hold_stops_the_sink_and_names_the_option() -> None:
    schema = one_column("bigint(20) unsigned")
    row: Pair = (None, ["1", str(1 << 63)])
    with pytest.raises(SinkError, match=rf"(?s)shop\.t\.c holds .*above 2\^63-1, and {UNSIGNED} is long.*precise or string"):
        payloads(made(bigint_unsigned_handling_mode="long"), schema, row)
    ((_, value),) = payloads(made(bigint_unsigned_handling_mode="string"), schema, row)
    assert value["after"]["c"] == str(1 << 63)


@pytest.mark.parametrize(("sql", "text"), [("int(11)", "x"), ("longblob", "0"), ("date", "2024"), ("time", "25"), ("decimal(10,2)", "?")])
def test_a_text_that_is_none_of_its_kind_is_named(sql: str, text: str) -> None:
    with pytest.raises(SinkError, match=r"shop\.t\.c holds a text that is no"):
        payloads(made(), one_column(sql), (None, ["1", text]))


def test_a_table_whose_definition_is_not_known_is_refused() -> None:
    with pytest.raises(SinkError, match="does not tell what"):
        payloads(made(), replace(ORDERS, definition=None), (None, ["1", "a"]))
    with pytest.raises(SinkError, match="does not tell the type of column c"):
        payloads(made(), replace(ORDERS, definition=TableDefinition(one_column("date").definition.columns[:1])), (None, ["1", "a"]))  # type: ignore[union-attr]


@pytest.mark.parametrize("option", [DECIMALS, UNSIGNED, INVALID_DATES, BARE, KEY_OF_DELETED])
def test_an_options_value_that_cannot_be_is_refused_by_name(option: str) -> None:
    with pytest.raises(ConfigError, match=f"{option}=double"):
        encoder(architecture="classic", options={option: "double"})


def test_no_row_is_in_a_file() -> None:
    with pytest.raises(SinkError, match="larger than a message"):
        made().location_message((b"k", b"v"), ORDERS, "s3://b/x")


def test_large_pieces_are_encoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs: list[Pair] = [(None, [str(at), "x" * 100]) for at in range(64)]
    whole = list(made().rows(ORDERS, changes(ORDERS, *pairs), None))
    monkeypatch.setattr("spark_merge.codecs.encode.debezium._BLOCK_BYTES_MAX", 1000)
    assert list(made().rows(ORDERS, changes(ORDERS, *pairs), None)) == whole
