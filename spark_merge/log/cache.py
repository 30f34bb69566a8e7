"""Decoded rows that somebody may ask for again, for any number of threads: keys and live rows of one task, windows that overlap, and, in
the worker's own process, the sinks, which read the same segments each at its own pace.

- A table is decoded once, however many threads request it at once: sinks that follow the log closely all want its newest segment.
- What is kept is bounded, by what it takes and not by its values alone, and in time; the least recently requested goes first. The bound in
  time holds at each request, and where nobody requests anything, at each `expire`. A table that is in use lives as long as its user, kept
  or not.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from itertools import pairwise
from threading import Lock
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.model.nouns import TableName

BYTES_MAX = 256 << 20
"""Decoded rows that are kept: the last seconds of a busy log, or ROWS_MAX rows of one table (segments.py)."""

IDLE_MAX_S = 60.0
"""Since they were requested last: sinks that follow the log request a segment within seconds, and windows that are open again and again."""

ROWS_BYTES, TABLE_BYTES = 12 << 10, 400
"""What rows that are kept take beside their values, and what each of their tables adds: buffers, Python's objects. Measured; of a segment
of a few rows it is nearly all."""


class DecodedTables:
    """`rows`: CHANGES or RAW_CHANGES of some tables, by table, and of each in `commit_ts, rank, ordinal`."""

    def __init__(self, rows: pa.Table) -> None:
        """`rows` in any order."""
        names = pc.binary_join_element_wise(rows["schema"], rows["table"], "\0").combine_chunks().dictionary_encode()
        codes: Any = names.indices.to_numpy(zero_copy_only=False)
        order = np.lexsort([*(rows[name].to_numpy() for name in ("ordinal", "rank", "commit_ts")), codes])
        self.rows = (rows if np.array_equal(order, np.arange(len(order))) else rows.take(pa.array(order))).combine_chunks()
        self.nbytes = self.rows.nbytes + ROWS_BYTES + TABLE_BYTES * len(names.dictionary)
        edges = np.searchsorted(codes[order], np.arange(len(names.dictionary) + 1)).tolist()
        self._places = dict(zip(names.dictionary.to_pylist(), pairwise(edges), strict=True))

    def of(self, table: TableName) -> pa.Table:
        start, end = self._places.get("\0".join(table), (0, 0))
        return self.rows.slice(start, end - start)


class DecodedRows:
    """Rows by their `place`: what was decoded, and how. They are never changed. `bytes_max`: that are kept; None: BYTES_MAX."""

    def __init__(self, now_s: Callable[[], float] = monotonic, *, bytes_max: int | None = None) -> None:
        self._now_s, self._bytes_max, self._lock = now_s, bytes_max, Lock()
        self._used_s: dict[Hashable, float] = {}
        self._rows: OrderedDict[Hashable, Future[DecodedTables]] = OrderedDict()
        self._bytes: dict[Hashable, int] = {}
        self._all_bytes = 0

    def get(self, place: Hashable, decode: Callable[[], DecodedTables]) -> DecodedTables:
        """What `decode` gives for the place, now or earlier. What it raises all who are waiting for it get; nothing is kept of it."""
        with self._lock:
            self._drop_old()
            result = self._rows.get(place)
            if result is not None:
                self._rows.move_to_end(place)
                if place in self._bytes:
                    self._used_s[place] = self._now_s()
            else:
                mine = self._rows[place] = Future[DecodedTables]()
        if result is not None:
            return result.result()
        try:
            rows = decode()
        except BaseException as error:
            with self._lock:
                del self._rows[place]
            mine.set_exception(error)
            raise
        mine.set_result(rows)
        self._keep(place, rows.nbytes)
        return rows

    def _keep(self, place: Hashable, size: int) -> None:
        with self._lock:
            self._bytes[place], self._used_s[place] = size, self._now_s()
            self._all_bytes += size
            self._drop_old()

    def __len__(self) -> int:
        with self._lock:
            return len(self._bytes)

    def expire(self) -> None:
        """For a thread that looks again and again."""
        with self._lock:
            self._drop_old()

    def _drop_old(self) -> None:
        until_s = self._now_s() - IDLE_MAX_S
        while (oldest := next((one for one in self._rows if one in self._bytes), None)) is not None:
            if self._all_bytes <= (self._bytes_max or BYTES_MAX) and self._used_s[oldest] >= until_s:
                break
            del self._rows[oldest], self._used_s[oldest]
            self._all_bytes -= self._bytes.pop(oldest)
