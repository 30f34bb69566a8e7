"""The SQL and the status port of a made TiDB with TiDB-Binlog, as far as a sidecar asks: its tables, TSOs, chunks, and marks, which are
transactions of the watermark table with binlogs like any other.

A SELECT of rows is carried out by SQLite on what the tables are at the transaction's TSO, or now.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sidecar.replay.kv_rows import DDL_JOB_TABLE_INFO
from sidecar.shared.config import SourceSection
from sidecar.shared.model.nouns import MARK_TABLE
from tests.support.binlog_tables import ROWID, Row, Table, schema_folder
from tests.support.binlog_tidb import BinlogTidb, Fate, Place, Written
from tests.support.services.fake_tidb import FakeTidb, Refused, Rows
from tests.unit.adapters.test_tidb_infos import StatusPort

_MARK = "changefeed_dump.changefeed_dump_event"
_INSERT = re.compile(rf"INSERT INTO {_MARK} .*VALUES \('(\w+)', '(\w+)', (\d+),")
_UPDATE = re.compile(rf"UPDATE {_MARK} SET unique_identifier = '(\w+)', event_type = (\d+), .* WHERE changefeed_id = '(\w+)' .* = '(\w+)'")
_OF_ROWS = re.compile(rf"FROM (?:{_MARK}|`\w+`\.`\w+`)")


@contextmanager
def serving(tidb: BinlogTidb, folder: Path) -> Iterator[SourceSection]:
    """`folder`: of the server that stands in."""
    with closing(StatusPort(schema_folder())) as status, _Sql(folder, tidb) as sql:
        status.paths["/schema/mysql/tidb_ddl_job"] = (200, json.dumps(DDL_JOB_TABLE_INFO).encode())
        reported = status.sql()
        for name, table in tidb.tables.items():
            reported[name] = replace(reported[name], columns={}, clustered=table.clustered, counted=100, info=table.info)
        sql.history = {0: reported}
        yield sql.settings(status_port=status.port)


class _Sql(FakeTidb):
    version = "8.0.11-TiDB-v7.5.1"

    def __init__(self, folder: Path, tidb: BinlogTidb) -> None:
        super().__init__(folder)
        self._tidb = tidb
        self._snapshots: dict[int, int] = {}

    def answer(self, sql: str, connection: Any) -> Rows | int | None:
        if sql.startswith("START TRANSACTION"):
            self._snapshots[connection.number] = self._tidb.now()
        elif sql.startswith(("ROLLBACK", "COMMIT")):
            self._snapshots.pop(connection.number, None)
        elif sql == "SELECT @@tidb_current_ts":
            return [(self._snapshots.get(connection.number, 0),)]
        elif match := _INSERT.match(sql):
            return self._insert_mark(match[1], match[2], int(match[3]))
        elif match := _UPDATE.match(sql):
            return self._update_mark(match[3], match[4], match[1], int(match[2]))
        elif _OF_ROWS.search(sql) and sql.startswith("SELECT"):
            return self._select(sql, self._snapshots.get(connection.number))
        return super().answer(sql, connection)

    def _select(self, sql: str, at_ts: int | None) -> Rows:
        ts = self._tidb.now() if at_ts is None else at_ts
        with closing(sqlite3.connect(":memory:")) as made:
            for schema in {name.schema for name in self._tidb.tables}:
                made.execute(f"ATTACH ':memory:' AS {schema}")
            for name, table in self._tidb.tables.items():
                _put(made, table, self._tidb.rows(name, ts) if name.table in sql else [])
            try:
                return made.execute(sql).fetchall()
            except sqlite3.Error as error:
                raise Refused(1064, f"{error}: {sql}") from error

    # ---- marks ------------------------------------------------------------------------------------------------------

    def _insert_mark(self, changefeed: str, uuid: str, kind: int) -> int:
        table = self._tidb.tables[MARK_TABLE]
        row: Row = {1: 1, 2: changefeed.encode(), 3: uuid.encode(), 4: kind, 5: 1, 6: 1}

        def made(before: Mapping[Place, Row | None]) -> Iterator[Written]:
            (held,) = before.values()
            if held is None:
                yield Written(table, None, row)

        return self._tidb.transact([(MARK_TABLE, (1,))], made, Fate.COMMITTED)

    def _update_mark(self, changefeed: str, expected: str, uuid: str, kind: int) -> int:
        """There is one row, of the one sidecar."""
        table = self._tidb.tables[MARK_TABLE]

        def made(before: Mapping[Place, Row | None]) -> Iterator[Written]:
            (held,) = before.values()
            if held is not None and (held[2], held[3]) == (changefeed.encode(), expected.encode()):
                yield Written(table, held, {**held, 3: uuid.encode(), 4: kind})

        return self._tidb.transact([(MARK_TABLE, (1,))], made, Fate.COMMITTED)


def _put(made: sqlite3.Connection, table: Table, rows: list[Row]) -> None:
    """Binary columns as blobs, so that they order by their bytes and HEX shows them."""
    columns = {id_: result["name"]["O"] for id_, result in table.columns.items()} | ({} if table.clustered else {ROWID: "_tidb_rowid"})
    place = f"{table.name.schema}.{table.name.table}"
    made.execute(f"CREATE TABLE {place} ({', '.join(columns.values())})")
    values = [[_sqlite(table.columns.get(id_), row[id_]) for id_ in columns] for row in rows]
    made.executemany(f"INSERT INTO {place} VALUES ({', '.join('?' * len(columns))})", values)


def _sqlite(value: Mapping[str, Any] | None, plain: Any) -> Any:
    return plain.decode() if value is not None and isinstance(plain, bytes) and value["type"]["Collate"] != "binary" else plain
