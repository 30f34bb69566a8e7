"""Connect's schemas in Avro, as Confluent's AvroData makes them."""

from __future__ import annotations

import json
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest

from spark_merge.codecs.encode.connect_avro import avro_full_name, avro_text
from spark_merge.codecs.encode.debezium_fields import ConnectType, decimal_type
from spark_merge.codecs.encode.debezium_schema import array, of_type, simple, struct


@pytest.mark.parametrize(
    ("connect", "avro"),
    [
        (simple("int32"), "int"),
        (simple("int64", optional=True), ["null", "long"]),
        (simple("boolean"), "boolean"),
        (simple("float"), "float"),
        (simple("int16"), {"type": "int", "connect.type": "int16"}),
        (simple("bytes"), "bytes"),
        (array(simple("string")), {"type": "array", "items": "string"}),
        (of_type(ConnectType("int32", "a.Date")), {"type": "int", "connect.version": 1, "connect.name": "a.Date"}),
        (
            of_type(ConnectType("string", "io.debezium.data.Enum", parameters=(("allowed", "a,b"),)), optional=True) | {"default": "a"},
            [
                {
                    "type": "string", "connect.version": 1, "connect.parameters": {"allowed": "a,b"}, "connect.default": "a",
                    "connect.name": "io.debezium.data.Enum",
                },
                "null",
            ],
        ),
        (
            of_type(decimal_type(10, 2)),
            {
                "type": "bytes", "scale": 2, "precision": 10, "connect.version": 1,
                "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
                "connect.name": "org.apache.kafka.connect.data.Decimal", "logicalType": "decimal",
            },
        ),
    ],
)  # fmt: skip
def test_each_type(connect: Any, avro: Any) -> None:
    text = avro_text(connect)
    assert text == json.dumps(avro, separators=(",", ":"))
    fastavro.parse_schema(json.loads(text))


@pytest.mark.parametrize(
    ("connect", "default", "value"),
    [
        (simple("int64"), 7, 7),
        (simple("double"), 1.0, 1.0),
        (simple("string"), "é", "é"),
        (of_type(decimal_type(10, 2)), "BOI=", Decimal("12.50")),
        (of_type(decimal_type(10, 2)), "/w==", Decimal("-0.01")),
    ],
)
def test_a_default_is_what_avros_readers_make_of_it(connect: Any, default: Any, value: Any) -> None:
    """A record that was written before the field came."""
    old, new = struct("a.R", [("id", simple("int32"))]), struct("a.R", [("id", simple("int32")), ("c", {**connect, "default": default})])
    written, read = (fastavro.parse_schema(json.loads(avro_text(one))) for one in (old, new))
    data = BytesIO()
    fastavro.schemaless_writer(data, written, {"id": 1})
    data.seek(0)
    row = fastavro.schemaless_reader(data, written, read)
    assert isinstance(row, dict)
    in_bytes = isinstance(row["c"], bytes | str) and isinstance(value, Decimal)
    result = Decimal(int.from_bytes(_bytes(row["c"]), "big", signed=True)).scaleb(-2) if in_bytes else row["c"]
    assert result == value
    assert json.loads(avro_text(new))["fields"][1]["type"]["connect.default"] == json.loads(avro_text(new))["fields"][1]["default"]


def _bytes(default: bytes | str) -> bytes:
    """fastavro gives a default as the schema has it."""
    return default if isinstance(default, bytes) else default.encode("iso-8859-1")


def test_records_are_named_once_and_fields_have_avros_names() -> None:
    value = struct("p-1.shop.1t.Value", [("a-b", simple("int32", optional=True))], version=None, optional=True)
    source = struct("io.x.Source", [("pos", simple("int64"))])
    envelope = struct("p-1.shop.1t.Envelope", [("before", value), ("after", value), ("source", source)], version=2)
    assert avro_text(envelope) == (
        '{"type":"record","name":"Envelope","namespace":"p_1.shop._1t","fields":['
        '{"name":"before","type":["null",{"type":"record","name":"Value","fields":[{"name":"a_b","type":["null","int"],"default":null}],'
        '"connect.name":"p_1.shop._1t.Value"}],"default":null},'
        '{"name":"after","type":["null","Value"],"default":null},'
        '{"name":"source","type":{"type":"record","name":"Source","namespace":"io.x","fields":[{"name":"pos","type":"long"}],'
        '"connect.version":1,"connect.name":"io.x.Source"}}],"connect.version":2,"connect.name":"p_1.shop._1t.Envelope"}'
    )
    assert avro_full_name("a.9-b.c") == "a._9_b.c"
