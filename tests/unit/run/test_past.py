"""Samples of the time before this process, from the parts of dumps that are not over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from msgspec import structs

from sidecar.run.log_event import LogEvent
from sidecar.run.past import PastSamples
from sidecar.run.samples import DAY_MS, Samples
from sidecar.shared.log import storage
from sidecar.shared.log.certificate_parts import SampleLine, write_part
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import Seq
from tests.support.eventually import eventually
from tests.unit.report.made import BEGIN_MS, DUMP, OTHER, chunk_line, sample
from tests.unit.run.test_samples import STATUS


def begun(at_s: float) -> Samples:
    """Of a process that begins so long after BEGIN_MS."""
    samples = Samples()
    samples.see(replace(STATUS, epoch=9), BEGIN_MS + int(at_s * 1000))
    return samples


def times(sample_lines: list[SampleLine]) -> list[float]:
    return [(one.at_ms - BEGIN_MS) / 1000 for one in sample_lines]


def past(folder: Folder, samples: Samples, lines: list[LogEvent] | None = None) -> list[SampleLine]:
    """When they have been read."""
    said = [] if lines is None else lines
    past_samples = PastSamples(folder, samples, said.append)
    past_samples.of_a_day()
    eventually(lambda: past_samples._reading is not None and not past_samples._reading.alive)
    return past_samples.of_a_day()


def test_a_chart_begins_before_this_process_where_a_dump_has_been_sampled(tmp_path: Path) -> None:
    log = open_folder(str(tmp_path))
    write_part(log, 1, DUMP, Seq(1), Seq(2), [chunk_line(1), sample(10), sample(12)])
    write_part(log, 1, DUMP, Seq(3), Seq(4), [sample(12), sample(14), chunk_line(3), structs.replace(sample(14), epoch=2)])
    write_part(log, 1, OTHER, Seq(3), Seq(4), [sample(13)])
    write_part(log, 1, OTHER, Seq(5), Seq(6), [chunk_line(5)])
    assert times(past(log, begun(20))) == [10, 12, 13, 14, 14, 20]
    assert times(past(log, begun(13.5))) == [10, 12, 13, 13.5], "this process knows what it has seen itself"


def test_no_more_than_a_day_is_read(tmp_path: Path) -> None:
    log = open_folder(str(tmp_path))
    write_part(log, 1, DUMP, Seq(1), Seq(2), [sample(-DAY_MS / 1000), sample(1)])
    assert times(past(log, begun(10))) == [1, 10]


def test_without_samples_of_its_own_or_parts_there_is_nothing_before(tmp_path: Path) -> None:
    log = open_folder(str(tmp_path))
    assert PastSamples(log, Samples()).of_a_day() == []
    assert times(past(log, begun(10))) == [10]


def test_what_cannot_be_read_costs_the_past_alone(tmp_path: Path) -> None:
    log = open_folder(str(tmp_path))
    write_part(log, 1, DUMP, Seq(1), Seq(2), [sample(1)])
    write_part(log, 1, DUMP, Seq(3), Seq(4), [sample(3)])
    damaged = next(name for name in storage.list_names(log, deep=True) if name.endswith(f"{3:020d}-{4:020d}-{1:010d}.jsonl"))
    storage.write_atomically(log, damaged, b"no line of a part\n")
    assert times(past(log, begun(10))) == [1, 10]
    lines: list[LogEvent] = []
    assert times(past(open_folder("s3://bucket/log?endpoint=http://127.0.0.1:1&key=a&secret=b"), begun(10), lines)) == [10]
    assert [one.event for one in lines] == ["no samples of before"]
