"""A value that was written for one column type, as text of another: amid MODIFY COLUMN, when rows hold the new column alone.

Rules: exact or not at all. The text must stand for the same value under both types, so that who carries out the DDL on it later
gets what TiDB has. Known are numbers among each other and as text, text among itself, labels, floats, and times of one kind.
Everything else (JSON, BIT, dates as text, time zones) is None, even where TiDB has a rule for it: rows of these few moments are
rare, and what cannot be said exactly is refused by the caller.

Source: pingcap/tidb pkg/ddl/modify_column.go.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from sidecar.shared.model.nouns import Kind
from sidecar.shared.rowcodec.kv_datum import INT_BITS
from sidecar.shared.rowcodec.kv_table import KvColumn

_EXACT = frozenset[Kind]({"int", "uint", "decimal"})
_INTEGERS = frozenset[Kind]({"int", "uint"})
_FLOATS = frozenset[Kind]({"float", "double"})
_TIMES = frozenset[Kind]({"time", "datetime", "timestamp"})
_CHAR, _VARCHAR = 254, 15


def cast_text(text: str, source: KvColumn, target: KvColumn) -> str | None:
    """Canonical text of `source` as canonical text of `target`; None if that is not the same value or not known."""
    kind, wanted = source.column.kind, target.column.kind
    if kind in _EXACT and wanted in _EXACT:
        return _number(text, target)
    if kind == wanted and kind in _TIMES:
        return _with_scale(text, target.column.scale)
    if kind == wanted and kind in ("float", "double", "date", "year", "json"):
        return text
    if kind == "float" and wanted == "double":
        return text
    if wanted == "text":
        return _fitting(text, target) if kind in (*_EXACT, "text", "enum", "set") else None
    if kind == "text" and wanted in _EXACT:
        # Only a number as the target writes it itself becomes the same text again.
        return text if _number(text, target) == text else None
    if kind in ("text", "enum") and wanted == "enum":
        return text if text in target.column.elements else None
    if kind in ("text", "set") and wanted == "set":
        return text if _is_set(text, target.column.elements) else None
    return None


def clipped_text(text: str, source: KvColumn, target: KvColumn) -> str | None:
    """An integer that the target's range does not hold, as MODIFY COLUMN leaves it without strict mode: the nearest that it holds (a
    strict one is refused). None for any other value. Source: pingcap/tidb pkg/types/convert.go, ConvertIntToUint and its like."""
    if source.column.kind not in _INTEGERS or target.column.kind not in _INTEGERS:
        return None
    low = _lowest(target)
    return str(min(max(int(text), low), low + (1 << INT_BITS[target.type_code]) - 1))


def _lowest(integer: KvColumn) -> int:
    return 0 if integer.unsigned else -(1 << (INT_BITS[integer.type_code] - 1))


def _number(text: str, target: KvColumn) -> str | None:
    """The number in the target's range and with its scale, if it has no more digits than that."""
    shape = target.column
    try:
        decimal = Decimal(text)
    except InvalidOperation:
        return None
    sign, digits, exponent = decimal.as_tuple()
    if not isinstance(exponent, int) or len(digits) + abs(exponent) > 2 * 81:
        return None
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    scale = shape.scale if shape.kind == "decimal" else 0
    size, rest = divmod(abs(unscaled) * 10 ** (scale + max(exponent, 0)), 10 ** max(-exponent, 0))
    if rest:
        return None
    if shape.kind in _INTEGERS:
        number, bits = size if unscaled >= 0 else -size, INT_BITS[target.type_code]
        low = _lowest(target)
        return str(number) if low <= number < low + (1 << bits) else None
    if size >= 10**shape.length or (target.unsigned and unscaled < 0):
        return None
    padded = str(size).rjust(scale + 1, "0")
    body = f"{padded[:-scale]}.{padded[-scale:]}" if scale else padded
    return f"-{body}" if unscaled < 0 else body


def _with_scale(text: str, scale: int) -> str | None:
    whole, _, fraction = text.partition(".")
    if fraction[scale:].strip("0"):
        return None
    return f"{whole}.{fraction[:scale].ljust(scale, '0')}" if scale else whole


def _fitting(text: str, target: KvColumn) -> str | None:
    """CHAR and VARCHAR count characters, TEXT counts bytes; CHAR drops trailing spaces."""
    if target.type_code == _CHAR and text.endswith(" "):
        return None
    size = len(text) if target.type_code in (_CHAR, _VARCHAR) else len(text.encode())
    return text if target.length < 0 or size <= target.length else None


def _is_set(text: str, elements: tuple[str, ...]) -> bool:
    places = [elements.index(label) if label in elements else -1 for label in text.split(",")] if text else []
    return places == sorted(set(places)) and -1 not in places
