"""What a changefeed's filter lets through, rule by rule; against a real cluster's feeds in tests/integration/test_filter_recording.py."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import MARK_TABLE, Column, TableName, TableSchema
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName, EventFilter, FeedFilter
from sidecar.shared.ticdc.event_filter import FilterRules, LeftOut, RowEvent, Through, dump_scope, mark_table_problem

ORDERS, ITEM, UPPER = TableName("shop", "orders"), TableName("shop", "item"), TableName("Shop", "Orders")
COLUMNS = (Column("id", "int"), Column("amount", "decimal"), Column("name", "text"), Column("at", "timestamp"), Column("by`x", "text"))


def feed(*filters: EventFilter, rules: tuple[str, ...] = ("*.*",), case_sensitive: bool = False, new: bool = False) -> Changefeed:
    feed_filter = FeedFilter(rules, case_sensitive, filters)
    return Changefeed(ChangefeedName("default", "default", "demo"), "1", "kafka://h/t", new_architecture=new, filter=feed_filter)


def events(*ignored: str, matcher: tuple[str, ...] = ("shop.orders",)) -> EventFilter:
    return EventFilter(matcher, ignore_event=ignored)


def insert_expr(text: str, matcher: tuple[str, ...] = ("shop.orders",)) -> EventFilter:
    return EventFilter(matcher, ignore_insert_value_expr=text)


def schemas(*tables: TableName) -> dict[TableName, TableSchema]:
    return {table: TableSchema(table, COLUMNS, ("id",)) for table in tables or (ORDERS,)}


def predicate(*texts: str, table: TableName = ORDERS, **options: Any) -> str | None:
    result = dump_scope(feed(*(insert_expr(text, ("*.*",)) for text in texts)), schemas(table), **options).tables[table]
    assert isinstance(result, Through)
    return result.predicate


# ---- tables and types -------------------------------------------------------------------------------------------------


def test_the_table_rules_say_which_tables_there_are() -> None:
    scope = dump_scope(
        feed(rules=("shop.*", "!shop.item", "changefeed_dump.*")), schemas(ORDERS, ITEM, TableName("hr", "staff"), MARK_TABLE)
    )
    assert scope.tables == {ORDERS: Through(None)}
    assert scope.warnings == ()
    assert set(dump_scope(feed(rules=()), schemas(ORDERS, ITEM)).tables) == {ORDERS, ITEM}, "TiCDC takes *.* for no rules"


@pytest.mark.parametrize(("ignored", "out"), [("insert", {"insert"}), ("update", {"update"}), ("all dml", {"insert", "update", "delete"})])
def test_a_type_is_ignored_by_its_name_or_all(ignored: str, out: set[str]) -> None:
    rules = FilterRules.of(feed(events("drop table"), events(ignored)))
    for event in RowEvent:
        setting = "filter.event-filters number 2, ignore-event" if event in out else None
        assert rules.ignoring(ORDERS, event) == setting
        assert rules.ignoring(ITEM, event) is None


@pytest.mark.parametrize("ignored", ["insert", "all dml"])
def test_a_table_whose_inserts_are_ignored_is_left_out_with_the_reason(ignored: str) -> None:
    scope = dump_scope(feed(events(ignored)), schemas(ORDERS, ITEM))
    assert scope.tables == {ORDERS: LeftOut("filter.event-filters number 1, ignore-event, omits its inserts"), ITEM: Through(None)}


@pytest.mark.parametrize("unknown", ["Insert", "all", "none", "create procedure", "INSERT", ""])
def test_an_unknown_type_is_refused(unknown: str) -> None:
    with pytest.raises(FeedUnsuitable, match="number 1 ignores"):
        FilterRules.of(feed(events(unknown)))


def test_a_matcher_that_is_no_rule_is_refused() -> None:
    with pytest.raises(FeedUnsuitable, match="number 1, matcher"):
        FilterRules.of(feed(events("insert", matcher=("orders",))))
    with pytest.raises(FeedUnsuitable, match=r"filter\.rules"):
        FilterRules.of(feed(rules=("orders",)))


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("case_sensitive", [False, True])
def test_matchers_know_case_where_the_architecture_does(new: bool, case_sensitive: bool) -> None:
    event_filter = EventFilter(("shop.orders",), ("insert",), ignore_delete_value_expr="id = 1")
    rules = FilterRules.of(feed(event_filter, rules=("shop.*",), case_sensitive=case_sensitive, new=new))
    assert rules.has(UPPER) == (not case_sensitive)
    assert (rules.ignoring(UPPER, RowEvent.INSERT) is not None) == (new and not case_sensitive)
    assert rules.exprs(UPPER, RowEvent.DELETE) == [], "expressions are matched with case in both"
    assert rules.ignoring(ORDERS, RowEvent.INSERT)
    assert rules.exprs(ORDERS, RowEvent.DELETE)


def test_each_type_has_its_expressions_and_their_row() -> None:
    every = EventFilter(
        ("shop.*",),
        ignore_insert_value_expr="i",
        ignore_update_old_value_expr="o",
        ignore_update_new_value_expr="n",
        ignore_delete_value_expr="d",
    )
    rules = FilterRules.of(feed(every, EventFilter(("shop.orders",), ignore_update_new_value_expr="m")))
    assert [(expr.text, expr.old) for expr in rules.exprs(ORDERS, RowEvent.INSERT)] == [("i", False)]
    assert [(expr.text, expr.old) for expr in rules.exprs(ORDERS, RowEvent.UPDATE)] == [("o", True), ("n", False), ("m", False)]
    assert [(expr.text, expr.old) for expr in rules.exprs(ITEM, RowEvent.UPDATE)] == [("o", True), ("n", False)]
    assert [(expr.text, expr.old) for expr in rules.exprs(ORDERS, RowEvent.DELETE)] == [("d", True)]


# ---- warnings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (events("update"), ("ignore-event", "updates", "newer")),
        (events("delete"), ("ignore-event", "deletes", "stays in the output")),
        (EventFilter(("shop.*",), ignore_update_old_value_expr="id = 7"), ("ignore-update-old-value-expr", "(id = 7)", "newer")),
        (EventFilter(("shop.*",), ignore_update_new_value_expr="id = 7"), ("ignore-update-new-value-expr", "(id = 7)", "newer")),
        (EventFilter(("shop.*",), ignore_delete_value_expr="id = 7"), ("ignore-delete-value-expr", "(id = 7)", "stays")),
        (EventFilter(("shop.*",), ignore_update_only_columns=("name", "at")), ("ignore-update-only-columns", "name, at", "newer")),
        (events("drop column", "all ddl"), ("DDLs", "all ddl, drop column")),
        (EventFilter(("shop.*",), ignore_sql=("^drop",)), ("DDLs", "/^drop/")),
        (insert_expr("at < now()"), ("ignore-insert-value-expr", "now", "when it reads")),
        (insert_expr("id"), ("ignore-insert-value-expr", "no comparison")),
        (insert_expr("name = 'x'"), ("ignore-insert-value-expr", "text", "byte by byte")),
    ],
)
def test_what_a_select_cannot_do_is_a_warning_with_table_and_setting(value: EventFilter, words: tuple[str, ...]) -> None:
    warnings = dump_scope(feed(value), schemas()).warnings
    assert len(warnings) == 1
    assert warnings[0].startswith("shop.orders: ")
    assert all(word in warnings[0] for word in words)
    assert dump_scope(feed(value), schemas(TableName("hr", "staff"))).warnings == ()


def test_a_plain_comparison_has_no_warning() -> None:
    assert dump_scope(feed(insert_expr("amount < 0 and id in (1, 2)")), schemas()).warnings == ()


# ---- value expressions as a predicate ---------------------------------------------------------------------------------

NAME = "(CONVERT(`t`.`name` USING utf8mb4) COLLATE utf8mb4_bin)"


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("amount < 0", "`t`.`amount` < 0"),
        ("AMOUNT<0", "`t`.`amount`<0"),
        ("`amount` < 0 -1", "`t`.`amount` < 0 -1"),
        ("amount--1 = 0", "`t`.`amount`--1 = 0"),
        ("orders.amount > 1e3 or Orders . `id` = 0x1F", "`t`.`amount` > 1e3 or   `t`.`id` = 0x1F"),
        ("orders.virtual > 1 or `Orders`.`at` > 1", "`t`.virtual > 1 or `t`.`at` > 1"),
        ("name = 'it''s' AND name <> \"a\\\"b\"", f"{NAME} = 'it''s' AND {NAME} <> \"a\\\"b\""),
        ("name like '%;--/*#%'", f"{NAME} like '%;--/*#%'"),
        ("length(name) > 3", f"length({NAME}) > 3"),
        ("name(id) = 1", "name(`t`.`id`) = 1"),
        ("`by``x` = x'41'", "(CONVERT(`t`.`by``x` USING utf8mb4) COLLATE utf8mb4_bin) = x'41'"),
        ("unknown = N'x' or _utf8mb4'name' = 'name'", "unknown = N'x' or _utf8mb4'name' = 'name'"),
        ("at > '2026-01-01'", "`t`.`at` > '2026-01-01'"),
        ("cast(id as name) = 1", "cast(`t`.`id` as name) = 1"),
        ("straße = 1", "straße = 1"),
    ],
)
def test_an_expression_is_negated_and_its_columns_are_as_ticdc_sees_them(text: str, inside: str) -> None:
    assert predicate(text) == f"NOT (({inside}) <=> 1)"


def test_all_expressions_of_a_table_combine() -> None:
    assert predicate("id = 1", "id = 2") == "NOT ((`t`.`id` = 1) <=> 1) AND NOT ((`t`.`id` = 2) <=> 1)"
    assert predicate() is None


def test_timestamps_are_shown_in_the_ticdc_servers_zone() -> None:
    assert predicate("at > 0", server_tz="Asia/Shanghai") == "NOT ((CONVERT_TZ(`t`.`at`, '+00:00', 'Asia/Shanghai') > 0) <=> 1)"
    assert "CONVERT_TZ" not in str(predicate("at > 0", server_tz="utc"))


def test_the_collation_can_be_chosen() -> None:
    assert "COLLATE utf8mb4_0900_bin" in str(predicate("name = ''", text_collation="utf8mb4_0900_bin"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1) or (1",
        "id = 1)",
        "(id = 1",
        "id = 1; drop table x",
        "id = 1 -- ",
        "id = 1 --",
        "id = 1 # x",
        "id /* x */ = 1",
        "id /*! or 1 */ = 1",
        "name = 'x",
        "name = 'x\\'",
        'name = "x',
        "`id = 1",
        "id = @x",
        "id = @@x",
        "id = ?",
        "id := 1",
        "id in (select 1)",
        "exists (TABLE x)",
        "other.id = 1",
        "shop.orders.id = 1",
        "{d '2026-01-01'}",
        "id = 1\0",
        "\\N is null",
    ],
)
def test_what_could_leave_its_place_in_the_select_is_refused(text: str) -> None:
    with pytest.raises(FeedUnsuitable, match=r"number 1|number 2"):
        dump_scope(feed(events("drop table"), insert_expr(text or " ")), schemas())


_PIECES = st.lists(
    st.sampled_from(["id", "'", '"', "`", "(", ")", ";", "--", " ", "\\", "#", "/*", "*/", "=", "1", "or", ".", "''", "\n"]), max_size=14
)


@given(_PIECES.map("".join))
def test_whatever_is_accepted_stays_inside_its_parentheses(text: str) -> None:
    """Read again by another lexer: outside of quotes there is no `;`, no comment, and the last parenthesis closes the first."""
    try:
        table = dump_scope(feed(insert_expr(f"x{text}")), schemas()).tables[ORDERS]
    except FeedUnsuitable:
        return
    assert isinstance(table, Through)
    assert table.predicate is not None
    quote, deep, escaped = "", 0, False
    inside = table.predicate[len("NOT (") : -len(" <=> 1)")]
    for at, char in enumerate(inside):
        if escaped:
            escaped = False
        elif quote:
            escaped = char == "\\" and quote != "`"
            quote = "" if char == quote and not escaped else quote
        elif char in "'\"`":
            quote = char
        else:
            assert char not in ";#"
            assert inside[at : at + 2] != "/*"
            assert not (inside[at : at + 2] == "--" and inside[at + 2 : at + 3].strip() == "")
            deep += (char == "(") - (char == ")")
            assert deep > 0 or at == len(inside) - 1
    assert (quote, deep) == ("", 0)


@pytest.mark.parametrize("text", ["amount < 5", "amount is null", "amount in (1, 5)", "not (amount > 1) or id = 3", "amount"])
def test_null_and_whatever_is_not_one_pass(text: str) -> None:
    """SQLite's IS is the spaceship of MySQL."""
    rows = [(1, None), (2, 1), (3, 5), (4, 9)]
    with sqlite3.connect(":memory:") as database:
        database.execute("create table orders (id, amount)")
        database.executemany("insert into orders values (?, ?)", rows)
        where = str(predicate(text)).replace("<=>", "IS")
        passed = {row[0] for row in database.execute(f"select id from orders t where {where}")}
        ignored = {row[0] for row in database.execute(f"select id from orders where ({text}) = 1")}
    database.close()
    assert passed == {1, 2, 3, 4} - ignored
    assert passed
    assert ignored


# ---- the watermark table ----------------------------------------------------------------------------------------------

ALL = ("*.*",)


@pytest.mark.parametrize(
    ("changefeed", "words"),
    [
        (feed(rules=("shop.*",)), ("filter.rules", 'add "changefeed_dump.*"')),
        (feed(rules=("*.*", "!changefeed_dump.*")), ("filter.rules",)),
        (feed(rules=("CHANGEFEED_DUMP.*",), case_sensitive=True), ("filter.rules",)),
        (feed(events("update", matcher=ALL)), ("number 1, ignore-event", "every update", "!changefeed_dump.*")),
        (feed(events("insert", matcher=ALL)), ("number 1, ignore-event", "every insert")),
        (feed(events("delete"), events("all dml", matcher=ALL)), ("number 2, ignore-event",)),
        (feed(EventFilter(ALL, ignore_insert_value_expr="id = 1")), ("number 1, ignore-insert-value-expr",)),
        (feed(EventFilter(ALL, ignore_update_old_value_expr="id = 1")), ("number 1, ignore-update-old-value-expr",)),
        (feed(EventFilter(ALL, ignore_update_new_value_expr="id = 1")), ("number 1, ignore-update-new-value-expr",)),
        (feed(EventFilter(ALL, ignore_update_only_columns=("update_time",)), new=True), ("number 1, ignore-update-only-columns",)),
        (feed(events("update", matcher=("CHANGEFEED_DUMP.*",)), new=True), ("ignore-event",)),
    ],
)
def test_what_keeps_marks_away_is_named_with_its_setting(changefeed: Changefeed, words: tuple[str, ...]) -> None:
    problem = mark_table_problem(changefeed)
    assert problem is not None
    assert all(word in ": ".join(problem) for word in words)


@pytest.mark.parametrize(
    "changefeed",
    [
        feed(),
        feed(rules=("shop.*", "changefeed_dump.*")),
        feed(rules=("CHANGEFEED_DUMP.*",)),
        feed(events("update", matcher=("*.*", "!changefeed_dump.*"))),
        feed(events("update", matcher=("CHANGEFEED_DUMP.*",))),
        feed(events("delete", "drop table", matcher=ALL)),
        feed(EventFilter(ALL, ignore_delete_value_expr="id = 1", ignore_sql=("drop",))),
    ],
)
def test_marks_pass_where_nothing_is_in_their_way(changefeed: Changefeed) -> None:
    assert mark_table_problem(changefeed) is None


@pytest.mark.parametrize("regex", ["(", "(?=x)", r"\1", "a**"])
def test_a_regex_that_go_would_not_take_is_refused_where_it_counts(regex: str) -> None:
    """TiCDC logs it, and goes on as if the same event filter's ignore-event were not there either."""
    with pytest.raises(FeedUnsuitable, match="number 1, ignore-sql"):
        FilterRules.of(feed(EventFilter(("*.*",), ("insert",), ignore_sql=(regex,))))
    rules = FilterRules.of(feed(EventFilter(("*.*",), ignore_sql=(regex,))))
    assert rules.ignoring(ORDERS, RowEvent.INSERT) is None
