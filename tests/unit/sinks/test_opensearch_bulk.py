"""What a bulk request holds. What a server answers: tests/integration/test_opensearch_failures.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import pyarrow as pa

from sidecar.shared.model.nouns import TableName
from spark_merge.sinks.opensearch.bulk import Bulk, BulkRows
from spark_merge.sinks.opensearch.client import OpenSearchSession
from spark_merge.sinks.opensearch.position import OwnedPosition

ORDERS, ITEMS = TableName("shop", "orders"), TableName("shop", "items")


class Server:
    """A session that takes everything, and whose index is ours. `bodies`: of the requests, a line a row."""

    def __init__(self) -> None:
        self.bodies: list[list[Any]] = []
        self.doing: list[str] = []

    def retried(self, action: Callable[[], Any], *, doing: str) -> Any:
        self.doing.append(doing)
        return action()

    def call(self, method: str, path: str, body: bytes, params: object) -> dict[str, Any]:
        self.bodies.append([json.loads(line) for line in body.splitlines()])
        return {"errors": False}

    def check(self, _: object) -> None:
        """As `OwnedPosition.check`."""


def rows(table: TableName, *value: tuple[str, int]) -> BulkRows:
    lines = [json.dumps([table.table, name, number]) + "\n" for name, number in value]
    return BulkRows(table, pa.array([name for name, _ in value]), pa.array(lines))


def sent(*parts: BulkRows, rows_max: int = 100) -> list[list[Any]]:
    server = Server()
    bulk = Bulk(cast(OpenSearchSession, server), cast(OwnedPosition, server), bytes_max=1 << 20, rows_max=rows_max)
    for part in parts:
        bulk.add(part)
    bulk.flush()
    return server.bodies


def test_a_document_that_comes_twice_in_one_part_is_sent_once_as_it_came_last() -> None:
    assert sent(rows(ORDERS, ("1", 10), ("2", 20), ("1", 11))) == [[["orders", "2", 20], ["orders", "1", 11]]]


def test_a_document_that_comes_again_in_a_later_part_is_sent_once_as_it_came_last() -> None:
    assert sent(rows(ORDERS, ("1", 10)), rows(ORDERS, ("2", 20), ("1", 11))) == [[["orders", "2", 20], ["orders", "1", 11]]]


def test_documents_of_one_id_in_two_tables_are_two() -> None:
    assert sent(rows(ORDERS, ("1", 10)), rows(ITEMS, ("1", 11))) == [[["orders", "1", 10], ["items", "1", 11]]]


def test_a_document_that_comes_again_in_a_later_request_is_sent_again() -> None:
    assert sent(rows(ORDERS, ("1", 10), ("1", 11)), rows_max=1) == [[["orders", "1", 10]], [["orders", "1", 11]]]


def test_a_row_that_is_a_request_by_itself_is_named_with_its_bytes_in_an_error() -> None:
    """Of the request as a whole: a server rejects one that is too large without an item."""
    server = Server()
    bulk = Bulk(cast(OpenSearchSession, server), cast(OwnedPosition, server), bytes_max=60, rows_max=100)
    bulk.add(rows(ORDERS, ("1", 10), ("2", 20), ("x" * 100, 30)))
    bulk.flush()
    assert server.doing == ["writing rows", f"writing row {'x' * 100} of shop.orders, 119 bytes"]
