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

_NINE = 9
_EPOCH_DATE = "1970-01-01"
_EPOCH = f"{_EPOCH_DATE} 00:00:00"
_NO_TIME = "000:00:00"
_DAYS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_MICROS = 1_000_000
_FRACTION_DIGITS = 6


def dates(texts: pa.Array) -> tuple[pa.Array, Refused]:
    """Days since 1970, int64. Raises UnfitValue."""
    chars = _chars(texts, _EPOCH_DATE, "is not a date")
    days, wrong = _days(chars)
    return _numbers(days, texts, wrong)


def moments(texts: pa.Array, *, scale: int, unit: int) -> tuple[pa.Array, Refused]:
    """Since 1970 in units of so many microseconds, int64. Raises UnfitValue."""
    chars = _chars(texts, _EPOCH + _fraction(scale), "is not a moment")
    days, wrong = _days(chars)
    seconds = _number(chars[:, 11:13]) * 3600 + _number(chars[:, 14:16]) * 60 + _number(chars[:, 17:19])
    micros = (days * 86400 + seconds) * _MICROS
    if scale:
        micros += _number(chars[:, 20:]) * 10 ** (_FRACTION_DIGITS - scale)
    return _numbers(micros // unit, texts, wrong)


def zoned(texts: pa.Array, *, scale: int) -> tuple[pa.Array, Refused]:
    """ISO 8601 in UTC, with as many digits of a second as the text. Raises UnfitValue."""
    chars = _chars(texts, _EPOCH + _fraction(scale), "is not a moment")
    _, wrong = _days(chars)
    written = np.full((len(texts), chars.shape[1] + 1), ord("Z"), np.uint8)
    written[:, :-1] = chars
    written[:, 10] = ord("T")
    ends = np.arange(0, written.size + 1, written.shape[1], dtype=np.int32)
    made = pa.StringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(written))
    return _with_nulls(made, texts, wrong)


def times(texts: pa.Array, *, scale: int) -> pa.Array:
    """Microseconds, int64; negative ones too, and of more than a day: [-]HH[H]:MM:SS[.f]. Raises UnfitValue."""
    form = _NO_TIME + _fraction(scale)
    negative: Any = pc.fill_null(pc.starts_with(texts, "-"), False)
    unsigned = pc.if_else(negative, pc.utf8_slice_codeunits(texts, 1), texts)
    chars = _chars(pc.utf8_lpad(unsigned, len(form), "0"), form, "is not a time")
    micros = (_number(chars[:, :3]) * 3600 + _number(chars[:, 4:6]) * 60 + _number(chars[:, 7:9])) * _MICROS
    if scale:
        micros += _number(chars[:, 10:]) * 10 ** (_FRACTION_DIGITS - scale)
    return _numbers(np.where(negative.to_numpy(zero_copy_only=False), -micros, micros), texts, np.zeros(len(texts), np.bool_))[0]


def in_no_calendar(texts: pa.Array) -> pa.Array:
    """Of texts that begin with a date, true where it is none of a calendar; false where null."""
    days = pc.utf8_slice_codeunits(texts, 0, len(_EPOCH_DATE))
    return pa.array(_days(_chars(days, _EPOCH_DATE, "is not a date"))[1])


def _fraction(scale: int) -> str:
    return f".{'0' * scale}" if scale else ""


def _chars(texts: pa.Array, form: str, reason: str) -> npt.NDArray[np.uint8]:
    """Of each text its bytes, as many as `form` has; of a null those of `form`. Digits are where it has digits, and all else is as in it.
    Raises UnfitValue."""
    there: Any = pc.fill_null(texts, form) if texts.null_count else texts
    width = len(form)
    _refuse(there, pc.binary_length(there).to_numpy(zero_copy_only=False) != width, reason)
    if not len(there):
        return np.zeros((0, width), np.uint8)
    _, offsets, data = there.buffers()
    start = int(np.frombuffer(offsets, np.int32)[there.offset])
    chars = np.frombuffer(data, np.uint8, count=len(there) * width, offset=start).reshape(-1, width)
    of_form = np.frombuffer(form.encode(), np.uint8)
    is_digit = _digits(of_form) <= _NINE
    _refuse(there, ((_digits(chars) <= _NINE) != is_digit).any(axis=1) | (chars[:, ~is_digit] != of_form[~is_digit]).any(axis=1), reason)
    return chars


def _refuse(texts: pa.Array, wrong: npt.NDArray[np.bool_], reason: str) -> None:
    if wrong.any():
        index = int(np.flatnonzero(wrong)[0])
        raise UnfitValue(index, texts[index].as_py(), reason)


def _digits(chars: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """What is no digit is above _NINE: it does not go below 0."""
    return chars - np.uint8(ord("0"))


def _number(chars: npt.NDArray[np.uint8]) -> _Digits:
    digits = _digits(chars)
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
