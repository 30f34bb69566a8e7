"""What the OpenSearch sink has, read back from a real node."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column
from spark_merge.sinks.opensearch import reading
from spark_merge.sinks.opensearch.client import OpenSearchSession
from tests.integration.test_opensearch_rows import KINDS
from tests.support.opensearch_place import uri_of
from tests.support.read_back import reading_of
from tests.support.reading_suite import LOG, ReadingOutput, ReadingSuite, bring, dumped
from tests.support.services.opensearch import OpenSearchNode

pytestmark = pytest.mark.xdist_group("opensearch")

numbers = itertools.count()

SMALLEST = "spark_merge.sinks.opensearch.reading.PART_ROWS_MIN"
ID = Column("id", "int", nullable=False)


def output_of(node: OpenSearchNode, **parameters: str) -> ReadingOutput:
    name = f"read{next(numbers)}"
    node.remove(f"{name}.*,position-{name}")
    values = {column: texts for column, texts in KINDS.items() if column.name != "id"}
    return ReadingOutput(uri_of(node, name, **parameters), "shop", values, SMALLEST)


def scrolls(node: OpenSearchNode) -> int:
    stats = node.ask("GET", "/_nodes/stats/indices/search")["nodes"]
    return sum(one["indices"]["search"]["scroll_current"] for one in stats.values())


class TestReading(ReadingSuite):
    @pytest.fixture
    def output(self, opensearch: OpenSearchNode) -> ReadingOutput:
        return output_of(opensearch)

    def test_no_scroll_is_left(
        self, output: ReadingOutput, opensearch: OpenSearchNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of a reader that reads all, and of one that stops amid it."""
        monkeypatch.setattr(reading, "PAGE_ROWS_MAX", 10)
        schema = output.table(ID, key=["id"])
        bring(output, tmp_path, schema, 1, [dumped(tmp_path, schema, 1, [(str(at),) for at in range(95)])])
        (part,) = reading_of(output.uri, schema, log_id=LOG, parts=1).parts
        assert [piece.rows.num_rows for piece in part()] == [10] * 9 + [5]
        assert scrolls(opensearch) == 0
        begun = part()
        next(begun)
        assert scrolls(opensearch) > 0
        begun.close()  # type: ignore[attr-defined]  # a generator
        assert scrolls(opensearch) == 0


def test_a_long_key_is_looked_up_by_its_hash(opensearch: OpenSearchNode, tmp_path: Path) -> None:
    output = output_of(opensearch)
    schema = output.table(Column("k", "text", nullable=False), key=["k"])
    rows = [("x" * 600,), ("y",)]
    bring(output, tmp_path, schema, 1, [dumped(tmp_path, schema, 1, rows)])
    assert output.read(schema, keys=rows) == rows


def test_jsons_that_are_objects_come_back_and_a_json_null_is_null(opensearch: OpenSearchNode, tmp_path: Path) -> None:
    output = output_of(opensearch, json="object")
    schema = output.table(ID, Column("j", "json"), Column("we'ird \"name", "json"), key=["id"])
    jsons = ['{"a":{"b":[1,null]},"x.y":1.50}', "[1]", "18446744073709551615", "null", None, '"null"', '"µ\\u0000"']
    rows = [(str(at), text, text) for at, text in enumerate(jsons)]
    bring(output, tmp_path, schema, 1, [dumped(tmp_path, schema, 1, rows)])
    result = reading_of(output.uri, schema, log_id=LOG, parts=1)
    assert result.form is not None
    assert output.read(schema) == [(one, None if text == "null" else text, None if text == "null" else text) for one, text, _ in rows]
    truth = pa.table([pa.array(column, pa.string()) for column in zip(*rows, strict=True)], names=list(schema.column_names()))
    assert [tuple(row.values()) for row in result.form(truth).to_pylist()] == output.read(schema)


def test_a_document_that_somebody_else_wrote_is_reported(opensearch: OpenSearchNode, tmp_path: Path) -> None:
    output = output_of(opensearch)
    schema = output.table(ID, key=["id"])
    bring(output, tmp_path, schema, 1, [dumped(tmp_path, schema, 1, [("1",)])])
    alias = output.uri.partition("index=")[2].partition(".")[0] + ".shop.t"
    opensearch.ask("POST", f"/{alias}/_doc?refresh=true", {"id": "2"})
    with pytest.raises(SinkError, match=r"a document of shop\.t has other fields"):
        output.read(schema)
    opensearch.ask("DELETE", f"/{alias}-v1")
    with pytest.raises(SinkError, match="leads to no index"):
        output.read(schema)


@pytest.mark.parametrize(("lost", "message"), [("a page", "85 documents came of 95"), ("a shard", "1 shards did not answer")])
def test_what_is_incomplete_is_an_error(
    opensearch: OpenSearchNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str, message: str
) -> None:
    monkeypatch.setattr(reading, "PAGE_ROWS_MAX", 10)
    output = output_of(opensearch)
    schema = output.table(ID, key=["id"])
    bring(output, tmp_path, schema, 1, [dumped(tmp_path, schema, 1, [(str(at),) for at in range(95)])])
    (part,) = reading_of(output.uri, schema, log_id=LOG, parts=1).parts
    requested, pages = OpenSearchSession.asked, itertools.count()

    def losing(session: OpenSearchSession, doing: str, method: str, path: str, *more: Any, **named: Any) -> Any:
        result = requested(session, doing, method, path, *more, **named)
        if path != "/_search/scroll" or next(pages) != 2:
            return result
        return requested(session, doing, method, path, *more, **named) if lost == "a page" else result.replace('"failed":0', '"failed":1')

    monkeypatch.setattr(OpenSearchSession, "asked", losing)
    with pytest.raises(SinkError, match=message):
        list(part())
    assert scrolls(opensearch) == 0
