"""A real MariaDB as a sink's target: its URI, its tables, and its rows as canonical text, read as the source's adapter reads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote

import pymysql

from sidecar.shared.model.nouns import TableName, TableSchema
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.key_ranges import rows_select
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.reads.read import canonical
from sidecar.shared.resultset.packets import read_packets
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.histories import COLUMNS
from spark_merge.testing.places import Place, Shown
from tests.support.services.mariadb import MariaDb


def uri_of(db: MariaDb, position: str, **parameters: str) -> str:
    query = "".join(f"&{name.replace('_', '-')}={value}" for name, value in parameters.items())
    return f"mysql://{db.user}:{quote(db.password, safe='')}@{db.host}:{db.port}/?position-schema={position}{query}"


def rows_of(db: MariaDb, schema: TableSchema, name: TableName | None = None) -> list[tuple[str | None, ...]]:
    """All rows of the target's table `name`, as the source's reader spells them."""
    session = MysqlSession(Account.of(db.settings()), Role.READ_SOURCE)
    try:
        sql = rows_select(schema.columns, name or schema.name, at_source=False)
        result = canonical(read_packets(session, sql, len(schema.columns)), schema.columns, where=str(schema.name))
        return list(zip(*(column.to_pylist() for column in result.columns), strict=True))
    finally:
        session.close()


def add_accounts(db: MariaDb, table: str, ids: Iterable[int]) -> None:
    """Rows of a copy of the rig's `account` that the source does not have. Their date is not taken from the row that they are copied
    from: that may be a zero date, which strict mode rejects."""
    for number in ids:
        taken = f"{number}, '{number}', balance, level, '2024-01-01'"
        db.execute(f"INSERT INTO {table} (id, email, balance, level, created) SELECT {taken} FROM {table} LIMIT 1")


def history_place(db: MariaDb, number: int, *, tables: int, **parameters: str) -> Place:
    """The tables of spark_merge/testing/histories.py, empty, and a schema of ours that is not there."""
    position = f"pos{number}"
    db.execute(f"DROP DATABASE IF EXISTS {position}", "DROP DATABASE IF EXISTS s", "CREATE DATABASE s")
    names = [TableName("s", f"t{table}") for table in range(tables)]
    for name in names:
        db.execute(f"CREATE TABLE {name} (id VARCHAR(20), part INT, v VARCHAR(20), PRIMARY KEY (id, part))")
    schemas = [TableSchema(name, COLUMNS, ("id", "part")) for name in names]

    def rows() -> dict[TableName, list[Shown]]:
        return {schema.name: [(0, 0, "insert", row[:2], row) for row in rows_of(db, schema)] for schema in schemas}

    uri = uri_of(db, position, **parameters)
    return Place(uri, lambda log_id: open_sink(uri, log_id=log_id), rows, newest=True)


def execute_many(db: MariaDb, statements: Sequence[str], **options: object) -> None:
    connection: pymysql.Connection = db.connect(**options)
    try:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
    finally:
        connection.close()


def room(mb: int) -> dict[str, str]:
    """Settings of a MariaDB whose disk is so large."""
    return {"innodb-file-per-table": "OFF", "innodb-data-file-path": f"ibdata1:12M:autoextend:max:{mb}M"}


TABLE_FULL = 1114


def fill(db: MariaDb) -> None:
    """A server of bounded `room` with rows of somebody else, until it has none; then it has none for a DROP either."""
    sizes = (64_000, 8_000, 100)
    db.execute("CREATE DATABASE ballast", *(f"CREATE TABLE ballast.of_{size} (v LONGBLOB)" for size in sizes))
    for size in sizes:
        try:
            while True:
                db.execute(f"INSERT INTO ballast.of_{size} VALUES (REPEAT('x', {size}))")
        except pymysql.err.OperationalError as error:
            if error.args[0] != TABLE_FULL:
                raise
