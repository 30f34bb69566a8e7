"""A column as Debezium's MySQL connector describes it: the Connect type of its field, by its defaults but for what options say.

    tinyint, smallint, tinyint unsigned      int16        smallint unsigned, mediumint, int    int32        int unsigned, bigint    int64
    bigint unsigned    precise: Decimal of scale 0; string: string; long: int64
    decimal            precise: Decimal; string: string           float   float32, with digits after the point float64; double   float64
    char, varchar, text   string       json   Json       enum, set   Enum, EnumSet       binary, blob   bytes       vector   FloatVector
    bit(1)   boolean      bit(n)   Bits, of little-endian bytes      year   Year         date   Date        time   MicroTime
    datetime   Timestamp up to three digits of a second, else MicroTimestamp             timestamp   ZonedTimestamp, in UTC

A column that is NOT NULL is a required field, every other an optional one. A schema has the default of a required field
(debezium_schema.py), and of no optional one: Connect's readers put it where a value is NULL. Which values fields have:
debezium_values.py. Their form: debezium_json.py.

Source: debezium at aad55199, debezium-connector-binlog BinlogValueConverters.java, debezium-connector-common JdbcValueConverters.java,
SchemaFactory.java, TableSchemaBuilder.java.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias, TypeVar, assert_never

from sidecar.shared.errors import ConfigError, SinkError
from sidecar.shared.model.nouns import Column, ColumnDefinition, TableName, TableSchema
from sidecar.shared.ticdc.topics import substituted
from spark_merge.codecs.encode.messages import definition_of

Unsigned: TypeAlias = Literal["precise", "string", "long"]
Decimals: TypeAlias = Literal["precise", "string"]
InvalidDates: TypeAlias = Literal["error", "null-or-epoch"]

PREFIX, BARE, DECIMALS, UNSIGNED, INVALID_DATES, KEY_OF_DELETED = (
    "topic-prefix",
    "debezium-disable-schema",
    "decimal-handling-mode",
    "bigint-unsigned-handling-mode",
    "invalid-dates",
    "delete-only-output-handle-key-columns",
)

DECIMAL = "org.apache.kafka.connect.data.Decimal"
DECIMAL_DIGITS_MAX = 65
"""TiDB's largest precision."""

_BIGINT_DIGITS = 20
_DATA, _TIME = "io.debezium.data.", "io.debezium.time."
_TABLES_MAX = 4096
"""Tables whose fields a process keeps."""

_WIDTHS = {"tinyint": 16, "smallint": 16, "mediumint": 32, "int": 32, "integer": 32, "bigint": 64, "boolean": 16, "bool": 16}
_DOUBLED = frozenset({"smallint", "int", "integer"})
"""Of the signed ones the bits; of these an unsigned one needs twice as many."""

_BIGINT_BITS = 64
_INTEGERS = frozenset({"int16", "int32", "int64"})

_WORD = re.compile(r"[a-z]+")


Word = TypeVar("Word")


@dataclass(frozen=True, slots=True)
class DebeziumOptions:
    """`prefix`: Debezium's topic.prefix. `bare`: messages have no schema in them."""

    prefix: str = ""
    bare: bool = False
    decimals: Decimals = "precise"
    unsigned: Unsigned = "precise"
    invalid_dates: InvalidDates = "error"
    key_of_deleted: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> DebeziumOptions:
        """Raises ConfigError."""
        return cls(
            prefix=options.get(PREFIX, ""),
            bare=_flag(options, BARE),
            decimals=_word(options, DECIMALS, {"precise": "precise", "string": "string"}),
            unsigned=_word(options, UNSIGNED, {"precise": "precise", "string": "string", "long": "long"}),
            invalid_dates=_word(options, INVALID_DATES, {"error": "error", "null-or-epoch": "null-or-epoch"}),
            key_of_deleted=_flag(options, KEY_OF_DELETED),
        )


def _word(options: Mapping[str, str], name: str, words: Mapping[str, Word]) -> Word:
    value = options.get(name) or next(iter(words))
    if value not in words:
        raise ConfigError(f"{name}={value} is none of {', '.join(words)}", hint=f"set {name} to one of these")
    return words[value]


def _flag(options: Mapping[str, str], name: str) -> bool:
    return _word(options, name, {"false": False, "true": True})


@dataclass(frozen=True, slots=True)
class ConnectType:
    """A type of Kafka Connect under the name that its JSON has for it. `name`: of a logical type, empty for none. `items`: of an array."""

    type: str
    name: str = ""
    version: int = 1
    parameters: tuple[tuple[str, str], ...] = ()
    items: str = ""


@dataclass(frozen=True, slots=True)
class DebeziumField:
    """`place`: of the column in the schema."""

    column: Column
    place: int
    type: ConnectType
    is_key: bool

    @property
    def optional(self) -> bool:
        return self.column.nullable and not self.is_key


@lru_cache(maxsize=_TABLES_MAX)
def fields_of_table(schema: TableSchema, options: DebeziumOptions) -> tuple[DebeziumField, ...]:
    """In the order of the columns. Raises SinkError if its definition is absent, or does not tell a column."""
    by_name = {one.name: one for one in definition_of(schema).columns}
    fields = []
    for place, column in enumerate(schema.columns):
        definition = by_name.get(column.name)
        word = _WORD.match(definition.type_text) if definition is not None else None
        if word is None or (column.kind in ("int", "uint") and word[0] not in _WIDTHS):
            raise SinkError(
                f"the definition of {schema.name} in the log does not tell the type of column {column.name}",
                hint="the log's schemas file does not fit its data: check that the log is whole, then report this",
            )
        fields.append(DebeziumField(column, place, _type_of(column, definition, options), column.name in schema.key))
    return tuple(fields)


def table_name(prefix: str, table: TableName) -> str:
    """Of a table's topic and of its schemas. What Kafka does not allow in a topic is `_`."""
    return substituted(f"{prefix}.{{schema}}.{{table}}", prefix, table)


def fits(column: Column, written: ConnectType, options: DebeziumOptions) -> bool:
    """Whether a field that was `written` with this type has values that are read as the column's: the same bytes mean the same."""
    match column.kind:
        case "int" | "uint" if not written.name and written.type in _INTEGERS:
            return True
        case "int":
            return False
        case "uint":
            return _same(_big_unsigned(options), written)
        case "float":
            return not written.name and written.type in ("float", "double")
        case "bit":
            return written.type == "boolean" or written.name == f"{_DATA}Bits"
        case _:
            return _same(_type_of(column, None, options), written)


def _same(one: ConnectType, other: ConnectType) -> bool:
    """Labels are texts, whatever others there are, and a Decimal is its digits."""
    scale = (dict(one.parameters).get("scale"), dict(other.parameters).get("scale"))
    return (one.type, one.name) == (other.type, other.name) and scale[0] == scale[1]


def _type_of(column: Column, definition: ColumnDefinition | None, options: DebeziumOptions) -> ConnectType:
    """`definition`: which of some types of one kind it is."""
    match column.kind:
        case "int" | "uint":
            return _integer(column, definition, options)
        case "float":
            with_digits = definition is not None and re.match(r"float\(\d+,", definition.type_text)
            return ConnectType("double" if with_digits else "float")
        case "double":
            return ConnectType("double")
        case "decimal":
            digits = column.length if column.length > 0 else DECIMAL_DIGITS_MAX
            return ConnectType("string") if options.decimals == "string" else decimal_type(digits, column.scale)
        case "text":
            return ConnectType("string")
        case "binary":
            return ConnectType("bytes")
        case "json":
            return ConnectType("string", f"{_DATA}Json")
        case "enum" | "set":
            allowed = ",".join(label.replace("\\", "\\\\").replace(",", "\\,") for label in column.elements)
            return ConnectType("string", f"{_DATA}{'Enum' if column.kind == 'enum' else 'EnumSet'}", parameters=(("allowed", allowed),))
        case "bit":
            return ConnectType("bytes", f"{_DATA}Bits", parameters=(("length", str(column.length)),)) if column.length > 1 else _BOOLEAN
        case "year":
            return ConnectType("int32", f"{_TIME}Year")
        case "date":
            return ConnectType("int32", f"{_TIME}Date")
        case "time":
            return ConnectType("int64", f"{_TIME}MicroTime")
        case "datetime":
            return ConnectType("int64", f"{_TIME}{'Timestamp' if column.scale <= MILLIS_DIGITS else 'MicroTimestamp'}")
        case "timestamp":
            return ConnectType("string", f"{_TIME}ZonedTimestamp")
        case "vector":
            return ConnectType("array", f"{_DATA}FloatVector", items="float")
        case _ as never:
            assert_never(never)


MILLIS_DIGITS = 3
"""Of a second: a DATETIME with more is in microseconds."""

_BOOLEAN = ConnectType("boolean")


def decimal_type(digits: int, scale: int) -> ConnectType:
    return ConnectType("bytes", DECIMAL, parameters=(("scale", str(scale)), ("connect.decimal.precision", str(digits))))


def _integer(column: Column, definition: ColumnDefinition | None, options: DebeziumOptions) -> ConnectType:
    word = _WORD.match(definition.type_text) if definition is not None else None
    bits = _WIDTHS[word[0]] if word is not None else _BIGINT_BITS
    if column.kind == "int":
        return ConnectType(f"int{bits}")
    if bits == _BIGINT_BITS:
        return _big_unsigned(options)
    return ConnectType(f"int{2 * bits if word is not None and word[0] in _DOUBLED else bits}")


def _big_unsigned(options: DebeziumOptions) -> ConnectType:
    match options.unsigned:
        case "precise":
            return decimal_type(_BIGINT_DIGITS, 0)
        case "string":
            return ConnectType("string")
        case "long":
            return ConnectType("int64")
        case _ as never:
            assert_never(never)
