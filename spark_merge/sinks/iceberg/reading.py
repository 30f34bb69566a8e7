"""An Iceberg table's rows at the output's position (spark_merge/port/readable.py).

    the position P ─► the table's last snapshot that has no segment after P ─► its files, in parts ─► rows as canonical text

- Commits of a table come before the position, so a table may be a batch ahead of it. Its first snapshot that P has not is then read, with
  its own columns: those of before the schema change at its end. All tables are read at one position.
- Such a snapshot may have segments of before P, too: the worker that made it died, and the next one's batch was shorter. In `append` only
  rows of segments up to P count. In `merge` the reading is not exact then; else the snapshot before it is read.
- Columns are matched by field id, as every reader of Iceberg does: one that was renamed is the same, one that was dropped is gone.
- `append`: each row is a version. The rows of before a schema change are as spark_merge/ddl/eras.py says; the DDLs are those of
  `_ticdc_dump`.
- `merge`: hidden_rows.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import NestedField, PrimitiveType

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import CommitTs, Seq, TableName, TableSchema, lowered
from spark_merge.ddl.eras import Era, eras
from spark_merge.port.contract import Accepted
from spark_merge.port.readable import Reading
from spark_merge.sinks.formats.parquet import LogEnvelope, LogFile, LogPart
from spark_merge.sinks.formats.parquet_rows import ColumnSources, Source, WantedKeys, key_columns
from spark_merge.sinks.iceberg.hidden_rows import DeleteFile, MergedFile, MergedPart
from spark_merge.sinks.iceberg.lake import Identifier, Lake
from spark_merge.sinks.iceberg.position import PREFIX, standing_of
from spark_merge.sinks.iceberg.types import envelope_fields
from spark_merge.sinks.kit.row_versions import dealt

_SEQ, _FIRST_SEQ = f"{PREFIX}seq", f"{PREFIX}first-seq"


@dataclass(frozen=True, slots=True)
class TableThen:
    """A table at the position. `entries`: its live files. `ahead`: they have segments after it."""

    table: Table
    schema: Schema
    entries: tuple[ManifestEntry, ...]
    ahead: bool


@dataclass(frozen=True, slots=True)
class IcebergReader:
    """Of an output whose position is `accepted`."""

    lake: Lake
    log_id: str
    accepted: Accepted | None

    def reading(self, schema: TableSchema, *, parts: int, keys: pa.Table | None) -> Reading:
        """`Readable.reading`."""
        if self.accepted is None:
            return Reading(None, True, ())
        wanted = None if keys is None else WantedKeys(schema, keys)
        if self.lake.settings.mode == "append":
            groups = dealt(self._log_files(schema, wanted), attrgetter("bytes"), parts)
            return Reading(self.accepted, True, tuple(LogPart(schema, group, wanted) for group in groups))
        then = self._at_position(self.lake.settings.identifier(schema.name))
        if then is None:
            return Reading(self.accepted, True, ())
        return Reading(self.accepted, not then.ahead, self._merged_parts(schema, then, wanted, parts))

    # ---- the log of changes -------------------------------------------------------------------------------------------

    def _log_files(self, schema: TableSchema, wanted: WantedKeys | None) -> Iterator[LogFile]:
        settings = self.lake.settings
        record = self.lake.retried(self._record, doing="reading the schema changes")
        results = eras(schema, [ddl for what, ddl in record if what == "ddl"], keeps_partitions=True)
        known = {(name := TableName(ddl.schema, ddl.table)).folded(): name for what, ddl in record if what == "table"}
        names = [schema.name, *(known.get(one.name.folded(), one.name) for one in results[1:])]
        places = [settings.identifier(name) for name in names]
        for place in dict.fromkeys(places):
            then = self._at_position(place)
            if then is not None:
                own = [era for era, to in zip(results, places, strict=True) if to == place]
                yield from self._files_of_log(schema, then, own, wanted, renamed=place != places[0])

    def _files_of_log(
        self, schema: TableSchema, then: TableThen, own: Sequence[Era], wanted: WantedKeys | None, *, renamed: bool
    ) -> Iterator[LogFile]:
        """`renamed`: the table has another name by now, and columns that it had when it was renamed."""
        assert self.accepted is not None, "there are rows"
        seq, _, commit_ts, op, origin, *_ = (field.field_id for field in then.schema.fields)
        envelope, upto = LogEnvelope(commit_ts, op, origin), (seq, self.accepted.seq) if then.ahead else None
        known = [(era, _sources_of_log(then, era, renamed=renamed)) for era in own]
        key = key_columns(schema, [one for _, one in known])
        for entry in then.entries:
            file = entry.data_file
            if file.content != DataFileContent.DATA:
                raise _not_ours(then.table, "delete files")
            first, last = _bounds(then.schema, file, commit_ts)
            met = tuple(one for one in known if first is None or last is None or one[0].meets(first, last))
            if met and _may_have(then.schema, file, wanted, key):
                yield LogFile(*self._place(file), envelope, met, upto)

    def _record(self) -> list[tuple[str, DdlRecord]]:
        """What is in the record up to the position, in order: what, and names and text."""
        assert self.accepted is not None, "there are rows"
        table = self.lake.table(self.lake.settings.record)
        rows = [] if table is None else table.scan().to_arrow().to_pylist()
        results = sorted((row for row in rows if row["seq"] <= self.accepted.seq), key=itemgetter("seq"))
        return [(row["what"], DdlRecord(CommitTs(row["commit_ts"]), row["schema"], row["table"], row["query"])) for row in results]

    # ---- tables as they are ---------------------------------------------------------------------------------------------

    def _merged_parts(self, schema: TableSchema, then: TableThen, wanted: WantedKeys | None, parts: int) -> tuple[MergedPart, ...]:
        sources = _sources(schema, then, "merge")
        key = key_columns(schema, [sources])
        data, deletes = list[MergedFile](), list[DeleteFile]()
        for entry in then.entries:
            file, number = entry.data_file, int(entry.sequence_number or 0)
            if file.content == DataFileContent.DATA:
                if _may_have(then.schema, file, wanted, key):
                    data.append(MergedFile(*self._place(file), file.file_path, number))
            elif file.content == DataFileContent.EQUALITY_DELETES:
                names = _key_names(schema, then, file.equality_ids or [])
                deletes.append(DeleteFile(*self._place(file), number, tuple(file.equality_ids or ()), names))
            else:
                deletes.append(DeleteFile(*self._place(file), number))
        return tuple(MergedPart(schema, group, tuple(deletes), sources, wanted) for group in dealt(data, attrgetter("bytes"), parts))

    # ---- a table --------------------------------------------------------------------------------------------------------

    def _place(self, file: DataFile) -> tuple[Folder, str, int]:
        folder, _, name = file.file_path.rpartition("/")
        return self.lake.settings.folder(folder), name, file.file_size_in_bytes

    def _at_position(self, place: Identifier) -> TableThen | None:
        table = self.lake.table(place)
        if table is None:
            return None
        assert self.accepted is not None, "there are rows"
        standing = standing_of(table, log_id=self.log_id, mode=self.lake.settings.mode)
        if standing is None:
            raise _not_ours(table, "rows of something else")
        ahead = standing.accepted is not None and standing.accepted.seq > self.accepted.seq
        snapshot, schema = table.current_snapshot(), table.schema()
        if ahead:
            first = _first_ahead(table, self.accepted.seq)
            schemas = {one.schema_id: one for one in table.metadata.schemas}
            schema = schemas[first.schema_id] if first.schema_id is not None else schema
            ahead = self.lake.settings.mode == "append" or _has_earlier(first, self.accepted.seq)
            snapshot = first if ahead else table.metadata.snapshot_by_id(first.parent_snapshot_id or -1)
        if snapshot is None:
            return None

        def entries() -> tuple[ManifestEntry, ...]:
            return tuple(entry for manifest in snapshot.manifests(table.io) for entry in manifest.fetch_manifest_entry(table.io))

        return TableThen(table, schema, self.lake.retried(entries, doing=f"reading {'.'.join(place)}"), ahead)


def _first_ahead(table: Table, seq: Seq) -> Any:
    """The first snapshot that has segments after `seq`."""
    first = table.current_snapshot()
    assert first is not None, "the table is ahead"
    while first.parent_snapshot_id is not None:
        parent = table.metadata.snapshot_by_id(first.parent_snapshot_id)
        if parent is None:
            raise SinkError(
                f"{'.'.join(table.name())} is a batch ahead of the output's position, and its snapshot of before is gone",
                hint="read again when the batch is accepted; keep the snapshots of an hour, at least, when you expire them",
            )
        if _seq_of(parent) <= seq and not _is_ahead(table, parent, seq):
            break
        first = parent
    return first


def _has_earlier(snapshot: Any, seq: Seq) -> bool:
    """Whether rows of segments up to `seq` came with it; also where it is of a version that did not say."""
    reported = snapshot.summary[_FIRST_SEQ] if snapshot.summary is not None else None
    return reported is None or int(reported) <= seq


def _is_ahead(table: Table, snapshot: Any, seq: Seq) -> bool:
    """A snapshot of somebody else has what its parent has."""
    while snapshot is not None and _seq_of(snapshot) < 0 and snapshot.parent_snapshot_id is not None:
        snapshot = table.metadata.snapshot_by_id(snapshot.parent_snapshot_id)
    return snapshot is not None and _seq_of(snapshot) > seq


def _seq_of(snapshot: Any) -> int:
    reported = snapshot.summary[_SEQ] if snapshot.summary is not None else None
    return int(reported) if reported else -1


def _not_ours(table: Table, has: str) -> SinkError:
    return SinkError(
        f"{'.'.join(table.name())} has {has}, which this sink has not written",
        hint="somebody else has written to it: restore it, or deliver to a new namespace and dump again",
    )


# ---- columns ------------------------------------------------------------------------------------------------------------


def _sources(schema: TableSchema, then: TableThen, mode: Any) -> ColumnSources:
    """By field id. `_untyped` of a row has the name that the column had when it was written: the file's, or, of a file that somebody else
    has written, one that no other column has had."""
    fields = _own_fields(then.schema, mode)
    had: dict[str, set[int]] = {}
    for known in then.table.metadata.schemas:
        for field in known.fields:
            had.setdefault(lowered(field.name), set()).add(field.field_id)
    results = [fields.get(lowered(name)) for name in schema.column_names()]
    names = tuple(tuple(one for one, ids in had.items() if field is not None and ids == {field.field_id}) for field in results)
    return ColumnSources(tuple(() if field is None else (field.field_id,) for field in results), names, _untyped(then.schema, mode))


def _sources_of_log(then: TableThen, era: Era, *, renamed: bool) -> ColumnSources:
    fields = _own_fields(then.schema, "append")
    columns: list[tuple[Source, ...]] = []
    for one in era.columns:
        field = None if one.name is None else fields.get(lowered(one.name if renamed else one.column.name))
        columns.append(() if field is None else (field.field_id,))
    written = tuple(() if one.name is None else (one.name,) for one in era.columns)
    return ColumnSources(tuple(columns), written, _untyped(then.schema, "append"))


def _own_fields(schema: Schema, mode: Any) -> Mapping[str, NestedField]:
    return {lowered(field.name): field for field in schema.fields[envelope_fields(mode) :]}


def _untyped(schema: Schema, mode: Any) -> int:
    return schema.fields[envelope_fields(mode) - 1].field_id


def _key_names(schema: TableSchema, then: TableThen, ids: Sequence[int]) -> tuple[str, ...]:
    """The columns of a file of keys. Raises SinkError for one that the table has not."""
    known = {lowered(name): name for name in schema.column_names()}
    by_id = {field.field_id: known.get(lowered(field.name)) for field in then.schema.fields}
    names = [name for one in ids if (name := by_id.get(one)) is not None]
    if len(names) != len(ids):
        raise _not_ours(then.table, "deletes by columns that it does not have")
    return tuple(names)


# ---- files --------------------------------------------------------------------------------------------------------------


def _may_have(schema: Schema, file: DataFile, wanted: WantedKeys | None, key: Mapping[str, Source]) -> bool:
    return wanted is None or all(wanted.meet(name, *_bounds(schema, file, source)) for name, source in key.items())


def _bounds(schema: Schema, file: DataFile, source: Source) -> tuple[Any, Any]:
    """The least and the greatest value, None where they are not known. A text may be cut short: at its end the least one; the greatest one
    is then not less than all."""
    field = next(one for one in schema.fields if one.field_id == source)
    if not isinstance(field.field_type, PrimitiveType):
        return None, None
    least, most = ((reported or {}).get(field.field_id) for reported in (file.lower_bounds, file.upper_bounds))
    return tuple(None if bound is None else from_bytes(field.field_type, bound) for bound in (least, most))  # type: ignore[return-value]
