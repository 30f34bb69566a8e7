"""What follows an exact dump. Its restarts: tests/integration/test_verify_service.py."""

from __future__ import annotations

import pytest

from sidecar.control.dump_scope import Scope
from sidecar.control.exact import after_dump, exact_id
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.log.verification import RequestedTable, VerifyRequest
from tests.unit.control.serving import ITEM
from ticdc_dump.v1 import control_pb2 as pb

SINKS = {"copy": "", "lake": ""}


@pytest.mark.parametrize("given", [None, 0, 7])
def test_what_its_repair_may_delete_is_requested_with_it_and_0_is_not_nothing(given: int | None) -> None:
    start = pb.StartRequest(dump_id="d" * 16, delete_at_most=given)
    assert after_dump(start, Scope([ITEM]), sinks=SINKS, asked_ms=7).delete_at_most == given


def test_an_exact_dump_is_followed_by_a_repair_of_its_tables_in_its_sinks() -> None:
    start = pb.StartRequest(dump_id="d" * 16, sinks=["lake"])
    request = after_dump(start, Scope([ITEM]), sinks=SINKS, asked_ms=7)
    tables = (RequestedTable(*ITEM),)
    assert request == VerifyRequest(exact_id("d" * 16), ("lake",), tables, asked_ms=7, repair=True, after_dump="d" * 16, partly=True)
    assert after_dump(start, Scope([ITEM]), sinks=SINKS, asked_ms=8).id == request.id, "requested again it is the same"


def test_a_dump_of_a_part_of_a_table_is_not_exact() -> None:
    with pytest.raises(RefusedRequest, match="an exact dump is of whole tables"):
        after_dump(pb.StartRequest(dump_id="d" * 16), Scope([ITEM], narrowed=(ITEM,)), sinks=SINKS, asked_ms=7)
