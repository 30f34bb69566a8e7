"""canal-json, held equal to a slow writer and to what TiCDC's own source says."""

from __future__ import annotations

import pickle
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pyarrow as pa
import pytest

from sidecar.shared.errors import ConfigError, SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import Column, CommitTs, TableName, TableSchema
from spark_merge.codecs.encode import canal_json
from spark_merge.codecs.encode.canal_json import CanalJsonEncoder
from spark_merge.codecs.protocols import encoder
from spark_merge.port.contract import CHANGES
from tests.lanes import examples
from tests.support.slow_canal import message, random_changes, random_table, table

ON = {"enable-tidb-extension": "true"}
TS = CommitTs(470609322879221771)


def made(**options: str) -> Any:
    return encoder("canal-json", architecture="classic", options=ON | {name.replace("_", "-"): value for name, value in options.items()})


def changes(*rows: tuple[list[str | None] | None, list[str | None] | None]) -> pa.Table:
    """Of old and new images."""
    ops = ["insert" if old is None else "delete" if new is None else "update" for old, new in rows]
    results = [
        {
            "seq": 1,
            "commit_ts": TS,
            "rank": 1,
            "ordinal": n,
            "schema": "shop",
            "table": "t",
            "op": op,
            "key": str(n),
            "before": old,
            "after": new,
        }
        for n, (op, (old, new)) in enumerate(zip(ops, rows, strict=True))
    ]
    return pa.Table.from_pylist(results, schema=CHANGES)


@pytest.mark.parametrize("seed", range(examples(60)))
def test_every_row_of_random_tables_is_the_slow_writers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(canal_json, "_BLOCK_ROWS_MAX", random.choice([1, 7, 8192]))
    monkeypatch.setattr(canal_json, "_BLOCK_BYTES_MAX", random.choice([1, 5_000, 64 << 20]))
    schema = random_table(random)
    rows = random_changes(random, schema, random.choice([0, 1, 40]))
    zone = random.choice(["UTC", "Asia/Shanghai", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Monrovia"])
    full, updated, key_only = (random.random() < 0.5 for _ in range(3))
    encode = made(
        time_zone=zone,
        content_compatible=str(full).lower(),
        only_output_updated_columns=str(updated).lower(),
        delete_only_output_handle_key_columns=str(key_only and bool(schema.key)).lower(),
    )
    slowly = [
        message(schema, row, zone=ZoneInfo(zone), full=full, updated=updated or full, key_only=key_only and bool(schema.key))
        for row in rows.to_pylist()
    ]
    result = encode.rows(schema, rows, None)
    assert [one[1] for one in result] == slowly
    assert {one[0] for one in result} <= {b""}
    for value in slowly:
        msgspec.json.decode(value)


def test_a_row_has_its_fields_in_ticdcs_order() -> None:
    schema = table({"id": "bigint(20) unsigned", "v": "varchar(20)"}, ("id",))
    insert, update, delete = made().rows(
        schema, changes((None, ["1", "<a>"]), (["1", "a"], ["1", None]), (["18446744073709551615", "b"], None)), None
    )
    head = '{"id":0,"database":"shop","table":"t","pkNames":["id"],"isDdl":false,"type":'
    times = ',"es":1795232097165,"ts":1795232097165,"sql":"","sqlType":'
    types = ',"mysqlType":{"id":"bigint unsigned","v":"varchar"},"old":'
    end = ',"_tidb":{"commitTs":470609322879221771}}'
    assert insert[1].decode() == f'{head}"INSERT"{times}{{"id":-5,"v":12}}{types}null,"data":[{{"id":"1","v":"\\u003ca\\u003e"}}]{end}'
    assert update[1].decode() == f'{head}"UPDATE"{times}{{"id":-5,"v":12}}{types}[{{"id":"1","v":"a"}}],"data":[{{"id":"1","v":null}}]{end}'
    assert delete[1].decode() == f'{head}"DELETE"{times}{{"id":3,"v":12}}{types}null,"data":[{{"id":"18446744073709551615","v":"b"}}]{end}'


def test_where_nothing_has_changed_the_old_row_is_an_empty_object() -> None:
    schema = table({"id": "int(11)"}, ("id",))
    [row] = made(only_output_updated_columns="true").rows(schema, changes((["1"], ["1"])), None)
    assert b'"old":[{}],"data":[{"id":"1"}]' in row[1]


def test_a_table_without_a_primary_key_has_an_empty_list_of_them() -> None:
    [row] = made().rows(table({"id": "int(11)"}, ()), changes((None, ["1"])), None)
    assert b'"pkNames":[],' in row[1]


def test_a_resolved_mark_and_a_ddl() -> None:
    assert made().resolved(CommitTs(470609321672572950)) == (
        None,
        b'{"id":0,"database":"","table":"","pkNames":null,"isDdl":false,"type":"TIDB_WATERMARK","es":1795232092562,"ts":1795232092562,"sql":"",'
        b'"sqlType":null,"mysqlType":null,"data":null,"old":null,"_tidb":{"watermarkTs":470609321672572950}}',
    )
    ddl = DdlRecord(CommitTs(470609403620622347), "shop", "t<", "ALTER TABLE `t<` ADD COLUMN `s` INT COMMENT '\"'")
    assert made().ddl(ddl, None, None) == (
        None,
        b'{"id":0,"database":"shop","table":"t\\u003c","pkNames":null,"isDdl":true,"type":"ALTER","es":1795232405169,"ts":1795232405169,'
        b'"sql":"ALTER TABLE `t\\u003c` ADD COLUMN `s` INT COMMENT \'\\"\'","sqlType":null,"mysqlType":null,"data":null,"old":null,'
        b'"_tidb":{"commitTs":470609403620622347}}',
    )


def test_it_goes_to_tasks_and_both_architectures_are_one() -> None:
    result = pickle.loads(pickle.dumps(made(time_zone="Asia/Shanghai")))
    assert result == CanalJsonEncoder(ZoneInfo("Asia/Shanghai"))
    assert encoder("canal-json", architecture="new", options=ON) == encoder("canal-json", architecture="classic", options=ON)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "enable-tidb-extension"),
        ({"enable-tidb-extension": "false"}, "enable-tidb-extension"),
        (ON | {"content-compatible": "yes"}, "content-compatible=yes"),
        (ON | {"time-zone": "Asia/Nowhere"}, "time-zone=Asia/Nowhere"),
        (ON | {"time-zone": "../etc/passwd"}, "time-zone="),
        (ON | {"output-row-key": "true"}, "output-row-key=true"),
        (ON | {"large-message-handle-compression": "lz4"}, "large-message-handle-compression=lz4"),
    ],
)
def test_an_option_that_cannot_be_written_is_refused_by_name(options: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        encoder("canal-json", architecture="new", options=options)


def test_what_changes_nothing_is_let_pass() -> None:
    given = {"large-message-handle-option": "none", "output-row-key": "false", "max-message-bytes": "1000", "content-compatible": "False"}
    assert encoder("canal-json", architecture="new", options=ON | given) == CanalJsonEncoder(ZoneInfo("UTC"))


def test_without_a_definition_it_names_the_table() -> None:
    schema = TableSchema(TableName("shop", "t"), (Column("id", "int"),), ("id",))
    with pytest.raises(SinkError, match=r"what shop\.t was made of"):
        made().rows(schema, changes((None, ["1"])), None)


def test_a_value_that_does_not_fit_names_table_and_column() -> None:
    with pytest.raises(SinkError, match=r"table shop\.t, column e: the value 'z' is no label of the enum"):
        made().rows(table({"e": "enum('x','y''z')"}, ()), changes((None, ["x"]), (None, ["z"])), None)
