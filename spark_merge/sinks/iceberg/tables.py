"""The tables that have rows: what tasks write for them, and the commit by which a batch's files are seen in one.

    a table's properties   ticdc-dump.log, .owner, .seq, .upto-ts, .manifest: as of position.py, of the last batch that it has rows of

- A batch that is done again, in whatever cut, brings no row twice: tasks skip the segments that a table has, and a table that has got
  some of them meanwhile takes none of the files that have those too.
- An earlier owner that is frozen within `accept` may commit a table after another has opened the output: these rows are in the log under
  the same segments, and the next owner sees them in the table. What it names was not swept: a table's files of earlier owners are
  removed after a commit of ours, on which none of theirs can follow.
- The columns change in the commit that brings the segment of the DDL: what comes after it has the new ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from pyiceberg.table import Table

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.log import storage
from sidecar.shared.model.nouns import FIRST_SEQ, Seq, TableName, TableSchema
from spark_merge.merge.cut import tables_with_rows
from spark_merge.port.contract import Accepted, Head, Owner
from spark_merge.sinks.folder.layout import table_folder
from spark_merge.sinks.folder.output import strays
from spark_merge.sinks.iceberg.ddl import LakeAltered
from spark_merge.sinks.iceberg.evolution import evolved, same_columns
from spark_merge.sinks.iceberg.lake import CONFLICTS_MAX, Lake, Outpaced, outpaced
from spark_merge.sinks.iceberg.modes import TableBatch, TableMode
from spark_merge.sinks.iceberg.partitions import check_stays, check_writable
from spark_merge.sinks.iceberg.position import Standings, data_location, standing_of, version_of
from spark_merge.sinks.iceberg.types import iceberg_schema
from spark_merge.sinks.iceberg.writer import LakeFile, LakeTarget
from spark_merge.sinks.kit.errors import storage_errors
from spark_merge.sinks.kit.held import missing

_METRICS = "write.metadata.metrics."


class LakeTables:
    """For one owner at a time. `mode`: what is done in the way of `append` or `merge`."""

    def __init__(self, lake: Lake, mode: TableMode, *, log_id: str) -> None:
        self._lake, self._mode, self._log_id = lake, mode, log_id
        self._owner = Owner(-1, 0)
        self.known: set[TableName] = set()
        """That have got rows in what is accepted."""
        self._targets: dict[TableName, tuple[TableSchema, LakeTarget]] = {}
        self._swept: set[TableName] = set()

    def opened(self, owner: Owner, known: set[TableName]) -> None:
        self._owner, self.known = owner, known
        self._targets.clear()
        self._swept.clear()

    # ---- before the tasks ---------------------------------------------------------------------------------------------

    def targets(self, heads: Sequence[Head]) -> dict[TableName, LakeTarget]:
        """Of the tables that have rows in these segments; those that are not there are made. Raises SinkError for one that is not ours, or
        that somebody dropped or altered."""
        return {schema.name: self._target(schema, heads[-1]) for schema in tables_with_rows(heads)}

    def _target(self, schema: TableSchema, last: Head) -> LakeTarget:
        result = self._targets.get(schema.name)
        if result is not None and (result[0] is schema or same_columns(result[0], schema)):
            return result[1]
        self._mode.check(schema)
        table = self._ready(schema, last)
        check_writable(table)
        self._mode.check_parted(table, schema)
        location = data_location(table)
        target = LakeTarget(
            version=version_of(table),
            location=location,
            folder=self._lake.settings.folder(location),
            schema=table.schema().model_dump_json(),
            metrics={key: value for key, value in table.properties.items() if key.startswith(_METRICS)},
            spec=table.spec().model_dump_json(),
            done=seq_of_table(self._standing(table)),
            merges=self._mode.merges(table),
        )
        self._targets[schema.name] = schema, target
        return target

    def _ready(self, schema: TableSchema, last: Head) -> Table:
        """The table with these columns, or one that has all of these segments already, and perhaps the columns after them."""
        name = self._lake.settings.identifier(schema.name)
        table = self._lake.table(name)
        if table is None:
            self._check_new(schema.name)
            spec = self._lake.settings.partitions.spec(schema, self._mode.name)
            nobodys = Standings(self._log_id, self._mode.name).properties()
            table = self._lake.make(name, iceberg_schema(schema, self._mode.name), nobodys, self._folder(schema.name), spec)
        for _ in range(CONFLICTS_MAX):
            done = seq_of_table(self._standing(table))
            if done is not None and done >= last.seq:
                return table
            try:
                result = evolved(table.schema(), table.metadata.last_column_id, schema, {}, again=done is None, mode=self._mode.name)
            except SinkError as error:
                raise _altered(table, schema) from error
            if result is not None and done is not None:
                raise _altered(table, schema)
            change = self._mode.beginning(table, result, Standings(self._log_id, self._mode.name, self._owner))
            if change is None:
                return table
            if result is not None:
                check_stays(table, result, self._mode.name)
            with suppress(Outpaced):  # an earlier owner made it, for columns of before
                self._lake.retried(partial(self._lake.commit, table, change), doing=f"beginning {'.'.join(name)}")
            table = self._loaded(schema.name)
        raise outpaced(name)

    def _check_new(self, name: TableName) -> None:
        if name in self.known:
            raise SinkError(
                f"{'.'.join(self._lake.settings.identifier(name))} is gone, which has got rows of {name}: made again, it would lack them",
                hint="register it again at the catalog, or deliver to a new namespace and dump again",
            )

    def _folder(self, name: TableName) -> str:
        settings = self._lake.settings
        return f"{'/'.join(settings.namespace)}/{table_folder(settings.routes.target(name))}"

    # ---- when the tasks are done ----------------------------------------------------------------------------------------

    def bring(self, last: Head, files: Mapping[TableName, Sequence[LakeFile]]) -> set[TableName]:
        """A batch that ends with `last`, a commit a table. Returns the tables that begin without rows at its end. Raises OwnershipLost,
        SinkError."""
        altered = self._mode.alterations(last)
        for name in sorted(files.keys() | altered.keys()):
            act = partial(self._bring, name, last, files.get(name, ()), altered.get(name))
            done = self._lake.retried(act, doing=f"committing {'.'.join(self._lake.settings.identifier(name))}")
            if name in self._targets:
                schema, target = self._targets[name]
                self._targets[name] = schema, replace(target, done=done)
        for one in altered.values():
            for table in filter(None, (one.before, one.after)):
                self._targets.pop(table.name, None)
        return {name for name, one in altered.items() if one.emptied and one.before is None}

    def _bring(self, name: TableName, last: Head, files: Sequence[LakeFile], altered: LakeAltered | None) -> Seq:
        """The last segment that the table has then."""
        for _ in range(CONFLICTS_MAX):
            table = self._lake.table(self._lake.settings.identifier(name))
            if table is None and not files:
                return last.seq  # a table that has had no rows
            table = table or self._loaded(name)
            there = self._standing(table)
            if there.owner is not None and there.owner > self._owner:
                raise OwnershipLost(
                    f"{'.'.join(table.name())} has been written by a later merge worker", hint="nothing: the later one continues from here"
                )
            done = seq_of_table(there)
            if done is not None and done >= last.seq:
                return done
            due = missing(files, FIRST_SEQ if done is None else Seq(done + 1), table=".".join(table.name()))
            if any(file.version != version_of(table) for file in due):
                raise SinkError(
                    f"{'.'.join(table.name())} was replaced or altered while this batch was written",
                    hint="nothing: the batch is done again",
                )
            first = min((file.first for file in due), default=last.seq)
            standing = Standings(self._log_id, self._mode.name, self._owner, Accepted.of(last.manifest), first)
            change = self._mode.change(TableBatch(table, last, due, altered, self._targets.get(name), standing))
            if change is None:
                return last.seq
            try:
                self._lake.commit(table, change)
            except Outpaced:
                continue
            if name in self._targets:
                schema, target = self._targets[name]
                self._targets[name] = schema, replace(target, merges=self._mode.merges(table))
            self._sweep(table, name, there.accepted)
            return last.seq
        raise outpaced(self._lake.settings.identifier(name))

    def _sweep(self, table: Table, name: TableName, before: Accepted | None) -> None:
        """Once a term: what earlier owners wrote of segments that the table had not before this commit."""
        if name in self._swept:
            return
        folder = self._lake.settings.folder(data_location(table))
        with storage_errors(folder):
            storage.remove(folder, strays(folder, None if before is None else before.seq, self._owner))
        self._swept.add(name)

    # ---- one table ------------------------------------------------------------------------------------------------------

    def _loaded(self, name: TableName) -> Table:
        table = self._lake.table(self._lake.settings.identifier(name))
        if table is None:
            raise SinkError(
                f"{'.'.join(self._lake.settings.identifier(name))} is gone while a batch was written to it",
                hint="register it again at the catalog, or deliver to a new namespace and dump again",
            )
        return table

    def _standing(self, table: Table) -> Standings:
        standings = standing_of(table, log_id=self._log_id, mode=self._mode.name)
        if standings is None:
            raise SinkError(
                f"{'.'.join(table.name())} is a table that this sink has not made, and its rows are of something else",
                hint="name another namespace, or another place for this table by routes=",
            )
        return standings


def seq_of_table(standing: Standings) -> Seq | None:
    return None if standing.accepted is None else standing.accepted.seq


def _altered(table: Table, schema: TableSchema) -> SinkError:
    return SinkError(
        f"{'.'.join(table.name())} has not the columns that this sink gave it for {schema.name}",
        hint="somebody has altered it: give it back its columns, or deliver to a new namespace and dump again",
    )
