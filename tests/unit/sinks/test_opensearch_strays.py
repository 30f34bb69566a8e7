"""A document under another `_id` than its key's is not taken for the row of its key."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.port.keys import key_text
from spark_merge.port.kinds import SinkUri
from spark_merge.port.readable import RowsRead
from spark_merge.sinks.opensearch import reading
from spark_merge.sinks.opensearch.documents import ID_BYTES_MAX, doc_ids
from spark_merge.sinks.opensearch.reading import SlicePart
from spark_merge.sinks.opensearch.uri import settings_of
from spark_merge.verify.look import keys_read_twice

SCHEMA = TableSchema(TableName("shop", "t"), (Column("id", "int"), Column("part", "text"), Column("v", "text")), ("id", "part"))
LONG = "x" * ID_BYTES_MAX


class Session:
    """One page, then an empty one."""

    pages: list[list[dict[str, Any]]] = []  # noqa: RUF012  # of one test

    def __init__(self, *_: object, **__: object) -> None: ...

    def asked(self, *_: object, **__: object) -> str:
        hits = self.pages.pop(0)
        return json.dumps({"hits": {"hits": hits, "total": {"value": 4}}, "timed_out": False, "_shards": {"failed": 0}, "_scroll_id": "s"})

    def call(self, *_: object, **__: object) -> None: ...

    def close(self) -> None: ...


def hit(number: int, part: str, under: str) -> dict[str, Any]:
    return {"_id": under, "_source": {"id": number, "part": part, "v": "1"}}


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[RowsRead]:
    digest = doc_ids(key_text([pa.array(["4"]), pa.array([LONG])]))[0].as_py()
    page = [hit(1, "a", '["1","a"]'), hit(2, "b", '["2","b"]'), hit(3, "c", "by-somebody-else"), hit(4, LONG, digest)]
    monkeypatch.setattr(Session, "pages", [page, []])
    monkeypatch.setattr(reading, "OpenSearchSession", Session)
    uri = "opensearch://h:1/"
    settings = settings_of(SinkUri(uri, urlsplit(uri), {}, "log-1"))
    source = reading._Source(settings.server, "shop.t-v1", SCHEMA, settings.forms)
    return list(SlicePart(source, 0, 1)())


def test_a_document_under_another_id_is_a_row_too_many_and_no_other_one_is(found: list[RowsRead]) -> None:
    rows = pa.concat_tables([one.rows for one in found])
    assert rows.num_rows == 5
    assert keys_read_twice(SCHEMA, rows) == {'["3","c"]'}
