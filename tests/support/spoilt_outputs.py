"""Outputs of every sink that can be read back, and what somebody does to their rows behind the sink's back."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sidecar.shared.model.keyset import quoted_table
from sidecar.shared.model.nouns import Column, TableName
from spark_merge.merge.rule import Image
from spark_merge.port.keys import key_text
from tests.support import clickhouse_place, lake, opensearch_place, sql_place
from tests.support.delta_place import delta_table, folder_of
from tests.support.kafka_feeds import new_topic
from tests.support.merged_lake import merged_rows, rewrite
from tests.support.services.clickhouse import ClickHouse
from tests.support.services.http_receiver import HttpReceiver
from tests.support.services.kafka import KafkaBroker
from tests.support.services.mariadb import MariaDb
from tests.support.services.opensearch import OpenSearchNode
from tests.support.table_shapes import TABLE
from tests.support.verified import World

numbers = itertools.count()

Rows = Mapping[Image, Image | None]
"""What each key's row becomes; None: it goes."""


class SpoiltOutput(Protocol):
    @property
    def uri(self) -> str: ...

    def spoil(self, world: World, rows: Rows) -> None:
        """Of an output to which all is delivered that the log has."""


@dataclass(frozen=True)
class MadeOutput:
    """One that only its sink writes: a worker delivers what the log does not have."""

    uri: str

    def spoil(self, world: World, rows: Rows) -> None:
        world.forge(self.uri, rows)


@dataclass(frozen=True)
class MySqlOutput:
    uri: str
    db: MariaDb
    table: TableName

    def spoil(self, world: World, rows: Rows) -> None:
        columns = world.shape.schema.columns
        values = ", ".join("UNHEX(%s)" if column.kind == "binary" else "%s" for column in columns)
        with closing(self.db.connect()) as connection, connection.cursor() as cursor:
            for key, row in rows.items():
                cursor.execute(f"DELETE FROM {quoted_table(self.table)} WHERE id = %s AND part = %s", key)
                if row is not None:
                    cursor.execute(f"INSERT INTO {quoted_table(self.table)} VALUES ({values})", row)


@dataclass(frozen=True)
class SqliteOutput:
    uri: str
    file: Path

    def spoil(self, world: World, rows: Rows) -> None:
        columns = world.shape.schema.columns
        with closing(sqlite3.connect(self.file)) as db, db:
            for key, row in rows.items():
                db.execute(f'DELETE FROM "{TABLE}" WHERE id = ? AND part = ?', key)
                if row is not None:
                    names = ", ".join(f'"{column.name}"' for column in columns)
                    db.execute(f'INSERT INTO "{TABLE}" ({names}) VALUES ({", ".join("?" * len(columns))})', row)


@dataclass(frozen=True)
class JsonLinesOutput:
    """Somebody edits the files: of a key that loses its row all lines go, of another one the last line has another image."""

    uri: str
    folder: Path

    def spoil(self, world: World, rows: Rows) -> None:
        names = world.shape.schema.column_names()
        files = sorted((self.folder / str(TABLE)).rglob("*.jsonl"))
        left, line = dict(rows), dict[str, Any]()
        for file in reversed(files):
            lines = []
            for text in reversed(file.read_text().splitlines()):
                line = json.loads(text)
                key = line["key"]["id"], line["key"]["part"]
                if key not in rows:
                    lines.append(line)
                elif (row := rows[key]) is not None:
                    lines.append(line | {"op": "insert", "after": dict(zip(names, row, strict=True))} if left.pop(key, None) else line)
            file.write_text("".join(json.dumps(one) + "\n" for one in reversed(lines)))
        more = [
            line | {"op": "insert", "key": dict(zip(line["key"], key, strict=True)), "after": dict(zip(names, row, strict=True))}
            for key, row in left.items()
            if row is not None
        ]
        with files[0].open("a") as first:
            first.writelines(json.dumps(one) + "\n" for one in more)


@dataclass(frozen=True)
class ClickHouseOutput:
    """A row of somebody else has the version that the source's next change is beyond."""

    uri: str
    server: ClickHouse
    table: str

    def spoil(self, world: World, rows: Rows) -> None:
        schema, version = world.shape.schema, 2 * world.ts + 1
        keys = ", ".join(f"({_sql(schema.columns[0], id)}, {part})" for id, part in rows)
        self.server.execute(f"ALTER TABLE {self.table} DELETE WHERE (id, part) IN ({keys}) SETTINGS mutations_sync = 2")
        names = ", ".join(f"`{name}`" for name in (*schema.column_names(), "_version", "_is_deleted"))
        values = [
            f"({', '.join(_sql(column, text) for column, text in zip(schema.columns, row, strict=True))}, {version}, 0)"
            for row in rows.values()
            if row is not None
        ]
        self.server.execute(f"INSERT INTO {self.table} ({names}) VALUES {', '.join(values)}")


def _sql(column: Column, text: str | None) -> str:
    if text is None:
        return "NULL"
    match column.kind:
        case "binary":
            return f"unhex('{text}')"
        case "text" | "json":
            return f"unhex('{text.encode().hex()}')"
        case "int":
            return text
        case _:
            return f"'{text}'"


@dataclass(frozen=True)
class OpenSearchOutput:
    uri: str
    node: OpenSearchNode
    alias: str

    def spoil(self, world: World, rows: Rows) -> None:
        columns = world.shape.schema.columns
        for key, row in rows.items():
            (id,) = key_text([pa.chunked_array([[text]], pa.string()) for text in key]).to_pylist()
            path = f"/{self.alias}/_doc/{quote(id, safe='')}?version={2 * world.ts + 1}&version_type=external_gte&refresh=true"
            if row is not None:
                document = {column.name: _field(column, text) for column, text in zip(columns, row, strict=True)}
                self.node.ask("PUT", path, document)
            else:
                self.node.ask("DELETE", path)


def _field(column: Column, text: str | None) -> str | int | None:
    return int(text) if column.kind == "int" and text is not None else text


def _value(column: Column, text: str | None) -> Any:
    """As a lake has it."""
    if text is None:
        return None
    match column.kind:
        case "int":
            return int(text)
        case "decimal":
            return Decimal(text)
        case "datetime":
            return datetime.fromisoformat(text)
        case "binary":
            return bytes.fromhex(text)
        case _:
            return text


def _spoilt(world: World, there: list[dict[str, Any]], rows: Rows) -> list[dict[str, Any]]:
    """What a lake's table has then: rows with their envelopes."""
    left = [row for row in there if (row["id"], str(row["part"])) not in rows]
    envelopes: dict[Image, dict[str, Any]] = {(row["id"], str(row["part"])): row for row in there}
    columns = world.shape.schema.columns
    for key, row in rows.items():
        if row is not None:
            values = {column.name: _value(column, text) for column, text in zip(columns, row, strict=True)}
            left.append(envelopes.get(key, {"_commit_ts": world.ts}) | values)
    return left


@dataclass(frozen=True)
class DeltaOutput:
    uri: str

    def spoil(self, world: World, rows: Rows) -> None:
        table = delta_table(folder_of(self.uri), TABLE)
        assert table is not None
        there = table.to_pyarrow_table()
        write_deltalake(table, pa.Table.from_pylist(_spoilt(world, there.to_pylist(), rows), there.schema), mode="overwrite")


@dataclass(frozen=True)
class IcebergOutput:
    uri: str

    def spoil(self, world: World, rows: Rows) -> None:
        table = lake.catalog_of(self.uri).load_table((lake.NAMESPACE, *TABLE))
        rewrite(table, _spoilt(world, merged_rows(table), rows))


# ---- by name ------------------------------------------------------------------------------------------------------------


def _mysql(request: pytest.FixtureRequest, _: Path) -> SpoiltOutput:
    db: MariaDb = request.getfixturevalue("mariadb")
    name = f"spoilt{next(numbers)}"
    uri = sql_place.uri_of(db, f"{name}_position", create_tables="true", routes=quote(f"s.*=>{name}.*"))
    return MySqlOutput(uri, db, TableName(name, TABLE.table))


def _clickhouse(request: pytest.FixtureRequest, _: Path) -> SpoiltOutput:
    server: ClickHouse = request.getfixturevalue("clickhouse")
    name = f"spoilt{next(numbers)}"
    uri = clickhouse_place.uri_of(server, f"{name}_position", routes=f"s.*=>{name}.*")
    return ClickHouseOutput(uri, server, f"{name}.{TABLE.table}__rows")


def _opensearch(request: pytest.FixtureRequest, _: Path) -> SpoiltOutput:
    node: OpenSearchNode = request.getfixturevalue("opensearch")
    name = f"spoilt{next(numbers)}"
    node.remove(f"{name}.*,position-{name}")
    return OpenSearchOutput(opensearch_place.uri_of(node, name), node, f"{name}.{TABLE.schema}.{TABLE.table}")


def _kafka(protocol: str) -> Make:
    def make(request: pytest.FixtureRequest, _: Path) -> SpoiltOutput:
        broker: KafkaBroker = request.getfixturevalue("broker")
        return MadeOutput(f"kafka://{broker.bootstrap}/{new_topic()}?partition-num=2&protocol={protocol}")

    return make


def _http(request: pytest.FixtureRequest, folder: Path) -> SpoiltOutput:
    receiver = HttpReceiver(folder / "receiver")
    receiver.start()
    request.addfinalizer(receiver.kill)
    return MadeOutput(receiver.uri("out"))


def _folder(scheme: str, **parameters: str) -> Make:
    return lambda _, folder: MadeOutput(f"{scheme}://{folder}/out?{urlencode(parameters)}")


Make = Callable[[pytest.FixtureRequest, Path], SpoiltOutput]
OUTPUTS: Mapping[str, tuple[str, Make]] = {
    "sqlite": ("read-back", lambda _, folder: SqliteOutput(f"sqlite:///{folder}/out.db", folder / "out.db")),
    "mysql": ("sql-target", _mysql),
    "clickhouse": ("clickhouse", _clickhouse),
    "opensearch": ("opensearch", _opensearch),
    "delta-merge": ("verify-lakes", lambda _, folder: DeltaOutput(f"delta://{folder}/out?mode=merge")),
    "iceberg-merge": ("verify-lakes", lambda _, folder: IcebergOutput(lake.uri_of(folder / "lake", mode="merge"))),
    "delta-append": ("verify-lakes", _folder("delta", mode="append")),
    "iceberg-append": ("verify-lakes", lambda _, folder: MadeOutput(lake.uri_of(folder / "lake", mode="append"))),
    "jsonl": ("read-back", _folder("file", format="jsonl")),
    "jsonl, edited": ("read-back", lambda _, folder: JsonLinesOutput(f"file://{folder}/out?format=jsonl", folder / "out")),
    "parquet": ("read-back", _folder("file", format="parquet")),
    "csv": ("read-back", _folder("file", **{"protocol": "csv", "csv.include-commit-ts": "true"})),
    "canal-json in files": ("read-back", _folder("file", protocol="canal-json")),
    "http": ("read-back", _http),
    "kafka open-protocol": ("read-back", _kafka("open-protocol")),
    "kafka canal-json": ("read-back", _kafka("canal-json")),
}
"""The group that a test of it is in, for its server's sake, and how one is made in a folder of its own."""
