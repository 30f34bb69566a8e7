"""Reports of dumps: written when a dump is over, whatever its end was; and what a report may not do to a certificate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sidecar.history.entry import HistoryEntry
from sidecar.report.build import report_html
from sidecar.report.chunks import Chunks
from sidecar.run import dump_reports
from sidecar.run.certifying import ACCEPT_WAIT_S, SAVE_S
from sidecar.run.dump_reports import DumpReports
from sidecar.run.samples import Samples
from sidecar.shared.errors import LogUnreachable
from sidecar.shared.log import dump_files, storage
from sidecar.shared.log.dump_files import CERTIFICATES, REPORTS
from sidecar.shared.model.nouns import OperationId
from sidecar.shared.model.progress import DumpState
from tests.unit.report.parsed import page
from tests.unit.run.followed_dumps import DUMP, FACTS, OTHER, T, World, batch
from tests.unit.run.test_samples import NOW_MS, STATUS, dump


class Reported(World):
    """With the samples and the chunks of the owner, which outlive the followers too."""

    def __init__(self, folder: Path) -> None:
        self.samples, self.shown = Samples(), Chunks(100, first=False)
        super().__init__(folder)

    def follower(self) -> Any:
        made = super().follower()
        made._reports = DumpReports(self.log, lambda: FACTS, self.samples, self.shown, self.lines.append)
        return made

    def report(self, dump_id: str = DUMP) -> str:
        html = storage.read_file(self.log, REPORTS.name(OperationId(dump_id))).decode()
        return " ".join("".join(page(html).itertext()).split())

    def runs(self, *seconds: int, epoch: int = 3, dump_id: str = DUMP) -> None:
        for second in seconds:
            status = replace(STATUS, epoch=epoch, dumps=(dump(dump_id, DumpState.RUNNING),), waiting_for="sink: slow")
            self.samples.see(status, NOW_MS + 1000 * second)


@pytest.fixture
def world(tmp_path: Path) -> Reported:
    reported = Reported(tmp_path / "log")
    reported.records(DumpState.RUNNING)
    return reported


def breaks(*_: object) -> str:
    raise ZeroDivisionError("a defect")


def away(*_: object) -> None:
    raise storage.log_error("log", "", storage.Unreachable(5, "away", "log"))


# ---- when there is one ----------------------------------------------------------------------------------------------------


def test_a_finished_dump_has_a_report_beside_its_certificate(world: Reported) -> None:
    world.segment(world.window())
    world.segment(world.window())
    world.runs(0, 2, 4)
    world.reports.say(1, batch(0, 1, {T: 3}))
    world.finish()
    text = world.report()
    assert "finished. 20 rows of 1 table (200 B)" in text
    assert "Live changes have replaced 3 of them" in text
    assert "all up to segment 1" in text
    assert "sink4 sslow" in text, "what it waited for, by the samples"
    assert f"Certificate: certificates/{DUMP}.json beside the log." in text
    assert (CERTIFICATES.ids(world.log), REPORTS.ids(world.log)) == ([DUMP], [DUMP])


def test_it_has_what_earlier_terms_collected_and_the_takeover_between(world: Reported) -> None:
    world.segment(world.window())
    world.runs(0, 2)
    world.step(SAVE_S)
    world.samples = Samples()
    world.follower()
    world.segment(world.window())
    world.runs(30, 32, epoch=4)
    world.finish()
    text = world.report()
    assert "finished. 20 rows of 1 table" in text
    assert "a new owner takes over (epoch 4), 28 s after the last sample of the owner before" in text


@pytest.mark.parametrize("state", [DumpState.STOPPED, DumpState.FAILED])
def test_one_that_did_not_finish_has_a_report_and_no_certificate(world: Reported, state: DumpState) -> None:
    world.segment(world.window())
    world.step()
    world.records(state)
    world.step()
    assert f"{state}. 10 rows of 1 table" in world.report()
    assert "This dump has no certificate." in world.report()
    assert CERTIFICATES.ids(world.log) == []


def test_a_dump_that_failed_was_resumed_and_failed_again_has_the_report_of_the_last_end(world: Reported) -> None:
    world.segment(world.window())
    world.step()
    world.records(DumpState.FAILED)
    world.step()
    assert "10 rows" in world.report()
    world.records(DumpState.RUNNING)
    world.segment(world.window())
    world.step()
    entry = world.history.find(DUMP)
    assert entry is not None
    world.history.record(replace(entry, state=DumpState.FAILED, result="away again", ended_ms=60))
    world.step()
    assert "failed: away again. 20 rows" in world.report()
    world.records(DumpState.RUNNING)
    world.finish()
    assert "finished. 20 rows" in world.report()


def test_it_is_written_once_for_each_end(world: Reported, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[DumpState] = []

    def counted(lines: Any, entry: HistoryEntry, facts: Any) -> str:
        written.append(entry.state)
        return report_html(lines, entry, facts)

    monkeypatch.setattr(dump_reports, "report_html", counted)
    world.segment(world.window())
    world.step()
    world.records(DumpState.FAILED)
    for _ in range(5):
        world.step()
    assert written == [DumpState.FAILED]


def test_a_dump_of_which_chunks_are_missing_has_a_report_that_says_so(world: Reported) -> None:
    world.segment(world.window())
    world.step()
    world.records(DumpState.FINISHED, chunks=2)
    world.step()
    world.step(ACCEPT_WAIT_S)
    assert "This dump has no certificate." in world.report()


@pytest.mark.parametrize(("state", "chunks"), [(DumpState.STOPPED, 1), (DumpState.FINISHED, 1), (DumpState.FINISHED, 2)])
def test_the_newest_reports_are_kept_however_dumps_end(
    world: Reported, monkeypatch: pytest.MonkeyPatch, state: DumpState, chunks: int
) -> None:
    """With 2 chunks, one is missing in the log."""
    monkeypatch.setattr(dump_files, "KEPT_MAX", 2)
    for old in "123":
        storage.write_atomically(world.log, REPORTS.name(OperationId(old)), b"old")
    world.segment(world.window())
    world.step()
    world.records(state, chunks=chunks)
    world.step()
    world.step(ACCEPT_WAIT_S)
    assert len(REPORTS.ids(world.log)) == 2
    assert DUMP in REPORTS.ids(world.log)


# ---- what goes wrong ------------------------------------------------------------------------------------------------------


def test_a_defect_of_a_report_is_a_line_and_the_certificate_is_written(world: Reported, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_reports, "report_html", breaks)
    world.segment(world.window())
    world.finish()
    assert world.reported("no report") == ["a defect: ZeroDivisionError('a defect')"]
    assert (CERTIFICATES.ids(world.log), REPORTS.ids(world.log)) == ([DUMP], [])


def test_while_the_storage_does_not_take_a_report_the_certificate_waits_and_is_written_once(
    world: Reported, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An output holds the certificate's sum: so nothing that is tried again may write it anew."""
    world.segment(world.window())
    world.step()
    world.records(DumpState.FINISHED)
    world.step()
    with monkeypatch.context() as patch:
        patch.setattr(storage, "write_atomically", away)
        for _ in range(2):
            with pytest.raises(LogUnreachable):
                world.step(ACCEPT_WAIT_S)
    assert CERTIFICATES.ids(world.log) == []
    world.step()
    assert (CERTIFICATES.ids(world.log), REPORTS.ids(world.log)) == ([DUMP], [DUMP])
    assert world.reported("no report") == []


# ---- chunks for those who watch -------------------------------------------------------------------------------------------


def test_the_owners_chunks_are_those_of_the_dumps_that_are_collected_each_once(world: Reported) -> None:
    world.segment(world.window())
    world.segment(world.window())
    world.step(SAVE_S)
    world.follower()
    world.segment(world.window())
    world.reports.say(2, batch(0, 2, {T: 4}))
    world.step()
    world.step()
    assert [(chunk.dump_id, chunk.seq, chunk.dropped) for chunk in world.shown.kept()] == [(DUMP, 0, None), (DUMP, 1, None), (DUMP, 2, 4)]


def test_samples_are_kept_with_the_dump_that_runs(world: Reported) -> None:
    world.segment(world.window())
    world.runs(0, 2)
    world.runs(4, 6, dump_id=OTHER)
    world.step()
    dump_of = world.made._dumps[DUMP]
    assert dump_of.sampled_ms == NOW_MS + 2000
