"""A repair is refused wherever a row of the sink alone, or another one, can be right: by the changefeed's filter, by a shared target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from sidecar.control.dump_scope import Scope, resolve
from sidecar.control.exact import after_dump
from sidecar.control.judging import Targets, not_repairable, unjudged
from sidecar.control.verification_messages import asked, expected
from sidecar.run.repairing import KeyDump, start_key_dump
from sidecar.shared.errors import RefusedRequest, SinkError
from sidecar.shared.log.verification import Unjudged, VerifyRequest
from sidecar.shared.model.messages import Asker
from sidecar.shared.model.nouns import OperationId, TableName
from sidecar.shared.ticdc.changefeed import EventFilter
from sidecar.shared.ticdc.event_filter import FilterRules
from sidecar.shared.ticdc.hidden_changes import KINDS, Explanation, explanations
from spark_merge.sinks.registry import seen_from_here, target_of
from tests.unit.control.serving import ITEM, ORDERS, Filter, Owner, Schemas
from tests.unit.ticdc.test_event_filter import feed
from tests.unit.ticdc.test_hidden_changes import FILTERS
from ticdc_dump.v1 import control_pb2 as pb

ID, SINKS = "a" * 16, {"copy": "", "lake": ""}
HIDING = {name: setting for name, (setting, kinds, _) in FILTERS.items() if kinds}
HIDDEN = Explanation("deletes are hidden", frozenset({"extra"}))
OTHER = TableName("shop2", "orders")


def scope_of(**setting: object) -> Scope:
    """Of two tables, of which a filter matches one."""
    rules = FilterRules.of(feed(EventFilter(("shop.orders",), **setting)))  # type: ignore[arg-type]  # by the filter's own names
    scope = Scope([ORDERS, ITEM], delivered=(ORDERS, ITEM))
    scope.explained = {table: explained for table in scope.tables if (explained := explanations(rules, table, key=("id",)))}
    return scope


def verify(scope: Scope, targets: Targets | None = None, *, repair: bool = False) -> VerifyRequest:
    return asked(pb.VerifyRequest(id=ID, repair=repair), scope, sinks=SINKS, targets=targets or {}, asked_ms=7)


@pytest.mark.parametrize("name", HIDING)
def test_a_repair_is_refused_where_the_filter_makes_a_difference_right(name: str) -> None:
    with pytest.raises(RefusedRequest, match=r"shop\.orders in copy: .* rows can be right, since .*--tables '\*\.\*,!shop\.orders'"):
        verify(scope_of(**HIDING[name]), repair=True)
    with pytest.raises(RefusedRequest, match="rows can be right"):
        after_dump(pb.StartRequest(dump_id="d" * 16), scope_of(**HIDING[name]), sinks=SINKS, asked_ms=7)


@pytest.mark.parametrize("name", HIDING)
def test_a_comparison_without_repair_runs_and_says_what_is_not_judged(name: str) -> None:
    request = verify(scope_of(**HIDING[name]))
    kinds = FILTERS[name][1]
    reported = [one for one in request.unjudged if one.name == ORDERS]
    assert {one.sink for one in reported} == {"copy", "lake"}
    assert {kind for one in reported for kind in one.kinds} == kinds
    shown = {(one.sink, one.table): {kind for each in one.unjudged for kind in each.kinds} for one in expected(request, []).tables}
    assert shown["lake", "orders"] == kinds, "a dry run shows it"


def test_a_filter_that_hides_no_row_refuses_nothing() -> None:
    scope = scope_of(**FILTERS["indexes"][0])
    assert verify(scope, repair=True).unjudged == ()
    assert after_dump(pb.StartRequest(dump_id="d" * 16), scope, sinks=SINKS, asked_ms=7).repair


def test_each_reason_is_named_and_many_are_counted() -> None:
    tables = [TableName("s", f"t{number:02}") for number in range(15)]
    scope = Scope(tables, delivered=tuple(tables), explained={table: [HIDDEN] for table in tables})
    (text,) = not_repairable(unjudged(scope, ["copy"], {}))
    assert "s.t00 in copy: extra rows can be right, since deletes are hidden" in text
    assert "and 5 more reasons" in text


# ---- two tables with one target -----------------------------------------------------------------------------------------

MERGED = "routes=shop.*=>c.*,shop2.*=>C.*"
SHARED: Mapping[str, tuple[str, TableName, TableName]] = {
    "SQL": (f"mysql://u@h/?{MERGED}", ORDERS, OTHER),
    "SQL, one table": ("mysql://u@h/?routes=shop.orders=>c.o,shop2.orders=>c.O", ORDERS, OTHER),
    "SQL, to where a table stays": ("tidb://u@h/?routes=shop.orders=>shop2.orders", ORDERS, OTHER),
    "SQLite": ("sqlite:///x.db", TableName("a.b", "c"), TableName("a", "B.C")),
    "ClickHouse": ("clickhouse://u@h/?routes=shop.*=>c.*,shop2.*=>c.*", ORDERS, OTHER),
    "OpenSearch": (f"opensearch://h/?{MERGED}", ORDERS, OTHER),
    "OpenSearch, by its pattern": ("opensearch://h/?index={table}", ORDERS, OTHER),
    "Delta": (f"delta:///lake?mode=merge&{MERGED}", ORDERS, OTHER),
    "Iceberg": (f"iceberg:c?uri=http://h&mode=merge&{MERGED}", ORDERS, OTHER),
}
SEPARATE = {
    "mysql://u@h/": True, "mysql://u@h/?routes=shop.*=>c.*": True, "sqlite:///x.db": True, "clickhouse://u@h/": True,
    "opensearch://h/": True, "delta:///lake?mode=merge": True,
    "kafka://h/t?protocol=canal-json": False, "file:///out": False, "file:///out?protocol=csv": False, "https://h/x": False,
}  # fmt: skip
"""Whether two tables could have one target by another URI."""


def targets_of(uri: str) -> Targets:
    target = target_of(uri, log_id="")
    return {} if target is None else {"copy": target}


@pytest.mark.parametrize("kind", SHARED)
def test_a_repair_is_refused_where_a_target_has_another_tables_rows_too(kind: str) -> None:
    uri, one, other = SHARED[kind]
    scope = Scope([one, ITEM], delivered=(one, ITEM, other))
    targets = targets_of(uri)
    (shared,) = verify(scope, targets).unjudged
    assert (shared.sink, shared.name, shared.kinds) == ("copy", one, KINDS), "of a table that the request does not name, too"
    assert f"has the rows of {other} too" in shared.why
    with pytest.raises(RefusedRequest, match="has the rows of"):
        verify(scope, targets, repair=True)
    with pytest.raises(RefusedRequest, match="has the rows of"):
        after_dump(pb.StartRequest(dump_id="d" * 16), scope, sinks=SINKS, targets=targets, asked_ms=7)
    assert asked(pb.VerifyRequest(id=ID, repair=True, sinks=["lake"]), scope, sinks=SINKS, targets=targets, asked_ms=7).repair


@pytest.mark.parametrize(
    "uri",
    [
        "mysql://u@h/?password-file=/nowhere/p&routes=shop.*=>c.*,shop2.*=>c.*",
        "clickhouse://u@h/?password-file=/nowhere/p&routes=shop.*=>c.*,shop2.*=>c.*",
        "opensearch://u@h/?index={table}&password-file=/nowhere/p",
    ],
)
def test_what_tables_share_is_known_of_a_sink_that_only_another_machine_can_open(uri: str) -> None:
    """Its password's file is where the merge worker runs."""
    why, target = seen_from_here(uri, log_id="", elsewhere=True)
    assert why == ""
    assert target is not None
    with pytest.raises(RefusedRequest, match="has the rows of"):
        verify(Scope([ORDERS], delivered=(ORDERS, OTHER)), {"copy": target}, repair=True)
    with pytest.raises(SinkError, match="/nowhere/p"):
        seen_from_here(uri, log_id="", elsewhere=False)


@pytest.mark.parametrize("uri", SEPARATE)
def test_tables_of_which_each_has_a_target_are_repaired(uri: str) -> None:
    targets = targets_of(uri)
    assert bool(targets) is SEPARATE[uri]
    assert verify(Scope([ORDERS, ITEM], delivered=(ORDERS, ITEM, OTHER)), targets, repair=True).unjudged == ()


# ---- what has changed since the comparison ---------------------------------------------------------------------------------


def test_all_tables_of_the_changefeed_count_and_those_outside_of_its_rules_do_not() -> None:
    scope = resolve(pb.StartRequest(table_rules=["shop.orders"]), Schemas(), Filter(), case_sensitive=False)
    assert scope.tables == [ORDERS]
    assert {ORDERS, ITEM} <= set(scope.delivered)
    assert all(table.schema == "shop" for table in scope.delivered)


@pytest.mark.parametrize("reason", ["filter", "target", "name"])
def test_a_repairs_dump_is_refused_if_a_difference_can_be_right_by_then(reason: str) -> None:
    """Or if nobody would receive it: a repair that asks may be answered days later, when its sink has another name."""
    dump = KeyDump(OperationId("d" * 16), "copy", {ORDERS: (("7",),)}, Asker("alice", "", ""))
    hides = Filter(explained={ORDERS: [HIDDEN]})
    with Owner() as owner:
        served = owner.served(sinks=SINKS)
        changed = {
            "filter": (replace(served, feed_scope=hides), "a repair would delete or overwrite rows that the sink has rightly"),
            "target": (replace(served, targets={"copy": lambda _: "one"}), "a repair would delete or overwrite rows that the sink has"),
            "name": (replace(served, sinks={"copy2": ""}), "no sink is called copy, did you mean copy2\\? the sinks are copy2"),
        }
        with pytest.raises(RefusedRequest, match=changed[reason][1]):
            start_key_dump(changed[reason][0], dump)
        assert owner.carried_out == []
        start_key_dump(served, dump)
        assert [getattr(one, "keys", ()) for one in owner.carried_out] == [((ORDERS, (("7",),)),)]


def test_a_repairs_dump_leaves_out_keys_that_no_row_of_the_source_can_have() -> None:
    """Somebody has put them into a sink. A dump without any key is not started."""
    with Owner() as owner:
        served = owner.served(sinks=SINKS)
        dump = KeyDump(OperationId("d" * 16), "copy", {ORDERS: (("7",), ("7", "8")), ITEM: (("1", "2"),)}, Asker("alice", "", ""))
        assert start_key_dump(served, dump) == replace(dump, keys={ORDERS: (("7",),)})
        assert start_key_dump(served, replace(dump, keys={ITEM: (("1", "2"),)})).keys == {}
        assert [getattr(one, "keys", ()) for one in owner.carried_out] == [((ORDERS, (("7",),)),)]


def test_what_is_not_judged_is_in_the_request_and_old_requests_have_none() -> None:
    from sidecar.shared.log.verification import VerifyRequest, decoded

    request = verify(scope_of(**HIDING["deletes"]))
    assert decoded(VerifyRequest, request.to_json()) == request
    assert all(isinstance(one, Unjudged) for one in request.unjudged)
    assert decoded(VerifyRequest, b'{"id":"x","sinks":["copy"],"tables":[]}').unjudged == ()
