"""TiCDC's protocols: a batch of damaged messages, through codec and decode, and beside them through the slow readers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import cramjam

from sidecar.shared.codecs.compression import SNAPPY_RATIO_MAX, Compression
from sidecar.shared.codecs.contract import Codec
from sidecar.shared.codecs.registry import codec_for
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.model.nouns import MARK_TABLE, Change, Envelope, Lane, Message, TableName
from spark_merge.codecs.decode.rows import decode
from tests.tools.fuzz import slow_canal_json, slow_open_protocol, slow_simple, slow_simple_avro
from tests.tools.fuzz.damage import damaged_bytes, damaged_json
from tests.tools.fuzz.seeds import Seeds, seeds
from tests.tools.fuzz.slow_values import Row, Zone, rows_of
from tests.tools.fuzz.verdict import Counts, Refused, differ, fault, ours, reported_of, slow
from tests.unit.decode.log import logged

LANE = Lane("kafka/t/0")
ZONES = (
    Zone(), Zone(), Zone(), Zone("Asia/Shanghai"), Zone("America/New_York"), Zone("America/New_York", "first"),
    Zone("America/New_York", "second"),
)  # fmt: skip

Pair = tuple[bytes | None, bytes | None]


@dataclass(frozen=True, slots=True)
class Protocol:
    """`slow`: the module of its slow reader."""

    slow: Any
    damaged: Callable[[Random, Pair, Pair, Compression], Pair]


def codec_of(name: str, packing: Compression) -> Codec:
    protocol, _, encoding = name.partition("/")
    return codec_for(protocol, tidb_extension=True, compression=packing, encoding=encoding)


def batch(name: str, random: Random, size: int) -> Counts:
    """Raises Fault."""
    protocol, result, counts = PROTOCOLS[name], seeds(name), Counts()
    packing: Compression = random.choice(("none", "none", "none", "lz4", "snappy"))
    zone = random.choice(ZONES)
    codec = codec_of(name, packing)
    taken: list[tuple[Change, list[Row]]] = []
    for position in range(size):
        key, value = protocol.damaged(random, random.choice(result.messages), random.choice(result.messages), packing)
        counts.messages += 1
        envelopes = _envelopes(protocol, codec, packing, Message(LANE, position, key, value))
        if isinstance(envelopes, TicdcDumpError):
            _count_refusal(counts, envelopes, slow(partial(protocol.slow.envelopes, key, value, partial(unpacked, packing))))
            continue
        changes = [one for one in envelopes if isinstance(one, Change)]
        outcomes = [_row(protocol, codec, one, result, zone, taken) for one in changes]
        refusals = [one for one in outcomes if one is not None]
        for error in refusals[:1]:
            counts.refused[type(error).__name__] += 1
        counts.equal += not refusals
    counts.rows += len(taken)
    _all_at_once(codec.name, taken, result, zone, counts)
    return counts


def _count_refusal(counts: Counts, error: TicdcDumpError, read: object) -> None:
    counts.refused[type(error).__name__] += 1
    counts.only_slow += not isinstance(read, Refused)


def _envelopes(protocol: Protocol, codec: Codec, packing: Compression, message: Message) -> list[Envelope] | TicdcDumpError:
    """What the codec reads, held against the slow reader."""
    inputs = (message.key, message.value)
    envelopes = ours(lambda: codec.envelopes(message), f"{codec.name} ({packing})", *inputs)
    if isinstance(envelopes, TicdcDumpError):
        return envelopes
    expected = slow(lambda: protocol.slow.envelopes(*inputs, partial(unpacked, packing)))
    reported = [reported_of(one) for one in envelopes]
    if reported != expected:
        raise differ(f"{codec.name} ({packing})", reported, expected, *inputs)
    for one in envelopes:
        if isinstance(one, Change):
            ours(partial(codec.identity, one), "identity", *inputs)
            if (one.schema, one.table) == MARK_TABLE:
                _mark(codec, one, protocol.slow.mark)
    return envelopes


def _mark(codec: Codec, change: Change, slowly: Callable[[bytes], tuple[Any, Any, int]]) -> None:
    result = ours(lambda: codec.mark(change), "mark", change.key, change.value)
    if result is None or isinstance(result, TicdcDumpError):
        return
    expected = (change.commit_ts, *slowly(change.value))
    if tuple(result) != expected:
        raise differ("mark", result, expected, change.key, change.value)


# ---- rows -----------------------------------------------------------------------------------------------------------


def _decoded(name: str, changes: Iterable[Change], value: Seeds, zone: Zone) -> dict[int, list[Row]]:
    """The worker's rows, by the number of their change."""
    return rows_of(decode(logged(changes, codec=name), codec=name, schemas=value.schemas, server_tz=ServerZone(*zone)))


def _row(
    protocol: Protocol, codec: Codec, change: Change, value: Seeds, zone: Zone, taken: list[tuple[Change, list[Row]]]
) -> TicdcDumpError | None:
    """What the slow reader takes is read later, with others. What it refuses must be refused alone."""
    name = TableName(change.schema, change.table)
    if name == MARK_TABLE:
        return None
    schema = value.schemas.get(name)
    expected = Refused("no schema") if schema is None else slow(lambda: protocol.slow.rows(change.value, schema, zone))
    if not isinstance(expected, Refused):
        taken.append((change, expected))
        return None
    read = ours(lambda: _decoded(codec.name, [change], value, zone), f"decode of {name!r:.200}, {zone}", change.key, change.value)
    if not isinstance(read, TicdcDumpError):
        raise differ(f"decode of {name!r:.200}, {zone}", read, expected, change.key, change.value)
    return read


def _all_at_once(name: str, taken: list[tuple[Change, list[Row]]], value: Seeds, zone: Zone, counts: Counts) -> None:
    """By halves where something among them is refused, as an operator's `skip` looks for it."""
    if not taken:
        return
    values = [change.value for change, _ in taken]
    read = ours(lambda: _decoded(name, [change for change, _ in taken], value, zone), f"decode, {zone}", *values)
    if not isinstance(read, TicdcDumpError):
        for number, (change, expected) in enumerate(taken):
            if read.get(number) != expected:
                raise differ(f"decode of {change.schema}.{change.table}, {zone}", read.get(number), expected, change.key, change.value)
    elif len(taken) > 1:
        half = len(taken) // 2
        _all_at_once(name, taken[:half], value, zone, counts)
        _all_at_once(name, taken[half:], value, zone, counts)
    else:
        counts.only_slow += 1


# ---- damage ---------------------------------------------------------------------------------------------------------


def unpacked(packing: Compression, value: bytes) -> bytes:
    try:
        if packing == "snappy":
            if cramjam.snappy.decompress_raw_len(value) > SNAPPY_RATIO_MAX * len(value):
                raise Refused("a lie")
            return bytes(cramjam.snappy.decompress_raw(value))
        return value if packing == "none" else bytes(cramjam.lz4.decompress(value))
    except cramjam.DecompressionError as error:
        raise Refused(str(error)) from error


_LZ4_OF_GO = bytes.fromhex("04224d186470b9")


def packed(packing: Compression, value: bytes) -> bytes:
    if packing == "none" or not value:
        return value
    if packing == "snappy":
        return bytes(cramjam.snappy.compress_raw(value))
    frame = cramjam.lz4.Compressor(content_checksum=True, block_linked=False)
    frame.compress(value)
    made = bytes(frame.finish())
    return _LZ4_OF_GO + made[7:]


def damaged_open_protocol(random: Random, seed: Pair, other: Pair, packing: Compression) -> Pair:
    keys, values = ([*_frames(seed[0] or b"", 8)], [*_frames(seed[1] or b"", 0)])
    choice, event = random.randrange(12), random.randrange(len(keys))
    others = _frames(other[1] or b"", 0)
    match choice:
        case 0:
            pass
        case 1 | 2:
            keys[event] = damaged_json(random, keys[event], other[0] or b"")
        case 3 | 4 | 5 | 6 | 7 if values[event]:
            values[event] = damaged_json(random, values[event], others[0])
        case 8:
            values[event] = others[0]
    values = [packed(packing, value) for value in values]
    if choice == 9:
        values[event] = damaged_bytes(random, values[event], others[0])
    key, value = b"\0\0\0\0\0\0\0\1" + b"".join(map(_framed, keys)), b"".join(map(_framed, values))
    if choice == 10:
        key, value = lied(random, key, 8), lied(random, value, 0)
    elif choice == 11:
        key, value = damaged_bytes(random, key, other[0] or b""), value if random.randrange(2) else damaged_bytes(random, value, others[0])
    return _or_null(random, key), _or_null(random, value)


def lied(random: Random, data: bytes, start: int) -> bytes:
    """Lengths of the framing that are not so, frames twice or gone, a version that is another."""
    made, frames = bytearray(data), _frames(data, start)
    if start and not random.randrange(6):
        made[random.randrange(8)] ^= 1 << random.randrange(8)
    if not frames or not random.randrange(3):
        return bytes(made)
    number = random.randrange(len(frames))
    at = start + sum(8 + len(frame) for frame in frames[:number])
    size = len(frames[number])
    match random.randrange(4):
        case 0:
            lie = random.choice(
                (0, 1, size - 1, size + 1, size + 8, len(data), 1 << 31, 1 << 32, 1 << 62, 1 << 63, (1 << 64) - 1, (1 << 64) - 8)
            )
            made[at : at + 8] = (max(lie, 0) & (1 << 64) - 1).to_bytes(8, "big")
        case 1:
            made[at:at] = made[at : at + 8 + size]
        case 2:
            del made[at : at + 8 + size]
        case _:
            made[at:at] = bytes(8 * random.randint(1, 3))
    return bytes(made)


def damaged_value(random: Random, seed: Pair, other: Pair, packing: Compression) -> Pair:
    key, value = seed[0], seed[1] or b""
    choice = random.randrange(12)
    if 0 < choice < 11:
        value = damaged_json(random, value, other[1] or b"")
    value = packed(packing, value)
    return key, _or_null(random, damaged_bytes(random, value, other[1] or b"") if choice == 11 else value)


def damaged_avro(random: Random, seed: Pair, other: Pair, packing: Compression) -> Pair:
    key, value = seed[0], seed[1] or b""
    choice = random.randrange(12)
    if 0 < choice < 8:
        value = damaged_bytes(random, value, other[1] or b"")
    value = packed(packing, value)
    return key, _or_null(random, damaged_bytes(random, value, other[1] or b"") if choice == 11 else value)


def _or_null(random: Random, data: bytes) -> bytes | None:
    return None if not random.randrange(500) else data


def _framed(content: bytes) -> bytes:
    return len(content).to_bytes(8, "big") + content


def _frames(data: bytes, at: int) -> list[bytes]:
    """Of a message that is whole."""
    frames = []
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "big")
        frames.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    return frames


PROTOCOLS = {
    "open-protocol": Protocol(slow_open_protocol, damaged_open_protocol),
    "canal-json": Protocol(slow_canal_json, damaged_value),
    "simple": Protocol(slow_simple, damaged_value),
    "simple/avro": Protocol(slow_simple_avro, damaged_avro),
}


def whole(name: str, seed: Pair) -> list[list[Row]]:
    """What a recorded message says, undamaged; the two readers agree on it. Raises Fault."""
    protocol, result = PROTOCOLS[name], seeds(name)
    codec = codec_of(name, "none")
    envelopes = _envelopes(protocol, codec, "none", Message(LANE, 0, *seed))
    if isinstance(envelopes, TicdcDumpError):
        raise fault(f"a recorded message is refused: {envelopes}", *seed)
    taken: list[tuple[Change, list[Row]]] = []
    refused = [_row(protocol, codec, one, result, Zone(), taken) for one in envelopes if isinstance(one, Change)]
    counts = Counts()
    _all_at_once(codec.name, taken, result, Zone(), counts)
    if counts.only_slow or any(refused):
        raise fault(f"a recorded row is refused: {refused}", *seed)
    return [rows for _, rows in taken]
