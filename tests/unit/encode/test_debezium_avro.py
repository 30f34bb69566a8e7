"""debezium-avro: what an independent reader of Avro gets is debezium's payload, in any table and with any options."""

from __future__ import annotations

import io
import json
import pickle
from base64 import b64encode
from dataclasses import dataclass, field
from random import Random
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.codecs.encode import debezium, debezium_avro
from spark_merge.codecs.encode.debezium_avro import DebeziumAvroEncoder
from spark_merge.port.contract import CHANGES, RANK_CHUNK
from tests.lanes import examples
from tests.support import slow_avro, slow_canal
from tests.unit.encode.test_avro import changes

_DATED = {"date", "datetime", "timestamp"}
"""Of a key, a date that no calendar has stops the sink."""

BASE = {"topic-prefix": "p-1", "invalid-dates": "null-or-epoch"}


@dataclass
class Schemas:
    """By their ids."""

    texts: list[tuple[str, str]] = field(default_factory=list)

    def id_of(self, subject: str, schema: str) -> int:
        if (subject, schema) not in self.texts:
            self.texts.append((subject, schema))
        return self.texts.index((subject, schema))

    def read(self, message: bytes) -> Any:
        """As JSON has it."""
        schema = json.loads(self.texts[int.from_bytes(message[1:5], "big")][1].replace('"logicalType":"decimal"', '"x":1'))
        file = io.BytesIO(message[5:])
        content = fastavro.schemaless_reader(file, fastavro.parse_schema(schema), None)
        assert not file.read()
        return json.loads(json.dumps(content, default=lambda data: b64encode(data).decode()))


def made(schemas: Schemas, **options: str) -> DebeziumAvroEncoder:
    named = BASE | {name.replace("_", "-"): value for name, value in options.items()}
    return debezium_avro.encoder(architecture="classic", options=named, schema_ids=schemas)


def _key(schema: TableSchema) -> list[Column]:
    return [column for column in schema.columns if column.name in schema.key]


def same(one: Any, other: Any) -> bool:
    """A float has the digits of 32 bits in JSON, of 64 in Avro's reader. A name is Avro's."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == [slow_avro.sanitized(name) for name in other] and all(map(same, one.values(), other.values()))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return one == other or bool(np.float32(one) == np.float32(other))
    return bool(one == other)


@pytest.mark.parametrize("seed", range(examples(60)))
def test_a_reader_of_avro_has_the_payload_of_json(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(debezium_avro, "_BLOCK_ROWS_MAX", random.choice([1, 7, 8192]))
    schema = next(one for one in iter(lambda: slow_avro.random_table(random), None) if not _DATED & {of.kind for of in _key(one)})
    rows = slow_canal.random_changes(random, schema, random.choice([0, 1, 40])).to_pylist()
    options = {
        "decimal_handling_mode": random.choice(["precise", "string"]),
        "bigint_unsigned_handling_mode": (unsigned := random.choice(["precise", "string", "long"])),
        "delete_only_output_handle_key_columns": random.choice(["true", "false"]),
    }
    rows = slow_avro.filled(random, schema, rows, long_max=unsigned == "long")
    rows = [row | ({"rank": RANK_CHUNK} if row["op"] == "insert" and random.random() < 0.5 else {}) for row in rows]
    given, schemas = pa.Table.from_pylist(rows, schema=CHANGES), Schemas()
    keys_only = random.random() < 0.3
    result = made(schemas, **options).rows(schema, given, None, keys_only=keys_only, topic="t")
    bare = BASE | {"debezium-disable-schema": "true"} | {name.replace("_", "-"): value for name, value in options.items()}
    in_json = debezium.encoder(architecture="classic", options=bare).rows(schema, given, None, keys_only=keys_only)
    for (key, value), (json_key, json_value) in zip(result, in_json, strict=True):
        assert same(schemas.read(key or b""), json.loads(json_key or b""))
        assert same(schemas.read(value or b""), json.loads(json_value or b""))
    assert {subject for subject, _ in schemas.texts} == ({"t-key", "t-value"} if rows else set())


def test_a_row_by_hand() -> None:
    schemas, schema = Schemas(), slow_canal.table({"id": "int(11)", "v": "varchar(9)"}, ("id",))
    [(key, value)] = made(schemas).rows(schema, changes((None, ["7", "ab"])), None)
    assert key == b"\0\0\0\0\0\x0e"
    assert value is not None
    assert value.startswith(b"\0\0\0\0\1" + b"\0" + b"\2\x0e\2\4ab")
    assert schemas.texts[0][1] == (
        '{"type":"record","name":"Key","namespace":"p_1.shop.t","fields":[{"name":"id","type":"int"}],"connect.name":"p_1.shop.t.Key"}'
    )


def test_what_does_not_fit_stops() -> None:
    twins = slow_canal.table({"a-b": "int(11)", "a_b": "int(11)"}, ("a-b",))
    with pytest.raises(SinkError, match="both a_b in Avro"):
        made(Schemas()).rows(twins, changes((None, ["1", "2"])), None)
    schema = slow_canal.table({"id": "int(11)"}, ("id",))
    with pytest.raises(SinkError, match="column id: a row has no value of it, and it is NOT NULL"):
        made(Schemas()).rows(schema, changes((None, [None])), None)


def test_it_goes_to_tasks_and_the_rest_is_debeziums() -> None:
    encoder = made(Schemas())
    assert pickle.loads(pickle.dumps(encoder)) == encoder
    assert encoder.resolved(7) == debezium.encoder(architecture="classic", options=BASE).resolved(7)  # type: ignore[arg-type]
