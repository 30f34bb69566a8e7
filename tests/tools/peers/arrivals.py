"""When a reader had which row, and what follows from it: latencies of writes, and the moment at which a dump was there.

Rows are numpy arrays of int64, one entry a row, in the order of their arrival. Times are nanoseconds of this machine's clock: writer,
reader and file system are on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
MISSING_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Writes:
    """What was committed. `numbers` are the `touched` values, each once; `began_ns`: before the UPDATE was sent."""

    numbers: Numbers
    began_ns: Numbers

    @classmethod
    def read(cls, path: Path) -> Writes:
        """Raises RuntimeError for a file that is not whole."""
        table = _table(path, columns=2)
        return cls(table[:, 0], table[:, 1])


@dataclass(frozen=True, slots=True)
class Arrivals:
    """`touched`: the write's number that the row carries, 0: none. `dumped`: 1 for a row of the dump, 0 for a live one."""

    at_ns: Numbers
    ids: Numbers
    touched: Numbers
    dumped: Numbers

    @classmethod
    def read(cls, path: Path) -> Arrivals:
        table = _table(path, columns=4)
        return cls(table[:, 0], table[:, 1], table[:, 2], table[:, 3])

    def since(self, from_ns: int) -> Arrivals:
        kept = self.at_ns >= from_ns
        return Arrivals(self.at_ns[kept], self.ids[kept], self.touched[kept], self.dumped[kept])

    def live(self) -> Arrivals:
        kept = self.dumped == 0
        return Arrivals(self.at_ns[kept], self.ids[kept], self.touched[kept], self.dumped[kept])


def latencies_s(writes: Writes, arrivals: Arrivals, *, from_ns: int, until_ns: int) -> list[float]:
    """Of the writes that began in [from, until), each until its first arrival. Raises ValueError where one never came."""
    live = arrivals.live()
    order = np.argsort(live.at_ns, kind="stable")
    numbers, first = np.unique(live.touched[order], return_index=True)
    at_ns = live.at_ns[order][first]
    within = (writes.began_ns >= from_ns) & (writes.began_ns < until_ns)
    wanted, began_ns = writes.numbers[within], writes.began_ns[within]
    missing = wanted[~np.isin(wanted, numbers)]
    if len(missing):
        raise ValueError(f"{len(missing)} of {len(wanted)} writes never arrived, among them {missing[:MISSING_SHOWN].tolist()}")
    tolist: list[float] = ((at_ns[np.searchsorted(numbers, wanted)] - began_ns) / 1e9).tolist()
    return tolist


def missing_ids(arrivals: Arrivals, *, rows: int) -> int:
    """How many of the ids 1 to `rows` no arrival has: a row that a write touched need not come with the dump."""
    seen = np.zeros(rows + 1, dtype=np.bool_)
    seen[arrivals.ids] = True
    return rows - int(seen[1:].sum())


def dumped_at_ns(arrivals: Arrivals, *, requested_ns: int, rows: int) -> int:
    """When the last row of the dump that was asked for then was there. Raises ValueError if rows are missing."""
    result = arrivals.since(requested_ns)
    if missing := missing_ids(result, rows=rows):
        raise ValueError(f"the dump is not whole: {missing:,} of {rows:,} rows came neither with it nor live")
    return int(result.at_ns[result.dumped == 1].max())


def _table(path: Path, *, columns: int) -> Numbers:
    """A file of int64 as rows. The last row may be half written."""
    fromfile = np.fromfile(path, dtype=np.int64)
    return fromfile[: len(fromfile) // columns * columns].reshape(-1, columns)
