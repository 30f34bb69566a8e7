"""How many rows of a dump may be read and not in the log: what the way of their marks needs, as a congestion control does it.

Such rows hold no live change up: a window closes in the log as the sinks leave room for it. Too few of them, and sinks wait for marks;
too many are read long before they are needed, so their windows are longer, and a crash or a DDL has more of them read again. Besides,
their bytes have a bound (`DumpLimits.chunk_bytes_max`).

A round trip begins when a window opens and ends when it and all before it are ready. What lay ready and unused all the time was too much,
and half of it is taken away. Where at some moment nothing lay ready and the dump would have read more, it was too little: twice as much.
"""

from __future__ import annotations

from math import inf

from sidecar.core.dump_start import Demand

FIRST_ROWS = 20_000
"""Doubled in each round trip: 640,000 rows on their way in the sixth."""
LEAST_ROWS_S = 4_000
"""A dump has so many rows a second on their way, however long that is."""
STOCK_SHARE = 0.25
"""Of all that is not in the log: so much may lie ready, for marks come in steps."""
ROWS_MAX = 1 << 32


class Flight:
    """`rows`: how many. `trip_s`: how long the last round trip took, 0 before the first."""

    def __init__(self) -> None:
        self.rows = FIRST_ROWS
        self.trip_s = 0.0
        self._opened = self._until = 0
        self._began_s = 0.0
        self._stock = inf
        self._starved = False

    def resumed(self) -> Flight:
        """In the next term, which counts windows from 0."""
        flight = Flight()
        flight.rows, flight.trip_s = self.rows, self.trip_s
        return flight

    def look(self, demand: Demand, *, width_rows: int, window_rows: int, now_s: float) -> int:
        """`rows`, after a look at a dump. `width_rows`: what the log may have of it, so that it can come at once; `window_rows`: of one
        window, which is nothing to lie ready."""
        if self._until:
            self._stock = min(self._stock, demand.ready_rows)
            self._starved |= demand.starved
            if demand.opened - demand.waiting >= self._until:
                self._over(now_s, window_rows)
        if not self._until and demand.opened > self._opened:
            self._until, self._began_s, self._stock, self._starved = demand.opened, now_s, inf, False
        self._opened = demand.opened
        self.rows = max(self.rows, width_rows, int(LEAST_ROWS_S * self.trip_s))
        return self.rows

    def _over(self, now_s: float, window_rows: int) -> None:
        self._until, self.trip_s = 0, now_s - self._began_s
        if self._starved and self._stock <= window_rows:
            self.rows = min(self.rows * 2, ROWS_MAX)
        elif self._stock > self.rows * STOCK_SHARE:
            self.rows -= int(self._stock / 2)
