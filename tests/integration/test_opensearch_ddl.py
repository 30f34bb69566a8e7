"""Schema changes at a real OpenSearch node, step by step: whatever step a worker dies at, the indices end as the tables are."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Column, ColumnDefinition, CommitTs, Seq, TableDefinition, TableName, TableSchema
from spark_merge.port.contract import Batch
from spark_merge.sinks.opensearch.client import OpenSearchSession
from spark_merge.sinks.opensearch.ddl import IndexDdlRunner
from spark_merge.sinks.opensearch.sink import OpenSearchSink
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.story import Died, mortal
from tests.lanes import LANE
from tests.support.deliveries import Segments, change, write
from tests.support.opensearch_place import rows_of, uri_of
from tests.support.services.opensearch import OpenSearchNode

pytestmark = pytest.mark.xdist_group("opensearch")

numbers = itertools.count()

Texts = tuple[str | None, ...]

A, B = TableName("s", "a"), TableName("s", "b")
ID, PRICE, BIG, TAGS = Column("id", "int"), Column("price", "decimal", length=9, scale=2), Column("big", "uint"), Column("tags", "set")
TABLE = TableSchema(A, (ID, PRICE, BIG, TAGS), ("id",), table_id=1, physical_ids=(1,))
OTHER = replace(TABLE, name=B, table_id=2, physical_ids=(2,))
ROWS: list[Texts] = [("1", "1.50", "18446744073709551615", "x,y"), ("2", None, "7", ""), ("3", "-0.01", None, None)]


class Rig:
    """An output whose worker dies and comes back. `schemas`: what the tables are."""

    def __init__(self, node: OpenSearchNode, folder: Path, **parameters: str) -> None:
        self.node, self.name = node, f"ddl{next(numbers)}"
        self.uri = uri_of(node, self.name, **parameters)
        self.log = open_folder(str(folder))
        self.schemas: list[TableSchema] = []
        self.seq = 0

    def sink(self) -> OpenSearchSink:
        sink = open_sink(self.uri, log_id="log")
        assert isinstance(sink, OpenSearchSink)
        return sink

    def segment(self, sink: OpenSearchSink, rows: Sequence[tuple[TableName, Texts]], query: str, now: Sequence[TableSchema]) -> Batch:
        """Rows, and a DDL at the end, up to `accept`, which is the caller's."""
        made = [change(self.seq, 100 * self.seq - 50, after=row, table=table, ordinal=at) for at, (table, row) in enumerate(rows)]
        segments = Segments([self.seq], made)
        batch, self.outcomes = write(sink, segments, log=self.log, schemas={schema.name: schema for schema in self.schemas})
        ddls = (DdlRecord(CommitTs(100 * self.seq), "s", query.split()[2], query),) if query else ()
        (head,) = batch.heads
        manifest = replace(head.manifest, ddls=ddls, next_schemas="next" if query else None)
        return replace(batch, heads=(replace(head, manifest=manifest, next_schemas={schema.name: schema for schema in now}),))

    def bring(self, rows: Sequence[tuple[TableName, Texts]] = (), query: str = "", now: Sequence[TableSchema] | None = None) -> None:
        self.seq += 1
        later = list(self.schemas if now is None else now)
        while True:
            sink = self.sink()
            try:
                standing = sink.open(epoch=None)
                if standing.accepted is not None and standing.accepted.seq == self.seq:
                    break  # the previous worker died after its last request
                sink.accept(self.segment(sink, rows, query, later), self.outcomes)
                break
            except Died:
                continue
            finally:
                sink.close()
        self.schemas = later

    def rows(self, schema: TableSchema) -> list[Texts]:
        return sorted(rows_of(self.node, self.name, schema), key=repr)

    def indices(self) -> list[str]:
        return sorted(self.node.ask("GET", f"/{self.name}.*"))


@pytest.fixture
def rig(opensearch: OpenSearchNode, tmp_path: Path) -> Rig:
    result = Rig(opensearch, tmp_path)
    result.schemas = [TABLE, OTHER]
    result.bring([(A, row) for row in ROWS])
    return result


def longer(schema: TableSchema, *columns: Column, name: TableName | None = None) -> TableSchema:
    made = tuple(ColumnDefinition(column.name, "…") for column in columns)
    return replace(schema, columns=(*schema.columns, *columns), name=name or schema.name, definition=TableDefinition(made))


RESHAPED = replace(
    TABLE,
    columns=(ID, Column("cost", "decimal", length=12, scale=4), Column("big", "text"), Column("tags", "text")),
)
STEPS: dict[str, tuple[str, list[TableSchema], TableName, list[Texts]]] = {
    "rename": ("RENAME TABLE a TO b, b TO a", [replace(TABLE, name=B), replace(OTHER, name=A)], B, ROWS),
    "truncate": ("TRUNCATE TABLE a", [replace(TABLE, table_id=9, physical_ids=(9,)), OTHER], A, []),
    "drop": ("DROP TABLE a", [OTHER], A, []),
    "reshape": (
        "ALTER TABLE a CHANGE price cost decimal(12, 4), MODIFY big text, MODIFY tags text",
        [RESHAPED, OTHER],
        A,
        [("1", "1.5000", "18446744073709551615", "x,y"), ("2", None, "7", ""), ("3", "-0.0100", None, None)],
    ),
    "add": ("ALTER TABLE a ADD COLUMN n text", [longer(TABLE, Column("n", "text")), OTHER], A, [(*row, None) for row in ROWS]),
}


@pytest.mark.parametrize("step", STEPS)
def test_whatever_request_a_worker_dies_at_a_change_is_done_once(rig: Rig, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Its rows before it are in it, and those after it are left alone, though the batch is done again and again."""
    query, now, at, expected = STEPS[step]
    life = mortal(monkeypatch, OpenSearchSession, "call")
    dying = itertools.count(3, 1 if LANE.whole else 5)
    call = rig.sink

    def reborn() -> OpenSearchSink:
        life.left = next(dying)
        return call()

    monkeypatch.setattr(rig, "sink", reborn)
    rig.bring([(A, ROWS[0])], query, now)
    life.left = -1
    monkeypatch.setattr(rig, "sink", call)
    schema = next((schema for schema in now if schema.name == at), replace(TABLE, name=at))
    assert rig.rows(schema) == sorted(expected, key=repr)
    later: Texts = ("5", *[None] * (len(schema.columns) - 1))
    if schema in now:
        rig.bring([(at, later)])
        assert rig.rows(schema) == sorted([*expected, later], key=repr)
    assert len(rig.indices()) == len(now), "none is left over"


def test_who_only_ends_the_first_batch_makes_no_index_again(
    opensearch: OpenSearchNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has looked at no table, and something is accepted from then on: an index that is gone had rows."""
    rig, (query, now, _, _) = Rig(opensearch, tmp_path), STEPS["add"]
    rig.schemas, rig.seq = [TABLE, OTHER], 1
    first = rig.sink()
    first.open(epoch=None)
    batch = rig.segment(first, [(B, ROWS[0])], query, now)
    with monkeypatch.context() as patch:
        patch.setattr(IndexDdlRunner, "carry_out", mock.Mock(side_effect=Died))
        with pytest.raises(Died):
            first.accept(batch, rig.outcomes)
    first.close()
    with closing(rig.sink()) as sink:
        assert sink.open(epoch=None).begun is not None
        sink.accept(rig.segment(sink, [(B, ROWS[0])], query, now), rig.outcomes)
        rig.schemas, rig.seq = now, 2
        (index,) = (name for name in rig.indices() if ".s.b-" in name)
        rig.node.ask("DELETE", f"/{index}")
        with pytest.raises(SinkError, match="leads to no index"):
            rig.segment(sink, [(B, ROWS[1])], "", now)


def test_a_previous_owner_that_slept_before_it_carries_out_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does one that slept between asking whose it is and the request itself, where that replaces an index."""
    previous = rig.sink()
    previous.open(epoch=None)
    rig.seq += 1
    now = [replace(TABLE, table_id=9, physical_ids=(9,)), OTHER]
    batch, outcomes = rig.segment(previous, [], "TRUNCATE TABLE a", now), rig.outcomes
    lead, asleep = OpenSearchSession.asked, list[object]()

    def sleeps(session: OpenSearchSession, doing: str, method: str, path: str, *more: object, **named: object) -> object:
        if path == "/_aliases" and not asleep:
            asleep.append(None)
            rig.seq -= 1
            rig.bring([], "TRUNCATE TABLE a", now)
            rig.bring([(A, ROWS[1])])
        return lead(session, doing, method, path, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(OpenSearchSession, "asked", sleeps)
    with pytest.raises((OwnershipLost, SinkError)):
        previous.accept(batch, outcomes)
    assert asleep
    assert rig.rows(TABLE) == [ROWS[1]]
    with pytest.raises(OwnershipLost):
        previous.accept(batch, outcomes)


def test_a_column_that_comes_back_has_nothing_of_the_previous_one(rig: Rig) -> None:
    less = replace(TABLE, columns=(ID, PRICE, TAGS))
    rig.bring([], "ALTER TABLE a DROP COLUMN big", [less, OTHER])
    assert rig.rows(less) == sorted([(one, price, tags) for one, price, _, tags in ROWS], key=repr)
    more = longer(less, BIG)
    rig.bring([], "ALTER TABLE a ADD COLUMN big bigint unsigned", [more, OTHER])
    assert rig.rows(more) == sorted([(one, price, tags, None) for one, price, _, tags in ROWS], key=repr)


def test_what_cannot_be_followed_stops_and_goes_on_by_the_operators_word(rig: Rig) -> None:
    now = [replace(TABLE, columns=(ID, PRICE, BIG, Column("tags", "enum"))), OTHER]
    with pytest.raises(SinkError, match=r"segment 2, the DDL at commit_ts 200, .*column tags of s\.a was set and is enum"):
        rig.bring([], "ALTER TABLE a MODIFY tags enum('x')", now)
    assert rig.rows(TABLE) == sorted(ROWS, key=repr)
    rig.seq, uri = 1, rig.uri
    rig.uri = f"{uri}&ddl-anew=200"
    rig.bring([], "ALTER TABLE a MODIFY tags enum('x')", now)
    assert rig.rows(now[0]) == []
    rig.uri = f"{uri}&ddl-done=300"
    rig.bring([], "DROP TABLE b", now[:1])
    assert any(".s.b-" in index for index in rig.indices()), "it was named as done"


def test_documents_keep_their_versions_when_they_are_written_again(rig: Rig) -> None:
    """So a row of before that is sent again changes nothing."""
    rig.bring([], *STEPS["reshape"][:2])
    result = rig.node.ask("GET", f"/{rig.name}.s.a/_search?version=true")["hits"]["hits"]
    assert {hit["_version"] for hit in result} == {2 * 50 + 1}


def test_a_table_that_is_made_has_an_index_before_its_first_row(rig: Rig) -> None:
    made = TableSchema(TableName("s", "c"), (ID,), ("id",), table_id=3, physical_ids=(3,))
    rig.bring([], "CREATE TABLE c (id int primary key)", [TABLE, OTHER, made])
    assert any(".s.c-v3" in index for index in rig.indices())
    assert rig.rows(made) == []
    assert Seq(rig.seq) == 2
