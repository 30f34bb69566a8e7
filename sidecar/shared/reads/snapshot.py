"""TiDB's time: a TSO of the present, and what there was at one.

- `SET @@tidb_snapshot` makes a session read data and schemas of exactly that TSO, information_schema too
  (pingcap/tidb pkg/sessiontxn/staleread). It is
  how a DDL's tables are read: at its commit_ts, whatever has followed since. A server that has not loaded it yet would answer with
  older ones, for as long as that SET holds (ddl_jobs.py): who asks for schemas looks for that, and asks again with a SET of its own.
- What is older than the GC safe point is gone for good: an error that no other attempt can help, unlike that of a SELECT
  whose own start is too old.
- MariaDB and MySQL have no such time: they tell none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import pymysql

from sidecar.shared.errors import SourceError, SourceGone
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.mysql.errors import code_of
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.session import MysqlSession

T = TypeVar("T")

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|m|s)(?![a-z])")

_COLLECTED = frozenset({8055, 9006})
"""ErrSnapshotTooOld, ErrGCTooEarly (pingcap/tidb errno; TiKV's own)."""


def present_ts(session: MysqlSession) -> CommitTs | None:
    """A TSO above every commit that was answered before; None where there is none. Raises pymysql's errors."""
    if session.flavour is not Flavour.TIDB:
        return None
    session.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    try:
        commit_ts = CommitTs(int(session.rows("SELECT @@tidb_current_ts")[0][0]))
        session.rows("ROLLBACK")
    except BaseException:
        session.close()  # the transaction must not be the next statement's
        raise
    return commit_ts


def gc_life_s(session: MysqlSession) -> float | None:
    """tidb_gc_life_time: for how long a version stays that nothing keeps. None where there is none. Raises pymysql's errors."""
    if session.flavour is not Flavour.TIDB:
        return None
    return duration_s(str(session.rows("SELECT @@global.tidb_gc_life_time")[0][0]))


def duration_s(text: str) -> float:
    """Of Go's `10m0s`."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    return sum(float(number) * units[unit] for number, unit in _DURATION.findall(text))


def as_of(session: MysqlSession, at_ts: CommitTs, action: Callable[[MysqlSession], T]) -> T:
    """What `action` finds where `session` reads as of `at_ts`; the session is closed after it.

    Raises SourceGone if that time is garbage-collected, SourceError if the server is no TiDB, pymysql's errors.
    """
    if session.flavour is not Flavour.TIDB:
        raise SourceError(
            f"{session.server} is {session.flavour.value}, which cannot tell what there was at TSO {at_ts}",
            hint="set source to the changefeed's upstream TiDB",
        )
    try:
        session.rows(f"SET @@tidb_snapshot = '{at_ts}'")
        return action(session)
    except pymysql.err.MySQLError as error:
        if code_of(error) not in _COLLECTED:
            raise
        raise SourceGone(
            f"{session.server}: what the tables were at TSO {at_ts} is garbage-collected (error {code_of(error)}): {error.args[-1]}",
            hint="raise tidb_gc_life_time above the longest time for which the sidecar may be behind or away (SET GLOBAL tidb_gc_life_time"
            " = '24h') and, for this time, start a new log (log.uri) and dump again",
        ) from error
    finally:
        session.close()
