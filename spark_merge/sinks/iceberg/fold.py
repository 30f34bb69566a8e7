"""The driver's part of a table's rows in `mode=merge`: of a batch each key is to be in data files once, whatever the tasks were.

A file of a task has a key once, unless it has rows of several passes of dumps. Where a table has several files or passes, their keys are
read, and a position delete in the same commit names each row that a later one follows. Rows themselves are neither read nor written again.

Memory: the keys and commit_ts of a table's rows in a batch, those of live puts twice; nothing where a table has one file of live rows and
its dump's rows come below them, or has rows of one pass alone and no deletes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Seq
from spark_merge.log.read import batches_of
from spark_merge.port.contract import RANK_CHUNK, RANK_DELETE, RANK_PUT, DumpPass
from spark_merge.port.keys import are_last, key_codes
from spark_merge.sinks.iceberg.partitions import Place
from spark_merge.sinks.iceberg.types import arrow_schema
from spark_merge.sinks.iceberg.writer import Files, LakeFile, LakeTarget

POSITIONS = Schema(
    NestedField(2147483546, "file_path", StringType(), required=True), NestedField(2147483545, "pos", LongType(), required=True)
)
"""Of a file of position deletes, by Iceberg's reserved ids."""

KEYS_AT_ONCE_MAX = 1 << 20


def with_keys(files: Sequence[LakeFile], target: LakeTarget, key: Sequence[int], into: Files) -> None:
    """Files of the keys of those that have none."""
    schema = Schema.model_validate_json(target.schema)
    names = [schema.fields[0].name, *(schema.find_field(number).name for number in key)]
    fields = arrow_schema([schema.find_field(name) for name in names])
    for file in files:
        if file.content == DataFileContent.DATA and not file.keyed:
            for rows in _read(target.folder, file, names):
                result = pa.Table.from_arrays(rows.columns, schema=fields)
                reported = {"passes": file.passes, "content": DataFileContent.EQUALITY_DELETES, "key": tuple(key)}
                into.put(target, file.table, (file.first, file.last), schema, result, **reported)


def without_repeats(files: Sequence[LakeFile], target: LakeTarget, key: Sequence[int], into: Files) -> None:
    """A file of position deletes a partition, if these files have rows that later ones follow."""
    data = [file for file in files if file.content == DataFileContent.DATA]
    keys = [file for file in files if file.content == DataFileContent.EQUALITY_DELETES and (file.deletes or not file.passes)]
    alone = len(data) == len(keys) == 1 and not passes([*data, *keys])
    of_one_pass = not keys and len(passes(data)) == 1
    if not data or alone or of_one_pass:
        return
    result: defaultdict[tuple[int, Place], list[tuple[LakeFile, Any]]] = defaultdict(list)
    for file, places in _repeats([*data, *keys], target, key):
        result[file.spec_id, file.place].append((file, places))
    for (spec_id, place), repeats in result.items():
        paths = np.concatenate([np.repeat(file.path, len(places)) for file, places in repeats])
        rows = pa.Table.from_arrays(
            [pa.array(paths, pa.string()), pa.array(np.concatenate([places for _, places in repeats]), pa.int64())],
            schema=_required(arrow_schema(POSITIONS.fields)),
        )
        seqs = (Seq(min(file.first for file in files)), Seq(max(file.last for file in files)))
        reported = {"content": DataFileContent.POSITION_DELETES, "spec_id": spec_id, "place": place}
        into.put_at(target, files[0].table, seqs, POSITIONS, rows, **reported)


def _repeats(files: Sequence[LakeFile], target: LakeTarget, key: Sequence[int]) -> Iterator[tuple[LakeFile, Any]]:
    """Of data files the rows, by place, that another one follows; sorted by path and place."""
    schema = Schema.model_validate_json(target.schema)
    names = [schema.fields[0].name, *(schema.find_field(number).name for number in key)]
    tables = [pa.concat_tables(map(_as_table, _read(target.folder, file, names))) for file in files]
    commit_ts = np.concatenate([table[0].to_numpy() for table in tables])
    ranks = np.concatenate([np.full(table.num_rows, _rank(file)) for file, table in zip(files, tables, strict=True)])
    last = are_last(key_codes(pa.concat_tables(tables).select(names[1:])), ranks=ranks, commit_ts=commit_ts)
    edges = np.cumsum([table.num_rows for table in tables])[:-1]
    result = zip(files, np.split(last, edges), strict=True)
    for file, kept in sorted(((file, kept) for file, kept in result if file.content == DataFileContent.DATA), key=lambda one: one[0].path):
        places = np.flatnonzero(~kept)
        if len(places):
            yield file, places


def _rank(file: LakeFile) -> int:
    """Of its rows: a key that was touched comes before the put that it has become."""
    if file.passes:
        return RANK_CHUNK
    return RANK_PUT if file.content == DataFileContent.DATA else RANK_DELETE


def _read(folder: Folder, file: LakeFile, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    with storage.open_to_read(folder, file.name) as result:
        for _, rows in batches_of(pq.ParquetFile(result), columns=names, rows_max=KEYS_AT_ONCE_MAX):
            yield from rows.select(list(names)).to_batches()


def _as_table(rows: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([rows])


def _required(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(False) for field in schema])


def passes(files: Iterable[LakeFile]) -> frozenset[DumpPass]:
    return frozenset(one for file in files for one in file.passes)


def live(files: Iterable[LakeFile]) -> list[LakeFile]:
    return [file for file in files if not file.passes]
