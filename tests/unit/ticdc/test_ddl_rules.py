"""What TiCDC makes of a DDL, as its filter's sources say; and that every action of TiDB has an effect or stops."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.shared.errors import FeedUnsuitable, UnsupportedDdl
from sidecar.shared.model.nouns import CommitTs, TableName
from sidecar.shared.schema.ddl import Action, DdlEvent, Effect, TableChange, effect_of
from sidecar.shared.schema.system import is_system_schema
from sidecar.shared.ticdc.changefeed import EventFilter, FeedFilter
from sidecar.shared.ticdc.ddl_rules import EVENT_TYPES, NEW_ARCHITECTURE_ONLY, DdlRules, DdlVerdict, schema_matches
from sidecar.shared.ticdc.table_rules import TableRules


def event(
    action: Action, *names: tuple[str | None, str | None], schema: str = "shop", start_ts: int = 7, effect: Effect | None = None
) -> DdlEvent:
    """Names before and after, as `schema.table`."""
    changes = tuple(TableChange(name(before), name(after), 1, 1) for before, after in names)
    effect = effect or effect_of(action, job="job")[1]
    return DdlEvent(CommitTs(10), start_ts, 1, action, effect, f"the {action.name}", schema, changes)


def name(text: str | None) -> TableName | None:
    return TableName(*text.split(".")) if text is not None else None


def altered(table: str = "shop.t", action: Action = Action.ADD_COLUMN) -> DdlEvent:
    return event(action, (table, table))


def rules(*table_rules: str, new_architecture: bool = False, **more: object) -> DdlRules:
    return DdlRules.of(FeedFilter(rules=table_rules or ("*.*",), **more), new_architecture=new_architecture)  # type: ignore[arg-type]


def test_every_action_of_tidb_has_an_effect_or_stops() -> None:
    stops = set()
    for number in range(1, 256):
        try:
            effect_of(number, job="job 1")
        except UnsupportedDdl:
            stops.add(number)
    known = {int(action) for action in Action}
    assert stops == set(range(1, 256)) - known | {Action.FLASHBACK_CLUSTER, Action.REFRESH_META}
    assert known == set(range(1, 79)) - {46, 48, 66} | {230, 231}


def test_the_allow_list_is_ticdcs() -> None:
    """The counts of its own tests: 41 in ticdc pkg/filter/ddl_test.go, 37 in tiflow."""
    assert len(EVENT_TYPES) == 41
    assert len(EVENT_TYPES.keys() - NEW_ARCHITECTURE_ONLY) == 37


@pytest.mark.parametrize(
    "action",
    [
        Action.SHARD_ROW_ID, Action.LOCK_TABLE, Action.SET_TIFLASH_REPLICA, Action.MODIFY_AUTO_ID_CACHE, Action.REPAIR_TABLE,
        Action.CREATE_SEQUENCE, Action.ADD_CHECK_CONSTRAINT, Action.CACHE_TABLE, Action.RECOVER_SCHEMA, Action.ALTER_TABLE_PLACEMENT,
    ],
)  # fmt: skip
def test_what_is_not_in_the_allow_list_is_discarded(action: Action) -> None:
    assert rules().verdict(altered(action=action)) is DdlVerdict.DISCARD


@pytest.mark.parametrize(("new_architecture", "verdict"), [(False, DdlVerdict.DISCARD), (True, DdlVerdict.SEND)])
def test_foreign_keys_are_sent_by_the_new_architecture_only(new_architecture: bool, verdict: DdlVerdict) -> None:
    result = rules(new_architecture=new_architecture).verdict(altered(action=Action.ADD_FOREIGN_KEY))
    assert result is verdict


@pytest.mark.parametrize(
    ("table", "verdict"), [("shop.t", DdlVerdict.SEND), ("shop.t_copy", DdlVerdict.DISCARD), ("mysql.user", DdlVerdict.DISCARD)]
)
def test_a_table_that_the_rules_leave_out_is_discarded(table: str, verdict: DdlVerdict) -> None:
    assert rules("*.*", "!shop.t_copy").verdict(altered(table)) is verdict


@pytest.mark.parametrize(
    ("table_rules", "schema", "verdict"),
    [
        (("shop.*",), "shop", DdlVerdict.SEND),
        (("SHOP.*",), "shop", DdlVerdict.SEND),
        (("shop.orders",), "shop", DdlVerdict.SEND),
        (("shop.*",), "other", DdlVerdict.DISCARD),
        (("*.*", "!shop.t"), "shop", DdlVerdict.SEND),
        (("*.*", "!shop.*"), "shop", DdlVerdict.DISCARD),
        (("*.*", "!SH*.*", "!*.*p"), "shop", DdlVerdict.DISCARD),
        (("*.*", "!/^sh/./^tmp-\\d/"), "shop", DdlVerdict.SEND),
        (("*.*",), "lightning_task_info", DdlVerdict.DISCARD),
    ],
)
def test_a_schema_is_kept_if_some_table_of_it_can_be(table_rules: tuple[str, ...], schema: str, verdict: DdlVerdict) -> None:
    result = rules(*table_rules).verdict(event(Action.CREATE_SCHEMA, schema=schema))
    assert result is verdict


def test_schemas_match_without_tables() -> None:
    assert schema_matches(TableRules.of(["app?.orders"], case_sensitive=True), "app1")
    assert not schema_matches(TableRules.of(["App?.orders"], case_sensitive=True), "app1")


@pytest.mark.parametrize(
    ("moves", "verdict"),
    [
        ([("shop.a", "shop.b")], DdlVerdict.SEND),
        ([("shop.a", "other.a")], DdlVerdict.SEND),
        ([("other.a", "other.b")], DdlVerdict.DISCARD),
        ([("other.a", "other.b"), ("shop.a", "shop.b")], DdlVerdict.SEND),
    ],
)
def test_a_rename_is_judged_by_the_name_before(moves: list[tuple[str, str]], verdict: DdlVerdict) -> None:
    assert rules("shop.*").verdict(event(Action.RENAME_TABLES, *moves)) is verdict


def test_a_rename_into_the_rules_stops_as_it_stops_ticdc() -> None:
    with pytest.raises(UnsupportedDdl, match=r"renames other\.a to shop\.a, from outside"):
        rules("shop.*").verdict(event(Action.RENAME_TABLE, ("other.a", "shop.a")))


@pytest.mark.parametrize(
    ("ignored", "action", "verdict"),
    [
        ("create table", Action.CREATE_TABLES, DdlVerdict.IGNORE),
        ("add column", Action.ADD_COLUMN, DdlVerdict.IGNORE),
        ("Add Column", Action.ADD_COLUMN, DdlVerdict.IGNORE),
        ("alter table", Action.ADD_COLUMN, DdlVerdict.IGNORE),
        ("alter table", Action.RENAME_TABLE, DdlVerdict.IGNORE),
        ("alter table", Action.TRUNCATE_TABLE, DdlVerdict.SEND),
        ("alter table", Action.CREATE_VIEW, DdlVerdict.SEND),
        ("all ddl", Action.TRUNCATE_TABLE, DdlVerdict.IGNORE),
        ("drop column", Action.ADD_COLUMN, DdlVerdict.SEND),
        ("all dml", Action.ADD_COLUMN, DdlVerdict.SEND),
    ],
)
def test_event_filters_ignore_and_do_not_discard(ignored: str, action: Action, verdict: DdlVerdict) -> None:
    result = rules(event_filters=(EventFilter(("shop.t",), ignore_event=(ignored,)),))
    assert result.verdict(altered(action=action)) is verdict
    assert result.verdict(altered("shop.other", action)) is DdlVerdict.SEND


def test_a_schemas_ddl_goes_by_the_filters_schema() -> None:
    result = rules(event_filters=(EventFilter(("shop.*",), ignore_event=("create schema",)),))
    assert result.verdict(event(Action.CREATE_SCHEMA)) is DdlVerdict.IGNORE
    assert result.verdict(event(Action.DROP_SCHEMA)) is DdlVerdict.SEND


@pytest.mark.parametrize(("new_architecture", "verdict"), [(False, DdlVerdict.SEND), (True, DdlVerdict.IGNORE)])
def test_the_classic_architecture_compares_a_filters_matcher_with_case(new_architecture: bool, verdict: DdlVerdict) -> None:
    result = rules(new_architecture=new_architecture, event_filters=(EventFilter(("SHOP.*",), ignore_event=("all ddl",)),))
    assert result.verdict(altered()) is verdict


def test_an_ignored_start_ts_ignores() -> None:
    result = rules(ignore_txn_start_ts=(7,))
    assert result.verdict(altered()) is DdlVerdict.IGNORE
    assert result.verdict(event(Action.ADD_COLUMN, ("shop.t", "shop.t"), start_ts=8)) is DdlVerdict.SEND


@pytest.mark.parametrize(
    ("regexes", "query", "verdict"),
    [
        (("^drop",), "DROP TABLE x", DdlVerdict.IGNORE),
        (("^drop",), "alter table x drop column y", DdlVerdict.SEND),
        (("^drop", "add column"), "ALTER TABLE x ADD COLUMN y int", DdlVerdict.IGNORE),
        ((r"add\s+(column|index)",), "alter table x add\n index", DdlVerdict.IGNORE),
        ((r"a/b",), "comment 'a/b'", DdlVerdict.IGNORE),
        ((r"a\/b",), "comment 'a/b'", DdlVerdict.IGNORE),
        ((r"a/b",), "comment 'ab'", DdlVerdict.SEND),
        (("x", ""), "anything", DdlVerdict.IGNORE),
        (("drop",), "", DdlVerdict.SEND),
    ],
)
def test_a_ddl_is_ignored_by_its_text(regexes: tuple[str, ...], query: str, verdict: DdlVerdict) -> None:
    result = rules(event_filters=(EventFilter(("shop.t",), ignore_sql=regexes),))
    assert result.verdict(replace(altered(), query=query)) is verdict
    assert result.verdict(replace(altered("shop.u"), query=query)) is DdlVerdict.SEND


@pytest.mark.parametrize("regex", ["(", "(?=x)", r"\1", "a**"])
def test_a_regex_that_go_would_not_take_is_refused(regex: str) -> None:
    with pytest.raises(FeedUnsuitable, match="number 1, ignore-sql"):
        rules(event_filters=(EventFilter(("*.*",), ignore_sql=(regex,)),))


@pytest.mark.parametrize(
    ("schema", "system"), [("mysql", True), ("MySQL", True), ("tidb_cdc", True), ("shop", False), ("changefeed_dump", False)]
)
def test_the_systems_schemas_are_known(schema: str, system: bool) -> None:
    assert is_system_schema(schema) is system
