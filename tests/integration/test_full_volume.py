"""The whole product on a log volume that is too small for an outage of its sink: the sink comes back, no operator does, and all arrives.

As tests/integration/test_push_run.py: sidecar, merge worker and sender are processes, etcd is real, TiDB is stood in for.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sidecar.shared.log.layout import is_manifest, read_manifest
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.reserve import RESERVE_BYTES, RESERVE_NAME
from sidecar.shared.log.storage import open_folder
from spark_merge.sinks.files.reader import read_output
from tests.integration.test_push_run import PATIENCE_S, put_changefeed, reported_by, sending_all, settings, undisturbed
from tests.support.eventually import eventually
from tests.support.from_start import check_from_start
from tests.support.recorded_tidb import recorded_tidb
from tests.support.replaying import stage
from tests.support.services.etcd import Etcd
from tests.support.services.ports import free_ports
from tests.support.volumes import fill, small_volume
from tests.tools.rig.sidecar_process import SidecarProcess

LOG_BYTES = 700 << 10
"""Less than the recording's segments take."""


@pytest.mark.recordings
@pytest.mark.xdist_group("push-run")
@pytest.mark.turns(2, "whole product")
def test_a_log_volume_that_fills_up_while_the_sink_is_down_needs_nobody(tmp_path: Path) -> None:
    made = stage("shop", "kv")
    end = made.recording.end_ts
    (push_port,) = free_ports(1)
    said = tmp_path / "sidecar.log"
    with (
        small_volume(tmp_path / "log", size=str(RESERVE_BYTES + LOG_BYTES)) as log,
        small_volume(tmp_path / "output", size="64m") as output,
        Etcd(tmp_path / "etcd") as etcd,
        recorded_tidb(made.recording, tmp_path) as source,
    ):
        down = fill(output)
        put_changefeed(etcd, made.recording)
        with (
            SidecarProcess(settings(tmp_path, etcd, source, push_port), said) as sidecar,
            sending_all(made.recording, push_port, tmp_path / "sender.log"),
        ):
            eventually(lambda: said.read_text().count("error=StorageFull") > 1, said.read_text(), within_s=PATIENCE_S)
            full = sorted(path.name for path in log.iterdir() if is_manifest(path.name))
            assert manifest(log, full[-1]).upto_ts < end
            down.unlink()
            sidecar.await_status(lambda value: int(value["delivered_tso"]) >= end, timeout_s=PATIENCE_S)
            assert sidecar.stop(timeout_s=PATIENCE_S) == 0
        assert not (log / full[0]).exists(), "the log had room for everything"
        assert (log / RESERVE_NAME).exists()
        rows = list(read_output(open_folder(str(output))))
    assert "merge worker died" not in said.read_text()
    check_from_start(made, rows)
    due, result = Counter(map(reported_by, undisturbed(made))), Counter(map(reported_by, rows))
    assert result == due, f"lost: {[*(due - result)][:3]}; too many: {[*(result - due)][:3]}"


def manifest(log: Path, name: str) -> Manifest:
    return read_manifest(log, name, (log / name).read_bytes())
