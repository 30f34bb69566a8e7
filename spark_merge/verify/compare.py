"""Digests of two places, bucket by bucket: which keys differ.

    source, sink ─► of a sink with versions the newest of each key, else each key once ─► count and sum equal? ─► else key by key

- A bucket whose number of rows and sum of 128-bit hashes are equal on both sides has no difference. Only others are compared by key.
- A sink without versions keeps one row of each key. One that has a key twice has a row too many, whichever of them is right.
- The result is a difference between the two readings. Whether the log explains it is for who knows the positions (moving.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.log.storage import Folder
from spark_merge.port.keys import are_last
from spark_merge.verify.digest import read_bucket


class Sum(NamedTuple):
    """Of some rows: how many, and the sum of their hashes, each half modulo 2^64. Independent of their order."""

    rows: int = 0
    high: int = 0
    low: int = 0

    def plus(self, other: Sum) -> Sum:
        return Sum(self.rows + other.rows, (self.high + other.high) % (1 << 64), (self.low + other.low) % (1 << 64))


@dataclass(frozen=True, slots=True)
class BucketDifference:
    """Of one bucket: what both sides have, and the keys (merge.key_text) that differ. `missing`: of the source alone; `extra`: of the sink
    alone; `different`: of both, with other values; `duplicate`: of both, and of the sink more than once."""

    source: Sum
    sink: Sum
    missing: pa.Array
    extra: pa.Array
    different: pa.Array
    duplicate: pa.Array


@dataclass(frozen=True, slots=True)
class BucketWork:
    """Compares one bucket, or a part of it (read_bucket). Picklable; runs anywhere."""

    folder: Folder
    source: tuple[str, ...]
    sink: tuple[str, ...]
    bucket: int
    part: tuple[int, int] = (0, 1)

    def __call__(self) -> BucketDifference:
        return compared(*(read_bucket(self.folder, files, self.bucket, self.part) for files in (self.source, self.sink)))


def compared(source: pa.Table, sink: pa.Table) -> BucketDifference:
    """`source` has each key once; `sink` may have versions (digest.DIGESTS)."""
    there, twice = newest_digests(sink), keys_met_twice(sink)
    sums = sum_of(source), sum_of(there)
    none = pa.array([], pa.string())
    if sums[0] == sums[1] and not len(twice):
        return BucketDifference(*sums, none, none, none, none)
    ours, theirs = source["key"].combine_chunks(), there["key"].combine_chunks()
    at = pc.index_in(ours, value_set=theirs)
    missing, extra = ours.filter(at.is_null()), theirs.filter(pc.invert(pc.is_in(theirs, value_set=ours)))
    both = source.filter(at.is_valid())
    met = there.take(at.drop_null())
    same = pc.and_(pc.equal(both["high"], met["high"]), pc.equal(both["low"], met["low"]))
    duplicate = pc.is_in(both["key"], value_set=twice)
    different = pc.and_(pc.invert(same), pc.invert(duplicate))
    keys = both["key"]
    return BucketDifference(*sums, missing, extra, keys.filter(different).combine_chunks(), keys.filter(duplicate).combine_chunks())


def keys_met_twice(rows: pa.Table) -> pa.Array:
    """Of a sink without versions, whose rows have no commit_ts, the keys of more than one row."""
    if not rows.num_rows or pc.max(rows["commit_ts"]).as_py():
        return pa.array([], pa.string())
    counted = pc.value_counts(rows["key"].combine_chunks())
    return counted.field("values").filter(pc.greater(counted.field("counts"), 1))


def newest_digests(rows: pa.Table) -> pa.Table:
    """Of each key the greatest version, without deleted ones."""
    codes: Any = rows["key"].combine_chunks().dictionary_encode().indices.to_numpy()
    kept = are_last(codes, ranks=rows["rank"].to_numpy(), commit_ts=rows["commit_ts"].to_numpy()) & ~rows["deleted"].to_numpy()
    return rows if kept.all() else rows.filter(pa.array(kept))


def sum_of(rows: pa.Table) -> Sum:
    high, low = (int(np.add.reduce(rows[name].to_numpy(), dtype=np.uint64)) for name in ("high", "low"))
    return Sum(rows.num_rows, high, low)


def total(sums: Sequence[Sum]) -> Sum:
    whole = Sum()
    for one in sums:
        whole = whole.plus(one)
    return whole
