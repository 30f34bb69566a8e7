"""Several dumps on real servers, beside writes and a death: one of other tables passes a long one, one of its tables waits for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tools.rig.disasters import DEADLINE_S
from tests.tools.rig.rig import Rig
from tests.tools.rig.sidecar_process import SidecarProcess
from tests.tools.rig.tables import SCHEMA

pytestmark = [pytest.mark.xdist_group("rig"), pytest.mark.turns(2, "whole product")]


def states(status: dict[str, Any]) -> dict[str, str]:
    return {dump["dump_id"]: dump["state"] for dump in status["dumps"]}


def test_a_dump_of_other_tables_passes_a_long_one_and_one_of_its_tables_waits_for_it(tmp_path: Path) -> None:
    with Rig(tmp_path, initial_rows=2_000) as rig:
        config = rig.sidecar_config(sinks=[f"sqlite://{tmp_path}/out.db?name=small"], log=f"file://{tmp_path}/log")
        with SidecarProcess(config, tmp_path / "sidecar.log") as sidecar, rig.workload(writes_per_s=50) as workload:
            try:
                sidecar.await_status(lambda value: int(value["delivered_tso"]) > 0, timeout_s=DEADLINE_S)
                slow = ("--chunk-rows", "50", "--rows-per-second", "5")
                long = sidecar.ask("dumpstart", "--tables", f"{SCHEMA}.account,{SCHEMA}.orders", *slow)["dump_id"]
                passing = sidecar.ask("dumpstart", "--tables", f"{SCHEMA}.item")["dump_id"]
                waiting = sidecar.ask("dumpstart", "--tables", f"{SCHEMA}.account")
                assert (waiting["state"], waiting["dumps"][-1]["waits_for"]) == ("queued", [long])
                behind = waiting["dump_id"]
                expected = {long: "running", passing: "finished", behind: "queued"}
                sidecar.await_status(lambda value: states(value) == expected, timeout_s=DEADLINE_S)
                assert sidecar.ask("dumppause")["dump_id"] == long, "the only one that runs"
                sidecar.kill()
                sidecar.start()
                status = sidecar.await_status(lambda value: bool(value["dumps"]), timeout_s=DEADLINE_S)
                assert states(status) == expected | {long: "paused"}
                sidecar.ask("dumpresume", "--id", long, "--rows-per-second", "0")
                status = sidecar.await_status(lambda value: set(states(value).values()) == {"finished"}, timeout_s=DEADLINE_S)
                ended = {one["id"]: one["state"] for one in sidecar.ask("dumplist")["operations"]}
                assert ended == dict.fromkeys((long, passing, behind), "finished")
                workload.stop()
                complete_ts = max(int(table["complete_at_tso"]) for table in status["tables"])
                sidecar.await_status(lambda value: int(value["delivered_tso"]) >= complete_ts, timeout_s=DEADLINE_S)
                tables = ",".join(f"{SCHEMA}.{table}" for table in ("account", "orders", "item"))
                verified = sidecar.ask("dumpverify", "--tables", tables, timeout_s=DEADLINE_S)
                assert (verified["state"], len(verified["tables"])) == ("equal", 3)
            except Exception as error:
                error.add_note((tmp_path / "sidecar.log").read_text()[-6000:])
                raise
