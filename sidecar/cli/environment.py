"""What is settled for a whole process before anything of ours is loaded: the entry points import this first.

gRPC's own handlers of fork() stay away. With them, a fork beside a busy channel (PySpark starts its JVM so, with a `preexec_fn`)
now and then makes a child that dies before its exec, or waits for ever. A child that does nothing but exec needs no such handlers;
nothing here forks to do more. Source: grpc/grpc doc/fork_support.md; tests/unit/cli/test_fork.py.
"""

from __future__ import annotations

import os

GIVEN_ENVIRONMENT = dict(os.environ)
"""As this process was started with: what other programs are started with in our place."""

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
"""Lines of its C core go to standard error as they are, beside ours that may be JSON. What failed comes as an error of the call."""
