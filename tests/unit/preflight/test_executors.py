"""What `check --spark` says of what tasks report, with tasks in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest

from sidecar.preflight.executors import spark_session
from sidecar.shared.config import Config, DumpSection, SparkSection
from sidecar.shared.process.checks import CheckFinding, CheckSkipped, CheckStatus
from spark_merge.worker import read_reach
from spark_merge.worker import session as sessions
from spark_merge.worker.read_reach import ReadsTried, Unreached
from tests.unit.preflight.test_machine import settings

AWAY = Unreached("source", "no route to tidb:4000", "open the port")


class Session:
    """A SparkSession with two cores."""

    defaultParallelism = 2  # noqa: N815  # Spark's name

    def __init__(self) -> None:
        self.sparkContext = self  # Spark's name
        self.ended = False

    def parallelize(self, places: Iterable[int], _: int) -> Session:
        self.places = places
        return self

    def map(self, task: Callable[[int], ReadsTried]) -> Session:
        self.results = [task(place) for place in self.places]
        return self

    def collect(self) -> list[ReadsTried]:
        return self.results

    def stop(self) -> None:
        self.ended = True


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "changefeed.txt").write_text("feed")
    return settings(tmp_path, spark=SparkSection(master="spark://host:7077"), dump=DumpSection())


def findings(config: Config, monkeypatch: pytest.MonkeyPatch, *tried: ReadsTried) -> list[CheckFinding]:
    session = Session()
    monkeypatch.setattr(sessions, "session", lambda **_: session)
    monkeypatch.setattr(read_reach, "try_reads", lambda settings, sql, tikv, place: tried[place % len(tried)])
    result = list(spark_session(config, requested_for=True))
    assert session.ended
    return result


def test_without_a_request_no_session_is_started(config: Config) -> None:
    with pytest.raises(CheckSkipped):
        list(spark_session(config, requested_for=False))


def test_each_executor_that_does_not_reach_the_source_is_one_finding_with_the_way_out(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (ReadsTried("host", f"/work/app-1/{number}", ("changefeed.txt",), (AWAY,)) for number in range(2))
    result = findings(config, monkeypatch, first, second)
    assert [one.status for one in result] == [CheckStatus.FAILED] * 2
    assert [one.setting for one in result] == ["source"] * 2
    assert "a task on host (executor in /work/app-1/1) failed: no route to tidb:4000" in result[1].what
    assert result[1].hint == 'open the port; or set dump.read_on = "sidecar"'
    assert len(findings(config, monkeypatch, first)) == 1, "two tasks of one executor"


def test_an_executor_with_another_disk_in_the_place_of_the_log_is_named(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    (result,) = findings(config, monkeypatch, ReadsTried("host", "/work", (), ()))
    assert (result.status, result.setting) == (CheckStatus.FAILED, "log.uri")
    assert "a task on host (executor in /work) finds none of the log's 1 files" in result.what


@pytest.mark.parametrize(("read_on", "reads"), [("auto", "and reads from "), ("sidecar", "")])
def test_what_is_reached_is_named(config: Config, monkeypatch: pytest.MonkeyPatch, read_on: str, reads: str) -> None:
    config = msgspec.structs.replace(config, dump=msgspec.structs.replace(config.dump, read_on=read_on))
    (result,) = findings(config, monkeypatch, ReadsTried("host", "/work", ("changefeed.txt",), ()))
    assert result.status is CheckStatus.OK
    assert "sees the log's 1 files" in result.what
    assert ("and reads from" in result.what) == bool(reads)
