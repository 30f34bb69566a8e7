"""TiDB's cast of a stored text to a column's type: what a row has that lacks the column, and what a type can hold.

TableInfo keeps a column's default as the text that the DDL had, also when a later DDL changes the type. TiDB casts it whenever it reads
such a row: an INT rounds '1.5' to 2, a YEAR makes 2024 of 24, a CHAR drops spaces at the end. What TiDB refuses, or does by a setting of
the session, raises ValueError here.

Sources: pingcap/tidb pkg/table/column.go (CastColumnValue, GetColOriginDefaultValue), pkg/types/datum.go (ConvertTo, ConvertToMysqlYear,
ProduceDecWithSpecifiedTp), pkg/types/convert.go (floatStrToIntStr, roundIntStr), pkg/types/time.go (AdjustYear).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from struct import pack, unpack
from typing import Any, NamedTuple

from sidecar.shared.model.nouns import Column, ColumnDefinition, Kind
from sidecar.shared.rowcodec.definition import type_text
from sidecar.shared.sql.lexer import tokens

_SHAPE = re.compile(r"(\w+)(?:\((\d+)(?:,(\d+))?\))?(?: (unsigned))?", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
KINDS: Mapping[str, Kind] = {
    "tinyint": "int", "smallint": "int", "mediumint": "int", "int": "int", "bigint": "int",
    "float": "float", "double": "double", "decimal": "decimal", "bit": "bit", "year": "year", "json": "json", "vector": "vector",
    "date": "date", "time": "time", "datetime": "datetime", "timestamp": "timestamp", "enum": "enum", "set": "set",
    "char": "text", "varchar": "text", "tinytext": "text", "text": "text", "mediumtext": "text", "longtext": "text",
    "binary": "binary", "varbinary": "binary", "tinyblob": "binary", "blob": "binary", "mediumblob": "binary", "longblob": "binary",
}  # fmt: skip
"""Of the DATA_TYPE of information_schema; an unsigned integer is a `uint`."""
INTEGER_BITS: Mapping[str, int] = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
TEXT_BYTES: Mapping[str, int] = {
    "tinytext": (1 << 8) - 1, "text": (1 << 16) - 1, "mediumtext": (1 << 24) - 1, "longtext": (1 << 32) - 1,
    "tinyblob": (1 << 8) - 1, "blob": (1 << 16) - 1, "mediumblob": (1 << 24) - 1, "longblob": (1 << 32) - 1,
}  # fmt: skip
_YEAR_MIN, _YEAR_MAX, _YEAR_DIGITS = 1901, 2155, 4
_CENTURY_TURNS = 70
"""A year of two digits below it is of this century."""
_EXACT = Context(prec=200, Emax=400, Emin=-400)

_LITERAL = re.compile(r"-?\d+(?:\.\d+)?")
_MOMENTS = {
    "date": r"\d{4}-\d\d-\d\d",
    "datetime": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?",
    "timestamp": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?",
    "time": r"-?\d{2,3}:\d\d:\d\d(\.\d+)?",
}
"""Literals that TiDB keeps as they are: it reads others, such as '20200102', and stores what it made of them."""

_NOT_AS_TEXT = frozenset({"binary", "bit", "json", "vector"})
"""Kinds whose default the definition does not give as their canonical text."""


class ColumnType(NamedTuple):
    """What `Column` does not say of a type. `name` is SQL's, in small letters. `size`: characters of CHAR and VARCHAR, bytes of BINARY and
    VARBINARY, digits of DECIMAL and FLOAT; -1 where there is none. `charset` is empty where the type has none."""

    name: str
    size: int = -1
    scale: int = 0
    unsigned: bool = False
    charset: str = ""

    @classmethod
    def of(cls, type_text: str, charset: str = "") -> ColumnType:
        """`type_text`: as COLUMN_TYPE has it."""
        shape = _SHAPE.match(type_text)
        if shape is None:
            return cls(type_text, charset=charset)
        name, size, scale, unsigned = shape.groups()
        return cls(name.lower(), -1 if size is None else int(size), int(scale or 0), unsigned is not None, charset)


def column_type(definition: ColumnDefinition) -> ColumnType:
    """Of an enum or a set the name alone: Column has the labels."""
    return ColumnType.of(definition.type_text, definition.charset)


def field_type(value: Mapping[str, Any]) -> ColumnType:
    """Of TiDB's FieldType. Raises ValueError for a type that is unknown."""
    made = ColumnType.of(type_text(value), "" if value["Charset"] == "binary" else value["Charset"])
    return made if value["Flen"] >= 0 else made._replace(size=-1)  # a text without a length is not cut


# ---- defaults -------------------------------------------------------------------------------------------------------


def default_text(column: Column, default: Any, kind: ColumnType) -> str:
    """A default, as MySQL's text or a JSON number, as canonical text of the column. Raises ValueError."""
    text = str(default)
    match column.kind:
        case "int" | "uint":
            return _integer(text, kind)
        case "year":
            return _year(text, is_text=isinstance(default, str))
        case "float" | "double":
            return _float(text, column, kind)
        case "decimal":
            return _decimal(text, column, kind)
        case "binary":
            return _sized(text.encode(), kind).hex().upper().ljust(2 * max(column.length, 0), "0")
        case "text":
            return _text(text, kind)
        case "enum":
            return _label(text, column.elements)
        case "set":
            given = {_label(one, column.elements) for one in text.split(",")} if text else set()
            return ",".join(one for one in column.elements if one in given) if column.elements else text
        case "time" | "datetime" | "timestamp":
            return _with_fraction(text, column.scale)
        case _:
            return text


def _number(text: str) -> Decimal:
    bare = text.strip()
    if _NUMBER.fullmatch(bare) is None:
        raise ValueError(f"a default of {text!r} for a number")
    try:
        return _EXACT.create_decimal(bare)
    except InvalidOperation as error:
        raise ValueError(f"a default of {text!r} for a number") from error


def _rounded(text: str, scale: int) -> Decimal:
    try:
        return _number(text).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    except InvalidOperation as error:
        raise ValueError(f"a default of {text!r} for a number") from error


def _integer(text: str, kind: ColumnType) -> str:
    number = int(_rounded(text, 0))
    low, high = integer_range(kind)
    if not low <= number <= high:
        raise ValueError(f"a default of {text!r} for a {kind.name}")
    return str(number)


def integer_range(kind: ColumnType) -> tuple[int, int]:
    """The least and the greatest, both inclusive; of a type that is not known those of a BIGINT."""
    bits = INTEGER_BITS.get(kind.name, 64)
    return (0, (1 << bits) - 1) if kind.unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _year(text: str, *, is_text: bool) -> str:
    number = int(_rounded(text, 0))
    if number == 0 and not (is_text and len(text) != _YEAR_DIGITS and text.strip().startswith("0")):
        return "0000"
    if 0 <= number < 100:
        number += 2000 if number < _CENTURY_TURNS else 1900
    if not _YEAR_MIN <= number <= _YEAR_MAX:
        raise ValueError(f"a default of {text!r} for a year")
    return str(number)


def _float(text: str, column: Column, kind: ColumnType) -> str:
    exact = _number(text)
    if kind.size >= 0 and exact != exact.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, _EXACT):
        raise ValueError(f"a default of {text!r} for a number of {kind.scale} digits after the point")
    if kind.unsigned and exact < 0:
        raise ValueError(f"a default of {text!r} for an unsigned number")
    try:
        return repr(unpack("<f", pack("<f", float(exact)))[0] if column.kind == "float" else float(exact))
    except OverflowError as error:
        raise ValueError(f"a default of {text!r} for a {kind.name}") from error


def _decimal(text: str, column: Column, kind: ColumnType) -> str:
    number = _rounded(text, column.scale)
    if (column.length > 0 and number.copy_abs() >= Decimal(10) ** (column.length - column.scale)) or (kind.unsigned and number < 0):
        raise ValueError(f"a default of {text!r} for a decimal({column.length},{column.scale})")
    return f"{number if number else number.copy_abs():f}"


def _text(text: str, kind: ColumnType) -> str:
    """TiDB cuts spaces that are too many without a word."""
    if kind.name in TEXT_BYTES:
        if len(text.encode()) > TEXT_BYTES[kind.name]:
            raise ValueError(f"a default that is longer than a {kind.name}")
        return text
    if kind.size >= 0 and len(text) > kind.size:
        if text[kind.size :].strip(" "):
            raise ValueError(f"a default of {text!r} for a {kind.name}({kind.size})")
        text = text[: kind.size]
    return text.rstrip(" ") if kind.name == "char" else text


def _sized(value: bytes, kind: ColumnType) -> bytes:
    if len(value) > TEXT_BYTES.get(kind.name, kind.size) >= 0:
        raise ValueError(f"a default of {len(value)} bytes for a {kind.name}({kind.size})")
    return value


def _label(text: str, labels: tuple[str, ...]) -> str:
    """TiDB compares by the collation, which may know no case."""
    if not labels or text in labels:
        return text
    alike = [label for label in labels if label.casefold().rstrip(" ") == text.casefold().rstrip(" ")]
    if len(alike) != 1:
        raise ValueError(f"a default of {text!r}, which is none of the labels {', '.join(labels)}")
    return alike[0]


def _with_fraction(text: str, scale: int) -> str:
    whole, _, digits = text.partition(".")
    if digits[scale:].strip("0"):
        raise ValueError(f"a default of {text!r} with more than {scale} digits after the point")
    return f"{whole}.{digits[:scale].ljust(scale, '0')}" if scale else whole


def defined_default(column: Column, made: ColumnDefinition) -> str | None:
    """The canonical text of the default that the column was made with; without one NULL, or the zero value of a NOT NULL column. Raises
    ValueError, ArithmeticError for a default that is no plain literal of the column's kind, and IndexError for that of an enum whose
    labels are not known."""
    if made.default is None or made.default.upper() == "NULL":
        return None if column.nullable else zero_text(column)
    first, *more = tokens(made.default)
    is_text = first.text.startswith("'") and len(more) == 1
    if column.kind in _NOT_AS_TEXT or not (is_text or _LITERAL.fullmatch(made.default)):
        raise ValueError(made.default)
    text = first.value if is_text else made.default
    if column.kind in _MOMENTS and not re.fullmatch(_MOMENTS[column.kind], text):
        raise ValueError(text)
    return default_text(column, text, column_type(made))


def zero_text(column: Column) -> str:
    """What TiCDC puts for a NOT NULL column that a row lacks (table.GetZeroValue; enum: its first label)."""
    match column.kind:
        case "int" | "uint" | "bit":
            return "0"
        case "float" | "double":
            return "0.0"
        case "decimal":
            return f"{Decimal(0).scaleb(-column.scale):f}"
        case "year":
            return "0000"
        case "date":
            return "0000-00-00"
        case "datetime" | "timestamp":
            return _with_fraction("0000-00-00 00:00:00", column.scale)
        case "time":
            return _with_fraction("00:00:00", column.scale)
        case "binary":
            return "00" * max(column.length, 0)
        case "enum":
            return column.elements[0]
        case "json":
            return "null"
        case "vector":
            return "[]"
        case "text" | "set":
            return ""
