"""The files of verifications: which names there can be, and that a read changes none of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.shared.errors import FileDamaged, LogBroken
from sidecar.shared.log import storage, verification_files
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.log.verification import (
    OVER,
    CheckState,
    RepairReport,
    TableReport,
    VerifyReport,
    VerifyRequest,
    begun_name,
    decoded,
    differences_name,
    repair_stem,
    report_name,
    request_name,
    waiting_name,
)
from sidecar.shared.log.verification_files import (
    STALE_S,
    UNREADABLE,
    FollowedStates,
    count_beginning,
    read_differences,
    read_repair,
    read_report,
    read_request,
    read_state,
    read_waiting,
    set_aside,
    take_back_beginning,
    write_report,
    write_state,
)
from sidecar.shared.log.verification_state import DEATHS_IN_ALL_MAX, DEATHS_MAX, state_of
from sidecar.shared.model.nouns import OperationId
from tests.support.hostile_ids import HOSTILE, all_below

V1 = OperationId("v1")
READS: dict[str, Callable[[Folder], object]] = {
    request_name(V1): partial(read_request, operation_id=V1),
    waiting_name(V1): partial(read_waiting, operation_id=V1),
    report_name(V1): partial(read_report, operation_id=V1),
    f"{repair_stem(V1)}-{3:010d}.json": partial(read_repair, operation_id=V1),
    differences_name(V1, 0): lambda log: list(read_differences(log, V1, 0)),
}


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    (tmp_path / "verify" / "v1").mkdir(parents=True)
    return open_folder(str(tmp_path))


@pytest.mark.parametrize("name", READS)
def test_a_read_of_a_damaged_file_changes_nothing_and_the_owner_sets_it_aside(log: Folder, tmp_path: Path, name: str) -> None:
    for each in READS:
        (tmp_path / each).write_bytes(b"{")
    before = all_below(tmp_path)
    for _ in range(2):
        with pytest.raises(FileDamaged, match=f"{name} in .* cannot be read"):
            READS[name](log)
        assert all_below(tmp_path) == before
    with pytest.raises(LogBroken, match=f"{name}{UNREADABLE} now"), set_aside(log):
        READS[name](log)
    assert all_below(tmp_path) == {one if one != name else f"{one}{UNREADABLE}": data for one, data in before.items()}
    assert not READS[name](log)


@example([(life % 2, False) for life in range(DEATHS_IN_ALL_MAX + 2)])
@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=3 * DEATHS_IN_ALL_MAX))
def test_the_deaths_of_a_verification_are_bounded_at_one_place_and_in_all(lives: list[tuple[int, bool]]) -> None:
    """Of each life: how much is done by then, and whether it ends in good order."""
    log = storage.open_folder("memory://beginnings")
    storage.remove(log, [begun_name(V1)])
    here = in_all = place = 0
    for done, ends_well in lives:
        here, place = here if done == place else 0, done
        tables = [TableReport("copy", "shop", "item", parts_done=done)]
        storage.write_atomically(log, report_name(V1), VerifyReport(V1, CheckState.RUNNING, 1, tables=tables).to_json())
        given_up = count_beginning(log, V1).given_up
        assert bool(given_up) == (here >= DEATHS_MAX or in_all >= DEATHS_IN_ALL_MAX)
        assert given_up == "" or f"{here} times at the same place" in given_up or f"{in_all} times in all" in given_up
        if ends_well:
            take_back_beginning(log, V1)
        else:
            here, in_all = here + 1, in_all + 1


@pytest.mark.parametrize("state", [CheckState.RUNNING, CheckState.DIFFERENT])
@pytest.mark.parametrize("is_newer", [False, True])
def test_a_state_that_does_not_follow_its_report_is_noticed(log: Folder, state: CheckState, is_newer: bool) -> None:
    """As after a rollback to a worker that writes reports alone. An end counts whatever the clocks of the workers' machines say."""
    now_s = 0.0
    followed = FollowedStates(log, lambda: now_s)
    assert followed.read(V1) is None
    stale = VerifyReport(V1, CheckState.RUNNING, 1, written_ms=50, needs_from=3)
    write_report(log, stale, None)
    report = VerifyReport(V1, state, 1, written_ms=60 if is_newer else 40, needs_from=None if state in OVER else 7)
    storage.write_atomically(log, report_name(V1), report.to_json())
    for passed_s in (0.0, 1.0, STALE_S - 2):
        now_s += passed_s
        assert followed.read(V1) == state_of(stale, None)
    now_s += 1.0
    expected = state_of(report if is_newer or state in OVER else stale, None)
    assert followed.read(V1) == expected
    assert read_state(log, V1) == expected, "so do all who read it"
    now_s += STALE_S
    assert followed.read(V1) == expected


def test_a_state_that_moves_costs_no_report(log: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    followed = FollowedStates(log, lambda: now_s)
    monkeypatch.setattr(verification_files, "read_report", Mock(side_effect=AssertionError("it is read")))
    for number in range(5):
        now_s += STALE_S
        write_state(log, VerifyReport(V1, CheckState.RUNNING, 1, written_ms=number), None)
        assert followed.read(V1) is not None


def test_what_is_no_damage_passes_the_owner_as_it_is(log: Folder) -> None:
    with set_aside(log):
        assert read_report(log, V1) is None
    with pytest.raises(LogBroken, match="a gap") as caught, set_aside(log):
        raise LogBroken("a gap", hint="none")
    assert not isinstance(caught.value, FileDamaged)


@pytest.mark.parametrize("text", ["", *HOSTILE])
def test_an_id_in_a_file_is_one(text: str) -> None:
    wrong = OperationId(text)
    for one in (VerifyRequest(wrong, (), ()), VerifyReport(wrong, CheckState.EQUAL, 1), RepairReport(dumps=(wrong,))):
        with pytest.raises(ValueError, match=f"no {type(one).__name__}"):
            decoded(type(one), one.to_json())
