"""The twin of etcd/owner.py in memory: one Election is what etcd keeps, each MemoryOwner is a process of its own.

A lease lives as long as its process keeps it, so it ends by `release`, or by `Election.expire`, which is what a frozen process
or a cut network comes to. Epochs only rise.
"""

from __future__ import annotations

import threading


class Election:
    """`epoch`: the last one granted."""

    def __init__(self) -> None:
        self.epoch = 0
        self.owner: MemoryOwner | None = None
        self.changed = threading.Condition()

    def expire(self) -> None:
        """The owner's lease runs out; it is free for the next one."""
        with self.changed:
            self.owner = None
            self.changed.notify_all()


class MemoryOwner:
    """`Ownership` in an Election."""

    def __init__(self, election: Election) -> None:
        self.election = election

    def acquire(self, *, timeout_s: float) -> int | None:
        self.release()
        election = self.election
        with election.changed:
            if not election.changed.wait_for(lambda: election.owner is None, timeout_s):
                return None
            election.owner = self
            election.epoch += 1
            return election.epoch

    def held(self) -> bool:
        return self.election.owner is self

    def release(self) -> None:
        with self.election.changed:
            if self.election.owner is self:
                self.election.owner = None
                self.election.changed.notify_all()
