"""Rows of a table of `mode=merge` that no delete file hides, by what Iceberg's specification says of format 2:

    an equality delete   hides rows with its key in data files of smaller sequence numbers
    a position delete    hides the row at that place of a file, if the file's number is not greater than its own

A part has some of the data files, and reads the delete files of all: keys are of no particular file. Partitions play no part, for a key is
in one of them (ddl.check_parted). Memory: the keys of deletes, each once with its greatest number, and places in the part's own files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import TableSchema
from spark_merge.codecs.encode.block import one_array
from spark_merge.codecs.encode.text_hashes import text_hashes
from spark_merge.codecs.encode.untyped import texts
from spark_merge.port.keys import key_text
from spark_merge.port.readable import RowsRead
from spark_merge.sinks.formats.parquet_rows import ColumnSources, ParquetRows, WantedKeys, key_columns, of_keys, opened, present

_PATH, _POSITION = 2147483546, 2147483545
"""Iceberg's reserved ids, of a file of position deletes."""


@dataclass(frozen=True, slots=True)
class MergedFile:
    """A data file. `path`: as position deletes name it. `number`: its data sequence number."""

    folder: Folder
    name: str
    bytes: int
    path: str
    number: int


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """Of keys in the columns `ids`, which are `names` in the table's schema; without them of positions."""

    folder: Folder
    name: str
    bytes: int
    number: int
    ids: tuple[int, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MergedPart:
    """`ReadPart` of a merged table."""

    schema: TableSchema
    files: tuple[MergedFile, ...]
    deletes: tuple[DeleteFile, ...]
    sources: ColumnSources
    wanted: WantedKeys | None = None

    def __call__(self) -> Iterator[RowsRead]:
        least = min(file.number for file in self.files)
        by_place = self._places([one for one in self.deletes if not one.ids and one.number >= least])
        by_key = self._keys([one for one in self.deletes if one.ids and one.number > least])
        key = key_columns(self.schema, [self.sources])
        for file in self.files:
            hidden = by_place.get(file.path, [])
            with opened(file.folder, file.name) as parquet_rows:
                for first, rows in parquet_rows.batches(self.sources.used(), parquet_rows.groups_with(self.wanted, key)):
                    text = present(rows, parquet_rows, self.sources, self.schema)
                    gone = np.zeros(rows.num_rows, bool)
                    for places, number in hidden:
                        if number >= file.number:
                            gone[places[(places >= first) & (places < first + rows.num_rows)] - first] = True
                    for deleted in by_key:
                        if set(map(parquet_rows.name_of, deleted.ids)) <= set(rows.column_names):
                            gone |= deleted.numbers_of(text) > file.number
                    yield of_keys(text.filter(pa.array(~gone)) if gone.any() else text, self.wanted)

    def _places(self, files: Sequence[DeleteFile]) -> Mapping[str, list[tuple[Any, int]]]:
        """By path the places of some deletes, and their number."""
        own, places = pa.array([file.path for file in self.files]), defaultdict[str, list[tuple[Any, int]]](list)
        for file in files:
            for rows in _rows(file, (_PATH, _POSITION)):
                mine = rows.filter(pc.is_in(rows.column(0), value_set=own))
                for path in pc.unique(mine.column(0)).to_pylist():
                    places[path].append((mine.filter(pc.equal(mine.column(0), path)).column(1).to_numpy(), file.number))
        return places

    def _keys(self, files: Sequence[DeleteFile]) -> list[DeletedKeys]:
        by_ids: defaultdict[tuple[tuple[int, ...], tuple[str, ...]], list[DeleteFile]] = defaultdict(list)
        for file in files:
            by_ids[file.ids, file.names].append(file)
        return [DeletedKeys(self.schema, ids, names, own) for (ids, names), own in by_ids.items()]


class DeletedKeys:
    """Keys that deletes in one set of columns have, each once."""

    def __init__(self, schema: TableSchema, ids: tuple[int, ...], names: tuple[str, ...], files: Sequence[DeleteFile]) -> None:
        self.ids, self._names = ids, names
        columns = {column.name: column for column in schema.columns}
        key = TableSchema(schema.name, tuple(columns[name] for name in names), names)
        results = [pa.table({"key": pa.chunked_array([], pa.string()), "number": pa.chunked_array([], pa.int64())})]
        for file in files:
            for rows in _rows(file, ids):
                keys = self._identity(texts(rows, key))
                results.append(pa.table({"key": keys, "number": pa.repeat(pa.scalar(file.number), len(keys))}))
        greatest = pa.concat_tables(results).group_by("key").aggregate([("number", "max")]).combine_chunks()
        keys = one_array(greatest.column("key"))
        hashes = text_hashes(keys)
        order = np.argsort(hashes)
        self._hashes, self._keys = hashes[order], keys.take(pa.array(order))
        self._numbers: Any = greatest.column("number_max").to_numpy()[order]

    def numbers_of(self, rows: pa.Table) -> Any:
        """Of each row, which is canonical text, the greatest number of a delete of its key; -1 where there is none."""
        keys = self._identity(rows)
        hashes = text_hashes(keys)
        numbers = np.full(len(hashes), -1, np.int64)
        places = np.searchsorted(self._hashes, hashes)
        left = np.arange(len(hashes))
        while len(left):  # once more where two keys have one hash
            left = left[places[left] < len(self._hashes)]
            left = left[self._hashes[places[left]] == hashes[left]]
            equal = pc.equal(self._keys.take(pa.array(places[left])), keys.take(pa.array(left))).to_numpy(zero_copy_only=False)
            numbers[left[equal]] = self._numbers[places[left[equal]]]
            left = left[~equal]
            places[left] += 1
        return numbers

    def _identity(self, rows: pa.Table) -> pa.Array:
        columns = [rows.column(name) for name in self._names]
        return one_array(columns[0] if len(columns) == 1 else key_text(columns))


def _rows(file: DeleteFile, ids: Sequence[int]) -> Iterator[pa.Table]:
    """In the order of `ids`."""
    with opened(file.folder, file.name) as parquet_rows:
        names = _names(parquet_rows, ids)
        for _, rows in parquet_rows.batches(ids):
            yield rows.select(names)


def _names(parquet_rows: ParquetRows, ids: Sequence[int]) -> list[str]:
    names = [name for one in ids if (name := parquet_rows.name_of(one)) is not None]
    if len(names) != len(ids):
        raise pa.ArrowInvalid("it has no column of the ids that its deletes go by")
    return names
