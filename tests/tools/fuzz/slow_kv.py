"""The messages of a feed of raw key-values, slowly: the twin of shared/codecs/kv.py and of how codecs/decode/kv_rows.py parts images.

A row's own slow reader is the product's: sidecar/shared/rowcodec/kv_row.py.
"""

from __future__ import annotations

import struct
from typing import Any

from tests.tools.fuzz.slow_values import clean, fields, integer, loaded
from tests.tools.fuzz.verdict import Refused

Event = tuple[Any, ...]


def envelopes(key: bytes | None, value: bytes | None) -> list[Event]:
    if value is None:
        raise Refused("null")
    if key is not None:
        return [_row(key, value)]
    if value[:1] == b"R" and len(value) == 9:
        return [("resolved", struct.unpack(">Q", value[1:])[0])]
    if value[:1] != b"D":
        raise Refused("neither R nor D")
    result = fields(loaded(value[1:]), "DDL")
    if result.keys() != {"ts", "schema", "table", "query"}:
        raise Refused("other fields")
    return [("ddl", integer(result["ts"], "ts"), *(clean(result[name], name) for name in ("schema", "table", "query")))]


def _row(key: bytes, value: bytes) -> Event:
    if len(value) < 13:
        raise Refused("no images")
    ts, size = struct.unpack(">QI", value[:12])
    images(value[8:])
    bare = key[4:] if key[:1] == b"x" and len(key) > 4 else key
    if bare[:1] != b"t" or bare[9:11] != b"_r":
        raise Refused("no row's key")
    physical_id = int.from_bytes(bare[1:9], "big") - (1 << 63)
    return ("put" if size else "delete", ts, "", str(physical_id), key, value[8:])


def images(logged: bytes) -> tuple[bytes, bytes]:
    """New and old of what the log keeps; one of them is there."""
    if len(logged) < 5:
        raise Refused("no images")
    size = int.from_bytes(logged[:4], "big")
    if 4 + size > len(logged):
        raise Refused("the new value is longer than all of it")
    return logged[4 : 4 + size], logged[4 + size :]
