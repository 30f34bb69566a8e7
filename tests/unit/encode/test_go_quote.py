"""Against what Go's own strconv.Quote wrote (tests/data/go/json.json), and the way back by sidecar/shared/columns/go_quote.py."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.columns.go_quote import go_unquote_all
from spark_merge.codecs.encode.go_quote import go_quote, go_quotes, is_printable
from tests.unit.encode import open_slow

GO = json.loads((Path(__file__).parents[2] / "data" / "go" / "json.json").read_text())
PRINTABLE = "dbe4beecc0027b38c16c32d304958e611e27baa40412efea4cf616346eb631a2"
"""SHA-256 of a bit for each code point, the lowest first: Go 1.26's strconv.IsPrint, with Unicode 15.0."""


def test_quotes_are_those_of_go() -> None:
    given_bytes = [base64.b64decode(data) for data, _ in GO["quotes"]]
    expected = [quote for _, quote in GO["quotes"]]
    assert list(go_quotes([*given_bytes, None])) == [*expected, None]


@pytest.mark.parametrize("data", [b"", b"plain", b'"\\', b"\xe4\xb8A", b"\xed\xa0\x80", "é\u00ad".encode(), b"\x7f\x80"])
def test_what_is_quoted_is_what_was_given(data: bytes) -> None:
    assert go_unquote_all(go_quote(data)) == data


@given(st.binary() | st.text(st.characters(max_codepoint=0x2FFF, exclude_categories=["Cs", "Cn"])).map(str.encode))
def test_quotes_are_those_written_byte_by_byte(data: bytes) -> None:
    assert go_quote(data) == open_slow.quote(data)
    assert go_unquote_all(go_quote(data)) == data


def test_what_is_printable_is_so_in_go() -> None:
    codes = bytearray(0x110000 // 8)
    for code in range(0x40000):
        if not 0xD800 <= code < 0xE000 and is_printable(code):
            codes[code >> 3] |= 1 << (code & 7)
    for code in range(0xE0100, 0xE01F0):  # above them there are variation selectors alone
        codes[code >> 3] |= is_printable(code) << (code & 7)
    assert hashlib.sha256(codes).hexdigest() == PRINTABLE
