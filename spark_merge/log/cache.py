"""Decoded rows that somebody may ask for again, for any number of threads: keys and live rows of one task, windows that overlap, and, in
the worker's own process, the sinks, which read the same segments each at its own pace.

- A table is decoded once, however many threads request it at once: sinks that follow the log closely all want its newest segment.
- What is kept is bounded; the least recently requested goes first. A table that is in use lives as long as its user, kept or not.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock

import pyarrow as pa

BYTES_MAX = 256 << 20
"""Decoded rows that are kept: the last seconds of a busy log, or ROWS_MAX rows of one table (segments.py)."""


class DecodedRows:
    """Tables by their `place`: what was decoded, and how. They are never changed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._rows: OrderedDict[Hashable, Future[pa.Table]] = OrderedDict()
        self._bytes: dict[Hashable, int] = {}

    def get(self, place: Hashable, decode: Callable[[], pa.Table]) -> pa.Table:
        """What `decode` gives for the place, now or earlier. What it raises all who are waiting for it get; nothing is kept of it."""
        with self._lock:
            result = self._rows.get(place)
            if result is not None:
                self._rows.move_to_end(place)
            else:
                mine = self._rows[place] = Future[pa.Table]()
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
            while sum(self._bytes.values()) > BYTES_MAX:
                oldest = next(place for place in self._rows if place in self._bytes)
                del self._rows[oldest], self._bytes[oldest]
