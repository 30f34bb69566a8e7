"""What an error of a session means: one table of codes, for the source and for a sink's target.

- An error is classified by its code. TiDB's 1105, which is any error without a code, is classified by the few texts that pass.
- An error passes if another attempt, on a fresh connection, can succeed without anybody changing anything. All others end the action.
- `failure` says whose server it is: a SourceError for a role at the source, else a SinkError, each with what its operator can do.
- The password is in no text: the server's answer is shown, and not what it was sent.

Sources: pingcap/tidb pkg/errno/errcode.go; "Server Error Message Reference" of MySQL 8.4; MariaDB's "Error Codes".
"""

from __future__ import annotations

import re
from typing import Protocol

import pymysql

from sidecar.shared.errors import SinkError, SourceChanged, SourceError, SourceLost
from sidecar.shared.model.nouns import MARK_TABLE
from sidecar.shared.mysql.roles import Role

AWAY = frozenset(
    {
        0, 2002, 2003, 2006, 2013, 2014, 2055,  # the client has no connection any more (0: PyMySQL's closed one)
        1040, 1203, 1226,  # no connection is free: at all, for this account
        1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 4031,  # the server stops, or dropped us
    }
)  # fmt: skip
TOO_LARGE = 1153
"""A statement above max_allowed_packet: the server ends the connection."""

DEADLOCK, LOCK_WAIT = 1213, 1205
_LOCKED = frozenset({DEADLOCK, LOCK_WAIT})
_CONFLICT = frozenset({1020, 1317, 1637})
"""A record has changed; interrupted; too many transactions at once."""

TOO_LONG = frozenset({1969, 3024})
_FULL = frozenset({1021, 1114})
_TIDB = frozenset(
    {
        8002, 8005, 8022, 8027, 8028,  # conflicts, schema behind
        8229, 8252, 8253, 9001, 9002, 9003, 9004, 9005, 9006, 9007, 9008, 9010, 9011, 9012, 9013,  # PD, TiKV, TiFlash
    }
)  # fmt: skip
PROTECTED_MODE = 8258
"""TiDB's, of each read and write of a table while IMPORT INTO fills it or BR restores it (pingcap/tidb pkg/infoschema/error.go)."""

_READ_ONLY = frozenset({1290, 1836})
"""At a target: a replica that is about to take over. A source that takes no marks is the wrong server: a dump must not wait for it."""

_PASSES = AWAY | _LOCKED | _CONFLICT | TOO_LONG | _FULL | _TIDB | {PROTECTED_MODE}

NO_RIGHT = frozenset({1044, 1142, 1143, 1227, 1370, 8121})
_NO_LOGIN = frozenset({1045, 1698, 1130, 1251, 1129})
NO_SCHEMA, NO_TABLE, NO_COLUMN = 1049, 1146, 1054
CHECK_FAILED = 4025
"""MariaDB's, of a CHECK."""
NO_RELATION = frozenset({NO_SCHEMA, NO_TABLE})
NOT_THERE = frozenset({NO_SCHEMA, NO_TABLE, NO_COLUMN, 1051})

_WITHOUT_A_CODE = 1105
_PASSING_TEXTS = re.compile(
    r"information schema is (out of date|changed)|\[(tikv|pd):\d+\]|(tikv|pd) server timeout"
    r"|region (is )?unavailable|not[ _]?leader|epoch[ _]?not[ _]?match|region[ _]?not[ _]?found|server[ _]?is[ _]?busy"
    r"|rpc error|context (deadline exceeded|canceled)|connection (refused|reset)|i/o timeout|broken pipe|\bEOF\b",
    re.IGNORECASE,
)
"""Of TiDB's 1105: schemas behind (pingcap/tidb dbutil, Retryable1105Msgs), and what the way to TiKV and PD says. All else that has no
code, a bad regular expression or JSON path, would be the same the next time."""


class Warned(Exception):
    """A write that the server has carried out with a warning: otherwise than it was sent."""


class SettingRefused(pymysql.err.OperationalError):  # type: ignore[misc]  # PyMySQL has no types
    """`name`: the variable that the server did not let us set, and that has another value."""

    def __init__(self, code: int, text: str, *, name: str, value: str) -> None:
        super().__init__(code, f"SET {name} = {value}: {text}")
        self.name, self.value = name, value


class NamedServer(Protocol):
    """A server, as an error shows it. `retry_s`: how long an action is tried."""

    @property
    def user(self) -> str: ...
    @property
    def retry_s(self) -> float: ...


def code_of(error: BaseException) -> int:
    """The server's or client's error code, -1 for an error without one."""
    code = error.args[0] if error.args else -1
    return code if isinstance(code, int) else -1


def passes(error: BaseException, role: Role) -> bool:
    """Whether another attempt on a fresh connection can succeed without anybody changing anything."""
    if not isinstance(error, pymysql.err.MySQLError) or isinstance(error, SettingRefused):
        return False
    code = code_of(error)
    if code == _WITHOUT_A_CODE:
        return _PASSING_TEXTS.search(str(error.args[-1])) is not None
    return code in _PASSES or (code in _READ_ONLY and not role.at_source)


def ends_connection(error: BaseException, role: Role) -> bool:
    """Whether the next statement needs a fresh connection."""
    return passes(error, role) or code_of(error) == TOO_LARGE


def is_clients(error: pymysql.err.MySQLError) -> bool:
    """The client's own, not the server's answer: the statement may still run there."""
    return code_of(error) < 1000 or 2000 <= code_of(error) < 3000


def is_away(error: SourceError) -> bool:
    """Whether the server was not reachable for all of `retry_s`, so that the same may be tried later. A statement that took too long each
    time would do so again."""
    return isinstance(error, SourceLost) and isinstance(error.__cause__, Exception) and code_of(error.__cause__) not in TOO_LONG


def failure(error: BaseException, server: NamedServer, role: Role, doing: str, hint: str = "") -> SourceError | SinkError:
    """`doing`: what was being done. `hint`: for a code whose way out only the caller knows."""
    code = code_of(error)
    text = error.args[1] if code >= 0 and len(error.args) > 1 else error
    number = f" (error {code})" if code >= 0 else ""
    if not role.at_source:
        return SinkError(f"{server}: {doing}: {text}{number}", hint=_at_target(error, code, server) or hint or _UNKNOWN_AT_TARGET)
    lost = passes(error, role)
    kind = SourceLost if lost else SourceChanged if code in NOT_THERE else SourceError
    return kind(f"{server}: {doing} failed: {text}{number}", hint=_at_source(error, code, server, lost=lost) or hint or _UNKNOWN_AT_SOURCE)


_UNKNOWN_AT_SOURCE = "this error is not one that passes: look it up in TiDB's error codes, remove its cause, then dumpresume"
_UNKNOWN_AT_TARGET = "look the error up in the target's manual and remove its cause; the sink continues automatically"


def _at_source(error: BaseException, code: int, server: NamedServer, *, lost: bool) -> str:
    if isinstance(error, SettingRefused):
        return _let_set(error, server)
    if code in NO_RIGHT:
        return (
            f"give the account its rights: GRANT SELECT ON `schema`.* TO '{server.user}'@'%' for each dumped schema, and no more; "
            f"GRANT INSERT, UPDATE ON {MARK_TABLE} TO '{server.user}'@'%'"
        )
    if code in _NO_LOGIN:
        return (
            "see that the file of source.password_file has the password of source.user, the one in the account's CREATE USER, on one line,"
            " and from which hosts the account may log in"
        )
    if code in NOT_THERE:
        return (
            f"if it is {MARK_TABLE} that is missing, create it as README.md shows; else a DDL changed the table: see that no event "
            "filter of the changefeed leaves DDLs out"
        )
    if code in TOO_LONG:
        return "raise source.statement_timeout_s and restart the sidecar, or dumpresume with smaller chunks (--chunk-rows)"
    if code in _READ_ONLY:
        return "set source to a server of the cluster that accepts writes: a dump writes its marks there"
    if code == PROTECTED_MODE:
        return "nothing: the table is imported or restored now; what reads it waits until its mode is Normal, and continues automatically"
    if isinstance(error, UnicodeDecodeError):
        return "a text column holds bytes that are no text of its character set: repair the row, or leave the table out of the dump"
    if lost:
        return f"it was tried for {server.retry_s:g} s: see that TiDB is up and reachable; a dump waits for it and continues automatically"
    return ""


def _at_target(error: BaseException, code: int, server: NamedServer) -> str:
    if isinstance(error, SettingRefused):
        return _let_set(error, server)
    if code in _NO_LOGIN:
        return "check user, password and password-file of the sink's URI, and from which hosts the account may log in"
    if code in NO_RIGHT:
        return f"give {server.user} its rights: deploy/SQL-SINK.md lists them"
    if code in _LOCKED:
        return "see who else writes to the target's tables and holds locks there; the sink continues automatically"
    if code in _FULL:
        return "make room at the target: its disk, or the tablespace, is full; the sink continues automatically"
    if code in TOO_LONG:
        return f"the server limits the statements of {server.user} (MAX_STATEMENT_TIME of the account): lift the limit"
    if code == CHECK_FAILED:
        return (
            "a CHECK of the target's table does not take a row that TiDB has. That of a JSON column in MariaDB takes 31 levels at most:"
            " MODIFY the column there to LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, which holds any; drop another CHECK"
        )
    if passes(error, Role.WRITE_TARGET):
        return "see that the target is up, may be written to and can be reached; the sink continues automatically"
    return ""


def _let_set(error: SettingRefused, server: NamedServer) -> str:
    return (
        f"let {server.user} set the session variable {error.name}, or let the server's own value be {error.value}"
        f" (SET GLOBAL {error.name} = {error.value}): with another value rows would be read or written wrongly"
    )
