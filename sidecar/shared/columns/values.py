"""A whole column of one protocol's values to canonical text (sidecar/shared/model/nouns.py, Kind).

    from_ints     int, uint, bit, year, enum, set      Arrow integers
    from_floats   float, double                        Python floats
    from_texts    text and everything written as text  Arrow strings
    from_bytes    binary                               Arrow binary

Each takes the values in row order, None or null where NULL, and gives a pa.StringArray of the same length. A value that
does not fit its kind raises UnfitValue with its index: nothing is rounded, cut or guessed, but trailing zeros of a
fraction are added and taken away, as TiCDC writes a zero or default value without the column's scale.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.columns.zone import NoMoment, ServerZone
from sidecar.shared.log.float_texts import reprs
from sidecar.shared.model.nouns import Column

_SHOWN_CHARS_MAX = 80
"""How much of a value an error shows: enough to find it, not enough to flood a log."""


class UnfitValue(ValueError):
    """Value number `index` of the column does not fit; `reason` completes "this value …". `hint`: where its way out is one of its own."""

    def __init__(self, index: int, value: object, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{shown(value)} {reason}")
        self.index, self.hint = index, hint


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "…"


def _first(bad: Any) -> int:
    """Index of the first true value; null counts as false."""
    return int(pc.index(pc.fill_null(bad, False), True).as_py())


# ---- numbers --------------------------------------------------------------------------------------------------------


def int_array(values: Sequence[int | None], column: Column) -> pa.Array:
    """int64 for kind int, uint64 for the others; refuses what does not fit in eight bytes."""
    kind = pa.int64() if column.kind == "int" else pa.uint64()
    try:
        return pa.array(values, kind)
    except (OverflowError, pa.ArrowInvalid):
        low, high = (-(1 << 63), (1 << 63) - 1) if column.kind == "int" else (0, (1 << 64) - 1)
        index = next(i for i, value in enumerate(values) if value is not None and not low <= value <= high)
        raise UnfitValue(index, values[index], f"is out of range for kind {column.kind}") from None


def parse_ints(texts: pa.Array, column: Column) -> pa.Array:
    """As `int_array`, from decimal text in its only spelling (no plus, no leading zeros, no spaces)."""
    wrong = pc.invert(pc.match_substring_regex(texts, r"^(0|-?[1-9][0-9]{0,19})$"))
    if pc.any(wrong).as_py():
        index = _first(wrong)
        raise UnfitValue(index, texts[index].as_py(), "is not an integer")
    try:
        return texts.cast(pa.int64() if column.kind == "int" else pa.uint64())
    except pa.ArrowInvalid:
        return int_array([None if text is None else int(text) for text in texts.to_pylist()], column)


def from_ints(values: pa.Array, column: Column) -> pa.Array:
    match column.kind:
        case "enum":
            return _enum_labels(values, column.elements)
        case "set":
            return _set_labels(values, column.elements)
        case "bit":
            if 0 < column.length < 64:
                _refuse_above(values, (1 << column.length) - 1, f"does not fit in bit({column.length})")
            return values.cast(pa.string())
        case "year":
            _refuse_above(values, 9999, "is not a year")
            return pc.utf8_lpad(values.cast(pa.string()), width=4, padding="0")
        case _:
            return values.cast(pa.string())


def _refuse_above(values: pa.Array, high: int, reason: str) -> None:
    above = pc.greater(values, pa.scalar(high, values.type))
    if pc.any(above).as_py():
        index = _first(above)
        raise UnfitValue(index, values[index].as_py(), reason)


def _enum_labels(values: pa.Array, elements: tuple[str, ...]) -> pa.Array:
    """Index from 1; 0 is the empty text that TiDB keeps for an invalid value."""
    _refuse_unknown_labels(values, elements, "enum")
    _refuse_above(values, len(elements), f"is not an index into the {len(elements)} labels of the enum")
    return pa.array(["", *elements], pa.string()).take(values.cast(pa.int32()))


def _refuse_unknown_labels(values: pa.Array, elements: tuple[str, ...], kind: str) -> None:
    """No enum or set of TiDB is without labels: see sidecar/shared/sql/text.py."""
    if not elements:
        unknown = "(a label has a line end, or a backslash before 0, n or r, which TiDB shows alike)"
        _refuse_above(values, 0, f"cannot be decoded: the labels of the {kind} are not known {unknown}")


def _set_labels(values: pa.Array, elements: tuple[str, ...]) -> pa.Array:
    _refuse_unknown_labels(values, elements, "set")
    _refuse_above(values, (1 << len(elements)) - 1, f"has bits beyond the {len(elements)} labels of the set")
    encoded = values.dictionary_encode()
    labels = [",".join(label for bit, label in enumerate(elements) if mask >> bit & 1) for mask in encoded.dictionary.to_pylist()]
    return pa.array(labels, pa.string()).take(encoded.indices)


def parse_floats(texts: pa.Array) -> pa.Array:
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        index = next(index for index, text in enumerate(texts.to_pylist()) if text is not None and not _is_float(text))
        raise UnfitValue(index, texts[index].as_py(), "is not a number") from None


def _is_float(text: str) -> bool:
    try:
        pa.scalar(text).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def from_floats(values: pa.Array, column: Column) -> pa.Array:
    """Shortest text (`repr`); a float is first brought to its float32 value, which TiCDC writes with fewer digits."""
    numbers = values.cast(pa.float32(), safe=False).cast(pa.float64()) if column.kind == "float" else values
    finite = pc.is_finite(numbers)
    if pc.all(finite).as_py() is False:
        index = _first(pc.invert(finite))
        raise UnfitValue(index, values[index].as_py(), f"is out of range for kind {column.kind}")
    return reprs(numbers)


# ---- text -----------------------------------------------------------------------------------------------------------

_NUMBER, _DATE, _CLOCK = r"-?[0-9]+", r"[0-9]{4}-[0-9]{2}-[0-9]{2}", r"[0-9]{2}:[0-9]{2}:[0-9]{2}"
_SHAPES = {
    "decimal": _NUMBER,
    "time": r"-?[0-9]{2,3}:[0-9]{2}:[0-9]{2}",
    "datetime": f"{_DATE} {_CLOCK}",
    "timestamp": f"{_DATE} {_CLOCK}",
}
"""What stands before the fraction of a kind with a scale."""


def from_texts(texts: pa.Array, column: Column, zone: ServerZone) -> pa.Array:
    """`zone`: the TiCDC server's, in which it writes timestamps."""
    match column.kind:
        case "date":
            return _all_match(texts, f"^{_DATE}$", "is not a date")
        case "timestamp":
            scaled = _with_scale(texts, column)
            return scaled if zone.is_utc else _to_utc(scaled, zone)
        case "decimal" | "time" | "datetime":
            return _with_scale(texts, column)
        case _:
            return texts


def _all_match(texts: pa.Array, pattern: str, reason: str) -> pa.Array:
    wrong = pc.invert(pc.match_substring_regex(texts, pattern))
    if pc.any(wrong).as_py():
        index = _first(wrong)
        raise UnfitValue(index, texts[index].as_py(), reason)
    return texts


def _with_scale(texts: pa.Array, column: Column) -> pa.Array:
    """The same with exactly `scale` digits after the point."""
    shape, scale = _SHAPES[column.kind], column.scale
    exact = f"^{shape}\\.[0-9]{{{scale}}}$" if scale else f"^{shape}$"
    if pc.all(pc.match_substring_regex(texts, exact)).as_py() is not False:
        return texts
    loose = re.compile(f"({shape})(?:\\.([0-9]+))?")
    return pa.array([_scaled(index, text, loose, column) for index, text in enumerate(texts.to_pylist())], pa.string())


def _scaled(index: int, text: str | None, loose: re.Pattern[str], column: Column) -> str | None:
    if text is None:
        return None
    match = loose.fullmatch(text)
    if match is None:
        raise UnfitValue(index, text, f"is not a {column.kind}")
    whole, digits = match[1], match[2] or ""
    if digits[column.scale :].strip("0"):
        raise UnfitValue(index, text, f"has more than {column.scale} digits after the point")
    return f"{whole}.{digits[: column.scale].ljust(column.scale, '0')}" if column.scale else whole


def _to_utc(texts: pa.Array, zone: ServerZone) -> pa.Array:
    return pa.array([None if text is None else _utc_text(index, text, zone) for index, text in enumerate(texts.to_pylist())], pa.string())


def _utc_text(index: int, text: str, zone: ServerZone) -> str:
    try:
        return zone.utc_text(text)
    except NoMoment as error:
        raise UnfitValue(index, text, str(error), hint=error.hint) from None


def utf8_texts(values: pa.Array) -> pa.Array:
    """Bytes that must be UTF-8 as text."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        index = next(i for i, value in enumerate(values.to_pylist()) if value is not None and not _is_utf8(value))
        raise UnfitValue(index, values[index].as_py(), "is not UTF-8") from None


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


# ---- bytes ----------------------------------------------------------------------------------------------------------


def byte_array(values: Sequence[str | None], to_bytes: Callable[[str], bytes], reason: str) -> pa.Array:
    """Each text through `to_bytes`; a ValueError out of it means that the text does not fit."""
    try:
        return pa.array([None if value is None else to_bytes(value) for value in values], pa.binary())
    except ValueError:
        for index, value in enumerate(values):
            try:
                None if value is None else to_bytes(value)
            except ValueError:
                raise UnfitValue(index, value, reason) from None
        raise


def unbase64(text: str) -> bytes:
    """Python's strict mode passes padding that nothing needs and bits that belong to no byte: what was cut would be another value."""
    data = binascii.a2b_base64(text, strict_mode=True)
    if binascii.b2a_base64(data, newline=False) != text.encode():
        raise ValueError("not base64")
    return data


def from_bytes(values: pa.Array, column: Column) -> pa.Array:
    """Upper-case hex. Arrow's buffers are used as they are: one hex call for the column, offsets doubled."""
    hexes = hex_texts(values)
    if column.length < 0:
        return hexes
    digits = 2 * column.length
    lengths = pc.binary_length(values)
    too_long = pc.greater(lengths, column.length)
    if pc.any(too_long).as_py():
        index = _first(too_long)
        raise UnfitValue(index, values[index].as_py(), f"is longer than binary({column.length})")
    return pc.ascii_rpad(hexes, width=digits, padding="0")


def hex_texts(values: pa.Array) -> pa.Array:
    """Upper-case hex of pa.binary. Raises UnfitValue for more than 1 GiB."""
    if len(values) == 0 or values.null_count == len(values):
        return pa.nulls(len(values), pa.string())
    _, offsets_buffer, data = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[values.offset : values.offset + len(values) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    digits = b"" if data is None else binascii.hexlify(memoryview(data)[first:last]).upper()
    doubled = (2 * (offsets.astype(np.int64) - first)).astype(np.int32)
    if 2 * (last - first) > np.iinfo(np.int32).max:
        raise UnfitValue(0, None, "begins a column of more than 1 GiB of bytes: lower the bytes of a batch")
    validity = None
    if values.null_count:
        validity = pa.array(values.is_valid()).buffers()[1]
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(doubled), pa.py_buffer(digits), validity, values.null_count)
