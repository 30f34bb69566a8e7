"""What Go's `strconv.Quote` writes between its quotes: how open-protocol writes BINARY and VARBINARY. The way back is
sidecar/shared/columns/go_quote.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_SAME = re.compile(rb"[ !#-\[\]-~]*")
_CONTROLS = {7: "\\a", 8: "\\b", 12: "\\f", 10: "\\n", 13: "\\r", 9: "\\t", 11: "\\v", 92: "\\\\", 34: '\\"'}
_BYTES_FROM, _BYTES_TO = 0xDC80, 0xDCFF
"""Where Python's `surrogateescape` puts bytes that belong to no character."""

_OF_UNICODE_15 = (
    (0xCF3, 0xCF3), (0xECE, 0xECE), (0x10EFD, 0x10EFF), (0x1123F, 0x11241), (0x11B00, 0x11B09), (0x11F00, 0x11F10), (0x11F12, 0x11F3A),
    (0x11F3E, 0x11F59), (0x1342F, 0x1342F), (0x13440, 0x13455), (0x1B132, 0x1B132), (0x1B155, 0x1B155), (0x1D2C0, 0x1D2D3),
    (0x1DF25, 0x1DF2A), (0x1E030, 0x1E06D), (0x1E08F, 0x1E08F), (0x1E4D0, 0x1E4F9), (0x1F6DC, 0x1F6DC), (0x1F774, 0x1F776),
    (0x1F77B, 0x1F77F), (0x1F7D9, 0x1F7D9), (0x1FA75, 0x1FA77), (0x1FA87, 0x1FA88), (0x1FAAD, 0x1FAAF), (0x1FABB, 0x1FABD),
    (0x1FABF, 0x1FABF), (0x1FACE, 0x1FACF), (0x1FADA, 0x1FADB), (0x1FAE8, 0x1FAE8), (0x1FAF7, 0x1FAF8), (0x2B739, 0x2B739),
    (0x31350, 0x323AF),
)  # fmt: skip
"""Printable in Go 1.21 and later, which know Unicode 15.0, and not yet in Python 3.11, which knows 14.0."""


def go_quote(data: bytes) -> str:
    """The body of `strconv.Quote`, without its quotes."""
    if _SAME.fullmatch(data):
        return data.decode("ascii")
    return data.decode(errors="surrogateescape").translate(_TABLE)


def is_printable(code: int) -> bool:
    """Go's `strconv.IsPrint` of a character that is no surrogate."""
    return chr(code).isprintable() or any(first <= code <= last for first, last in _OF_UNICODE_15)


class _Table(dict[int, str]):
    """Of `str.translate`; each character is worked out once."""

    def __missing__(self, code: int) -> str:
        self[code] = text = _written(code)
        return text


_TABLE = _Table(_CONTROLS)


def _written(code: int) -> str:
    if _BYTES_FROM <= code <= _BYTES_TO:
        return f"\\x{code - 0xDC00:02x}"
    if is_printable(code):
        return chr(code)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def go_quotes(values: list[bytes | None]) -> Iterator[str | None]:
    return (None if value is None else go_quote(value) for value in values)
