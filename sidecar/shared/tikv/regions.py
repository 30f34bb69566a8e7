"""Where the keys of a range are: regions as PD reports them, and a range cut along their borders. Pure.

PD and TiKV compare memcomparable-encoded keys; everybody else here has raw ones. The encoding keeps the order, so ranges are cut
encoded, and only a border inside a range is decoded. For a moment (just after a split) PD may not know the region of a part, or its
leader: such parts come without a region, and the caller requests them again.

From pingcap/tidb pkg/util/codec/bytes.go; tikv components/cdc; tiflow cdc/kv/regionlock (CutRegionsLeftCoverSpan).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.rowcodec.key_values import KeyRange
from sidecar.shared.rowcodec.kv_datum import read_bytes
from sidecar.shared.rowcodec.kv_error import Broken

_GROUP = 8
_MARK_OF_FULL = 0xFF


class Region(NamedTuple):
    """`start` and `end` as PD has them, memcomparable-encoded; an empty end is the end of all keys. `leader_store` None: no leader;
    `leader_peer`: its replica there."""

    id: int
    start: bytes
    end: bytes
    conf_ver: int
    version: int
    leader_store: int | None
    leader_peer: int = 0


class RegionPart(NamedTuple):
    """A part of a range, raw keys, that one region has; None: nobody has it as far as PD knows."""

    range: KeyRange
    region: Region | None


def encoded(key: bytes) -> bytes:
    """Groups of eight bytes, each with a marker behind it that counts the zeros it was padded with."""
    groups = []
    for start in range(0, len(key) + 1, _GROUP):
        group = key[start : start + _GROUP]
        padding = _GROUP - len(group)
        groups.append(group + bytes(padding) + bytes([_MARK_OF_FULL - padding]))
    return b"".join(groups)


def decoded(key: bytes) -> bytes:
    """Raises MessageUnreadable."""
    try:
        raw, end = read_bytes(key, 0)
        if end != len(key):
            raise Broken(end, "the end of the key", f"{len(key) - end} bytes more")
    except Broken as broken:
        raise MessageUnreadable(
            f"PD has a region border {key.hex()}, which is no memcomparable-encoded key: {broken}",
            hint="see whether the cluster holds raw key-values (api-version), which have no change feed of rows",
        ) from broken
    return raw


def holds(region: Region, key: bytes) -> bool:
    """`key` raw."""
    place = encoded(key)
    return region.start <= place and (not region.end or place < region.end)


def cut(wanted: KeyRange, regions: Iterable[Region]) -> Sequence[RegionPart]:
    """`wanted` from its start to its end, in parts. `regions` in the order of their keys, as one answer of PD has them."""
    parts: list[RegionPart] = []
    at, end = wanted.start, wanted.end
    at_encoded, end_encoded = encoded(at), encoded(end)
    for region in regions:
        if at_encoded >= end_encoded:
            break
        if region.end and region.end <= at_encoded:
            continue
        if region.start > at_encoded:
            if region.start >= end_encoded:
                break
            hole = KeyRange(at, decoded(region.start))
            parts.append(RegionPart(hole, None))
            at, at_encoded = hole.end, region.start
        reaches_end = not region.end or region.end >= end_encoded
        part = KeyRange(at, end if reaches_end else decoded(region.end))
        parts.append(RegionPart(part, region if region.leader_store is not None else None))
        at, at_encoded = part.end, end_encoded if reaches_end else region.end
    if at_encoded < end_encoded:
        parts.append(RegionPart(KeyRange(at, end), None))
    return parts


def borders(ranges: Sequence[KeyRange], regions_from: Callable[[bytes], Sequence[Region]]) -> Iterator[bytes]:
    """Where the ranges begin, and regions inside of them: raw keys that rise, as the ranges do. `regions_from` a raw key on: the next ones,
    in the order of their keys; none: there are no more. A merge: each range and each region that is read is looked at once, and regions
    between two ranges are not read if more than one answer is full of them."""
    starts: Sequence[bytes] = ()
    known_to = encoded(b"")
    for range_ in ranges:
        yield range_.start
        at, end = encoded(range_.start), encoded(range_.end)
        first = at + b"\0"
        while True:
            if known_to and known_to <= at:
                regions = regions_from(decoded(at))
                starts, known_to = [region.start for region in regions], regions[-1].end if regions else b""
            yield from map(decoded, starts[bisect_left(starts, first) : bisect_left(starts, end)])
            if not known_to or known_to >= end:
                break
            at = first = known_to
