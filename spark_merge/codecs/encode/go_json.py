"""Strings and floats in JSON as Go's two writers put them, whole columns at a time.

    encoding/json (Go 1.22 and later), of TiCDC's classic architecture    jsoniter 1.1 without EscapeHTML, of the new one
    `<` `>` `&` U+2028 U+2029 as \\u003c …                                 as they stand
    \\b and \\f                                                             \\u0008 and \\u000c
    1e-7                                                                  1e-07

Both write floats by `strconv.AppendFloat`: the shortest digits that give the value again, without an exponent from 1e-6 up to 1e21.
"""

from __future__ import annotations

from decimal import Decimal
from json.encoder import encode_basestring

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_PLAIN_MIN, _PLAIN_MAX = 1e-4, 1e10
"""Between them Arrow writes floats as Go does; so it does 32-bit ones below 2^24."""

_PLAIN32_MAX = float(1 << 24)
_EXPONENT_BELOW, _EXPONENT_FROM = 1e-6, 1e21
_HTML = {char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
_ESCAPED_BY_BOTH = r'["\\\x00-\x1f]'
_ESCAPED_BY_HTML = '["\\\\\\x00-\\x1f<>&\u2028\u2029]'
_SHORT = {"\b": "\\u0008", "\f": "\\u000c"}


# ---- strings --------------------------------------------------------------------------------------------------------


def quoted(texts: pa.Array) -> pa.Array:
    """Of texts without anything to escape."""
    return pc.binary_join_element_wise('"', texts, '"', "")


def strings(texts: pa.Array, *, html: bool) -> pa.Array:
    """JSON strings, null where null. `html`: as encoding/json, else as jsoniter."""
    escaped = pc.match_substring_regex(texts, _ESCAPED_BY_HTML if html else _ESCAPED_BY_BOTH)
    if not pc.any(escaped).as_py():
        return quoted(texts)
    chosen = texts.filter(escaped).to_pylist()
    escaped_texts = pa.array((string(text, html=html) for text in chosen), pa.string(), size=len(chosen))
    return pc.replace_with_mask(quoted(texts), pc.fill_null(escaped, False), escaped_texts)


def string(text: str, *, html: bool) -> str:
    """One JSON string."""
    if not html:
        return _by_jsoniter(text)
    literal = encode_basestring(text)
    for char, escape in _HTML.items():
        literal = literal.replace(char, escape)
    return literal


def _by_jsoniter(text: str) -> str:
    for char, escape in _SHORT.items():
        if char in text:
            return escape.join(_by_jsoniter(part)[1:-1] for part in text.split(char)).join('""')
    return encode_basestring(text)


# ---- floats ---------------------------------------------------------------------------------------------------------


def floats(texts: pa.Array, *, bits: int, html: bool) -> pa.Array:
    """JSON numbers of canonical texts, null where null; `bits` 32 or 64. Raises pa.ArrowInvalid for what is no number."""
    numbers = texts.cast(pa.float64())
    if bits == 32:
        numbers = numbers.cast(pa.float32(), safe=False)
    values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    sizes = np.abs(values)
    plain = (sizes >= _PLAIN_MIN) & (sizes < (_PLAIN32_MAX if bits == 32 else _PLAIN_MAX)) | ((sizes == 0) & ~np.signbit(values))
    if plain.all():
        return numbers.cast(pa.string())
    others = pa.array([_float(str(value), short_exponent=html) for value in values[~plain]], pa.string())
    return pc.replace_with_mask(numbers.cast(pa.string()), pa.array(~plain), others)


def _float(shortest: str, *, short_exponent: bool) -> str:
    sign, digits, exponent = Decimal(shortest).as_tuple()
    if not isinstance(exponent, int):
        raise pa.ArrowInvalid(f"{shortest} is no number of JSON")
    text = "".join(map(str, digits)).rstrip("0")
    if not text:
        return "-0" if sign else "0"
    exponent += len(digits) - 1
    size = abs(float(shortest))
    if _EXPONENT_BELOW <= size < _EXPONENT_FROM:
        plain_digits = f"{Decimal(shortest):f}"
        return plain_digits.rstrip("0").rstrip(".") if "." in plain_digits else plain_digits
    mantissa = text[0] + (f".{text[1:]}" if text[1:] else "")
    written = f"{abs(exponent):d}" if short_exponent and exponent < 0 else f"{abs(exponent):02d}"
    return f"{'-' if sign else ''}{mantissa}e{'-' if exponent < 0 else '+'}{written}"
