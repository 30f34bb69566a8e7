"""A real OpenSearch node as a sink's target: its URI, and its documents as canonical text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode

import stamina

from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.sinks.opensearch.fields import Form, Forms
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.histories import COLUMNS
from spark_merge.testing.places import Place, Shown
from tests.support.services.opensearch import OpenSearchNode

Texts = tuple[str | None, ...]

PAGE = 5_000
BUSY_S_MAX = 300.0


def uri_of(node: OpenSearchNode, name: str, **parameters: str) -> str:
    """`name`: of the output: what its indices begin with, and its position's ends with."""
    result = {"index": f"{name}.{{schema}}.{{table}}", "position-index": f"position-{name}", "replicas": "0", "shards": "1"}
    result |= {key.replace("_", "-"): value for key, value in parameters.items()}
    return f"opensearch://{node.host}/?{urlencode(result)}"


def rows_of(node: OpenSearchNode, name: str, schema: TableSchema) -> list[Texts]:
    """All rows of a table, in its columns; none where there is no index. Of `json=text`."""
    alias = f"{name}.{schema.name.schema}.{schema.name.table}".lower()
    return [tuple(_text(column, source.get(column.name)) for column in schema.columns) for source in documents(node, alias)]


def documents(node: OpenSearchNode, alias: str) -> Iterator[dict[str, Any]]:
    """Numbers are text, as they stand there."""
    path = f"/{quote(alias, safe='')}"
    try:
        _read(node, f"{path}/_refresh", None)
    except HTTPError as error:
        if error.code == 404:
            return
        raise
    result = _read(node, f"{path}/_search?scroll=1m", {"size": PAGE, "sort": ["_doc"]})
    while hits := result["hits"]["hits"]:
        yield from (hit["_source"] for hit in hits)
        result = _read(node, "/_search/scroll", {"scroll": "1m", "scroll_id": result["_scroll_id"]})
    node.ask("DELETE", "/_search/scroll", {"scroll_id": [result["_scroll_id"]]})


def history_place(node: OpenSearchNode, name: str, *, tables: int, **parameters: str) -> Place:
    """The tables of spark_merge/testing/histories.py."""
    node.remove(f"{name}.*,position-{name}")
    schemas = [TableSchema(TableName("s", f"t{table}"), COLUMNS, ("id", "part")) for table in range(tables)]

    def rows() -> dict[TableName, list[Shown]]:
        result = {schema.name: rows_of(node, name, schema) for schema in schemas}
        return {table: [(0, 0, "insert", row[:2], row) for row in rows] for table, rows in result.items() if rows}

    uri = uri_of(node, name, **parameters)
    return Place(uri, lambda log_id: open_sink(uri, log_id=log_id), rows, newest=True)


def _is_busy(error: Exception) -> bool:
    """A node whose heap is full of what nobody needs any more says so until it has collected it."""
    return isinstance(error, HTTPError) and error.code == HTTPStatus.TOO_MANY_REQUESTS


@stamina.retry(on=_is_busy, timeout=BUSY_S_MAX, attempts=None)
def _read(node: OpenSearchNode, path: str, body: object) -> Any:
    return json.loads(node.text("POST", path, body), parse_int=str, parse_float=str)


def _text(column: Column, value: Any) -> str | None:
    if value is None:
        return None
    match Forms().form(column):
        case Form.NUMBER:
            return repr(float(value)) if column.kind in ("float", "double") else str(value)
        case Form.YEAR:
            return str(value).rjust(4, "0")
        case Form.LABELS:
            return ",".join(_labels(value))
        case _:
            assert isinstance(value, str)
            return value


def _labels(labels: Sequence[str]) -> Sequence[str]:
    assert isinstance(labels, list)
    return labels
