"""What a real cluster showed of causes of holes, step by step (tests/recordings/make_holes.py), and a TiDB that shows it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sidecar.shared.model.nouns import CommitTs, TableName
from sidecar.shared.rowcodec.ddl_job import past_job
from sidecar.shared.schema.ddl import DdlJob

PLACE = Path(__file__).parents[1] / "data" / "holes" / "steps.json"


@cache
def steps() -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = json.loads(PLACE.read_text())
    return result


def inside(name: TableName) -> bool:
    """The recording's filter, `holes.*`."""
    return name.schema.lower() == "holes"


@dataclass(frozen=True)
class RecordedJob:
    """For FakeTidb's `job_list`. `synced_ts` None: it is under way for ever."""

    job: dict[str, Any]
    synced_ts: int | None

    @classmethod
    def of(cls, job: dict[str, Any]) -> RecordedJob:
        return cls(job, job["binlog"]["FinishedTS"])

    @property
    def number(self) -> int:
        return int(self.job["id"])

    @property
    def start_ts(self) -> int:
        return int(self.job["start_ts"])

    def is_synced(self, ts: int) -> bool:
        return self.synced_ts is not None and ts >= self.synced_ts

    def meta(self, ts: int) -> str:
        """Running, then in the history with `synced_ts`."""
        if not self.is_synced(ts):
            return json.dumps(self.job | {"state": 1})
        return json.dumps(self.job | {"binlog": self.job["binlog"] | {"FinishedTS": self.synced_ts}})


def every_job() -> list[RecordedJob]:
    return [RecordedJob.of(job) for step in steps() for job in step["jobs"]]


def jobs_of(step: str) -> list[DdlJob]:
    (one,) = (one for one in steps() if one["step"] == step)
    results = [past_job(json.dumps(job).encode(), at="a recorded job") for job in one["jobs"]]
    return [job for job in results if job is not None]


def tso(step: str) -> CommitTs:
    return CommitTs(next(int(one["tso"]) for one in steps() if one["step"] == step))
