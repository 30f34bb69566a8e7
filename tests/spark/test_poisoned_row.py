"""A row of the log that nobody can decode: the worker stands and says why, until an operator leaves it out; then the stream goes on, and
all outputs are the rule's without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import monotonic, sleep

import pytest
from pyspark.sql import SparkSession

from sidecar.replay.replay import Replay
from sidecar.replay.report import ReplaySettings
from sidecar.run.gauge import _error_of
from sidecar.run.merge_process import Death, MergeProcess
from sidecar.shared.log import layout
from sidecar.shared.log.deliveries import LogDeliveries
from sidecar.shared.log.delivery_report import DeliveryReport
from sidecar.shared.log.identity import known_id, name_of
from sidecar.shared.log.skips import Skip, skip_row
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import CommitTs, Lane, Seq, TableName
from spark_merge.delivery.places import WORKER_ROWS
from spark_merge.sinks.files.reader import read_output
from spark_merge.sinks.files.sink import FileSink
from spark_merge.testing.histories import SEGMENTS, check, poison, random_history, write_log
from spark_merge.worker.session import OpenSession
from tests.support.merge_command import MergeSettings
from tests.support.recordings import recording

pytestmark = pytest.mark.spark
DEADLINE_S = 600.0
"""Several Spark sessions on a loaded machine."""


def wait_for(what: Callable[[], bool], why: Callable[[], object]) -> None:
    until_s = monotonic() + DEADLINE_S
    while not what():
        assert monotonic() < until_s, why()
        sleep(0.02)


class Story:
    """A log, its merge worker as a sidecar has it, and what that tells."""

    def __init__(self, folder: Path, *, worker_rows: int = WORKER_ROWS) -> None:
        self.log = open_folder(str(folder / "log"))
        self.outputs = {name: open_folder(str(folder / name)) for name in ("jsonl", "parquet")}
        self.config = folder / "sidecar.toml"
        uris = tuple(f"file://{out.root}?format={name}" for name, out in self.outputs.items())
        self.config.write_text(MergeSettings(self.log.root, uris, "local[1]", worker_rows=worker_rows).toml())
        self._deliveries = LogDeliveries(self.log)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "sidecar", arguments[0], "--config", str(self.config), *arguments[1:]]

    def merge(self) -> list[str]:
        return self.command("merge", "--log-id", "log-1", "--epoch", "1", "--end-with-stdin")

    def report(self) -> DeliveryReport | None:
        self._deliveries._read()
        return self._deliveries.report

    def error(self) -> str:
        report = self.report()
        return _error_of(report) if report is not None else ""

    def accepted(self) -> set[Seq | None]:
        rest = [FileSink(out, log_id=name_of("log-1", known_id(self.log)), file_format=name).look() for name, out in self.outputs.items()]  # type: ignore[arg-type]  # one of two
        return {accepted.seq if accepted is not None else None for accepted in rest}


def test_the_worker_says_what_it_is_stuck_at_and_continues_when_an_operator_skips_the_row(tmp_path: Path) -> None:
    """Live rows alone, which need no Spark; with windows: tests/unit/merge/test_undecodable.py."""
    history, story = random_history(Random(5)), Story(tmp_path)
    poison(history, 2, 3)
    for windows in history.windows:
        windows.clear()
    manifests = write_log(story.log, history)
    noticed: list[Death] = []
    process = MergeProcess(story.merge(), noticed.append)
    process.start()
    try:
        wait_for(lambda: (result := story.report()) is not None and all(sink.error for sink in result.sinks), story.report)
        reported = story.error()
        assert "(segment 2, ordinal 3 of the log)" in reported
        assert "type 'blob' does not fit kind text" in reported
        assert "ticdc-dump skip --config FILE --seq 2 --ordinal 3" in reported
        report = story.report()
        assert report is not None
        assert (report.state, report.seq) == ("running", 1), "all before it is delivered"

        done = subprocess.run(story.command("skip", "--seq", "2", "--ordinal", "3"), capture_output=True, text=True, check=True)
        assert "1 skipped now" in done.stdout
        wait_for(lambda: story.accepted() == {Seq(SEGMENTS - 1)}, lambda: (story.accepted(), story.report(), noticed))
        wait_for(lambda: (result := story.report()) is not None and result.skipped == 1 and not story.error(), story.report)
        assert not noticed, "one process all the time"
    finally:
        process.close(at_once=False)
    check(history, manifests, story.outputs["jsonl"])


def test_a_worker_whose_spark_does_not_start_says_so_and_ends_by_its_own_exit_code(tmp_path: Path) -> None:
    story = Story(tmp_path, worker_rows=0)
    write_log(story.log, random_history(Random(5)))
    environment = {**os.environ, "JAVA_HOME": str(tmp_path / "nowhere")}
    with (tmp_path / "said").open("wb") as said:
        worker = subprocess.Popen(story.merge(), stdin=subprocess.PIPE, stderr=said, env=environment)
    try:
        code = worker.wait(DEADLINE_S)
    finally:
        worker.kill()
        worker.communicate()
    reported = (tmp_path / "said").read_text()
    assert code == 3, reported
    assert "Fatal Python error" not in reported
    report = story.report()
    assert report is not None
    assert report.state == "stopped"
    assert "Spark at local[1] does not start" in report.error
    assert "what to do" in report.error


def test_a_replay_says_what_was_left_out(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are there before their segments, which a replay writes and delivers in one breath; no log would be begun on them."""
    monkeypatch.setattr(layout, "skip_of", lambda _: None)
    settings = ReplaySettings(
        recording("demo"), brackets="recorded", out=tmp_path / "out", sinks=(f"file://{tmp_path}/jsonl?format=jsonl",)
    )
    replay = Replay(settings)
    skips = [
        Skip(Seq(seq), 0, CommitTs(1), "put", TableName("shop", "orders"), "open-protocol", Lane("k/0"), 7, b"", b"", "unreadable")
        for seq in range(3, 6)
    ]
    for skip in skips:
        skip_row(replay.log, skip)
    report = replay.run(lambda status: None, lambda: OpenSession(spark))
    assert report.skipped == tuple(skips)
    assert [one["seq"] for one in report.to_json()["skipped"]] == [3, 4, 5]
    assert "skipped by an operator: shop.orders segment 3, ordinal 0: unreadable" in report.summary()
    json.dumps(report.to_json())
    rows = list(read_output(Folder("file", f"{tmp_path}/jsonl")))
    assert len(rows) > 100
    assert not [row for row in rows if row["origin"] == "log" and row["ordinal"] == 0 and row["seq"] in (3, 4, 5)]
