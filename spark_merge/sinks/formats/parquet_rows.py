"""Parquet files of an output as rows of its table's present schema (spark_merge/port/readable.py), for every sink that has such files.

    part ─► file ─► batch of rows ─► columns by ColumnSources ─► texts (codecs/encode/untyped.py)

A file may be one that another program wrote in place of the sink's (compaction): columns are matched by the names or ids that it has, and
values by their types. Memory: a batch, and the compressed pages of a row group.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.codecs.encode.untyped import texts
from spark_merge.log.read import batches_of
from spark_merge.port.keys import key_text
from spark_merge.port.readable import RowsRead, Versions

BATCH_ROWS_MAX = 65_536

Source: TypeAlias = "str | int"
"""A column of a file: its name, or Iceberg's field id."""

_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True)
class ColumnSources:
    """Where files have the columns of a table's schema. `columns`: of each, where its value may be; a row has it in one of them. `names`:
    what `_untyped` calls each of them, besides the names that a file has for ids."""

    columns: tuple[tuple[Source, ...], ...]
    names: tuple[tuple[str, ...], ...]
    untyped: Source

    def used(self) -> set[Source]:
        return {self.untyped, *(source for of_column in self.columns for source in of_column)}


class WantedKeys:
    """Handle keys in canonical text. Picklable."""

    def __init__(self, schema: TableSchema, keys: pa.Table) -> None:
        self._key = schema.key
        self._texts = key_text(keys.columns).combine_chunks() if keys.num_rows else pa.array([], pa.string())
        kinds = {column.name: column.kind for column in schema.columns}
        self._sorted: dict[str, list[Any]] = {}
        for name, column in zip(schema.key, keys.columns, strict=True):
            if kinds[name] in ("int", "uint", "bit", "year"):
                self._sorted[name] = sorted(map(int, column.to_pylist()))
            elif kinds[name] == "text":
                self._sorted[name] = sorted(column.to_pylist())

    def of(self, rows: pa.Table) -> pa.Table:
        """Those of the rows, which are canonical text, that have one of the keys."""
        return rows.filter(pc.is_in(key_text([rows.column(name) for name in self._key]), value_set=self._texts))

    def meet(self, column: str, least: Any, most: Any) -> bool:
        """Whether one of them may be between these values of a key's column."""
        keys = self._sorted.get(column)
        if keys is None or least is None or most is None or (isinstance(least, str) != bool(keys and isinstance(keys[0], str))):
            return True
        place = bisect_left(keys, least)
        return place < len(keys) and keys[place] <= most


# ---- a file -----------------------------------------------------------------------------------------------------------


class ParquetRows:
    """An open file."""

    def __init__(self, file: pq.ParquetFile) -> None:
        self._file = file
        self._names: dict[Source, str] = {}
        for field in file.schema_arrow:
            self._names[field.name] = field.name
            if field.metadata and _FIELD_ID in field.metadata:
                self._names[int(field.metadata[_FIELD_ID])] = field.name

    def name_of(self, source: Source) -> str | None:
        return self._names.get(source)

    def batches(self, sources: Iterable[Source], groups: Sequence[int] | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Rows with the place of the first one in the file; their columns under the file's own names. `groups`: row groups, all if None."""
        names = sorted({name for source in sources if (name := self.name_of(source)) is not None})
        yield from batches_of(self._file, columns=names, groups=groups, rows_max=BATCH_ROWS_MAX)

    def groups_with(self, wanted: WantedKeys | None, columns: Mapping[str, Source]) -> list[int] | None:
        """Row groups in which these keys may be. `columns`: where the file has columns of the key."""
        if wanted is None:
            return None
        metadata = self._file.metadata
        places = {self._file.schema.column(number).path: number for number in range(len(self._file.schema))}
        key_places = {key: places[name] for key, source in columns.items() if (name := self.name_of(source)) in places}
        return [group for group in range(metadata.num_row_groups) if _may_have(metadata.row_group(group), wanted, key_places)]


def _may_have(group: Any, wanted: WantedKeys, places: Mapping[str, int]) -> bool:
    for key, place in places.items():
        statistics = group.column(place).statistics
        if statistics is not None and statistics.has_min_max and not wanted.meet(key, statistics.min, statistics.max):
            return False
    return True


@contextmanager
def opened(folder: Folder, name: str) -> Iterator[ParquetRows]:
    """Raises SinkError, also for what reading it in the block raises."""
    place = f"{folder}/{name}"
    try:
        with storage.open_to_read(folder, name) as file:
            yield ParquetRows(pq.ParquetFile(file, coerce_int96_timestamp_unit="us"))
    except SinkError as error:
        if isinstance(error.__cause__, storage.Absent):
            raise SinkError(
                f"{place} is gone since the reading began: somebody removed files of earlier versions (VACUUM, expire_snapshots)",
                hint="read again; keep the versions of a day, at least, when you remove files",
            ) from error
        raise
    except pa.ArrowInvalid as error:
        raise SinkError(f"{place} is no Parquet file that can be read: {error}", hint="restore it, or deliver to a new place") from error


def present(rows: pa.Table, file: ParquetRows, sources: ColumnSources, schema: TableSchema) -> pa.Table:
    """Canonical text in the columns of the schema; null in one that is nowhere. Raises SinkError."""
    where = [[name for source in one if (name := file.name_of(source)) in rows.column_names] for one in sources.columns]
    none = pa.nulls(rows.num_rows)
    untyped = rows.column(name) if (name := file.name_of(sources.untyped)) is not None else None
    columns = [rows.column(of_column[0]) if of_column else none for of_column in where]
    typed = pa.Table.from_arrays(columns, names=[str(number) for number in range(len(columns))])
    names = [(*known, *_own_names(file, one)) for known, one in zip(sources.names, sources.columns, strict=True)]
    text = texts(typed, schema, untyped, written_as=names).columns
    for number, (column, of_column) in enumerate(zip(schema.columns, where, strict=True)):
        for name in of_column[1:]:
            text[number] = pc.coalesce(text[number], _one(column, schema, rows.select([name])))
    return pa.Table.from_arrays(text, names=list(schema.column_names()))


def _own_names(file: ParquetRows, sources: Iterable[Source]) -> Iterator[str]:
    return (name for source in sources if isinstance(source, int) and (name := file.name_of(source)) is not None)


def _one(column: Column, schema: TableSchema, values: pa.Table) -> Any:
    return texts(values, TableSchema(schema.name, (column,), ())).column(0)


# ---- keys --------------------------------------------------------------------------------------------------------------


def key_columns(schema: TableSchema, of_files: Iterable[ColumnSources]) -> dict[str, Source]:
    """Columns of the key that are the same ones in all of them."""
    all_of_them = list(of_files)
    same: dict[str, Source] = {}
    for name in schema.key:
        place = schema.column_names().index(name)
        where = {sources.columns[place] for sources in all_of_them}
        if len(where) == 1 and len(only := next(iter(where))) == 1:
            same[name] = only[0]
    return same


def of_keys(rows: pa.Table, wanted: WantedKeys | None, versions: Versions | None = None) -> RowsRead:
    if wanted is None:
        return RowsRead(rows, versions)
    place = "row"
    while place in rows.column_names:
        place += "_"
    kept = wanted.of(rows.append_column(place, pa.array(np.arange(rows.num_rows))))
    places = kept.column(place).combine_chunks()
    return RowsRead(kept.drop_columns([place]), versions and Versions(*(column.take(places) for column in versions)))
