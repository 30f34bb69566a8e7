"""An action on a session, done again on a fresh connection while its errors pass.

A process that is to stop wakes all threads that wait for an answer (`end_questions`): a server that does not answer must not hold it.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import TypeVar

import pymysql
import stamina

from sidecar.shared.mysql.errors import Warned, ends_connection, failure, passes
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.process.patience import patience_s

T = TypeVar("T")

SQL_RETRY_FIRST_S, SQL_RETRY_JITTER_S, SQL_RETRY_WAIT_MAX_S = 0.05, 0.1, 2.0
"""The waits double. A deadlock is over at once, and the live rows of a target wait for it."""

_waiting: set[MysqlSession] = set()
_ending = Event()


def end_questions() -> None:
    """For a process that is to stop: each thread in `carried_out` gets "connection lost", and no further statement is sent."""
    _ending.set()
    for session in tuple(_waiting):
        session.interrupt()


def carried_out(
    session: MysqlSession, action: Callable[[], T], *, doing: str, hint: str = "", stopped: Callable[[], bool] = lambda: False
) -> T:
    """What `action` returns, tried again for the server's `retry_s`, and not after `stopped`.

    `action` must be harmless to repeat. Raises what `errors.failure` makes: SourceError or SinkError, which says what was being done
    (`doing`) and the way out (`hint`, where the code alone does not tell it).
    """

    def again(error: Exception) -> bool:
        return passes(error, session.role) and not stopped() and not _ending.is_set()

    _waiting.add(session)
    if _ending.is_set():
        session.interrupt()
    try:
        for attempt in stamina.retry_context(
            again,
            attempts=None,
            timeout=patience_s(session.server.retry_s),
            wait_initial=SQL_RETRY_FIRST_S,
            wait_jitter=SQL_RETRY_JITTER_S,
            wait_max=SQL_RETRY_WAIT_MAX_S,
        ):
            with attempt:
                try:
                    return action()
                except pymysql.err.MySQLError as error:
                    error.add_note(f"{session.server}: {doing}")
                    if ends_connection(error, session.role):
                        session.close()
                    raise
    except (pymysql.err.MySQLError, UnicodeDecodeError, Warned) as error:
        raise failure(error, session.server, session.role, doing, hint) from error
    finally:
        _waiting.discard(session)
    raise AssertionError("an attempt returns or raises")
