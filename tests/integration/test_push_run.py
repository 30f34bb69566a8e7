"""The whole product by `feed = "push"`, as its users run it: sidecar and merge worker, the sender and `cdc` are processes, etcd is real.

TiDB is stood in for as it was at the recording's start (tests/support/recorded_tidb.py). It is asked for no rows: there is no dump here,
whose marks would be UPDATEs with key-values that a recording does not have.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any

import pytest

from sidecar.replay.feed import Play
from sidecar.replay.kv import KvRecording, RecordedPuller
from sidecar.replay.recording import Recording
from sidecar.shared.config import SourceSection
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import MARK_TABLE
from sidecar.shared.process.scratch import sweep
from spark_merge.sinks.files.reader import read_output
from tests.integration.test_kv_stream import Line, middle
from tests.integration.test_push_feed import SCRIPT, send_recording
from tests.lanes import LANE
from tests.support.from_start import check_from_start
from tests.support.recorded_tidb import recorded_tidb
from tests.support.replaying import Stage, output_of, stage
from tests.support.services.etcd import Etcd
from tests.support.services.ports import free_ports
from tests.tools.rig import changefeed
from tests.tools.rig.sidecar_process import SidecarProcess
from tests.tools.rig.tso import ms_of_tso

PATIENCE_S = 600.0
"""A Spark that starts takes ten seconds on an idle machine, and two minutes on a very busy one."""
LEASE_S = 5
"""A sidecar that was killed keeps the next one waiting for so long."""
CHANGEFEED_ID = "push-run"
CHANGEFEED = f"{changefeed.CLUSTER}/{changefeed.NAMESPACE}/{CHANGEFEED_ID}"


@pytest.mark.recordings
@pytest.mark.xdist_group("push-run")
@pytest.mark.turns(2, "whole product")
def test_a_recording_that_is_pushed_leads_to_the_truth_when_sidecar_and_sender_die(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sidecar dies with key-values that it has taken and that no mark has resolved; the sender, before it sent the rest. The
    graceful end leaves nothing aside, what the killed life left goes as well, and what stays is the owner's alone."""
    for number, variable in enumerate(("TMPDIR", "SPARK_LOCAL_DIRS")):
        (tmp_path / f"aside-{number}").mkdir()
        monkeypatch.setenv(variable, f"{tmp_path}/aside-{number}")
    made = stage(LANE.pushed, "kv")
    half, end = middle(made), made.recording.end_ts
    (push_port,) = free_ports(1)
    with Etcd(tmp_path / "etcd") as etcd, recorded_tidb(made.recording, tmp_path) as source:
        put_changefeed(etcd, made.recording)
        with SidecarProcess(settings(tmp_path, etcd, source, push_port), tmp_path / "sidecar.log") as sidecar:
            with sending_first(made.recording, push_port):
                sidecar.await_status(lambda value: int(value["resolved_tso"]) >= half, timeout_s=PATIENCE_S)
                due = Counter(map(reported_by, undisturbed(made)))  # while Spark starts
                before = sidecar.await_status(lambda value: int(value["delivered_tso"]) > 0, timeout_s=PATIENCE_S)
                sidecar.kill()
                previous = set(tmp_path.glob("aside-*/*"))
                sidecar.start()
                after = sidecar.await_status(lambda value: as_far(value, before), timeout_s=PATIENCE_S)
                assert half <= int(after["resolved_tso"]) < end, "what is judged comes from both senders"
            with sending_all(made.recording, push_port, tmp_path / "second.log"):
                sidecar.await_status(lambda value: int(value["delivered_tso"]) >= end, timeout_s=PATIENCE_S)
                reported = sidecar.ask("dumpquery")
                assert sidecar.stop(timeout_s=PATIENCE_S) == 0
    assert set(tmp_path.glob("aside-*/*")) <= previous
    until_s = monotonic() + PATIENCE_S
    while [*tmp_path.glob("aside-*/*")]:  # the killed life's JVM may still be starting
        assert monotonic() < until_s
        sweep(tmp_path / "aside-1")
        sleep(0.1)
    assert not [path for name in ("log", "output") for path in (tmp_path / name).rglob("*") if path.stat().st_mode & 0o077]
    assert reported["epoch"] >= after["epoch"] > before["epoch"]
    assert reported["segments"] > before["segments"] > 0
    output = list(read_output(open_folder(f"{tmp_path}/output")))
    check_from_start(made, output)
    counter = Counter(map(reported_by, output))
    assert counter == due, f"lost: {[*(due - counter)][:3]}; too many: {[*(counter - due)][:3]}"


def undisturbed(made: Stage) -> Iterator[dict[str, Any]]:
    """The output of a line within this process that nothing happens to: some changes leave no trace in the truth."""
    assert isinstance(made.feed.config, KvRecording)
    line = Line(made)
    line.run(RecordedPuller(made.feed.config, Play(batch_messages_max=2000)), lambda ts: ts >= made.recording.end_ts)
    return output_of(made, line.disk)


def reported_by(row: dict[str, Any]) -> str:
    """All but its place in the log."""
    return json.dumps({name: value for name, value in row.items() if name not in ("seq", "ordinal")}, sort_keys=True)


def as_far(status: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether every lane is where it was before."""
    had = {lane["lane"]: int(lane["resolved_tso"]) for lane in before["lanes"]}
    return bool(status["lanes"]) and all(int(lane["resolved_tso"]) >= had.get(lane["lane"], 0) for lane in status["lanes"])


def put_changefeed(etcd: Etcd, recording: Recording, *, sink_uri: str = "blackhole://", protocol: str = "") -> None:
    """As TiCDC writes one; of key-values whatever its sink is, the custom one stands before it."""
    info = changefeed.info(
        CHANGEFEED_ID,
        sink_uri=sink_uri,
        start_ts=recording.start_ts,
        created=datetime.fromtimestamp(ms_of_tso(recording.start_ts) / 1000, UTC),
        filter_rules=("shop.*", f"{MARK_TABLE.schema}.*"),
        dispatchers=(),
        protocol=protocol,
    )
    etcd.put(changefeed.info_key(CHANGEFEED_ID), info)
    etcd.put(changefeed.status_key(CHANGEFEED_ID), changefeed.status(recording.start_ts))


def settings(folder: Path, etcd: Etcd, source: SourceSection, push_port: int, *, push: str = "") -> Path:
    """`push`: lines more of it."""
    control_port, metrics_port = free_ports(2)
    path = folder / "sidecar.toml"
    path.write_text(f"""
sinks = ["file://{folder}/output?format=jsonl"]
feed = "push"
changefeed.id = "{CHANGEFEED_ID}"
etcd = {{ endpoints = {json.dumps(etcd.endpoints)}, lease_s = {LEASE_S} }}
push.listen = "127.0.0.1:{push_port}"
{push}
log.uri = "file://{folder}/log"
control.listen = "127.0.0.1:{control_port}"
metrics.listen = "127.0.0.1:{metrics_port}"

[source]
host = "{source.host}"
port = {source.port}
status_port = {source.status_port}
user = "{source.user}"
reader = "{source.reader}"
""")
    return path


@contextmanager
def sending_first(recording: Recording, push_port: int) -> Iterator[None]:
    """A sender in a thread with the first two thirds of the recording as it came: some of it above the marks that had come, too."""
    spans = send_recording.read_spans(recording.folder)
    cut = max(place for span in spans for place, _, _ in span.items) * 2 // 3
    for span in spans:
        span.items = [item for item in span.items if item[0] < cut]
    sender = send_recording.Sender(
        "first", spans, send_recording.Target(f"127.0.0.1:{push_port}", CHANGEFEED), speed=0.0, until_durable=False
    )
    thread = Thread(target=sender.run, name="sending", daemon=True)
    thread.start()
    try:
        yield
        assert thread.is_alive(), "it was turned away"
    finally:
        sender.done()
        sender.break_connection()
        thread.join(PATIENCE_S)


@contextmanager
def sending_all(recording: Recording, push_port: int, log: Path) -> Iterator[None]:
    """The script as a process, from the recording's start as far as it is asked for it, to the end, where it stays."""
    command: list[str | Path] = [sys.executable, SCRIPT, recording.folder, "--to", f"127.0.0.1:{push_port}", "--changefeed", CHANGEFEED]
    with log.open("wb") as out, subprocess.Popen([*command, "--name", "second"], stderr=out) as sender:
        try:
            yield
            assert sender.poll() is None, log.read_text()
        finally:
            sender.kill()
