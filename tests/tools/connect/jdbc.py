"""Debezium's JDBC sink: upserts by the record's key, deletes, tables that it makes and extends itself."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from sidecar.shared.model.nouns import Column, TableSchema
from tests.support.services.mariadb import MariaDb
from tests.support.services.postgres import Postgres
from tests.tools.connect.plain import of_target
from tests.tools.connect.readers import Place, Reader, Row

TARGET = "target"


def _settings(url: str, user: str, password: str, without: Sequence[str]) -> dict[str, str]:
    settings = {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "connection.url": url,
        "connection.username": user,
        "connection.password": password,
        "insert.mode": "upsert",
        "delete.enabled": "true",
        "primary.key.mode": "record_key",
        "schema.evolution": "basic",
    }
    return settings | ({"field.exclude.list": ",".join(without)} if without else {})


def _table(place: Place, schema: TableSchema) -> str:
    """The connector's name for a topic: its dots become underscores."""
    return f"{place.prefix}_{schema.name.schema}_{schema.name.table}".replace(".", "_")


@contextlib.contextmanager
def mariadb(place: Place, without: Sequence[str]) -> Iterator[Reader]:
    with MariaDb(place.folder / "mariadb") as db:
        db.execute(f"CREATE DATABASE {TARGET}", *(_of_binary_key(place, schema) for schema in place.tables.values() if _is_binary(schema)))

        def rows(schema: TableSchema) -> list[Row]:
            name = _table(place, schema)
            if not db.execute(f"SHOW TABLES FROM {TARGET} LIKE '{name}'"):
                return []
            columns = ", ".join(_in_full(column) for column in schema.columns)
            return [_row(schema, values) for values in db.execute(f"SELECT {columns} FROM {TARGET}.`{name}`")]

        yield Reader(_settings(f"jdbc:mariadb://{db.host}:{db.port}/{TARGET}", db.user, db.password, without), rows)


def _is_binary(schema: TableSchema) -> bool:
    return any(column.kind == "binary" for column in schema.columns if column.name in schema.key)


def _of_binary_key(place: Place, schema: TableSchema) -> str:
    """What an operator does beforehand: the connector makes the key a LONGBLOB, which MariaDB does not take. It adds the other columns."""
    key = ", ".join(f"`{name}` VARBINARY(255) NOT NULL" for name in schema.key)
    return f"CREATE TABLE {TARGET}.`{_table(place, schema)}` ({key}, PRIMARY KEY ({', '.join(schema.key)}))"


def _in_full(column: Column) -> str:
    """MariaDB shows six digits of a float, and all of them as a double."""
    return f"CAST(`{column.name}` AS DOUBLE)" if column.kind == "float" else f"`{column.name}`"


@contextlib.contextmanager
def postgres(place: Place, without: Sequence[str]) -> Iterator[Reader]:
    with Postgres() as db:

        def rows(schema: TableSchema) -> list[Row]:
            name = _table(place, schema)
            if db.csv(f"SELECT to_regclass('public.{name}') IS NULL") == [["t"]]:
                return []
            columns = ", ".join(f'"{column.name}"' for column in schema.columns)
            text = db.copied(f"SELECT {columns} FROM public.{name}")
            return [_row(schema, map(_of_csv, schema.columns, values)) for values in _unquoted(text)]

        yield Reader(_settings(f"jdbc:postgresql://{db.host}:{db.port}/postgres", db.user, db.password, without), rows)


def _unquoted(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def _of_csv(column: Column, text: str) -> Any:
    """`copied` marks NULL."""
    if text == Postgres.NULL:
        return None
    match column.kind:
        case "binary":
            return bytes.fromhex(text.removeprefix(r"\x"))
        case "bit":
            return int(text, 2) if set(text) <= {"0", "1"} else text == "t"
        case _:
            return text


def _row(schema: TableSchema, values: Any) -> Row:
    return tuple(of_target(column, value) for column, value in zip(schema.columns, values, strict=True))
