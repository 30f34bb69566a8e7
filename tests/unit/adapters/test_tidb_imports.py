"""What TiDB's own tables say of imports and restores, and what it means that one cannot be read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sidecar.adapters.tidb.imports import (
    FILTERS_APART,
    IMPORT_JOBS,
    ImportJob,
    NotReadable,
    PitrMap,
    RestoreTask,
    import_jobs,
    pitr_maps,
    restore_tasks,
    table_names,
    unread,
)
from sidecar.shared.config import SourceSection
from sidecar.shared.errors import SourceLost
from sidecar.shared.model.nouns import TableName
from tests.support.services.fake_tidb import FakeTable, FakeTidb, Refused

READS: list[Callable[[SourceSection], object]] = [lambda s: import_jobs(s, 0.0), restore_tasks, lambda s: pitr_maps(s, 0.0)]


@pytest.fixture
def tidb(tmp_path: Path) -> Iterator[FakeTidb]:
    with FakeTidb(tmp_path) as server:
        yield server


def test_rows_are_read_as_they_are(tidb: FakeTidb) -> None:
    tidb.own_tables = {
        "tidb_import_jobs": [(30001, "holes", "imported", 597, "finished", "1.5", "2.25"), (7, "holes", "b", 5, "pending", None, None)],
        "tidb_restore_registry": [(4, f"a.*{FILTERS_APART}b.c", "Table Restore", 99, 12, "3.5"), (5, "", None, 0, None, "4")],
        "tidb_pitr_id_map": [(99, 12, "7")],
    }
    assert import_jobs(tidb.settings(), 0.0) == [
        ImportJob(30001, TableName("holes", "imported"), 597, "finished", 1.5, 2.25),
        ImportJob(7, TableName("holes", "b"), 5, "pending", None, None),
    ]
    assert restore_tasks(tidb.settings()) == [
        RestoreTask(4, ("a.*", "b.c"), "Table Restore", 99, 12, 3.5),
        RestoreTask(5, (), "", 0, 0, 4.0),
    ]
    assert pitr_maps(tidb.settings(), 0.0) == [PitrMap(99, 12, 7.0)]


OLD_S, NEW_S = 100, 900


@pytest.mark.parametrize(
    ("status", "times", "ended_s"),
    [
        ("pending", (None, None, None), "under way"),
        ("running", (OLD_S, OLD_S, None), "under way"),
        ("finished", (OLD_S, OLD_S, OLD_S), "not read"),
        ("finished", (OLD_S, NEW_S, NEW_S), NEW_S),
        ("failed", (OLD_S, NEW_S, NEW_S), NEW_S),
        ("cancelled", (OLD_S, NEW_S, None), NEW_S),
        ("cancelled", (OLD_S, OLD_S, None), "not read"),
        ("cancelled", (None, None, None), "not read"),
    ],
)
def test_a_job_is_over_by_its_status_and_an_old_one_is_not_read(
    tidb: FakeTidb, status: str, times: tuple[int | None, ...], ended_s: object
) -> None:
    """The statement itself, carried out by SQLite: `times` are of start, update and end. TiDB gives a cancelled job no end."""
    tidb.own_tables = {"tidb_import_jobs": ()}
    import_jobs(tidb.settings(), 500.0)
    (sql,) = (one for one in tidb.statements if "tidb_import_jobs" in one)
    with closing(sqlite3.connect(":memory:")) as database:
        database.create_function("UNIX_TIMESTAMP", 1, lambda at: at)
        database.execute("ATTACH ':memory:' AS mysql")
        columns = "id, table_schema, table_name, table_id, status, create_time, start_time, update_time, end_time"
        database.execute(f"CREATE TABLE mysql.tidb_import_jobs ({columns})")
        database.execute("INSERT INTO mysql.tidb_import_jobs VALUES (1, 's', 't', 5, ?, 10, ?, ?, ?)", (status, *times))
        rows = database.execute(sql).fetchall()
    ends: object = rows[0][6] if rows else "not read"
    assert ("under way" if ends is None else ends) == ended_s


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(
    ("code", "why"),
    [(1142, NotReadable.NO_RIGHT), (1044, NotReadable.NO_RIGHT), (1146, NotReadable.NO_TABLE), (1049, NotReadable.NO_TABLE)],
)
def test_what_cannot_be_read_is_no_error(tidb: FakeTidb, read: Callable[[SourceSection], object], code: int, why: NotReadable) -> None:
    def refuse(sql: str) -> None:
        if "FROM mysql.tidb_" in sql:
            raise Refused(code, "refused")

    tidb.before = refuse
    assert read(tidb.settings()) is why
    assert unread(tidb.settings(), IMPORT_JOBS) is why


def test_an_outage_is_an_error(tidb: FakeTidb) -> None:
    def refuse(sql: str) -> None:
        if "FROM mysql.tidb_" in sql:
            raise Refused(9001, "PD server timeout")

    tidb.before = refuse
    with pytest.raises(SourceLost):
        import_jobs(tidb.settings(), 0.0)


def test_another_server_is_no_tidb(tidb: FakeTidb) -> None:
    tidb.version = "11.4.2-MariaDB"
    assert unread(tidb.settings(), IMPORT_JOBS) is NotReadable.NO_TIDB


def test_names_are_of_all_schemas_but_tidbs_own(tidb: FakeTidb) -> None:
    tidb.history = {0: {TableName("Shop", "B"): FakeTable(1), TableName("mysql", "user"): FakeTable(2), TableName("a", "t"): FakeTable(3)}}
    assert table_names(tidb.settings()) == (("Shop", "B"), ("a", "t"))
    table_names(tidb.settings(), "Sh'op")
    assert any("TABLE_SCHEMA = 'Sh\\'op'" in sql for sql in tidb.statements)
