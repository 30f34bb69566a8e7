"""Whatever befalls the work beside the stream and one of its sinks, live changes reach every other sink, all through a dump: the whole
product, because what is promised is that none of its processes and threads passes a fault on.

The faults: a defect in one sink, every file of verifications, certificates and reports damaged, the source's grants revoked, the process
of verifications killed and frozen.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import CommitTs, TableName
from tests.support.eventually import eventually
from tests.tools.rig.rig import Rig
from tests.tools.rig.sidecar_process import MergeWorkerProcess, SidecarProcess
from tests.tools.rig.tables import SCHEMA
from tests.tools.rig.truth import await_delivered

pytestmark = [pytest.mark.xdist_group("rig"), pytest.mark.turns(2, "whole product")]

DEADLINE_S = 600.0
WRITES_PER_S = 30
WELL = ("first", "second")
ODD = "odd"
DAMAGE = (b"", b"{", b"\0" * 100, b"[1, 2]")


def sinks(folder: Path) -> list[str]:
    return [*(f"file://{folder}/{name}?format=jsonl&name={name}" for name in WELL), f"sqlite://{folder}/odd.db?name={ODD}"]


class Faults:
    """Each of them while a dump and a verification are under way."""

    def __init__(self, rig: Rig, sidecar: SidecarProcess) -> None:
        self.rig, self.sidecar = rig, sidecar

    def damage(self) -> None:
        """Everything that a service beside the stream reads, in each way in turn."""
        log = self.rig.folder / "log"
        files = [path for name in ("verify", "certificates", "reports") for path in sorted((log / name).rglob("*")) if path.is_file()]
        assert files
        for number, path in enumerate(files):
            with suppress(FileNotFoundError):  # it is removed meanwhile
                path.write_bytes(DAMAGE[number % len(DAMAGE)])

    def revoke(self) -> None:
        """Until the dump has failed of that."""
        self.rig.db.execute(f"REVOKE SELECT ON {SCHEMA}.* FROM side@'%'")
        status = self.sidecar.await_status(lambda value: value["state"] in ("failed", "finished"), timeout_s=DEADLINE_S)
        self.rig.db.execute(f"GRANT SELECT ON {SCHEMA}.* TO side@'%'")
        if status["state"] == "failed":
            self.sidecar.ask("dumpresume")

    def kill_verification(self) -> None:
        for pid in self._verifying():
            os.kill(pid, signal.SIGKILL)

    def freeze_verification(self) -> None:
        for pid in self._verifying():
            os.kill(pid, signal.SIGSTOP)

    def _verifying(self) -> list[int]:
        def found() -> list[int]:
            done = subprocess.run(["pgrep", "-f", "spark_merge.verify.child"], capture_output=True, text=True, check=False)
            return [int(pid) for pid in done.stdout.split() if str(self.rig.folder) in output_of(int(pid))]

        pids: list[int] = eventually(found, "no verification is under way", within_s=DEADLINE_S)
        return pids


def output_of(pid: int) -> str:
    """Where it prints: to its worker's log."""
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/fd/1")
    return ""


def await_past(sidecar: SidecarProcess, moment_s: float) -> dict[str, Any]:
    """Until each sink that is well has everything that had committed by then."""

    def are_past(status: dict[str, Any]) -> bool:
        lags_s = {sink["sink"]: float(sink["lag_s"]) for sink in status["sinks"]}
        return all(time.time() - lags_s.get(name, 1e9) > moment_s for name in WELL)

    return sidecar.await_status(are_past, timeout_s=DEADLINE_S)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with Rig(tmp_path, initial_rows=300) as result:
        result.db.execute(
            "CREATE USER side@'%' IDENTIFIED BY 'p@ss:w/ord #1%'",
            "GRANT PROCESS, RELOAD ON *.* TO side@'%'",
            f"GRANT SELECT ON {SCHEMA}.* TO side@'%'",
            "GRANT ALL PRIVILEGES ON changefeed_dump.* TO side@'%'",
        )
        yield result


def test_no_fault_beside_the_stream_stops_or_delays_the_other_sinks(rig: Rig) -> None:
    config = rig.sidecar_config(sinks=sinks(rig.folder), log=f"file://{rig.folder}/log", source={"user": "side"}, spark={"managed": False})
    with ExitStack() as stack:
        stack.enter_context(MergeWorkerProcess(config, rig.folder / "worker.log", odd=True))
        sidecar = stack.enter_context(SidecarProcess(config, rig.folder / "sidecar.log"))
        workload = stack.enter_context(rig.workload(writes_per_s=WRITES_PER_S))
        faults = Faults(rig, sidecar)
        each = (faults.damage, faults.kill_verification, faults.revoke, faults.freeze_verification, faults.damage)
        try:
            sidecar.await_status(lambda value: int(value["delivered_tso"]) > 0, timeout_s=DEADLINE_S)
            sidecar.ask("dumpstart", "--chunk-rows", "50", "--rows-per-second", "100", "--sink", WELL[0], "--sink", WELL[1])
            for fault in each:
                verification = Thread(target=sidecar.cdc, args=("dumpverify", "--json"), kwargs={"timeout_s": DEADLINE_S}, daemon=True)
                verification.start()
                eventually(lambda: any((rig.folder / "log" / "verify").glob("*/report.json")), within_s=DEADLINE_S)
                fault()
                await_past(sidecar, time.time())
                sidecar.cdc("dumpverify", "--stop", timeout_s=DEADLINE_S)
            finish(sidecar)
            workload.stop()
            status = sidecar.ask("dumpquery")
            assert "a defect that a test has put there" in (rig.folder / "worker.log").read_text()
            complete_at = {TableName(t["schema"], t["table"]): CommitTs(int(t["complete_at_tso"])) for t in status["tables"]}
            for name in WELL:
                verdict = await_delivered(open_folder(f"{rig.folder}/{name}"), rig.truth(), complete_at=complete_at, timeout_s=DEADLINE_S)
                assert verdict.ok, f"{name}: {verdict.to_json()}"
        except Exception as error:
            error.add_note((rig.folder / "sidecar.log").read_text()[-6000:])
            error.add_note((rig.folder / "worker.log").read_text()[-6000:])
            raise


def finish(sidecar: SidecarProcess) -> None:
    """A dump that failed is resumed."""

    def over(value: dict[str, Any]) -> bool:
        if value["state"] == "failed":
            sidecar.ask("dumpresume")
        return bool(value["state"] == "finished")

    sidecar.await_status(over, timeout_s=DEADLINE_S)
