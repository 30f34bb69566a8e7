"""The body of what Go's `strconv.Quote` writes, back to its bytes: how open-protocol writes BINARY and VARBINARY."""

from __future__ import annotations

import codecs
import re

_ESCAPE = re.compile(rb'\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|([abfnrtv\\"]))')
_CONTROLS = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v", b"\\": b"\\", b'"': b'"'}
_RUNE_MAX = 0x10FFFF
_ONLY_PLAIN_ESCAPES = re.compile(rb'(?:[^\\]|\\(?:[abfnrtv\\"]|x[0-9a-f]{2}))*', re.DOTALL)


def go_unquote(body: str) -> bytes:
    """The bytes whose Go `strconv.Quote` is `"body"`.

    Raises ValueError for an escape that Quote does not write. The escapes of bytes are C's too, so one call of CPython
    undoes them; runes (`\\u`, `\\U`: not printable, valid UTF-8) are rare and take the slow way.
    """
    encoded = body.encode()
    if b"\\" not in encoded:
        return encoded
    if _ONLY_PLAIN_ESCAPES.fullmatch(encoded):
        return codecs.escape_decode(encoded)[0]
    if b"\\" in _ESCAPE.sub(b"", encoded):
        raise ValueError("not a Go quoted text")
    return _ESCAPE.sub(_unescape, encoded)


_UNQUOTED = re.compile(r'["\x00-\x1f\x7f]')
_PAIR = re.compile(r"\\.", re.DOTALL)


def go_unquote_all(body: str) -> bytes:
    """The same, and ValueError too for what Quote would have escaped."""
    if _UNQUOTED.search(_PAIR.sub("", body)):
        raise ValueError("not a Go quoted text")
    return go_unquote(body)


def _unescape(value: re.Match[bytes]) -> bytes:
    byte, short, long, control = value.groups()
    if byte is not None:
        return bytes.fromhex(byte.decode())
    if control is not None:
        return _CONTROLS[control]
    code = int(short or long, 16)
    if code > _RUNE_MAX:
        raise ValueError("no rune")
    return chr(code).encode()
