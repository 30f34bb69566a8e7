"""`make soak`: `python -m tests.tools.soak --minutes 60`. Ends with 1 if the sidecar ends, stands, or its output is not the source."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from stamina import instrumentation

import sidecar.cli.environment  # noqa: F401  # first: before gRPC is loaded
from sidecar.replay.judge.verify import VerifyVerdict
from sidecar.shared.log.storage import open_folder
from tests.integration.test_live import DEADLINE_S, LEASE_S, complete_at
from tests.tools.rig.rig import Rig
from tests.tools.rig.sidecar_process import MergeWorkerProcess, SidecarProcess
from tests.tools.rig.truth import await_delivered
from tests.tools.rig.workload import Workload
from tests.tools.soak import ranges
from tests.tools.soak.ranges import RANGE_ROWS, RangeWriter
from tests.tools.soak.sampling import Series, descendant, take
from tests.tools.soak.slopes import growth, table
from tests.tools.soak.trouble import COPY, Trouble

SAMPLE_EVERY_S = 3.0
_LOG_SHOWN_CHARS = 4000


@dataclass(slots=True)
class Sampler:
    """Samples in a thread of its own until it is closed."""

    sidecar: SidecarProcess
    worker: MergeWorkerProcess
    folder: Path
    series: Series = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Sampler:
        threading.Thread(target=self._run, name="sampler", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def _run(self) -> None:
        began_s = time.monotonic()
        folders = {"log": self.folder / "log", "output": self.folder / "output"}
        while not self._ended.wait(SAMPLE_EVERY_S):
            processes = {"sidecar": self.sidecar.pid, "worker": self.worker.pid, "JVM": descendant(self.worker.pid, "java")}
            take(self.series, time.monotonic() - began_s, processes, folders)


@dataclass(frozen=True, slots=True)
class Load:
    """`writes_per_s` to the rig's tables, a row each, and `range_rows_per_s` to `range_tables` more, in statements of many rows."""

    writes_per_s: float
    range_tables: int
    range_rows_per_s: float
    seed: int

    @contextmanager
    def __call__(self, rig: Rig) -> Iterator[tuple[Workload, ...]]:
        with ExitStack() as stack:
            running = [rig.workload(writes_per_s=self.writes_per_s, seed=self.seed)]
            if self.range_tables:
                maker = partial(RangeWriter, ranges.table_names(self.range_tables))
                each_s = self.range_rows_per_s / RANGE_ROWS
                running.append(Workload(rig.source, writes_per_s=each_s, sessions=1, seed=self.seed, maker=maker))
            yield tuple(stack.enter_context(one) for one in running)


def soak(folder: Path, *, minutes: float, load: Load, result: Path) -> int:
    with ExitStack() as stack:
        rig = stack.enter_context(Rig(folder, initial_rows=300, statements=ranges.statements(load.range_tables)))
        sections: dict[str, dict[str, Any]] = {"spark": {"managed": False}, "etcd": {"lease_s": LEASE_S}}
        config = rig.sidecar_config(
            sinks=[f"file://{folder}/output?format=jsonl", f"sqlite://{folder}/out.db?name={COPY}"], log=f"file://{folder}/log", **sections
        )
        worker = stack.enter_context(MergeWorkerProcess(config, folder / "worker.log"))
        running = stack.enter_context(SidecarProcess(config, folder / "sidecar.log"))
        workloads = stack.enter_context(load(rig))
        running.await_status(lambda value: True, timeout_s=DEADLINE_S)
        sampler = stack.enter_context(Sampler(running, worker, folder))
        trouble = Trouble(rig, running, worker, seed=load.seed)
        try:
            trouble.run(60 * minutes, say)
            for workload in workloads:
                workload.stop()
            done = trouble.last_dump()
            trouble.last_verification()
            verdict = await_equal(rig, folder, done)
        except Exception as error:
            error.add_note((folder / "sidecar.log").read_text()[-_LOG_SHOWN_CHARS:])
            error.add_note((folder / "worker.log").read_text()[-_LOG_SHOWN_CHARS:])
            raise
        finally:
            reported = {**trouble.counts, "rows written": sum(one.counts.rows for one in workloads), "rows dumped": trouble.dumped}
            write(result, sampler.series, reported)
            say("\n" + table(sampler.series) + "\n\n" + ", ".join(f"{name} {count}" for name, count in reported.items()))
        say(f"the output {'equals' if verdict.ok else 'is not'} the source: {verdict if not verdict.ok else ''}")
        return 0 if verdict.ok else 1


def await_equal(rig: Rig, folder: Path, done: dict[str, Any]) -> VerifyVerdict:
    return await_delivered(open_folder(f"{folder}/output"), rig.truth(), complete_at=complete_at(done), timeout_s=DEADLINE_S)


def write(result: Path, series: Series, reported: dict[str, int]) -> None:
    results = {
        "growth": [asdict(growth(name, samples)) for name, samples in series.items() if samples],
        "counts": reported,
        "samples": {name: [list(one) for one in samples] for name, samples in series.items()},
    }
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_text(json.dumps(results))


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  # a command's answer


def main() -> int:
    requested = argparse.ArgumentParser(prog="python -m tests.tools.soak", description=__doc__)
    requested.add_argument("--minutes", type=float, default=60.0)
    requested.add_argument("--writes-per-s", type=float, default=100.0, help="to the rig's twelve tables, a row each")
    requested.add_argument("--range-tables", type=int, default=8, help="more tables, which change in ranges of rows")
    requested.add_argument("--range-rows-per-s", type=float, default=1900.0, help="changes of these")
    requested.add_argument("--seed", type=int, default=1)
    requested.add_argument("--json", type=Path, default=Path("build/soak.json"), help="where figures and samples go")
    requested.add_argument("--folder", type=Path, help="where everything is kept; default: a temporary folder")
    given = requested.parse_args()
    load = Load(given.writes_per_s, given.range_tables, given.range_rows_per_s, given.seed)
    instrumentation.set_on_retry_hooks([])
    with ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        return soak(folder, minutes=given.minutes, load=load, result=given.json)


if __name__ == "__main__":
    sys.exit(main())
