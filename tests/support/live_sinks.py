"""The sinks that people query, as targets of the whole product: each with a server or folder of its own, and read by its own reader.

with SINKS["clickhouse"](folder) as place:
    … a sidecar with place.uri …
    place.read()(schema)            the table's rows, by the source's canonical text
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import cast

import pyarrow as pa
from deltalake.exceptions import DeltaError

from sidecar.replay.judge.rows import Key, Row
from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableName, TableSchema
from spark_merge.sinks.delta.columns import Mode
from tests.support import clickhouse_place, delta_place, lake, opensearch_place
from tests.support.merged_lake import rows_as_texts
from tests.support.recorded_target import Read, Texts
from tests.support.services.clickhouse import ClickHouse
from tests.support.services.http_receiver import HttpReceiver
from tests.support.services.opensearch import OpenSearchNode
from tests.support.services.s3 import BUCKET, S3
from tests.support.storage_place import output, rows_read, table_at_end
from tests.support.storage_reader import Form
from tests.tools.rig.disasters import Nowhere, Target
from tests.tools.rig.truth import LiveTruth, differences

Changes = Callable[[TableSchema], Iterable[tuple[str, Texts]]]

NAME = "live"
AWAY = (OSError, HTTPException, DeltaError, SinkError, pa.ArrowException)
"""What readers meet where a server is away, or has no such table yet."""


@dataclass(frozen=True)
class LiveSink:
    """`says`: what `dumpquery` names it by. `read`: begins to read; what it gives reads tables of one moment. `changes`: of a log, in the
    order in which its readers have it; None: the tables are all that there is, and may be looked at while they are written."""

    uri: str
    says: str
    read: Callable[[], Read]
    target: Target = field(default_factory=Nowhere)
    changes: Changes | None = None

    def wrong(self, truth: LiveTruth) -> list[str]:
        """What differs."""
        read = self.read()
        result = {schema.name: _by_key(schema, read(schema)) for schema in truth.schemas.values()}
        return differences(truth, result)


def _by_key(schema: TableSchema, rows: Sequence[Texts]) -> dict[Key, Row]:
    places = [schema.column_names().index(name) for name in schema.key]
    key = {cast("Key", tuple(row[place] for place in places)): row for row in rows}
    assert len(key) == len(rows), f"{schema.name} has rows twice"
    return key


@contextmanager
def opensearch(folder: Path) -> Iterator[LiveSink]:
    with OpenSearchNode(folder) as node:
        yield LiveSink(opensearch_place.uri_of(node, NAME), node.host, lambda: partial(opensearch_place.rows_of, node, NAME), node)


@contextmanager
def clickhouse(folder: Path) -> Iterator[LiveSink]:
    with ClickHouse(folder) as server:
        uri = clickhouse_place.uri_of(server, "pos", dates="text")
        yield LiveSink(uri, f"{server.host}:{server.port}", lambda: partial(clickhouse_place.rows_of, server), server)


@contextmanager
def http(folder: Path) -> Iterator[LiveSink]:
    with HttpReceiver(folder) as receiver:

        def read(schema: TableSchema) -> list[Texts]:
            sql = 'SELECT "row" FROM newest WHERE output = ? AND "schema" = ? AND "table" = ?'
            return [tuple(json.loads(row).values()) for (row,) in receiver.query(sql, (f"/{NAME}", *schema.name))]

        def changes(schema: TableSchema) -> Iterator[tuple[str, Texts]]:
            for row in receiver.rows(NAME):
                if TableName(row["schema"], row["table"]) == schema.name:
                    image = row["after"] or dict.fromkeys(schema.column_names()) | row["key"]
                    yield row["op"], tuple(image[name] for name in schema.column_names())

        yield LiveSink(receiver.uri(NAME, body_rows="500"), f"127.0.0.1:{receiver.port}", lambda: read, receiver, changes)


@contextmanager
def iceberg(folder: Path) -> Iterator[LiveSink]:
    with S3() as s3:
        uri = lake.on_s3(s3, folder, commit_interval="1s")
        catalog = lake.catalog_of(uri)

        def changes(schema: TableSchema) -> Iterator[tuple[str, Texts]]:
            table = catalog.load_table((lake.NAMESPACE, *schema.name))
            for _, rows in lake.committed(table):
                for row in sorted(rows, key=_in_log_order):
                    yield row["_op"], lake.image(row, schema, row["_untyped"])

        def read(schema: TableSchema) -> list[Texts]:
            return lake.fold(lake.rows_at(catalog.load_table((lake.NAMESPACE, *schema.name))), schema)

        try:
            yield LiveSink(uri, f"iceberg://{lake.CATALOG}/{lake.NAMESPACE}", lambda: read, s3, changes)
        finally:
            catalog.close()


@contextmanager
def merged_iceberg(folder: Path) -> Iterator[LiveSink]:
    with S3() as s3:
        uri = lake.on_s3(s3, folder, mode="merge", commit_interval="1s")
        with closing(lake.catalog_of(uri)) as catalog:

            def read(schema: TableSchema) -> list[Texts]:
                """None, where no row has come yet."""
                place = (lake.NAMESPACE, *schema.name)
                return rows_as_texts(catalog.load_table(place), schema) if catalog.table_exists(place) else []

            yield LiveSink(uri, f"iceberg://{lake.CATALOG}/{lake.NAMESPACE}", lambda: read, s3)


def _in_log_order(row: dict[str, object]) -> tuple[object, ...]:
    return row["_commit_ts"], row["_op"] != "delete", row["_origin"] == "dump", row["_ordinal"]


@contextmanager
def delta(mode: Mode, folder: Path) -> Iterator[LiveSink]:
    with S3() as s3:
        path = f"{folder.parent.name}/delta"
        uri = f"delta+{s3.uri(path, keys=True)}&mode={mode}&commit-interval=1s"
        place = delta_place.folder_of(uri)

        def changes(schema: TableSchema) -> Iterator[tuple[str, Texts]]:
            return ((row["op"], image) for row, image in delta_place.logged(place, schema))

        yield LiveSink(
            uri,
            f"{BUCKET}/{path}",
            lambda: partial(delta_place.rows_of, place, mode),
            s3,
            changes if mode == "append" else None,
        )


@contextmanager
def delta_folder(folder: Path) -> Iterator[LiveSink]:
    uri = f"delta://{folder}/delta?mode=merge&commit-interval=1s"
    place = delta_place.folder_of(uri)
    yield LiveSink(uri, f"{folder}/delta", lambda: partial(delta_place.rows_of, place, "merge"))


@contextmanager
def csv(folder: Path) -> Iterator[LiveSink]:
    with S3() as s3:
        path = f"{folder.parent.name}/csv"
        uri = s3.uri(path, keys=True) + "&protocol=csv&csv.include-commit-ts=true&flush-interval=2s"
        yield _storage(uri, f"{BUCKET}/{path}", Form(), s3)


@contextmanager
def canal_json(folder: Path) -> Iterator[LiveSink]:
    uri = f"file://{folder}/json?protocol=canal-json&flush-interval=0s"
    yield _storage(uri, f"{folder}/json", Form(protocol="canal-json"))


def _storage(uri: str, says: str, form: Form, target: Target | None = None) -> LiveSink:
    def read() -> Read:
        there = output(uri, form)
        there.check_classic()
        return partial(table_at_end, there)

    def changes(schema: TableSchema) -> Iterator[tuple[str, Texts]]:
        for line in rows_read(output(uri, form), schema.name, {column.name: column for column in schema.columns}):
            yield line.op, tuple(line.values[name] for name in schema.column_names())

    return LiveSink(uri, says, read, target or Nowhere(), changes)


SINKS: Mapping[str, Callable[[Path], AbstractContextManager[LiveSink]]] = {
    "opensearch": opensearch,
    "clickhouse": clickhouse,
    "http": http,
    "iceberg append": iceberg,
    "iceberg merge": merged_iceberg,
    "delta append": partial(delta, "append"),
    "delta merge": partial(delta, "merge"),
    "delta merge in a folder": delta_folder,
    "csv": csv,
    "canal-json in a folder": canal_json,
}
