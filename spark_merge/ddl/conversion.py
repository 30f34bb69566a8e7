"""What TiDB makes of a column's values when its type changes, where every value of the old type is certain. One answer for all sinks; what
a target can hold is the sink's.

    unchanged   the same value: integers in a range that holds theirs; bits and years to such integers; float to double; json to text;
                longer texts; labels that are all there, those of a set in the same order; vectors, of which none is cut
    text        its canonical text: of integers, decimals, dates, times, labels, in a text that is long enough
    padded      the same value, with more digits after the point: decimals, integers to decimals, moments

All else is None: what is rounded or cut; what does not fit each value (a strict session refuses such a MODIFY, another one clips values
without a change event of any); a CHAR of a text that may end with spaces; numbers and labels out of texts, which a collation or a warning
decides; a TIMESTAMP that becomes something else, by the session's zone; a floating-point number's text; bytes; a YEAR's text, which is `0`
of the year 0000; the json of a text, which TiDB writes otherwise: keys in order, each once, blanks and numbers in its own way.

The same value can have another canonical text: a year that becomes an integer loses its zeros (0000 becomes 0).

The types are those of the definitions. Without them (a log of 0.3.0 and before) two columns that look alike are of one type.

Sources: pingcap/tidb pkg/ddl/modify_column.go, pkg/types/datum.go (ConvertTo), pkg/types/json_binary.go (ParseBinaryJSONFromString).
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from sidecar.shared.model.nouns import Column
from sidecar.shared.rowcodec.type_cast import INTEGER_BITS, TEXT_BYTES, ColumnType, integer_range


class Conversion(Enum):
    UNCHANGED = "unchanged"
    TEXT = "text"
    PADDED = "padded"


class Typed(NamedTuple):
    """A column and its type; None: the log does not have it."""

    column: Column
    type: ColumnType | None = None


_UNICODE = frozenset({"utf8mb4"})
"""Charsets that hold each text of every other one."""
_UTF8_MAX = 4
_YEAR_MAX = 2155
_SIGNS = 1
_DATE, _TIME, _MOMENT = len("0000-00-00"), len("-838:59:59"), len("0000-00-00 00:00:00")
_BIT_MAX = 64


def conversion(old: Typed, new: Typed) -> Conversion | None:
    """Of the values of `old`, which become those of `new`; None where they may be others."""
    was, now = old.column, new.column
    if _same_type(old, new):
        return Conversion.UNCHANGED
    match was.kind, now.kind:
        case ("int" | "uint", "int" | "uint") | ("bit" | "year", "int" | "uint"):
            return _if(_in_range(old, new))
        case (("int" | "uint" | "decimal"), "decimal"):
            return _to_decimal(old, new)
        case ("time" | "datetime" | "timestamp") as kind, other if kind == other:
            return None if now.scale < was.scale else Conversion.PADDED if now.scale > was.scale else Conversion.UNCHANGED
        case (("float" | "double"), ("float" | "double")):
            return _if((was.kind, now.kind) != ("double", "float") and _float_holds(old, new))
        case "text", "text":
            return _if(_text_holds(old, new))
        case "binary", "binary":
            return _if(was.length == now.length and capacity(new) >= capacity(old))
        case "bit", "bit":
            return _if(_bits(now) >= _bits(was))
        case "enum", "enum":
            return _if(bool(was.elements) and set(was.elements) <= set(now.elements))
        case "set", "set":
            return _if(bool(was.elements) and [one for one in now.elements if one in was.elements] == list(was.elements))
        case "json", "text":
            return _if(new.type is None or new.type.name == "longtext")
        case ("date", "date") | ("json", "json") | ("vector", "vector"):
            return Conversion.UNCHANGED
        case kind, "text" if kind in _HAVE_TEXT:
            return Conversion.TEXT if new.type is None or _text_length(old) <= capacity(new) else None
    return None


def _if(certain: bool) -> Conversion | None:
    return Conversion.UNCHANGED if certain else None


def _same_type(old: Typed, new: Typed) -> bool:
    was, now = old.column, new.column
    alike = (was.kind, was.length, was.scale, was.elements) == (now.kind, now.length, now.scale, now.elements)
    return alike and (old.type is None or new.type is None or old.type == new.type)


# ---- numbers ----------------------------------------------------------------------------------------------------------


def _range(one: Typed) -> tuple[int, int] | None:
    """None: it is not known."""
    match one.column.kind:
        case "year":
            return 0, _YEAR_MAX
        case "bit":
            return 0, (1 << _bits(one.column)) - 1
        case "int" | "uint" if one.type is not None and one.type.name in INTEGER_BITS:
            return integer_range(one.type)
        case _:
            return None


def _bits(column: Column) -> int:
    return column.length if column.length > 0 else _BIT_MAX


def _in_range(old: Typed, new: Typed) -> bool:
    was, now = _range(old), _range(new)
    if now is None:  # of a log without types: an integer of any width
        return old.column.kind == "year"
    return was is not None and now[0] <= was[0] and was[1] <= now[1]


def _to_decimal(old: Typed, new: Typed) -> Conversion | None:
    was, now = old.column, new.column
    if was.kind == "decimal":
        digits, signed = was.length - was.scale, not (old.type and old.type.unsigned)
    else:
        low, high = _range(old) or (-(1 << 63), (1 << 64) - 1)
        digits, signed = len(str(max(-low, high))), low < 0
    fits = now.length - now.scale >= digits and now.scale >= was.scale
    if not fits or (signed and new.type is not None and new.type.unsigned):
        return None
    return Conversion.PADDED if now.scale > was.scale else Conversion.UNCHANGED


def _float_holds(old: Typed, new: Typed) -> bool:
    if old.type is None or new.type is None:
        return True
    rounds = new.type.size >= 0 and (new.type.size, new.type.scale) != (old.type.size, old.type.scale)
    return not rounds and (old.type.unsigned or not new.type.unsigned)


# ---- texts ------------------------------------------------------------------------------------------------------------

_HAVE_TEXT = frozenset({"int", "uint", "decimal", "date", "time", "datetime", "enum", "set"})
"""Kinds whose canonical text is the text that TiDB makes of the value."""


def capacity(one: Typed) -> int:
    """Characters that each text of so many fits in; bytes of binary types. Of a type that is not known as many as there are."""
    if one.type is None:
        return TEXT_BYTES["longtext"]
    if one.type.name in TEXT_BYTES:
        size = TEXT_BYTES[one.type.name]
        return size if one.column.kind == "binary" or one.type.name == "longtext" else size // _UTF8_MAX
    return one.type.size if one.type.size >= 0 else TEXT_BYTES["longtext"]


def longest(one: Typed) -> int:
    """Characters of the longest text."""
    if one.type is not None and one.type.name in TEXT_BYTES:
        return TEXT_BYTES[one.type.name]
    return capacity(one)


def _text_holds(old: Typed, new: Typed) -> bool:
    if old.type is None or new.type is None:
        return True
    both_by_bytes = old.type.name in TEXT_BYTES and new.type.name in TEXT_BYTES
    if new.type.name == "char" != old.type.name or (old.type.charset != new.type.charset and new.type.charset not in _UNICODE):
        return False
    if both_by_bytes:
        same_bytes = old.type.charset == new.type.charset
        return TEXT_BYTES[new.type.name] >= TEXT_BYTES[old.type.name] * (1 if same_bytes else _UTF8_MAX) or new.type.name == "longtext"
    return capacity(new) >= longest(old)


def _text_length(one: Typed) -> int:
    """Of the longest canonical text, in characters."""
    column, point = one.column, _SIGNS * bool(one.column.scale)
    match column.kind:
        case "int" | "uint":
            low, high = _range(one) or (-(1 << 63), (1 << 64) - 1)
            return max(len(str(low)), len(str(high)))
        case "decimal":
            return _SIGNS + max(column.length, column.scale + 1) + point
        case "date":
            return _DATE
        case "time":
            return _TIME + point + column.scale
        case "datetime":
            return _MOMENT + point + column.scale
        case "enum":
            return max(map(len, column.elements), default=TEXT_BYTES["longtext"] + 1)
        case "set":
            return len(",".join(column.elements)) if column.elements else TEXT_BYTES["longtext"] + 1
        case _:
            raise AssertionError(f"a {column.kind} has no text in TiDB that is certain")
