"""What a term collects of one dump beside its segments: samples while it runs, and what was not passed on before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.run.collecting import CollectedDump
from sidecar.run.samples import Samples
from sidecar.shared.log.certificate import SegmentLine
from sidecar.shared.log.certificate_parts import Line
from sidecar.shared.model.nouns import OperationId, Seq
from sidecar.shared.model.progress import DumpState
from tests.unit.report.made import batch_line
from tests.unit.run.test_samples import NOW_MS, STATUS, dump


@pytest.fixture
def collected() -> CollectedDump:
    return CollectedDump.begun(OperationId("a"), Seq(5), ())


def states(*value: DumpState) -> Samples:
    """Of dump `a`, a sample each."""
    made = Samples()
    for number, state in enumerate(value):
        made.see(replace(STATUS, dumps=(dump("a", state),)), NOW_MS + 2000 * number)
    return made


def times(lines: list[Line]) -> list[int]:
    return [(getattr(line, "at_ms", 0) - NOW_MS) // 2000 for line in lines]


def test_samples_are_those_in_which_it_runs_each_once(collected: CollectedDump) -> None:
    running, paused = DumpState.RUNNING, DumpState.PAUSED
    made = states(paused, running, running, paused, running)
    collected.sample(made)
    collected.sample(made)
    assert times(collected.pending) == [1, 2, 4]
    made.see(replace(STATUS, dumps=(dump("a", running),)), NOW_MS + 10_000)
    collected.sample(made)
    assert times(collected.pending) == [1, 2, 4, 5]


def test_after_its_parts_a_term_takes_later_samples_only() -> None:
    made = states(*[DumpState.RUNNING] * 4)
    result = CollectedDump.resumed(OperationId("a"), [SegmentLine(5, "", ""), *made.after(0)[:2]])
    assert result is not None
    result.sample(made)
    assert times(result.pending) == [2, 3]


def test_new_lines_are_each_passed_on_once_also_when_a_part_is_written_between(collected: CollectedDump) -> None:
    lines = [batch_line(number, number, None) for number in range(5)]
    collected.pending += lines[:2]
    assert collected.new_lines() == lines[:2]
    collected.pending += lines[2:4]
    assert collected.new_lines() == lines[2:4]
    collected.saved_lines()
    collected.pending += lines[4:]
    assert collected.new_lines() == lines[4:]
    assert collected.new_lines() == []
