"""The sidecar. Importing it decides one thing for the whole process, before gRPC is loaded: gRPC's own handlers of fork() stay away.

With them, whoever forks beside a busy channel (PySpark starts its JVM so, with a `preexec_fn`) now and then gets a child that dies
before its exec, or waits for ever. A child that does nothing but exec needs no such handlers; nothing here forks to do more.
Source: grpc/grpc doc/fork_support.md; tests/unit/test_fork.py.
"""

import os

GIVEN_ENVIRONMENT = dict(os.environ)
"""As whoever started this process made it: what other programs are started with in our place."""

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
