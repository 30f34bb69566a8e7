"""Schemas of Kafka Connect, in the JSON of debezium_schema.py, as the Avro schemas that Confluent's AvroConverter makes of them, by its
defaults; the text is that of Avro's Java library. Names are made Avro's, as Debezium does with `schema.name.adjustment.mode=avro` and
`field.name.adjustment.mode=avro`.

    int16   int with connect.type      int32   int       int64   long      float   float      double   double      struct   record
    optional   a union with null: null first, but behind a type that has a default
    default    the field's, and connect.default of its type; of bytes a text with a letter up to U+00FF for each
    Decimal    bytes with the logical type decimal; all other names of Connect are properties alone: connect.name, .version, .parameters

Source: confluentinc/schema-registry at 00c6c54, AvroData.java (fromConnectSchema); debezium SchemaNameAdjuster.java.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from sidecar.shared.codecs.avro import avro_name
from spark_merge.codecs.encode.debezium_fields import DECIMAL
from spark_merge.codecs.encode.debezium_schema import Schema

_TYPES = {"int16": "int", "int32": "int", "int64": "long"}


def avro_text(schema: Schema) -> str:
    """JSON."""
    return json.dumps(_avro(schema, "", set()), ensure_ascii=False, separators=(",", ":"))


def avro_full_name(name: str) -> str:
    return ".".join(map(avro_name, name.split(".")))


def _avro(schema: Schema, space: str, known: set[str]) -> Any:
    """`space`: of the record around it. `known`: records that come before it, which are named alone."""
    made = _record(schema, space, known) if schema["type"] == "struct" else _plain(schema, space, known)
    if not schema.get("optional"):
        return made
    return [made, "null"] if "default" in schema else ["null", made]


def _record(schema: Schema, space: str, known: set[str]) -> Any:
    full = avro_full_name(schema["name"])
    own_space, _, name = full.rpartition(".")
    if full in known:
        return name if own_space == space else full
    known.add(full)
    named = {"name": name} if own_space == space else {"name": name, "namespace": own_space}
    fields = [_field(one, own_space, known) for one in schema["fields"]]
    return {"type": "record", **named, "fields": fields, **_properties(schema)}


def _field(schema: Schema, space: str, known: set[str]) -> dict[str, Any]:
    default = {"default": _default(schema)} if "default" in schema or schema.get("optional") else {}
    return {"name": avro_name(schema["field"]), "type": _avro(schema, space, known), **default}


def _default(schema: Schema) -> Any:
    """JsonConverter's is base64 for bytes."""
    value = schema.get("default")
    return base64.b64decode(value).decode("iso-8859-1") if schema["type"] == "bytes" and value is not None else value


def _plain(schema: Schema, space: str, known: set[str]) -> Any:
    kind, properties = schema["type"], _properties(schema)
    made: dict[str, Any] = {"type": _TYPES.get(kind, kind)}
    if kind == "array":
        made["items"] = _avro(schema["items"], space, known)
    if schema.get("name") == DECIMAL:
        parameters = schema["parameters"]
        made |= {"scale": int(parameters["scale"]), "precision": int(parameters["connect.decimal.precision"])}
        properties["logicalType"] = "decimal"
    if kind == "int16":
        properties["connect.type"] = "int16"
    return {**made, **properties} if properties or kind == "array" else made["type"]


def _properties(schema: Schema) -> dict[str, Any]:
    """Connect's, in the order in which AvroData adds them."""
    parts = {"connect.version": "version", "connect.parameters": "parameters", "connect.default": "default", "connect.name": "name"}
    made = {name: schema[part] for name, part in parts.items() if schema.get(part) is not None}
    if "connect.default" in made:
        made["connect.default"] = _default(schema)
    if "connect.name" in made and schema["type"] == "struct":
        made["connect.name"] = avro_full_name(made["connect.name"])
    return made
