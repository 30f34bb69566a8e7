"""What client and server of the control service have agreed on beside the messages, and how a call ends for its caller.

Each failure says its `exit_code`: 2 a value cannot be, 3 refused (or another error of the sidecar), 4 no such changefeed or dump,
5 unreachable, 6 not allowed.

Command lines declare their options by it, so it loads no gRPC and nothing else that takes long.
"""

from __future__ import annotations

import os

from sidecar.core.marks import DUMP_ID_LENGTH
from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.model.nouns import OperationId

OWNER_METADATA = "ticdc-dump-owner"
"""A standby's trailing metadata: the owner's address, empty while it is not known."""
FULL_METADATA = "ticdc-dump-full"
"""Trailing metadata of a RESOURCE_EXHAUSTED that asking again does not help; without it the server was busy, and may be so no more."""
REQUEST_BYTES_MAX = 16 << 20
"""A hundred thousand keys."""
RESPONSE_BYTES_MAX = 64 << 20
"""The status of ten thousand tables with the longest names that TiDB takes."""
KEEPALIVE_MS = 10_000
"""How often a client asks whether the server is still there; the server takes twice as many."""
PATIENCE_S = 15.0
"""Longer than a takeover by a standby with the default lease takes to be noticed by nobody: the lease's 10 s, and some."""
EXIT_USAGE, EXIT_REFUSED, EXIT_NOT_FOUND, EXIT_UNREACHABLE, EXIT_NOT_ALLOWED = 2, 3, 4, 5, 6


class CallFailed(TicdcDumpError):
    """A call that has no good answer. `reason`: one word for programs."""

    def __init__(self, message: str, *, hint: str, exit_code: int, reason: str) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code
        self.reason = reason


def new_operation_id() -> OperationId:
    """Chosen before the first attempt, so that all attempts of a request start one operation."""
    return OperationId(os.urandom(DUMP_ID_LENGTH // 2).hex())
