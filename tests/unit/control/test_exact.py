"""What follows an exact dump. Its restarts: tests/integration/test_verify_service.py."""

from __future__ import annotations

from itertools import product

import pytest

from sidecar.control import exact as exact_module
from sidecar.control.dump_scope import Scope
from sidecar.control.exact import after_dump, exact_id, verification_of
from sidecar.history.entry import HistoryEntry, OperationKind, OperationScope
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.log.verification import RequestedTable, VerifyRequest
from sidecar.shared.model.messages import NOT_RECORDED, Brackets
from sidecar.shared.model.nouns import OperationId, Seq
from sidecar.shared.model.progress import DumpState, Progress
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


D0, D1, D2 = (OperationId(f"{number:016x}") for number in range(3))


def entry(operation_id: OperationId, restart_of: str = "") -> HistoryEntry:
    return HistoryEntry(operation_id, OperationKind.DUMP, OperationScope(), NOT_RECORDED, 1, restart_of=restart_of)


CHAIN = (entry(D2, D1), entry(D1, D0), entry(D0))
"""A dump and its restarts, newest first."""
FOLLOWED = (None, *map(exact_id, (D0, D1, D2)))


def of_last(exact: bool | None, history: list[HistoryEntry]) -> OperationId | str | None:
    """A text where the restart is rejected."""
    dump = Progress(D2, DumpState.FAILED, Brackets.WATERMARK, 1, 1, 1, Seq(0), (), exact=exact)
    try:
        return verification_of(dump, history)
    except RefusedRequest as refused:
        return str(refused)


@pytest.mark.parametrize("exact", [True, False])
def test_the_record_of_a_dump_says_whether_it_is_exact_whatever_the_history_has_lost(exact: bool) -> None:
    for followed, there in product(FOLLOWED, range(len(CHAIN) + 1)):
        history = [*([] if followed is None else [entry(followed)]), *CHAIN[:there]]
        assert of_last(exact, history) == (exact_id(D2) if exact else None)


def test_of_a_record_that_does_not_say_it_the_history_says_it_or_the_restart_is_rejected() -> None:
    """As 0.4 wrote it, which left a restart with the verification of the dump before it."""
    for followed, there in product(FOLLOWED, range(len(CHAIN) + 1)):
        shown = of_last(None, [*([] if followed is None else [entry(followed)]), *CHAIN[:there]])
        if followed is not None and followed in FOLLOWED[-there - 1 :]:
            assert shown == followed
        elif there == len(CHAIN):
            assert shown is None
        else:
            assert "is exact is not known" in str(shown)
            assert "use dumpstart with its tables" in str(shown)


def test_a_full_history_does_not_say_that_a_dump_is_not_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have lost the entry."""
    monkeypatch.setattr(exact_module, "HISTORY_MAX", len(CHAIN))
    assert "is exact is not known" in str(of_last(None, [*CHAIN]))
    assert of_last(None, [entry(exact_id(D2)), *CHAIN]) == exact_id(D2)
