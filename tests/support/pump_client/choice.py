"""Which pump a transaction's prewrite binlog goes to.

    range   one after the other
    hash    by start_ts; each failed try takes the next

Of those that can be written to, in the order of their names. From pingcap/tidb tidb-binlog/pump_client/selector.go.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Literal

Strategy = Literal["range", "hash"]

Choice = Callable[[int, int, int], int]
"""start_ts, tries that failed, how many there are (one at least): which one."""


def by_range() -> Choice:
    turns = itertools.count()
    return lambda start_ts, failed, count: next(turns) % count  # a Choice's shape


def by_hash() -> Choice:
    return lambda start_ts, failed, count: (start_ts + failed) % count


STRATEGIES: dict[Strategy, Callable[[], Choice]] = {"range": by_range, "hash": by_hash}
