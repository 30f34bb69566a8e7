"""Reading a storage sink's rows back (spark_merge/port/readable.py): the files of a table's folders, up to the last commit.

    schema files of all tables ─► DDLs ─► eras ─► folders of each name that the table had ─► files, each of one version, so of one era

- A file that came after the position is not read, and one that is missing is an error: its folder's numbers have a gap, or do not reach the
  one that the index or the position names. Where somebody removed a whole folder, its rows are missing and nothing here can say so.
- csv has a version's columns and types in its schema file. canal-json is read by the present types.
- The files do not say which rows are a dump's. They need not: a dump has no row of a key that changed up to its row's commit_ts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sidecar.shared.errors import FeedError, SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Column, CommitTs, TableName, TableSchema
from spark_merge.ddl.eras import Era, era_of, eras
from spark_merge.port.contract import Accepted
from spark_merge.port.readable import Reading, RowsRead
from spark_merge.sinks.formats.csv_lines import check_form, csv_rows
from spark_merge.sinks.formats.messages import form_of, message_file_rows
from spark_merge.sinks.kit.row_versions import dealt
from spark_merge.sinks.storage.layout import OURS, StoragePlace
from spark_merge.sinks.storage.names import Last, StorageNames
from spark_merge.sinks.storage.options import StorageOptions
from spark_merge.sinks.storage.schema_file import column_of

_SCHEMA_FILE = re.compile(r"meta/schema_(\d+)_\d{10}\.json")
_DATA_FILE = re.compile(r"(?P<folder>(?P<version>\d+)(?:/.+)?)/CDC(?P<number>\d+)\.(?:csv|json)")
_RESTORE = "restore the folder, or deliver to a new one and dump again: an output that others shorten cannot be compared"


class StoredOutput(NamedTuple):
    """`names`: as of the position."""

    folder: Folder
    options: StorageOptions
    names: StorageNames


@dataclass(frozen=True, slots=True)
class StoredFile:
    """`columns`: of csv, as its version's schema file has them."""

    path: str
    era: Era
    columns: tuple[Column, ...]


def read_back(output: StoredOutput, accepted: Accepted, schema: TableSchema, *, parts: int) -> Reading:
    """Raises SinkError."""
    if output.options.json is None:
        check_form(output.options.csv)
    schema_files = _schema_files(output.folder)
    table_eras = eras(schema, [one.ddl(name) for (name, _), one in schema_files.items()])
    files: list[StoredFile] = []
    for name in dict.fromkeys(name for name, _ in schema_files if any(era.name.folded() == name.folded() for era in table_eras)):
        for folder in _folders(output, name):
            if (era := era_of(table_eras, name, folder.version + 1)) is not None:
                columns = schema_files[name, folder.version].columns
                files += [StoredFile(f"{name.schema}/{name.table}/{path}", era, columns) for path in folder.checked(output, name)]
    for file in files:
        file.era.check()
    groups = dealt(files, lambda _: 1, parts)
    read = tuple(StoragePart(output.folder, output.options, group) for group in groups)
    return Reading(accepted, True, read, form_of(schema.columns, output.options.csv.zone.key))


# ---- what is there ------------------------------------------------------------------------------------------------------


class _ReportedVersion(NamedTuple):
    version: int
    query: str
    columns: tuple[Column, ...]

    def ddl(self, name: TableName) -> DdlRecord:
        return DdlRecord(CommitTs(self.version), name.schema, name.table, self.query)


def _schema_files(folder: Folder) -> Mapping[tuple[TableName, int], _ReportedVersion]:
    """By table (empty: the schema's own) and version."""
    schemas = [name for name in storage.list_folders(folder) if name != OURS]
    tables = [
        TableName(schema, table) for schema in schemas for table in ("", *storage.list_folders(folder, under=schema)) if table != "meta"
    ]
    paths = {
        f"{_path(name)}/meta/{file}": name
        for name in tables
        for file in storage.list_names(folder, under=f"{_path(name)}/meta", deep=False)
    }
    texts = storage.read_files(folder, paths)
    schema_files = {}
    for path, text in texts.items():
        if (named := _SCHEMA_FILE.fullmatch("/".join(path.split("/")[-2:]))) is not None:
            schema_files[paths[path], int(named[1])] = _version_of(text, int(named[1]), f"{folder}/{path}")
    return schema_files


def _version_of(text: bytes, version: int, place: str) -> _ReportedVersion:
    try:
        content = json.loads(text)
        return _ReportedVersion(version, str(content["Query"]), tuple(map(column_of, content["TableColumns"] or ())))
    except (ValueError, KeyError, TypeError) as error:
        raise SinkError(f"{place} is no schema file: {error!r}", hint=_RESTORE) from error


class _DataFolder(NamedTuple):
    """`files`: by number, the path below the table's folder."""

    version: int
    partition: int
    date: str
    path: str
    files: Mapping[int, str]

    def checked(self, output: StoredOutput, name: TableName) -> Sequence[str]:
        """Those up to the position. Raises SinkError for one that is not there."""
        last = output.names.lasts.get(StoragePlace(name, self.partition))
        count = self._count(output, name, last)
        if missing := [number for number in range(1, count + 1) if number not in self.files]:
            raise SinkError(
                f"{output.folder}/{_path(name)}/{self.path} lacks file {missing[0]} of {count}: somebody has removed it", hint=_RESTORE
            )
        return [self.files[number] for number in range(1, count + 1)]

    def _count(self, output: StoredOutput, name: TableName, last: Last | None) -> int:
        if last is not None and (last.version, last.date) <= (self.version, self.date):
            return last.number if (last.version, last.date) == (self.version, self.date) else 0
        if last is None and name in output.names.versions:
            return 0
        index = f"{_path(name)}/{self.path}/meta/CDC.index"
        named = storage.read_files(output.folder, [index]).get(index, b"")
        digits = re.search(rb"CDC(\d+)\.", named)
        return max([*self.files, int(digits[1]) if digits else 0])


def _folders(output: StoredOutput, name: TableName) -> list[_DataFolder]:
    names = storage.list_names(output.folder, under=_path(name), deep=True)
    by_folder: dict[str, dict[int, str]] = {}
    for path in names:
        if (match := _DATA_FILE.fullmatch(path)) is not None:
            by_folder.setdefault(match["folder"], {})[int(match["number"])] = path
        elif path.endswith("/meta/CDC.index"):
            by_folder.setdefault(path.removesuffix("/meta/CDC.index"), {})
    return [_data_folder(path, files, dated=bool(output.options.date)) for path, files in sorted(by_folder.items())]


def _data_folder(path: str, files: Mapping[int, str], *, dated: bool) -> _DataFolder:
    version, *rest = path.split("/")
    date = rest.pop() if dated else ""
    return _DataFolder(int(version), int(rest[0]) if rest else 0, date, path, files)


def _path(name: TableName) -> str:
    return "/".join(part for part in name if part)


# ---- in tasks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoragePart:
    folder: Folder
    options: StorageOptions
    files: tuple[StoredFile, ...]

    def __call__(self) -> Iterator[RowsRead]:
        for file in self.files:
            place = f"{self.folder}/{file.path}"
            try:
                with storage.open_to_read(self.folder, file.path) as data:
                    if self.options.json is None:
                        yield from csv_rows(data, file.era, file.columns, self.options.csv)
                    else:
                        zone, end = self.options.csv.zone.key, self.options.csv.terminator.encode()
                        yield from message_file_rows(data, file.era, protocol=self.options.protocol, time_zone=zone, end=end)
            except (FeedError, SinkError) as error:
                raise SinkError(f"{place}: {error.message}", hint=error.hint) from error
