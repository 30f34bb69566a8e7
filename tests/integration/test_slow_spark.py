"""A default dump on real servers beside a Spark whose jobs take long: it is neither starved nor silent about what it costs.

How fast it is, `make bench ARGS="--only slow-spark"` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import CommitTs, TableName
from tests.tools.rig.load import busy_loops
from tests.tools.rig.rig import Rig
from tests.tools.rig.sidecar_process import MergeWorkerProcess, SidecarProcess
from tests.tools.rig.truth import await_delivered

pytestmark = [pytest.mark.xdist_group("rig"), pytest.mark.turns(2, "whole product")]

DEADLINE_S = 600.0
WRITES_PER_S = 100
JOB_S = 1.5
MARK_EVERY_S = 1.0
"""As seldom as TiCDC sends resolved marks."""


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with Rig(tmp_path, initial_rows=300, mark_every_s=MARK_EVERY_S) as result:
        yield result


def dumped(rig: Rig, sidecar: SidecarProcess, *options: str, after: str = "") -> dict[str, Any]:
    """The last status while a dump of all tables runs amid writes, whose output equals the tables. `after`: the id of the one before."""
    running = dict[str, Any]()

    def finished(value: dict[str, Any]) -> bool:
        if value["dump_id"] == after:
            return False
        running.update(value if value["state"] == "running" else {})
        return bool(value["state"] == "finished")

    with rig.workload(writes_per_s=WRITES_PER_S, sessions=2):
        sidecar.ask("dumpstart", *options)
        status = sidecar.await_status(finished, timeout_s=DEADLINE_S)
    complete_at = {TableName(t["schema"], t["table"]): CommitTs(int(t["complete_at_tso"])) for t in status["tables"]}
    verdict = await_delivered(open_folder(f"{rig.folder}/output"), rig.truth(), complete_at=complete_at, timeout_s=DEADLINE_S)
    assert verdict.ok, verdict.to_json()
    return running


def config(rig: Rig, *, worker_rows: int) -> Path:
    sink, log = f"file://{rig.folder}/output?format=jsonl", f"file://{rig.folder}/log"
    return rig.sidecar_config(sinks=[sink], log=log, spark={"managed": False, "worker_rows": worker_rows})


def test_where_spark_merges_every_window_the_bound_is_exceeded_in_so_many_words(rig: Rig) -> None:
    settings = config(rig, worker_rows=0)
    with (
        MergeWorkerProcess(settings, rig.folder / "worker.log", slow_job_s=JOB_S),
        SidecarProcess(settings, rig.folder / "sidecar.log") as sidecar,
    ):
        sidecar.await_status(lambda value: bool(value["sinks"]), timeout_s=DEADLINE_S)
        bound = "--delivery-bound-seconds", "0.5"
        first = dumped(rig, sidecar, *bound)["dump_id"]  # over before any batch with its rows is: nobody knows yet what one costs
        (sink,) = dumped(rig, sidecar, *bound, "--rows-per-second", "300", after=first)["sinks"]
    assert sink["limit_s"] > sink["bound_s"] == 0.5
    assert sink["fixed_s"] > 0.5, "what a batch takes by itself, as far as a few batches tell: more than the bound"
    log = (rig.folder / "sidecar.log").read_text()
    assert log.count("live delivery above its bound") in (1, 2)
    assert "each batch with dump rows takes" in log


def test_small_windows_wait_for_no_spark_and_a_dump_ends_beside_busy_loops(rig: Rig) -> None:
    settings = config(rig, worker_rows=20_000)
    with (
        MergeWorkerProcess(settings, rig.folder / "worker.log", slow_job_s=DEADLINE_S),
        SidecarProcess(settings, rig.folder / "sidecar.log") as sidecar,
        busy_loops(2),
    ):
        sidecar.await_status(lambda value: bool(value["sinks"]), timeout_s=DEADLINE_S)
        (sink,) = dumped(rig, sidecar)["sinks"]
    assert sink["limit_s"] < DEADLINE_S, "no batch has waited for a job"
    assert "Spark ready" not in (rig.folder / "sidecar.log").read_text()
