"""Schema changes at the target, each once.

    look ─► intent is durable ─► carried out ─► done is durable ─► the next one, or the segment is accepted

- A DDL commits on its own at any server, so it cannot share a transaction with the position: what the tables were before it is noted
  with the intent, and after a death the tables themselves show whether it was carried out (ddl_picture.py). What they leave open
  stops, with both pictures, until the operator says.
- Only a statement that may have been sent and whose answer nobody has seen is under way. What the server rejected, and the tables show as
  before, is taken back: what somebody changes there from then on is no trace of it. A worker that dies before it takes it back leaves it to
  the next one, which sends it again. So it is noted after all that can fail without it.
- One connection, under a lock of the server's that names the log, and the statement goes over that connection or not at all. The owner is
  checked once the lock is held: a worker that was replaced before that executes nothing. A later owner ends the idle connection of an
  earlier one, so that a worker that was replaced after it executes nothing either; it waits for a statement that still runs.
- Where a dump brings the values of the rows (spark_merge/delivery/rereads.py), those that do not fit are clipped, and stop nothing.
- ADD INDEX is awaited as any other. (TiCDC continues after a while, and sees no failure.)
- Whether a DDL that was noted is done comes before how to carry it out: what one version has begun, the next one does not refuse.
- The session's clock is the source's: a new column's CURRENT_TIMESTAMP is what the source put in the rows, where the log has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, TypeAlias

import pymysql

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, TableName, TableSchema, lowered
from sidecar.shared.mysql.collation import by_bytes
from sidecar.shared.mysql.errors import is_clients
from sidecar.shared.mysql.flavour import Flavour, flavour_of
from sidecar.shared.mysql.setup import lenient_mode
from spark_merge.ddl.logged import query_of
from spark_merge.ddl.names import at_target, changed_tables, of_the_log, places, together
from spark_merge.ddl.parser import parsed
from spark_merge.ddl.routes import Routes
from spark_merge.ddl.statement import Statement, StatementKind
from spark_merge.port.contract import Head, has_rows
from spark_merge.sinks.mysql.ddl_clock import session_time
from spark_merge.sinks.mysql.ddl_dialect import AS_IT_IS, Replacements, TableCharset, rendered
from spark_merge.sinks.mysql.ddl_picture import Picture, Pictures, PictureSession, done, pictures, wanted
from spark_merge.sinks.mysql.ddl_values import AtTarget, carrying_out, rewrites, tables_of
from spark_merge.sinks.mysql.server_table import TableThere

LOCK_TAKEN_S = 10
"""For a connection to be gone that was ended."""

_NO_SUCH_CONNECTION = 1094


@dataclass(frozen=True, slots=True)
class Intent:
    """A DDL that is under way, or `done`. `number` counts the segment's. `statement` as it is carried out; `since` in UTC. `before`: the
    tables that it names."""

    seq: int
    number: int
    statement: str
    since: str
    before: Pictures
    done: bool = False

    def taken_back(self) -> Intent:
        """The segment's DDLs before it are done, and it is not under way."""
        return replace(self, number=self.number - 1, statement="", before={}, done=True)

    def as_json(self) -> dict[str, Any]:
        before = [[*name, picture.definition, picture.ids] for name, picture in self.before.items()]
        return {
            "seq": self.seq,
            "number": self.number,
            "statement": self.statement,
            "since": self.since,
            "before": before,
            "done": self.done,
        }

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Intent:
        before = {TableName(schema, table): Picture(text, ids) for schema, table, text, ids in value["before"]}
        return cls(value["seq"], value["number"], value["statement"], value["since"], before, value["done"])


class DdlPosition(Protocol):
    """Where the sink keeps how far it is. Each call is durable when it returns, and raises OwnershipLost for an earlier owner."""

    def check_owner(self) -> None: ...

    def intent(self) -> Intent | None:
        """The one that was noted last."""

    def note_intent(self, intent: Intent) -> None: ...

    def note_done(self, intent: Intent) -> None:
        """`intent` has `done`; so has what `intent()` gives from here on."""


class MemoryDdlPosition:
    def __init__(self) -> None:
        self.noted: dict[str, Any] | None = None

    def check_owner(self) -> None:
        """Its worker is the only one."""

    def intent(self) -> Intent | None:
        return None if self.noted is None else Intent.of_json(self.noted)

    def note_intent(self, intent: Intent) -> None:
        self.noted = intent.as_json()

    def note_done(self, intent: Intent) -> None:
        self.noted = intent.as_json()


Decided: TypeAlias = Literal["done", "again"]
"""What an operator says of a DDL: carried out by hand, or to be carried out whatever the tables look like."""


@dataclass(frozen=True, slots=True)
class DdlSettings:
    """`lock`: names the log at the server, 64 characters at most. `decided`: by commit_ts; of a statement that holds several, all."""

    lock: str
    routes: Routes = field(default_factory=Routes)
    decided: Mapping[CommitTs, Decided] = field(default_factory=dict)
    skip_views: bool = False


class DdlRunner:
    def __init__(self, session: Callable[[], PictureSession], position: DdlPosition, settings: DdlSettings) -> None:
        self._session = session
        self._position = position
        self._settings = settings

    def carry_out(self, head: Head) -> None:
        """All of the segment's DDLs, but those that are done. Raises SinkError, UnsupportedDdl, OwnershipLost."""
        for number, record, statement in self._statements(head):
            noted = self._position.intent()
            place = (noted.seq, noted.number) if noted else (-1, -1)
            if place > (head.seq, number) or (place == (head.seq, number) and noted and noted.done):
                continue
            self._one(head, number, record, statement, noted if place == (head.seq, number) else None)

    def _statements(self, head: Head) -> list[tuple[int, DdlRecord, Statement]]:
        """Those that are to be carried out, each with its number in the segment; RENAMEs of one commit are one, with the last one's."""
        statements: list[tuple[int, DdlRecord, Statement]] = []
        renames: list[Statement] = []
        for number, record in enumerate(head.ddls):
            if not record.query or record.schema == MARK_TABLE.schema or self._settings.decided.get(record.commit_ts) == "done":
                continue
            statement = of_the_log(parsed(query_of(record, head), record.schema), record, head)
            if renames and (statement.kind is not StatementKind.RENAME or statements[-1][1].commit_ts != record.commit_ts):
                renames = []
            if statement.kind is StatementKind.RENAME:
                renames.append(statement)
            if len(renames) > 1:
                _, record, _ = statements.pop()
                statement = together(renames, head)
            statements.append((number, record, statement))
        return statements

    def _one(self, head: Head, number: int, record: DdlRecord, statement: Statement, noted: Intent | None) -> None:
        settings = self._settings
        if statement.kind is StatementKind.NOTHING or (statement.kind is StatementKind.CREATE_VIEW and settings.skip_views):
            return
        _check_alone(head, statement, settings.routes)
        step = _Step(head, number, record, statement, settings.routes)
        with closing(self._session()) as session:
            try:
                self._at(session, step, None if settings.decided.get(record.commit_ts) == "again" else noted)
            except pymysql.err.MySQLError as error:
                raise SinkError(f"{step}: the target answered {error}", hint=step.way_out()) from error

    def _at(self, session: PictureSession, step: _Step, noted: Intent | None) -> None:
        dialect = flavour_of(str(session.rows("SELECT VERSION()")[0][0]))
        _lock(session, self._settings.lock, step)
        self._position.check_owner()
        now = pictures(session, dialect, places(step.statement))
        if noted is not None and _is_done(session, dialect, step, noted, now):
            return self._position.note_done(replace(noted, done=True))
        text = rendered(step.statement, dialect, step.charset(), step.rewrites(session, dialect))
        if not text:
            return None
        session.rows(f"SET timestamp = {step.time():.6f}")
        if step.reread:
            session.rows("SET sql_mode = %s", (lenient_mode(dialect),))
        if noted is None:
            if _is_wanted(step, now):
                return None
            noted = Intent(step.head.seq, step.number, text, datetime.now(UTC).isoformat(timespec="seconds"), now)
            self._position.note_intent(noted)
        try:
            session.rows(text)
        except pymysql.err.MySQLError as error:
            if not is_clients(error) and _is_as_before(session, dialect, step, noted.before):
                self._position.note_done(noted.taken_back())
            raise
        _check_columns(session, step)
        return self._position.note_done(replace(noted, done=True))


@dataclass(frozen=True, slots=True)
class _Step:
    """A DDL of a segment. `logged` names tables of the log."""

    head: Head
    number: int
    record: DdlRecord
    logged: Statement
    routes: Routes

    def __str__(self) -> str:
        return f"segment {self.head.seq}, DDL at commit_ts {self.record.commit_ts}, {self.record.query!r}"

    @property
    def statement(self) -> Statement:
        """Of tables of the target."""
        return at_target(self.logged, self.routes)

    @property
    def tables(self) -> tuple[TableSchema | None, TableSchema | None]:
        return tables_of(self.logged, self.head)

    @property
    def after(self) -> TableSchema | None:
        return self.tables[1]

    def rewrites(self, session: PictureSession, dialect: Flavour) -> Replacements:
        """Of a statement that names no table nothing."""
        if not (names := places(self.statement)):
            return AS_IT_IS
        there, by_its_bytes = TableThere(session, names[0]), by_bytes(session, dialect)
        place = AtTarget(dialect, there, self.time(), by_its_bytes, self.reread, self.head.received_as)
        return rewrites(self.logged, self.record, *self.tables, place)

    @property
    def reread(self) -> bool:
        """Whether a dump brings the values of its rows."""
        return self.after is not None and (self.record.commit_ts, self.after.name) in self.head.reread

    def way_out(self) -> str:
        """For a statement that the target rejects."""
        by_hand = "remove the cause; or carry it out there by hand and name its commit_ts in the sink's `ddl-done`"
        if self.after is None or self.reread or not self.logged.changes or self._changes_key():
            return by_hand
        return f"{by_hand}; or, where a value does not fit: {carrying_out(self.head.received_as, self.after.name, self.record.commit_ts)}"

    def _changes_key(self) -> bool:
        assert self.after is not None
        key = set(map(lowered, self.after.key))
        return any(lowered(change.after) in key for change in self.logged.changes)

    def charset(self) -> TableCharset:
        definition = self.after.definition if self.after else None
        return TableCharset(definition.charset, definition.collation) if definition and definition.charset else TableCharset()

    def time(self) -> float:
        return session_time(self.record.commit_ts, *self.tables)


def _check_alone(head: Head, statement: Statement, routes: Routes) -> None:
    """Raises SinkError where the place of a schema or a table at the target is not its own."""
    if statement.kind is StatementKind.DROP_SCHEMA:
        routes.check_schema_goes_alone(statement.schemas()[0])
    changed = changed_tables(statement)
    known = [{name for name, schema in schemas.items() if has_rows(schema)} for schemas in (head.schemas, head.next_schemas)]
    for tables in known:
        for name in changed:
            if name in tables or not any(name in one for one in known):
                routes.check_table_goes_alone(name, tables, statement.text)


def _lock(session: PictureSession, name: str, step: _Step) -> None:
    if session.rows("SELECT GET_LOCK(%s, 0)", (name,)) == ((1,),):
        return
    ((holder,),) = session.rows("SELECT IS_USED_LOCK(%s)", (name,))
    busy = session.rows("SELECT INFO FROM information_schema.processlist WHERE ID = %s AND COMMAND <> 'Sleep'", (holder,))
    if not busy and holder is not None:
        _end(session, int(holder))
    if busy or session.rows("SELECT GET_LOCK(%s, %s)", (name, LOCK_TAKEN_S)) != ((1,),):
        text = busy[0][0] if busy else "what it does is not shown"
        raise SinkError(
            f"{step}: connection {holder} of the target, of this worker or one before it, is still at a DDL: {text}",
            hint="wait until it ends, the sink tries again automatically; or end that connection at the target",
        )


def _end(session: PictureSession, connection: int) -> None:
    try:
        session.rows(f"KILL {connection}")
    except pymysql.err.MySQLError as error:
        if error.args[0] != _NO_SUCH_CONNECTION:
            raise


# ---- whether there is anything to do -------------------------------------------------------------------------------------


def _is_wanted(step: _Step, now: Pictures) -> bool:
    result = wanted(step.statement, now)
    if result is None:
        raise SinkError(
            f"{step}: {places(step.statement)[0]} is at the target already",
            hint="see whose it is: drop it, or name the DDL's commit_ts in the sink's `ddl-done` to continue with it as it is",
        )
    return result


def _is_done(session: PictureSession, dialect: Flavour, step: _Step, noted: Intent, now: Pictures) -> bool:
    if dialect is Flavour.TIDB:
        _check_no_job_runs(session, step)
    result = done(step.statement, noted.before, now)
    if result is None:
        raise SinkError(
            f"{step}: whether it was carried out before a worker died is not known."
            f" Before it:\n{_shown(noted.before)}\nnow:\n{_shown(now)}",
            hint="look at the tables, then name its commit_ts in the sink's `ddl-done` if they are as after it, else in `ddl-again`",
        )
    if result:
        _check_columns(session, step)
    return result


def _is_as_before(session: PictureSession, dialect: Flavour, step: _Step, before: Pictures) -> bool:
    """After an answer of the server that is an error. Raises pymysql's errors, and SinkError while TiDB continues with the statement."""
    if dialect is Flavour.TIDB:
        _check_no_job_runs(session, step)
    now = pictures(session, dialect, places(step.statement))
    return now == before or done(step.statement, before, now) is False


def _check_no_job_runs(session: PictureSession, step: _Step) -> None:
    """TiDB continues a job whose connection is gone."""
    for schema, table in places(step.statement):
        rows = session.rows(
            "SELECT JOB_ID, STATE FROM information_schema.ddl_jobs WHERE STATE NOT IN ('synced', 'cancelled', 'rollback done')"
            " AND DB_NAME = %s AND TABLE_NAME = %s",
            (schema, table),
        )
        if rows:
            raise SinkError(
                f"{step}: job {rows[0][0]} of the target on {schema}.{table} is {rows[0][1]}",
                hint="wait until it ends, the sink tries again automatically (ADMIN SHOW DDL JOBS shows how far it is)",
            )


def _check_columns(session: PictureSession, step: _Step) -> None:
    """The target's table has what the log's has from here on: else it is not what this DDL leaves."""
    if step.after is None or not step.after.columns:
        return
    target = step.routes.target(step.after.name)
    rows = session.rows(
        "SELECT LOWER(COLUMN_NAME) FROM information_schema.columns WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s", tuple(target)
    )
    missing = [name for name in step.after.column_names() if (name.lower(),) not in rows]
    if missing:
        raise SinkError(
            f"{step}: after it {target} has no column {', '.join(missing)}, which its rows in the log have",
            hint="give the target's table these columns by hand and name the DDL's commit_ts in the sink's `ddl-done`",
        )


def _shown(value: Pictures) -> str:
    return "\n".join(f"  {name}: {f'ids {p.ids}, {p.definition}' if p.there else 'not there'}" for name, p in value.items())
