"""avro, held equal to a slow writer, and to bytes that follow from TiCDC's source."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from sidecar.shared.codecs.avro import wire_head
from sidecar.shared.errors import ConfigError, SinkError
from sidecar.shared.model.nouns import Column, ColumnDefinition, CommitTs, TableDefinition, TableName, TableSchema
from spark_merge.codecs.encode import avro
from spark_merge.codecs.encode.avro import AvroEncoder
from spark_merge.codecs.encode.messages import Architecture
from spark_merge.port.contract import CHANGES
from tests.lanes import examples
from tests.support import slow_avro, slow_canal
from tests.support.slow_avro import Slow

TS = CommitTs(470609322879221771)
DEFAULT = wire_head(0)


@dataclass
class Ids:
    """Of schemas in the order in which they came, from 0."""

    schemas: dict[tuple[str, str], int] = field(default_factory=dict)

    def id_of(self, subject: str, schema: str) -> int:
        return self.schemas.setdefault((subject, schema), len(self.schemas))


def made(slow: Slow = Slow(), ids: Ids | None = None) -> AvroEncoder:  # noqa: B008  (it is frozen)
    options = {
        "avro-decimal-handling-mode": slow.decimal,
        "avro-bigint-unsigned-handling-mode": slow.unsigned,
        "enable-tidb-extension": str(slow.extension).lower(),
        "avro-include-before-value": str(slow.before).lower(),
        "delete-only-output-handle-key-columns": str(slow.key_only).lower(),
        "time-zone": slow.zone,
    }
    architecture: Architecture = "new" if slow.new else "classic"
    return avro.encoder(architecture=architecture, options=options, schema_ids=ids or Ids())


def changes(*rows: tuple[list[str | None] | None, list[str | None] | None]) -> pa.Table:
    """Of old and new images."""
    ops = ["insert" if old is None else "delete" if new is None else "update" for old, new in rows]
    given = [
        {"seq": 1, "commit_ts": TS, "rank": 1, "ordinal": n, "schema": "shop", "table": "t", "op": op, "key": str(n), "before": old}
        | {"after": new}
        for n, (op, (old, new)) in enumerate(zip(ops, rows, strict=True))
    ]
    return pa.Table.from_pylist(given, schema=CHANGES)


@pytest.mark.parametrize("seed", range(examples(60)))
def test_every_row_of_random_tables_is_the_slow_writers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(avro, "_BLOCK_ROWS_MAX", random.choice([1, 7, 8192]))
    schema = slow_avro.random_table(random)
    zone = random.choice(["UTC", "Asia/Shanghai", "Europe/Berlin"])
    extension, before, new, key_only = (random.random() < 0.5 for _ in range(4))
    slow = Slow(random.choice(["precise", "string"]), random.choice(["long", "string"]), extension, before, zone, new, key_only)
    rows = slow_canal.random_changes(random, schema, random.choice([0, 1, 40])).to_pylist()
    rows = slow_avro.filled(random, schema, rows, long_max=slow.unsigned == "long")
    ids = Ids()
    result = made(slow, ids).rows(schema, pa.Table.from_pylist(rows, schema=CHANGES), None, topic="a.b")
    key_id, value_id = (
        next((number for (subject, _), number in ids.schemas.items() if subject == f"a.b-{part}"), 0) for part in ("key", "value")
    )
    assert result == [slow_avro.message(schema, row, slow, key_id=key_id, value_id=value_id) for row in rows]
    for (subject, text), _ in ids.schemas.items():
        key = subject == "a.b-key"
        slowly = slow_avro.record_schema(schema, slow, schema.key) if key else slow_avro.value_schema(schema, slow)
        assert slow_avro.same_schema(text, slowly), (text, json.dumps(slowly))


SHOP = TableSchema(
    TableName("shop-1", "1orders"),
    (
        Column("id", "uint", nullable=False),
        Column("amount", "decimal", length=10, scale=2),
        Column("state", "enum", elements=("<new>", "a,b")),
        Column("at", "timestamp", nullable=False),
    ),
    ("id",),
    definition=TableDefinition((
        ColumnDefinition("id", "bigint(20) unsigned", nullable=False),
        ColumnDefinition("amount", "decimal(10,2)", default="'1.50'"),
        ColumnDefinition("state", "enum('<new>','a,b')", default="'<new>'"),
        ColumnDefinition("at", "timestamp", nullable=False, default="CURRENT_TIMESTAMP"),
    )),
)  # fmt: skip


def test_schemas_and_rows_by_hand() -> None:
    ids = Ids()
    [insert, delete] = made(Slow(extension=True), ids).rows(
        SHOP,
        changes((None, ["7", "-1.28", None, "2026-01-02 03:04:05"]), (["300", None, "a,b", "2026-01-02 03:04:05"], None)),
        None,
        topic="t",
    )
    (key_subject, key_schema), (value_subject, value_schema) = ids.schemas
    assert (key_subject, value_subject) == ("t-key", "t-value")
    head = '{"type":"record","name":"_1orders","namespace":"default.shop_1","fields":['
    id_field = '{"name":"id","type":{"type":"long","connect.parameters":{"tidb_type":"BIGINT UNSIGNED"}}}'
    assert key_schema == head + id_field + "]}"
    assert value_schema == (
        head + id_field + ',{"default":null,"name":"amount","type":["null",{"type":"bytes","connect.parameters":{"tidb_type":"DECIMAL"},'
        '"logicalType":"decimal","precision":10,"scale":2}]},'
        '{"default":"\\u003cnew\\u003e","name":"state","type":[{"type":"string","connect.parameters":'
        '{"allowed":"\\u003cnew\\u003e,a\\\\,b","tidb_type":"ENUM"}},"null"]},'
        '{"default":"CURRENT_TIMESTAMP","name":"at","type":{"type":"string","connect.parameters":{"tidb_type":"TIMESTAMP"}}},'
        '{"default":"","name":"_tidb_op","type":"string"},{"default":0,"name":"_tidb_commit_ts","type":"long"},'
        '{"default":0,"name":"_tidb_commit_physical_time","type":"long"}]}'
    )
    times = b"\x96\x80\xa0\xe3\xf1\xab\xf8\x87\r" + b"\x9a\x8e\xdf\xc2\xbfh"
    assert insert == (
        b"\0\0\0\0\0\x0e",
        b"\0\0\0\0\1\x0e" + b"\x02\x02\x80" + b"\x02" + b"\x262026-01-02 03:04:05" + b"\x02c" + times,
    )
    assert delete == (b"\0\0\0\0\0\xd8\x04", None)


def test_a_delete_has_its_row_with_the_option_alone_and_never_of_a_key_alone() -> None:
    given = changes((["7", None, None, "2026-01-02 03:04:05"], None))
    with_row = made(Slow(before=True))
    assert with_row.rows(SHOP, given, None)[0][1] is not None
    assert with_row.rows(SHOP, given, None, keys_only=True) == [(DEFAULT + b"\x0e", None)]
    assert with_row.rows(SHOP, changes((["7", None, None, None], None)), None, keys_only=True) == [(DEFAULT + b"\x0e", None)]


def test_a_number_that_no_long_holds_stops_and_names_the_option() -> None:
    given = changes((None, [str(1 << 63), None, None, "2026-01-02 03:04:05"]))
    with pytest.raises(SinkError, match=r"shop-1\.1orders, column id: the value 9223372036854775808 fits no long of Avro") as error:
        made().rows(SHOP, given, None)
    assert "avro-bigint-unsigned-handling-mode=string" in error.value.hint
    assert made(Slow(unsigned="string")).rows(SHOP, given, None)[0][0] == DEFAULT + b"\x269223372036854775808"


def test_what_does_not_fit_stops() -> None:
    with pytest.raises(SinkError, match="column at: a row has no value of it, and it is NOT NULL"):
        made().rows(SHOP, changes((None, ["7", None, None, None])), None)
    with pytest.raises(SinkError, match="column amount: a value is no decimal"):
        made().rows(SHOP, changes((None, ["7", "x", None, "2026-01-02 03:04:05"])), None)
    twins = slow_canal.table({"a-b": "int(11)", "a_b": "int(11)"}, ("a-b",))
    with pytest.raises(SinkError, match="its columns a-b and a_b are both a_b in Avro"):
        made().rows(twins, changes((None, ["1", "2"])), None)
    ours = slow_canal.table({"_tidb_op": "int(11)"}, ("_tidb_op",))
    assert made().rows(ours, changes((None, ["1"])), None)
    with pytest.raises(SinkError, match="its columns _tidb_op and _tidb_op are both _tidb_op in Avro"):
        made(Slow(extension=True)).rows(ours, changes((None, ["1"])), None)


def test_options() -> None:
    with pytest.raises(ConfigError, match="avro-decimal-handling-mode=double: avro is not written so"):
        made(Slow(decimal="double"))
    with pytest.raises(ConfigError, match="time-zone"):
        made(Slow(zone="Nowhere/At_All"))
    assert pickle.loads(pickle.dumps(made(Slow(zone="Asia/Shanghai")))).zone.key == "Asia/Shanghai"
    options: dict[str, Any] = {"avro-namespace": "keyspace1"}
    ids = Ids()
    avro.encoder(architecture="new", options=options, schema_ids=ids).rows(SHOP, changes(), None)
    assert not ids.schemas
    encoder = avro.encoder(architecture="new", options=options, schema_ids=ids)
    encoder.rows(SHOP, changes((["7", None, None, None], None)), None)
    assert '"namespace":"keyspace1.shop_1"' in next(iter(ids.schemas))[1]
