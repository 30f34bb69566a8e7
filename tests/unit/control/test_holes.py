"""Which dump fills holes: of the tables and sinks that have one, and of nothing else."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from sidecar.control import holes as module
from sidecar.control.dump_scope import Scope
from sidecar.control.exact import after_dump
from sidecar.control.holes import narrow_to_holes
from sidecar.control.status import SidecarStatus
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.model.hole import HoleCause, OpenHole
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.sink_delivery import SinkTables
from sidecar.shared.ticdc.table_rules import TableRules
from tests.unit.control.serving import ITEM, ORDERS, Owner
from ticdc_dump.v1 import control_pb2 as pb

SINKS = {"copy": "", "lake": "", "topic": "its rows cannot be read back"}
ODD = TableName("s.x", "t*,!`")
HOLE = OpenHole(HoleCause.IMPORT, CommitTs(7), Seq(3), False, "IMPORT INTO")
GONE = OpenHole(HoleCause.PARKED, CommitTs(7), Seq(3), True, "parked")


def known(**holes: dict[TableName, OpenHole]) -> dict[str, SinkTables]:
    return {name: SinkTables(name, name, Seq(0), None, Seq(9), None, holes=holes.get(name, {})) for name in SINKS}


def status_of(tables: dict[str, SinkTables], carried: tuple[TableName, ...] = (ORDERS, ITEM, ODD)) -> SidecarStatus:
    status = Owner().status
    assert status is not None
    return replace(status, sink_tables=tables, carried=carried)


def narrowed(tables: dict[str, SinkTables], *sinks: str, rules: tuple[str, ...] = ()) -> pb.StartRequest:
    request = pb.StartRequest(dump_id="d" * 16, holes=True, sinks=sinks, table_rules=rules)
    narrow_to_holes(request, status_of(tables), SINKS)
    return request


def test_it_is_of_the_tables_and_the_sinks_that_have_one() -> None:
    request = narrowed(known(lake={ORDERS: HOLE}, copy={ITEM: HOLE, ORDERS: HOLE}))
    assert (list(request.sinks), request.exact) == (["copy", "lake"], False)
    rules = TableRules.of(list(request.table_rules))
    assert {table for table in (ORDERS, ITEM, ODD) if rules.matches(table)} == {ORDERS, ITEM}


def test_where_each_sink_has_one_it_is_for_all() -> None:
    assert list(narrowed(known(**{name: {ODD: HOLE} for name in SINKS})).sinks) == []
    assert list(narrowed(known(**{name: {ODD: HOLE} for name in SINKS}), "lake").sinks) == ["lake"]


def test_a_name_is_matched_as_it_is() -> None:
    rules = TableRules.of(list(narrowed(known(lake={ODD: HOLE})).table_rules))
    assert rules.matches(ODD)
    assert not rules.matches(TableName("s.x", "tt"))


@pytest.mark.parametrize(("sink", "readable"), [("lake", True), ("topic", False)])
def test_where_rows_vanished_it_is_exact_if_the_sink_can_be_read_back(sink: str, readable: bool) -> None:
    for gone, also in product((HOLE, GONE), (HOLE, None)):
        tables = known(**{sink: {ORDERS: gone, **({} if also is None else {ITEM: also})}})
        assert narrowed(tables).exact is (gone.vanished and readable)
    wanted = pb.StartRequest(dump_id="d" * 16, holes=True, exact=True)
    narrow_to_holes(wanted, status_of(known(lake={ORDERS: HOLE})), SINKS)
    assert wanted.exact, "an operator may want more"


def test_only_what_can_be_read_back_is_compared_after_it() -> None:
    request = narrowed(known(lake={ORDERS: GONE}, topic={ORDERS: GONE}))
    assert list(request.sinks) == ["lake", "topic"]
    assert after_dump(request, Scope([ORDERS]), sinks=SINKS, asked_ms=7).sinks == ("lake",)


@pytest.mark.parametrize("sinks", [(), ("copy",)])
def test_without_a_hole_it_is_refused(sinks: tuple[str, ...]) -> None:
    with pytest.raises(RefusedRequest, match=r"no table .*has a hole"):
        narrowed(known(lake={ORDERS: HOLE} if sinks else {}), *sinks)


@pytest.mark.parametrize("more", [{"keys": [pb.TableKeys()]}, {"where": [pb.TablePredicate()]}, {"for_ddl": 1}], ids=str)
def test_it_is_of_whole_tables(more: dict[str, object]) -> None:
    with pytest.raises(RefusedRequest, match="of whole tables"):
        narrow_to_holes(pb.StartRequest(holes=True, **more), status_of(known(lake={ORDERS: HOLE})), SINKS)  # type: ignore[arg-type]


def test_rules_choose_among_the_tables_that_have_one() -> None:
    tables = known(lake={ORDERS: HOLE, ITEM: GONE})
    request = narrowed(tables, rules=(f"{ORDERS.schema}.{ORDERS.table}",))
    assert [table for table in (ORDERS, ITEM) if TableRules.of(list(request.table_rules)).matches(table)] == [ORDERS]
    assert request.exact is False
    with pytest.raises(RefusedRequest, match="no table of these has a hole"):
        narrowed(tables, rules=("other.*",))


def test_a_table_that_is_not_carried_any_more_is_left_out() -> None:
    gone = TableName("shop", "gone")
    rules = TableRules.of(list(narrowed(known(lake={ORDERS: HOLE, gone: GONE})).table_rules))
    assert (rules.matches(ORDERS), rules.matches(gone)) == (True, False)
    with pytest.raises(RefusedRequest, match="no table has a hole"):
        narrowed(known(lake={gone: HOLE}))


def test_too_many_are_dumped_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RULES_MAX", 1)
    with pytest.raises(RefusedRequest, match="2 tables have a hole, more than 1") as refused:
        narrowed(known(lake={ORDERS: HOLE, ITEM: HOLE}))
    assert "give --tables" in refused.value.hint


def test_sinks_that_cannot_be_read_back_are_not_compared_in_the_place_of_others() -> None:
    request = pb.StartRequest(dump_id="d" * 16, holes=True, exact=True, sinks=["topic"])
    narrow_to_holes(request, status_of(known(topic={ORDERS: GONE}, lake={ORDERS: GONE})), SINKS)
    with pytest.raises(RefusedRequest, match="topic cannot be read back"):
        after_dump(request, Scope([ORDERS]), sinks=SINKS, asked_ms=7)
