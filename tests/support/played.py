"""Whole replays without a session of Spark: all batches are small enough for this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sidecar.replay.replay import Replay
from sidecar.replay.report import ReplayReport, ReplaySettings
from sidecar.replay.status import ReplayStatus
from spark_merge.worker.spark_tasks import RunningSpark
from tests.support.recordings import recording


def no_session() -> RunningSpark:
    raise AssertionError("a batch needed Spark")


class Played:
    """A replay of `demo` below a folder, and what was shown of it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.statuses: list[ReplayStatus] = []
        given: dict[str, Any] = {"recording": recording("demo"), "brackets": "watermark", "chunk_rows": 100, "out": folder / "out"}
        self.replay = Replay(ReplaySettings(**(given | settings)))
        self.report: ReplayReport = self.replay.run(self.statuses.append, no_session)
