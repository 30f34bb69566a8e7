"""Documents, read back: a scroll over a slice of an index in each part, or the documents of some keys by their ids.

    position ─► the alias's index, refreshed ─► in tasks, each part: search, scroll, scroll, … , the scroll is ended

- Each scroll is of one moment, after the position: a search sees what was written before the index's refresh.
- Slices are by `_id` (or by shard, which `_id` decides), so a document is in one slice whenever each scroll begins.
- OpenSearch before 2.4 has no point in time, and Elasticsearch calls it otherwise: all have scrolls.
- A document under another `_id` than that of its key is given twice: it is a second row of its key, or becomes one with the next change.
- An answer that lacks a shard's rows is an error, and so is a scroll that ends before its last row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from opensearchpy.exceptions import TransportError

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableSchema
from sidecar.shared.process.progress import progressed
from spark_merge.port.contract import Accepted
from spark_merge.port.keys import key_text
from spark_merge.port.readable import Reading, RowForm, RowsRead
from spark_merge.sinks.opensearch.client import NOT_FOUND, OpenSearchServer, OpenSearchSession
from spark_merge.sinks.opensearch.documents import doc_ids
from spark_merge.sinks.opensearch.fields import Form, Forms
from spark_merge.sinks.opensearch.indices import Indices
from spark_merge.sinks.opensearch.parsed import NullsAreNull, rows_of

PAGE_BYTES, PAGE_ROWS_MIN, PAGE_ROWS_MAX = 8 << 20, 10, 5_000
"""Of an answer, about, by SAMPLED_ROWS documents."""

SAMPLED_ROWS = 50

PART_ROWS_MIN = 10_000
"""A smaller slice is not worth its scroll."""

SCROLL_KEPT = "5m"
"""From one page to the next. A part that dies leaves its scroll for so long."""

IDS_MAX = 200
"""Documents that are requested by id at once."""


_ABSENT = msgspec.Raw(b"")


class _Hit(msgspec.Struct):
    id: str = msgspec.field(name="_id")
    source: msgspec.Raw = msgspec.field(name="_source", default=_ABSENT)
    error: msgspec.Raw = _ABSENT


class _Total(msgspec.Struct):
    value: int


class _Hits(msgspec.Struct):
    hits: list[_Hit]
    total: _Total


class _Shards(msgspec.Struct):
    failed: int


class _Page(msgspec.Struct):
    hits: _Hits
    timed_out: bool
    shards: _Shards = msgspec.field(name="_shards")
    scroll_id: str = msgspec.field(name="_scroll_id", default="")


class _Documents(msgspec.Struct):
    docs: list[_Hit]


@dataclass(frozen=True, slots=True)
class _Source:
    """`index`: behind the alias. `page_rows`: at once."""

    server: OpenSearchServer
    index: str
    schema: TableSchema
    forms: Forms
    page_rows: int = PAGE_ROWS_MIN

    @property
    def path(self) -> str:
        return f"/{quote(self.index, safe='')}"

    @property
    def doing(self) -> str:
        return f"reading documents of {self.index}"

    def rows(self, sources: Sequence[msgspec.Raw]) -> RowsRead:
        return RowsRead(rows_of(sources, self.schema, self.forms))

    def rows_of_hits(self, hits: Sequence[_Hit]) -> Iterator[RowsRead]:
        rows = self.rows([hit.source for hit in hits])
        yield rows
        own = doc_ids(key_text([rows.rows.column(name) for name in self.schema.key]).combine_chunks())
        strays = pc.not_equal(own, pa.array([hit.id for hit in hits], pa.string()))
        if pc.any(strays).as_py():
            yield RowsRead(rows.rows.filter(strays))

    def incomplete(self, why: str) -> SinkError:
        return SinkError(f"{self.server}: {self.doing}: {why}", hint="see that all shards of the index are up, then read it again")


@dataclass(frozen=True, slots=True)
class SlicePart:
    """Slice `number` of `count`. Picklable."""

    source: _Source
    number: int
    count: int

    def __call__(self) -> Iterator[RowsRead]:
        source, read = self.source, 0
        with closing(OpenSearchSession(source.server, as_text=True)) as session:
            page = self._first(session)
            try:
                total = page.hits.total.value
                while page.hits.hits:
                    read += len(page.hits.hits)
                    yield from source.rows_of_hits(page.hits.hits)
                    page = self._next(session, page.scroll_id)
            finally:
                with suppress(TransportError):  # the server ends it after SCROLL_KEPT
                    session.call("DELETE", "/_search/scroll", {"scroll_id": [page.scroll_id]}, ignore=(NOT_FOUND,))
        if read != total:
            raise source.incomplete(f"{read} documents came of {total}")

    def _first(self, session: OpenSearchSession) -> _Page:
        body: dict[str, Any] = {"size": self.source.page_rows, "sort": ["_doc"], "track_total_hits": True}
        if self.count > 1:
            body["slice"] = {"id": self.number, "max": self.count}
        params = {"scroll": SCROLL_KEPT, "allow_partial_search_results": "false"}
        return self._page(session.asked(self.source.doing, "POST", f"{self.source.path}/_search", body, params=params))

    def _next(self, session: OpenSearchSession, scroll_id: str) -> _Page:
        """A page that was sent and did not arrive is not sent again: then the scroll ends before its last row."""
        body = {"scroll": SCROLL_KEPT, "scroll_id": scroll_id}
        return self._page(session.asked(self.source.doing, "POST", "/_search/scroll", body))

    def _page(self, text: str) -> _Page:
        progressed()
        page = msgspec.json.decode(text, type=_Page)
        if page.timed_out or page.shards.failed:
            raise self.source.incomplete(f"{page.shards.failed} shards did not answer")
        if not all(bytes(hit.source) for hit in page.hits.hits):
            raise self.source.incomplete("the index keeps no _source")
        return page


@dataclass(frozen=True, slots=True)
class IdsPart:
    """The documents with these ids, as far as they are there. Picklable."""

    source: _Source
    ids: tuple[str, ...]

    def __call__(self) -> Iterator[RowsRead]:
        source = self.source
        with closing(OpenSearchSession(source.server, as_text=True)) as session:
            for start in range(0, len(self.ids), IDS_MAX):
                body = {"ids": self.ids[start : start + IDS_MAX]}
                text = session.asked(source.doing, "POST", f"{source.path}/_mget", body)
                documents = msgspec.json.decode(text, type=_Documents).docs
                if wrong := b" ".join(bytes(one.error) for one in documents).strip():
                    raise source.incomplete(wrong.decode())
                if sources := [one.source for one in documents if bytes(one.source)]:
                    yield source.rows(sources)


def reading(indices: Indices, schema: TableSchema, accepted: Accepted | None, *, parts: int, keys: pa.Table | None) -> Reading:
    """`Readable.reading`, of a sink that has had `accepted` before. A table without an index has no rows while nothing is accepted."""
    session, settings = indices.session, indices.settings
    alias = settings.names.alias(schema.name)
    index = indices.there([alias]).get(alias)
    if index is None and accepted is not None:
        raise SinkError(
            f"{session.server}: alias {alias} leads to no index, and {schema.name} had rows there",
            hint="bring the index back from a snapshot; or make an empty one, let the alias lead there, and dump the table again",
        )
    if index is None:
        return Reading(None, exact=False, parts=())
    for problem, way_out in indices.misfits(schema, index):
        raise SinkError(problem, hint=f"if a schema change is being carried out, read again after it; else {way_out}")
    source = _Source(settings.server, index.name, schema, settings.forms)
    form = _form(schema, settings.forms)
    if keys is not None:
        ids = doc_ids(key_text([keys.column(name).combine_chunks() for name in schema.key]))
        return Reading(accepted, exact=False, parts=(IdsPart(source, tuple(ids.to_pylist())),), form=form)
    session.asked(source.doing, "POST", f"{source.path}/_refresh")
    rows = session.asked(source.doing, "GET", f"{source.path}/_count")["count"]
    count = max(1, min(parts, rows // PART_ROWS_MIN))
    source = replace(source, page_rows=_page_rows(source))
    return Reading(accepted, exact=False, parts=tuple(SlicePart(source, number, count) for number in range(count)), form=form)


def _page_rows(source: _Source) -> int:
    with closing(OpenSearchSession(source.server, as_text=True)) as session:
        text = session.asked(source.doing, "POST", f"{source.path}/_search", {"size": SAMPLED_ROWS})
    return max(PAGE_ROWS_MIN, min(PAGE_ROWS_MAX, PAGE_BYTES * SAMPLED_ROWS // len(text)))


def _form(schema: TableSchema, forms: Forms) -> RowForm | None:
    names = tuple(column.name for column in schema.columns if forms.form(column) is Form.RAW)
    return NullsAreNull(names) if names else None
