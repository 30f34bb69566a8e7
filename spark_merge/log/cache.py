"""Decoded rows that somebody may ask for again, for any number of threads: keys and live rows of one task, windows that overlap, and, in
the worker's own process, the sinks, which read the same segments each at its own pace.

- A table is decoded once, however many threads request it at once: sinks that follow the log closely all want its newest segment.
- What is kept is bounded; the least recently requested goes first. A table that is in use lives as long as its user, kept or not.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.core.model import TableName

BYTES_MAX = 256 << 20
"""Decoded rows that are kept: the last seconds of a busy log, or ROWS_MAX rows of one table (segments.py)."""


class DecodedTables:
    """`rows`: CHANGES or RAW_CHANGES of some tables, by table, and of each in `commit_ts, rank, ordinal`."""

    def __init__(self, rows: pa.Table) -> None:
        """`rows` in any order."""
        names = pc.binary_join_element_wise(rows["schema"], rows["table"], "\0").combine_chunks().dictionary_encode()
        codes: Any = names.indices.to_numpy(zero_copy_only=False)
        order = np.lexsort([*(rows[name].to_numpy() for name in ("ordinal", "rank", "commit_ts")), codes])
        self.rows = (rows if np.array_equal(order, np.arange(len(order))) else rows.take(pa.array(order))).combine_chunks()
        self.nbytes = self.rows.nbytes
        edges = np.searchsorted(codes[order], np.arange(len(names.dictionary) + 1)).tolist()
        self._places = dict(zip(names.dictionary.to_pylist(), pairwise(edges), strict=True))

    def of(self, table: TableName) -> pa.Table:
        start, end = self._places.get("\0".join(table), (0, 0))
        return self.rows.slice(start, end - start)


class DecodedRows:
    """Rows by their `place`: what was decoded, and how. They are never changed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._rows: OrderedDict[Hashable, Future[DecodedTables]] = OrderedDict()
        self._bytes: dict[Hashable, int] = {}
        self._all_bytes = 0

    def get(self, place: Hashable, decode: Callable[[], DecodedTables]) -> DecodedTables:
        """What `decode` gives for the place, now or earlier. What it raises all who are waiting for it get; nothing is kept of it."""
        with self._lock:
            result = self._rows.get(place)
            if result is not None:
                self._rows.move_to_end(place)
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
            self._bytes[place] = size
            self._all_bytes += size
            while self._all_bytes > BYTES_MAX:
                oldest = next(place for place in self._rows if place in self._bytes)
                del self._rows[oldest]
                self._all_bytes -= self._bytes.pop(oldest)
