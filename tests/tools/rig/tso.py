"""commit_ts for the binlog's transactions, from the binlog alone.

MariaDB has no TSO, and an event's timestamp counts whole seconds from its statement's start. A heartbeat row that carries
the server's time is therefore written into the binlog every 200 ms (heartbeat.py), and

    heartbeat          commit_ts = its time as a TSO, or STEP numbers on if that is not greater
    any other          commit_ts = STEP numbers on: PD gives the numbers between two transactions to others who ask

So commit_ts rises strictly in binlog order, is close to the time of the commit, and depends on nothing but the last
commit_ts and what follows in the binlog: who reads on from a checkpoint (binlog position and last commit_ts) gives every
transaction the commit_ts that it had before. Everything read is at or below `last`, everything to come is above it: `last`
is what may be called resolved.
"""

from __future__ import annotations

from dataclasses import dataclass

LOGICAL_BITS = 18
STEP = 256
"""1,024 of them are a millisecond: more transactions than a rig commits in one, so commit_ts stays close to the time."""


def tso_of_ms(time_ms: int) -> int:
    return time_ms << LOGICAL_BITS


def ms_of_tso(ts: int) -> int:
    return ts >> LOGICAL_BITS


@dataclass(frozen=True, slots=True)
class Tso:
    """`last`: the commit_ts of the last transaction read."""

    last: int

    def after(self, heartbeat_ms: int | None) -> Tso:
        """With the next transaction of the binlog; `heartbeat_ms` is its time if it is a heartbeat."""
        follows = self.last + STEP
        return Tso(follows if heartbeat_ms is None else max(follows, tso_of_ms(heartbeat_ms)))
