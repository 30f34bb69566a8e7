"""Dates and times of canonical text as numbers, by their digits: a column's texts have one width, so their bytes are a matrix.

Which dates there are: those of the proleptic Gregorian calendar from the year 1 on, as Debezium has them. TiDB holds others: zero dates,
2020-00-10, 2020-02-30, and the year 0.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.columns.values import UnfitValue

Refused: TypeAlias = "npt.NDArray[np.bool_] | None"
_Digits: TypeAlias = "npt.NDArray[np.int64]"

_DATE_CHARS, _CLOCK_CHARS = 10, 19
_EPOCH_DATE = "1970-01-01"
_EPOCH = f"{_EPOCH_DATE} 00:00:00"
_DAYS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_MICROS = 1_000_000
_FRACTION_DIGITS = 6


def dates(texts: pa.Array) -> tuple[pa.Array, Refused]:
    """Days since 1970, int64. Raises UnfitValue."""
    chars = _chars(texts, _EPOCH_DATE, _DATE_CHARS, "is not a date")
    days, wrong = _days(chars)
    return _numbers(days, texts, wrong)


def moments(texts: pa.Array, *, scale: int, unit: int) -> tuple[pa.Array, Refused]:
    """Since 1970 in units of so many microseconds, int64. Raises UnfitValue."""
    chars = _chars(texts, _EPOCH + _fraction(scale), _width(_CLOCK_CHARS, scale), "is not a moment")
    days, wrong = _days(chars)
    seconds = _number(chars[:, 11:13]) * 3600 + _number(chars[:, 14:16]) * 60 + _number(chars[:, 17:19])
    micros = (days * 86400 + seconds) * _MICROS
    if scale:
        micros += _number(chars[:, 20:]) * 10 ** (_FRACTION_DIGITS - scale)
    return _numbers(micros // unit, texts, wrong)


def zoned(texts: pa.Array, *, scale: int) -> tuple[pa.Array, Refused]:
    """ISO 8601 in UTC, with as many digits of a second as the text. Raises UnfitValue."""
    chars = _chars(texts, _EPOCH + _fraction(scale), _width(_CLOCK_CHARS, scale), "is not a moment")
    _, wrong = _days(chars)
    written = np.full((len(texts), chars.shape[1] + 1), ord("Z"), np.uint8)
    written[:, :-1] = chars
    written[:, 10] = ord("T")
    ends = np.arange(0, written.size + 1, written.shape[1], dtype=np.int32)
    made = pa.StringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(written))
    return _with_nulls(made, texts, wrong)


def times(texts: pa.Array, *, scale: int) -> pa.Array:
    """Microseconds, int64; negative ones too, and of more than a day: [-]HH[H]:MM:SS[.f]. Raises UnfitValue."""
    there: Any = pc.fill_null(texts, "00:00:00" + _fraction(scale))
    negative = pc.starts_with(there, "-").to_numpy(zero_copy_only=False)
    padded: Any = pc.utf8_lpad(pc.if_else(pc.starts_with(there, "-"), pc.utf8_slice_codeunits(there, 1), there), _width(9, scale), "0")
    chars = _chars(padded, "", _width(9, scale), "is not a time")
    micros = (_number(chars[:, :3]) * 3600 + _number(chars[:, 4:6]) * 60 + _number(chars[:, 7:9])) * _MICROS
    if scale:
        micros += _number(chars[:, 10:]) * 10 ** (_FRACTION_DIGITS - scale)
    return _numbers(np.where(negative, -micros, micros), texts, np.zeros(len(texts), np.bool_))[0]


def in_no_calendar(texts: pa.Array) -> pa.Array:
    """Of texts that begin with a date, true where it is none of a calendar; false where null."""
    days = pc.utf8_slice_codeunits(texts, 0, _DATE_CHARS)
    return pa.array(_days(_chars(days, _EPOCH_DATE, _DATE_CHARS, "is not a date"))[1])


def _fraction(scale: int) -> str:
    return f".{'0' * scale}" if scale else ""


def _width(whole: int, scale: int) -> int:
    return whole + scale + (scale > 0)


def _chars(texts: pa.Array, absent: str, width: int, reason: str) -> npt.NDArray[np.uint8]:
    """Of each text its `width` bytes; of a null those of `absent`."""
    there: Any = pc.fill_null(texts, absent) if texts.null_count else texts
    lengths = pc.binary_length(there).to_numpy(zero_copy_only=False)
    if (wrong := np.flatnonzero(lengths != width)).size:
        index = int(wrong[0])
        raise UnfitValue(index, there[index].as_py(), reason)
    if not len(there):
        return np.zeros((0, width), np.uint8)
    _, offsets, data = there.buffers()
    start = int(np.frombuffer(offsets, np.int32)[there.offset])
    return np.frombuffer(data, np.uint8, count=len(there) * width, offset=start).reshape(-1, width)


def _number(chars: npt.NDArray[np.uint8]) -> _Digits:
    """Raises ValueError."""
    digits = chars - np.uint8(ord("0"))  # what comes before 0 is large
    if (digits > 9).any():
        raise ValueError("a date or a time has what is no digit")
    number = np.zeros(len(chars), np.int64)
    for place in range(chars.shape[1]):
        number = number * 10 + digits[:, place]
    return number


def _days(chars: npt.NDArray[np.uint8]) -> tuple[_Digits, npt.NDArray[np.bool_]]:
    """And where there is no such day, any number. By the digits alone: years that begin in March have their leap day at their end."""
    year, month, day = _number(chars[:, :4]), _number(chars[:, 5:7]), _number(chars[:, 8:10])
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    last = _DAYS[np.clip(month, 0, 12)] + (leap & (month == 2))
    wrong = (year < 1) | (month < 1) | (month > 12) | (day < 1) | (day > last)
    marches = year - (month <= 2)
    in_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return 365 * marches + marches // 4 - marches // 100 + marches // 400 + in_year - 719_468, wrong


def _numbers(numbers: _Digits, texts: pa.Array, wrong: npt.NDArray[np.bool_]) -> tuple[pa.Array, Refused]:
    return _with_nulls(pa.array(numbers, pa.int64()), texts, wrong)


def _with_nulls(values: pa.Array, texts: pa.Array, wrong: npt.NDArray[np.bool_]) -> tuple[pa.Array, Refused]:
    refused = wrong if wrong.any() else None
    if refused is None and not texts.null_count:
        return values, None
    there = texts.is_valid() if refused is None else pc.and_(texts.is_valid(), pa.array(~refused))
    return pc.if_else(there, values, pa.scalar(None, values.type)), refused
