"""The SQL sink: of the committing kind, over tables that keep the newest row of each key.

    open → plan (begun is on record, with a slot for each worker) → rows, in transactions with their slots → written → the DDLs → accept

- Rows take effect as they come: live rows up to a high mark, its chunks, live rows after it (`cut.stages`).
- Nothing is written twice: a task that is done again continues behind its slots (workers.py), so no reader sees a row go back.
- A batch that is written is known to be before its DDL begins: a table that the DDL drops is not read again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import msgspec
import pyarrow as pa

from sidecar.shared.model.nouns import Seq, TableName, TableSchema
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from spark_merge.merge.cut import stages, tables_with_rows
from spark_merge.port.contract import Accepted, Batch, Head, Outcome, Standing
from spark_merge.port.kinds import SinkKind, SinkUri
from spark_merge.port.readable import Reading
from spark_merge.sinks.kit.position import PositionKeeper
from spark_merge.sinks.kit.table_ddl import checked_effects
from spark_merge.sinks.kit.target_tables import TargetTables
from spark_merge.sinks.kit.written import end_with_ddls, planned
from spark_merge.sinks.mysql.create import make_tables
from spark_merge.sinks.mysql.ddl import DdlRunner, DdlSettings, Intent
from spark_merge.sinks.mysql.fit import holds_rows, misfits
from spark_merge.sinks.mysql.position import OwnedSlots, SqlBatch, Tasks, Underway, position_of
from spark_merge.sinks.mysql.reading import reading
from spark_merge.sinks.mysql.tables import TargetTable, keys_sum, read_tables
from spark_merge.sinks.mysql.uri import PARAMETERS, POSITION_SCHEMA, SqlSettings, settings_of
from spark_merge.sinks.mysql.writer import SqlWriter

DDL_S_MAX = 30 * 24 * 3600
"""A DDL may take as long as it takes."""


class SqlSink:
    finds_keys = True

    def __init__(self, settings: SqlSettings, *, log_id: str) -> None:
        self._settings = settings
        self._session = MysqlSession(settings.server, Role.WRITE_TARGET)
        self._position = position_of(self._session, settings.position_schema, log_id=log_id)
        self._log_id = log_id
        self._ready = TargetTables[TargetTable]()

    def look(self) -> Accepted | None:
        return self._position.look()

    def open(self, *, epoch: int | None) -> Standing:
        state = self._position.open(epoch)
        self._ready.forget()
        if (begun := self._underway.begun) is None:
            return Standing(state.owner, state.accepted)
        return Standing(state.owner, state.accepted, Accepted(Seq(begun.last), manifest=begun.manifest), begun.sink)

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:  # noqa: ARG002 - the cut must not depend on the cores
        begun = self._underway.begun
        workers = begun.workers if begun else self._settings.workers
        results = stages(heads, chunk_parts=workers)
        tasks = [(task.id, workers if task.units[0].live else 1) for stage in results for task in stage]
        return planned(heads, results, written=begun is not None and begun.written, writer=lambda: self._writer(heads, workers, tasks))

    def _writer(self, heads: Sequence[Head], workers: int, tasks: Tasks) -> SqlWriter:
        """The batch is begun, on record."""
        underway, state = self._underway, self._position.state
        tables = self._tables(heads)
        last = heads[-1]
        name, manifest = (underway.begun.sink, underway.begun.manifest) if underway.begun else (heads[0].received_as, last.manifest.id)
        begun = SqlBatch(last.seq, workers, keys_sum(tables), sink=name, manifest=manifest)
        self._position.change(replace(underway, begun=begun), payload=None if underway.begun == begun else tasks)
        return SqlWriter(self._settings, OwnedSlots(self._settings.position_schema, state.owner), tables, begun.by_bytes)

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002 - the slots have them
        last = batch.heads[-1]
        checked_effects(last, self._settings.decided)
        if last.ddls:
            self._ready.forget()
            end_with_ddls(self._position, batch.heads, note=self._note_written, carry_out=lambda: self._ddls().carry_out(last))
        self._position.accept(Accepted.of(last.manifest), first=batch.heads[0].seq)

    def close(self) -> None:
        self._session.close()

    def reading(self, schema: TableSchema, *, parts: int, keys: pa.Table | None = None) -> Reading:
        return reading(self._settings, schema, log_id=self._log_id, parts=parts, keys=keys)

    @property
    def _underway(self) -> Underway:
        return self._position.state.detail or Underway()

    def _note_written(self) -> None:
        underway = self._underway
        assert underway.begun is not None, "plan comes first"
        self._position.change(replace(underway, begun=msgspec.structs.replace(underway.begun, written=True)))

    def _ddls(self) -> DdlRunner:
        settings = self._settings
        lock = f"ticdc-dump {sha256(f'{settings.position_schema} {self._log_id}'.encode()).hexdigest()[:40]}"
        server = replace(settings.server, read_s=DDL_S_MAX)
        ddls = DdlSettings(lock, settings.routes, settings.decided, settings.skip_views)
        return DdlRunner(lambda: MysqlSession(server, Role.ALTER_TARGET), NotedDdls(self._position), ddls)

    def _tables(self, heads: Sequence[Head]) -> Mapping[TableName, TargetTable]:
        """What those tables have at the target that have rows in these segments."""
        schemas, routes, tables = heads[0].schemas.values(), self._settings.routes, {}
        if self._settings.create_tables and self._position.state.accepted is None:
            carried_out(self._session, lambda: make_tables(self._session, schemas, routes), doing="making the tables")
        if due := self._ready.due(heads, all_tables=False):
            targets = {schema.name: routes.target(schema.name) for schema in due}
            tables = carried_out(self._session, lambda: read_tables(self._session, due, targets), doing="reading what the tables have")
            self._ready.learn({schema: tables[schema.name] for schema in due if not tables[schema.name].problem})
        known = {schema.name: self._ready.get(schema) for schema in tables_with_rows(heads)}
        return {name: table for name, table in (known | tables).items() if table is not None}


@dataclass(frozen=True, slots=True)
class NotedDdls:
    """ddl.DdlPosition: beside the position, by its owner alone."""

    position: PositionKeeper[Underway, Tasks]

    def check_owner(self) -> None:
        self.position.check()

    def intent(self) -> Intent | None:
        self.check_owner()
        underway = self.position.state.detail
        return None if underway is None or underway.ddl is None else Intent.of_json(json.loads(underway.ddl))

    def note_intent(self, intent: Intent) -> None:
        underway = self.position.state.detail or Underway()
        self.position.change(replace(underway, ddl=json.dumps(intent.as_json())))

    def note_done(self, intent: Intent) -> None:
        self.note_intent(intent)


def _leaves(uri: SinkUri) -> str:
    schema = uri.parameters.get("position-schema", POSITION_SCHEMA)
    return f"DROP DATABASE `{schema}`: it holds the position, for a sink that is not to continue"


def _open(uri: SinkUri) -> SqlSink:
    return SqlSink(settings_of(uri), log_id=uri.log_id)


MYSQL = SinkKind(_open, PARAMETERS, holds_rows, misfits, leaves=_leaves, statements=True)
