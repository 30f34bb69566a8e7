"""The whole product on real servers, as its users run it, while everything dies: output equals source, nothing goes back.

A rig (tests/tools/rig) stands in for TiDB and TiCDC: MariaDB, its binlog in Kafka, etcd. Sidecar, merge worker and `cdc` are the
installed programs. These are long tests: a Spark that starts takes ten seconds on an idle machine.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sidecar.adapters.etcd.folder import FILE
from sidecar.shared.log import storage
from sidecar.shared.log.layout import is_manifest, read_manifest
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import CommitTs, TableName
from tests.lanes import LANE
from tests.support.certified import checker
from tests.support.eventually import PATIENCE_S, eventually
from tests.tools.rig.rig import Rig
from tests.tools.rig.sidecar_process import MergeWorkerProcess, SidecarProcess
from tests.tools.rig.truth import await_delivered

pytestmark = pytest.mark.xdist_group("rig")

DEADLINE_S = 600.0
LEASE_S = 5
OUTAGE_S = LEASE_S + 1.0
FREEZE_S = 2.0 * LEASE_S
"""Longer than the lease is all that matters: an owner has lost it by then, and knows or not."""


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with Rig(tmp_path, initial_rows=300) as result:
        yield result


def settings(rig: Rig, **sections: dict[str, Any]) -> Path:
    """Of a sidecar that leaves the merge worker to the test, and keeps all of its log."""
    folder = rig.folder
    given: dict[str, dict[str, Any]] = {"spark": {"managed": False}, "etcd": {"lease_s": LEASE_S}}
    path = rig.sidecar_config(sinks=[f"file://{folder}/output?format=jsonl"], log=f"file://{folder}/log", **(given | sections))
    path.write_text(path.read_text().replace("[log]\n", "[log]\nretain = false\n"))
    return path


def manifests(rig: Rig) -> list[Manifest]:
    folder = open_folder(f"{rig.folder}/log")
    names = [name for name in storage.list_names(folder, deep=False) if is_manifest(name)]
    return [read_manifest(folder, name, storage.read_file(folder, name)) for name in names]


def rows(status: dict[str, Any]) -> int:
    return sum(int(table["rows"]) for table in status["tables"])


def complete_at(status: dict[str, Any]) -> dict[TableName, CommitTs]:
    return {TableName(t["schema"], t["table"]): CommitTs(int(t["complete_at_tso"])) for t in status["tables"]}


class Disasters:
    """What goes wrong, in an order that a seed decides. `told` is what happened, for a failure's text."""

    def __init__(self, rig: Rig, sidecar: SidecarProcess, worker: MergeWorkerProcess, *, seed: int) -> None:
        self.rig, self.sidecar, self.worker = rig, sidecar, worker
        self.random = Random(seed)
        self.reported: list[str] = []
        self.known: tuple[str, int] = ("", 0)
        self.partitions = rig.options.partitions

    def run(self, count: int) -> None:
        """The first `count` of them."""
        kinds: list[Callable[[], None]] = [
            self.kill_sidecar,
            self.pause_and_resume,
            self.kill_worker,
            self.stop_feed,
            self.kill_sidecar,
            self.resend,
            self.stop_etcd if self.rig.options.etcd_in_reach else self.hold_state,
            self.restart_dump,
            self.kill_sidecar,
            self.stop_source,
            self.kill_sidecar if self.rig.options.files else self.add_partition,
            self.kill_sidecar,
        ]
        self.random.shuffle(kinds)
        began_s = time.monotonic()
        for kind in kinds[:count]:
            self.reported.append(f"{time.monotonic() - began_s:5.1f} s {kind.__name__}")
            kind()
            time.sleep(self.random.uniform(0.5, 2.0))  # what is going on between two disasters is not ours to wait for

    def kill_sidecar(self) -> None:
        """What the log has is never lost: the rows of closed windows are there again, of the same dump."""
        before = self.sidecar.await_status(lambda value: True, timeout_s=DEADLINE_S)
        self.sidecar.kill()
        self.sidecar.start()
        after = self.sidecar.await_status(lambda value: True, timeout_s=DEADLINE_S)
        assert (before["dump_id"] != after["dump_id"]) or rows(after) >= rows(before), f"progress was lost: {rows(before)} -> {rows(after)}"

    def kill_worker(self) -> None:
        self.worker.kill()
        self.worker.start()

    def pause_and_resume(self) -> None:
        if self.sidecar.await_status(lambda value: True, timeout_s=DEADLINE_S)["state"] == "running":
            answered = self.sidecar.ask("dumppause")["state"]
            self.sidecar.kill()
            self.sidecar.start()
            result = self.sidecar.await_status(lambda _: True, timeout_s=DEADLINE_S)["state"]
            if answered == "finished":  # between the question and the command
                assert result == "finished", "an end is durable"
            else:
                assert (answered, result) == ("paused", "paused"), "a pause is durable"
                self.sidecar.ask("dumpresume")

    def restart_dump(self) -> None:
        self.sidecar.await_status(lambda value: True, timeout_s=DEADLINE_S)
        self.sidecar.ask("dumprestart")

    def stop_feed(self) -> None:
        """Kafka, or who writes files."""
        if self.rig.options.files:
            self.rig.publisher.kill()
        else:
            self.rig.kafka.stop()
        time.sleep(OUTAGE_S)
        if self.rig.options.files:
            self.rig.publisher.start()
        else:
            self.rig.kafka.start()

    def hold_state(self) -> None:
        """The folder in etcd's place does not answer for longer than the lease: another process holds its file."""
        with closing(sqlite3.connect(self.rig.state / FILE, isolation_level=None, timeout=PATIENCE_S)) as other:
            other.execute("BEGIN IMMEDIATE")
            time.sleep(OUTAGE_S)

    def stop_etcd(self) -> None:
        self.rig.etcd.stop()
        time.sleep(OUTAGE_S)
        self.rig.etcd.start()

    def stop_source(self) -> None:
        self.rig.db.stop()
        time.sleep(OUTAGE_S)
        self.rig.db.start()

    def resend(self) -> None:
        self.rig.resend(back_s=8.0)

    def add_partition(self) -> None:
        self.partitions += 1
        self.rig.add_partitions(self.partitions)


def check_certificate(rig: Rig, dump_id: str) -> None:
    """The dump has one, which comes through all of that, in the log and in the output."""
    eventually((rig.folder / "output" / "_certificates" / f"{dump_id}.json").exists)
    certificate = rig.folder / "log" / "certificates" / f"{dump_id}.json"
    report = checker().check(certificate, log=rig.folder / "log", output=rig.folder / "output")
    assert report.rejected == []
    assert report.counts["chunks of the dump"] == len(json.loads(certificate.read_bytes())["segments"]) > 0


PLACES: dict[str, dict[str, Any]] = {
    "kafka": {"protocol": "open-protocol"},
    "without-etcd": {"protocol": "canal-json", "etcd_in_reach": False},
    "files-without-etcd": {"files": True, "etcd_in_reach": False},
}


@pytest.mark.parametrize(("place", "seed", "count"), [("kafka", 7, 12), ("without-etcd", 36, 5), ("files-without-etcd", 6, 6)])
def test_whatever_dies_the_output_equals_the_source_and_no_row_goes_back(tmp_path: Path, place: str, seed: int, count: int) -> None:
    """Every disaster with Kafka and TiCDC's etcd; some without them, each in an order that its seed decides."""
    with ExitStack() as stack:
        rig = stack.enter_context(Rig(tmp_path, initial_rows=300, **PLACES[place]))
        config = settings(rig)
        worker = stack.enter_context(MergeWorkerProcess(config, tmp_path / "worker.log"))
        sidecar = stack.enter_context(SidecarProcess(config, tmp_path / "sidecar.log"))
        workload = stack.enter_context(rig.workload(writes_per_s=LANE.writes_per_s))
        sidecar.await_status(lambda value: True, timeout_s=DEADLINE_S)
        sidecar.ask("dumpstart", "--chunk-rows", "50", "--rows-per-second", "200")
        disasters = Disasters(rig, sidecar, worker, seed=seed)
        try:
            disasters.run(count)
            workload.stop()
            done = sidecar.await_status(lambda value: value["state"] in ("finished", "failed"), timeout_s=DEADLINE_S)
            assert done["state"] == "finished", done["reason"]
            verdict = await_delivered(open_folder(f"{tmp_path}/output"), rig.truth(), complete_at=complete_at(done), timeout_s=DEADLINE_S)
        except Exception as error:
            error.add_note("\n".join(disasters.reported))
            error.add_note((tmp_path / "sidecar.log").read_text()[-6000:])
            error.add_note((tmp_path / "worker.log").read_text()[-3000:])
            raise
        assert verdict.ok, (verdict, disasters.reported)
        check_certificate(rig, done["dump_id"])
        epochs = [manifest.epoch for manifest in manifests(rig)]
        assert epochs == sorted(epochs), "two owners wrote in turn"
        assert len(set(epochs)) > 1, "no sidecar died"
        assert workload.counts.rows > 1000


def test_a_previous_owner_that_wakes_up_adds_no_segment_no_mark_and_no_progress(rig: Rig) -> None:
    """A sidecar is frozen for twice its lease and more in the middle of a dump; a standby goes on."""
    with ExitStack() as stack:
        first_config = settings(rig)
        first = stack.enter_context(SidecarProcess(first_config.rename(rig.folder / "first.toml"), rig.folder / "first.log"))
        status = first.await_status(lambda value: True, timeout_s=DEADLINE_S)
        second = stack.enter_context(SidecarProcess(settings(rig), rig.folder / "second.log"))
        stack.enter_context(rig.workload(writes_per_s=100))
        stack.enter_context(MergeWorkerProcess(second.config, rig.folder / "worker.log"))
        first.ask("dumpstart", "--chunk-rows", "10", "--rows-per-second", "30")
        first.await_status(lambda value: rows(value) > 0, timeout_s=DEADLINE_S)
        launched_s = time.monotonic()
        while "standby" not in second.log.read_text():
            assert second.ended() is None, second.log.read_text()[-3000:]
            assert time.monotonic() - launched_s < DEADLINE_S, second.log.read_text()[-3000:]
            time.sleep(0.1)
        first.freeze()
        frozen_s = time.monotonic()
        taken = second.await_status(lambda value: value["epoch"] > status["epoch"], timeout_s=DEADLINE_S)
        second.await_status(lambda value: rows(value) > rows(taken), timeout_s=DEADLINE_S)
        time.sleep(max(0.0, FREEZE_S - (time.monotonic() - frozen_s)))
        before = (len(manifests(rig)), owner_epoch_of_marks(rig), stored_epoch(rig))
        first.thaw()
        woken_s = time.monotonic()
        while "OwnershipLost" not in first.log.read_text() and "LogTaken" not in first.log.read_text():
            assert time.monotonic() - woken_s < DEADLINE_S, first.log.read_text()[-3000:]
            time.sleep(0.1)
        second.await_status(lambda value: int(value["segments"]) > before[0] + 10, timeout_s=DEADLINE_S)
        later = manifests(rig)[before[0] :]
        assert {manifest.epoch for manifest in later} == {taken["epoch"]}
        assert owner_epoch_of_marks(rig) == before[1] == taken["epoch"]
        assert stored_epoch(rig) == before[2] == taken["epoch"]
        epochs = [manifest.epoch for manifest in manifests(rig)]
        assert epochs == sorted(epochs)


@pytest.mark.turns(2, "whole product")
def test_a_ddl_on_a_source_that_is_no_tidb_stops_the_sidecar_with_everything_below_it_in_the_log(rig: Rig) -> None:
    """Nobody can tell what MariaDB's tables were at the DDL's commit. It stops there again, however often it is started."""
    with ExitStack() as stack:
        sidecar = stack.enter_context(SidecarProcess(settings(rig), rig.folder / "sidecar.log"))
        sidecar.await_status(lambda value: True, timeout_s=DEADLINE_S)
        with rig.workload(writes_per_s=100) as workload:
            sidecar.await_status(lambda value: int(value["changes"]) > 100, timeout_s=DEADLINE_S)
            workload.stop()
        rig.db.execute("ALTER TABLE shop.orders ADD COLUMN born_late INT")
        for _ in range(2):
            assert sidecar._running.wait(DEADLINE_S) == 3, sidecar.log.read_text()[-3000:]
            assert "cannot tell what its tables are after a DDL" in sidecar.log.read_text()
            last = manifests(rig)[-1]
            assert not last.ddls
            sidecar.start()


def owner_epoch_of_marks(rig: Rig) -> int:
    """The epoch in the uuid that the watermark row holds now."""
    ((uuid,),) = rig.db.execute("select unique_identifier from changefeed_dump.changefeed_dump_event")
    return int(str(uuid)[16:24], 16)


def stored_epoch(rig: Rig) -> int:
    """The epoch of the progress in etcd."""
    keys = rig.etcd.etcdctl("get", "--prefix", "/changefeed_dump/v1/", "--keys-only").split()
    (head,) = (rig.etcd.get(key) for key in keys if key.endswith("/progress"))
    (dump,) = json.loads(str(head))["dumps"]
    return int(dump["epoch"])
