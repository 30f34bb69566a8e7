"""What a start request means: never more than the changefeed carries, never a table skipped in silence, all that is wrong told."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.control.dump_scope import Scope, resolve, restarted_brackets, start_dump, unknown_sinks
from sidecar.control.predicate import PREDICATE_BYTES_MAX
from sidecar.ports import Bracketing
from sidecar.shared.config import DumpSection
from sidecar.shared.errors import RefusedRequest, SourceError, SourceLost, parted, with_hint
from sidecar.shared.model.messages import Brackets, Pace, ReadWith, StartDump
from sidecar.shared.model.nouns import MARK_TABLE, Seq, TableName
from sidecar.shared.model.progress import DumpState, Progress
from tests.unit.control.serving import ITEM, LOGS, ORDERS, SECRET, TABLES, Filter, Schemas, schema
from ticdc_dump.v1 import control_pb2 as pb

DUMP_ID = "0123456789abcdef"


def resolved(request: pb.StartRequest | None = None, *, schemas: Schemas | None = None, feed: Filter | None = None) -> Scope:
    return resolve(request or pb.StartRequest(), schemas or Schemas(), feed or Filter(), case_sensitive=False)


def started(request: pb.StartRequest, scope: Scope, bracketing: Bracketing | None = None, **defaults: Any) -> StartDump:
    scope.bracketing = bracketing or Bracketing()
    return start_dump(request, scope, DumpSection(**defaults))


def rules(*texts: str) -> pb.StartRequest:
    return pb.StartRequest(dump_id=DUMP_ID, table_rules=texts)


def keys(table: TableName, *values: str) -> pb.TableKeys:
    return pb.TableKeys(schema=table.schema, table=table.table, keys=[pb.Key(values=[value]) for value in values])


def where(table: TableName, predicate: str) -> pb.TablePredicate:
    return pb.TablePredicate(schema=table.schema, table=table.table, predicate=predicate)


def test_without_rules_it_is_every_table_that_the_changefeed_carries() -> None:
    scope = resolved()
    assert scope.tables == [ORDERS, ITEM]
    assert set(scope.left_out) == {LOGS}
    assert "primary key" in scope.left_out[LOGS]
    assert not scope.refusals


def test_the_watermark_table_is_never_part_of_it() -> None:
    scope = resolved(rules("*.*"))
    assert MARK_TABLE not in scope.tables
    assert MARK_TABLE not in scope.left_out
    assert "no table of the changefeed matches changefeed_dump.*" in resolved(rules("changefeed_dump.*")).refusals[0]


def test_rules_choose_among_the_carried_tables() -> None:
    assert resolved(rules("shop.*", "!shop.item")).tables == [ORDERS]


def test_a_rule_that_matches_nothing_is_refused_though_another_matches() -> None:
    scope = resolved(rules("shop.orders", "shop.ordres"))
    assert scope.tables == [ORDERS]
    assert scope.refusals == ["no table of the changefeed matches shop.ordres; its tables are those that its own table rules choose"]


def test_what_is_beside_the_changefeed_is_counted_and_never_named() -> None:
    """Who may ask for a dump need not know which other tables there are."""
    scope = resolved(rules("shop.*", "hidden.*", "hidden.secret", "hidden.nothing"))
    assert scope.outside == 1
    assert SECRET not in scope.left_out
    assert not any("secret" in refusal.replace("matches hidden.secret", "") for refusal in scope.refusals)
    exists, is_none = (refusal.replace(name, "…") for refusal, name in zip(scope.refusals[1:], ("secret", "nothing"), strict=True))
    assert exists == is_none, "whether it exists is not told either"


@pytest.mark.parametrize(("rule", "reason"), [("shop.item", "an event filter leaves it out"), ("shop.logs", "no primary key")])
def test_a_rule_for_what_the_changefeed_does_not_carry_is_refused_with_the_reason(rule: str, reason: str) -> None:
    (refusal,) = resolved(rules(rule), feed=Filter(left=frozenset({ITEM}))).refusals
    assert f"carries no table of {rule}" in refusal
    assert reason in refusal


def test_rules_that_leave_nothing_are_refused() -> None:
    assert "no table is left" in resolved(rules("!shop.*")).refusals[0]
    assert "carries no table: see its filter" in resolved(schemas=Schemas(found={SECRET: schema(SECRET)})).refusals[0]


def test_a_carried_table_that_cannot_be_read_refuses_the_dump_until_a_rule_leaves_it_out() -> None:
    schemas = Schemas(found=TABLES)
    (refusal,) = resolved(schemas=schemas).refusals
    assert "shop.floats (its key is a float" in refusal
    assert not resolved(rules("shop.*", "!shop.floats"), schemas=schemas).refusals


def test_a_refusal_of_many_tables_names_some_and_counts_the_rest() -> None:
    many = [TableName("shop", f"t{number}") for number in range(500)]
    scope = resolved(schemas=Schemas(found={t: schema(t) for t in many}, refused=dict.fromkeys(many, "no")))
    assert "and 490 more" in scope.refusals[0]


def test_a_rule_that_is_none_is_refused_with_the_place() -> None:
    with pytest.raises(RefusedRequest, match="column 5"):
        resolved(rules("shop"))


def test_keys_are_of_the_scope_beside_the_filters_predicate() -> None:
    scope = resolved(pb.StartRequest(keys=[keys(ORDERS, "1", "2", "1")]), feed=Filter({ORDERS: "t.amount > 3"}))
    assert (scope.where, scope.keys, scope.narrowed) == ({ORDERS: "(t.amount > 3)"}, {ORDERS: (("1",), ("2",))}, (ORDERS,))


def test_no_key_at_all_is_refused() -> None:
    assert resolved(pb.StartRequest(keys=[keys(ORDERS)])).refusals == ["no key of shop.orders is given"]


def test_a_predicate_is_joined_with_the_filters_and_other_tables_keep_the_filters_alone() -> None:
    request = pb.StartRequest(where=[where(ORDERS, "amount > 5 OR amount IS NULL")])
    result = resolved(request, feed=Filter({ORDERS: "f1", ITEM: "f2"})).where
    assert result == {ORDERS: "(f1) AND (`t`.`amount` > 5 OR `t`.`amount` IS NULL)", ITEM: "(f2)"}


@pytest.mark.parametrize(
    "request_given",
    [
        pb.StartRequest(keys=[keys(ORDERS, "1")], where=[where(ORDERS, "id")]),
        pb.StartRequest(keys=[keys(ORDERS, "1"), keys(ORDERS, "2")]),
        pb.StartRequest(where=[where(ORDERS, "id"), where(ORDERS, "amount")]),
    ],
    ids=["keys and predicate", "keys twice", "predicate twice"],
)
def test_a_table_is_narrowed_once(request_given: pb.StartRequest) -> None:
    assert resolved(request_given).refusals == ["shop.orders is narrowed twice: give it one --keys or one --where"]


def test_nobody_asks_for_a_column_that_the_changefeed_omits() -> None:
    request = pb.StartRequest(where=[where(ORDERS, "amount > 5")])
    (refusal,) = resolved(request, feed=Filter(omitted=frozenset({"amount"}))).refusals
    assert "has amount at character 1, which is neither a column of the table as the feed carries it" in refusal


def test_a_predicate_too_long_to_go_into_every_select_is_refused() -> None:
    scope = resolved(pb.StartRequest(where=[where(ORDERS, "id > " + "1" * PREDICATE_BYTES_MAX)]))
    assert any("bytes of SQL" in refusal and str(ORDERS) in refusal for refusal in scope.refusals)


def test_a_refusal_with_a_way_out_of_its_own_gets_no_second_one() -> None:
    request = pb.StartRequest(dump_id="a" * 16, where=[pb.TablePredicate(schema="shop", table="orders", predicate="nothing = 1")])
    with pytest.raises(RefusedRequest) as error:
        started(request, resolved(request))
    assert str(error.value).count("what to do") == 1
    assert "dry-run" not in error.value.hint
    request.dump_id = "short"
    with pytest.raises(RefusedRequest, match=r"nothing.*; dump id 'short'") as error:
        started(request, resolved(request))
    assert str(error.value).count("what to do") == 1


def test_a_sink_that_is_nearly_one_is_suggested() -> None:
    assert list(unknown_sinks(["lkae"], ["lake", "kafka"])) == ["no sink is called lkae, did you mean lake? the sinks are lake, kafka"]
    assert list(unknown_sinks(["x"], ["lake"])) == ["no sink is called x: the sinks are lake"]


def test_narrowing_a_table_outside_of_the_scope_is_refused() -> None:
    request = rules("shop.item")
    request.where.append(where(ORDERS, "a"))
    assert resolved(request).refusals == ["shop.orders is narrowed and is not among the tables of the dump"]


def test_a_key_that_the_source_refuses_refuses_the_dump() -> None:
    wrong = pb.TableKeys(schema="shop", table="orders", keys=[pb.Key(values=["1", "2"])])
    assert "needs 1 values" in resolved(pb.StartRequest(keys=[wrong])).refusals[0]


@pytest.mark.parametrize(
    "predicate",
    ["id) OR (id", "", "exists(select 1 from hr.salary)", "secret > 1"],
)
def test_a_predicate_that_is_none_of_its_own_row_refuses_the_dump(predicate: str) -> None:
    scope = resolved(pb.StartRequest(where=[where(ORDERS, predicate)]), feed=Filter({ORDERS: "amount < 9"}))
    assert len(scope.refusals) == 1
    assert "the predicate of shop.orders" in scope.refusals[0]


def test_the_request_becomes_a_start_with_the_sidecars_defaults() -> None:
    request = pb.StartRequest(dump_id=DUMP_ID)
    start = started(request, resolved(request), chunk_rows=123)
    assert (start.dump_id, start.tables, start.brackets, start.chunk_rows) == (DUMP_ID, (ORDERS, ITEM), Brackets.WATERMARK, 123)
    assert start.pace == Pace()
    assert start.where == ()


def test_a_dump_of_all_tables_is_also_one_of_those_that_appear_and_a_dump_by_rules_is_not() -> None:
    assert started(pb.StartRequest(dump_id=DUMP_ID), resolved()).grows
    by_rules = rules("shop.*")
    assert not started(by_rules, resolved(by_rules)).grows


def test_the_request_carries_its_pace_and_brackets() -> None:
    request = pb.StartRequest(
        dump_id=DUMP_ID,
        brackets=pb.BRACKETS_SNAPSHOT,
        chunk_rows=7,
        readers=3,
        rows_per_second=2**40,
        bytes_per_second=9,
        delivery_bound_seconds=1.5,
    )
    start = started(request, resolved(request), chunk_rows=123)
    assert (start.brackets, start.chunk_rows, start.pace) == (Brackets.SNAPSHOT, 7, Pace(3, 2**40, 9, 1.5))


@pytest.mark.parametrize(
    ("request_given", "text"),
    [
        (pb.StartRequest(dump_id="short"), "dump id 'short'"),
        (pb.StartRequest(dump_id="0123456789abcd/f"), "dump id"),
        (pb.StartRequest(dump_id=DUMP_ID, readers=65), "65 readers"),
        (pb.StartRequest(dump_id=DUMP_ID, delivery_bound_seconds=-1), "a delivery bound of -1 s"),
        (pb.StartRequest(dump_id=DUMP_ID, brackets=9), "brackets 9"),  # type: ignore[arg-type]  # what a newer client may send
        (pb.StartRequest(dump_id=DUMP_ID, for_ddl=5, table_rules=["shop.orders"]), "for the sinks that stop there"),
        (pb.StartRequest(dump_id=DUMP_ID, for_ddl=5, sinks=["copy"]), "is of whole tables"),
        (
            pb.StartRequest(
                dump_id=DUMP_ID, for_ddl=5, sinks=["copy"], table_rules=["shop.orders"],
                where=[pb.TablePredicate(schema="shop", table="orders", predicate="amount > 5")],
            ),
            "no --keys or --where",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(request_given: pb.StartRequest, text: str) -> None:
    with pytest.raises(RefusedRequest, match=text):
        started(request_given, resolved(request_given))


def test_all_that_is_wrong_is_reported_at_once() -> None:
    request = pb.StartRequest(dump_id="short", table_rules=["nope.*"], where=[where(ITEM, "a")])
    with pytest.raises(RefusedRequest) as error:
        started(request, resolved(request))
    assert all(part in str(error.value) for part in ("nope.*", "shop.item is narrowed", "dump id 'short'"))


def test_ten_thousand_tables_are_resolved_with_one_question_for_each_kind_of_fact() -> None:
    tables = [TableName(f"s{number % 100}", f"t{number}") for number in range(10_000)]
    scope = resolved(rules("s1*.*"), schemas=Schemas(found={t: schema(t) for t in tables}))
    assert len(scope.tables) == 1100
    assert len(scope.estimates) == 1100


def test_what_the_source_raises_is_passed_on() -> None:
    with pytest.raises(SourceError, match="gone"):
        resolved(schemas=Schemas(failing=SourceError("TiDB is gone", hint="see TiDB")))


@pytest.mark.parametrize(("read_with", "brackets"), [(ReadWith.SQL, Brackets.WATERMARK), (ReadWith.TIKV, Brackets.SNAPSHOT)])
def test_without_brackets_they_are_those_of_what_is_read_with(read_with: ReadWith, brackets: Brackets) -> None:
    request = pb.StartRequest(dump_id=DUMP_ID)
    start = started(request, resolved(request), read_with=read_with)
    assert (start.read_with, start.brackets) == (read_with, brackets)
    request.brackets = pb.BRACKETS_WATERMARK
    assert started(request, resolved(request), read_with=read_with).brackets is Brackets.WATERMARK


_REQUESTED = {None: pb.BRACKETS_UNSPECIFIED, Brackets.WATERMARK: pb.BRACKETS_WATERMARK, Brackets.SNAPSHOT: pb.BRACKETS_SNAPSHOT}


@pytest.mark.parametrize("read_with", ReadWith)
@pytest.mark.parametrize("snapshots", ["", with_hint("the source keeps no versions", "use marks")])
@pytest.mark.parametrize("marks", ["", with_hint("the filter omits the watermark table", "add it")])
@pytest.mark.parametrize("requested", _REQUESTED)
def test_a_dump_has_the_brackets_that_it_can_have_or_is_refused_with_the_reason(
    requested: Brackets | None, marks: str, snapshots: str, read_with: ReadWith
) -> None:
    """Marks where they can be and nothing else is wanted: each shows that the source is the feed's."""
    request = pb.StartRequest(dump_id=DUMP_ID, brackets=_REQUESTED[requested])
    prefers = Brackets.SNAPSHOT if read_with is ReadWith.TIKV or marks else Brackets.WATERMARK
    brackets = requested or prefers
    against = marks if brackets is Brackets.WATERMARK else snapshots
    if not against:
        assert started(request, resolved(request), Bracketing(marks, snapshots), read_with=read_with).brackets is brackets
        return
    with pytest.raises(RefusedRequest) as refused:
        started(request, resolved(request), Bracketing(marks, snapshots), read_with=read_with)
    assert parted(against)[0] in refused.value.message
    assert parted(against)[1] in refused.value.hint


@pytest.mark.parametrize("snapshots", ["", with_hint("the source keeps no versions", "use marks")])
@pytest.mark.parametrize("marks", ["", with_hint("the account may not write", "GRANT it")])
@pytest.mark.parametrize("brackets", Brackets)
def test_a_restart_has_snapshots_where_the_account_cannot_write_marks_any_more(brackets: Brackets, marks: str, snapshots: str) -> None:
    old = Progress(DUMP_ID, DumpState.FAILED, brackets, 1, 1, 1, Seq(1), ())
    chosen = restarted_brackets(old, lambda: Bracketing(marks, snapshots))
    assert chosen is (Brackets.SNAPSHOT if brackets is Brackets.WATERMARK and marks and not snapshots else None)


def test_a_restart_does_not_wait_for_a_source_that_is_away() -> None:
    def away() -> Bracketing:
        raise SourceLost("TiDB is away", hint="wait")

    assert restarted_brackets(Progress(DUMP_ID, DumpState.FAILED, Brackets.WATERMARK, 1, 1, 1, Seq(1), ()), away) is None


def test_one_reason_against_both_brackets_is_said_once_with_its_way_out() -> None:
    elsewhere = with_hint("source.host is of cluster 1, and the changefeed reads cluster 2", "set source.host")
    message, hint = parted(Bracketing(elsewhere, elsewhere).neither())
    assert (message.count("cluster 1"), hint) == (1, "set source.host")
    assert parted(Bracketing(with_hint("a", "x"), with_hint("b", "y")).neither())[1] == "x; or y"
