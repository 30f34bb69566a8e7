"""Tables of the Iceberg sink's `mode=merge`, read by what Iceberg's specification says of delete files, with pyarrow and pyiceberg's
classes of metadata; pyiceberg itself does not read equality deletes. Spark is held equal to it in tests/integration/test_iceberg_spark.py.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from cachetools import LRUCache
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestEntry
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.typedef import Record

from sidecar.shared.model.nouns import TableName, TableSchema
from spark_merge.codecs.encode.typed import file_schema
from spark_merge.sinks.iceberg.deletes import RowDelta
from spark_merge.sinks.iceberg.types import arrow_schema
from spark_merge.sinks.iceberg.writer import write_parquet
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.places import Place, Shown
from tests.support.lake import Texts, catalog_of, image, snapshot_at, tables_of

Row = dict[str, Any]
Key = tuple[Any, ...]


def merged_rows(table: Table, snapshot_id: int | None = None) -> list[Row]:
    """The rows of a snapshot, the last one if None, by the names that its schema has."""
    snapshot = table.current_snapshot() if snapshot_id is None else table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        return []
    schema = next(one for one in table.metadata.schemas if one.schema_id == snapshot.schema_id) if snapshot_id else table.schema()
    entries = list(_entries(table, snapshot))
    by_key, by_place = _deletes(table, entries)
    return [
        row for entry in entries if entry.data_file.content == DataFileContent.DATA for row in _left(table, entry, schema, by_key, by_place)
    ]


def _entries(table: Table, snapshot: Any) -> Iterator[ManifestEntry]:
    for manifest in snapshot.manifests(table.io):
        result = _once(table, manifest.manifest_path, lambda: manifest.fetch_manifest_entry(table.io))  # noqa: B023
        of_data = [entry.data_file.content == DataFileContent.DATA for entry in result]
        assert all(of_data) if manifest.content == ManifestContent.DATA else not any(of_data)
        if result:
            least = min(int(entry.sequence_number or 0) for entry in result)
            assert manifest.min_sequence_number == least, (manifest.min_sequence_number, least)
            assert manifest.sequence_number >= manifest.min_sequence_number
        yield from result


_ByKey = dict[tuple[int, ...], dict[Key, int]]
_ByPlace = dict[str, dict[int, int]]
"""Greatest sequence number of a delete."""


def _deletes(table: Table, entries: Sequence[ManifestEntry]) -> tuple[_ByKey, _ByPlace]:
    by_key: _ByKey = {}
    by_place: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for entry in entries:
        number, file = int(entry.sequence_number or 0), entry.data_file
        if file.content == DataFileContent.EQUALITY_DELETES:
            ids = tuple(file.equality_ids or ())
            assert ids
            result = by_key.setdefault(ids, {})
            columns = _by_id(_read(table, file))
            for key in zip(*(columns[one].to_pylist() for one in ids), strict=True):
                result[key] = max(number, result.get(key, 0))
        elif file.content == DataFileContent.POSITION_DELETES:
            rows = _read(table, file)
            assert rows.sort_by([("file_path", "ascending"), ("pos", "ascending")]).equals(rows)
            for path, place in zip(rows["file_path"].to_pylist(), rows["pos"].to_pylist(), strict=True):
                by_place[path][place] = max(number, by_place[path].get(place, 0))
    return by_key, by_place


def _left(table: Table, entry: ManifestEntry, schema: Schema, by_key: _ByKey, by_place: _ByPlace) -> Iterator[Row]:
    number, file = int(entry.sequence_number or 0), entry.data_file
    rows = _read(table, file)
    columns = {one: column.to_pylist() for one, column in _by_id(rows).items()}
    places = by_place.get(file.file_path, {})
    for place in range(rows.num_rows):
        if places.get(place, -1) >= number:
            continue
        if any(
            result.get(tuple(columns[one][place] for one in ids), -1) > number
            for ids, result in by_key.items()
            if set(ids) <= columns.keys()
        ):
            continue
        yield {field.name: columns[field.field_id][place] if field.field_id in columns else None for field in schema.fields}


def _by_id(rows: pa.Table) -> dict[int, pa.ChunkedArray]:
    return {int(field.metadata[b"PARQUET:field_id"]): rows.column(place) for place, field in enumerate(rows.schema)}


def _read(table: Table, file: DataFile) -> pa.Table:
    def read() -> pa.Table:
        with table.io.new_input(file.file_path).open() as result:
            return pq.read_table(pa.BufferReader(result.read()))

    result: pa.Table = _once(table, file.file_path, read)
    assert result.num_rows == file.record_count
    return result


_files: LRUCache[tuple[str, int], Any] = LRUCache(4096)
"""What was in a file, by its path and length in bytes: no file of a snapshot is ever written again."""


def _once(table: Table, path: str, read: Callable[[], Any]) -> Any:
    place = path, len(table.io.new_input(path))
    if place not in _files:
        _files[place] = read()
    return _files[place]


# ---- as the tests look at it ----------------------------------------------------------------------------------------


def rows_as_texts(table: Table, schema: TableSchema, seq: int | None = None) -> list[Texts]:
    """Canonical text in the schema's columns. Raises AssertionError for a key that is there twice."""
    snapshot = None if seq is None else snapshot_at(table, seq)
    if seq is not None and snapshot is None:
        return []
    untyped = file_schema(schema).names[6]
    rows = [image(row, schema, row[untyped]) for row in merged_rows(table, snapshot)]
    check_keys(rows, schema)
    return rows


def check_keys(rows: Sequence[Texts], schema: TableSchema) -> None:
    places = [schema.column_names().index(name) for name in schema.key]
    keys = [tuple(row[place] for place in places) for row in rows]
    assert len(set(keys)) == len(keys), f"{schema.name} has a key twice: {sorted(map(repr, rows))}"


def merged_place(uri: str) -> Place:
    """Its tables have the columns and key of spark_merge/testing/histories.py."""
    namespace = urlsplit(uri).path.strip("/")

    def rows() -> dict[TableName, list[Shown]]:
        catalog = catalog_of(uri)
        try:
            result = {name: [_shown(row) for row in merged_rows(table)] for name, table in tables_of(catalog, namespace)}
        finally:
            catalog.close()
        for name, shown in result.items():
            assert len({row[3] for row in shown}) == len(shown), f"{name} has a key twice: {shown}"
        return {name: shown for name, shown in result.items() if shown}

    return Place(uri, lambda log_id: open_sink(uri, log_id=log_id), rows, in_order=False, newest=True)


def _shown(row: Row) -> Shown:
    result = (row["id"], str(row["part"]), row["v"])
    return 0, 0, "insert", result[:2], result


# ---- somebody else's commits ----------------------------------------------------------------------------------------


def compact(table: Table) -> None:
    """As `rewrite_data_files` and the removal of dangling deletes leave it: all rows in one file with the number of the snapshot that they
    were read from, and no delete file."""
    rewrite(table, merged_rows(table))


def rewrite(table: Table, there: Sequence[Row]) -> None:
    """These are its rows then, as if they had been so in its last snapshot."""
    snapshot, schema = table.current_snapshot(), table.schema()
    assert snapshot is not None
    into = arrow_schema(schema.fields)
    rows = pa.Table.from_pylist(list(there), into)
    path = f"{table.location()}/data/compacted-{secrets.token_hex(8)}.parquet"
    staged = Transaction(table)
    act = RowDelta(staged, {}, below={path: int(snapshot.sequence_number or 0)}, emptied=True)
    if rows.num_rows:
        filesystem, place = pyarrow.fs.FileSystem.from_uri(path) if urlsplit(path).scheme else (pyarrow.fs.LocalFileSystem(), path)
        with filesystem.open_output_stream(place) as out:
            size, statistics = write_parquet(out, schema, rows, {})
        act.append_data_file(
            DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=path,
                file_format=FileFormat.PARQUET,
                partition=Record(),
                file_size_in_bytes=size,
                sort_order_id=None,
                spec_id=0,
                equality_ids=None,
                key_metadata=None,
                **statistics,
            )
        )
    act.commit()
    staged.commit_transaction()
