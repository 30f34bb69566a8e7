"""Pieces of Go's text that both protocols' encoders need: JSON strings as encoding/json writes them, strconv.Quote, floats."""

from __future__ import annotations

import re
from decimal import Decimal

import msgspec

_HTML = re.compile(rb"[<>&]|\xe2\x80[\xa8\xa9]")
_ESCAPED = {b"<": b"\\u003c", b">": b"\\u003e", b"&": b"\\u0026", b"\xe2\x80\xa8": b"\\u2028", b"\xe2\x80\xa9": b"\\u2029"}
_encode = msgspec.json.Encoder().encode

_CONTROLS = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"'}
_PLAIN = re.compile(r"[ !#-\[\]-~]*")


def go_json(value: object) -> bytes:
    """As Go's encoding/json writes it, with HTML's and JavaScript's characters escaped."""
    encoded = _encode(value)
    return _HTML.sub(lambda match: _ESCAPED[match[0]], encoded)


def go_quoted(raw: bytes) -> str:
    """The body of `strconv.Quote` of a Go string with these bytes."""
    text = raw.decode("utf-8", "surrogateescape")
    return text if _PLAIN.fullmatch(text) else "".join(map(_quoted, text))


def _quoted(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if char in _CONTROLS:
        return _CONTROLS[char]
    if char.isprintable():
        return char
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def plain_float(value: float) -> str:
    """As `FormatFloat(value, 'f', -1, …)`: no exponent."""
    text = format(Decimal(repr(value)), "f")
    return text.removesuffix(".0")
