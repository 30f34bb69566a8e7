"""The Iceberg tables that have rows, for the sink over them (sinks/lake): what tasks write for them, and the commit by which a batch's
files are seen in one.

    a table's properties   ticdc-dump.log, .owner, .seq, .upto-ts, .manifest: as of position.py, of the last batch that it has rows of

- An earlier owner that is frozen within `accept` may commit a table after another has opened the output: these rows are in the log under
  the same segments, and the next owner sees them in the table. What it names was not swept: a table's files of earlier owners are
  removed after a commit of ours, on which none of theirs can follow.
- The columns change in the commit that brings the segment of the DDL: what comes after it has the new ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from pyiceberg.table import Table

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import FIRST_SEQ, MARK_TABLE, Seq, TableName, TableSchema
from spark_merge.port.contract import Accepted, Head, Owner
from spark_merge.port.maintained import FileTotals
from spark_merge.sinks.folder.layout import table_folder
from spark_merge.sinks.folder.output import strays
from spark_merge.sinks.iceberg.evolution import ICEBERG, evolved
from spark_merge.sinks.iceberg.lake import Lake, outpaced
from spark_merge.sinks.iceberg.modes import TableBatch, TableMode
from spark_merge.sinks.iceberg.partitions import check_stays, check_writable
from spark_merge.sinks.iceberg.position import RecordPositions, RecordRows, Standings, data_location, standing_of, version_of
from spark_merge.sinks.iceberg.types import iceberg_schema
from spark_merge.sinks.iceberg.writer import LakeFile, LakeTarget
from spark_merge.sinks.kit.held import missing
from spark_merge.sinks.kit.position import OutputState
from spark_merge.sinks.lake.ddl import LakeAltered
from spark_merge.sinks.lake.lake_sink import TableShare
from spark_merge.sinks.lake.steps import at_its_end

_METRICS = "write.metadata.metrics."


class IcebergTables:
    """`mode`: what is done in the way of `append` or `merge`."""

    rules, rows_first, at_once_max = ICEBERG, False, 1

    def __init__(self, lake: Lake, record: RecordPositions, mode: TableMode, *, log_id: str) -> None:
        self._lake, self._record, self._mode, self._log_id = lake, record, mode, log_id
        self._owner = Owner(-1, 0)
        self._known: set[TableName] = set()
        """That have got rows in what is accepted."""
        self._swept: set[TableName] = set()
        self.totals: dict[TableName, FileTotals] = {}

    def opened(self, state: OutputState[None]) -> None:
        self._owner, self._known = state.owner, self._record.tables()
        self._swept.clear()

    def close(self) -> None:
        self._lake.close()

    # ---- before the tasks ---------------------------------------------------------------------------------------------

    def target(self, schema: TableSchema, last: Head) -> LakeTarget:
        """Raises SinkError for a table that is not ours, or that somebody dropped or altered."""
        table = self._ready(schema, last)
        check_writable(table)
        self._mode.check_parted(table, schema)
        location = data_location(table)
        return LakeTarget(
            version=version_of(table),
            location=location,
            folder=self._lake.settings.folder(location),
            schema=table.schema().model_dump_json(),
            metrics={key: value for key, value in table.properties.items() if key.startswith(_METRICS)},
            spec=table.spec().model_dump_json(),
            due=due_of(self._standing(table)),
            merges=self._mode.merges(table),
        )

    def _ready(self, schema: TableSchema, last: Head) -> Table:
        """The table with these columns, or one that has all of these segments already, and perhaps the columns after them."""
        name, mode = self._lake.settings.identifier(schema.name), self._mode.name

        def look() -> Table:
            table = self._lake.table(name)
            if table is None:
                self._check_new(schema.name)
                spec = self._lake.settings.partitions.spec(schema, mode)
                nobodys = Standings(self._log_id, mode).properties()
                table = self._lake.make(name, iceberg_schema(schema, mode), nobodys, self._folder(schema.name), spec)
            return table

        def step(table: Table) -> Table | None:
            due = due_of(self._standing(table))
            if due > last.seq:
                return table
            try:
                result = evolved(table.schema(), table.metadata.last_column_id, schema, {}, again=due == FIRST_SEQ, mode=mode)
            except SinkError as error:
                raise _altered(table, schema) from error
            if result is not None and due != FIRST_SEQ:
                raise _altered(table, schema)
            change = self._mode.beginning(table, result, Standings(self._log_id, mode, self._owner))
            if change is None:
                return table
            if result is not None:
                check_stays(table, result, mode)
            self._lake.retried(partial(self._lake.commit, table, change), doing=f"beginning {'.'.join(name)}")
            return None

        return at_its_end(look, step, outpaced(name))

    def _check_new(self, name: TableName) -> None:
        if name in self._known:
            raise SinkError(
                f"{'.'.join(self._lake.settings.identifier(name))} is gone, which has got rows of {name}: made again, it would lack them",
                hint="register it again at the catalog, or deliver to a new namespace and dump again",
            )

    def _folder(self, name: TableName) -> str:
        settings = self._lake.settings
        return f"{'/'.join(settings.namespace)}/{table_folder(settings.routes.target(name))}"

    # ---- when the tasks are done ----------------------------------------------------------------------------------------

    def bring(self, share: TableShare[LakeTarget]) -> LakeTarget | None:
        name = self._lake.settings.identifier(share.name)
        look, step = partial(self._lake.table, name), partial(self._step, share)
        due, merges = self._lake.retried(partial(at_its_end, look, step, outpaced(name)), doing=f"committing {'.'.join(name)}")
        return None if share.target is None else replace(share.target, due=due, merges=share.target.merges if merges is None else merges)

    def _step(self, share: TableShare[LakeTarget], table: Table | None) -> tuple[Seq, bool | None]:
        """The commit. The first segment that the table has not then, and whether it merges, where that may be another matter now."""
        last = share.heads[-1]
        end = Seq(last.seq + 1)
        if table is None:
            if share.files:
                raise self._gone(share.name)
            return end, None  # a table that has had no rows
        there = self._standing(table)
        if there.owner is not None and there.owner > self._owner:
            raise OwnershipLost(
                f"{'.'.join(table.name())} has been written by a later merge worker", hint="nothing: the later one continues from here"
            )
        if (due := due_of(there)) >= end:
            return due, None
        files: Sequence[LakeFile] = missing(share.files, due, table=".".join(table.name()))
        if any(file.version != version_of(table) for file in files):
            raise SinkError(
                f"{'.'.join(table.name())} was replaced or altered while this batch was written",
                hint="nothing: the batch is done again",
            )
        first = min((file.first for file in files), default=last.seq)
        standing = Standings(self._log_id, self._mode.name, self._owner, Accepted.of(last.manifest), first)
        target = None if share.schema is None or share.target is None else (share.schema, share.target)
        change = self._mode.change(TableBatch(table, last, files, share.altered, target, standing))
        if change is None:
            return end, None
        self._lake.commit(table, change)
        self.totals[share.name] = totals_of(table)
        self._sweep(table, share.name, there.accepted)
        return end, self._mode.merges(table)

    @contextmanager
    def recorded(
        self, heads: Sequence[Head], files: Mapping[TableName, Sequence[LakeFile]], altered: Mapping[TableName, LakeAltered]
    ) -> Iterator[RecordRows]:
        """Tables with their first rows, those that begin without any, and DDLs."""
        last, new = heads[-1], sorted(files.keys() - self._known)
        begun = {name for name, one in altered.items() if one.begins}
        rows = [("table", DdlRecord(last.upto_ts, *name, ".".join(self._lake.settings.identifier(name)))) for name in new]
        rows += [("begun", DdlRecord(last.upto_ts, *name, "")) for name in sorted(begun & (self._known | files.keys()))]
        yield rows + [("ddl", ddl) for ddl in last.ddls if TableName(ddl.schema, ddl.table) != MARK_TABLE]
        self._known = self._known.union(new) - begun

    def _sweep(self, table: Table, name: TableName, before: Accepted | None) -> None:
        """Once a term: what earlier owners wrote of segments that the table had not before this commit."""
        if name in self._swept:
            return
        folder = self._lake.settings.folder(data_location(table))
        storage.remove(folder, strays(folder, None if before is None else before.seq, self._owner))
        self._swept.add(name)

    # ---- one table ------------------------------------------------------------------------------------------------------

    def _gone(self, name: TableName) -> SinkError:
        return SinkError(
            f"{'.'.join(self._lake.settings.identifier(name))} is gone while a batch was written to it",
            hint="register it again at the catalog, or deliver to a new namespace and dump again",
        )

    def _standing(self, table: Table) -> Standings:
        standings = standing_of(table, log_id=self._log_id, mode=self._mode.name)
        if standings is None:
            raise SinkError(
                f"{'.'.join(table.name())} is a table that this sink has not made, and its rows are of something else",
                hint="name another namespace, or another place for this table by routes=",
            )
        return standings


def totals_of(table: Table) -> FileTotals:
    """As the summary of its snapshot has them."""
    snapshot = table.current_snapshot()
    summary = None if snapshot is None else snapshot.summary
    files, deletes, size = (
        int((summary[f"total-{what}"] if summary else None) or 0) for what in ("data-files", "delete-files", "files-size")
    )
    return FileTotals(files + deletes, size)


def due_of(standing: Standings) -> Seq:
    """The first segment that the table has not."""
    return FIRST_SEQ if standing.accepted is None else Seq(standing.accepted.seq + 1)


def _altered(table: Table, schema: TableSchema) -> SinkError:
    return SinkError(
        f"{'.'.join(table.name())} has not the columns that this sink gave it for {schema.name}",
        hint="somebody has altered it: give it back its columns, or deliver to a new namespace and dump again",
    )
