"""The source as a dump will use it: the server, the tables of the changefeed, the rights on them, the watermark table.

- information_schema shows an account only the tables on which it has some right. So a table without SELECT can be invisible:
  whether the account sees every table is judged by its grants, and by the rows that the feed has (feed.messages).
- Rights are checked by the server, never derived: `SELECT * … LIMIT 0` of RIGHTS_AT_ONCE tables in one statement, cut in halves
  where it is refused. 10,000 tables are 100 statements.
- The probe has a row of its own in the watermark table. So a dump that runs sees a row that is none of its marks, and its own
  row, by whose content it knows whether it is still the owner, stays as it is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from secrets import token_hex
from typing import TypeVar

import msgspec
import pymysql

from sidecar.adapters.tidb.schema import TidbSchemas, cluster_id
from sidecar.adapters.tidb.source import CHANGEFEED_ID_LENGTH_MAX, MARK_SCHEMA_DDL, MARK_TABLE_DDL, MarkRow, mark_row_id
from sidecar.control.wire import rows_in_words
from sidecar.feeds.checks import Tables
from sidecar.setup.sql import mark_grant, select_grant
from sidecar.shared.config import Config, SourceSection
from sidecar.shared.errors import FeedUnsuitable, SourceError, parted
from sidecar.shared.model.keyset import quoted_table
from sidecar.shared.model.messages import MarkSent, SendMark
from sidecar.shared.model.nouns import MARK_TABLE, MarkKind, TableName, TableSchema, physical_ms
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.errors import NO_RELATION, NO_RIGHT, TOO_LONG, code_of
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession, Row
from sidecar.shared.process.checks import CheckFinding, Checking, CheckSkipped, failed, listed, ok, warning
from sidecar.shared.reads.snapshot import duration_s
from sidecar.shared.sql.text import quoted
from sidecar.shared.ticdc.changefeed import Changefeed
from sidecar.shared.ticdc.large_rows import KEYS_ALONE, large_rows_option
from sidecar.shared.ticdc.scope import LiveScope
from sidecar.shared.ticdc.table_rules import schemas_named
from sidecar.shared.tikv.pd import PdClient, pd_section

T = TypeVar("T")

RETRY_S = 2.0
STATEMENT_S = 15.0
"""A person waits: what takes longer is reported, not waited for."""

REPORTED_MAX = 20
"""Tables with a finding of their own."""

RIGHTS_AT_ONCE = 100
RIGHTS_MAX_S = 60.0

CLOCK_OFF_S = 2.0
GC_LIFE_OF_LARGE_ROWS_S = 3600.0
GC_LIFE_LOW_S = 600.0
"""TiDB's own default; a chunk is read within seconds, but a server that is busy or a long snapshot takes longer."""

MARK_COLUMNS = {
    "id": {"int", "uint"}, "changefeed_id": {"text"}, "unique_identifier": {"text"}, "event_type": {"int", "uint"},
    "create_time": {"int", "uint"}, "update_time": {"int", "uint"},
}  # fmt: skip
_WRITTEN = frozenset({"unique_identifier", "event_type", "update_time"})
UUID_LENGTH = 32
PROBES = 3
"""Another preflight may write the same row at this moment."""

_GRANT = re.compile(r"GRANT (?P<rights>.+?) ON (?P<schema>`(?:[^`]|``)+`|\*|\w+)\.(?P<table>\S+) TO ", re.IGNORECASE)


def patient(section: SourceSection) -> SourceSection:
    """The account's settings, with bounds for a person who waits."""
    timeout_s = min(section.statement_timeout_s, STATEMENT_S)
    return msgspec.structs.replace(section, retry_s=RETRY_S, statement_timeout_s=timeout_s)


def asked(section: SourceSection, doing: str, question: Callable[[MysqlSession], T], role: Role = Role.READ_SOURCE) -> T:
    """Raises SourceError, ConfigError."""
    with closing(MysqlSession(Account.of(patient(section)), role)) as session:
        return carried_out(session, lambda: question(session), doing=doing)


# ---- the server -----------------------------------------------------------------------------------------------------


def tidb(section: SourceSection) -> Checking[None]:
    flavour, rows = asked(section, "asking for the version", lambda session: (session.flavour, session.rows("SELECT VERSION()")))
    version = str(rows[0][0])
    place = f"{section.user}@{section.host}:{section.port} is {version}"
    if flavour is Flavour.TIDB:
        yield ok(place)
    else:
        hint = "name the TiDB that is the changefeed's upstream; another server is good for tests only"
        yield warning(f"{place}, which is no TiDB", setting="source.host, source.port", hint=hint)


def clock(section: SourceSection) -> Checking[float]:
    """The cluster's TSO is made by PD's clock; lags are measured by ours."""

    def question(session: MysqlSession) -> tuple[float, float, float]:
        began_s = time.time()
        if session.flavour is Flavour.TIDB:
            session.rows("START TRANSACTION")
            ((ts,),) = session.rows("SELECT @@tidb_current_ts")
            session.rows("ROLLBACK")
            return began_s, physical_ms(int(ts)) / 1000, time.time()
        ((now_s,),) = session.rows("SELECT UNIX_TIMESTAMP(SYSDATE(3))")
        return began_s, float(now_s), time.time()

    asked(section, "connecting", lambda session: session.flavour)
    began_s, there_s, ended_s = asked(section, "asking for the time", lambda session: (session.flavour, question(session))[1])
    ahead_s = there_s - (began_s + ended_s) / 2
    yield of_clock(ahead_s, took_s=ended_s - began_s)
    return ahead_s


def of_clock(ahead_s: float, *, took_s: float) -> CheckFinding:
    """`took_s`: for the question; the answer is no more exact than that."""
    what = f"this machine's clock and the cluster's differ by {abs(ahead_s):.1f} s"
    if abs(ahead_s) <= CLOCK_OFF_S + took_s:
        return ok(what)
    hint = "let NTP set both clocks: reported lags are wrong by that much; the data is right, as order is by commit_ts"
    return warning(what, setting="NTP (this machine, PD)", hint=hint)


def gc(config: Config, changefeed: Changefeed | None) -> Checking[None]:
    """For snapshot brackets: a SELECT at a TSO must end before GC passes it. For DDLs: their tables are read as of their commit_ts, so
    GC must not pass that before the sidecar does. (Our sessions switch tidb_snapshot off themselves.) Also whether a running sidecar
    keeps in PD what it still has to read (sidecar/run/gc_hold.py)."""

    def question(session: MysqlSession) -> tuple[Row, ...] | None:
        if session.flavour is not Flavour.TIDB:
            return None
        return session.rows("SELECT @@global.tidb_gc_life_time")

    rows = asked(config.source, "reading tidb_gc_life_time", question)
    if rows is None:
        raise CheckSkipped("the server is no TiDB: it has no snapshot brackets, and nothing to keep for them")
    yield of_gc_life(str(rows[0][0]), of_large_rows=changefeed is not None and large_rows_option(changefeed) == KEYS_ALONE)
    yield of_hold(config.gc.hold_max_s, _reached_pd(config))


def _reached_pd(config: Config) -> str:
    """PD's endpoints; empty where none is known, or what is there is no PD. Raises FeedLost where nothing answers."""
    section = pd_section(config)
    if not section.pd:
        return ""
    with closing(PdClient(section, named="tikv" if config.tikv.pd else "etcd")) as pd:
        return f"PD {', '.join(section.pd)} of cluster {pd.cluster_id()}" if pd.answers_as_pd() else ""


def of_hold(hold_max_s: float, pd: str) -> CheckFinding:
    """`pd`: empty for none that is reached."""
    if pd and hold_max_s:
        return ok(f"while the sidecar runs, {pd} keeps what it still has to read, {hold_max_s / 3600:g} h at most (gc.hold_max_s)")
    why = "gc.hold_max_s is 0" if pd else "no PD is reached"
    return ok(f"{why}: only tidb_gc_life_time keeps what the sidecar still has to read; ticdc_dump_gc_remaining_seconds shows what remains")


def of_gc_life(life: str, *, of_large_rows: bool = False) -> CheckFinding:
    """`of_large_rows`: rows that are larger than a message are read as of their commit."""
    what = f"tidb_gc_life_time is {life}"
    if of_large_rows and duration_s(life) < GC_LIFE_OF_LARGE_ROWS_S:
        hint = "SET GLOBAL tidb_gc_life_time = '24h', or let the changefeed write such rows into files (claim-check)"
        what += ": large rows are read from TiDB as of their commit (handle-key-only), so delivery stops at one where the sidecar is behind"
        return warning(f"{what} or stopped for longer", setting="tidb_gc_life_time", hint=hint)
    if duration_s(life) >= GC_LIFE_LOW_S:
        return ok(f"{what}: the sidecar may not be behind or stopped for longer when it comes to a DDL")
    hint = "SET GLOBAL tidb_gc_life_time = '10m' or more, or dump with --brackets watermark"
    return warning(f"{what}: a snapshot that is read for longer breaks off (error 9006)", setting="tidb_gc_life_time", hint=hint)


# ---- the tables -----------------------------------------------------------------------------------------------------


def schemas(section: SourceSection) -> Checking[Tables]:
    existing = TidbSchemas(patient(section)).tables()
    yield ok(f"{len(existing)} tables are seen, and all their column types are known")
    return existing


def tables(changefeed: Changefeed, existing: Tables, *, server_tz: str) -> Checking[Tables]:
    """What the changefeed carries of them."""
    scope = LiveScope(server_tz=server_tz)
    try:
        follow = scope.follow(changefeed, existing)
    except FeedUnsuitable:
        raise CheckSkipped("the changefeed's filter cannot be followed: see 'changefeed settings'") from None
    carried = {name: schema for name, schema in follow.items() if name != MARK_TABLE}
    dumped = [name for name, schema in carried.items() if schema.key and scope.through(name)[0]]
    if not dumped:
        rules = ", ".join(changefeed.filter.rules)
        hint = "let the rules match tables that exist, or GRANT SELECT on them: what an account may not read it does not see"
        yield failed(f"no table can be dumped by the rules {rules}", setting="filter.rules (changefeed), GRANT SELECT", hint=hint)
        return carried
    yield ok(f"{len(dumped)} of {len(existing)} tables can be dumped")
    if outside := sorted(name for name in existing if name not in carried and name != MARK_TABLE):
        yield ok(f"{len(outside)} are not of the changefeed's rules: {listed(outside)}")
    if keyless := sorted(name for name, schema in carried.items() if not schema.key):
        what = f"TiCDC does not replicate {listed(keyless)}: no primary key and no NOT NULL unique key"
        yield warning(what, setting="ALTER TABLE … ADD PRIMARY KEY", hint="give them a key, or exclude them by filter.rules")
    for name, schema in carried.items():
        passes, why = scope.through(name)
        if schema.key and not passes:
            yield warning(f"{name} is excluded from dumps: {why}", setting="filter.event-filters (changefeed)", hint="nothing if intended")
    for text in scope.warnings[:REPORTED_MAX]:
        yield warning(text, setting="filter.event-filters (changefeed)", hint="nothing if intended; else narrow the filter's matcher")
    return carried


def read_keys(section: SourceSection, carried: Tables) -> Checking[None]:
    names = [name for name, schema in carried.items() if schema.key]
    estimates = TidbSchemas(patient(section)).estimates(names)
    refused = [estimate for estimate in estimates if estimate.refused]
    if refused:
        why = (parted(str(estimate.refused))[0] for estimate in refused)
        hint = "give them a key that can be read in pieces, or exclude them: --tables '*.*,!schema.table'; a dump of all tables is rejected"
        yield warning(listed(why, most=REPORTED_MAX), setting="dumpstart --tables", hint=hint)
    read = [estimate for estimate in estimates if not estimate.refused]
    yield ok(f"{len(read)} tables can be read in pieces, {rows_in_words(estimate.rows for estimate in read)}")


def rights(section: SourceSection, carried: Tables, existing: Tables, rules: Sequence[str]) -> Checking[bool]:
    """Whether every table is seen."""
    names = [*carried, *([MARK_TABLE] if MARK_TABLE in existing else [])]
    refused, unasked = asked(section, "asking for the right to SELECT", partial(_refused, names=names))
    user = section.user
    for name in refused[:REPORTED_MAX]:
        yield failed(f"{user} may not SELECT from {name}", setting="GRANT SELECT", hint=select_grant(quoted_table(name), user))
    if len(refused) > REPORTED_MAX:
        what = f"nor from {listed(refused[REPORTED_MAX:], most=REPORTED_MAX)}"
        yield failed(what, setting="GRANT SELECT", hint=_grants({name.schema for name in refused}, user))
    if unasked:
        what = f"{unasked} of {len(names)} tables were not checked: {RIGHTS_MAX_S:.0f} s were not enough"
        yield warning(what, setting="GRANT SELECT", hint=f"to make sure: {_grants({name.schema for name in names}, user)}")
    if not refused:
        yield ok(f"SELECT is allowed on {len(names) - unasked} tables")
    return (yield from _of_what_is_seen(section, rules))


def _grants(schemas: Iterable[str], user: str) -> str:
    """Never on all schemas: what the account may not read, nobody reads through the sidecar."""
    each = [f"{quoted(schema)}.*" for schema in sorted(schemas)] or ["each schema of the changefeed"]
    return f"GRANT SELECT ON … TO '{user}'@'%' of {listed(each)}"


def _refused(session: MysqlSession, names: Sequence[TableName]) -> tuple[list[TableName], int]:
    """The tables that may not be read, and how many could not be checked in time. Raises pymysql's errors."""
    refused: list[TableName] = []
    todo = [names[start : start + RIGHTS_AT_ONCE] for start in range(0, len(names), RIGHTS_AT_ONCE)][::-1]
    give_up_s = time.monotonic() + RIGHTS_MAX_S
    while todo and time.monotonic() < give_up_s:
        some = todo.pop()
        try:
            session.rows(" UNION ALL ".join(f"SELECT 1 FROM (SELECT * FROM {quoted_table(name)} LIMIT 0) t" for name in some))
        except pymysql.err.MySQLError as error:
            code = code_of(error)
            if code not in NO_RIGHT | NO_RELATION | TOO_LONG:
                raise
            if len(some) > 1:
                half = len(some) // 2
                todo += [some[half:], some[:half]]
            elif code in NO_RIGHT:
                refused.append(some[0])
            elif code in TOO_LONG:
                raise
    return refused, sum(map(len, todo))


def _of_what_is_seen(section: SourceSection, rules: Sequence[str]) -> Checking[bool]:
    rows = asked(section, "SHOW GRANTS", lambda session: session.rows("SHOW GRANTS"))
    schemas = readable_schemas(str(row[0]) for row in rows)
    if schemas is None:
        return True
    unsure = sorted(schema or "any schema" for schema in schemas_of_rules(rules) if schema not in schemas)
    if unsure:
        what = f"SHOW GRANTS lists for {section.user} no SELECT on all of {listed(unsure)}: tables without any right are not seen here"
        yield warning(what, setting="GRANT SELECT", hint=_grants(schemas_of_rules(rules) - schemas - {""}, section.user))
    return False


def readable_schemas(grants: Iterator[str]) -> frozenset[str] | None:
    """Schemas of which SHOW GRANTS says that every table may be read, in lower case; None: all there are."""
    schemas = set()
    for grant in filter(None, map(_GRANT.match, grants)):
        if grant["table"] == "*" and re.search(r"\b(SELECT|ALL PRIVILEGES)\b(?! *\()", grant["rights"], re.IGNORECASE):
            if grant["schema"] == "*":
                return None
            schemas.add(grant["schema"].strip("`").replace("``", "`").replace("\\_", "_").lower())
    return frozenset(schemas)


def schemas_of_rules(rules: Sequence[str]) -> frozenset[str]:
    """Schemas that the rules name, in lower case; the empty text for a rule that may match any."""
    return frozenset(map(str.lower, schemas_named(rules)))


# ---- the watermark table --------------------------------------------------------------------------------------------


def brackets(section: SourceSection, changefeed: Changefeed, *, encoded: bool) -> Checking[bool]:
    """Whether dumps can have marks."""
    schemas = TidbSchemas(patient(section))
    it = schemas.bracketing(changefeed, encoded=encoded)
    if not it.marks:
        yield ok("dumps have marks: each shows that TiDB is what the feed comes from")
    elif it.snapshots:
        what, hint = parted(it.neither())
        create = f"{MARK_SCHEMA_DDL}; {' '.join(MARK_TABLE_DDL.split())}; {mark_grant(section.user)}"
        yield failed(what, setting=f"filter (changefeed), {MARK_TABLE}, source.host", hint=f"{hint} (the watermark table: {create})")
    else:
        what = f"dumps have snapshot brackets, and write nothing to TiDB: {parted(it.marks)[0]}"
        known = asked(section, "reading the cluster's id", cluster_id) if changefeed.upstream_id else None
        if known is not None:
            yield ok(f"{what}; TiDB is of the cluster that the changefeed reads")
        else:
            grant = select_grant("mysql.tidb", section.user)
            hint = f"see that source.host is a TiDB of the changefeed's cluster; TiDB 8.5 and later say it after {grant}; or use marks"
            what = f"{what}; whether TiDB is of the cluster that the changefeed reads is not known"
            yield warning(what, setting="source.host", hint=hint)
    return not it.marks


def mark_table(section: SourceSection, existing: Tables, *, marks: bool) -> Checking[None]:
    if not marks:
        raise CheckSkipped("dumps have no marks: see 'brackets'")
    create = f"create it upstream: {MARK_SCHEMA_DDL}; {' '.join(MARK_TABLE_DDL.split())}"
    schema = existing[MARK_TABLE]
    wrong = list(wrong_columns(schema)) + list(asked(section, f"reading the keys of {MARK_TABLE}", _wrong_keys))
    for what in wrong:
        yield failed(f"{MARK_TABLE}: {what}", setting=f"CREATE TABLE {MARK_TABLE}", hint=f"drop it while no dump runs, and {create}")
    if not wrong:
        yield ok(f"{MARK_TABLE} has the columns and keys of marks")


def wrong_columns(schema: TableSchema) -> Iterator[str]:
    kinds = {column.name: column.kind for column in schema.columns}
    for name, fit in MARK_COLUMNS.items():
        if name not in kinds:
            yield f"column {name} is missing"
        elif kinds[name] not in fit:
            yield f"column {name} is a {kinds[name]}, expected {' or '.join(sorted(fit))}"
    if not schema.key:
        yield "it has no primary key, so TiCDC does not replicate it"


def _wrong_keys(session: MysqlSession) -> list[str]:
    """An UPDATE of a key's column would come as a delete and an insert."""
    keys: dict[str, list[str]] = {}
    for index, column in session.rows(
        "SELECT INDEX_NAME, COLUMN_NAME FROM information_schema.statistics WHERE NON_UNIQUE = 0 AND TABLE_SCHEMA = %s AND TABLE_NAME = %s"
        " ORDER BY INDEX_NAME, SEQ_IN_INDEX",
        tuple(MARK_TABLE),
    ):
        keys.setdefault(str(index), []).append(str(column).lower())
    lengths: dict[str, int] = dict(
        session.rows(
            "SELECT COLUMN_NAME, CHARACTER_MAXIMUM_LENGTH FROM information_schema.columns"
            " WHERE CHARACTER_MAXIMUM_LENGTH IS NOT NULL AND TABLE_SCHEMA = %s AND TABLE_NAME = %s",
            tuple(MARK_TABLE),
        )
    )
    wrong = [
        f"{', '.join(sorted(_WRITTEN & set(columns)))} is part of key {name}" for name, columns in keys.items() if _WRITTEN & set(columns)
    ]
    if ["changefeed_id"] not in keys.values():
        wrong.append("it has no unique key of changefeed_id alone")
    for name, length in (("changefeed_id", CHANGEFEED_ID_LENGTH_MAX), ("unique_identifier", UUID_LENGTH)):
        if lengths.get(name, length) < length:
            wrong.append(f"column {name} holds {lengths[name]} characters, expected {length}")
    return wrong


def mark_write(section: SourceSection, changefeed: Changefeed, *, write: bool) -> Checking[tuple[str, float]]:
    """A row beside the changefeed's own, kept and used again: an account that writes marks need not be able to delete."""
    if not write:
        raise CheckSkipped("not tried (--no-write)")
    MarkRow(mark_row_id(changefeed.name))  # whether the id fits
    row = f"preflight of {mark_row_id(changefeed.name)}"[:CHANGEFEED_ID_LENGTH_MAX]
    mark = SendMark(token_hex(UUID_LENGTH // 2), MarkKind.HIGH)
    reason = ""
    for _ in range(PROBES):
        sent = asked(section, f"writing {MARK_TABLE}", partial(MarkRow(row).update, mark=mark), Role.MARK)
        if isinstance(sent, MarkSent):
            written_s = time.time()
            yield ok(f"row {row!r} was written, beside the changefeed's own")
            return mark.uuid, written_s
        reason = sent.reason
    raise SourceError(f"{MARK_TABLE}: {reason}", hint="let nothing else write that table; check again when no other check runs")
