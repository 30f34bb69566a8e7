"""What a real OpenSearch node makes of rows: every kind of value comes back as it was, a search finds it, and what it refuses is told."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.sinks.opensearch import bulk, client
from spark_merge.sinks.opensearch.client import OpenSearchSession
from spark_merge.sinks.opensearch.fit import holds_rows, misfits
from spark_merge.sinks.opensearch.indices import Indices
from spark_merge.sinks.opensearch.sink import OpenSearchSink
from spark_merge.sinks.opensearch.uri import settings_of
from spark_merge.sinks.registry import _read, open_sink
from spark_merge.testing import histories
from spark_merge.testing.story import TABLES, Story
from tests.support.deliveries import Segments, change, deliver, opened
from tests.support.opensearch_place import documents, history_place, rows_of, uri_of
from tests.support.services.opensearch import OpenSearchNode

pytestmark = pytest.mark.xdist_group("opensearch")

numbers = itertools.count()

T = TableName("shop", "kinds")
KINDS: Mapping[Column, tuple[str | None, ...]] = {
    Column("id", "int", nullable=False): ("-9223372036854775808", "9223372036854775807", "0", "5"),
    Column("u", "uint"): ("18446744073709551615", "9223372036854775808", "0", None),
    Column("b", "bit", length=64): ("18446744073709551615", "1", "0", None),
    Column("d", "decimal", length=65, scale=30): ("9" * 35 + "." + "9" * 30, "-" + "9" * 35 + "." + "9" * 30, "0." + "0" * 30, None),
    Column("f", "float"): ("3.4028234663852886e+38", "0.10000000149011612", "-0.0", None),
    Column("g", "double"): ("1.7976931348623157e+308", "5e-324", "0.1", None),
    Column("day", "date"): ("0000-00-00", "2020-02-30", "9999-12-31", None),
    Column("at", "datetime", scale=6): ("0000-00-00 00:00:00.000000", "2020-02-30 23:59:59.999999", "2024-02-29 12:00:00.000001", None),
    Column("ts", "timestamp", scale=3): ("0000-00-00 00:00:00.000", "1970-01-01 00:00:01.000", "2038-01-19 03:14:07.999", None),
    Column("took", "time", scale=3): ("838:59:59.000", "-838:59:59.000", "00:00:00.001", None),
    Column("y", "year"): ("0000", "1901", "2155", None),
    Column("bin", "binary", length=4): ("00000000", "DEADBEEF", "FFFFFFFF", None),
    Column("e", "enum", elements=("a", "b\\c")): ("", "a", "b\\c", None),
    Column("s", "set", elements=("a", 'b"', "c")): ("", 'a,b",c', "c", None),
    Column("j", "json"): ('{"a": [1, 2.50, "µ\\n"]}', "null", '"text"', None),
    Column("t", "text"): ("", "x" * 40_000, '\u0000\u001f\u007f"\\/\u2028😀\n', None),
    Column("v", "vector"): ("[1,2.5]", "[]", "[0]", None),
}
SCHEMA = TableSchema(T, tuple(KINDS), ("id",))
ROWS = list(zip(*KINDS.values(), strict=True))


def new(node: OpenSearchNode, **parameters: str) -> tuple[str, str]:
    name = f"rows{next(numbers)}"
    node.remove(f"{name}.*,position-{name}")
    return name, uri_of(node, name, **parameters)


def bring(uri: str, folder: Path, rows: list[Any], schema: TableSchema = SCHEMA, *, seq: int = 1) -> OpenSearchSink:
    sink = opened(open_sink(uri, log_id="log"))
    assert isinstance(sink, OpenSearchSink)
    made = [change(seq, 100 * seq - 50 + at, after=row, table=schema.name, ordinal=at) for at, row in enumerate(rows)]
    deliver(sink, Segments([seq], made), log=open_folder(str(folder)), schemas={schema.name: schema})
    return sink


def hits(node: OpenSearchNode, alias: str, query: dict[str, Any]) -> list[int]:
    node.ask("POST", f"/{alias}/_refresh")
    result = node.ask("POST", f"/{alias}/_search", {"query": query, "size": 100})
    return sorted(hit["_source"]["id"] for hit in result["hits"]["hits"])


def test_every_kind_of_value_comes_back_as_it_was_and_is_found(opensearch: OpenSearchNode, tmp_path: Path) -> None:
    name, uri = new(opensearch)
    bring(uri, tmp_path, ROWS).close()
    result = {row[0]: row for row in rows_of(opensearch, name, SCHEMA)}
    assert result == {row[0]: row for row in ROWS}
    alias = f"{name}.shop.kinds"
    least, most = -9223372036854775808, 9223372036854775807
    assert hits(opensearch, alias, {"term": {"u": "18446744073709551615"}}) == [least]
    assert hits(opensearch, alias, {"range": {"u": {"gte": "9223372036854775808"}}}) == [least, most]
    assert hits(opensearch, alias, {"term": {"d": "-" + "9" * 35 + "." + "9" * 30}}) == [most]
    assert hits(opensearch, alias, {"term": {"s": 'b"'}}) == [most]
    assert hits(opensearch, alias, {"term": {"bin": "DEADBEEF"}}) == [most]
    assert hits(opensearch, alias, {"range": {"day.keyword": {"lt": "2020-03-01"}}}) == [least, most]
    assert hits(opensearch, alias, {"range": {"at.keyword": {"gte": "2024-02-29 12:00:00.000001"}}}) == [0]
    assert hits(opensearch, alias, {"range": {"at": {"gte": "2024-02-29 12:00:00.000000"}}}) == [0]
    assert hits(opensearch, alias, {"exists": {"field": "y"}}) == [least, 0, most]


@pytest.mark.parametrize("field", ["day", "at"])
def test_a_date_that_no_calendar_has_is_in_no_index_of_dates(opensearch: OpenSearchNode, tmp_path: Path, field: str) -> None:
    """Nor as a day near it."""
    name, uri = new(opensearch)
    bring(uri, tmp_path, ROWS).close()
    assert hits(opensearch, f"{name}.shop.kinds", {"range": {field: {"gte": "2020-01-01" + " 00:00:00.000000" * (field == "at")}}}) == [0]
    assert hits(opensearch, f"{name}.shop.kinds", {"term": {"_ignored": field}}) == [-9223372036854775808, 9223372036854775807]


def test_decimals_and_jsons_are_otherwise_by_option(opensearch: OpenSearchNode, tmp_path: Path) -> None:
    name, uri = new(opensearch, decimal="scaled_float", json="object")
    columns = (Column("id", "int"), Column("price", "decimal", length=15, scale=2), Column("j", "json"))
    schema = TableSchema(T, columns, ("id",))
    jsons = ['{"a": {"b": [1, null]}, "x.y": 1.5}', "[1]", "5", "null", None]
    rows: list[list[str | None]] = [[str(at), f"{at}9999999999999.99"[-16:], text] for at, text in enumerate(jsons)]
    bring(uri, tmp_path, rows, schema).close()
    alias = f"{name}.shop.kinds"
    opensearch.ask("POST", f"/{alias}/_refresh")
    result = {hit["_source"]["id"]: hit["_source"] for hit in opensearch.ask("GET", f"/{alias}/_search")["hits"]["hits"]}
    assert [result[at]["j"] for at in range(5)] == [None if text is None else json.loads(text) for text in jsons]
    assert hits(opensearch, alias, {"term": {"price": rows[3][1]}}) == [
        at for at, row in enumerate(rows) if float(row[1] or 0) == float(rows[3][1] or 0)
    ]
    assert {row["price"] for row in documents(opensearch, alias)} == {row[1] for row in rows}


def test_a_row_that_is_refused_is_reported_by_table_key_and_reason(opensearch: OpenSearchNode, tmp_path: Path) -> None:
    name, uri = new(opensearch)
    bring(uri, tmp_path, ROWS[:1]).close()
    (physical,) = opensearch.ask("GET", f"/{name}.shop.kinds")
    opensearch.ask("PUT", f"/{physical}/_mapping", {"properties": {"t": {"type": "text", "fields": {"n": {"type": "integer"}}}}})
    with pytest.raises(SinkError, match=r'1 rows are not taken: row \["5"\] of shop\.kinds: .*t\.n') as error:
        bring(uri, tmp_path, [["5", *[None] * 14, "no number", None]], seq=2)
    assert "mapping" in error.value.hint


def test_what_has_no_room_is_sent_again_and_reported_when_it_lasts(
    opensearch: OpenSearchNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request refuses every other row, until one row alone is refused for ever."""
    name, uri = new(opensearch)
    monkeypatch.setattr(client, "OPENSEARCH_RETRY_FIRST_S", 0.001)
    call, busy = OpenSearchSession.call, {"status": 429, "error": {"type": "rejected", "reason": "the queue is full"}}

    def refusing(session: OpenSearchSession, method: str, path: str, body: Any = None, *more: Any) -> Any:
        if path != "/_bulk":
            return call(session, method, path, body, *more)
        parts = body.splitlines(keepends=True)
        actions = [b"".join(parts[at : at + 2]) for at in range(0, len(parts), 2)]
        taken = call(session, method, path, b"".join(actions[::2]), *more)["items"] if len(actions) > 1 or last else []
        return {"errors": True, "items": [taken[at // 2] if taken and at % 2 == 0 else {"index": busy} for at in range(len(actions))]}

    monkeypatch.setattr(OpenSearchSession, "call", refusing)
    last = True
    bring(uri, tmp_path, ROWS)
    assert len(rows_of(opensearch, name, SCHEMA)) == len(ROWS)
    last = False
    monkeypatch.setattr(client, "RETRY_S", 0.1)
    with pytest.raises(SinkError, match=r"1 rows are not taken: row .* the queue is full \(status 429\)") as error:
        bring(uri, tmp_path, ROWS, seq=2)
    assert "continues automatically" in error.value.hint


def test_a_request_holds_a_row_once_and_no_more_than_it_may(
    opensearch: OpenSearchNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, uri = new(opensearch, bulk_rows="3", bulk_bytes="100000")
    sizes: list[tuple[int, int]] = []
    body_of = bulk._body

    def noted(lines: Any) -> bytes:
        body = body_of(lines)
        sizes.append((len(lines), len(body)))
        return body

    monkeypatch.setattr(bulk, "_body", noted)
    schema = TableSchema(T, (Column("id", "int"), Column("t", "text")), ("id",))
    bring(uri, tmp_path, [[str(at % 10), str(at)] for at in range(20)] + [["99", "x" * 200_000], ["100", "y"]], schema).close()
    assert {row[0]: row[1] for row in rows_of(opensearch, name, schema)} == {
        **{str(at): str(at + 10) for at in range(10)}, "99": "x" * 200_000, "100": "y",
    }  # fmt: skip
    assert all(count <= 3 and (size <= 100_000 or count == 1) for count, size in sizes)


def test_a_worker_that_slept_between_two_requests_sends_no_more(
    opensearch: OpenSearchNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "TABLES", TABLES)
    story = Story(tmp_path, history_place(opensearch, f"slept{next(numbers)}", tables=TABLES), seed=11)
    _, work = story.begin(story.place.sink())
    story.finish()
    for late in work:
        with pytest.raises(OwnershipLost):
            late.carry_out()
    story.check_end()


# ---- the indices -----------------------------------------------------------------------------------------------------


def test_what_is_there_and_does_not_fit_is_reported_before_and_stops(opensearch: OpenSearchNode, tmp_path: Path) -> None:
    name, uri = new(opensearch)
    alias, sink_uri = f"{name}.shop.kinds", _read(uri, "log")[1]
    assert list(misfits(sink_uri, [SCHEMA])) == []
    assert not holds_rows(sink_uri)
    opensearch.ask("PUT", f"/{alias}")
    with pytest.raises(SinkError, match="is an index itself"):
        bring(uri, tmp_path, ROWS)
    opensearch.ask("DELETE", f"/position-{name}")
    opensearch.ask("POST", f"/{alias}/_doc?refresh=true", {"id": 1})
    assert holds_rows(sink_uri)
    opensearch.ask("DELETE", f"/{alias}")
    other = {"mappings": {"properties": {"id": {"type": "keyword"}}}, "settings": {"index.translog.durability": "async"}}
    opensearch.ask("PUT", f"/{name}.hand", {**other, "aliases": {alias: {}}})
    problems = [problem for problem, _ in misfits(sink_uri, [SCHEMA])]
    assert [problem.split(" has ")[0].split(" of index")[0] for problem in problems] == [f"index {name}.hand", "field id"]
    with pytest.raises(SinkError, match="durability async"):
        bring(uri, tmp_path, ROWS)
    opensearch.ask("DELETE", f"/{name}.hand")
    opensearch.ask("PUT", f"/{name}.part", {"mappings": {"_source": {"excludes": ["v"]}}, "aliases": {alias: {}}})
    assert ["keeps less of a document than it gets" in problem for problem, _ in misfits(sink_uri, [SCHEMA])] == [True]
    opensearch.ask("DELETE", f"/{name}.part")
    opensearch.ask("PUT", f"/{name}.hand", {**other, "aliases": {alias: {}}})
    opensearch.ask("PUT", f"/{name}.more", {"aliases": {alias: {}}})
    with pytest.raises(SinkError, match="leads to"):
        bring(uri, tmp_path, ROWS)


def test_an_index_that_somebody_deleted_is_not_made_again_empty(opensearch: OpenSearchNode, tmp_path: Path) -> None:
    name, uri = new(opensearch)
    bring(uri, tmp_path, ROWS)
    opensearch.remove(f"{name}.*")
    with pytest.raises(SinkError, match=r"leads to no index, and shop\.kinds had rows there"):
        bring(uri, tmp_path, ROWS, seq=2)


def test_another_logs_index_is_refused_though_the_position_is_elsewhere(opensearch: OpenSearchNode, tmp_path: Path) -> None:
    name, uri = new(opensearch)
    bring(uri, tmp_path, ROWS)
    elsewhere = opened(open_sink(uri.replace(f"position-{name}", f"position-{name}-b"), log_id="other"))
    made = [change(1, 50, after=ROWS[0], table=T)]
    with pytest.raises(SinkError, match="has the rows of log log, this is log other"):
        deliver(elsewhere, Segments([1], made), log=open_folder(str(tmp_path)), schemas={T: SCHEMA})


def test_an_index_that_is_there_gets_the_fields_and_the_memory_for_deletes_that_it_needs(
    opensearch: OpenSearchNode, tmp_path: Path
) -> None:
    name, uri = new(opensearch, gc_deletes="2h")
    opensearch.ask("PUT", f"/{name}.hand", {"aliases": {f"{name}.shop.kinds": {}}})
    bring(uri, tmp_path, ROWS)
    settings = settings_of(_read(uri, "log")[1])
    index = Indices(OpenSearchSession(settings.server), settings, log_id="log").there([f"{name}.shop.kinds"])[f"{name}.shop.kinds"]
    assert (index.name, index.gc_deletes, sorted(index.columns)) == (f"{name}.hand", "2h", sorted(SCHEMA.column_names()))
    assert index.fields["u"] == {"type": "unsigned_long"}


def test_rows_are_visible_at_accept_by_option(opensearch: OpenSearchNode, tmp_path: Path) -> None:
    for refresh, visible in (("accept", len(ROWS)), ("interval", 0)):
        name, uri = new(opensearch, refresh=refresh)
        opened(open_sink(uri, log_id="log"))
        opensearch.ask("PUT", f"/{name}.hand", {"settings": {"index.refresh_interval": "-1"}, "aliases": {f"{name}.shop.kinds": {}}})
        bring(uri, tmp_path, ROWS)
        assert opensearch.ask("GET", f"/{name}.shop.kinds/_count")["count"] == visible
