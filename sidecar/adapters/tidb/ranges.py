"""Whether a chunk's SELECT reads its own rows only, checked before the dump: by TiDB's plan of the second chunk of each table.

- A first chunk has no bounds and reads from the table's first row. Every later one has both, and is cheap only where TiDB makes one range
  of them with all columns of the key: else it reads a part of the table from its beginning, each chunk more than the one before.
- The bounds are the table's first and last key. A table with one row, or with so few that a scan of it costs nothing, has no problem.
- The SELECT itself is tried by that: what the server refuses now it would refuse in the dump. No row is read but those two.
- MariaDB and MySQL are tried so too; their plans depend on statistics, and nothing is said of them.

Source: pingcap/tidb pkg/util/ranger; shapes of EXPLAIN from TiDB v9.0.0-beta.2.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing

import msgspec
import pymysql

from sidecar.ports import SlowReads
from sidecar.shared.config import SourceSection
from sidecar.shared.errors import SourceError
from sidecar.shared.model.keyset import ReadKey
from sidecar.shared.model.nouns import TableName, TableSchema
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.errors import passes
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.key_ranges import end_key
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession, Row
from sidecar.shared.reads.read import chunk_select
from sidecar.shared.reads.tables import TableFacts, read_facts, read_key, read_schemas

SCANNED_ROWS_MAX = 10_000
"""A table of no more is not checked: its whole scan is a chunk."""
_UNCOUNTED = 1 << 62
"""Rows of a table without statistics."""
STATEMENT_S = 5.0
RETRY_S = 2.0
"""A person waits."""

_FULL = ("TableFullScan", "IndexFullScan")
_RANGED = ("TableRangeScan", "IndexRangeScan")
_OPERATOR = re.compile(r"[A-Za-z]+(_[A-Za-z]+)*")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?|[\[\](),]|[^\s,"\[\]()]+')
"""A value or a sign of `range:(1 "a",1 +inf], [2 -inf,2 "b"], keep order:true`."""


def slow_reads(settings: SourceSection, tables: Mapping[TableName, str], *, max_s: float) -> SlowReads:
    """Of tables that exist, each with its predicate, empty for none; the largest first. Raises SourceError."""
    timeout_s = min(settings.statement_timeout_s, STATEMENT_S)
    patient = msgspec.structs.replace(settings, retry_s=min(settings.retry_s, RETRY_S), statement_timeout_s=timeout_s)
    reasons: dict[TableName, str] = {}
    give_up_s = time.monotonic() + max_s
    with closing(MysqlSession(Account.of(patient), Role.READ_SOURCE)) as session:
        schemas, facts = carried_out(session, lambda: (read_schemas(session), read_facts(session)), doing="reading the tables' schemas")
        known = sorted(tables.keys() & schemas.keys() & facts.keys(), key=lambda table: (-(facts[table].rows or _UNCOUNTED), table))
        for number, table in enumerate(known):
            if time.monotonic() > give_up_s:
                return SlowReads(reasons, unasked=len(known) - number)
            if why := _problem(session, schemas[table], facts[table], tables[table]):
                reasons[table] = why
    return SlowReads(reasons)


def _problem(session: MysqlSession, schema: TableSchema, facts: TableFacts, where: str) -> str | None:
    if facts.rows is not None and 0 < facts.rows <= SCANNED_ROWS_MAX and session.flavour is Flavour.TIDB:
        return None
    try:
        key = read_key(schema, facts, session.flavour)
    except SourceError:
        return None  # reported as an estimate that is refused

    def explain() -> Sequence[Row]:
        first, last = end_key(session, key), end_key(session, key, last=True)
        if first == last:
            return ()
        sql = chunk_select(schema, key, after=first, upper=last, where=where or None, rows_max=SCANNED_ROWS_MAX)
        return session.rows(f"EXPLAIN FORMAT = 'brief' {sql}" if session.flavour is Flavour.TIDB else f"EXPLAIN {sql}")

    try:
        rows = carried_out(session, explain, doing=f"asking how {schema.name} would be read")
    except SourceError as error:
        if isinstance(error.__cause__, pymysql.err.MySQLError) and passes(error.__cause__, session.role):
            raise
        return str(error)
    return problem(rows, key) if session.flavour is Flavour.TIDB else None


def problem(rows: Iterable[Row], key: ReadKey) -> str | None:
    """What is wrong with the plan of EXPLAIN: rows of id, estRows, task, access object, operator info."""
    for row in rows:
        name = match[0] if (match := _OPERATOR.search(str(row[0]))) else ""
        if name in _FULL:
            return f"each chunk reads the table from its first row ({name})"
        if name in _RANGED and not _whole(str(row[-1]), len(key.columns)):
            columns = ", ".join(part.column.name for part in key.columns)
            return f"each chunk reads more than its own rows ({name} {row[-1]}): not a range of the whole key ({columns})"
    return None


def _whole(operator_info: str, columns: int) -> bool:
    """Whether the first range begins, and the last one ends, with a value for each of so many columns."""
    ends = list(_ends(operator_info.partition("range:")[2]))
    return bool(ends) and (ends[0][0], ends[-1][1]) == (columns, columns)


def _ends(ranges: str) -> Iterator[tuple[int, int]]:
    """How many values each range begins and ends with; what follows the ranges is left alone."""
    values: list[int] = []
    for match in _TOKEN.finditer(ranges):
        match match[0], len(values):
            case ("[" | "(", 0):
                values = [0]
            case (",", 0):
                continue
            case (_, 0):
                return
            case (",", _):
                values.append(0)
            case ("]" | ")", _):
                yield values[0], values[-1]
                values = []
            case _:
                values[-1] += 1
