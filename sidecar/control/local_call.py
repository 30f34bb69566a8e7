"""A call of the control service from within the process: what gRPC gives a handler, as far as the service asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any, NoReturn

import grpc

from sidecar.control.answers import OWNER_METADATA
from sidecar.control.asker import PROVED

WAIT_S = 30.0
"""For an answer, as the command line waits."""


class CallRejected(Exception):
    """How a call ended that has no answer. `details`: for people, with the remedy."""

    def __init__(self, code: grpc.StatusCode, details: str, trailing: dict[str, str]) -> None:
        super().__init__(details)
        self.code, self.details, self._trailing = code, details, trailing

    @property
    def owner(self) -> str | None:
        """Of a standby: the owner's address, empty while it is not known; None where a standby is not the reason."""
        return self._trailing.get(OWNER_METADATA)

    @property
    def may_come_back(self) -> bool:
        """Whether the same call can have an answer later."""
        return self.code is grpc.StatusCode.UNAVAILABLE or self.owner is not None

    @property
    def http_status(self) -> int:
        """Of a page that shows this. 400: the request cannot be what it says; 409: it cannot be done in this state."""
        if self.code is grpc.StatusCode.INVALID_ARGUMENT:
            return 400
        return 503 if self.may_come_back else 409


class LocalCall:
    """`name`: of who asks, as the history has it; `address`: where from, host:port."""

    def __init__(self, name: str, address: str, *, wait_s: float = WAIT_S) -> None:
        self._name, self._address = name, address
        self._until_s = monotonic() + wait_s
        self._trailing: dict[str, str] = {}

    def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        raise CallRejected(code, details, self._trailing)

    def set_trailing_metadata(self, metadata: Iterable[tuple[str, str]]) -> None:
        self._trailing = dict(metadata)

    def time_remaining(self) -> float:
        return max(self._until_s - monotonic(), 0.0)

    def is_active(self) -> bool:
        return self.time_remaining() > 0

    def add_callback(self, _: Callable[[], object]) -> bool:
        """Of the end of a call that waits for others: those of the console end by their time."""
        return True

    def auth_context(self) -> dict[str, Any]:
        return {PROVED: [self._name.encode()]}

    def peer(self) -> str:
        return self._address
