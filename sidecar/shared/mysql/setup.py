"""What a session sets before its first statement: one table of variables, by the session's role and the server's flavour.

- A variable that changes which rows a SELECT returns, how they are spelled, or what a write stores is set, whatever the server's own value
  is.
- A variable that this version does not have (error 1193) is no danger. Any other refusal is an error that names the variable, unless the
  session has the value already. Of a variable that can only make a statement fail or wait (`shows`), only a right that is missing is one:
  a value that some version does not take must not keep every session from being opened.
- Noop variables of TiDB (pingcap/tidb pkg/sessionctx/variable/noop.go) are set at MariaDB and MySQL only: they change nothing there.

Sources: pingcap/tidb pkg/sessionctx/vardef, pkg/sessionctx/variable/sysvar.go; "Server System Variables" of MySQL 8.4 and MariaDB 11.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from sidecar.shared.mysql.errors import NO_RIGHT, SettingRefused, code_of, is_clients
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.roles import Role

IDLE_S = 60
"""After that the target's server ends a connection that sends nothing, and what its transaction holds: a successor need not wait for a
worker that is frozen."""

LOCK_WAIT_S = 10

DDL_LOCK_WAIT_S = 60
"""For another session that holds a table of the target in an open transaction; then the sink reports it and tries again."""

ROWS_MAX = (1 << 64) - 1

SQL_MODE = "STRICT_ALL_TABLES,STRICT_TRANS_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION"

_SQL_MODES = dict.fromkeys(Flavour, SQL_MODE) | {Flavour.MARIADB: f"{SQL_MODE},TIME_ROUND_FRACTIONAL"}
"""MariaDB cuts digits of a fraction otherwise; TiDB and MySQL round (pingcap/tidb pkg/types/time.go, RoundFrac)."""


def lenient_mode(flavour: Flavour) -> str:
    """SQL_MODE of a DDL whose values are written again: what does not fit is clipped."""
    return ",".join(mode for mode in _SQL_MODES[flavour].split(",") if not mode.startswith("STRICT_"))


UNKNOWN_VARIABLE = 1193

_T, _A, _Y = Flavour.TIDB, Flavour.MARIADB, Flavour.MYSQL
_ALL, _NOT_TIDB = (_T, _A, _Y), (_A, _Y)
_ROLES = tuple(Role)
_WRITES_TARGET, _ALTERS = (Role.WRITE_TARGET, Role.ALTER_TARGET), (Role.ALTER_TARGET,)
_SOURCE, _TARGET = (Role.READ_SOURCE, Role.MARK), (Role.READ_TARGET, *_WRITES_TARGET)
_WRITES = (Role.MARK, *_WRITES_TARGET)


@dataclass(frozen=True, slots=True)
class Variable:
    """`value`: SQL. In braces: what is known only when a session opens (`settings`). `shows`: with another value a statement fails or
    waits, so that somebody sees it; no row is read or written wrongly."""

    name: str
    value: str
    flavours: tuple[Flavour, ...]
    roles: tuple[Role, ...]
    why: str
    shows: bool = False


VARIABLES = (
    Variable("sql_select_limit", str(ROWS_MAX), _ALL, _ROLES, "it cuts every SELECT, those of information_schema too"),
    Variable("max_execution_time", "{statement_ms}", (_T, _Y), _ROLES, "the server's limit may end each read of a large table", shows=True),
    Variable("max_statement_time", "{statement_s}", (_A,), _ROLES, "as max_execution_time", shows=True),
    Variable("time_zone", "'+00:00'", _ALL, _ROLES, "a TIMESTAMP is spelled and understood in it"),
    Variable("sql_mode", "'{sql_mode}'", _ALL, _ROLES, "quotes, ||, padding of CHAR; zero dates and a zero id are values as others"),
    Variable("collation_connection", "'utf8mb4_bin'", _ALL, _ROLES, "two texts that are no columns compare as at TiDB"),
    Variable("autocommit", "1", _ALL, _ROLES, "else a read stays in the snapshot of the session's first, and a write is never committed"),
    Variable("group_concat_max_len", "1073741824", _ALL, _ROLES, "it cuts what a predicate groups"),
    Variable("div_precision_increment", "4", _ALL, _ROLES, "a predicate's division has the digits of the default"),
    Variable("default_week_format", "0", _ALL, _ROLES, "a predicate's WEEK() counts as the default does"),
    Variable("lc_time_names", "'en_US'", _NOT_TIDB, _ROLES, "a predicate's names of days and months"),
    Variable("completion_type", "'NO_CHAIN'", _NOT_TIDB, _ROLES, "CHAIN: after a COMMIT reads stay in a new snapshot"),
    Variable("sql_auto_is_null", "0", _NOT_TIDB, _ROLES, "IS NULL would match the row that was inserted last"),
    Variable("sql_big_selects", "1", _NOT_TIDB, _ROLES, "a scan of a large table is not rejected by max_join_size", shows=True),
    Variable("max_sort_length", "32768", _NOT_TIDB, _ROLES, "ORDER BY looks at the whole key, and not at its first bytes alone"),
    Variable("information_schema_stats_expiry", "0", (_Y,), _ROLES, "numbers of rows are not a day old", shows=True),
    Variable("system_versioning_asof", "DEFAULT", (_A,), _ROLES, "a table with system versions is read as of the present"),
    Variable("tidb_snapshot", "''", (_T,), _ROLES, "the present is read, and no old snapshot"),
    Variable("tidb_read_staleness", "0", (_T,), _ROLES, "as tidb_snapshot"),
    Variable("tidb_enable_external_ts_read", "0", (_T,), _ROLES, "as tidb_snapshot"),
    Variable("tidb_low_resolution_tso", "0", (_T,), _ROLES, "its TSO is up to two seconds old, and a chunk must be read inside its window"),
    Variable("tidb_read_consistency", "'strict'", (_T,), _ROLES, "weak: a read passes locks of commits that are before it"),
    Variable("tidb_replica_read", "'leader'", (_T,), _ROLES, "no rows depend on how far a follower or a learner is", shows=True),
    Variable("tidb_isolation_read_engines", "'tikv,tidb'", (_T,), _ROLES, "TiFlash spells a few values otherwise than TiKV"),
    Variable("tidb_translate_softdelete_sql", "{softly}", (_T,), _ROLES, "softly deleted rows: the source has none, a target each"),
    Variable("sql_safe_updates", "0", _NOT_TIDB, _WRITES, "it rejects an UPDATE or DELETE by its plan", shows=True),
    Variable("foreign_key_checks", "0", _ALL, _WRITES_TARGET, "rows come by key and not by reference; TiCDC's order keeps the references"),
    Variable("unique_checks", "1", _NOT_TIDB, _WRITES_TARGET, "a unique key may not be written twice"),
    Variable("sql_notes", "1", _NOT_TIDB, _WRITES_TARGET, "a note counts as a warning, and a write with a warning has failed"),
    Variable("max_error_count", "1024", _NOT_TIDB, _WRITES_TARGET, "0: SHOW WARNINGS is empty after a warning"),
    Variable("sql_quote_show_create", "1", _NOT_TIDB, _WRITES_TARGET, "a table's picture is parsed"),
    Variable("sql_if_exists", "0", (_A,), _WRITES_TARGET, "a DDL of what is not there fails"),
    Variable("innodb_lock_wait_timeout", "{lock_wait_s}", _ALL, _WRITES_TARGET, "our retries wait for somebody else's lock", shows=True),
    Variable("wait_timeout", "{idle_s}", _ALL, _TARGET, "IDLE_S", shows=True),
    Variable("tidb_txn_mode", "'pessimistic'", (_T,), _WRITES_TARGET, "a slot that is taken is waited for, and does not fail at the end"),
    Variable("allow_auto_random_explicit_insert", "1", (_T,), _WRITES_TARGET, "the source's ids are written", shows=True),
    Variable("tidb_skip_utf8_check", "0", (_T,), _WRITES_TARGET, "a text that is none is rejected"),
    Variable("tidb_skip_ascii_check", "0", (_T,), _WRITES_TARGET, "as tidb_skip_utf8_check"),
    Variable("explicit_defaults_for_timestamp", "1", _NOT_TIDB, _ALTERS, "else a TIMESTAMP gets defaults that no statement names"),
    Variable("lock_wait_timeout", "{ddl_lock_wait_s}", _NOT_TIDB, _ALTERS, "DDL_LOCK_WAIT_S", shows=True),
)

_SHOWS = frozenset(one.name for one in VARIABLES if one.shows)

ISOLATION = dict.fromkeys(_SOURCE, "REPEATABLE READ") | dict.fromkeys(_TARGET, "READ COMMITTED")
"""At the source a SELECT of READ COMMITTED would read later than its transaction's TSO. At the target the newest committed rows are
read, and no gap is locked."""


def settings(role: Role, flavour: Flavour, *, statement_s: float) -> list[tuple[str, str]]:
    """Names and SQL values. `statement_s`: how long the server lets a statement run, 0 for no limit."""
    values = {
        "statement_ms": int(statement_s * 1000), "statement_s": statement_s, "lock_wait_s": LOCK_WAIT_S, "idle_s": IDLE_S,
        "ddl_lock_wait_s": DDL_LOCK_WAIT_S, "sql_mode": _SQL_MODES[flavour], "softly": int(role.at_source),
    }  # fmt: skip
    return [(one.name, one.value.format(**values)) for one in VARIABLES if flavour in one.flavours and role in one.roles]


def set_up(cursor: Cursor, role: Role, flavour: Flavour, *, statement_s: float) -> None:
    """Raises SettingRefused, pymysql's errors."""
    cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {ISOLATION[role]}, READ WRITE")
    _set(cursor, settings(role, flavour, statement_s=statement_s))


def _set(cursor: Cursor, wanted: Sequence[tuple[str, str]]) -> None:
    """All in one statement; where the server refuses that, in two, until it is one variable that is refused."""
    try:
        cursor.execute(f"SET {', '.join(f'{name} = {value}' for name, value in wanted)}")
    except pymysql.err.MySQLError as error:
        if is_clients(error):  # there is no connection any more
            raise
        if len(wanted) > 1:
            half = len(wanted) // 2
            _set(cursor, wanted[:half])
            _set(cursor, wanted[half:])
            return
        ((name, value),) = wanted
        code = code_of(error)
        if code == UNKNOWN_VARIABLE or (name in _SHOWS and code not in NO_RIGHT) or _has(cursor, name, value):
            return
        raise SettingRefused(code, str(error.args[-1]), name=name, value=value) from error


def _has(cursor: Cursor, name: str, value: str) -> bool:
    """Of the session, or of the server if it is no variable of a session."""
    try:
        cursor.execute(f"SELECT @@{name}")
    except pymysql.err.MySQLError as error:
        if is_clients(error):
            raise
        return False
    row = cursor.fetchone()
    return row is not None and same(row[0], value)


def same(effective: Any, value: str) -> bool:
    """Whether a variable that the server shows as `effective` has this SQL value."""
    shown, wanted = (str(one).strip("'").upper() for one in (effective, value))
    known = {"ON": "1", "OFF": "0"}
    shown, wanted = known.get(shown, shown), known.get(wanted, wanted)
    try:
        return float(shown) == float(wanted)
    except ValueError:
        return set(shown.split(",")) == set(wanted.split(","))
