"""DDLs that the filter leaves out come by a lane of their own, at their commit_ts, or stop the stream by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest

from sidecar.adapters.memory.log import MemoryLog
from sidecar.feeds.contract import HIDDEN_LANE
from sidecar.feeds.encoded import hidden
from sidecar.feeds.encoded.hidden import CodecWithCuts, WithHiddenDdls
from sidecar.pipeline import Outside, Pipeline, PipelineLimits, attach
from sidecar.shared.errors import FeedUnsuitable, SourceError, SourceLost
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.model.nouns import Column, CommitTs, Lane, Message, TableName
from sidecar.shared.schema.ddl import FinishedDdl
from sidecar.shared.ticdc.changefeed import EventFilter, FeedFilter
from sidecar.shared.ticdc.ddl_rules import DdlRules
from tests.support.changes import put, resolved
from tests.support.eventually import PATIENCE_S
from tests.unit.adapters.test_tidb_follow import OLD, Followed, History, T, table, tables
from tests.unit.test_pipeline import FakeCodec, FakeFeed, Stage

OTHER = TableName("other", "x")


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden, "AGAIN_S", 0.005)


class Checking:
    """A history that tells what a test says, each once, up to `upto_ts`."""

    def __init__(self) -> None:
        self.ddls: list[FinishedDdl] = []
        self.upto_ts = 0
        self.asked: list[int] = []
        self.fails: Exception | None = None

    def since(self, after_ts: CommitTs) -> tuple[list[FinishedDdl], CommitTs]:
        self.asked.append(after_ts)
        if self.fails is not None:
            raise self.fails
        upto_ts, finished_ddls = (
            CommitTs(self.upto_ts),
            [ddl for ddl in self.ddls if ddl.commit_ts is None or ddl.commit_ts <= self.upto_ts],
        )
        self.ddls = [ddl for ddl in self.ddls if ddl not in finished_ddls]
        return finished_ddls, upto_ts


def finished(ts: int | None, *names: TableName, kind: str = "modify column", schema: str = "shop") -> FinishedDdl:
    return FinishedDdl(7, None if ts is None else CommitTs(ts), schema, names, kind, "ALTER TABLE t …")


class KafkaStandIn(FakeFeed):
    def still_because(self) -> str:
        return ""

    def close(self) -> None:
        """Nothing is held."""


class Line(Stage):
    """A pipeline whose feed is one fake lane, and the lane of hidden DDLs."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self.history, self.kafka, self.reported = history, KafkaStandIn(self.notes), Checking()
        self.open()

    def open(self) -> None:
        """What a term has of its own."""
        self.followed = Followed(self.history).schemas
        self.hiding = WithHiddenDdls(
            self.kafka,
            self.reported,
            begins=lambda: self.followed.known_ts,
            carried=lambda name: name.schema == "shop",
            hides=lambda name, kind, query: kind == "modify column",
        )

    def attach(self, *, epoch: int = 1) -> Pipeline:
        outside = Outside(
            feed=self.hiding,
            codec=CodecWithCuts(FakeCodec(self.kafka)),
            log=MemoryLog(self.disk),
            source=self.source,
            schemas=self.followed,
            progress=self.stored,
            requests=self.requests,
            clock=self.clock,
            spill=MemorySpill(),
        )
        return attach(outside, changefeed_id="cf", epoch=epoch, limits=PipelineLimits())


def run(pipeline: Pipeline, enough: Callable[[], bool]) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not enough():
        assert time.monotonic() < until_s, pipeline.lane_lags()
        pipeline.step(poll_s=0)


def messages(feed: WithHiddenDdls, enough: Callable[[list[Message]], bool]) -> list[Message]:
    results: list[Message] = []
    until_s = time.monotonic() + PATIENCE_S
    while not enough(results):
        assert time.monotonic() < until_s, results
        results += feed.poll(timeout_s=0)
    return results


@pytest.fixture
def line() -> Line:
    line = Line(History({0: OLD}))
    line.kafka.held = {Lane("a"): []}
    return line


def envelopes(line: Line, value: Sequence[Message]) -> list[tuple[str, int, str]]:
    codec = CodecWithCuts(FakeCodec(line.kafka))
    return [
        (
            type(one).__name__,
            getattr(one, "ts", 0) or getattr(one, "commit_ts", 0),
            f"{getattr(one, 'schema', '')}.{getattr(one, 'table', '')}",
        )
        for message in value
        for one in codec.envelopes(message)
    ]


def test_a_hidden_ddl_is_a_cut_at_its_commit_ts_before_the_lane_is_resolved_past_it(line: Line) -> None:
    line.followed.begin()
    line.reported.ddls, line.reported.upto_ts = (
        [finished(1100, T), finished(1150, OTHER), finished(1160, schema="shop", kind="drop schema")],
        1200,
    )
    line.hiding.seek({})
    results = messages(line.hiding, lambda results: len(results) >= 3)[:3]
    line.hiding.close()
    assert envelopes(line, results) == [("Ddl", 1100, "shop.t"), ("Ddl", 1160, "shop."), ("Resolved", 1200, ".")]
    assert line.reported.asked[0] == 1000, "where the log's tables are"
    assert line.hiding.lanes() == {Lane("a"), HIDDEN_LANE}


def test_a_table_that_a_rename_takes_out_of_the_rules_is_reported_though_its_new_name_is_not_in_them(line: Line) -> None:
    line.reported.ddls, line.reported.upto_ts = [finished(1100, OTHER, kind="rename table")], 1200
    line.followed.begin()
    line.hiding.seek({})
    results = messages(line.hiding, lambda results: bool(results))
    line.hiding.close()
    assert envelopes(line, results[:1]) == [("Ddl", 1100, "shop.")]


def test_an_outage_is_waited_out_and_reported_and_what_no_retry_helps_is_raised(line: Line) -> None:
    line.reported.fails, line.reported.upto_ts = SourceLost("no answer", hint="wait"), 1200
    line.followed.begin()
    line.hiding.seek({})
    messages(line.hiding, lambda _: bool(line.hiding.still_because()))
    assert "no answer" in line.hiding.still_because()
    line.reported.fails = None
    messages(line.hiding, lambda results: bool(results))
    line.reported.fails = SourceError("garbage-collected", hint="start anew")
    with pytest.raises(SourceError, match="garbage-collected"):
        messages(line.hiding, lambda _: False)
    line.hiding.close()


def test_where_the_commit_ts_may_not_be_read_a_hidden_ddl_of_a_carried_table_stops_by_name_and_no_other(line: Line) -> None:
    line.reported.ddls, line.reported.upto_ts = [finished(None, OTHER), finished(None, T, kind="add index")], 1200
    line.followed.begin()
    line.hiding.seek({})
    assert envelopes(line, messages(line.hiding, lambda results: bool(results))[:1]) == [("Resolved", 1200, ".")]
    line.reported.ddls = [finished(None, T)]
    with pytest.raises(FeedUnsuitable, match=r"(?s)modify column of shop\.t.*GRANT SELECT ON mysql\.tidb_ddl_job"):
        messages(line.hiding, lambda _: False)
    line.hiding.close()


def test_rows_after_a_hidden_ddl_are_logged_with_the_tables_after_it_and_a_new_owner_goes_on_with_them() -> None:
    """Labels of an enum change places: a number is another label from the DDL on, and what no topic tells is not passed unnoticed."""
    before, after = Column("e", "enum", elements=("a", "b")), Column("e", "enum", elements=("b", "a"))
    line = Line(History({0: tables(table(T, 1, before)), 1100: tables(table(T, 1, after))}))
    pipeline = line.attach()
    rows = [put(ts, key)._replace(schema="shop") for ts, key in ((1050, "old"), (1150, "new"))]
    line.kafka.say(*rows, resolved(1300))
    run(pipeline, lambda: len(line.reported.asked) > 1)
    assert line.manifests() == [], "R waits for the lane of the hidden ones"
    line.reported.ddls, line.reported.upto_ts = [finished(1100, T)], 1250
    run(pipeline, lambda: len(line.rows()) == 2)
    log = MemoryLog(line.disk)
    labels = {seq: log.read_schemas(one.schemas)[T].columns[1].elements for seq, one in enumerate(line.manifests())}
    elements = {change.key: labels[seq] for seq, one in enumerate(line.manifests()) for change in log.read_data(one)}
    assert elements == {b"old": ("a", "b"), b"new": ("b", "a")}
    assert not any(manifest.ddls for manifest in line.manifests()), "no sink is told"
    line.hiding.close()
    line.open()
    heir = line.attach(epoch=2)
    assert heir.tables[T].columns[1] == after
    assert line.followed.known_ts == line.manifests()[-1].upto_ts
    line.hiding.close()


RULES = DdlRules.of(
    FeedFilter(
        event_filters=(
            EventFilter(("shop.t",), ("modify column", "add table partition", "insert")),
            EventFilter(("shop.u",), (), ("^drop",)),
        )
    ),
    new_architecture=False,
)


@pytest.mark.parametrize(
    ("table_name", "kind", "query", "hidden_by_it"),
    [
        ("t", "modify column", "ALTER …", True),
        ("t", "add partition", "ALTER …", True),
        ("t", "drop column", "ALTER …", False),
        ("t", "add index", "ALTER …", False),
        ("t", "an unheard of kind", "ALTER …", True),
        ("u", "drop column", "DROP …", True),
        ("u", "drop column", "ALTER …", False),
        ("v", "modify column", "ALTER …", False),
    ],
)
def test_which_ddls_a_filter_may_hide_by_tidbs_word_for_them(table_name: str, kind: str, query: str, hidden_by_it: bool) -> None:
    assert RULES.may_hide(TableName("shop", table_name), kind, query) is hidden_by_it
