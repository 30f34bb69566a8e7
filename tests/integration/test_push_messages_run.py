"""The whole product with TiCDC's own sink, as its users run it: sidecar, merge worker with its Spark, senders and `cdc` are processes, etcd
is real. TiDB is stood in for as it was at the recording's start (tests/support/recorded_tidb.py)."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sidecar.shared.log.storage import open_folder
from spark_merge.sinks.files.reader import read_output
from tests.integration.test_push_messages import undisturbed
from tests.integration.test_push_run import CHANGEFEED, PATIENCE_S, as_far, put_changefeed, reported_by, settings
from tests.lanes import LANE
from tests.support.from_start import check_from_start
from tests.support.messages_sent import sending
from tests.support.recorded_tidb import recorded_tidb
from tests.support.replaying import Stage, stage
from tests.support.senders import FOLDER
from tests.support.services.etcd import Etcd
from tests.support.services.ports import free_ports
from tests.tools.rig.sidecar_process import SidecarProcess

URIS = {
    "open-protocol": "ticdc-dump://127.0.0.1:{port}/topic?protocol=open-protocol",
    "canal-json": "ticdc-dump://127.0.0.1:{port}/topic?protocol=canal-json&enable-tidb-extension=true",
}
PLAYED = [("demo", "open-protocol")] + ([("shop", "canal-json"), ("shop-new", "open-protocol")] if LANE.whole else [])


@pytest.mark.recordings
@pytest.mark.xdist_group("push-run")
@pytest.mark.turns(2, "whole product")
@pytest.mark.parametrize(("name", "feed"), PLAYED)
def test_a_changefeed_that_ticdcs_own_sink_sends_leads_to_the_truth_when_sidecar_and_senders_die(
    name: str, feed: str, tmp_path: Path
) -> None:
    """The sidecar dies when a process with two senders is amid the stream; it is killed, too, and sends everything again. Before, others
    have sent a half, and are gone."""
    made = stage(name, feed)
    half, end = made.recording.truth_ts[len(made.recording.truth_ts) // 2], made.recording.end_ts
    (push_port,) = free_ports(1)
    at = f"127.0.0.1:{push_port}"
    with Etcd(tmp_path / "etcd") as etcd, recorded_tidb(made.recording, tmp_path) as source:
        put_changefeed(etcd, made.recording, sink_uri=URIS[feed].format(port=push_port), protocol=feed)
        config = settings(tmp_path, etcd, source, push_port, push='push.form = "messages"\npush.begin = "sent"')
        with SidecarProcess(config, tmp_path / "sidecar.log") as sidecar:
            with sending(made.recording, feed, at, changefeed=CHANGEFEED, upto_ts=half):
                sidecar.await_status(lambda value: int(value["resolved_tso"]) >= half - 1, timeout_s=PATIENCE_S)
                due = Counter(map(reported_by, undisturbed(made.feed).rows(made)))  # while Spark starts
                sidecar.await_status(lambda value: int(value["delivered_tso"]) > 0, timeout_s=PATIENCE_S)
            with sending_all(made, at, tmp_path / "first.log") as first:
                before = sidecar.await_status(lambda value: int(value["resolved_tso"]) > half, timeout_s=PATIENCE_S)
                sidecar.kill()
                sidecar.start()
                after = sidecar.await_status(lambda value: as_far(value, before), timeout_s=PATIENCE_S)
                assert first.poll() is None, (tmp_path / "first.log").read_text()
            with sending_all(made, at, tmp_path / "second.log", "--until-kept") as second:
                assert second.wait(PATIENCE_S) == 0, (tmp_path / "second.log").read_text()
                reported = sidecar.await_status(lambda value: int(value["delivered_tso"]) >= end, timeout_s=PATIENCE_S)
            assert sidecar.stop(timeout_s=PATIENCE_S) == 0
    assert reported["epoch"] >= after["epoch"] > before["epoch"]
    output = [row for row in read_output(open_folder(f"{tmp_path}/output")) if int(row["commit_ts"]) <= end]
    check_from_start(made, output)
    counter = Counter(map(reported_by, output))
    assert counter == due, f"lost: {[*(due - counter)][:3]}; too many: {[*(counter - due)][:3]}"


@contextmanager
def sending_all(made: Stage, at: str, log: Path, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """The script as a process with two senders, from the recording's start; killed in the end."""
    command = [sys.executable, str(FOLDER / "send_messages.py"), str(made.recording.folder), "--to", at, "--changefeed", CHANGEFEED]
    with log.open("wb") as out, subprocess.Popen([*command, "--feed", made.feed.name, "--senders", "2", *more], stderr=out) as sender:
        try:
            yield sender
        finally:
            sender.kill()
