"""One value to canonical text (sidecar/shared/model/nouns.py, Kind), and images to changes: as simply as can be, the twin of codecs/decode.

`number`, `words` and `octets` take what a protocol has made of its bytes: an int, a text, bytes.
"""

from __future__ import annotations

import json
import math
import re
import struct
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa

from sidecar.shared.columns.zone import Ambiguous
from sidecar.shared.model.nouns import Column, TableSchema
from tests.tools.fuzz.verdict import Refused

Texts = tuple[str | None, ...]

_SHAPES = {
    "decimal": r"-?[0-9]+",
    "time": r"-?[0-9]{2,3}:[0-9]{2}:[0-9]{2}",
    "datetime": r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}",
    "timestamp": r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}",
}
_DIGITS_MAX = 500
_LONE = re.compile("[\ud800-\udfff]")


class Zone(NamedTuple):
    """As sidecar.shared.columns.zone.ServerZone is made: its name, and what is taken of two moments."""

    name: str = "UTC"
    ambiguous: Ambiguous = "refuse"


class Row(NamedTuple):
    """`before` None: an insert; `after` None: a delete."""

    op: str
    before: Texts | None
    after: Texts | None


def loaded(data: bytes) -> Any:
    """The JSON. Bytes that are no UTF-8 stand for themselves: in what nobody reads they do no harm, and `clean` refuses them elsewhere."""

    def no(text: str) -> Any:
        raise Refused(f"{text} is no JSON")

    try:
        return json.loads(data.decode(errors="surrogateescape"), parse_constant=no, parse_int=_int)
    except (ValueError, RecursionError) as error:
        raise Refused(str(error)) from error


def _int(digits: str) -> int | float:
    """Of absurd length: no integer."""
    return int(digits) if len(digits) < _DIGITS_MAX else math.inf


def clean(value: Any, what: str) -> str:
    if not isinstance(value, str) or _LONE.search(value):
        raise Refused(f"{what} is no text")
    return value


def integer(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refused(f"{what} is no integer")
    return value


def fields(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refused(f"{what} is no object")
    return value


def number(value: int, column: Column) -> str:
    labels, kind = column.elements, column.kind
    high = {"int": (1 << 63) - 1, "year": 9999, "enum": len(labels), "set": (1 << len(labels)) - 1}.get(kind, (1 << 64) - 1)
    if kind == "bit" and 0 < column.length < 64:
        high = (1 << column.length) - 1
    if not (-(1 << 63) if kind == "int" else 0) <= value <= high:
        raise Refused(f"{value} is no {kind}")
    match kind:
        case "enum":
            return ["", *labels][value]
        case "set":
            return ",".join(label for bit, label in enumerate(labels) if value & 1 << bit)
        case "year":
            return f"{value:04d}"
        case _:
            return str(value)


def real(value: float, column: Column) -> str:
    try:
        result = struct.unpack("f", struct.pack("f", float(value)))[0] if column.kind == "float" else float(value)
    except OverflowError as error:
        raise Refused(f"{value} is no {column.kind}") from error
    if not math.isfinite(result):
        raise Refused(f"{value} is no {column.kind}")
    return repr(result)


def words(text: str, column: Column, zone: Zone) -> str:
    kind, scale = column.kind, column.scale
    if kind == "date":
        if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
            raise Refused(f"{text} is no date")
        return text
    if kind not in _SHAPES:
        return text
    match = re.fullmatch(rf"({_SHAPES[kind]})(?:\.([0-9]+))?", text)
    if match is None:
        raise Refused(f"{text} is no {kind}")
    if set((match[2] or "")[scale:]) - {"0"}:
        raise Refused(f"{text} has too many digits")
    whole, fraction = match[1], (match[2] or "")[:scale].ljust(scale, "0")
    if kind == "timestamp" and zone.name != "UTC":
        whole = _in_utc(whole, zone)
    return f"{whole}.{fraction}" if scale else whole


def _in_utc(clock: str, zone: Zone) -> str:
    """Of all offsets that the zone has near that time, those whose moment the zone shows as `clock`."""
    if clock == "0000-00-00 00:00:00":
        return clock
    there = ZoneInfo(zone.name)
    try:
        shown = datetime.strptime(clock, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError as error:
        raise Refused(f"{clock} is no timestamp") from error
    moments = sorted({moment for days in (-2, -1, 0, 1, 2) for moment in _shifted(shown, days, there)})
    fitting = [moment for moment in moments if moment.astimezone(there).replace(tzinfo=UTC) == shown]
    if not fitting or (len(fitting) > 1 and zone.ambiguous == "refuse"):
        raise Refused(f"{clock} is {len(fitting)} moments")
    return (fitting[-1] if zone.ambiguous == "second" else fitting[0]).isoformat(sep=" ")[:19]


def _shifted(shown: datetime, days: int, there: ZoneInfo) -> list[datetime]:
    """`shown` as a moment, by the offset of so many days later; none beyond the calendar."""
    try:
        moment = shown - ((shown + timedelta(days=days)).astimezone(there).utcoffset() or timedelta())
        moment.astimezone(there)
    except OverflowError:
        return []
    return [moment]


def octets(data: bytes, column: Column) -> str:
    """Of a text column: the text."""
    if column.kind != "binary":
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise Refused("not UTF-8") from error
    if 0 <= column.length < len(data):
        raise Refused(f"longer than {column.length} bytes")
    return data.ljust(max(column.length, 0), b"\0").hex().upper()


def rows_of(changes: pa.Table) -> dict[int, list[Row]]:
    """The worker's changes, by the number of the row that they were decoded from."""
    made: dict[int, list[Row]] = {}
    columns = changes.select(["ordinal", "op", "before", "after"]).columns
    for ordinal, op, before, after in zip(*(column.to_pylist() for column in columns), strict=True):
        made.setdefault(ordinal, []).append(Row(op, before and tuple(before), after and tuple(after)))
    return made


def changes(before: Texts | None, after: Texts | None, schema: TableSchema) -> list[Row]:
    """Of one row's images: an update of the key is a delete and an insert."""
    names = schema.column_names()
    keys = [None if image is None else tuple(image[names.index(name)] for name in schema.key) for image in (before, after)]
    if any(key is not None and None in key for key in keys):
        raise Refused("a key column is null")
    if before is not None and after is not None and keys[0] != keys[1]:
        return [Row("insert", None, after), Row("delete", before, None)]
    return [Row("delete" if after is None else "insert" if before is None else "update", before, after)]
