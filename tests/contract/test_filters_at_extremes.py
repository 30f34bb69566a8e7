"""Readers that filter find every row, whatever they skip by statistics: of Delta's log, of Iceberg's manifests, of Parquet's row groups.
Each lake and format has rows at the ends of every type (tests/support/extremes.py), in files of their own and then together in one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from pyiceberg.expressions import EqualTo, GreaterThanOrEqual, LessThanOrEqual
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator
from pyiceberg.manifest import DataFileContent

from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import TableSchema
from spark_merge.sinks.folder.layout import table_folder
from spark_merge.sinks.registry import open_sink
from tests.support.deliveries import Segments, deliver, opened
from tests.support.delta_place import delta_table, folder_of
from tests.support.extremes import KEYED, TABLES, inserts, rows_of, updates
from tests.support.lake import NAMESPACE, catalog_of, uri_of
from tests.support.read_back import reading_of, texts_of

pytestmark = pytest.mark.xdist_group("iceberg")

LOG = "log-1"
OUTPUTS: dict[str, Callable[[Path], str]] = {
    "delta append": lambda folder: f"delta://{folder}/out?mode=append",
    "delta merge": lambda folder: f"delta://{folder}/out?mode=merge",
    "iceberg append": lambda folder: uri_of(folder / "lake", mode="append"),
    "iceberg merge": lambda folder: uri_of(folder / "lake", mode="merge"),
    "parquet": lambda folder: f"file://{folder}/out?format=parquet",
}


Search = Callable[[str, str, Any], int]
"""How many rows a reader finds by a column's name, `=`, `<=` or `>=`, and a value."""


@pytest.mark.parametrize("output", OUTPUTS)
def test_every_row_is_found_by_a_filter_on_each_of_its_values(tmp_path: Path, output: str) -> None:
    """And by its key, as a verification reads a target: the sink's own reader skips files and row groups, too."""
    uri, log = OUTPUTS[output](tmp_path), open_folder(str(tmp_path / "log"))
    sink = opened(open_sink(uri, log_id=LOG))
    for seq, rows in enumerate(inserts(), 1):
        deliver(sink, Segments([seq], rows, rows_max=1000), log=log, schemas=TABLES)
    check(uri, "first", ["=", "<=", ">="])
    deliver(sink, Segments([4], updates(), rows_max=1000), log=log, schemas=TABLES)
    check(uri, "second", ["="])
    for schema in KEYED:
        for row in rows_of(schema, "second"):
            reading = reading_of(uri, schema, log_id=LOG, parts=1, keys=[[str(row[0])]])
            assert [text for text in texts_of(reading, schema) if text[0] == row[0]] == [row], schema.name
    sink.close()


def check(uri: str, value: str, ops: Sequence[str]) -> None:
    lost = [reported for schema in TABLES.values() for reported in _not_found(uri, schema, value, ops)]
    assert not lost, (len(lost), lost[:20])


def _not_found(uri: str, schema: TableSchema, value: str, ops: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    for reader, rows, search in _readers(uri, schema):
        for at, column in enumerate(schema.columns):
            values = [row[column.name] for row in rows if row[column.name] is not None]
            texts = {row[at] for row in rows_of(schema, value)} - {None, "0000-00-00", "0000-00-00 00:00:00.000000"}
            assert len(set(values)) >= len(texts), (reader, schema.name, column, values)
            for one in {repr(one): one for one in values}.values():
                for op in ops:
                    expected = sum(1 for other in values if _OPS[op](other, one))
                    if (number := search(column.name, op, one)) != expected:
                        yield reader, str(schema.name), column.name, op, one, number, expected


_OPS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda one, other: bool(one == other),
    "<=": lambda one, other: bool(one <= other),
    ">=": lambda one, other: bool(one >= other),
}


def _readers(uri: str, schema: TableSchema) -> Iterator[tuple[str, list[dict[str, Any]], Search]]:
    kind = uri.partition(":")[0]
    if kind == "delta":
        yield from _of_delta(uri, schema)
    elif kind == "iceberg":
        yield from _of_iceberg(uri, schema)
    else:
        files = sorted(Path(uri.removeprefix("file://").partition("?")[0]).glob(f"{table_folder(schema.name)}/*.parquet"))
        yield _of_dataset("parquet", ds.dataset(files))


def _of_dataset(name: str, dataset: Any) -> tuple[str, list[dict[str, Any]], Search]:
    rows = dataset.to_table().to_pylist()

    def search(column: str, op: str, value: Any) -> int:
        field, kind = pc.field(column), dataset.schema.field(column).type
        scalar = pa.scalar(value) if isinstance(value, str | bytes) else pa.scalar(value, kind)
        made = {"=": field == scalar, "<=": field <= scalar, ">=": field >= scalar}[op]
        return int(dataset.count_rows(filter=made))

    return name, rows, search


def _of_delta(uri: str, schema: TableSchema) -> Iterator[tuple[str, list[dict[str, Any]], Search]]:
    table = delta_table(folder_of(uri), schema.name)
    assert table is not None
    name, rows, by_arrow = _of_dataset("Delta's statistics", table.to_pyarrow_dataset())

    def search(column: str, op: str, value: Any) -> int:
        """pyarrow compares no texts in files that a MERGE of delta-rs wrote, which have string_view."""
        if not isinstance(value, str | bytes):
            return by_arrow(column, op, value)
        literal = f"X'{value.hex()}'" if isinstance(value, bytes) else "'" + value.replace("'", "''") + "'"
        return int(pa.table(table.scan(columns=[column], predicate=f"`{column}` {op} {literal}")).num_rows)

    yield name, rows, search


def _of_iceberg(uri: str, schema: TableSchema) -> Iterator[tuple[str, list[dict[str, Any]], Search]]:
    """As pyiceberg's scan, but for delete files, which it does not read: files that the statistics do not rule out, and rows of them."""
    catalog = catalog_of(uri)
    table = catalog.load_table((NAMESPACE, *schema.name))
    catalog.close()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    entries = [entry for manifest in snapshot.manifests(table.io) for entry in manifest.fetch_manifest_entry(table.io)]
    files = [entry.data_file for entry in entries if entry.data_file.content == DataFileContent.DATA]
    known = [_of_dataset("", ds.dataset(file.file_path.removeprefix("file://"))) for file in files]

    def search(column: str, op: str, value: Any) -> int:
        may_have = _InclusiveMetricsEvaluator(table.schema(), _ICEBERG_OPS[op](column, value)).eval
        return sum(result(column, op, value) for file, (_, _, result) in zip(files, known, strict=True) if may_have(file))

    yield "Iceberg's statistics", [row for _, rows, _ in known for row in rows], search


_ICEBERG_OPS = {"=": EqualTo, "<=": LessThanOrEqual, ">=": GreaterThanOrEqual}
