"""TiDB's numbers for moments and durations to MySQL's text.

    packed     ((year × 13 + month) << 5 | day) << 17 | hour << 12 | minute << 6 | second, then << 24 | microsecond
    core time  year 14 bits, month 4, day 5, hour 5, minute 6, second 6, microsecond 20, 4 bits unused (JSON alone)
    duration   signed nanoseconds

From pingcap/tidb pkg/types/time.go (ToPackedUint).
Zero dates and dates that do not exist (2021-02-31) are values of MySQL and pass; fields
out of their range, and digits beyond the column's fraction, are refused: nothing is rounded or cut.
"""

from __future__ import annotations

from sidecar.shared.rowcodec.kv_error import Broken

_MONTHS_A_YEAR_PACKED = 13
_YEAR_MAX = 9999
_FRACTION_DIGITS = 6
_DURATION_MAX_NS = 839 * 3600 * 1_000_000_000
"""MySQL's TIME ends at 838:59:59."""


def date_text(packed: int, at: int) -> str:
    if packed & ((1 << 41) - 1):
        raise Broken(at, "a date without a time of day", f"packed time {packed}")
    return _moment(packed, at)[:10]


def datetime_text(packed: int, scale: int, at: int) -> str:
    """`scale` digits of fractional seconds."""
    return _scaled(_moment(packed, at), packed & 0xFFFFFF, scale, at)


def _moment(packed: int, at: int) -> str:
    days, clock = packed >> 41, packed >> 24 & 0x1FFFF
    year, month = divmod(days >> 5, _MONTHS_A_YEAR_PACKED)
    return _checked(year, month, days & 0x1F, clock >> 12, clock >> 6 & 0x3F, clock & 0x3F, packed & 0xFFFFFF, at=at)


def core_time_text(number: int, at: int, *, of_date: bool) -> str:
    """A date, or a datetime with six digits."""
    micros = number >> 4 & 0xFFFFF
    text = _checked(
        number >> 50, number >> 46 & 0xF, number >> 41 & 0x1F, number >> 36 & 0x1F, number >> 30 & 0x3F, number >> 24 & 0x3F, micros, at=at
    )
    return text[:10] if of_date else f"{text}.{micros:06d}"


def _checked(year: int, month: int, day: int, hour: int, minute: int, second: int, micros: int, *, at: int) -> str:
    text = f"{year:04d}-{month:02d}-{day:02d} {hour:02d}:{minute:02d}:{second:02d}"
    if year > _YEAR_MAX or month > 12 or hour > 23 or minute > 59 or second > 59 or micros > 999_999:
        raise Broken(at, "a moment whose fields are in range", f"{text} and {micros} µs")
    return text


def duration_text(nanoseconds: int, scale: int, at: int) -> str:
    if not -_DURATION_MAX_NS < nanoseconds < _DURATION_MAX_NS or nanoseconds % 1000:
        raise Broken(at, "a duration in whole microseconds below 839 hours", f"{nanoseconds} ns")
    seconds, micros = divmod(abs(nanoseconds) // 1000, 1_000_000)
    text = f"{'-' if nanoseconds < 0 else ''}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return _scaled(text, micros, scale, at)


def _scaled(text: str, micros: int, scale: int, at: int) -> str:
    digits = f"{micros:06d}"
    if digits[scale:].strip("0"):
        raise Broken(at, f"a fraction of {scale} digits", f"{text}.{digits}")
    return f"{text}.{digits[:scale]}" if scale else text
