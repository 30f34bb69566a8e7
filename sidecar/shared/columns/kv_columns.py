"""A column's cells, out of rows of key-values, to canonical text: all rows at once.

    numbers of cells ─► texts_of_numbers          integers of any kind, times
    floats of cells  ─► texts_of_floats
    cells            ─► texts_of_bytes, texts_of_decimals, texts_one_by_one (json, vector)

A cell is `data[start:stop]`; starts rise. Each kernel returns one text a cell, and which cells it does not vouch for
(`bad`): values that are broken, and rare ones (a decimal to be rounded). Their texts mean nothing; the slow decoder
(sidecar/shared/rowcodec/kv_row.py) has the last word on their rows. Nothing here raises for what the bytes hold.

`data` ends with at least PADDING bytes that no cell reaches, so that eight bytes can be read at any cell's start.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.columns.values import from_bytes, from_floats, from_ints
from sidecar.shared.rowcodec.kv_datum import INT_BITS, LEFTOVER_BYTES, PRECISION_MAX, SCALE_MAX, canonical, decimal_words
from sidecar.shared.rowcodec.kv_error import Broken
from sidecar.shared.rowcodec.kv_table import KvColumn

PADDING = 8

Numbers = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

_SIGN_BIT = np.uint64(1 << 63)
_NO_INTEGER = np.uint64(64)
_SHIFTS = np.array([64, 56, 48, 64, 32, 64, 64, 64, 0, 64], np.uint64)
"""By the bytes of an integer, the bits that it leaves free in eight; 64 for what no integer has."""

_SIGNED = frozenset({"int", "year", "time"})
_FRACTION_DIGITS = 6
_DURATION_MAX_NS = 839 * 3600 * 10**9
_ZERO, _MINUS, _POINT, _COLON, _SPACE = b"0-.: "


class KvTexts(NamedTuple):
    """`texts` is a pa.StringArray without nulls; where `bad`, the text means nothing."""

    texts: pa.Array
    bad: Mask


def _digit_table(width: int) -> Bytes:
    """The decimal digits of each number below 10**width, as ASCII."""
    numbers = np.arange(10**width)[:, None] // 10 ** np.arange(width)[::-1]
    return (numbers % 10 + _ZERO).astype(np.uint8)


_DIGITS = {width: _digit_table(width) for width in (1, 2, 3, 4)}


# ---- where bytes are ------------------------------------------------------------------------------------------------


def words(data: Bytes, dtype: str) -> Numbers:
    """`data` seen as numbers of `dtype` that begin at every byte."""
    size = np.dtype(dtype).itemsize
    return np.ndarray(max(len(data) - size + 1, 0), dtype, data.data, strides=(1,))


def byte_array(data: Bytes, starts: Numbers, stops: Numbers) -> pa.Array:
    """Cells, in rising order and apart, as a pa.BinaryArray: Arrow sees cells and gaps as values and takes every other."""
    count = len(starts)
    if count == 0:
        return pa.array([], pa.binary())
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0:-1:2], bounds[1::2], bounds[-1] = starts, stops, stops[-1]
    both = pa.BinaryArray.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    return both.take(pa.array(np.arange(0, 2 * count, 2)))


def _as_texts(cells: pa.Array) -> pa.Array:
    """ASCII cells as text, without a copy."""
    return pa.StringArray.from_buffers(len(cells), *cells.buffers()[1:])


def _texts_of_rows(rows: Bytes) -> pa.Array:
    """Each row of a matrix of ASCII as one text."""
    count, width = rows.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(rows).data))


def _texts_of_ends(rows: Bytes, firsts: Numbers) -> pa.Array:
    """The end of each row of a matrix of ASCII, from its column `firsts` on."""
    count, width = rows.shape
    at = np.arange(count, dtype=np.int64) * width
    return _as_texts(byte_array(np.ascontiguousarray(rows).reshape(-1), at + firsts, at + width))


# ---- numbers --------------------------------------------------------------------------------------------------------


def numbers_of_cells(column: KvColumn, data: Bytes, starts: Numbers, stops: Numbers) -> tuple[Numbers, Mask]:
    """Little-endian integers of 1, 2, 4 or 8 bytes: int64 for signed kinds, else uint64."""
    shifts = _SHIFTS[np.minimum(stops - starts, len(_SHIFTS) - 1)]
    bad = shifts == _NO_INTEGER
    shifts = np.where(bad, np.uint64(0), shifts)
    lifted = words(data, "<u8")[starts] << shifts
    if column.column.kind in _SIGNED:
        return lifted.view(np.int64) >> shifts.view(np.int64), bad
    return lifted >> shifts, bad


def numbers_of_key(column: KvColumn, data: Bytes, starts: Numbers) -> Numbers:
    """Memcomparable integers of eight bytes."""
    astype = words(data, ">u8")[starts].astype(np.uint64)
    return (astype ^ _SIGN_BIT).view(np.int64) if column.column.kind in _SIGNED else astype


def floats_of_cells(data: Bytes, starts: Numbers) -> Numbers:
    """Memcomparable doubles."""
    bits = words(data, ">u8")[starts].astype(np.uint64)
    return np.where(bits & _SIGN_BIT, bits ^ _SIGN_BIT, ~bits).view(np.float64)


def texts_of_numbers(column: KvColumn, numbers: Numbers) -> KvTexts:
    shape = column.column
    match shape.kind:
        case "date" | "datetime" | "timestamp":
            return _texts_of_packed_times(numbers, shape.scale, of_date=shape.kind == "date")
        case "time":
            return _texts_of_durations(numbers, shape.scale)
        case "int":
            bits = INT_BITS[column.type_code]
            bad = (numbers < -(1 << (bits - 1))) | (numbers > (1 << (bits - 1)) - 1)
        case "uint":
            bad = numbers > (1 << INT_BITS[column.type_code]) - 1
        case "bit":
            bad = numbers > (1 << shape.length) - 1
        case "year":
            bad = (numbers != 0) & ((numbers < 1901) | (numbers > 2155))
        case "enum":
            bad = numbers > len(shape.elements)
        case _:
            bad = numbers > (1 << len(shape.elements)) - 1
    plain = np.where(bad, numbers.dtype.type(0), numbers) if bad.any() else numbers
    return KvTexts(from_ints(pa.array(plain), shape), bad)


def texts_of_floats(column: KvColumn, numbers: Numbers) -> KvTexts:
    narrow = numbers
    if column.column.kind == "float":
        with np.errstate(over="ignore", invalid="ignore"):
            narrow = numbers.astype(np.float32)
    bad = ~np.isfinite(narrow)
    return KvTexts(from_floats(pa.array(np.where(bad, 0.0, numbers)), column.column), bad)


# ---- times ----------------------------------------------------------------------------------------------------------


def _texts_of_packed_times(packed: Numbers, scale: int, *, of_date: bool) -> KvTexts:
    clock, micros = (packed >> 24) & 0x1FFFF, packed & 0xFFFFFF
    day, months = (packed >> 41) & 0x1F, packed >> 46
    year, month = months // 13, months % 13
    hour, minute, second = clock >> 12, (clock >> 6) & 0x3F, clock & 0x3F
    bad = (year > 9999) | (month > 12) | (hour > 23) | (minute > 59) | (second > 59) | (micros > 999_999)
    if of_date:
        bad |= (clock | micros) != 0
    else:
        bad |= micros % 10 ** (_FRACTION_DIGITS - scale) != 0
    width = 10 if of_date else 19 + (scale and scale + 1)
    rows = np.empty((len(packed), width), np.uint8)
    rows[:, 0:4] = _DIGITS[4][np.where(bad, 0, year)]
    fields = [(5, month), (8, day)] if of_date else [(5, month), (8, day), (11, hour), (14, minute), (17, second)]
    for at, field in fields:
        rows[:, at : at + 2] = _DIGITS[2][field]
    rows[:, 4] = rows[:, 7] = _MINUS
    if not of_date:
        rows[:, 10], rows[:, 13], rows[:, 16] = _SPACE, _COLON, _COLON
        _put_fraction(rows, 19, np.where(bad, 0, micros), scale)
    return KvTexts(_texts_of_rows(rows), bad)


def _put_fraction(rows: Bytes, at: int, micros: Numbers, scale: int) -> None:
    """The point and `scale` digits at column `at`; nothing for scale 0."""
    if scale:
        digits = np.hstack((_DIGITS[3][micros // 1000], _DIGITS[3][micros % 1000]))
        rows[:, at], rows[:, at + 1 : at + 1 + scale] = _POINT, digits[:, :scale]


def _texts_of_durations(nanoseconds: Numbers, scale: int) -> KvTexts:
    """In a matrix of sign, three digits of hours, then the rest; what is not needed in front is omitted."""
    bad = (nanoseconds <= -_DURATION_MAX_NS) | (nanoseconds >= _DURATION_MAX_NS) | (nanoseconds % 1000 != 0)
    seconds, micros = np.divmod(np.abs(np.where(bad, 0, nanoseconds)) // 1000, 1_000_000)
    bad |= micros % 10 ** (_FRACTION_DIGITS - scale) != 0
    hours = seconds // 3600
    rows = np.empty((len(nanoseconds), 10 + (scale and scale + 1)), np.uint8)
    rows[:, 1:4] = _DIGITS[3][hours]
    rows[:, 5:7], rows[:, 8:10] = _DIGITS[2][seconds // 60 % 60], _DIGITS[2][seconds % 60]
    rows[:, 4] = rows[:, 7] = _COLON
    _put_fraction(rows, 10, micros, scale)
    return KvTexts(_texts_of_ends(rows, _signed(rows, np.where(hours < 100, 2, 1), nanoseconds < 0)), bad)


def _signed(rows: Bytes, firsts: Numbers, negative: Mask) -> Numbers:
    """Puts a minus before column `firsts` of negative rows; gives where each text begins."""
    numbers = np.flatnonzero(negative)
    rows[numbers, firsts[numbers] - 1] = _MINUS
    return firsts - negative


# ---- decimals -------------------------------------------------------------------------------------------------------


def _sizes() -> Numbers:
    sizes = np.zeros((256, 256), np.int64)
    for precision in range(1, PRECISION_MAX + 1):
        for scale in range(min(precision, SCALE_MAX) + 1):
            sizes[precision, scale] = 2 + sum(LEFTOVER_BYTES[digits] for digits in decimal_words(precision, scale))
    return sizes


_SIZES = _sizes()
"""Bytes of a decimal by its first two bytes; 0 for what is none."""


def decimal_sizes(data: Bytes, starts: Numbers) -> Numbers:
    sizes: Numbers = _SIZES[data[starts], data[starts + 1]]
    return sizes


def texts_of_decimals(column: KvColumn, data: Bytes, starts: Numbers, stops: Numbers) -> KvTexts:
    """Each value has a precision and scale of its own; a column's are mostly the same."""
    sizes = decimal_sizes(data, starts)
    bad = (sizes != stops - starts) | (sizes == 0)
    shapes = words(data, ">u2")[starts].astype(np.int64)
    shapes[bad] = 0
    kinds = np.unique(shapes)
    if len(kinds) == 1 and not bad.any():
        return _texts_of_one_shape(column, data, starts, *divmod(int(kinds[0]), 256))
    order = np.argsort(shapes, kind="stable")
    parts = []
    for shape in kinds:
        numbers = order[np.searchsorted(shapes[order], shape) : np.searchsorted(shapes[order], shape, "right")]
        if shape == 0:
            parts.append(pa.repeat("", len(numbers)))
            continue
        texts = _texts_of_one_shape(column, data, starts[numbers], *divmod(int(shape), 256))
        parts.append(texts.texts)
        bad[numbers] |= texts.bad
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return KvTexts(pa.concat_arrays(parts).take(pa.array(back)), bad)


def _texts_of_one_shape(column: KvColumn, data: Bytes, starts: Numbers, precision: int, scale: int) -> KvTexts:
    """In a matrix of sign, whole digits (at least one), point and the column's scale of digits."""
    whole, wanted = precision - scale, column.column.scale
    digits, negative, bad = _decimal_digits(data, starts, precision, scale)
    is_digit = digits != _ZERO
    if scale > wanted:
        bad |= is_digit[:, whole + wanted :].any(axis=1)  # to be rounded
    places = max(whole, 1)
    width = 1 + places + (wanted and wanted + 1)
    rows = np.full((len(starts), width), _ZERO, np.uint8)
    rows[:, 1 + places - whole : 1 + places] = digits[:, :whole]
    if wanted:
        kept = min(scale, wanted)
        rows[:, 1 + places] = _POINT
        rows[:, 2 + places : 2 + places + kept] = digits[:, whole : whole + kept]
    significant = is_digit[:, :whole]
    leading = np.zeros(len(starts), np.int64)
    if whole:
        leading = np.where(significant.any(axis=1), significant.argmax(axis=1), whole - 1)
    room = column.column.length - wanted
    if whole > room:
        bad |= significant[:, : whole - room].any(axis=1)
    return KvTexts(_texts_of_ends(rows, _signed(rows, 1 + leading, negative & is_digit.any(axis=1))), bad)


def _decimal_digits(data: Bytes, starts: Numbers, precision: int, scale: int) -> tuple[Bytes, Mask, Mask]:
    """ASCII digits, one row a value; which are negative; which are broken."""
    size = int(_SIZES[precision, scale]) - 2
    body = data[starts[:, None] + np.arange(2, 2 + size)]
    negative = body[:, 0] < 0x80
    body[negative] ^= 0xFF
    body[:, 0] ^= 0x80
    digits = np.empty((len(starts), precision), np.uint8)
    bad = np.zeros(len(starts), np.bool_)
    byte, column = 0, 0
    for count in decimal_words(precision, scale):
        word = np.zeros(len(starts), np.uint32)
        for _ in range(LEFTOVER_BYTES[count]):
            word = (word << np.uint32(8)) | body[:, byte]
            byte += 1
        broken = word >= 10**count
        bad |= broken
        word[broken] = 0
        column += count
        at = column
        while count:
            step = min(count, 4)
            word, last = np.divmod(word, np.uint32(10**step))
            digits[:, at - step : at] = _DIGITS[step][last]
            at, count = at - step, count - step
    return digits, negative, bad


# ---- bytes ----------------------------------------------------------------------------------------------------------


def texts_of_bytes(column: KvColumn, cells: pa.Array) -> KvTexts:
    """`cells` is a pa.BinaryArray: text as UTF-8, binary as hex."""
    shape = column.column
    bad = np.zeros(len(cells), np.bool_)
    if shape.kind == "binary":
        if shape.length >= 0:
            bad = pc.greater(pc.binary_length(cells), shape.length).to_numpy(zero_copy_only=False)
        return KvTexts(from_bytes(_blanked(cells, bad), shape).fill_null(""), bad)
    try:
        return KvTexts(cells.cast(pa.string()), bad)
    except pa.ArrowInvalid:
        bad = np.fromiter((not _is_utf8(cell) for cell in cells.to_pylist()), np.bool_, len(cells))
        return KvTexts(_blanked(cells, bad).cast(pa.string()), bad)


def _blanked(cells: pa.Array, bad: Mask) -> pa.Array:
    return pc.if_else(pa.array(bad), b"", cells) if bad.any() else cells


def _is_utf8(cell: bytes) -> bool:
    try:
        cell.decode()
    except UnicodeDecodeError:
        return False
    return True


def texts_one_by_one(column: KvColumn, cells: pa.Array) -> KvTexts:
    """Kinds that are read by the slow decoder's own code, each distinct value once."""
    distinct = cells.dictionary_encode()
    texts, bad = [], []
    for cell in distinct.dictionary.to_pylist():
        try:
            texts.append(canonical(column, cell))
            bad.append(False)
        except Broken:
            texts.append("")
            bad.append(True)
    numbers = distinct.indices.to_numpy()
    return KvTexts(pa.array(texts, pa.string()).take(distinct.indices), np.asarray(bad, np.bool_)[numbers])


def texts_of_cells(column: KvColumn, data: Bytes, starts: Numbers, stops: Numbers) -> KvTexts:
    """Cells of row format 2."""
    match column.column.kind:
        case "float" | "double":
            bad = stops - starts != 8
            texts = texts_of_floats(column, floats_of_cells(data, starts))
            return KvTexts(texts.texts, texts.bad | bad)
        case "decimal":
            return texts_of_decimals(column, data, starts, stops)
        case "text" | "binary":
            return texts_of_bytes(column, byte_array(data, starts, stops))
        case "json" | "vector":
            return texts_one_by_one(column, byte_array(data, starts, stops))
        case _:
            numbers, bad = numbers_of_cells(column, data, starts, stops)
            texts = texts_of_numbers(column, numbers)
            return KvTexts(texts.texts, texts.bad | bad)
