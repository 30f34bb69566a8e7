"""Rows and keys as TiDB writes them, from pingcap/tidb pkg/tablecodec and pkg/util/rowcodec: written
from the format, not from the decoder.

A **plain** value is what TiDB's datum holds: int (integers, enum, set, bit, packed times, ns), float, bytes, or
`Stored`, `Json` and `Vector`. `info` makes the TableInfo JSON of a table.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

SIGN = 1 << 63

TYPES: dict[str, int] = {
    "tinyint": 1, "smallint": 2, "int": 3, "float": 4, "double": 5, "timestamp": 7, "bigint": 8, "mediumint": 9, "date": 10,
    "time": 11, "datetime": 12, "year": 13, "varchar": 15, "bit": 16, "vector": 225, "json": 245, "decimal": 246, "enum": 247,
    "set": 248, "tinyblob": 249, "mediumblob": 250, "longblob": 251, "blob": 252, "char": 254,
}  # fmt: skip
NOT_NULL, PRIMARY, UNSIGNED, BINARY = 1, 2, 32, 128


@dataclass(frozen=True)
class Json:
    value: Any


@dataclass(frozen=True)
class Vector:
    numbers: tuple[float, ...]


@dataclass(frozen=True)
class Stored:
    """A decimal's digits as one int, with the precision and scale that it is stored with."""

    unscaled: int
    precision: int
    scale: int


Plain = int | float | bytes | Stored | Json | Vector


# ---- tables ---------------------------------------------------------------------------------------------------------


def column(
    id_: int, name: str, type_: str, *, unsigned: bool = False, flen: int = -1, decimal: int = 0, collation: str = "binary", **more: Any
) -> dict[str, Any]:
    """One entry of TableInfo's cols; `more` overrides its fields, `flag`, `elems` and `primary` are of its type."""
    flag = more.pop("flag", 0) | (UNSIGNED if unsigned else 0) | (PRIMARY | NOT_NULL if more.pop("primary", False) else 0)
    charset = collation.split("_")[0]
    field_type = {
        "Tp": TYPES[type_], "Flag": flag, "Flen": flen, "Decimal": decimal, "Charset": charset, "Collate": collation,
        "Elems": more.pop("elems", None), "ElemsIsBinaryLit": None, "Array": False,
    }  # fmt: skip
    return {
        "id": id_, "name": {"O": name, "L": name.lower()}, "offset": id_ - 1, "origin_default": None, "origin_default_bit": None,
        "default": None, "default_bit": None, "default_is_expr": False, "generated_expr_string": "", "generated_stored": False,
        "dependences": None, "type": field_type, "state": 5, "comment": "", "hidden": False, "change_state_info": None, "version": 2,
    } | more  # fmt: skip


def info(columns: Sequence[dict[str, Any]], *, primary: Sequence[tuple[str, int]] = (), int_handle: bool = False, **more: Any) -> Any:
    """TableInfo. `primary`: columns of the clustered primary key, with their prefix length or -1."""
    index = {
        "id": 1, "idx_name": {"O": "PRIMARY", "L": "primary"}, "state": 5, "is_unique": True, "is_primary": True,
        "idx_cols": [{"name": {"O": name, "L": name}, "offset": 0, "length": length} for name, length in primary],
    }  # fmt: skip
    return {
        "id": 104, "name": {"O": "t", "L": "t"}, "cols": list(columns), "index_info": [index] if primary else None, "state": 5,
        "pk_is_handle": int_handle, "is_common_handle": bool(primary), "common_handle_version": 1, "partition": None,
    } | more  # fmt: skip


# ---- keys -----------------------------------------------------------------------------------------------------------


def memcomparable_int(value: int) -> bytes:
    return struct.pack(">Q", (value + SIGN) % (1 << 64))


def memcomparable_float(value: float) -> bytes:
    (bits,) = struct.unpack(">Q", struct.pack(">d", value))
    return struct.pack(">Q", bits | SIGN if not bits & SIGN else ~bits % (1 << 64))


def memcomparable_bytes(value: bytes) -> bytes:
    groups = [value[at : at + 8] for at in range(0, len(value) + 1, 8)]
    return b"".join(group.ljust(8, b"\0") + bytes([0xFF - 8 + len(group)]) for group in groups)


def row_key(handle: bytes, *, table_id: int = 104, keyspace: int | None = None) -> bytes:
    prefix = b"" if keyspace is None else b"x" + keyspace.to_bytes(3, "big")
    return prefix + b"t" + memcomparable_int(table_id) + b"_r" + handle


def common_handle(parts: Sequence[tuple[dict[str, Any], Plain]]) -> bytes:
    """`bytes` values are sort keys already."""
    made = b"".join(_key_part(result, plain) for result, plain in parts)
    return made.ljust(9, b"\0")


def _key_part(value: dict[str, Any], plain: Plain) -> bytes:
    match plain:
        case bytes():
            return b"\x01" + memcomparable_bytes(plain)
        case Stored():
            return b"\x06" + decimal_bytes(plain)
        case float():
            return b"\x05" + memcomparable_float(plain)
        case int() if value["type"]["Tp"] == TYPES["time"]:
            return b"\x07" + memcomparable_int(plain)
        case int() if _is_signed(value):
            return b"\x03" + memcomparable_int(plain)
        case int():
            return b"\x04" + struct.pack(">Q", plain)
    raise AssertionError(plain)


def _is_signed(value: dict[str, Any]) -> bool:
    tp, flag = value["type"]["Tp"], value["type"]["Flag"]
    return tp in (11, 13) or (tp in (1, 2, 3, 8, 9) and not flag & UNSIGNED)


# ---- values ---------------------------------------------------------------------------------------------------------

_PART_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def decimal_bytes(stored: Stored) -> bytes:
    digits = str(abs(stored.unscaled)).rjust(stored.precision, "0")
    whole, part = digits[: stored.precision - stored.scale], digits[stored.precision - stored.scale :]
    lead = len(whole) % 9
    words = [whole[:lead]] if lead else []
    words += [whole[at : at + 9] for at in range(lead, len(whole), 9)] + [part[at : at + 9] for at in range(0, len(part), 9)]
    body = bytearray(b"".join(int(word).to_bytes(_PART_BYTES[len(word)], "big") for word in words))
    body[0] ^= 0x80
    if stored.unscaled < 0:
        body = bytearray(byte ^ 0xFF for byte in body)
    return bytes([stored.precision, stored.scale]) + bytes(body)


def minimal(value: int, *, signed: bool) -> bytes:
    for size in (1, 2, 4, 8):
        try:
            return value.to_bytes(size, "little", signed=signed)
        except OverflowError:
            continue
    raise AssertionError(value)


def cell(result: dict[str, Any], plain: Plain) -> bytes:
    """The value in row format 2."""
    match plain:
        case int():
            return minimal(plain, signed=_is_signed(result))
        case float():
            return memcomparable_float(plain)
        case bytes():
            return plain
        case Stored():
            return decimal_bytes(plain)
        case Json(value):
            return json_bytes(value)
        case Vector(numbers):
            return struct.pack(f"<I{len(numbers)}f", len(numbers), *numbers)


def datum(result: dict[str, Any], plain: Plain | None) -> bytes:
    """The value in row format 1."""
    match plain:
        case None:
            return b"\0"
        case int():
            return b"\x08" + varint(plain) if _is_signed(result) else b"\x09" + uvarint(plain)
        case float():
            return b"\x05" + memcomparable_float(plain)
        case bytes():
            return b"\x02" + varint(len(plain)) + plain
        case Stored():
            return b"\x06" + decimal_bytes(plain)
        case Json(value):
            return b"\x0a" + json_bytes(value)
        case Vector():
            return b"\x14" + cell(result, plain)


def uvarint(value: int) -> bytes:
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def varint(value: int) -> bytes:
    return uvarint(2 * value if value >= 0 else -2 * value - 1)


def json_bytes(value: Any) -> bytes:
    """Type code and body."""
    match value:
        case None | True | False:
            return b"\x04" + bytes([{None: 0, True: 1, False: 2}[value]])
        case int():
            return b"\x09" + struct.pack("<q", value) if value < SIGN else b"\x0a" + struct.pack("<Q", value)
        case float():
            return b"\x0b" + struct.pack("<d", value)
        case str():
            return b"\x0c" + uvarint(len(value.encode())) + value.encode()
        case list():
            return b"\x03" + _json_container([], value)
        case dict():
            names = sorted(name.encode() for name in value)
            return b"\x01" + _json_container(names, [value[name.decode()] for name in names])
    raise AssertionError(value)


def _json_container(names: list[bytes], values: list[Any]) -> bytes:
    head = 8 + 6 * len(names) + 5 * len(values)
    keys, entries, bodies = b"", b"", b""
    for name in names:
        keys += struct.pack("<IH", head, len(name))
        head += len(name)
        bodies += name
    for value in values:
        made = json_bytes(value)
        if made[0] == 4:
            entries += made[:2] + b"\0\0\0"
        else:
            entries += made[:1] + struct.pack("<I", head)
            head, bodies = head + len(made) - 1, bodies + made[1:]
    return struct.pack("<II", len(values), head) + keys + entries + bodies


# ---- rows -----------------------------------------------------------------------------------------------------------


def row_2(
    columns: Mapping[int, dict[str, Any]], values: Mapping[int, Plain | None], *, checksum: bytes = b"", flags: int = 0, large: bool = False
) -> bytes:
    """Row format 2: `values` by column id, None in the null list. `checksum` (header and crcs) stands behind the data."""
    present = sorted(id_ for id_, plain in values.items() if plain is not None)
    nulls = sorted(id_ for id_, plain in values.items() if plain is None)
    cells = [cell(columns[id_], plain) for id_ in present if (plain := values[id_]) is not None]
    large = large or max([0, *values]) > 255 or sum(map(len, cells)) > 65535
    ids, ends = ("I", "I") if large else ("B", "H")
    offsets = [sum(map(len, cells[: number + 1])) for number in range(len(cells))]
    head = struct.pack("<BBHH", 128, flags | large | (2 if checksum else 0), len(present), len(nulls))
    head += struct.pack(f"<{len(values)}{ids}", *present, *nulls) + struct.pack(f"<{len(present)}{ends}", *offsets)
    return head + b"".join(cells) + checksum


def row_2_checked(columns: Mapping[int, dict[str, Any]], values: Mapping[int, Plain | None], covered: bytes, *, version: int) -> bytes:
    """With a checksum over the bytes, of version 1 or 2. `covered`: the key or the handle."""
    unsigned = row_2(columns, values, checksum=bytes([version]))
    return unsigned + struct.pack("<I", crc32(covered, crc32(unsigned)))


def row_1(columns: Mapping[int, dict[str, Any]], values: Mapping[int, Plain | None]) -> bytes:
    pairs = (b"\x08" + varint(id_) + datum(columns[id_], plain) for id_, plain in values.items())
    return b"".join(pairs) or b"\0"
