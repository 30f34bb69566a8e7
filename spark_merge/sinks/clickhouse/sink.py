"""The ClickHouse sink: of the versioned kind. Tasks insert rows with their versions, in any cut; the position is a journal (position.py).

    open (claimed) → plan (tables are there) → rows → at a DDL: noted as written, carried out → accept

- An earlier worker that wakes up may still insert: what it inserts has lost to what came after it, or is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pyarrow as pa

from sidecar.shared.model.nouns import TableName, TableSchema
from spark_merge.ddl.routes import check_apart
from spark_merge.merge.cut import LIVE_PART_ROWS, spread, tables_with_rows, units
from spark_merge.port.contract import Accepted, Batch, Head, Outcome, Standing, Task
from spark_merge.port.kinds import SinkKind, SinkUri
from spark_merge.port.readable import Reading
from spark_merge.sinks.clickhouse.ddl import ClickHouseDdlRunner
from spark_merge.sinks.clickhouse.fit import holds_rows, misfits
from spark_merge.sinks.clickhouse.position import TABLE, Journal, position_of
from spark_merge.sinks.clickhouse.reading import reading
from spark_merge.sinks.clickhouse.server import forget
from spark_merge.sinks.clickhouse.tables import ClickHouseTables
from spark_merge.sinks.clickhouse.uri import DATABASE, PARAMETERS, ClickHouseSettings, settings_of
from spark_merge.sinks.clickhouse.writer import ClickHouseWriter
from spark_merge.sinks.kit.table_ddl import checked_effects
from spark_merge.sinks.kit.target_tables import TargetTables
from spark_merge.sinks.kit.written import end_with_ddls, planned

CHUNK_PARTS = 4


class ClickHouseSink:
    finds_keys = True

    def __init__(self, settings: ClickHouseSettings, *, log_id: str) -> None:
        self._settings = settings
        self._tables = ClickHouseTables(settings, log_id)
        self._journal = Journal(settings.server, settings.database)
        self._position = position_of(self._journal, log_id=log_id)
        self._ddls = ClickHouseDdlRunner(self._tables, self._position.check)
        self._written: Accepted | None = None
        self._ready = TargetTables[None]()

    def look(self) -> Accepted | None:
        return self._position.look()

    def open(self, *, epoch: int | None) -> Standing:
        state = self._position.open(epoch)
        self._written = self._journal.written(state.accepted)
        self._ready.forget()
        return Standing(state.owner, state.accepted, self._written)

    def check_places(self, names: Collection[TableName], before: Collection[TableName]) -> None:
        """`KeepsTables.check_places`."""
        check_apart(names, before, self._settings.names.places, routes=self._settings.names.routes)

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:
        groups = spread(units(heads, chunk_parts=CHUNK_PARTS, live_part_rows=LIVE_PART_ROWS), heads, cores=cores)
        tasks = tuple(Task(str(number), group) for number, group in enumerate(groups))
        return planned(
            heads, (tasks,), written=self._written is not None and self._written.seq == heads[-1].seq, writer=lambda: self._writer(heads)
        )

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002 - the rows are there
        last = batch.heads[-1]
        if last.ddls or last.upto_ts in self._settings.done:
            self._ready.forget()
            end_with_ddls(self._position, batch.heads, note=lambda: self._note_written(last), carry_out=lambda: self._ddls.carry_out(last))
        else:
            checked_effects(last)
        self._position.accept(Accepted.of(last.manifest), first=batch.heads[0].seq)

    def reading(self, schema: TableSchema, *, parts: int, keys: pa.Table | None = None) -> Reading:
        return reading(self._tables, schema, self.look(), parts=parts, keys=keys)

    def close(self) -> None:
        forget(self._settings.server)

    def _note_written(self, last: Head) -> None:
        self._journal.note_written(Accepted.of(last.manifest), log_id=self._position.state.log_id)

    def _writer(self, heads: Sequence[Head]) -> ClickHouseWriter:
        fresh = self._position.state.accepted is None
        due = self._ready.due(heads, all_tables=fresh)
        self._tables.ready(due, fresh=fresh)
        self._ready.learn(dict.fromkeys(due))
        targets = {schema.name: self._tables.target(schema) for schema in tables_with_rows(heads)}
        return ClickHouseWriter(self._settings.server, targets, self._journal.output)


def _leaves(uri: SinkUri) -> str:
    return f"DROP TABLE {uri.parts.path.strip('/') or DATABASE}.{TABLE}: it holds the position, for a sink that is not to continue"


def _open(uri: SinkUri) -> ClickHouseSink:
    return ClickHouseSink(settings_of(uri), log_id=uri.log_id)


def _target(uri: SinkUri) -> Callable[[TableName], str]:
    names = settings_of(uri).names
    return lambda name: str(names.rows(name))


CLICKHOUSE = SinkKind(_open, PARAMETERS, holds_rows, misfits, leaves=_leaves, target=_target)
