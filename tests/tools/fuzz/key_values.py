"""Raw key-values: a batch of one table's damaged entries, as a feed's messages, through codec and both decoders."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple
from unittest.mock import patch

import pyarrow as pa

from sidecar.shared.codecs.kv import KvCodec, encode_ddl, encode_resolved, encode_row
from sidecar.shared.columns import kv
from sidecar.shared.errors import MessageUnreadable, TicdcDumpError
from sidecar.shared.model.nouns import Change, CommitTs, Envelope, Lane, Message
from sidecar.shared.rowcodec.key_values import KvEntry
from sidecar.shared.rowcodec.kv_row import FORMAT_2, decode_row
from sidecar.shared.rowcodec.kv_table import KvTable
from spark_merge.codecs.decode.kv_rows import parted
from spark_merge.codecs.images import RowUnusable
from tests.support.kv_recordings import Entry
from tests.tools.fuzz import slow_kv
from tests.tools.fuzz.damage import damaged_bytes, damaged_json, varint
from tests.tools.fuzz.seeds import entries, layouts
from tests.tools.fuzz.verdict import Counts, Refused, differ, fault, ours, reported_of, slow
from tests.tools.fuzz.worker import Taken, agrees

LANE = Lane("kv/1")
REFUSED = "(refused)"

Outcome = list[str | None] | MessageUnreadable


class Image(NamedTuple):
    """A value that a message has brought, with the key of its row. `slow`: what the slow decoder says."""

    key: bytes
    value: bytes
    is_old: bool
    slow: Outcome


def batch(random: Random, size: int) -> Counts:
    """Raises Fault."""
    counts = Counts()
    images: list[Image] = []
    taken: list[Taken] = []
    rows = random.choice(entries())
    table = rows[0].table
    codec = KvCodec(lambda: entries()[0][0].table)
    for position in range(size):
        key, value = damaged(random, random.choice(rows), random.choice(rows))
        counts.messages += 1
        envelopes = _envelopes(codec, Message(LANE, position, key, value))
        if isinstance(envelopes, TicdcDumpError):
            counts.refused[type(envelopes).__name__] += 1
            continue
        read = [(one, _images(table, one)) for one in envelopes if isinstance(one, Change)]
        refusals = [image.slow for _, pair in read for image in pair if isinstance(image.slow, MessageUnreadable)]
        counts.refused["MessageUnreadable"] += bool(refusals)
        counts.equal += not refusals
        images += [image for _, pair in read for image in pair]
        taken += [] if refusals else [_taken(*one) for one in read]
    counts.rows += len(images)
    for is_old in (False, True):
        _columnar_agrees(table, [image for image in images if image.is_old is is_old], at_rest=is_old)
    agrees(layouts()[table.id], taken, codec="kv")
    return counts


# ---- messages -------------------------------------------------------------------------------------------------------


def _envelopes(codec: KvCodec, message: Message) -> list[Envelope] | TicdcDumpError:
    inputs = (message.key, message.value)
    envelopes = ours(lambda: codec.envelopes(message), "kv", *inputs)
    expected = slow(lambda: slow_kv.envelopes(*inputs))
    if isinstance(envelopes, TicdcDumpError):
        if message.key is not None and not isinstance(expected, Refused):
            raise differ("kv", envelopes, expected, *inputs)
        return envelopes
    if (reported := [reported_of(one) for one in envelopes]) != expected:
        raise differ("kv", reported, expected, *inputs)
    for one in envelopes:
        if isinstance(one, Change):
            ours(lambda change=one: codec.identity(change), "identity", *inputs)  # type: ignore[misc]  # a default that binds
            ours(lambda change=one: codec.mark(change), "mark", *inputs)  # type: ignore[misc]  # a default that binds
    return envelopes


def _images(table: KvTable, change: Change) -> list[Image]:
    """As the worker parts them, and as the slow reader does."""
    values = pa.array([b"before", change.value], pa.binary())[1:]
    expected = slow(lambda: slow_kv.images(change.value))
    try:
        new, old = parted(values)
    except RowUnusable as unusable:
        if isinstance(expected, Refused):
            return []
        raise differ("images", unusable, expected, change.value) from unusable
    pair = (new[0].as_py(), old[0].as_py())
    if pair != expected:
        raise differ("images", pair, expected, change.value)
    return [
        Image(change.key, value, is_old, _slowly(table, change.key, value, at_rest=is_old))
        for value, is_old in zip(pair, (False, True), strict=True)
        if value
    ]


# ---- rows -----------------------------------------------------------------------------------------------------------


def _slowly(table: KvTable, key: bytes, value: bytes, *, at_rest: bool) -> Outcome:
    result = ours(lambda: decode_row(table, key, value, at_rest=at_rest), f"decode_row of {table.schema.name}", key, value)
    if isinstance(result, TicdcDumpError):
        if not isinstance(result, MessageUnreadable):
            raise fault(f"decode_row of {table.schema.name}: another error than MessageUnreadable: {result}", key, value)
        return result
    return result


def _taken(change: Change, images: Sequence[Image]) -> Taken:
    before, after = (
        next((tuple(one.slow) for one in images if one.is_old is old and isinstance(one.slow, list)), None) for old in (True, False)
    )
    return Taken(change, before, after)


def _lenient(table: KvTable, key: bytes, value: bytes, *, at_rest: bool = False) -> list[str | None]:
    try:
        return decode_row(table, key, value, at_rest=at_rest)
    except MessageUnreadable:
        return [REFUSED] * len(table.columns)


def _columnar_agrees(table: KvTable, images: Sequence[Image], *, at_rest: bool) -> None:
    """All of them at once: those that the slow decoder refuses must have been left to it. Then as they are: the first one's error."""
    if not images:
        return
    keys, values = pa.array([one.key for one in images], pa.binary()), pa.array([one.value for one in images], pa.binary())
    what = f"decode_rows of {table.schema.name}"
    inputs = [part for one in images for part in (one.key, one.value)]
    with patch.object(kv, "decode_row", _lenient):
        result = ours(lambda: kv.decode_rows(table, keys, values, at_rest=at_rest), what, *inputs)
    if isinstance(result, TicdcDumpError):
        raise fault(f"{what}: refused, though no row was: {result}", *inputs)
    result.validate(full=True)
    for image, texts in zip(images, zip(*(column.to_pylist() for column in result.columns), strict=True), strict=True):
        expected = [REFUSED] * len(texts) if isinstance(image.slow, MessageUnreadable) else image.slow
        if list(texts) != expected:
            raise differ(what, texts, expected, image.key, image.value)
    refused = [image.slow for image in images if isinstance(image.slow, MessageUnreadable)]
    if refused:
        error = ours(lambda: kv.decode_rows(table, keys, values, at_rest=at_rest), what, *inputs)
        if str(error) != str(refused[0]):
            raise differ(what, error, refused[0], *inputs)


# ---- damage ---------------------------------------------------------------------------------------------------------


def damaged(random: Random, entry: Entry, other: Entry) -> tuple[bytes | None, bytes | None]:
    """Key and value of a message of the feed."""
    ts, key, new, old = entry.commit_ts, entry.key, entry.value, entry.old
    match random.randrange(16):
        case 0:
            pass
        case 1 | 2:
            key = damaged_bytes(random, key, other.key)
        case 3:
            key = b"x" + random.randbytes(random.choice((3, 3, 2, 4))) + key
        case 4:
            key, new = other.key, new or other.value
        case 5:
            made = encode_row(KvEntry(CommitTs(ts), 0, key, new, old))
            return key, damaged_bytes(random, made, other.value)
        case 6:
            return _without_key(random, ts)
        case 7 | 8 if old:
            old = damaged_row(random, old, other.old or other.value)
        case 9:
            new, old = b"", old or new
        case _:
            new = damaged_row(random, new or old, other.value or other.old)
    return (None if not random.randrange(1000) else key), encode_row(KvEntry(CommitTs(ts), 0, key, new, old))


def damaged_row(random: Random, row: bytes, other: bytes) -> bytes:
    """Format 2 by its parts; else any bytes."""
    made = bytearray(row)
    if len(made) < 8 or made[0] != FORMAT_2 or not random.randrange(3):
        return damaged_bytes(random, row, other)
    match random.randrange(7):
        case 0:
            made[1] = random.choice((0, 1, 2, 3, 4, 0x80))
        case 1:
            at = random.choice((2, 4))
            made[at : at + 2] = random.choice((0, 1, 255, 0xFFFF, random.randrange(64))).to_bytes(2, "little")
        case 2 | 3:
            end = min(len(made), 6 + 3 * (made[2] + made[4]))
            at = random.randrange(6, max(end, 7))
            made[at] = random.choice((0, 1, made[at] ^ 1, made[at] + 1 & 255, 255, made[at - 1]))
        case 4:
            at = random.randrange(6, len(made))
            made[at:at] = varint(random)
        case 5:
            made += random.randbytes(random.randint(1, 9))
        case _:
            at = random.randrange(6, len(made))
            made[at] = random.randrange(256)
    return bytes(made)


def _without_key(random: Random, ts: int) -> tuple[None, bytes]:
    made = encode_resolved(CommitTs(ts)) if random.randrange(2) else encode_ddl(CommitTs(ts), "shop", "t", "alter table t add x int")
    match random.randrange(3):
        case 0:
            return None, made
        case 1 if made[:1] == b"D":
            return None, b"D" + damaged_json(random, made[1:], made)
        case _:
            return None, damaged_bytes(random, made, b"D{}")


def whole(entry: Entry) -> list[Outcome]:
    """What a recorded entry decodes to."""
    values = ((entry.value, False), (entry.old, True))
    return [_slowly(entry.table, entry.key, value, at_rest=is_old) for value, is_old in values if value]
