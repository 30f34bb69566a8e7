"""A table's Avro schemas as TiCDC writes them, and what each of its columns is in them. The text is TiCDC's to the letter.

    tinyint smallint mediumint int year       int      (int unsigned: long)
    bigint                                    long     (unsigned: long, or string with avro-bigint-unsigned-handling-mode=string)
    float, double                             float, double
    decimal                                   bytes with the logical type decimal, or string with avro-decimal-handling-mode=string
    bit, binary and blob types                bytes
    text types, enum, set, json, dates, vector   string

- Each type has `connect.parameters` with its `tidb_type`. Names are sanitized (`avro_name`); a record is named after its table, in the
  namespace `{changefeed's namespace}.{schema}`, for the key as for the value.
- A column that may be NULL is a union with null: null first, unless the column has a default, which Avro wants to be of the first branch. A
  decimal in bytes has no default but null.
- With `before` the value has the row as it was in `_ticdc_before`; with the TiDB extension `_tidb_op` (of `before` too), `_tidb_commit_ts`
  and `_tidb_commit_physical_time`.

Where TiCDC's schema would be wrong: it has the default of a column of bytes in base64, which a reader takes for the bytes; here it is as
Avro has it. Where TiCDC would stop (a number's default that is an expression) there is none.
Source: pingcap/ticdc pkg/sink/codec/avro/arvo.go, pingcap/tiflow pkg/sink/codec/avro/avro.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from sidecar.shared.codecs.avro import avro_name
from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, ColumnDefinition, TableName, TableSchema
from spark_merge.codecs.encode import go_json
from spark_merge.codecs.encode.avro_columns import NULL_FIRST, NULL_LAST, Branches
from spark_merge.codecs.encode.defaults import default_bits, default_text
from spark_merge.codecs.encode.messages import definition_of
from spark_merge.codecs.encode.typed import DECIMAL_DIGITS_MAX

AvroForm: TypeAlias = Literal["long", "float", "double", "bits", "decimal", "bytes", "string"]
"""How a canonical text is written. int is written as long is."""

BEFORE, OP, COMMIT_TS, PHYSICAL_MS = "_ticdc_before", "_tidb_op", "_tidb_commit_ts", "_tidb_commit_physical_time"
_ADDED = (BEFORE, OP, COMMIT_TS, PHYSICAL_MS)

_INTEGERS = {"tinyint": "int", "smallint": "int", "mediumint": "int", "int": "int", "bigint": "long", "year": "int"}
_TIDB_TYPES = {
    "tinyint": "INT", "smallint": "INT", "mediumint": "INT", "int": "INT", "bigint": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "bit": "BIT", "decimal": "DECIMAL", "enum": "ENUM", "set": "SET", "json": "JSON", "date": "DATE", "datetime": "DATETIME",
    "timestamp": "TIMESTAMP", "time": "TIME", "year": "YEAR", "vector": "TiDBVECTORFloat32",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AvroShape:
    """What TiCDC's options say of a schema. `namespace`: the changefeed's. `wide_bits`: a BIT has as many bytes as its type, as the new
    architecture writes it, not as its value."""

    decimal_as_text: bool = False
    unsigned_as_text: bool = False
    extension: bool = False
    before: bool = False
    namespace: str = "default"
    wide_bits: bool = False


@dataclass(frozen=True, slots=True)
class AvroColumn:
    """`place`: in the table. `union`: None where the column is NOT NULL."""

    column: Column
    place: int
    form: AvroForm
    union: Branches | None


@dataclass(frozen=True, slots=True)
class AvroTable:
    """`key` and `value`: the columns in them; the schemas are JSON."""

    schema: TableSchema
    key: tuple[AvroColumn, ...]
    value: tuple[AvroColumn, ...]
    key_schema: str
    value_schema: str


def avro_table(schema: TableSchema, shape: AvroShape) -> AvroTable:
    """Raises SinkError where the log does not tell what the table was made of, and for two columns of one name in Avro."""
    definitions = {one.name: one for one in definition_of(schema).columns}
    made = [_column(schema.name, place, one, definitions.get(one.name), shape) for place, one in enumerate(schema.columns)]
    check_names(schema, [*schema.column_names(), *(_ADDED if shape.extension or shape.before else ())])
    fields = [field for _, field in made]
    record = _record(schema.name, fields, shape)
    in_key = [(one, field) for one, field in made if one.column.name in schema.key]
    return AvroTable(
        schema=schema,
        key=tuple(one for one, _ in in_key),
        value=tuple(one for one, _ in made),
        key_schema=_go_json({**record, "fields": [field for _, field in in_key]}),
        value_schema=_go_json({**record, "fields": [*fields, *_added(schema.name, fields, shape)]}),
    )


def _record(name: TableName, fields: Sequence[Any], shape: AvroShape, suffix: str = "") -> dict[str, Any]:
    space = ".".join(filter(None, (avro_name(shape.namespace), avro_name(name.schema))))
    return {"type": "record", "name": avro_name(name.table) + suffix, "namespace": space, "fields": list(fields)}


def _added(name: TableName, fields: Sequence[Any], shape: AvroShape) -> list[dict[str, Any]]:
    added: list[dict[str, Any]] = []
    if shape.before:
        added.append({"default": None, "name": BEFORE, "type": ["null", _record(name, fields, shape, "_before")]})
    if shape.before or shape.extension:
        added.append({"default": "", "name": OP, "type": "string"})
    if shape.extension:
        added += [{"default": 0, "name": field, "type": "long"} for field in (COMMIT_TS, PHYSICAL_MS)]
    return added


def check_names(schema: TableSchema, names: Sequence[str]) -> None:
    """Raises SinkError for two that are one in Avro."""
    taken: dict[str, str] = {}
    for name in names:
        if (other := taken.get(avro_name(name))) is not None:
            raise SinkError(
                f"table {schema.name}: its columns {other} and {name} are both {avro_name(name)} in Avro",
                hint="rename one of them, or leave it out of this sink by a column rule",
            )
        taken[avro_name(name)] = name


def _column(
    table: TableName, place: int, column: Column, made: ColumnDefinition | None, shape: AvroShape
) -> tuple[AvroColumn, dict[str, Any]]:
    """The column, and its field."""
    if made is None:
        raise SinkError(
            f"table {table}, column {column.name}: it is not among those that the table was made of",
            hint="check that the log is whole, then report this: the definition in the log's schemas does not fit the columns",
        )
    form, type_ = _type(column, made.type_text, shape)
    default = _default(table, column, made, form)
    name, last = avro_name(column.name), default is not None
    if not column.nullable:
        field = {"default": default, "name": name, "type": type_} if last else {"name": name, "type": type_}
        return AvroColumn(column, place, form, None), field
    union = NULL_LAST if last else NULL_FIRST
    return AvroColumn(column, place, form, union), {"default": default, "name": name, "type": [type_, "null"] if last else ["null", type_]}


def _type(column: Column, type_text: str, shape: AvroShape) -> tuple[AvroForm, dict[str, Any]]:
    word, _, inside = type_text.partition("(")
    word = word.partition(" ")[0]
    unsigned = " UNSIGNED" if column.kind == "uint" else ""
    parameters = {"tidb_type": _TIDB_TYPES.get(word, "BLOB" if column.kind == "binary" else "TEXT") + unsigned}
    form: AvroForm = "string"
    type_ = "string"
    match column.kind:
        case "int" | "uint" | "year":
            as_text = word == "bigint" and unsigned and shape.unsigned_as_text
            type_ = "string" if as_text else "long" if word == "int" and unsigned else _INTEGERS[word]
            form = "string" if as_text else "long"
        case "float" | "double":
            type_ = form = column.kind
        case "bit":
            type_, form, parameters = "bytes", "bits", {"length": str(column.length), **parameters}
        case "binary":
            type_ = form = "bytes"
        case "enum" | "set":
            labels = (label.replace(",", "\\,").replace("\\'", "'").replace("''", "'") for label in column.elements)
            parameters = {"allowed": ",".join(labels), **parameters}
        case "decimal" if not shape.decimal_as_text:
            logical = {"logicalType": "decimal", "precision": _precision(column, inside), "scale": column.scale}
            return "decimal", {"type": "bytes", "connect.parameters": parameters, **logical}
        case _:
            pass
    return form, {"type": type_, "connect.parameters": parameters}


def _precision(column: Column, inside: str) -> int:
    digits = re.match(r"\d+", inside)
    return column.length if column.length > 0 else int(digits[0]) if digits else DECIMAL_DIGITS_MAX


def _default(table: TableName, column: Column, made: ColumnDefinition, form: AvroForm) -> Any:
    """In JSON; None without one."""
    if (bits := default_bits(made)) is not None:
        return bits.to_bytes(max(1, (column.length + 7) // 8), "big").decode("latin-1")
    text = default_text(made)
    if text is None or (made.default or "").upper() == "NULL" or form == "decimal":
        return None
    try:
        match form:
            case "long":
                return _long(table, column, int(text))
            case "float":
                return _Float(float(np.float32(float(text))))
            case "double":
                return _Float(float(text))
            case "bytes":
                return text.encode().decode("latin-1") if (made.default or "").startswith("'") else None
            case _:
                return text
    except ValueError:
        return None  # an expression


def _long(table: TableName, column: Column, number: int) -> int:
    if number >= 1 << 63:
        raise SinkError(f"table {table}, column {column.name}: its default {number} fits no long of Avro", hint=UNSIGNED_HINT)
    return number


UNSIGNED_HINT = "set avro-bigint-unsigned-handling-mode=string: TiCDC would write it as a negative number"


class _Float(float):
    """Of which the text is Go's."""


def _go_json(value: Any) -> str:
    """As encoding/json, whose maps are sorted: the caller has them so."""
    match value:
        case dict():
            return "{" + ",".join(f"{_go_json(name)}:{_go_json(one)}" for name, one in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_go_json, value)) + "]"
        case str():
            return go_json.string(value, html=True)
        case _Float():
            return str(go_json.floats(pa.array([repr(float(value))]), bits=64, html=True)[0].as_py())
        case _:
            return json.dumps(value)
