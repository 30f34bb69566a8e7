"""A value as it is whatever form a reader keeps it in: what the source's canonical text and a target's value are compared by.

int, uint, bit, year   int                    decimal, float, double   Decimal, float           binary   bytes
text, enum, set        str                    json                     what is parsed           vector   tuple of float32 values
date, datetime, timestamp, time               microseconds: since 1970 (timestamp in UTC), of the time

A date that no calendar has is NULL, or 1970 in a NOT NULL column: `invalid-dates=null-or-epoch`, Debezium's own rule.
"""

from __future__ import annotations

import base64
import json
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from sidecar.shared.model.nouns import Column

Plain = object
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROS_S, MICROS_DAY = 10**6, 86_400 * 10**6


def of_source(column: Column, text: str | None) -> Plain:
    """Of canonical text (sidecar/shared/model/nouns.py::Kind)."""
    if text is None:
        return None
    match column.kind:
        case "date" | "datetime" | "timestamp":
            micros = _micros_of_moment(text)
            return micros if micros is not None or column.nullable else 0
        case "binary":
            return bytes.fromhex(text)
        case "vector":
            return tuple(map(_float32, json.loads(text)))
        case _:
            return of_target(column, text)


def of_target(column: Column, value: Any) -> Plain:
    """Of what a driver gives: a number or its text, bytes, a date, a time."""
    if value is None:
        return None
    match column.kind:
        case "int" | "uint" | "bit" | "year":
            return int.from_bytes(value, "big") if isinstance(value, bytes) else int(value)
        case "decimal":
            return Decimal(value)
        case "float":
            return _float32(value)
        case "double":
            return float(value)
        case "date" | "datetime" | "timestamp":
            return _micros_of_moment(value)
        case "time":
            return value // timedelta(microseconds=1) if isinstance(value, timedelta) else _micros_of_time(str(value))
        case "json":
            return _hashable(json.loads(value, parse_float=_number))
        case "binary":
            return bytes(value)
        case "vector":
            return tuple(map(_float32, json.loads(value) if isinstance(value, str) else value))
        case "set":
            return frozenset(value.split(",")) - {""}
        case _:
            return str(value)


def of_connect(column: Column, value: Any) -> Plain:
    """Of Debezium's own numbers, where a reader keeps them as they are: its documentation, "data types" of the MySQL connector. A schema
    that did not reach the reader leaves bytes as base64."""
    if value is None:
        return None
    raw = base64.b64decode(value) if isinstance(value, str) and column.kind in ("binary", "bit", "decimal", "uint") else value
    match column.kind:
        case "date":
            return int(value) * MICROS_DAY
        case "datetime":
            return int(value) * (1000 if column.scale <= 3 else 1)
        case "timestamp":
            return _micros_of_moment(value)
        case "time":
            return int(value)
        case "bit" if isinstance(raw, bytes):
            return int.from_bytes(raw, "little")
        case "uint" | "decimal" if isinstance(raw, bytes):
            return _counted(column, Decimal(f"{int.from_bytes(raw, 'big', signed=True)}E-{column.scale}"))
        case _:
            return of_target(column, raw)


def _counted(column: Column, number: Decimal) -> Plain:
    return int(number) if column.kind == "uint" else number


def _micros_of_moment(value: Any) -> int | None:
    """None for a date that no calendar has."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    else:
        assert isinstance(value, date), value
        moment = datetime(value.year, value.month, value.day, tzinfo=UTC)
    return (moment - EPOCH) // timedelta(microseconds=1)


def _micros_of_time(text: str) -> int:
    hours, minutes, seconds = text.lstrip("-").split(":")
    micros = (int(hours) * 60 + int(minutes)) * 60 * MICROS_S + int(Decimal(seconds) * MICROS_S)
    return -micros if text.startswith("-") else micros


def _float32(value: Any) -> float:
    (number,) = struct.unpack("f", struct.pack("f", float(value)))
    assert isinstance(number, float)
    return number


def _number(text: str) -> float:
    """TiDB's 100000000000000000000 is MySQL's 1e20."""
    number = float(text)
    return int(number) if number.is_integer() else number


def _hashable(value: Any) -> Plain:
    match value:
        case dict():
            return frozenset((name, _hashable(one)) for name, one in value.items())
        case list():
            return tuple(map(_hashable, value))
        case bool():
            return str(value)
        case _:
            return value
