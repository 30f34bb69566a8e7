"""Whether dumps are as a request would have them already."""

from __future__ import annotations

import pytest

from sidecar.control.repeated import already_done, is_set
from sidecar.shared.model.messages import Brackets, Pace, PauseDump, Request, RestartDump, ResumeDump, Settings, StartDump, StopDump
from sidecar.shared.model.nouns import Seq
from sidecar.shared.model.progress import DumpState, Progress

FINISHED, PAUSED, RUNNING, FAILED = DumpState.FINISHED, DumpState.PAUSED, DumpState.RUNNING, DumpState.FAILED


def dump(number: int, state: DumpState) -> Progress:
    return Progress(f"d{number}", state, Brackets.WATERMARK, 10, 1, 1, Seq(0), (), pace=Pace(readers=3), number=number)


@pytest.mark.parametrize(
    ("request_", "states", "target", "expected"),
    [
        (PauseDump(), [RUNNING], PAUSED, None),
        (PauseDump(), [PAUSED], PAUSED, "d0"),
        (PauseDump(), [PAUSED, RUNNING], PAUSED, None),
        (PauseDump("d0"), [PAUSED, RUNNING], PAUSED, "d0"),
        (PauseDump("d1"), [PAUSED, RUNNING], PAUSED, None),
        (StopDump(), [FINISHED, RUNNING], DumpState.STOPPED, None),
        (ResumeDump(), [FAILED, RUNNING], RUNNING, "d1"),
        (ResumeDump(), [FAILED], RUNNING, None),
        (PauseDump(), [], PAUSED, None),
    ],
)
def test_a_request_without_an_id_is_done_once_no_dump_is_left_that_it_can_be_for(
    request_: Request, states: list[DumpState], target: DumpState, expected: str | None
) -> None:
    dumps = [dump(number, state) for number, state in enumerate(states)]
    result = already_done(dumps, request_, lambda progress: progress.state is target)
    assert (result and result.dump_id) == expected


def test_a_dump_that_is_there_was_started() -> None:
    for request in (StartDump("d0", (), Brackets.WATERMARK, 10), RestartDump("d0", "d9")):
        result = already_done([dump(0, FINISHED)], request, lambda progress: progress.dump_id == "d0")
        assert result is not None


def test_settings_are_compared_as_far_as_they_are_given() -> None:
    assert is_set(Settings(readers=3), frozenset({RUNNING}), dump(0, RUNNING))
    assert not is_set(Settings(readers=4), frozenset({RUNNING}), dump(0, RUNNING))
    assert not is_set(Settings(), frozenset({PAUSED}), dump(0, RUNNING))
