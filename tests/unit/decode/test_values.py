"""Edge values of every kind, in columns, and what is refused."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.columns import values
from sidecar.shared.columns.go_quote import go_unquote, go_unquote_all
from sidecar.shared.columns.values import UnfitValue
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.model.nouns import Column, Kind
from spark_merge.port.keys import key_text

COLORS = ("red", "", "ü b")
SET64 = tuple(f"l{bit}" for bit in range(64))


def column(kind: Kind, *, scale: int = 0, length: int = -1, elements: tuple[str, ...] = ()) -> Column:
    return Column("c", kind, length=length, scale=scale, elements=elements)


def ints(given: list[int | None], of: Column) -> list[str | None]:
    results: list[str | None] = values.from_ints(values.int_array(given, of), of).to_pylist()
    return results


def parsed(given: list[str | None], of: Column) -> list[str | None]:
    results: list[str | None] = values.from_ints(values.parse_ints(pa.array(given, pa.string()), of), of).to_pylist()
    return results


def texts(given: list[str | None], of: Column, zone: ServerZone | None = None) -> list[str | None]:
    results: list[str | None] = values.from_texts(pa.array(given, pa.string()), of, zone or ServerZone()).to_pylist()
    return results


def hexes(given: list[bytes | None], of: Column) -> list[str | None]:
    results: list[str | None] = values.from_bytes(pa.array(given, pa.binary()), of).to_pylist()
    return results


@pytest.mark.parametrize(
    ("of", "given_ints", "expected"),
    [
        (column("int"), [-(2**63), 2**63 - 1, 0, None], ["-9223372036854775808", "9223372036854775807", "0", None]),
        (column("uint"), [0, 2**64 - 1, None], ["0", "18446744073709551615", None]),
        (column("bit", length=1), [0, 1], ["0", "1"]),
        (column("bit", length=64), [2**64 - 1], ["18446744073709551615"]),
        (column("year"), [0, 1901, 2155, None], ["0000", "1901", "2155", None]),
        (column("enum", elements=COLORS), [0, 1, 2, 3, None], ["", "red", "", "ü b", None]),
        (column("set", elements=COLORS), [0, 1, 5, 4, None], ["", "red", "red,ü b", "ü b", None]),
        (column("set", elements=SET64), [2**63, 2**64 - 1], ["l63", ",".join(SET64)]),
        (column("int"), [], []),
        (column("set", elements=COLORS), [None], [None]),
    ],
)
def test_integers_of_both_protocols_become_text(of: Column, given_ints: list[int | None], expected: list[str | None]) -> None:
    assert ints(given_ints, of) == expected
    assert parsed([None if value is None else str(value) for value in given_ints], of) == expected


@pytest.mark.parametrize(
    ("of", "given_ints", "index", "text"),
    [
        (column("int"), [1, 2**63], 1, "9223372036854775808 is out of range for kind int"),
        (column("uint"), [None, -1], 1, "-1 is out of range for kind uint"),
        (column("uint"), [2**64], 0, "18446744073709551616 is out of range for kind uint"),
        (column("bit", length=12), [4095, None, 4096], 2, "4096 does not fit in bit(12)"),
        (column("year"), [10000], 0, "10000 is not a year"),
        (column("enum", elements=COLORS), [3, 4], 1, "4 is not an index into the 3 labels of the enum"),
        (column("set", elements=COLORS), [8], 0, "8 has bits beyond the 3 labels of the set"),
    ],
)
def test_integers_that_do_not_fit_are_refused(of: Column, given_ints: list[int | None], index: int, text: str) -> None:
    given_texts = [None if value is None else str(value) for value in given_ints]
    with pytest.raises(UnfitValue) as refused:
        ints(given_ints, of)
    assert (refused.value.index, str(refused.value)) == (index, text)
    with pytest.raises(UnfitValue) as refused:
        parsed(given_texts, of)
    assert (refused.value.index, str(refused.value)) == (index, text)


@pytest.mark.parametrize("text", ["", " 1", "+1", "01", "-0", "1.0", "0x10", "1e3", "x", "١"])
def test_integer_text_has_one_spelling(text: str) -> None:
    with pytest.raises(UnfitValue, match="is not an integer"):
        parsed([None, text], column("int"))


def test_floats_become_the_shortest_text_of_their_float32_as_double() -> None:
    given_floats = pa.array([0.1, -3.4e38, 0.0, -0.0, 1e-45, None, 1.5])
    assert values.from_floats(given_floats, column("float")).to_pylist() == [
        "0.10000000149011612", "-3.3999999521443642e+38", "0.0", "-0.0", "1.401298464324817e-45", None, "1.5",
    ]  # fmt: skip


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False)))
def test_doubles_become_repr(given_doubles: list[float | None]) -> None:
    expected = [None if value is None else repr(value) for value in given_doubles]
    assert values.from_floats(pa.array(given_doubles, pa.float64()), column("double")).to_pylist() == expected
    assert values.parse_floats(pa.array(expected, pa.string())).to_pylist() == given_doubles


def test_floats_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UnfitValue, match=r"3\.5e\+38 is out of range for kind float"):
        values.from_floats(pa.array([3.5e38]), column("float"))
    with pytest.raises(UnfitValue, match="inf is out of range for kind double"):
        values.from_floats(values.parse_floats(pa.array(["inf"])), column("double"))
    with pytest.raises(UnfitValue, match="'1,5' is not a number"):
        values.parse_floats(pa.array(["1.5", None, "1,5"]))


@pytest.mark.parametrize(
    ("of", "given_texts", "expected"),
    [
        (column("decimal"), ["-9999999999", "0", None], ["-9999999999", "0", None]),
        (column("decimal", scale=4), ["1.2000", "-0.0001"], ["1.2000", "-0.0001"]),
        (column("decimal", scale=4), ["0", "1.2", "1.20000", None], ["0.0000", "1.2000", "1.2000", None]),
        (column("date"), ["0000-00-00", "9999-12-31"], ["0000-00-00", "9999-12-31"]),
        (column("time"), ["-838:59:59", "00:00:00", "838:59:59"], ["-838:59:59", "00:00:00", "838:59:59"]),
        (column("time", scale=6), ["-00:00:00.000001", "00:00:00"], ["-00:00:00.000001", "00:00:00.000000"]),
        (
            column("datetime", scale=3),
            ["1000-01-01 00:00:00.001", "0000-00-00 00:00:00"],
            ["1000-01-01 00:00:00.001", "0000-00-00 00:00:00.000"],
        ),
        (column("datetime"), ["2020-01-01 10:00:00", None], ["2020-01-01 10:00:00", None]),
        (column("text"), ["", "a\0b", "\U0001f600", None], ["", "a\0b", "\U0001f600", None]),
        (column("json"), ['{"a": 1}'], ['{"a": 1}']),
        (column("vector"), ["[1,2.5]"], ["[1,2.5]"]),
        (column("decimal"), [], []),
    ],
)
def test_texts_have_the_columns_scale(of: Column, given_texts: list[str | None], expected: list[str | None]) -> None:
    assert texts(given_texts, of) == expected


@pytest.mark.parametrize(
    ("of", "text", "reason"),
    [
        (column("decimal", scale=2), "1.234", "has more than 2 digits after the point"),
        (column("decimal", scale=2), "1e3", "is not a decimal"),
        (column("decimal"), "", "is not a decimal"),
        (column("date"), "2020-01-01 00:00:00", "is not a date"),
        (column("time"), "1:02:03", "is not a time"),
        (column("datetime", scale=3), "2020-01-01 00:00:00.0001", "has more than 3 digits after the point"),
        (column("datetime"), "2020-01-01", "is not a datetime"),
        (column("timestamp"), "2020-01-01T00:00:00", "is not a timestamp"),
    ],
)
def test_texts_of_another_kind_are_refused(of: Column, text: str, reason: str) -> None:
    with pytest.raises(UnfitValue) as refused:
        texts([None, text], of)
    assert (refused.value.index, str(refused.value)) == (1, f"{text!r} {reason}")


def test_timestamps_are_brought_to_utc_with_their_fraction() -> None:
    given_texts = ["1970-01-02 08:00:01.001", "2038-01-18 03:14:07.999", "0000-00-00 00:00:00.000", None]
    expected = ["1970-01-02 00:00:01.001", "2038-01-17 19:14:07.999", "0000-00-00 00:00:00.000", None]
    assert texts(given_texts, column("timestamp", scale=3), ServerZone("Asia/Shanghai")) == expected
    assert texts(["2020-07-01 12:00:00", "2020-12-01 12:00:00"], column("timestamp"), ServerZone("Europe/Berlin")) == [
        "2020-07-01 10:00:00", "2020-12-01 11:00:00",
    ]  # fmt: skip


def test_a_timestamp_that_is_no_date_is_refused() -> None:
    with pytest.raises(UnfitValue, match="'2020-02-30 00:00:00' is not a timestamp"):
        texts(["2020-02-30 00:00:00"], column("timestamp"), ServerZone("Asia/Shanghai"))


def test_binary_is_upper_case_hex_padded_to_its_length() -> None:
    assert hexes([b"", b"\0\xab", None, bytes(range(250, 256))], column("binary")) == ["", "00AB", None, "FAFBFCFDFEFF"]
    assert hexes([b"\1", None, b"\1\2\3"], column("binary", length=3)) == ["010000", None, "010203"]
    assert hexes([None], column("binary")) == [None]
    assert hexes([], column("binary")) == []
    with pytest.raises(UnfitValue, match=r"is longer than binary\(2\)"):
        hexes([b"ab", b"abc"], column("binary", length=2))


@given(st.lists(st.none() | st.binary(max_size=20)), st.integers(0, 5))
def test_hex_of_any_slice_is_the_hex_of_its_values(given_bytes: list[bytes | None], start: int) -> None:
    sliced = pa.array(given_bytes, pa.binary()).slice(start)
    expected = [None if value is None else value.hex().upper() for value in given_bytes[start:]]
    assert values.from_bytes(sliced, column("binary")).to_pylist() == expected


def test_bytes_that_are_not_utf8_are_no_text() -> None:
    assert values.utf8_texts(pa.array(["é".encode(), None], pa.binary())).to_pylist() == ["é", None]
    with pytest.raises(UnfitValue, match=r"b'\\xff' is not UTF-8"):
        values.utf8_texts(pa.array([b"a", b"\xff"], pa.binary()))


def test_an_error_shows_the_beginning_of_a_long_value() -> None:
    assert len(values.shown("x" * 1000)) == 81


# ---- Go's strconv.Quote ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", b""),
        ("plain é 中 \U0001f600", "plain é 中 \U0001f600".encode()),
        (r"\a\b\f\n\r\t\v\\\"", b'\a\b\f\n\r\t\v\\"'),
        (r"\x00\x7f\xff", b"\x00\x7f\xff"),
        (r"\u0085", b"\xc2\x85"),
        (r"\u2028x\x01", b"\xe2\x80\xa8x\x01"),
        (r"\U000e0001\\u2028", b"\xf3\xa0\x80\x81\\u2028"),
        (r"\\x41", rb"\x41"),
        ("é\\x80", b"\xc3\xa9\x80"),
        ("\\\\\\\\", b"\\\\"),
    ],
)
def test_go_unquote(body: str, expected: bytes) -> None:
    assert go_unquote(body) == expected


@pytest.mark.parametrize(
    "body", ["\\", "a\\", r"\q", r"\x4", r"\xAB", r"\u12", r"\'", r"\101", "\\\n", r"\ud800", r"\U00110000", r"\Uffffffff", r"\u0085\q"]
)
def test_what_go_does_not_quote_is_refused(body: str) -> None:
    with pytest.raises(UnfitValue, match="is not a Go quoted text"):
        values.byte_array(["fine", None, body], go_unquote, "is not a Go quoted text")


_SHORT = {7: r"\a", 8: r"\b", 12: r"\f", 10: r"\n", 13: r"\r", 9: r"\t", 11: r"\v", 92: r"\\", 34: r"\""}


def go_quote(data: bytes) -> str:
    """As strconv.Quote without the outer quotes, by its own rules (Go's IsPrint is close to str.isprintable)."""
    body = ""
    for char in data.decode("utf-8", "surrogateescape"):
        code = ord(char)
        if code in _SHORT:
            body += _SHORT[code]
        elif 0xDC80 <= code <= 0xDCFF:
            body += f"\\x{code - 0xDC00:02x}"
        elif char.isprintable():
            body += char
        elif code < 0x20 or code == 0x7F:
            body += f"\\x{code:02x}"
        else:
            body += f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return body


@pytest.mark.parametrize("body", ['say "hi"', "a\nb", "\x7f", r'\\"'])
def test_what_go_would_have_escaped_is_no_quoted_text(body: str) -> None:
    with pytest.raises(ValueError, match="not a Go quoted text"):
        go_unquote_all(body)


@given(st.binary() | st.text().map(str.encode) | st.text(st.sampled_from('\\"x41un\n')).map(str.encode))
def test_go_unquote_undoes_quote(data: bytes) -> None:
    assert go_unquote(go_quote(data)) == go_unquote_all(go_quote(data)) == data


# ---- keys -----------------------------------------------------------------------------------------------------------

_KEY_PART = st.text(st.sampled_from('a\\",[]') | st.characters(codec="utf-8"), max_size=5)


@given(st.integers(1, 3).flatmap(lambda width: st.lists(st.tuples(*[_KEY_PART] * width), min_size=2, max_size=8)))
def test_key_text_is_equal_only_for_equal_keys(keys: list[tuple[str, ...]]) -> None:
    result = key_text([pa.array(part, pa.string()) for part in zip(*keys, strict=True)]).to_pylist()
    assert len(set(result)) == len(set(keys))


def test_negative_zero_keeps_its_sign() -> None:
    (text,) = values.from_floats(pa.array([-0.0]), column("double")).to_pylist()
    assert math.copysign(1, float(text)) == -1
