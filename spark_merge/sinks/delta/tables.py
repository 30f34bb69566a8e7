"""The Delta tables of an output, for the sink over them (sinks/lake), and the record of all: the files sink's commits (folder/output.py).

- Files of an earlier owner are never swept, or a commit that it makes late would name files that are gone: `VACUUM` takes what no
  commit names, later than any worker is frozen.
- An earlier owner that read the fence and was frozen before a table's commit may still make it: then these rows are there once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sidecar.shared.log import storage
from sidecar.shared.model.nouns import Seq, TableName, TableSchema
from sidecar.shared.process.progress import side_by_side
from spark_merge.port.contract import Head, Owner
from spark_merge.port.maintained import FileTotals
from spark_merge.sinks.delta.columns import layout_of
from spark_merge.sinks.delta.ddl import DELTA, alter
from spark_merge.sinks.delta.merge import merge
from spark_merge.sinks.delta.places import places_in
from spark_merge.sinks.delta.table import Moment, Table, columns_of
from spark_merge.sinks.delta.uri import DeltaSettings
from spark_merge.sinks.delta.writer import STAGED, TablePlace, WrittenFile
from spark_merge.sinks.folder.layout import DeliveredSegment, owner_of
from spark_merge.sinks.folder.output import OutputFolder, segment_of
from spark_merge.sinks.kit.position import OutputState
from spark_merge.sinks.lake.ddl import LakeAltered
from spark_merge.sinks.lake.lake_sink import TableShare

HELD_TABLES_MAX = 16
"""Whose state is held from a batch to the next one, the first ones since a DDL: each has the list of its table's files."""

STATISTICS = "_statistics.json"
"""Beside the tables of an output: none of them has statistics that may be wrong (statistics.py)."""


class DeltaTables:
    rules, rows_first = DELTA, True
    at_once_max = 8
    """Whose commits wait for the storage side by side."""

    def __init__(self, settings: DeltaSettings, output: OutputFolder) -> None:
        self._settings, self._output, self._log_id = settings, output, output.identity.log_id
        self._owner = Owner(-1, 0)
        self._held: dict[str, Table] = {}
        """By place."""
        self.totals: dict[TableName, FileTotals] = {}

    def opened(self, state: OutputState[None]) -> None:
        self._owner = state.owner
        self._held.clear()
        self._output.swept(state)
        self._correct_statistics()
        if self._settings.mode == "merge":
            self._sweep_staged()

    def target(self, schema: TableSchema, last: Head) -> TablePlace:  # noqa: ARG002 - the table is made with its first rows
        table = self._table(place := self._settings.place(schema.name))
        there = table.load()
        layout = layout_of(schema, [] if there is None else columns_of(there), self._settings.mode)
        names = dict(zip(schema.column_names(), layout.columns, strict=True))
        key, due = tuple(names[name].name for name in schema.key), Seq(0) if there is None else table.due(there, self._log_id)
        return TablePlace(place, layout, key, due)

    def bring(self, share: TableShare[TablePlace]) -> TablePlace | None:
        """When it has the rows before `due`, a table that is not there after that is gone."""
        first, last, place = share.heads[0], share.heads[-1], share.target
        moment = Moment(self._log_id, first.seq, last.seq, last.upto_ts, self._owner)
        if place is not None:
            due = self._bring(place, share, moment)
            place = replace(place, layout=replace(place.layout, missing=()), due=due)
        if share.altered is not None and self._settings.mode == "merge":  # a log's columns come with its next rows
            alter(self._table(self._settings.place(share.name)), share.altered, last, moment)
        return place

    @contextmanager
    def recorded(
        self, heads: Sequence[Head], files: Mapping[TableName, Sequence[WrittenFile]], _: Mapping[TableName, LakeAltered]
    ) -> Iterator[Sequence[DeliveredSegment]]:
        if heads[-1].ddls:
            self._held.clear()
        self._output.write_ddls(heads)
        yield [segment_of(head, []) for head in heads]
        storage.remove(self._settings.folder, [one.path for written in files.values() for one in written if one.staged])

    def close(self) -> None:
        """Nothing is held."""

    def _bring(self, place: TablePlace, share: TableShare[TablePlace], moment: Moment) -> Seq:
        table = self._held.get(place.place) or self._table(place.place)
        if len(self._held) < HELD_TABLES_MAX:
            self._held[place.place] = table
        try:
            if self._settings.mode == "append":
                return table.append(place.layout, share.files, moment)
            return merge(table, place, share.files, moment, self._settings.folder)
        finally:
            self.totals[share.name] = table.totals

    def _sweep_staged(self) -> None:
        """Of earlier owners: no commit names these files."""
        folder = self._settings.folder
        names = storage.list_names(folder, under=STAGED, deep=True)
        storage.remove(folder, [f"{STAGED}/{name}" for name in names if owner_of(name) < self._owner])

    def _correct_statistics(self) -> None:
        """Once, of all tables: what an earlier version wrote may be read for long before a batch comes to it."""
        folder = self._settings.folder
        if storage.exists(folder, STATISTICS):
            return
        places = list(places_in(folder))
        with side_by_side(self.at_once_max) as pool:
            list(pool.map(lambda place: self._table(place).make_exact(), places))
        storage.write_atomically(folder, STATISTICS, b'{"exact":true}\n')

    def _table(self, place: str) -> Table:
        return Table(self._settings.folder, place)
