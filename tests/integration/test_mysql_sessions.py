"""Every role's session beside a server whose own settings are hostile: it has ours, and reads each row of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pytest

from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.shared.errors import SourceChanged
from sidecar.shared.model.messages import Brackets, ReadChunk
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.key_ranges import KeySpan
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.mysql.setup import ISOLATION, VARIABLES, same, settings
from sidecar.shared.process.kept_secrets import keep
from sidecar.shared.reads.read import ChunkReader
from spark_merge.port.readable import RowsRead
from spark_merge.sinks.kit.keyed import keyed_reading
from spark_merge.sinks.mysql.reading import SqlRows, read_key
from spark_merge.sinks.mysql.server import SqlServer
from spark_merge.sinks.mysql.server_table import read_table
from spark_merge.verify.source import SqlSource, key_table
from tests.support.services.mariadb import MariaDb
from tests.support.services.mysql import PROGRAM

pytestmark = pytest.mark.xdist_group("sql-target")

FLAVOUR = Flavour.MYSQL if PROGRAM else Flavour.MARIADB
NAME = TableName("edge", "t")
SCHEMA = TableSchema(NAME, (Column("id", "int", nullable=False), Column("c", "text"), Column("at", "timestamp")), ("id",))
ROWS = 900
HOSTILE = {
    "sql_select_limit": "100", "max_execution_time": "1", "max_statement_time": "0.001", "time_zone": "'+05:00'",
    "sql_mode": "'ANSI_QUOTES,PIPES_AS_CONCAT,PAD_CHAR_TO_FULL_LENGTH,NO_BACKSLASH_ESCAPES'", "collation_connection": "'latin1_bin'",
    "autocommit": "0", "group_concat_max_len": "4", "div_precision_increment": "0", "default_week_format": "6", "lc_time_names": "'de_DE'",
    "completion_type": "'CHAIN'", "sql_auto_is_null": "1", "sql_big_selects": "0", "max_sort_length": "64",
    "information_schema_stats_expiry": "999", "system_versioning_asof": "'2001-01-01'", "sql_safe_updates": "1", "foreign_key_checks": "1",
    "unique_checks": "0", "sql_notes": "0", "max_error_count": "0", "sql_quote_show_create": "0", "sql_if_exists": "1",
    "innodb_lock_wait_timeout": "999", "wait_timeout": "999", "explicit_defaults_for_timestamp": "0", "lock_wait_timeout": "999",
}  # fmt: skip


def server_of(db: MariaDb) -> SqlServer:
    server = SqlServer(((db.host, db.port),), db.user)
    keep(SqlServer.SECRET_KIND, str(server), db.password)
    return server


@pytest.fixture
def hostile(mariadb: MariaDb) -> Iterator[MariaDb]:
    """Its own values come back."""
    names = [one.name for one in VARIABLES if FLAVOUR in one.flavours]
    assert set(names) <= HOSTILE.keys(), "each variable of the table needs a hostile value here"
    mariadb.execute(
        f"DROP DATABASE IF EXISTS {NAME.schema}",
        f"CREATE DATABASE {NAME.schema}",
        f"CREATE TABLE {NAME} (id BIGINT PRIMARY KEY, c CHAR(20), at TIMESTAMP NULL)",
    )
    values = ", ".join(f"({number}, 'a\\\\b', '2024-05-06 07:08:09')" for number in range(ROWS))
    mariadb.execute(f"INSERT INTO {NAME} VALUES {values}")
    ((*before,),) = mariadb.execute(f"SELECT {', '.join(f'@@GLOBAL.{name}' for name in names)}")
    sets = [f"SET GLOBAL {name} = {HOSTILE[name]}" for name in names] + ["SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY"]
    connection = mariadb.connect()
    try:
        with connection.cursor() as cursor:
            for sql in sets:
                cursor.execute(sql)
        yield mariadb
    finally:
        with connection.cursor() as cursor:
            for name, value in zip(names, before, strict=True):
                if value == "DEFAULT":
                    cursor.execute(f"SET GLOBAL {name} = DEFAULT")
                else:
                    cursor.execute(f"SET GLOBAL {name} = %s", (value,))
            cursor.execute("SET GLOBAL TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE")
        connection.close()


def sessions(db: MariaDb, role: Role) -> list[MysqlSession]:
    return [MysqlSession(server_of(db), role), *([MysqlSession(Account.of(db.settings()), role)] if role.at_source else [])]


@pytest.mark.parametrize("role", Role)
def test_each_variable_has_our_value(hostile: MariaDb, role: Role) -> None:
    for session in sessions(hostile, role):
        for name, value in settings(role, FLAVOUR, statement_s=session.server.statement_s):
            ((effective,),) = session.rows(f"SELECT @@session.{name}")
            assert same(effective, value), (name, effective)
        ((isolation, read_only, charset),) = session.rows(
            "SELECT @@session.transaction_isolation, @@session.transaction_read_only, @@session.character_set_results"
        )
        assert (isolation.replace("-", " "), read_only, charset) == (ISOLATION[role], 0, "utf8mb4")
        session.close()


def written(parts: Sequence[Callable[[], Iterator[RowsRead]]]) -> list[tuple[str, ...]]:
    return [tuple(row.values()) for part in parts for read in part() for row in read.rows.to_pylist()]


def test_a_dump_a_read_back_and_a_verification_read_every_row_as_it_is(hostile: MariaDb) -> None:
    """V4: 100 of 900 rows were compared."""
    wanted = [(str(number), "a\\b", "2024-05-06 07:08:09") for number in range(ROWS)]
    source, keys = SqlSource(server_of(hostile)), key_table(SCHEMA, [(str(number),) for number in range(ROWS)])
    assert sorted(written(source.ranges(SCHEMA, [KeySpan()], form=None)), key=lambda row: int(row[0])) == wanted
    assert len(written([source.by_keys(SCHEMA, keys, form=None)])) == ROWS
    session = MysqlSession(server_of(hostile), Role.READ_TARGET)
    table = read_table(session, NAME)
    assert table is not None
    rows = SqlRows(server_of(hostile), NAME, SCHEMA.columns)
    read_back = keyed_reading(None, rows, [rows.of_ranges(read_key(SCHEMA, NAME, table), [KeySpan()])]).parts
    session.close()
    assert sorted(written(read_back), key=lambda row: int(row[0])) == wanted
    assert chunk(hostile) == ROWS


def chunk(db: MariaDb) -> int:
    """A dump's first chunk."""
    (schema,) = (one for name, one in TidbSchemas(db.settings()).tables().items() if name == NAME)
    session = MysqlSession(Account.of(db.settings()), Role.READ_SOURCE)
    command = ReadChunk("d", 1, 1, NAME, None, None, 10_000, Brackets.WATERMARK)
    result = ChunkReader({NAME: schema}).read(session, command, stopped=lambda: False)
    session.close()
    rows: pa.Table = result.selected  # type: ignore[union-attr]  # no Misfit
    return int(rows.num_rows)


@pytest.mark.parametrize("ddl", ["RENAME COLUMN c TO other", "DROP COLUMN c", "CHANGE id other BIGINT", "RENAME TO edge.elsewhere"])
def test_a_ddl_amid_a_verification_is_the_sources_and_says_nothing_of_a_sink(mariadb: MariaDb, ddl: str) -> None:
    """C2: "Unknown column … (error 1054) … the sink continues automatically" ended a verification."""
    mariadb.execute(
        f"DROP DATABASE IF EXISTS {NAME.schema}",
        f"CREATE DATABASE {NAME.schema}",
        f"CREATE TABLE {NAME} (id BIGINT PRIMARY KEY, c CHAR(20), at TIMESTAMP NULL)",
    )
    source = SqlSource(server_of(mariadb))
    keys = key_table(SCHEMA, [("1",)])
    before = [*source.ranges(SCHEMA, [KeySpan()], form=None), source.by_keys(SCHEMA, keys, form=None)]
    mariadb.execute(f"ALTER TABLE {NAME} {ddl}")
    actions: list[Callable[[], object]] = [
        *(lambda part=part: list(part()) for part in before),
        lambda: source.ranges(SCHEMA, [KeySpan()], form=None),
        lambda: source.by_keys(SCHEMA, keys, form=None),
        lambda: source.cut(SCHEMA, parts=4),
        lambda: source.walk(SCHEMA, KeySpan(), range_rows=1, ranges_max=2),
    ]
    for action in actions:
        with pytest.raises(SourceChanged) as caught:
            action()
        assert "sink continues" not in caught.value.hint
