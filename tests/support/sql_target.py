"""A real MariaDB as the target of the SQL sink: connections that do not open again, recorded tables, and what is there after all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, Seq, TableName, TableSchema
from sidecar.shared.mysql.flavour import flavour_of
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.setup import set_up
from sidecar.shared.rowcodec.kv_layout import layout_of
from sidecar.shared.rowcodec.table_info import table_schema
from sidecar.shared.schema.ddl import Effect, TableInfo
from sidecar.shared.schema.history import SchemaHistory
from spark_merge.port.contract import Head
from spark_merge.sinks.mysql.server_table import ServerColumn, ServerTable, TableThere
from tests.support.kv_ddl import ddl_recording, snapshot
from tests.support.services.mariadb import MariaDb

Tables = Mapping[TableName, TableSchema]

_NAME_AND_COUNTER = re.compile(r"^CREATE TABLE `[^`]*`| AUTO_INCREMENT=\d+| CHARACTER SET utf8mb4(?= COLLATE utf8mb4_)")
"""And what MySQL repeats of a column that was made with a character set, as its collation says it."""


class OneConnection:
    """`MysqlSession`."""

    def __init__(self, server: MariaDb, *, role: Role | None = None, **options: Any) -> None:
        self.connection = server.connect(**options)
        if role is not None:
            with self.connection.cursor() as cursor:
                set_up(cursor, role, flavour_of(self.connection.get_server_info()), statement_s=0)

    def rows(self, sql: str, values: Any = None) -> tuple[tuple[Any, ...], ...]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, values)
            return tuple(cursor.fetchall())

    def close(self) -> None:
        self.connection._force_close()


class AsInTheLog(TableThere):
    """A target's table that is as the log has it, for what is judged without a server."""

    def __init__(self, schema: TableSchema | None) -> None:
        super().__init__(cast(OneConnection, None), schema.name if schema else TableName("", ""))
        made = schema.definition.columns if schema and schema.definition else ()
        columns = (ServerColumn(one.name, one.type_text, one.collation, False, one.charset, one.type_text) for one in made)
        self.table = ServerTable(tuple(columns), ())
        self.partitioning = schema.definition.partitioning if schema and schema.definition else ""

    def equal(self, texts: Iterable[tuple[str, str]], collation: str) -> bool:
        return any(one.casefold() == other.casefold() for one, other in texts)


def recorded_schemas(folder: Path, moment: str) -> dict[TableName, TableSchema]:
    """The tables at the recording's `start_ts` or `end_ts`, but the watermark's, with what they were made of."""
    ts = json.loads((folder / "recording.json").read_text())[moment]
    result = {}
    for path in (folder / "schema" / str(ts)).glob("*.*.json"):
        info = json.loads(path.read_text())
        if not info.get("view") and not info.get("sequence"):
            schema = table_schema(info, schema=path.name.split(".")[0])
            result[schema.name] = schema
    return {name: schema for name, schema in result.items() if name.schema != MARK_TABLE.schema}


def definitions(server: MariaDb, *databases: str) -> dict[TableName, str]:
    """SHOW CREATE TABLE of every table, without its name."""
    named = ", ".join(f"'{database}'" for database in databases)
    results = server.execute(
        f"SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.tables WHERE TABLE_SCHEMA IN ({named}) AND TABLE_TYPE = 'BASE TABLE'"
    )
    texts = {TableName(schema, table): server.execute(f"SHOW CREATE TABLE `{schema}`.`{table}`")[0][1] for schema, table in results}
    return {name: _NAME_AND_COUNTER.sub("", text) for name, text in texts.items()}


# ---- a history of DDLs ----------------------------------------------------------------------------------------------


def recorded_heads(name: str) -> list[Head]:
    """A segment for each finished DDL of a recording, with the tables before and after it, as a log of raw key-values has them."""
    recording = ddl_recording(name)
    history: SchemaHistory[TableSchema] = SchemaHistory(
        recording.recording.start_ts, snapshot(recording.recording.folder, recording.recording.start_ts), describe=_logged
    )
    heads: list[Head] = []
    before = _tables(history, recording.recording.start_ts)
    for step in recording.steps:
        event = history.apply(step)
        if event is None or event.commit_ts > recording.recording.end_ts:
            continue
        after = _tables(history, event.commit_ts)
        if event.effect is not Effect.SWITCH:
            names = [one for change in event.tables if (one := change.name_after or change.name_before)]
            record = DdlRecord(event.commit_ts, names[0].schema, names[0].table, event.query)
            heads.append(head_of(len(heads), [record], before, after))
        before = after
    return heads


def head_of(seq: int, records: Sequence[DdlRecord], before: Tables, after: Tables) -> Head:
    ts = records[-1].commit_ts
    return Head(Manifest(Seq(seq), 1, CommitTs(ts - 1), ts, None, 0, 0, {}, "schemas", "kv", tuple(records)), before, after)


def _logged(info: TableInfo, schema: str) -> TableSchema:
    return replace(table_schema(dict(info), schema=schema), layout=layout_of(0, info, new_collation=True))


def _tables(history: SchemaHistory[TableSchema], ts: CommitTs) -> Tables:
    return {one.name: one.description for one in history.tables_at(ts) if one.name != MARK_TABLE}
