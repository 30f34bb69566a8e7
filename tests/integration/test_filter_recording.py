"""Recording `filter`: TiKV's own changes are all there, the feeds have what TiCDC's filter let through. So every row change
that `FilterRules` lets through must be in the feeds, and no other (tests/unit/ticdc/test_event_filter.py has the rules one by one).

Then the recorded dump: its chunk rows through the predicate of `dump_scope`, merged with the feed by the rule, must give what a
consumer of the changefeed may have. Value expressions are evaluated by hand in most tests, and by a real MariaDB over the
recorded rows in one: what `dump_scope` makes of them is SQL that selects the same rows.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

from sidecar.feeds.kv.row_filter import RowFilter
from sidecar.feeds.kv.schemas import FILTERED
from sidecar.replay.feed import Play
from sidecar.replay.judge.rows import Key, Row, rows_by_key
from sidecar.replay.kv import KvRecording, RecordedPuller
from sidecar.replay.recording import Recording
from sidecar.replay.tables import logged
from sidecar.shared.model.nouns import MARK_TABLE, Change, Column, Message, TableName, TableSchema
from sidecar.shared.rowcodec.kv_row import decode_row
from sidecar.shared.rowcodec.kv_table import KvTable, kv_table
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName, EventFilter, FeedFilter
from sidecar.shared.ticdc.changefeed_info import changefeed
from sidecar.shared.ticdc.ddl_rules import DdlRules
from sidecar.shared.ticdc.event_filter import DumpScope, FilterRules, LeftOut, RowEvent, Through, ValueExpr, dump_scope
from spark_merge.codecs.decode.rows import decode
from tests.support.kv_line import Line
from tests.support.recordings import recording
from tests.support.services.mariadb import MariaDb

pytestmark = pytest.mark.recordings

STEPS_MAX = 30_000

Texts = dict[str, str | None]
"""A row's canonical text by column."""

HOLDS: dict[str, Callable[[Any], bool]] = {
    "amount < 100": lambda row: row["amount"] is not None and float(row["amount"]) < 100,
    "status = 'back'": lambda row: row["status"] == "back",
    "gift = 1": lambda row: row["gift"] == "1",
    "seq = 1": lambda row: row["seq"] == "1",
    "level = 'gold' and balance > 0": lambda row: row["level"] == "gold" and row["balance"] is not None and float(row["balance"]) > 0,
}
CUSTOMER, ORDERS, ITEM, EVENT_LOG, LEDGER = (TableName("shop", name) for name in ("customer", "orders", "item", "event_log", "ledger"))
FEEDS = ("open-protocol", "canal-json", "kv")
"""The last one has no mounter: its rows are left out by us."""


@dataclass(frozen=True)
class RowChange:
    """One change of one row, as TiKV has it."""

    commit_ts: int
    table: TableName
    before: Texts | None
    after: Texts | None

    @property
    def event(self) -> RowEvent:
        if self.before is None:
            return RowEvent.INSERT
        return RowEvent.DELETE if self.after is None else RowEvent.UPDATE

    def image(self, expr: ValueExpr) -> Texts:
        before = self.before if expr.old else self.after
        assert before is not None
        return before


@cache
def recorded() -> Recording:
    return Recording(recording("filter"))


@cache
def feed_definition(name: str = "open-protocol") -> Changefeed:
    """The changefeed as its etcd value would make it, from the configuration that it was created with."""
    feed = json.loads((recorded().folder / "recording.json").read_text())["feeds"]["open-protocol" if name == "kv" else name]
    value = {"sink-uri": feed["sink_uri"], "create-time": "2026-11-21T03:58:00Z", "start-ts": recorded().start_ts}
    value["config"] = tomllib.loads(feed["config"])
    return changefeed(ChangefeedName("default", "default", feed["changefeed_id"]), json.dumps(value))


@cache
def kv_changes() -> tuple[RowChange, ...]:
    """Everything that TiKV committed after `start_ts` and up to `end_ts`, the watermark table included, by commit_ts."""
    folder = recorded().folder
    tables: dict[int, KvTable] = {}
    for path in sorted((folder / "schema" / str(recorded().start_ts)).glob("*.*.json")):
        table = kv_table(json.loads(path.read_bytes()), schema=path.name.split(".")[0])
        tables |= dict.fromkeys(table.physical_ids, table)
    subscribed = json.loads((folder / "kv/eventfeed.json").read_text())["subscriptions"]
    result = []
    for entry in pq.read_table(folder / "kv/entries.parquet").to_pylist():
        table = tables.get(subscribed[str(entry["lane"])]["table_id"])  # type: ignore[assignment]  # None for TiDB's DDL jobs
        if table is None or entry["op"] == "resolved" or not recorded().start_ts < entry["commit_ts"] <= recorded().end_ts:
            continue
        names = table.schema.column_names()
        values = entry["old_value"], entry["value"] if entry["op"] == "put" else b""
        images = [dict(zip(names, decode_row(table, entry["key"], value), strict=True)) if value else None for value in values]
        result.append(RowChange(entry["commit_ts"], table.schema.name, *images))
    return tuple(sorted(result, key=lambda change: change.commit_ts))


@cache
def feed_changes(name: str) -> tuple[RowChange, ...]:
    """Every distinct change in the feed, the watermark table's left out, by commit_ts with deletes first."""
    if name == "kv":
        return tuple(_row_changes(row for row in kv_line().decoded() if row["table"] != MARK_TABLE.table))
    config = recorded().feed_config(name)
    codec = config.codec()
    changes = [
        change
        for lane, messages in recorded().messages(config).items()
        for position, message in enumerate(messages)
        for change in codec.envelopes(Message(lane, position, message.key, message.value))
        if isinstance(change, Change) and change.table != MARK_TABLE.table and recorded().start_ts < change.commit_ts <= recorded().end_ts
    ]
    distinct = {(change.commit_ts, codec.identity(change)): change for change in changes}.values()
    rows = decode(logged([*distinct], codec.name), codec=codec.name, schemas=recorded().schemas).to_pylist()
    rows.sort(key=lambda row: (row["commit_ts"], row["rank"]))
    return tuple(_row_changes(rows))


def _row_changes(rows: Iterable[dict[str, Any]]) -> Iterator[RowChange]:
    for row in rows:
        table = TableName(row["schema"], row["table"])
        names = recorded().schemas[table].column_names()
        images = [None if row[side] is None else dict(zip(names, row[side], strict=True)) for side in ("before", "after")]
        yield RowChange(row["commit_ts"], table, *images)


@cache
def kv_line(deaths: int = 0) -> Line:
    """The raw key-values through puller, feed, schemas and log, with the changefeed's filter; the sidecar dies so often on the way."""
    result, definition = KvRecording(recorded()), feed_definition("kv")
    rules = DdlRules.of(definition.filter, new_architecture=definition.new_architecture)
    puller = RecordedPuller(result, Play(seed=3, resends=5, batch_messages_max=50))
    line = Line(puller, result.snapshot, rules, RowFilter(FilterRules.of(definition)))
    random = Random(deaths)
    for _ in range(STEPS_MAX):
        line.step()
        if line.lives <= deaths and random.random() < 0.02:
            line.live()
        if line.upto_ts >= recorded().end_ts:
            return line
    raise AssertionError(f"does not end: {line.upto_ts} of {recorded().end_ts}")


def passes(rules: FilterRules, change: RowChange) -> bool:
    if not rules.has(change.table) or rules.ignoring(change.table, change.event) is not None:
        return False
    return not any(HOLDS[expr.text](change.image(expr)) for expr in rules.exprs(change.table, change.event))


def key_of(table: TableName, row: Texts) -> Key:
    return tuple(str(row[name]) for name in recorded().schemas[table].key)


def sides(changes: Iterator[RowChange]) -> Counter[tuple[int, TableName, str, Key]]:
    """Old and new rows by key: the same whether or not TiCDC sent an update as a delete and an insert."""
    return Counter(
        (change.commit_ts, change.table, side, key_of(change.table, row))
        for change in changes
        for side, row in (("before", change.before), ("after", change.after))
        if row is not None
    )


def predicted(value: Changefeed) -> Counter[tuple[int, TableName, str, Key]]:
    rules = FilterRules.of(value)
    return sides(change for change in kv_changes() if change.table != MARK_TABLE and passes(rules, change))


@pytest.mark.parametrize("feed", FEEDS)
def test_the_feed_has_exactly_the_changes_that_the_filter_lets_through(feed: str) -> None:
    expected, result = predicted(feed_definition(feed)), sides(iter(feed_changes(feed)))
    assert sum(expected.values()) > 1000
    assert expected - result == Counter(), "let through here, and not in the feed"
    assert result - expected == Counter(), "in the feed, and left out here"


SETTINGS = [
    (0, "ignore_insert_value_expr"),
    (0, "ignore_update_old_value_expr"),
    (0, "ignore_update_new_value_expr"),
    (0, "ignore_delete_value_expr"),
    (1, "ignore_event"),
    (2, "ignore_insert_value_expr"),
    (3, "ignore_event"),
]


@pytest.mark.parametrize(("number", "field"), SETTINGS)
def test_each_setting_of_the_filter_leaves_changes_out(number: int, field: str) -> None:
    """Without any one of them the prediction is wrong: the recording does test it."""
    result = feed_definition()
    events = list(result.filter.event_filters)
    nothing: dict[str, Any] = {field: () if field == "ignore_event" else ""}
    events[number] = replace(events[number], **nothing)
    without = predicted(replace(result, filter=replace(result.filter, event_filters=tuple(events))))
    assert without - sides(iter(feed_changes("open-protocol"))) != Counter()


def test_updates_that_change_a_key_are_judged_as_updates() -> None:
    """TiCDC splits them after the filter: deletes of `item` are ignored, and those halves are in the feed."""
    halves = [change for change in feed_changes("open-protocol") if change.table == ITEM and change.event is RowEvent.DELETE]
    of_updates = {
        (change.commit_ts, key_of(ITEM, change.before))
        for change in kv_changes()
        if change.table == ITEM and change.event is RowEvent.UPDATE and change.before is not None
    }
    assert halves
    assert {(half.commit_ts, key_of(ITEM, half.before or {})) for half in halves} <= of_updates


def test_marks_pass_this_filter() -> None:
    """The watermark table's changes are in TiKV's history, and pass."""
    rules = FilterRules.of(feed_definition())
    marks = [change for change in kv_changes() if change.table == MARK_TABLE]
    assert len(marks) > 20
    assert all(passes(rules, mark) for mark in marks)
    assert not any(passes(FilterRules.of(replace(feed_definition(), filter=FeedFilter(("shop.*",)))), mark) for mark in marks)


# ---- the dump ---------------------------------------------------------------------------------------------------------

PREDICATES = {
    CUSTOMER: "NOT ((`t`.`level` = 'gold' and `t`.`balance` > 0) <=> 1)",
    ORDERS: "NOT ((`t`.`amount` < 100) <=> 1)",
    ITEM: None,
    EVENT_LOG: None,
    LEDGER: None,
}


def scope() -> DumpScope:
    return dump_scope(feed_definition(), recorded().schemas)


def test_the_scope_is_the_tables_with_the_predicates_of_inserts() -> None:
    assert scope().tables == {table: Through(predicate) for table, predicate in PREDICATES.items()}
    about = [warning.partition(":")[0] for warning in scope().warnings]
    assert sorted(about) == ["shop.event_log", "shop.item", "shop.orders", "shop.orders", "shop.orders"]


def let_in(table: TableName, row: Texts) -> bool:
    """The predicate, evaluated by hand."""
    result = scope().tables[table]
    assert not isinstance(result, LeftOut)
    return not any(HOLDS[expr.text](row) for expr in FilterRules.of(feed_definition()).exprs(table, RowEvent.INSERT))


DUMP_PLACE = 2
"""At one commit_ts: after deletes (0) and puts (1)."""


def test_a_sidecar_that_dies_leaves_the_same_rows_out() -> None:
    assert kv_line(deaths=5).lives == 6
    assert kv_line(deaths=5).stream() == kv_line().stream()


def test_what_was_left_out_of_the_key_values_is_counted_and_nothing_else_was() -> None:
    line = kv_line()
    assert line.schemas.dropped.keys() == {FILTERED}
    mine = [change for change in kv_changes() if change.table != MARK_TABLE]
    assert line.schemas.dropped[FILTERED] == sum(not passes(FilterRules.of(feed_definition()), change) for change in mine) > 100


@cache
def output_at_the_end(feed: str) -> dict[TableName, dict[Key, Texts]]:
    """The feed and the recorded dump merged by the rule, applied in order."""
    changes, schemas = feed_changes(feed), recorded().schemas
    steps: list[tuple[int, int, TableName, Key, Texts | None]] = []
    for change in changes:
        if change.before is not None:
            steps.append((change.commit_ts, 0, change.table, key_of(change.table, change.before), None))
        if change.after is not None:
            steps.append((change.commit_ts, 1, change.table, key_of(change.table, change.after), change.after))
    for window in json.loads((recorded().folder / "dump/windows.json").read_text())["windows"]:
        low, high = int(window["low_commit_ts"]), int(window["high_commit_ts"])
        touched = {(table, key) for commit_ts, place, table, key, _ in steps if place < DUMP_PLACE and low < commit_ts <= high}
        for chunk in window["chunks"]:
            table = TableName(*chunk["table"].split(".", 1))
            names = schemas[table].column_names()
            rows = pq.read_table(recorded().folder / "dump" / chunk["file"], columns=list(names)).to_pylist()
            for row in rows:
                if let_in(table, row) and (table, key_of(table, row)) not in touched:
                    steps.append((high, DUMP_PLACE, table, key_of(table, row), row))
    state: dict[TableName, dict[Key, Texts]] = {table: {} for table in PREDICATES}
    for _, _, table, key, after in sorted(steps, key=lambda step: step[:2]):
        if after is None:
            state[table].pop(key, None)
        else:
            state[table][key] = after
    return state


def truth_at_the_end(table: TableName) -> dict[Key, Texts]:
    schema = recorded().schemas[table]
    rows: dict[Key, Row] = rows_by_key(schema, recorded().truth(recorded().end_ts)[table])
    return {key: dict(zip(schema.column_names(), row, strict=True)) for key, row in rows.items()}


def touched_by_the_feed(table: TableName) -> set[Key]:
    """Keys of rows that live at the end and whose present life has a version in the feed; updates of `table` all pass."""
    rules, keys = FilterRules.of(feed_definition()), set[Key]()
    for change in kv_changes():
        if change.table == table and change.before is not None:
            keys.discard(key_of(table, change.before))
        if change.table == table and change.after is not None and passes(rules, change):
            keys.add(key_of(table, change.after))
    return keys


@pytest.mark.parametrize("feed", FEEDS)
@pytest.mark.parametrize("table", [CUSTOMER, LEDGER])
def test_a_dump_and_the_feed_end_in_the_filtered_truth(table: TableName, feed: str) -> None:
    """Where neither updates nor deletes are ignored: every row, but those that came by an ignored insert and were never
    changed since."""
    truth, seen = truth_at_the_end(table), touched_by_the_feed(table)
    expected = {key: row for key, row in truth.items() if key in seen or let_in(table, row)}
    assert output_at_the_end(feed)[table] == expected
    assert (len(expected) < len(truth)) == (table == CUSTOMER), "the filter must matter"


@pytest.mark.parametrize("feed", FEEDS)
def test_where_deletes_are_ignored_only_deleted_rows_are_too_much(feed: str) -> None:
    truth, output = truth_at_the_end(ITEM), output_at_the_end(feed)[ITEM]
    assert output.keys() >= truth.keys()
    deleted = {key_of(ITEM, c.before) for c in kv_changes() if c.table == ITEM and c.event is RowEvent.DELETE and c.before is not None}
    assert output.keys() - truth.keys()
    assert output.keys() - truth.keys() <= deleted


@pytest.mark.parametrize("feed", FEEDS)
def test_where_updates_are_ignored_rows_may_be_old_but_are_all_there(feed: str) -> None:
    truth, output = truth_at_the_end(EVENT_LOG), output_at_the_end(feed)[EVENT_LOG]
    assert output.keys() == truth.keys()
    assert any(output[key] != row for key, row in truth.items())


def test_a_change_that_is_left_out_must_not_keep_a_dumped_row_back() -> None:
    """Were it to touch its key, rows would be in the output by neither."""
    definition = feed_definition()
    rules = FilterRules.of(definition)
    lost = set()
    for window in json.loads((recorded().folder / "dump/windows.json").read_text())["windows"]:
        low, high = int(window["low_commit_ts"]), int(window["high_commit_ts"])
        inside = [change for change in kv_changes() if change.table == EVENT_LOG and low < change.commit_ts <= high]
        passing = {key_of(EVENT_LOG, row) for change in inside if passes(rules, change) for row in (change.before, change.after) if row}
        left_out = {
            key_of(EVENT_LOG, row) for change in inside if not passes(rules, change) for row in (change.before, change.after) if row
        }
        for chunk in window["chunks"]:
            if chunk["table"] == str(EVENT_LOG):
                rows = pq.read_table(recorded().folder / "dump" / chunk["file"], columns=["id"]).to_pylist()
                lost |= {(row["id"],) for row in rows} & (left_out - passing)
    fed = {key_of(EVENT_LOG, change.after) for change in feed_changes("kv") if change.table == EVENT_LOG and change.after}
    lost = (lost & truth_at_the_end(EVENT_LOG).keys()) - fed
    assert lost, "live to the end, and the dump alone brings them"
    assert lost <= output_at_the_end("kv")[EVENT_LOG].keys()


# ---- the predicates on a real server ----------------------------------------------------------------------------------

COLUMNS = {
    CUSTOMER: {"id": "bigint unsigned", "level": "enum('bronze','silver','gold')", "balance": "decimal(20,4)"},
    ORDERS: {"customer_id": "bigint unsigned", "seq": "int unsigned", "amount": "double"},
}


@pytest.mark.xdist_group("mariadb")
def test_a_real_server_selects_the_rows_that_pass(mariadb: MariaDb) -> None:
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute("create database shop")
        for table, columns in COLUMNS.items():
            cursor.execute(f"create table {table} ({', '.join(f'{name} {kind}' for name, kind in columns.items())})")
            truth = truth_at_the_end(table)
            rows = [[row[name] for name in columns] for row in truth.values()]
            cursor.executemany(f"insert into {table} values ({', '.join(['%s'] * len(columns))})", rows)
            result = scope().tables[table]
            assert isinstance(result, Through)
            keys = recorded().schemas[table].key
            cursor.execute(f"select {', '.join(keys)} from {table} t where {result.predicate}")
            selected = {tuple(map(str, key)) for key in cursor.fetchall()}
            assert selected == {key for key, row in truth.items() if let_in(table, row)}
            assert 0 < len(selected) < len(truth)
        _assert_text_and_time_are_as_ticdc_sees_them(cursor)
        cursor.execute("drop database shop")


def _assert_text_and_time_are_as_ticdc_sees_them(cursor: Any) -> None:
    """Text byte by byte, NULL passes, timestamps in the TiCDC server's zone."""
    cursor.execute("create table shop.text (id int primary key, name text collate utf8mb4_general_ci, at timestamp null)")
    cursor.execute(
        "insert into shop.text values (1, 'gold', null), (2, 'GOLD', null), (3, null, null), (4, '', '2026-01-01 15:00:00'),"
        " (5, '', '2026-01-01 17:00:00')"
    )
    table = TableName("shop", "text")
    kinds = (Column("id", "int"), Column("name", "text"), Column("at", "timestamp"))
    schema = {table: TableSchema(table, kinds, ("id",))}
    expressions = ("text.name = 'gold'", "at >= '2026-01-02 00:00:00'")
    events = tuple(EventFilter(("shop.text",), ignore_insert_value_expr=expression) for expression in expressions)
    result = replace(feed_definition(), filter=FeedFilter(event_filters=events))
    through = dump_scope(result, schema, server_tz="+08:00").tables[table]
    assert isinstance(through, Through)
    cursor.execute(f"select id from shop.text t where {through.predicate} order by t.id")
    assert [row[0] for row in cursor.fetchall()] == [2, 3, 4]
