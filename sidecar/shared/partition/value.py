"""What an expression of a PARTITION BY clause is for a row, as TiDB evaluates it; only what is exactly decidable from canonical text.

- A value is an int, or None for NULL. Dates of which a part is zero are NULL to what counts days, and have their parts else, as in
  TiDB (pkg/expression/builtin_time.go, under the flags of tables.NewPartitionExprBuildCtx).
- What depends on a session's time zone, a decimal, or a function that is not here raises `NotDecided`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from sidecar.shared.model.nouns import Column
from sidecar.shared.partition.clause import PartitionExpression


class NotDecided(ValueError):
    """The text is what has no value here."""


Evaluated = Callable[[Mapping[str, str | None]], int | None]

_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d+))?)?")
_DAY_S = 86400
_LIMIT = 1 << 64

Parts = tuple[int, int, int, int, int, int]


def evaluated(expression: PartitionExpression, columns: Mapping[str, Column]) -> Evaluated:
    """For rows by column name, which are looked up as `columns` spells them (in lower case). Raises NotDecided."""
    if expression.literal is not None:
        number = expression.literal
        return lambda _: number
    if expression.name:
        column = _column(expression.name, columns)
        if column.kind not in ("int", "uint", "year"):
            raise NotDecided(f"column {column.name}, which is a {column.kind}")
        return lambda row: None if (text := row[column.name]) is None else int(text)
    if expression.call in _OF_DATES and len(expression.arguments) == 1:
        return _of_date(expression, columns)
    if expression.call in ("FLOOR", "CEILING", "CEIL") and len(expression.arguments) == 1:
        (inner,) = expression.arguments
        if inner.call == "UNIX_TIMESTAMP" and expression.call == "FLOOR":
            return _unix_timestamp(inner, columns, floor=True)
        return evaluated(inner, columns)
    if expression.call == "UNIX_TIMESTAMP" and len(expression.arguments) == 1:
        return _unix_timestamp(expression, columns, floor=False)
    return _arithmetic(expression, columns)


def _column(name: str, columns: Mapping[str, Column]) -> Column:
    try:
        return columns[name.lower()]
    except KeyError:
        raise NotDecided(f"column {name}, which the rows do not have") from None


# ---- numbers --------------------------------------------------------------------------------------------------------


def _arithmetic(expression: PartitionExpression, columns: Mapping[str, Column]) -> Evaluated:
    call = {"MOD": "%"}.get(expression.call, expression.call)
    count = len(expression.arguments)
    if (call, count) != ("ABS", 1) and (call not in _OPERATORS or count != 2):
        raise NotDecided(f"{expression.call}() of {count} arguments" if expression.call.isalnum() else expression.call)
    left, *others = (evaluated(one, columns) for one in expression.arguments)
    if not others:
        return lambda row: None if (value := left(row)) is None else abs(value)
    (right,) = others
    operate = _OPERATORS[call]

    def value(row: Mapping[str, str | None]) -> int | None:
        one, other = left(row), right(row)
        if one is None or other is None:
            return None
        number = operate(one, other)
        if number is not None and abs(number) >= _LIMIT:
            raise NotDecided(f"{one} {call} {other}, which is too large")
        return number

    return value


def _quotient(one: int, other: int) -> int | None:
    """Towards zero."""
    if other == 0:
        return None
    number = abs(one) // abs(other)
    return number if (one < 0) == (other < 0) else -number


def _remainder(one: int, other: int) -> int | None:
    """With the sign of the dividend."""
    if other == 0:
        return None
    number = abs(one) % abs(other)
    return -number if one < 0 else number


_OPERATORS: Mapping[str, Callable[[int, int], int | None]] = {
    "+": int.__add__,
    "-": int.__sub__,
    "*": int.__mul__,
    "DIV": _quotient,
    "%": _remainder,
}


# ---- dates ----------------------------------------------------------------------------------------------------------


def _of_date(expression: PartitionExpression, columns: Mapping[str, Column]) -> Evaluated:
    (inner,) = expression.arguments
    column = _column(inner.name, columns) if inner.name else None
    if column is None or column.kind not in ("date", "datetime"):
        raise NotDecided(f"{expression.call}() of what is no column of DATE or DATETIME")
    name, of = column.name, _OF_DATES[expression.call]
    return lambda row: None if (text := row[name]) is None else of(date_parts(text))


def date_parts(text: str) -> Parts:
    match = _DATE.fullmatch(text)
    if match is None:
        raise NotDecided(f"{text!r}, which is no date")
    year, month, day, hour, minute, second = (int(one or 0) for one in match.groups()[:6])
    return year, month, day, hour, minute, second


def day_number(parts: Parts) -> int | None:
    """MySQL's TO_DAYS."""
    year, month, day = parts[:3]
    if month == 0 or day == 0:
        return None
    total = 365 * year + 31 * (month - 1) + day
    if month <= 2:
        year -= 1
    else:
        total -= (month * 4 + 23) // 10
    return total + year // 4 - ((year // 100 + 1) * 3) // 4


def _to_seconds(parts: Parts) -> int | None:
    days = day_number(parts)
    return None if days is None else days * _DAY_S + parts[3] * 3600 + parts[4] * 60 + parts[5]


def _day_of_year(parts: Parts) -> int | None:
    days, first = day_number(parts), day_number((parts[0], 1, 1, 0, 0, 0))
    return None if days is None or first is None else days - first + 1


def _weekday(parts: Parts, sunday: int) -> int | None:
    """0 is Monday; `sunday` 1: Sunday is the first day, counted from 1."""
    days = day_number(parts)
    if days is None:
        return None
    return (days + 5) % 7 if not sunday else (days + 6) % 7 + 1


_OF_DATES: Mapping[str, Callable[[Parts], int | None]] = {
    "YEAR": lambda parts: parts[0],
    "MONTH": lambda parts: parts[1],
    "DAY": lambda parts: parts[2],
    "DAYOFMONTH": lambda parts: parts[2],
    "QUARTER": lambda parts: (parts[1] + 2) // 3,
    "HOUR": lambda parts: parts[3],
    "MINUTE": lambda parts: parts[4],
    "SECOND": lambda parts: parts[5],
    "TO_DAYS": day_number,
    "TO_SECONDS": _to_seconds,
    "DAYOFYEAR": _day_of_year,
    "WEEKDAY": lambda parts: _weekday(parts, 0),
    "DAYOFWEEK": lambda parts: _weekday(parts, 1),
}


def _unix_timestamp(expression: PartitionExpression, columns: Mapping[str, Column], *, floor: bool) -> Evaluated:
    """Of a TIMESTAMP column, whose canonical text is UTC. With fractional digits it is a decimal."""
    (inner,) = expression.arguments
    column = _column(inner.name, columns) if inner.name else None
    if column is None or column.kind != "timestamp":
        raise NotDecided("UNIX_TIMESTAMP() of what is no column of TIMESTAMP")
    if column.scale and not floor:
        raise NotDecided("UNIX_TIMESTAMP() of a column with fractional seconds")
    name = column.name

    def value(row: Mapping[str, str | None]) -> int | None:
        text = row[name]
        if text is None:
            return None
        parts = date_parts(text)
        return 0 if parts[1] == 0 or parts[2] == 0 else int(datetime(*parts, tzinfo=UTC).timestamp())

    return value
