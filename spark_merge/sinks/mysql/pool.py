"""Connections of this process that nobody uses, kept warm from one task to the next: a batch of one row should not wait for a login."""

from __future__ import annotations

import time
from collections.abc import Iterable
from threading import Lock

from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.mysql.setup import IDLE_S
from spark_merge.sinks.mysql.server import SqlServer

IDLE_MAX = 64
WARM_S = IDLE_S - 15.0
"""The server ends them soon after."""


class IdleSessions:
    """Of one process, for several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._idle: list[tuple[MysqlSession, float]] = []

    def borrowed(self, server: SqlServer) -> MysqlSession:
        """Nobody else has it until it is given back. It may have lost its connection, as any."""
        oldest = time.monotonic() - WARM_S
        with self._lock:
            cold = [session for session, since_s in self._idle if since_s < oldest]
            self._idle = [(session, since_s) for session, since_s in self._idle if since_s >= oldest]
            place = next((place for place, (session, _) in enumerate(self._idle) if session.server == server), None)
            result = None if place is None else self._idle.pop(place)[0]
        for session in cold:
            session.close()
        return result or MysqlSession(server, Role.WRITE_TARGET)

    def given_back(self, sessions: Iterable[MysqlSession]) -> None:
        with self._lock:
            self._idle.extend((session, time.monotonic()) for session in sessions if session.connected)
            spare = [session for session, _ in self._idle[:-IDLE_MAX]]
            self._idle = self._idle[-IDLE_MAX:]
        for session in spare:
            session.close()


OF_PROCESS = IdleSessions()
"""A task comes pickled and finds here what an earlier one left connected."""
borrowed, given_back = OF_PROCESS.borrowed, OF_PROCESS.given_back
