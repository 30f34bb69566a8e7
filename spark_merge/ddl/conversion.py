"""What TiDB makes of a column's values when its type changes, where every value that it accepts is certain. One answer for all sinks; what
a target can hold is the sink's.

    unchanged   the same value: bits and years to integers, integers of either sign; float to double; json to and from text; other labels
    text        its canonical text: of integers, years, decimals, dates, times, labels
    padded      the same value, with more digits after the point: decimals, integers to decimals, moments

All else is None: what is rounded or cut; numbers and labels out of texts, which a collation or a warning decides; a TIMESTAMP that becomes
something else, by the session's zone; a floating-point number's text; bytes.
"""

from __future__ import annotations

from enum import Enum

from sidecar.core.model import Column


class Conversion(Enum):
    UNCHANGED = "unchanged"
    TEXT = "text"
    PADDED = "padded"


_HAVE_TEXT = frozenset({"int", "uint", "year", "decimal", "date", "time", "datetime", "enum", "set"})
"""Kinds whose canonical text is the text that TiDB makes of the value."""

_SAME_VALUE = frozenset(
    {
        ("int", "uint"), ("uint", "int"), ("bit", "int"), ("bit", "uint"), ("year", "int"), ("year", "uint"), ("float", "double"),
        ("json", "text"), ("text", "json"),
    }
)  # fmt: skip


def conversion(old: Column, new: Column) -> Conversion | None:
    """Of the values of `old`, which become those of `new`; None where they may be others."""
    match old.kind, new.kind:
        case ("decimal" | "time" | "datetime" | "timestamp") as kind, other if kind == other:
            return None if new.scale < old.scale else Conversion.PADDED if new.scale > old.scale else Conversion.UNCHANGED
        case "int" | "uint", "decimal":
            return Conversion.PADDED if new.scale else Conversion.UNCHANGED
        case kind, "text" if kind in _HAVE_TEXT:
            return Conversion.TEXT
        case "binary", "binary":
            return Conversion.UNCHANGED if old.length == new.length else None
        case kind, other if kind == other and old.scale == new.scale:
            return Conversion.UNCHANGED
    return Conversion.UNCHANGED if (old.kind, new.kind) in _SAME_VALUE else None
