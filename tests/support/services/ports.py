"""Ports of 127.0.0.1 for a server that needs its port before it listens.

Nobody else takes one, neither between its choice and its use nor while its server is down: they lie below those that the system gives out
(to servers that ask for any, and to connections), and each process goes round in a block of its own, whatever other tests run here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from functools import cache
from itertools import cycle

BLOCK = 200
"""Ports until one comes again: more than a process has servers at a time."""

BLOCKS = [range(first, first + BLOCK) for first in range(10_000, 32_000, BLOCK)]


def free_port() -> int:
    (port,) = free_ports(1)
    return port


def free_ports(count: int) -> list[int]:
    """That nobody listens on at this moment."""
    free = (port for port in _in_turn(os.getpid()) if _can_be_bound(port))
    return [next(free) for _ in range(count)]


@cache
def _in_turn(pid: int) -> Iterator[int]:
    """Of a block that is the process's for its life: what says so is a name that the kernel keeps for no longer."""
    for block in BLOCKS:
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0ticdc-dump tests have ports {block.start} to {block.stop}")
        except OSError as error:
            claim.close()
            if error.errno != errno.EADDRINUSE:
                raise
            continue
        _claims.append(claim)
        return cycle(block)
    raise RuntimeError(f"no ports are left: {len(BLOCKS)} processes have a block of them")


_claims: list[socket.socket] = []


def _can_be_bound(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False
