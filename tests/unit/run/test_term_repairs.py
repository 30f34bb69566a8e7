"""Repairs whose owner died, or wakes late. What a repair does: test_term_verifications.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from sidecar.adapters.memory.progress import MemoryHistory
from sidecar.shared.errors import LogUnreachable
from sidecar.shared.log import storage
from sidecar.shared.log.owned import latest
from sidecar.shared.log.verification import CheckState, RepairReport, RepairState, TableReport, VerifyReport, differences_name, repair_stem
from sidecar.shared.log.verification_files import read_repair, read_request, write_report
from sidecar.shared.model.progress import DumpState
from tests.unit.run.test_term_verifications import AGAIN, ALICE, TO_REPAIR, Term

ROWS = b'{"kind":"missing","key":["1"]}\n{"kind":"extra","key":["9"]}\n'
BEFORE = ("asks", "runs", "is compared")
"""What there is of the repair when an operator stops it. In the last one the comparison is over, and the owner has not seen it yet."""


def term_with(folder: Path, before: str) -> Term:
    term = Term(folder, MemoryHistory())
    term.made.begin()
    term.made.start(structs.replace(TO_REPAIR, delete_at_most=0 if before == "asks" else None), ALICE)
    storage.write_atomically(term.log, differences_name(TO_REPAIR.id, 0), ROWS)
    table = TableReport("copy", "shop", "item", CheckState.DIFFERENT, missing=1, extra=1)
    write_report(term.log, VerifyReport(TO_REPAIR.id, CheckState.DIFFERENT, 1, tables=[table]), read_request(term.log, TO_REPAIR.id))
    if before != "is compared":
        term.made.follow()
        assert repair_of(term).state is (RepairState.ASKS if before == "asks" else RepairState.RUNNING)
    return term


def dies_amid_stop(term: Term) -> None:
    """After the history has it."""

    def away(*_: object) -> None:
        raise LogUnreachable("away", hint="wait")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(storage, "write_atomically", away)
        with pytest.raises(LogUnreachable):
            term.made.stop(TO_REPAIR.id, ALICE)


def repair_of(term: Term) -> RepairReport:
    repair = read_repair(term.log, TO_REPAIR.id)
    assert repair is not None
    return repair


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("before", BEFORE)
def test_what_an_operator_has_stopped_corrects_nothing_from_then_on(tmp_path: Path, before: str, dies: bool) -> None:
    """Wherever the owner dies between the stop and what shows it, and however often."""
    term = term_with(tmp_path, before)
    started = len(term.dumps)
    if dies:
        dies_amid_stop(term)
        for _ in range(3):
            term.made.follow()  # it was an error of the storage, and no death
        assert len(term.dumps) == started
    else:
        term.made.stop(TO_REPAIR.id, ALICE)
    for _ in range(2):
        following = Term(tmp_path, term.history)
        following.made.begin()
        for dump in term.dumps:
            following.ended(dump, DumpState.FINISHED)
        for _ in range(3):
            following.made.follow()
        assert (len(term.dumps), following.dumps, read_request(following.log, AGAIN)) == (started, [], None)
        assert (repair_of(following).state, "alice ended it" in repair_of(following).error) == (RepairState.FAILED, True)


@pytest.mark.parametrize("before", ["asks", "runs"])
def test_what_a_late_owner_writes_of_a_repair_is_not_read(tmp_path: Path, before: str) -> None:
    late = term_with(tmp_path, before)
    shown = repair_of(late)
    later = Term(tmp_path, late.history)
    later.made.begin()
    assert latest(later.log, repair_stem(TO_REPAIR.id)) == later.owner.name(repair_stem(TO_REPAIR.id))
    late.made._repairs._write(TO_REPAIR.id, RepairReport(RepairState.FAILED, error="an error"))
    assert repair_of(later) == shown
