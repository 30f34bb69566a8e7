"""The whole product with a database of its own behind it, while that and the workers die and freeze in the middle of a dump under writes:
the database ends as the source in every table and column, and `dumpquery` names the sink."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from sidecar.replay.judge.rows import rows_by_key
from sidecar.shared.model.nouns import TableName
from tests.lanes import LANE
from tests.support.services.mariadb import MariaDb
from tests.support.sql_place import add_accounts, fill, room
from tests.tools.rig.binlog import MySqlAddress
from tests.tools.rig.disasters import DEADLINE_S, Disasters, await_finished, await_progress, pass_through, peak_bytes, start_dump
from tests.tools.rig.rig import Rig
from tests.tools.rig.sidecar_process import MergeWorkerProcess, SidecarProcess
from tests.tools.rig.tables import SCHEMA
from tests.tools.rig.truth import LiveTruth, differences, read_truth

pytestmark = [pytest.mark.xdist_group("rig"), pytest.mark.turns(2, "whole product")]

COPY = "shop_copy"
SPOILT = "account"
INITIAL_ROWS, ROWS_PER_S = (300, 150) if LANE.whole else (150, 200)
WRITES_PER_S = 200
"""Less than any machine delivers: a dump waits for a sink that is behind, so one that never catches up ends no dump."""
FULL_MB = 60
WORKER_BYTES_MAX = 1 << 30
"""Of the worker's own process; it has a fifth of that when nothing happens."""


class SqlDisasters(Disasters):
    target: MariaDb

    def target_is_full(self) -> None:
        fill(self.target)
        self.sidecar.await_status(lambda value: "full" in value["last_error"], timeout_s=DEADLINE_S)
        self.target.stop()
        self.target._settings = {**self.target._settings, **room(10 * FULL_MB)}
        self.target.start()


def copied(target: MariaDb, truth: LiveTruth) -> list[str]:
    """What differs."""
    address = MySqlAddress(target.host, target.port, target.user, target.password)
    result = read_truth(address, [TableName(COPY, table.table) for table in truth.tables], ts=truth.ts)
    there = {TableName(SCHEMA, name.table): rows_by_key(result.schemas[name], table) for name, table in result.tables.items()}
    return differences(truth, there)


SETS = [
    ["target_dies", "target_freezes", "tasks_die"],
    ["worker_dies", "target_is_away", "tasks_freeze"],
    ["worker_freezes", "target_is_full", "target_dies"],
]


@pytest.mark.parametrize("names", SETS if LANE.whole else SETS[:1], ids=lambda names: names[0])
def test_whatever_dies_the_target_equals_the_source(tmp_path: Path, names: list[str]) -> None:
    settings = room(FULL_MB) if "target_is_full" in names else {}
    with Rig(tmp_path, initial_rows=INITIAL_ROWS, mark_every_s=0.5) as rig, MariaDb(tmp_path / "target", settings=settings) as target:
        routes = quote(f"{SCHEMA}.*=>{COPY}.*")
        uri = f"mysql://{target.user}:{quote(target.password, safe='')}@{target.host}:{target.port}/?create-tables=true&routes={routes}"
        # `worker_rows` 0: each batch is a Spark job, so there are tasks to kill.
        config = rig.sidecar_config(sinks=[uri], log=f"file://{tmp_path}/log", spark={"managed": False, "worker_rows": 0})
        with (
            MergeWorkerProcess(config, tmp_path / "worker.log") as worker,
            SidecarProcess(config, tmp_path / "sidecar.log") as sidecar,
            rig.workload(writes_per_s=WRITES_PER_S) as workload,
        ):
            try:
                start_dump(sidecar, rows_per_s=ROWS_PER_S)
                pass_through(SqlDisasters(sidecar, worker, target, says=f"127.0.0.1:{target.port}"), names, rows_per_s=ROWS_PER_S)
                workload.stop()
                await_finished(sidecar)
                truth = rig.truth()
                status = await_progress(sidecar, lambda value: int(value["delivered_tso"]) >= truth.ts)
                assert [sink["sink"] for sink in status["sinks"]] == [f"mysql://{target.host}:{target.port}/"]
                assert not copied(target, truth)
                assert workload.counts.rows > 1000
                assert peak_bytes(worker.pid) < WORKER_BYTES_MAX, "what is not delivered waits in the log"
            except Exception as error:
                error.add_note((tmp_path / "sidecar.log").read_text()[-4000:])
                error.add_note((tmp_path / "worker.log").read_text()[-4000:])
                raise


def test_rows_that_somebody_spoilt_are_right_after_a_dump_of_their_keys(tmp_path: Path) -> None:
    """Rows that are missing, are too many or have another value, beside writes to the same table."""
    with Rig(tmp_path, initial_rows=INITIAL_ROWS) as rig, MariaDb(tmp_path / "target") as target:
        uri = f"mysql://{target.user}:{quote(target.password, safe='')}@{target.host}:{target.port}/?create-tables=true"
        config = rig.sidecar_config(sinks=[f"{uri}&routes={quote(f'{SCHEMA}.*=>{COPY}.*')}"], log=f"file://{tmp_path}/log")
        with SidecarProcess(config, tmp_path / "sidecar.log") as sidecar, rig.workload(writes_per_s=WRITES_PER_S) as workload:
            try:
                start_dump(sidecar, rows_per_s=10_000)
                await_finished(sidecar)
                dumped_ts = max(int(table["complete_at_tso"]) for table in sidecar.ask("dumpquery")["tables"])
                await_progress(sidecar, lambda value: int(value["delivered_tso"]) >= dumped_ts)
                table = f"{COPY}.{SPOILT}"
                ids = [int(key) for (key,) in target.execute(f"SELECT id FROM {table} ORDER BY id LIMIT 9")]
                extra = [10**9 + 1, 10**9 + 2]
                target.execute(f"DELETE FROM {table} WHERE id IN ({ids[0]}, {ids[3]})")
                target.execute(f"UPDATE {table} SET note = 'spoilt' WHERE id = {ids[2]}")
                add_accounts(target, table, extra)
                sidecar.ask("dumpstart", "--keys", f"{SCHEMA}.{SPOILT}:{[*ids, *extra]}")
                workload.stop()
                await_finished(sidecar)
                truth = rig.truth()
                await_progress(sidecar, lambda value: int(value["delivered_tso"]) >= truth.ts)
                assert not copied(target, truth)
            except Exception as error:
                error.add_note((tmp_path / "sidecar.log").read_text()[-4000:])
                raise
