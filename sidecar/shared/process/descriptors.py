"""How many files and connections this process may have open: the operating system's bound, and our servers' parts of it.

Most systems start a process with a soft limit of 1,024, for programs of old that cannot take more, and let it raise that to the hard one by
itself. What strangers may open is bounded for each server, so that what is left is enough for the log, TiDB, Kafka and etcd.
"""

from __future__ import annotations

import resource

DESCRIPTORS_MAX = 1 << 20
"""More than this is no use to us, and where the hard limit is endless some kernels take no such soft one."""
CONNECTIONS_MAX = 256
"""To one server of ours: operators are a few, senders 32."""
CONNECTIONS_PART = 8
"""A server never has more than this part of all descriptors, however few there are."""


def raise_limit() -> int:
    """The soft limit up to the hard one, for this process and those that it starts; what it is then. Never lowers it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def connections_max() -> int:
    """Of one server, as things stand."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS_MAX if soft == resource.RLIM_INFINITY else max(min(CONNECTIONS_MAX, soft // CONNECTIONS_PART), 1)
