"""A worker's verifications as a thread: what is small is done here, what is large by Spark's tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from sidecar.errors import SparkLost
from sidecar.log import storage
from sidecar.log.storage import open_folder
from sidecar.log.verification import AskedTable, CheckState, VerifyRequest, request_name
from sidecar.log.verification_files import read_report
from spark_merge.contract import Head
from spark_merge.delivery import JobSettings
from spark_merge.job import SparkJob, SparkTasks
from spark_merge.sinks.mysql.server import SqlServer
from spark_merge.verify import runner
from spark_merge.verify.on_spark import HERE_ROWS, OnSpark, VerifySource, begin
from tests.support.eventually import eventually

R = TypeVar("R")


@dataclass
class Tasks:
    """In the place of `SparkTasks`. `lost`: its session has ended."""

    lost: bool = False
    jobs: list[int] = field(default_factory=list)

    def cores(self, heads: Sequence[Head]) -> int:
        return 7

    def each(self, work: Sequence[Callable[[], R]]) -> list[R]:
        if self.lost:
            raise SparkLost("it has ended", hint="nothing")
        self.jobs.append(len(work))
        return [one() for one in work]


@pytest.mark.parametrize(("rows", "jobs"), [(0, []), (HERE_ROWS, []), (HERE_ROWS + 1, [3])])
def test_work_on_few_rows_is_done_here_and_more_by_tasks(rows: int, jobs: list[int]) -> None:
    tasks = Tasks()
    made = OnSpark(cast("SparkTasks", tasks))
    assert made.run([partial(int, text) for text in "312"], rows=rows) == [3, 1, 2]
    assert tasks.jobs == jobs
    assert made.cores == 7


def test_what_spark_raises_is_raised() -> None:
    with pytest.raises(SparkLost):
        OnSpark(cast("SparkTasks", Tasks(lost=True))).run([int], rows=HERE_ROWS + 1)


@dataclass
class Job:
    """In the place of `SparkJob`."""

    spark: Tasks = field(default_factory=Tasks)

    def batch_s(self) -> float:
        return 0.0


def test_a_thread_carries_out_what_is_asked_of_sinks_by_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "LOOK_EVERY_S", 0.01)
    log, notices = open_folder(str(tmp_path)), list[str]()
    source = VerifySource(SqlServer((("127.0.0.1", 1),), "nobody"))
    request = VerifyRequest("v1", ("shown", "other"), (AskedTable("s", "t"),))
    storage.write_atomically(log, request_name("v1"), request.to_json())
    made = begin(cast("SparkJob", cast("Any", Job())), JobSettings(log), ["console:?name=shown"], "log-1", source, notices.append)
    try:
        report = eventually(lambda: (found := read_report(log, "v1")) and found.state is CheckState.FAILED and found)
    finally:
        made.close(10)
    made.check()
    assert report
    assert [one.why for one in report.tables] == ["its rows cannot be read back", "there is no sink other"]
    assert notices == []
