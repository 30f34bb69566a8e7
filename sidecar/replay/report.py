"""The settings of a replay and its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sidecar.replay.judge.verify import VerifyVerdict
from sidecar.shared.log.skips import Skip
from sidecar.shared.model.messages import UNBOUNDED, Pace
from sidecar.shared.model.nouns import TableName
from spark_merge.delivery.places import WORKER_ROWS

EVERY_TABLE = ("*.*",)


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """`sinks` empty: jsonl files under `out`. `speed`: recorded seconds a second, None as fast as it goes; the crashes are then spread over
    the recording. `pace`: of the dump. `key_life`: with the life of a key. `worker_rows`: as the setting
    spark.worker_rows. `row_sums`: as the setting certificate.row_sums. `report`: the file for the dump's report (sidecar/report)."""

    recording: Path
    feed: str | None = None
    brackets: str = "recorded"
    chunk_rows: int = 1000
    tables: tuple[str, ...] = EVERY_TABLE
    seed: int = 0
    crashes: int = 0
    resends: int = 0
    speed: float | None = None
    pace: Pace = UNBOUNDED
    sinks: tuple[str, ...] = ()
    out: Path | None = None
    master: str = "local[*]"
    worker_rows: int = WORKER_ROWS
    verify: bool = True
    row_sums: bool = False
    report: Path | None = None
    key_life: bool = False


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The outcome. `ok`: every table equals the truth, or, without verify, the dump is complete and delivered. `skipped`: rows of the log
    that are in no output, by an operator's decision. `key_life`: as of `life`, empty where it was not requested."""

    ok: bool
    exit_reason: str
    seconds: float
    changes: int
    dump_rows: int
    segments: int
    repeats: int
    deaths: tuple[str, ...]
    outputs: tuple[str, ...]
    dropped: dict[TableName, int]
    verdict: VerifyVerdict | None
    skipped: tuple[Skip, ...] = ()
    report: Path | None = None
    key_life: str = ""

    def to_json(self) -> dict[str, Any]:
        rows = self.changes + self.dump_rows
        return {
            "ok": self.ok,
            "exit_reason": self.exit_reason,
            "seconds": round(self.seconds, 3),
            "rows_per_second": round(rows / self.seconds, 1) if self.seconds else 0,
            "changes": self.changes,
            "dump_rows": self.dump_rows,
            "segments": self.segments,
            "repeats": self.repeats,
            "crashes": list(self.deaths),
            "outputs": list(self.outputs),
            "report": None if self.report is None else str(self.report),
            "skipped": [skip.to_json() for skip in self.skipped],
            "key_life": self.key_life.splitlines(),
            "verdict": self._verdict_to_json(),
        }

    def _verdict_to_json(self) -> dict[str, Any] | None:
        """Per table the counts and the findings, with the rows dropped in windows."""
        if self.verdict is None:
            return None
        verdict = self.verdict.to_json()
        dropped = {str(table): count for table, count in self.dropped.items()}
        return verdict | {"tables": [table | {"dropped": dropped.get(table["table"], 0)} for table in verdict["tables"]]}

    def summary(self) -> str:
        what = {"equal": "Every table equals the recorded one.", "different": "The output DIFFERS from the recorded tables."}
        dropped, report = sum(self.dropped.values()), "" if self.report is None else f"\nReport of the dump: {self.report}"
        return (
            f"{what.get(self.exit_reason, 'Delivered, not verified.')} {self.changes:,} live changes and {self.dump_rows:,} dump rows,"
            f" {dropped:,} of them dropped in windows, in {self.seconds:.1f} s."
            f" {crashes_text(len(self.deaths))}, {self.repeats:,} repeats dropped.\n"
            f"Output: {', '.join(self.outputs)}{report}"
            + "".join(f"\nskipped by an operator: {skip.table} {skip}" for skip in self.skipped)
            + (f"\n\n{self.key_life}" if self.key_life else "")
        )


def crashes_text(count: int) -> str:
    return "1 crash" if count == 1 else f"{count} crashes"
