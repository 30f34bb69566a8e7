"""The sink: of the versioned kind, over an index for each table, of whose documents the greatest version stays.

    open ─► plan (indices are there and fit) ─► rows, in bulk requests ─► at a DDL: noted as written, carried out ─► accept

- Tasks come in stages: rows in commit order, a dump's where they belong (cut.stages). A version alone would do while the server knows what
  was deleted, and it forgets that at a restart; in order, a delete is never overtaken by an older row that is sent again.
- An index is made while nothing is accepted, and by DDLs. One that is gone later lacks rows that nobody would bring again: an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from urllib.parse import quote

import pyarrow as pa

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Seq, TableName, TableSchema
from spark_merge.ddl.routes import check_apart
from spark_merge.merge.cut import stages
from spark_merge.port.contract import Accepted, Batch, Head, Outcome, Standing
from spark_merge.port.kinds import SinkKind, SinkUri
from spark_merge.port.readable import Reading
from spark_merge.sinks.kit.target_tables import TargetTables
from spark_merge.sinks.kit.written import end_with_ddls, planned
from spark_merge.sinks.opensearch.changes import IndexChanges, arrived, changes, ours
from spark_merge.sinks.opensearch.client import OpenSearchSession
from spark_merge.sinks.opensearch.ddl import IndexDdlRunner
from spark_merge.sinks.opensearch.fit import holds_rows, misfits
from spark_merge.sinks.opensearch.indices import Indices
from spark_merge.sinks.opensearch.position import OwnedPosition, WrittenBatch, position_of
from spark_merge.sinks.opensearch.reading import reading
from spark_merge.sinks.opensearch.uri import PARAMETERS, POSITION_INDEX, OpenSearchSettings, settings_of
from spark_merge.sinks.opensearch.writer import BulkWriter

FEW_CHUNK_ROWS = 5_000
"""A dump's rows of a segment that go among its live ones: a stage of their own costs more."""


class OpenSearchSink:
    finds_keys = True

    def __init__(self, settings: OpenSearchSettings, *, log_id: str) -> None:
        self._settings = settings
        self._session = OpenSearchSession(settings.server)
        self._position = position_of(self._session, settings.position_index, log_id=log_id)
        self._indices = Indices(self._session, settings, log_id=log_id)
        self._ready = TargetTables[None]()

    def look(self) -> Accepted | None:
        return self._position.look()

    def open(self, *, epoch: int | None) -> Standing:
        state = self._position.open(epoch)
        self._ready.forget()
        written = state.detail
        return Standing(state.owner, state.accepted, None if written is None else Accepted(written.seq, manifest=written.manifest))

    def check_places(self, names: Collection[TableName], before: Collection[TableName]) -> None:
        """`KeepsTables.check_places`. An index has one name, in small letters alone."""
        check_apart(names, before, lambda target: [self._settings.names.alias_of(target)], routes=self._settings.names.routes)

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:
        batch_stages = stages(heads, chunk_parts=max(cores, 1), few_rows=FEW_CHUNK_ROWS)
        tasks = [tuple(replace(task, order="table") for task in stage) for stage in batch_stages]
        return planned(heads, tasks, written=self._position.state.detail is not None, writer=lambda: self._writer(heads))

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        last = batch.heads[-1]
        self._position.check()
        if not last.ddls and not last.manifest.next_schemas:
            if self._settings.refresh == "accept":
                self._refresh({table for outcome in outcomes for _, table in outcome.counts})
        elif last.upto_ts in self._settings.done:
            self._make_arrived(last)
        else:
            self._settings.names.check(ours(last.next_schemas))
            ddl_changes = changes(last, again=last.upto_ts in self._settings.again)
            end_with_ddls(
                self._position, batch.heads, note=lambda: self._note_written(last), carry_out=lambda: self._carry_out(last, ddl_changes)
            )
        self._position.accept(Accepted.of(last.manifest), first=batch.heads[0].seq)

    def reading(self, schema: TableSchema, *, parts: int, keys: pa.Table | None = None) -> Reading:
        try:
            return reading(self._indices, schema, self.look(), parts=parts, keys=keys)
        finally:
            self._session.close()

    def close(self) -> None:
        self._session.close()

    # ---- indices ---------------------------------------------------------------------------------------------------------

    def _writer(self, heads: Sequence[Head]) -> BulkWriter:
        self._prepare(heads)
        return BulkWriter(self._settings, OwnedPosition(self._settings.server, self._settings.position_index, self._position.state.owner))

    def _prepare(self, heads: Sequence[Head]) -> None:
        self._settings.names.check(ours(heads[0].schemas))
        fresh = self._position.state.accepted is None
        due = self._ready.due(heads, all_tables=fresh)
        there = self._indices.there(map(self._alias, due))
        for schema in due:
            index = there.get(self._alias(schema))
            if index is not None:
                self._indices.fit(schema, index)
            elif fresh:
                self._position.check()
                self._indices.make(self._alias(schema), schema, heads[0].seq)
            else:
                raise SinkError(
                    f"{self._settings.server}: alias {self._alias(schema)} leads to no index, and {schema.name} had rows there",
                    hint="bring the index back from a snapshot; or make an empty one, let the alias lead there, and dump the table again",
                )
        self._ready.learn(dict.fromkeys(due))

    def _note_written(self, last: Head) -> None:
        if self._position.state.detail is None:
            there = self._indices.there(map(self._alias, ours(last.schemas).values()))
            names = {alias: index.name for alias, index in there.items()}
            self._position.change(WrittenBatch(last.seq, names, last.manifest.id))

    def _carry_out(self, last: Head, changes: IndexChanges) -> None:
        written = self._position.state.detail
        assert written is not None, "it is noted"
        self._ready.forget()
        IndexDdlRunner(self._indices, written.there, Seq(last.seq + 1), self._position.check).carry_out(changes)
        if self._settings.refresh == "accept":
            self._refresh(ours(last.next_schemas).keys())

    def _make_arrived(self, last: Head) -> None:
        """Empty indices, where the operator has made none."""
        schemas = arrived(last)
        there = self._indices.there(map(self._alias, schemas))
        for schema in schemas:
            if self._alias(schema) not in there:
                self._position.check()
                self._indices.make(self._alias(schema), schema, last.seq + 1)

    def _refresh(self, tables: Iterable[TableName]) -> None:
        """Searches return what was written from here on."""
        names = sorted(self._settings.names.alias(table) for table in tables)
        for start in range(0, len(names), 20):
            path = ",".join(quote(name, safe="") for name in names[start : start + 20])
            self._session.asked("making rows visible", "POST", f"/{path}/_refresh", params={"ignore_unavailable": "true"})

    def _alias(self, schema: TableSchema) -> str:
        return self._settings.names.alias(schema.name)


def _leaves(uri: SinkUri) -> str:
    index = uri.parameters.get("position-index", POSITION_INDEX)
    return f"DELETE /{index}: it holds the position, for a sink that is not to continue"


def _open(uri: SinkUri) -> OpenSearchSink:
    return OpenSearchSink(settings_of(uri), log_id=uri.log_id)


def _target(uri: SinkUri) -> Callable[[TableName], str]:
    return settings_of(uri).names.alias


OPENSEARCH = SinkKind(_open, PARAMETERS, holds_rows, misfits, leaves=_leaves, target=_target)
