"""The Delta sink: of the hidden kind, over a folder of Delta tables.

    open → the tables' statistics, once → plan (where each column goes) → files, in tasks → the tables' commits, side by side → the position

- The position, the fence and the record for all tables are the files sink's commits (folder/output.py) beside the tables.
- A worker that died between two tables' commits leaves tables of which some are a batch ahead; the batch done again brings the others there
  (table.py).
- An earlier owner that read the fence and was frozen before a table's commit may still make it: then these rows are there once. Tasks omit
  what their table had at the plan; where that has changed since, a file that has some of it fails the batch, which is done again.
- Files of an earlier owner are never swept, or such a commit would name files that are gone: `VACUUM` takes what no commit names, later
  than any worker is frozen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import pyarrow as pa

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.model.nouns import Seq, TableName, TableSchema
from sidecar.shared.process.progress import side_by_side
from spark_merge.ddl.routes import check_apart
from spark_merge.merge.cut import spread, tables_with_rows, units
from spark_merge.port.contract import Accepted, Batch, Head, Outcome, Owner, Standing, Task
from spark_merge.port.kinds import SinkKind, SinkUri
from spark_merge.port.readable import Reading
from spark_merge.sinks.delta.altering import alter
from spark_merge.sinks.delta.columns import layout_of
from spark_merge.sinks.delta.ddl import alterations
from spark_merge.sinks.delta.merge import merge
from spark_merge.sinks.delta.places import places_in, table_place
from spark_merge.sinks.delta.reading import DeltaReader
from spark_merge.sinks.delta.table import Moment, Table, columns_of
from spark_merge.sinks.delta.uri import PARAMETERS, PARAMETERS_S3, DeltaSettings, holds_rows, settings_of
from spark_merge.sinks.delta.writer import STAGED, DeltaWriter, TablePlace, WrittenFile
from spark_merge.sinks.folder.layout import CHUNK_PARTS, LIVE_PARTS, FolderIdentity, owner_of
from spark_merge.sinks.folder.output import OutputFolder, position_of, segment_of
from spark_merge.sinks.kit.errors import storage_errors
from spark_merge.sinks.kit.table_ddl import check_key, checked_effects

T = TypeVar("T")

TABLES_AT_ONCE_MAX = 8
"""Whose commits wait for the storage side by side."""

HELD_TABLES_MAX = 16
"""Whose state is held from a batch to the next one, the first ones of this owner: each has the list of its table's files."""

STATISTICS = "_statistics.json"
"""Beside the tables of an output: none of them has statistics that may be wrong (statistics.py)."""


class DeltaSink:
    finds_keys = False

    def __init__(self, settings: DeltaSettings, *, log_id: str) -> None:
        self.gather_s = settings.commit_s
        self._settings, self._log_id = settings, log_id
        identity = FolderIdentity(log_id, settings.mode, CHUNK_PARTS["parquet"], LIVE_PARTS["parquet"])
        self._output = OutputFolder(settings.folder, identity, parameter="mode")
        self._position = position_of(self._output)
        self._known: dict[TableSchema, TablePlace] = {}
        """Believed while this worker is the owner: nobody else alters the tables, and a commit looks again."""
        self._held: dict[str, Table] = {}
        """By place."""

    def look(self) -> Accepted | None:
        return self._position.look()

    def open(self, *, epoch: int | None) -> Standing:
        self._known.clear()
        self._held.clear()
        standing = self._output.swept(self._position.open(epoch))
        self._correct_statistics()
        if self._settings.mode == "merge":
            self._sweep_staged()
        return standing

    def check_places(self, names: Collection[TableName], before: Collection[TableName]) -> None:
        """`KeepsTables.check_places`."""
        check_apart(names, before, lambda target: [target.folded()], routes=self._settings.routes)

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:
        identity, settings = self._output.identity, self._settings
        places = self._places(heads)
        groups = spread(units(heads, chunk_parts=identity.chunk_parts, live_part_rows=identity.live_part_rows), heads, cores=cores)
        tasks = tuple(Task(str(number), group) for number, group in enumerate(groups))
        return Batch(tuple(heads), (tasks,), DeltaWriter(settings.folder, settings.mode, self._position.state.owner, places))

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        self._position.check_next(batch.heads[0].seq)
        self._position.check()
        files: defaultdict[TableName, list[WrittenFile]] = defaultdict(list)
        for outcome in outcomes:
            for file in outcome.note:
                files[file.table].append(file)
        moment = _moment(self._log_id, batch.heads, self._position.state.owner)
        places = self._places(batch.heads)
        brought = self._side_by_side(partial(self._bring, places[name], results, moment) for name, results in sorted(files.items()))
        for name, due in zip(sorted(files), brought, strict=True):
            self._known[batch.heads[0].schemas[name]] = _brought(places[name], due)
        last = batch.heads[-1]
        checked_effects(last, self._settings.ddl_done | self._settings.again)
        if last.ddls:
            self._known.clear()
            self._held.clear()
            if self._settings.mode == "merge":
                self._alter(last, moment)
        self._output.write_ddls(batch.heads)
        segments = [segment_of(head, []) for head in batch.heads]
        self._position.accept(Accepted.of(last.manifest), first=batch.heads[0].seq, payload=segments)
        self._forget_staged(file for results in files.values() for file in results)

    def reading(self, schema: TableSchema, *, parts: int, keys: pa.Table | None = None) -> Reading:
        """`Readable.reading`."""
        settings = self._settings
        reader = DeltaReader(settings.folder, settings.mode, settings.routes, self._log_id, self.look())
        return reader.reading(schema, parts=parts, keys=keys)

    def close(self) -> None:
        """Nothing is held."""

    def _side_by_side(self, acts: Iterable[Callable[[], T]]) -> list[T]:
        with side_by_side(TABLES_AT_ONCE_MAX) as pool:
            return [done.result() for done in [pool.submit(act) for act in acts]]

    def _bring(self, place: TablePlace, files: Sequence[WrittenFile], moment: Moment) -> Seq:
        table = self._held.get(place.place) or self._table(place.place)
        if len(self._held) < HELD_TABLES_MAX:
            self._held[place.place] = table
        if self._settings.mode == "append":
            return table.append(place.layout, files, moment)
        return merge(table, place, files, moment, self._settings.folder)

    def _alter(self, head: Head, moment: Moment) -> None:
        settings = self._settings
        results = alterations(head, settings.routes, settings.ddl_done, settings.again)
        self._side_by_side(partial(alter, self._table(self._at(one.before.name)), one, head, moment) for one in results)

    def _forget_staged(self, files: Iterable[WrittenFile]) -> None:
        staged = [file.path for file in files if file.staged]
        with storage_errors(self._settings.folder):
            storage.remove(self._settings.folder, staged)

    def _sweep_staged(self) -> None:
        """Of earlier owners: no commit names these files."""
        folder = self._settings.folder
        with storage_errors(folder):
            names = storage.list_names(replace(folder, root=folder.path(STAGED)), deep=True)
            storage.remove(folder, [f"{STAGED}/{name}" for name in names if owner_of(name) < self._position.state.owner])

    def _correct_statistics(self) -> None:
        """Once, of all tables: what an earlier version wrote may be read for long before a batch comes to it."""
        folder = self._settings.folder
        with storage_errors(folder):
            if storage.exists(folder, STATISTICS):
                return
            places = list(places_in(folder))
        self._side_by_side(self._table(place).make_exact for place in places)
        with storage_errors(folder):
            storage.write_atomically(folder, STATISTICS, b'{"exact":true}\n')

    def _table(self, place: str) -> Table:
        return Table(self._settings.folder, place)

    def _at(self, name: TableName) -> str:
        return table_place(self._settings.routes.target(name))

    def _places(self, heads: Sequence[Head]) -> dict[TableName, TablePlace]:
        """Of the tables that have rows in these segments."""
        return {schema.name: self._place(schema) for schema in tables_with_rows(heads)}

    def _place(self, schema: TableSchema) -> TablePlace:
        if (result := self._known.get(schema)) is None:
            if self._settings.mode == "merge":
                check_key(schema, "a MERGE")
            table = self._table(place := self._at(schema.name))
            there = table.load()
            layout = layout_of(schema, [] if there is None else columns_of(there), self._settings.mode)
            names = dict(zip(schema.column_names(), layout.columns, strict=True))
            key, due = tuple(names[name].name for name in schema.key), Seq(0) if there is None else table.due(there, self._log_id)
            self._known[schema] = result = TablePlace(place, layout, key, due)
        return result


def _brought(place: TablePlace, due: Seq) -> TablePlace:
    """When it has the rows before `due`: a table that is not there after that is gone."""
    return replace(place, layout=replace(place.layout, missing=()), due=due)


def _moment(log_id: str, heads: Sequence[Head], owner: Owner) -> Moment:
    return Moment(log_id, heads[0].seq, Seq(heads[-1].seq), heads[-1].upto_ts, owner)


def _open(uri: SinkUri) -> DeltaSink:
    return DeltaSink(settings_of(uri), log_id=uri.log_id)


def _misfits(uri: SinkUri, schemas: Sequence[TableSchema]) -> Iterator[tuple[str, str]]:
    mode = settings_of(uri).mode
    for schema in schemas:
        try:
            layout_of(schema, [], mode)
            if mode == "merge":
                check_key(schema, "a MERGE")
        except SinkError as error:
            yield error.message, error.hint


DELTA = SinkKind(_open, PARAMETERS, holds_rows, _misfits)
DELTA_S3 = SinkKind(_open, PARAMETERS_S3, holds_rows, _misfits)
