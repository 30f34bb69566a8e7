"""A replay's report of its dump: that of a sidecar, with the totals of the replay, and what befell the sidecars as events."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sidecar.replay.crashes import Crash, CrashFate
from sidecar.replay.dump_report import check_writable
from sidecar.replay.recorded_dump import DUMP_ID
from sidecar.replay.replay import Replay
from sidecar.replay.report import ReplaySettings
from sidecar.shared.errors import ConfigError
from sidecar.shared.model.nouns import ts_at
from sidecar.shared.model.progress import DumpState
from tests.support.played import Played
from tests.support.recordings import recording


def html_of(played: Played) -> str:
    assert played.report.report is not None
    return played.report.report.read_text()


def cells(html: str) -> list[list[str]]:
    """The texts of the tables' cells, row by row."""
    rows = re.findall(r"<tr>(.*?)</tr>", html, flags=re.DOTALL)
    return [[re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<td.*?>(.*?)</td>", row, flags=re.DOTALL)] for row in rows]


def test_the_report_has_the_rows_of_the_summary(played: Played) -> None:
    report, html = played.report, html_of(played)
    assert report.ok
    assert f"{report.dump_rows:,} rows" in html
    assert sum(report.dropped.values()) > 0
    assert report.verdict is not None
    rows = {row[0]: row for row in cells(html) if row}
    for table in report.verdict.tables:
        dropped = report.dropped[table.table]
        assert {f"{table.from_dump + dropped:,}", f"{dropped:,}"} <= set(rows[str(table.table)][1:]), table.table


def test_crashes_pauses_and_restarts_are_events_of_the_report(played: Played) -> None:
    results = {row[1] for row in cells(html_of(played)) if len(row) == 2}
    assert len(played.report.deaths) == 2
    for where in played.report.deaths:
        assert any(text.startswith(f"the sidecar died {where}") for text in results), where
    stopped = [entry.id for entry in played.replay.stored.history.entries() if entry.state is DumpState.STOPPED]
    assert [f"restart of dump {one}, which this one replaces" in results for one in stopped] == [True]
    assert {"pause, by the replay", "resume, by the replay"} <= results


def test_the_summary_says_where_the_report_is(played: Played) -> None:
    report = played.report
    assert f"\nReport of the dump: {report.report}" in report.summary()
    assert report.to_json()["report"] == str(report.report)


def test_the_view_ends_with_the_numbers_of_the_summary(played: Played) -> None:
    """Also where sidecars died before they had counted what they wrote; marks are no live changes."""
    last, report = played.statuses[-1], played.report
    assert (last.changes, last.dump_rows, last.dropped, last.repeats) == (
        report.changes, report.dump_rows, sum(report.dropped.values()), report.repeats,
    )  # fmt: skip
    assert report.verdict is not None
    assert last.changes == sum(table.from_log for table in report.verdict.tables)
    assert last.dump_rows == last.dropped + sum(table.from_dump for table in report.verdict.tables)


def test_a_recorded_dump_has_a_report(tmp_path: Path) -> None:
    played = Played(tmp_path, brackets="recorded", report=tmp_path / "report.html")
    report, recorded = played.report, played.replay.recording
    assert f"{report.dump_rows:,} rows" in (tmp_path / "report.html").read_text()
    (entry,) = [one for one in played.replay.stored.history.entries() if one.id == DUMP_ID]
    assert recorded.start_ts < ts_at(entry.started_ms) < ts_at(entry.ended_ms)


def test_a_report_that_cannot_be_written_is_said_before_the_replay(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written: No such file or directory"):
        Replay(ReplaySettings(recording("demo"), out=tmp_path / "out", report=tmp_path / "none" / "report.html"))
    with pytest.raises(ConfigError, match="cannot be written: Is a directory"):
        check_writable(tmp_path)


def test_no_crash_comes_before_it_is_due() -> None:
    due = [False]
    fate = CrashFate(Random(1), crashes=1, chance=1.0, due=lambda: due[0])
    assert fate.around("manifest", lambda: 7) == 7
    due[0] = True
    with pytest.raises(Crash, match="before manifest"):
        fate.around("manifest", lambda: 7)


def test_at_a_speed_crashes_are_spread_over_the_recording(tmp_path: Path) -> None:
    replay = Replay(ReplaySettings(recording("demo"), out=tmp_path / "out", speed=1.0, crashes=1))
    for part, due in ((0.4, False), (0.6, True)):
        replay.cluster = cast("Any", SimpleNamespace(played_part=lambda part=part: part))
        assert replay.fate.due() is due
