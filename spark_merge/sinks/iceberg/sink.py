"""The Iceberg sink: of the hidden kind, a change log a table (codecs/encode/typed.py says what a row is), or the table as it is (merge.py).

    open → plan (tables that are new are made) → files, in tasks → the position is still ours → a commit a table → the position

- Rows are seen when their table's commit is made; those of other tables in the same segments come before or after it. The position is the
  last: what it says is accepted, all tables have.
- The order of a log's rows is in them: `_commit_ts`, deletes first, `_ordinal`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

import pyarrow as pa

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import MARK_TABLE, TableName, TableSchema, lowered
from spark_merge.ddl.routes import check_apart
from spark_merge.merge.cut import LIVE_PART_ROWS, spread, units
from spark_merge.port.contract import Accepted, Batch, Head, Outcome, Standing, Task
from spark_merge.port.kinds import SinkKind, SinkUri
from spark_merge.port.readable import Reading
from spark_merge.sinks.iceberg.ddl import check_parted
from spark_merge.sinks.iceberg.lake import Lake
from spark_merge.sinks.iceberg.merge import MergeMode
from spark_merge.sinks.iceberg.merge_writer import MergeWriter
from spark_merge.sinks.iceberg.modes import AppendMode
from spark_merge.sinks.iceberg.position import ANOTHER_NAMESPACE, RecordPositions
from spark_merge.sinks.iceberg.reading import IcebergReader
from spark_merge.sinks.iceberg.tables import LakeTables
from spark_merge.sinks.iceberg.types import iceberg_schema
from spark_merge.sinks.iceberg.uri import PARAMETERS, RECORD, IcebergSettings, settings_of
from spark_merge.sinks.iceberg.writer import IcebergWriter, LakeFile
from spark_merge.sinks.kit.position import PositionKeeper
from spark_merge.sinks.kit.table_ddl import check_key

CHUNK_PARTS = 16
"""A large dump keeps that many cores busy; each has a file of a segment and table."""


class IcebergSink:
    finds_keys = False

    def __init__(self, settings: IcebergSettings, *, log_id: str) -> None:
        self.gather_s = settings.commit_s
        self._lake, self._log_id = Lake(settings), log_id
        self._record = RecordPositions(self._lake)
        self._position = PositionKeeper(self._record, log_id=log_id, remedy=ANOTHER_NAMESPACE)
        self._merges = settings.mode == "merge"
        mode = MergeMode(settings) if self._merges else AppendMode(settings)
        self._tables = LakeTables(self._lake, mode, log_id=log_id)

    def look(self) -> Accepted | None:
        return self._position.look()

    def open(self, *, epoch: int | None) -> Standing:
        state = self._position.open(epoch)
        self._tables.opened(state.owner, self._record.tables())
        return Standing(state.owner, state.accepted)

    def check_places(self, names: Collection[TableName], before: Collection[TableName]) -> None:
        """`KeepsTables.check_places`. A catalog may compare names without case."""
        settings = self._lake.settings
        check_apart(names, before, lambda target: [tuple(map(lowered, settings.identifier_of(target, target)))], routes=settings.routes)

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:
        targets = self._tables.targets(heads)
        results = units(heads, chunk_parts=CHUNK_PARTS, live_part_rows=LIVE_PART_ROWS)
        tasks = tuple(Task(str(number), group) for number, group in enumerate(spread(results, heads, cores=cores)))
        writer = MergeWriter if self._merges else IcebergWriter
        return Batch(tuple(heads), (tasks,), writer(targets, self._position.state.owner))

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        first, last = batch.heads[0], batch.heads[-1]
        self._position.check_next(first.seq)
        self._position.check()
        files: defaultdict[TableName, list[LakeFile]] = defaultdict(list)
        for outcome in outcomes:
            for written in outcome.note:
                files[written.table].append(written)
        begun = self._tables.bring(last, files)
        new = sorted(files.keys() - self._tables.known)
        rows = [("table", DdlRecord(last.upto_ts, *name, ".".join(self._lake.settings.identifier(name)))) for name in new]
        rows += [("begun", DdlRecord(last.upto_ts, *name, "")) for name in sorted(begun & (self._tables.known | files.keys()))]
        rows += [("ddl", ddl) for ddl in last.ddls if TableName(ddl.schema, ddl.table) != MARK_TABLE]
        self._position.accept(Accepted.of(last.manifest), first=first.seq, payload=rows)
        self._tables.known |= set(new)
        self._tables.known -= begun

    def reading(self, schema: TableSchema, *, parts: int, keys: pa.Table | None = None) -> Reading:
        """`Readable.reading`."""
        return IcebergReader(self._lake, self._log_id, self.look()).reading(schema, parts=parts, keys=keys)

    def close(self) -> None:
        self._lake.close()


def _misfits(uri: SinkUri, schemas: Sequence[TableSchema]) -> Iterable[tuple[str, str]]:
    settings = settings_of(uri)
    for schema in schemas:
        try:
            settings.identifier(schema.name)
            spec = settings.partitions.spec(schema, settings.mode)
            if settings.mode == "merge" and schema.key:
                check_key(schema, "an equality delete")
                check_parted(spec, iceberg_schema(schema, "merge"), schema)
        except SinkError as error:
            yield error.message, error.hint


def _leaves(uri: SinkUri) -> str:
    settings = settings_of(uri)
    return f"DROP TABLE {'.'.join(settings.namespace)}.{RECORD}: it holds the position, for a sink that is not to continue"


def _open(uri: SinkUri) -> IcebergSink:
    return IcebergSink(settings_of(uri), log_id=uri.log_id)


ICEBERG = SinkKind(_open, PARAMETERS, misfits=_misfits, leaves=_leaves)
