"""When two canonical texts of one kind (model.Kind) stand for the same value.

Text is equal exactly for equal values in every kind but three: a float's text may have been made from its float32 or
from its float64, a double's from another shortest-text routine, and JSON text may differ in spacing and in the
spelling of numbers. NULL equals only NULL. This is for comparing (tests, verify); keys are compared as text.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from sidecar.shared.model.nouns import Kind

SEVERAL_TEXTS = frozenset[Kind]({"float", "double", "json"})
"""Kinds of which one value may have several texts."""

_FLOAT32 = struct.Struct("<f")


def equal_text(kind: Kind, a: str | None, b: str | None) -> bool:
    """True if `a` and `b` are the same value. Raises ValueError for a text that is no value of the kind."""
    if a == b:
        return True
    if a is None or b is None:
        return False
    match kind:
        case "float":
            return _as_float32(a) == _as_float32(b)
        case "double":
            return float(a) == float(b)
        case "json":
            return _equal_json(json.loads(a), json.loads(b))
        case _:
            return False


def _as_float32(text: str) -> float:
    """The value after a trip through four bytes; itself where it is beyond a float32."""
    value = float(text)
    try:
        rounded: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    except OverflowError:
        return value
    return rounded


def _equal_json(a: Any, b: Any) -> bool:
    """Python's own equality holds 1 and true for equal; JSON does not."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal_json(value, b[name]) for name, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_equal_json(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)
