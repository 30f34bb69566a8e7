"""Under which names what was staged appears, and which schema files go with it: a function of what the names were before, the batch's
segments and the date.

- A table's version is the commit_ts of the DDL that made it as it is; of one that was there at the beginning, where the output begins
  (`begin_ts`, which is TiCDC's start-ts where the log begins with the changefeed).
- A DDL gives a new version to the table that it names and to each that it changed: so it is read off the tables before and after it.
- A schema file comes with the DDL that made the version, or before the version's first file.
- A table that has other columns than its last schema file says, without a DDL in the log, has a version from there on.
- Numbers begin at 1 in each folder. The date never goes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import MARK_TABLE, TableName, TableSchema
from spark_merge.codecs.encode.block import schema_of
from spark_merge.port.contract import Head
from spark_merge.sinks.storage.layout import StoragePlace, data_folder, data_name
from spark_merge.sinks.storage.options import StorageOptions
from spark_merge.sinks.storage.schema_file import SchemaFile, schema_file


class StoredVersion(NamedTuple):
    """Of a table. `checksum`: of its schema file, None before that is written."""

    version: int
    checksum: int | None


class Last(NamedTuple):
    """The last file of a table or partition: its folder's version and date, its number."""

    version: int
    date: str
    number: int


@dataclass(frozen=True, slots=True)
class StorageNames:
    """All that the next names depend on. Of a table that is not in `versions` nothing is written yet, and its version is `begin_ts`."""

    begin_ts: int = 0
    date: str = ""
    versions: Mapping[TableName, StoredVersion] = field(default_factory=dict)
    lasts: Mapping[StoragePlace, Last] = field(default_factory=dict)

    def after(self, change: NamesChange) -> StorageNames:
        versions = {**self.versions, **change.versions}
        gone = {name for name, version in change.versions.items() if version is None}
        lasts = {place: last for place, last in {**self.lasts, **change.lasts}.items() if place.table not in gone}
        kept = {name: version for name, version in versions.items() if version is not None}
        return StorageNames(change.begin_ts, change.date, kept, lasts)


@dataclass(frozen=True, slots=True)
class NamesChange:
    """What a commit makes of StorageNames. A table of which the version is None is gone."""

    begin_ts: int = 0
    date: str = ""
    versions: Mapping[TableName, StoredVersion | None] = field(default_factory=dict)
    lasts: Mapping[StoragePlace, Last] = field(default_factory=dict)


class Staged(NamedTuple):
    """A file that a task wrote; its place in the batch is that in the list."""

    place: StoragePlace
    path: str


@dataclass(frozen=True, slots=True)
class Named:
    """`before` are schema files by path, which come first; then `files`, staged and final; then `after`, the DDLs'."""

    change: NamesChange
    before: Mapping[str, str] = field(default_factory=dict)
    files: tuple[tuple[str, str], ...] = ()
    after: Mapping[str, str] = field(default_factory=dict)


def named(names: StorageNames, heads: Sequence[Head], staged: Sequence[Staged], options: StorageOptions, *, date: str) -> Named:
    """Raises SinkError for a table that cannot be described or named."""
    naming = _Naming(names, heads, options, max(date, names.date))
    files = tuple((one.path, naming.file(one.place)) for one in staged)
    for head in heads:
        if head.ddls or head.manifest.next_schemas is not None:
            naming.pass_ddls(head)
    change = NamesChange(naming.begin_ts, naming.date, naming.versions, naming.lasts)
    return Named(change, _texts(naming.before), files, _texts(naming.after))


def _texts(files: Iterable[SchemaFile]) -> dict[str, str]:
    return {one.path: one.text() for one in files}


class _Naming:
    """One batch's."""

    def __init__(self, names: StorageNames, heads: Sequence[Head], options: StorageOptions, date: str) -> None:
        self._names, self._options, self._heads = names, options, heads
        self.date = date
        self.begin_ts = names.begin_ts or max(1, heads[0].manifest.after_ts)
        self.versions: dict[TableName, StoredVersion | None] = {}
        self.lasts: dict[StoragePlace, Last] = {}
        self.before: list[SchemaFile] = []
        self.after: list[SchemaFile] = []
        self._current: dict[TableName, StoredVersion] = {}

    def file(self, place: StoragePlace) -> str:
        """The name of the next file of this place."""
        version = self._version(place.table)
        last = self.lasts.get(place) or self._names.lasts.get(place)
        goes_on = last is not None and (last.version, last.date) == (version, self.date)
        number = last.number + 1 if last is not None and goes_on else 1
        self.lasts[place] = Last(version, self.date, number)
        return f"{data_folder(place, version, self.date)}/{data_name(number, self._options.digits, self._options.ending)}"

    def _version(self, name: TableName) -> int:
        """Of the batch's rows of this table; its schema file is written, or will be before them."""
        if name not in self._current:
            version = self._names.versions.get(name, StoredVersion(self.begin_ts, None))
            schema_file = self._file(name, schema_of(self._heads[0].schemas, name), version.version)
            if version.checksum is not None and version.checksum != schema_file.checksum:
                schema_file = replace(schema_file, version=max(version.version + 1, self._heads[0].manifest.after_ts))
            if schema_file.version != version.version or version.checksum is None:
                self.before.append(schema_file)
                self.versions[name] = StoredVersion(schema_file.version, schema_file.checksum)
            self._current[name] = StoredVersion(schema_file.version, schema_file.checksum)
        return self._current[name].version

    def _file(self, name: TableName, table: TableSchema | None, version: int, ddl: DdlRecord | None = None) -> SchemaFile:
        return schema_file(name, table, version, self._options.architecture, ddl)

    # ---- DDLs --------------------------------------------------------------------------------------------------------------

    def pass_ddls(self, head: Head) -> None:
        done: set[TableName] = set()
        for ddl in head.ddls:
            if ddl.schema == MARK_TABLE.schema and ddl.table in ("", MARK_TABLE.table):
                continue
            name = _name_after(ddl, head)
            table = head.next_schemas.get(name) or head.schemas.get(name)
            self._add(name, table, ddl.commit_ts, ddl, stays=name in head.next_schemas)
            done.add(name)
        last_ts = max((ddl.commit_ts for ddl in head.ddls), default=head.upto_ts)
        for name in sorted(_changed(head) - done):
            if name in head.next_schemas:
                self._add(name, head.next_schemas[name], last_ts, None, stays=True)
            else:
                self.versions[name] = None

    def _add(self, name: TableName, table: TableSchema | None, version: int, ddl: DdlRecord | None, *, stays: bool) -> None:
        made = self._file(name, table, version, ddl)
        self.after.append(made)
        if name.table:
            self.versions[name] = StoredVersion(version, made.checksum) if stays else None


def _name_after(ddl: DdlRecord, head: Head) -> TableName:
    """As the tables spell it; of a table that is renamed the new name."""
    written_name = TableName(ddl.schema, ddl.table)
    if not ddl.table:
        return written_name
    after, before = _spelled(written_name, head.next_schemas), _spelled(written_name, head.schemas)
    if after is not None or before is None:
        return after or written_name
    same_id = [name for name, table in head.next_schemas.items() if table.table_id and table.table_id == head.schemas[before].table_id]
    return same_id[0] if same_id else before


def _spelled(written_name: TableName, schemas: Mapping[TableName, TableSchema]) -> TableName | None:
    if written_name in schemas:
        return written_name
    return next((name for name in schemas if name.folded() == written_name.folded()), None)


def _changed(head: Head) -> set[TableName]:
    """The tables with a key that are other ones after the segment, or none any more."""
    return {name for name in _with_keys(head) if _compared(head.schemas.get(name)) != _compared(head.next_schemas.get(name))}


def _with_keys(head: Head) -> Iterator[TableName]:
    for schemas in (head.schemas, head.next_schemas):
        yield from (name for name, table in schemas.items() if table.key and name != MARK_TABLE)


def _compared(table: TableSchema | None) -> object:
    """Partitions come and go amid a DDL that is yet to come, and TiCDC has no version for that."""
    return table and (table.table_id, table.columns, table.key)
