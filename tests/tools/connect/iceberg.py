"""Iceberg's sink, which appends each record: a reader takes the newest of a key. Its catalog is Iceberg's own REST server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog

from sidecar.shared.model.nouns import TableName, TableSchema
from tests.support.services.iceberg_rest import IcebergRest
from tests.tools.connect.plain import Plain, of_connect
from tests.tools.connect.readers import Place, Reader, Row

CDC = "_cdc"
COMMIT_EVERY_MS = "2000"
ADDED = ("op", "source.ts_ns", "table")
"""What Debezium's transform adds to a row, as `__op`, `__source_ts_ns`, `__table`."""

Newest = Callable[[Mapping[str, Any]], tuple[int, bool]]
"""A record's place among those of its key, and whether it is a delete."""


def of_cdc(row: Mapping[str, Any]) -> tuple[int, bool]:
    """By the offset: all records of a key are in one partition."""
    return row[CDC]["offset"], row[CDC]["op"] == "D"


def of_flat(row: Mapping[str, Any]) -> tuple[int, bool]:
    """By the commit_ts: `source.ts_ns` rises with it."""
    return row["__source_ts_ns"], row["__op"] == "d"


def control_topic(reader: str) -> str:
    """The sink's own, for this reader alone."""
    return f"control-{reader}"


def _settings(place: Place, catalog: IcebergRest) -> dict[str, str]:
    return {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "iceberg.catalog.type": "rest",
        "iceberg.catalog.uri": catalog.uri,
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.tables.evolve-schema-enabled": "true",
        "iceberg.tables.schema-force-optional": "true",
        "iceberg.control.topic": control_topic(place.name),
        "iceberg.control.commit.interval-ms": COMMIT_EVERY_MS,
        "iceberg.kafka.bootstrap.servers": place.brokers,
        "errors.log.enable": "true",
    }


@contextmanager
def enveloped(place: Place, without: Sequence[str]) -> Iterator[Reader]:
    """By Iceberg's DebeziumTransform, routed to namespace and table of the source."""
    transforms = {
        "transforms": "debezium,drop" if without else "debezium",
        "transforms.debezium.type": "org.apache.iceberg.connect.transforms.DebeziumTransform",
        "iceberg.tables.dynamic-enabled": "true",
        "iceberg.tables.route-field": f"{CDC}.target",
    }
    with _reader(place, transforms, without, of_cdc) as reader:
        yield reader


@contextmanager
def flattened(place: Place, without: Sequence[str]) -> Iterator[Reader]:
    """By Debezium's ExtractNewRecordState, a delete being a row as well, as debezium-server-iceberg has it."""
    transforms = {
        "transforms": "unwrap,drop" if without else "unwrap",
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms.unwrap.delete.tombstone.handling.mode": "rewrite",
        "transforms.unwrap.add.fields": ",".join(ADDED),
        "iceberg.tables": ",".join(f"{table.schema}.{table.table}" for table in place.names),
        "iceberg.tables.route-field": "__table",
        **{f"iceberg.table.{table.schema}.{table.table}.route-regex": table.table for table in place.names},
    }
    with _reader(place, transforms, without, of_flat) as reader:
        yield reader


@contextmanager
def _reader(place: Place, transforms: Mapping[str, str], without: Sequence[str], newest: Newest) -> Iterator[Reader]:
    drop = {"transforms.drop.type": "org.apache.kafka.connect.transforms.ReplaceField$Value", "transforms.drop.exclude": ",".join(without)}
    with IcebergRest(place.folder / "catalog") as catalog:
        opened = partial(load_catalog, "readers", type="rest", uri=catalog.uri)
        settings = _settings(place, catalog) | dict(transforms) | (drop if without else {})
        yield Reader(settings, lambda schema: _rows(opened(), schema, newest), lambda table: len(_records(opened(), table)))


def _records(catalog: Catalog, name: TableName) -> list[dict[str, Any]]:
    place = (name.schema.lower(), name.table.lower())
    if not catalog.table_exists(place):
        return []
    rows: list[dict[str, Any]] = catalog.load_table(place).scan().to_arrow().to_pylist()
    return rows


def _rows(catalog: Catalog, schema: TableSchema, newest: Newest) -> list[Row]:
    """A column that has always been NULL is not there. Raises ValueError if nothing orders two versions of a key."""
    last: dict[tuple[Plain, ...], tuple[int, Row | None]] = {}
    columns = {column.name: column for column in schema.columns}
    for record in _records(catalog, schema.name):
        row = {name: of_connect(column, record.get(name)) for name, column in columns.items()}
        key = tuple(row[name] for name in schema.key)
        place, is_gone = newest(record)
        if last.get(key, (-1, None))[0] == place:
            raise ValueError(f"{schema.name}: two versions of {key} at {place}: nothing says which is newer")
        if last.get(key, (-1, None))[0] < place:
            last[key] = place, None if is_gone else tuple(row.values())
    return [row for _, row in last.values() if row is not None]
