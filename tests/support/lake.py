"""An Iceberg catalog of SQLite with a warehouse beside it, and its tables read as any reader does: by pyiceberg, at any snapshot."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.codecs.encode.typed import file_schema
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.places import Place, Shown
from tests.support.services.s3 import BUCKET, KEYS, S3

CATALOG, NAMESPACE = "prod", "lake"
S3_OPTIONS = {
    "endpoint": "s3.endpoint",
    "region": "s3.region",
    "access-key": "s3.access-key-id",
    "secret-access-key": "s3.secret-access-key",
}
Texts = tuple[str | None, ...]


def uri_of(folder: Path, *, warehouse: str = "", **parameters: str) -> str:
    """With the catalog's file in `folder`, and the warehouse too unless it is elsewhere."""
    folder.mkdir(parents=True, exist_ok=True)
    query = "".join(f"&{name.replace('_', '-')}={quote(value, safe='')}" for name, value in parameters.items())
    return f"iceberg://{CATALOG}/{NAMESPACE}?uri=sqlite:///{folder}/catalog.db&warehouse={warehouse or f'{folder}/warehouse'}{query}"


def on_s3(s3: S3, folder: Path, **parameters: str) -> str:
    """With the catalog's file in `folder`, and a warehouse of that path in a bucket."""
    keys = {"access_key": KEYS["AWS_ACCESS_KEY_ID"], "secret_access_key": KEYS["AWS_SECRET_ACCESS_KEY"]}
    place = {"endpoint": f"http://127.0.0.1:{s3.port}", "region": "us-east-1", **keys}
    return uri_of(folder, warehouse=f"s3://{BUCKET}/{folder.parent.name}", **place, **parameters)


def catalog_of(uri: str) -> Catalog:
    """As somebody else opens it."""
    qsl = dict(parse_qsl(urlsplit(uri).query))
    s3 = {name: qsl[own] for own, name in S3_OPTIONS.items() if own in qsl}
    return load_catalog(CATALOG, **{name: qsl[name] for name in ("uri", "type", "warehouse") if name in qsl}, **s3)


def tables_of(catalog: Catalog, namespace: str = NAMESPACE) -> Iterator[tuple[TableName, Table]]:
    for below in catalog.list_namespaces(namespace):
        for name in catalog.list_tables(below):
            yield TableName(name[-2], name[-1]), catalog.load_table(name)


def snapshot_at(table: Table, seq: int) -> int | None:
    """The snapshot with the table's rows up to that segment."""
    results = [(int(one.summary["ticdc-dump.seq"] or 0), one.snapshot_id) for one in table.metadata.snapshots if one.summary]
    return max((place for place in results if place[0] <= seq), default=(0, None))[1]


def rows_at(table: Table, seq: int | None = None) -> list[dict[str, Any]]:
    snapshot = table.metadata.current_snapshot_id if seq is None else snapshot_at(table, seq)
    return [] if snapshot is None else table.scan(snapshot_id=snapshot).to_arrow().to_pylist()


def committed(table: Table) -> Iterator[tuple[range, list[dict[str, Any]]]]:
    """Each commit's segments and rows, in order, with the columns that the table had then."""
    before = -1
    for snapshot in sorted(table.metadata.snapshots, key=lambda one: one.sequence_number or 0):
        if snapshot.summary and (reported := snapshot.summary["ticdc-dump.seq"]):
            yield (
                range(before + 1, int(reported) + 1),
                table.scan(f"_seq > {before}", snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist(),
            )
            before = int(reported)


def fold(rows: Sequence[Mapping[str, Any]], schema: TableSchema) -> list[Texts]:
    """The rows as they are, of a change log, in the schema's columns as canonical text: what the page has a reader do."""
    seq, ordinal, commit_ts, op, origin, _, untyped = file_schema(schema).names[:7]
    del seq
    last: dict[Texts, Texts | None] = {}
    for row in sorted(rows, key=lambda row: (row[commit_ts], row[op] != "delete", row[origin] == "dump", row[ordinal])):
        texts = image(row, schema, row[untyped])
        key = tuple(text for text, column in zip(texts, schema.columns, strict=True) if column.name in schema.key)
        last[key] = None if row[op] == "delete" else texts
    return [texts for texts in last.values() if texts is not None]


def image(row: Mapping[str, Any], schema: TableSchema, untyped: str | None) -> Texts:
    kept = json.loads(untyped) if untyped else {}
    return tuple(kept.get(column.name, text_of(column, row.get(column.name))) for column in schema.columns)


def text_of(column: Column, value: Any) -> str | None:
    """Canonical text (sidecar.shared.model.nouns.Kind)."""
    match value:
        case None:
            return None
        case bytes():
            return value.hex().upper()
        case datetime():
            text = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
            whole, micros = text.replace(microsecond=0).isoformat(" "), f"{text.microsecond:06d}"
            return f"{whole}.{micros[: column.scale]}" if column.scale else whole
        case date():
            return value.isoformat()
        case Decimal():
            return format(value, "f")
        case float():
            return repr(value)
        case int() if column.kind == "year":
            return f"{value:04d}"
        case _:
            return str(value)


def lake_place(uri: str) -> Place:
    """Its tables have the columns and key of spark_merge/testing/histories.py."""

    namespace = urlsplit(uri).path.strip("/")

    def rows() -> dict[TableName, list[Shown]]:
        catalog = catalog_of(uri)
        try:
            result = {name: [_shown(row) for row in rows_at(table)] for name, table in tables_of(catalog, namespace)}
        finally:
            catalog.close()
        return {name: shown for name, shown in result.items() if shown}

    return Place(uri, lambda log_id: open_sink(uri, log_id=log_id), rows, in_order=False)


def _shown(row: Mapping[str, Any]) -> Shown:
    image = (row["id"], str(row["part"]), row["v"])
    return row["_seq"], row["_commit_ts"], row["_op"], image[:2], None if row["_op"] == "delete" else image
