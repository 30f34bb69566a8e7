"""What the SQL sink has, read back from a real MariaDB (or MySQL)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.keyset import quoted_table
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.resultset.packets import BLOCK_BYTES
from sidecar.shared.sql.text import quoted
from spark_merge.sinks.mysql import pool
from tests.support.eventually import eventually
from tests.support.read_back import reading_of
from tests.support.reading_suite import LOG, ReadingOutput, ReadingSuite, bring, dumped
from tests.support.services.mariadb import MariaDb
from tests.support.sql_place import uri_of

pytestmark = pytest.mark.xdist_group("sql-target")

numbers = itertools.count()

SMALLEST = "sidecar.shared.mysql.key_ranges.PART_ROWS_MIN"
ID, V = Column("id", "int", nullable=False), Column("v", "text")

VALUES: dict[Column, tuple[str | None, ...]] = {
    Column("i", "int"): ("-9223372036854775808", "9223372036854775807", "0", None),
    Column("u", "uint"): ("18446744073709551615", "9223372036854775808", "0", None),
    Column("filled", "uint"): ("0", "42", "4294967295", None),
    Column("b", "bit", length=64): ("18446744073709551615", "1", "0", None),
    Column("d", "decimal", length=65, scale=30): ("9" * 35 + "." + "9" * 30, "-0." + "0" * 29 + "1", "0." + "0" * 30, None),
    Column("f", "float"): ("3.4028234663852886e+38", "0.10000000149011612", "-0.0", "16777216.0", None),
    Column("g", "double"): ("1.7976931348623157e+308", "5e-324", "0.1", "1e+22", "-0.0", None),
    Column("day", "date"): ("0000-00-00", "2020-02-30", "9999-12-31", "0000-01-00", None),
    Column("at", "datetime", scale=6): ("0000-00-00 00:00:00.000000", "2020-02-30 23:59:59.999999", "1000-01-01 00:00:00.000001", None),
    Column("ts", "timestamp", scale=3): ("0000-00-00 00:00:00.000", "1970-01-01 00:00:01.000", "2038-01-19 03:14:07.999", None),
    Column("took", "time", scale=3): ("838:59:59.000", "-838:59:59.000", "-00:00:00.001", None),
    Column("y", "year"): ("0000", "1901", "2155", None),
    Column("bin", "binary", length=4): ("00000000", "DEADBEEF", "FF000000", None),
    Column("blob", "binary"): ("", "00FF0A0D27", "E9" * 300, None),
    Column("e", "enum", elements=("a", "b\\c", "é")): ("a", "b\\c", "é", None),
    Column("s", "set", elements=("a", 'b"', "c")): ("", 'a,b",c', "c", None),
    Column("j", "json"): ('{"a": [1, 2.5, "µ"]}', "null", '"text"', None),
    Column("t", "text"): ("", "x" * 70_000, '\0\x1f\x7f"\\/%s\u2028😀\n', "NULL", None),
    Column("latin", "text"): ("é\\'", " ends in blanks  ", "", None),
    Column("fixed", "text"): ("a", "", "é", None),
}
TYPES = {
    "filled": "INT UNSIGNED ZEROFILL", "b": "BIT(64)", "d": "DECIMAL(65,30)", "f": "FLOAT", "g": "DOUBLE", "day": "DATE",
    "at": "DATETIME(6)", "ts": "TIMESTAMP(3)", "took": "TIME(3)", "y": "YEAR", "bin": "BINARY(4)", "blob": "BLOB",
    "e": "ENUM('a','b\\\\c','é')", "s": "SET('a','b\"','c')", "j": "JSON", "t": "MEDIUMTEXT",
    "latin": "VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_bin", "fixed": "CHAR(4) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
}  # fmt: skip
OF_KINDS = {
    "int": "BIGINT", "uint": "BIGINT UNSIGNED", "text": "VARCHAR(60) COLLATE utf8mb4_bin", "binary": "VARBINARY(20)", "date": "DATE",
    "decimal": "DECIMAL(20,3)",
}  # fmt: skip


def connections(db: MariaDb) -> set[str]:
    """Their numbers, without the one of this statement."""
    return {str(number) for (number,) in db.execute("SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID()")}


def release() -> None:
    """Those that the sink's tasks keep warm."""
    for session, _ in pool.OF_PROCESS._idle:
        session.close()
    pool.OF_PROCESS._idle.clear()


@pytest.fixture
def output(mariadb: MariaDb) -> Iterator[ReadingOutput]:
    number = next(numbers)
    schema, position = f"read{number}", f"read_pos{number}"
    mariadb.execute(f"CREATE DATABASE {schema} CHARACTER SET utf8mb4")
    yield ReadingOutput(uri_of(mariadb, position), schema, VALUES, SMALLEST, lambda table: make(mariadb, table))
    mariadb.execute(f"DROP DATABASE {schema}", f"DROP DATABASE IF EXISTS {position}")


def make(db: MariaDb, table: TableSchema, **types: str) -> None:
    columns = [f"{quoted(one.name)} {types.get(one.name) or _type(one)}{'' if one.nullable else ' NOT'} NULL" for one in table.columns]
    key = ", ".join(map(quoted, table.key))
    db.execute(f"CREATE TABLE {quoted_table(table.name)} ({', '.join(columns)}, PRIMARY KEY ({key}))")


def _type(column: Column) -> str:
    return TYPES.get(column.name, OF_KINDS.get(column.kind, "")) if column in VALUES else OF_KINDS[column.kind]


class TestReading(ReadingSuite):
    def test_no_connection_is_left(self, output: ReadingOutput, mariadb: MariaDb, tmp_path: Path) -> None:
        """Of a reader that reads all, and of one that stops amid it."""
        schema = output.table(ID, V, key=["id"])
        bring(output, tmp_path, schema, 1, [dumped(tmp_path, schema, 1, [(str(at), "x" * 60) for at in range(50_000)])])
        release()
        others = connections(mariadb)
        (part,) = reading_of(output.uri, schema, log_id=LOG, parts=1).parts
        sizes = [piece.rows.nbytes for piece in part()]
        assert len(sizes) > 2
        assert max(sizes) < 2 * BLOCK_BYTES
        begun = part()
        next(begun)
        eventually(lambda: len(connections(mariadb) - others) == 1)
        begun.close()  # type: ignore[attr-defined]  # a generator
        eventually(lambda: not connections(mariadb) - others)


def test_a_column_with_other_digits_comes_back_with_its_own(output: ReadingOutput, mariadb: MariaDb, tmp_path: Path) -> None:
    """A digit more than the source has is a difference that stays."""
    more, fewer = (Column(name, "decimal", length=10, scale=2) for name in ("more", "fewer"))
    columns = (ID, more, fewer, Column("whole", "decimal"), Column("at", "datetime"))
    schema = TableSchema(TableName(output.schema, "digits"), columns, ("id",))
    make(mariadb, schema, more="DECIMAL(20,4)", fewer="DECIMAL(20,1)", whole="DECIMAL(20,3)", at="DATETIME(6)")
    rows = [("1", "-1.50", "2.50", "7", "2024-01-01 00:00:00"), ("2", None, None, None, None), ("3", "100.00", "0.00", "-100", None)]
    bring(output, tmp_path, schema, 1, [dumped(tmp_path, schema, 1, rows)])
    assert output.read(schema) == rows
    mariadb.execute(f"UPDATE {schema.name} SET more = 1.5001, at = '2024-01-01 00:00:00.000100' WHERE id = 1")
    assert output.read(schema)[0] == ("1", "1.5001", "2.50", "7", "2024-01-01 00:00:00.000100")


def test_keys_that_the_target_takes_for_equal_are_in_one_part(
    output: ReadingOutput, mariadb: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SMALLEST, 3)
    columns = (Column("a", "text", nullable=False), Column("b", "int", nullable=False))
    schema = TableSchema(TableName(output.schema, "ci"), columns, ("a", "b"))
    make(mariadb, schema, a="VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_swedish_ci")
    rows = [(letter, str(at)) for at, letter in enumerate("aAbBéEcCdDxX" * 3)]
    bring(output, tmp_path, schema, 1, [dumped(tmp_path, schema, 1, rows)])
    assert len(reading_of(output.uri, schema, log_id=LOG, parts=5).parts) == 5
    assert output.read(schema, parts=5) == sorted(rows, key=repr)


def test_a_null_where_the_source_has_none_is_read_as_it_is(output: ReadingOutput, mariadb: MariaDb, tmp_path: Path) -> None:
    schema = output.table(ID, V, key=["id"])
    bring(output, tmp_path, schema, 1, [dumped(tmp_path, schema, 1, [("1", None)])])
    strict = TableSchema(schema.name, (ID, Column("v", "text", nullable=False)), ("id",))
    assert output.read(strict) == [("1", None)]


def test_what_cannot_be_read_is_reported(output: ReadingOutput, mariadb: MariaDb, tmp_path: Path) -> None:
    schema = output.table(ID, V, key=["id"])
    bring(output, tmp_path, schema, 1, [dumped(tmp_path, schema, 1, [("1", "x")])])
    with pytest.raises(SinkError, match="has no column more"):
        output.read(TableSchema(schema.name, (*schema.columns, Column("more", "int")), ("id",)))
    with pytest.raises(SinkError, match="holds the output of log log-1, this is log another"):
        reading_of(output.uri, schema, log_id="another", parts=1)
    mariadb.execute(f"DROP TABLE {schema.name}")
    with pytest.raises(SinkError, match="is not at the target"):
        output.read(schema)


def test_a_connection_that_is_lost_is_tried_again_until_rows_are_there(
    output: ReadingOutput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = output.table(ID, V, key=["id"])
    bring(output, tmp_path, schema, 1, [dumped(tmp_path, schema, 1, [("1", "x")])])
    reading = reading_of(output.uri, schema, log_id=LOG, parts=1)
    packets, tries = MysqlSession.packets, itertools.count()

    def lost(session: MysqlSession, sql: str) -> object:
        if next(tries) == 0:
            raise pymysql.err.OperationalError(2013, "Lost connection")
        return packets(session, sql)

    monkeypatch.setattr(MysqlSession, "packets", lost)
    (piece,) = reading.parts[0]()
    assert piece.rows.to_pylist() == [{"id": "1", "v": "x"}]
