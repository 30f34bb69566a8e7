"""TiDB's binary JSON and vectors to TiDB's own text.

    value     type code (1 byte), then its body
    object    count u32, size u32, count × (key offset u32, key length u16), count × (type code u8, offset u32), keys, values
    array     the same without keys; offsets count from the body's first byte; a literal stands in its offset's first byte

Little-endian throughout (pingcap/tidb pkg/types/json_binary.go). Text as TiDB writes it: `", "` and `": "`,
a double with `.0` or an exponent outside [1e-15, 1e15), dates with six fractional digits, opaque values as base64.

A body must fill the size that it names, keys must rise, elements must not overlap, and nesting ends at MySQL's depth of
100: no input recurses or loops beyond its own length.
"""

from __future__ import annotations

import math
import struct
from base64 import b64encode
from decimal import Decimal

from sidecar.shared.rowcodec.kv_error import Broken
from sidecar.shared.rowcodec.kv_time import core_time_text, duration_text

OBJECT, ARRAY, LITERAL, INT64, UINT64, DOUBLE, STRING, OPAQUE, DATE, DATETIME, TIMESTAMP, DURATION = (
    0x01, 0x03, 0x04, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x0E, 0x0F, 0x10, 0x11,
)  # fmt: skip

_LITERALS = {0: "null", 1: "true", 2: "false"}
_FIXED = {LITERAL: 1, INT64: 8, UINT64: 8, DOUBLE: 8, DATE: 8, DATETIME: 8, TIMESTAMP: 8, DURATION: 12}
_DEPTH_MAX = 100
_DIMENSIONS_MAX = 16383
_UVARINT_BYTES_MAX = 10
_HEAD, _KEY_ENTRY, _VALUE_ENTRY = 8, 6, 5

_ESCAPES = {ord('"'): '\\"', ord("\\"): "\\\\", 8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}
_ESCAPES |= {code: f"\\u{code:04x}" for code in (*range(0x20), 0x2028, 0x2029) if code not in _ESCAPES}

_u16 = struct.Struct("<H").unpack_from
_u32 = struct.Struct("<I").unpack_from
_i64 = struct.Struct("<q").unpack_from
_u64 = struct.Struct("<Q").unpack_from
_f64 = struct.Struct("<d").unpack_from
_f32 = struct.Struct("<f")


def json_text(data: bytes) -> str:
    """The text of one value that is `data` from end to end. Raises Broken."""
    end = json_end(data, 0)
    if end != len(data):
        raise Broken(end, "the end of the JSON value", f"{len(data) - end} bytes more")
    return _text(data[0], data, 1, end, 0)


def json_end(data: bytes, at: int) -> int:
    """Where the value that begins at `at` ends, by its own sizes. Raises Broken."""
    if at >= len(data):
        raise Broken(at, "the type code of a JSON value", "the end")
    return _body_end(data[at], data, at + 1)


def _body_end(code: int, data: bytes, at: int) -> int:
    if code in _FIXED:
        end = at + _FIXED[code]
    elif code in (OBJECT, ARRAY):
        _need(data, at, _HEAD, "count and size of a JSON object or array")
        end = at + _u32(data, at + 4)[0]
        if end < at + _HEAD:
            raise Broken(at + 4, f"a size of at least {_HEAD}", str(end - at))
    elif code in (STRING, OPAQUE):
        length, start = _uvarint(data, at + (code == OPAQUE))
        end = start + length
    else:
        raise Broken(at, "the type code of a JSON value", f"0x{code:02x}")
    if end > len(data):
        raise Broken(at, f"{end - at} bytes of JSON", f"{len(data) - at}")
    return end


def _text(code: int, data: bytes, at: int, end: int, depth: int) -> str:
    """The body `data[at:end]`, whose size is known to fit."""
    if depth > _DEPTH_MAX:
        raise Broken(at, f"JSON nested at most {_DEPTH_MAX} deep", "more")
    match code:
        case 0x04:  # LITERAL; constants cannot be patterns
            if data[at] not in _LITERALS:
                raise Broken(at, "the literal null, true or false", str(data[at]))
            return _LITERALS[data[at]]
        case 0x09:
            return str(_i64(data, at)[0])
        case 0x0A:
            return str(_u64(data, at)[0])
        case 0x0B:
            return _double_text(_f64(data, at)[0], at)
        case 0x0C:
            length, start = _uvarint(data, at)
            return _quoted(data, start, length)
        case 0x0D:
            length, start = _uvarint(data, at + 1)
            return f'"base64:type{data[at]}:{b64encode(data[start : start + length]).decode()}"'
        case 0x0E | 0x0F | 0x10:
            return f'"{core_time_text(_u64(data, at)[0], at, of_date=code == DATE)}"'
        case 0x11:
            return f'"{duration_text(_i64(data, at)[0], 6, at)}"'
        case _:
            return _container_text(code, data, at, end, depth)


def _container_text(code: int, data: bytes, at: int, end: int, depth: int) -> str:
    count = _u32(data, at)[0]
    keys_at = at + _HEAD
    values_at = keys_at + (_KEY_ENTRY * count if code == OBJECT else 0)
    free = values_at + _VALUE_ENTRY * count
    if free > end:
        raise Broken(at, f"{count} entries inside {end - at} bytes", "fewer bytes")
    keys: list[bytes] = []
    for entry in range(keys_at, values_at, _KEY_ENTRY):
        start, free = _inside(data, at, entry, free, end, length=_u16(data, entry + 4)[0])
        keys.append(data[start:free])
        if len(keys) > 1 and keys[-2] >= keys[-1]:
            raise Broken(entry, "keys of an object that rise", repr(keys[-1][:40]))
    values: list[str] = []
    for entry in range(values_at, values_at + _VALUE_ENTRY * count, _VALUE_ENTRY):
        inner = data[entry]
        if inner == LITERAL:
            values.append(_text(inner, data, entry + 1, entry + 2, depth))
            continue
        start, _ = _inside(data, at, entry + 1, free, end, length=0)
        free = _body_end(inner, data, start)
        if free > end:
            raise Broken(entry, "an element inside its object or array", f"{free - end} bytes beyond")
        values.append(_text(inner, data, start, free, depth + 1))
    if code == ARRAY:
        return f"[{', '.join(values)}]"
    return "{" + ", ".join(f"{_quoted(key, 0, len(key))}: {value}" for key, value in zip(keys, values, strict=True)) + "}"


def _inside(data: bytes, at: int, entry: int, free: int, end: int, *, length: int) -> tuple[int, int]:
    """Start and end of what the offset at `entry` names. TiDB writes keys and values one behind the other: what reaches
    back before `free` would let a few bytes stand for endless text."""
    start = at + int(_u32(data, entry)[0])
    if not free <= start <= start + length <= end:
        raise Broken(entry, f"an offset and length between {free - at} and {end - at}", f"{start - at}, {length}")
    return start, start + length


def _quoted(data: bytes, start: int, length: int) -> str:
    try:
        return f'"{data[start : start + length].decode().translate(_ESCAPES)}"'
    except UnicodeDecodeError as error:
        raise Broken(start + error.start, "UTF-8", f"0x{data[start + error.start]:02x}") from error


def _double_text(value: float, at: int) -> str:
    if not math.isfinite(value):
        raise Broken(at, "a finite double", str(value))
    if value == 0 or 1e-15 <= abs(value) < 1e15:
        text = plain_text(repr(value))
        return text if "." in text else f"{text}.0"
    digits, _, exponent = f"{Decimal(repr(value)).normalize():e}".partition("e")
    return f"{digits}e{int(exponent)}"


def plain_text(number: str) -> str:
    """The shortest digits of `number` without an exponent."""
    return format(Decimal(number), "f")


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    """Value and where it ends."""
    value = 0
    for number in range(_UVARINT_BYTES_MAX):
        if at + number >= len(data):
            break
        byte = data[at + number]
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return value, at + number + 1
    raise Broken(at, "the length of a JSON string", "no end of the number")


def _need(data: bytes, at: int, size: int, what: str) -> None:
    if at + size > len(data):
        raise Broken(at, f"{size} bytes ({what})", str(len(data) - at))


# ---- vectors --------------------------------------------------------------------------------------------------------


def vector_end(data: bytes, at: int) -> int:
    _need(data, at, 4, "dimensions of a vector")
    dimensions = _u32(data, at)[0]
    if dimensions > _DIMENSIONS_MAX:
        raise Broken(at, f"at most {_DIMENSIONS_MAX} dimensions", str(dimensions))
    _need(data, at + 4, 4 * dimensions, "numbers of a vector")
    return at + 4 + 4 * int(dimensions)


def vector_text(data: bytes) -> str:
    """`[1,2.5]`: each the shortest text that is the same float32, without an exponent."""
    end = vector_end(data, 0)
    if end != len(data):
        raise Broken(end, "the end of the vector", f"{len(data) - end} bytes more")
    return "[" + ",".join(_float32_text(_f32.unpack_from(data, at)[0], at) for at in range(4, end, 4)) + "]"


def _float32_text(value: float, at: int) -> str:
    if not math.isfinite(value):
        raise Broken(at, "a finite number", str(value))
    text = next(text for digits in range(1, 10) if _is_float32(value, text := f"{value:.{digits}g}"))
    text = plain_text(text)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _is_float32(value: float, text: str) -> bool:
    try:
        return _f32.pack(float(text)) == _f32.pack(value)
    except OverflowError:
        return False
