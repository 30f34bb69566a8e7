"""A pump's messages, slowly: the twin of sidecar/shared/codecs/binlog.py over a protobuf reader of its own, and of rowcodec/binlog_fold.py.

A row's own slow reader is the product's: sidecar/shared/rowcodec/binlog_row.py.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterable
from typing import NamedTuple

from tests.tools.fuzz import slow_kv
from tests.tools.fuzz.slow_values import Texts
from tests.tools.fuzz.verdict import Refused

VARINT, FIXED_64, BYTES, GROUP, GROUP_END, FIXED_32 = range(6)
_DEPTH_MAX = 200

Field = tuple[int, int | bytes]


def envelopes(value: bytes | None) -> list[slow_kv.Event]:
    if value is None or value[:1] in (b"R", b"D"):
        return slow_kv.envelopes(None, value)
    binlog = fields(value)
    start_ts, commit_ts, job = (_number(binlog, field) for field in (2, 3, 7))
    prewrite = fields(_bytes(binlog, 5))
    mutations = [data for number, data in prewrite if number == 2 and isinstance(data, bytes)]
    for mutation in mutations:
        fields(mutation)
    if commit_ts <= 0:
        raise Refused("no commit_ts")
    if start_ts == commit_ts:
        if mutations:
            raise Refused("a fake with rows")
    elif _kinds(binlog, 1, range(5))[-1:] != [1] or job:
        raise Refused("no transaction")
    tables = [_number(fields(mutation), 1) for mutation in mutations]
    if len(tables) != len(set(tables)):
        raise Refused("a table twice")
    results: list[slow_kv.Event] = []
    for mutation in mutations:
        results += _rows(fields(mutation), commit_ts, _number(prewrite, 1), len(results))
    return [*results, ("resolved", commit_ts + 1)]


def _rows(mutation: list[Field], commit_ts: int, schema_version: int, ordinal: int) -> list[slow_kv.Event]:
    lists = {kind: [row for number, row in mutation if number == field and isinstance(row, bytes)] for kind, field in _LISTS.items()}
    sequence = _kinds(mutation, 7, range(5))
    if any(sequence.count(kind) != len(rows) for kind, rows in lists.items()) or set(sequence) - set(_LISTS):
        raise Refused("another sequence")
    if _kinds(mutation, 4, None) or any(number == 5 and isinstance(result, bytes) for number, result in mutation):
        raise Refused("obsolete")
    is_mixed = len(lists[1]) > 1 or sum(bool(rows) for rows in lists.values()) > 1
    table, made = str(_number(mutation, 1)), []
    for number, kind in enumerate(sequence, ordinal):
        letter = "IU  D"[kind]
        head = struct.pack(">I", number) + (letter.lower() if is_mixed else letter).encode() + struct.pack(">q", schema_version)
        made.append(("delete" if kind == 4 else "put", commit_ts, "", table, b"", head + lists[kind].pop(0)))
    return made


_LISTS = {0: 2, 1: 3, 4: 6}
"""Kinds of row events, and the fields that their rows are in."""

# ---- protobuf -------------------------------------------------------------------------------------------------------


def fields(data: bytes) -> list[Field]:
    """Numbers and values of all fields, numbers as unsigned; of another wire type than numbers and bytes they are left out."""
    results: list[Field] = []
    _read(data, 0, results, 0)
    return results


def _read(data: bytes, at: int, result: list[Field], group: int, depth: int = 0) -> int:
    """Up to the end, or behind the end of `group`."""
    while at < len(data) or group:
        tag, at = varint(data, at)
        number, wire = tag >> 3, tag & 7
        if not number or tag >> 32 or depth > _DEPTH_MAX:
            raise Refused(f"tag {tag}")
        match wire:
            case 0:
                value, at = varint(data, at)
                result.append((number, value))
            case 2:
                size, at = varint(data, at)
                at = _within(data, at + size)
                result.append((number, data[at - size : at]))
            case 1 | 5:
                at = _within(data, at + (8 if wire == FIXED_64 else 4))
            case 3:
                at = _read(data, at, [], number, depth + 1)
            case 4 if number == group:
                return at
            case _:
                raise Refused(f"wire type {wire}")
    return at


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        _within(data, at + 1)
        value |= (data[at] & 0x7F) << 7 * place
        at += 1
        if data[at - 1] < 0x80:
            return value & ((1 << 64) - 1), at
    raise Refused("a number without an end")


def _within(data: bytes, at: int) -> int:
    if at > len(data):
        raise Refused("the end")
    return at


def _number(result: list[Field], field: int) -> int:
    """The last one counts."""
    value = next((value for number, value in reversed(result) if number == field and isinstance(value, int)), 0)
    return value - (1 << 64) if value >> 63 else value


def _bytes(result: list[Field], field: int) -> bytes:
    return next((value for number, value in reversed(result) if number == field and isinstance(value, bytes)), b"")


def _kinds(result: list[Field], field: int, known: range | None) -> list[int]:
    """One by one or packed. What an enum does not know is as if it were not there."""
    values: list[int] = []
    for number, value in result:
        if number == field and isinstance(value, int):
            values.append(value)
        elif number == field and isinstance(value, bytes) and field != 1:
            at = 0
            while at < len(value):
                one, at = varint(value, at)
                values.append(one)
    return values if known is None else [value & 0xFFFFFFFF for value in values if value & 0xFFFFFFFF in known]


# ---- fold -----------------------------------------------------------------------------------------------------------


class Event(NamedTuple):
    """A row event that was read. `handle`: equal for events of one row."""

    handle: Hashable
    before: Texts | None
    after: Texts | None


def net(events: Iterable[Event]) -> list[tuple[Texts | None, Texts | None]]:
    """What the events of one table and transaction leave of each row, in no order that counts."""
    by_row: dict[Hashable, list[Event]] = {}
    for event in events:
        by_row.setdefault(event.handle, []).append(event)
    left = [(chain[0].before, chain[-1].after) for chain in by_row.values()]
    return sorted(((before, after) for before, after in left if before or after), key=str)
