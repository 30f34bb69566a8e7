"""Go's texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.columns.go_quote import go_unquote
from tests.tools.rig.values import go_json, go_quoted, plain_float


@given(st.binary(max_size=60) | st.text(max_size=30).map(lambda text: text.encode("utf-8", "replace")))
def test_quoted_bytes_are_read_back(raw: bytes) -> None:
    assert go_unquote(go_quoted(raw)) == raw


def test_quotes_as_go_does() -> None:
    assert go_quoted(b'\x00\x7f"\\\n\xff ok') == '\\x00\\x7f\\"\\\\\\n\\xff ok'
    assert go_quoted("é\u0080\u200b😀".encode()) == "é\\u0080\\u200b😀"


def test_json_escapes_what_could_be_html_or_end_a_script_line() -> None:
    assert go_json("<b>&\u2028\u2029é") == '"\\u003cb\\u003e\\u0026\\u2028\\u2029é"'.encode()


def test_floats_have_no_exponent() -> None:
    assert [plain_float(value) for value in (1e-7, 1e21, -2.5, 3.0)] == ["0.0000001", "1" + "0" * 21, "-2.5", "3"]
