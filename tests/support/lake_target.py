"""An Iceberg sink that is given one segment after another, for tests of what a table becomes."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.table import Table

from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Column, CommitTs, TableName, TableSchema
from spark_merge.port.contract import Batch, Outcome, Sink
from spark_merge.sinks.registry import open_sink
from tests.support.deliveries import ORDERS, SCHEMA, Image, Segments, change, opened
from tests.support.lake import catalog_of, rows_at, uri_of

ID = SCHEMA.columns[0]
Schemas = Mapping[TableName, TableSchema]


def columns(*others: Column, table_id: int = 0) -> Schemas:
    return {ORDERS: TableSchema(ORDERS, (ID, *others), ("id",), table_id)}


class Target:
    """A sink and one segment after another, each with one row and perhaps a DDL at its end."""

    def __init__(self, folder: Path, *, at: str = "", **parameters: str) -> None:
        """`at`: a sink's URI, for a catalog that is there; else it is of SQLite, in the folder."""
        self.uri = at or uri_of(folder / "lake", **parameters)
        self.namespace = urlsplit(self.uri).path.strip("/")
        self.log, self.seq = open_folder(str(folder)), 0
        self.sink: Sink = opened(open_sink(self.uri, log_id="log-1"))

    def write(self, image: Sequence[str | None] | None, schemas: Schemas, after: Schemas, query: str) -> tuple[Batch, list[Outcome]]:
        return self.write_all([image] if image else [], schemas, after, query)

    def write_all(
        self, images: Sequence[Image], schemas: Schemas, after: Schemas | None = None, query: str = ""
    ) -> tuple[Batch, list[Outcome]]:
        rows = [change(self.seq, 100 * self.seq - 50, after=image, ordinal=number) for number, image in enumerate(images)]
        segments = Segments([self.seq], rows, {self.seq: (DdlRecord(CommitTs(100 * self.seq), *ORDERS, query),)} if query else {})
        heads = [replace(head, next_schemas=after or schemas) for head in segments.heads(schemas)]
        batch = self.sink.plan(heads, cores=1)
        written = pickle.loads(pickle.dumps(batch.writer))
        return batch, [written(task, segments.portions(task, schemas, self.log)) for stage in batch.stages for task in stage]

    def bring(self, image: Image, schemas: Schemas, after: Schemas | None = None, query: str = "") -> None:
        self.sink.accept(*self.write(image, schemas, after or schemas, query))
        self.seq += 1

    def bring_all(self, images: Sequence[Image], schemas: Schemas) -> None:
        self.sink.accept(*self.write_all(images, schemas))
        self.seq += 1

    def table(self) -> Table:
        return catalog_of(self.uri).load_table((self.namespace, *ORDERS))

    def fields(self) -> list[tuple[int, str, str]]:
        return [(field.field_id, field.name, str(field.field_type)) for field in self.table().schema().fields[7:]]

    def rows(self, *names: str, seq: int | None = None) -> list[tuple[Any, ...]]:
        return [tuple(row[name] for name in names) for row in sorted(rows_at(self.table(), seq), key=lambda row: int(row["_seq"]))]
