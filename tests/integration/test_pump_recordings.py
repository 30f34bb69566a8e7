"""What TiDB wrote to real pumps, to ours: it streams what theirs did.

Written in the recorded order, with the recorded faults: what was held back does not come, what was answered and lost comes, and again if
TiDB wrote it again. The pump restarts in the middle. TiKV knows how each transaction ended, from what all pumps of the recording streamed.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sidecar.pump.lost import LostStatus, LostWrite
from sidecar.pump.record import PREWRITE, binlog_of
from sidecar.shared.model.nouns import CommitTs
from tests.lanes import LANE
from tests.support.binlog_recordings import WHOLE
from tests.support.eventually import eventually
from tests.support.pump_rig import Client, PumpRig, frames, made_cluster
from tests.support.recordings import recording
from tests.support.services.etcd import Etcd
from ticdc_dump.binlog import binlog_pb2

NODES = ("pump-a:8250", "pump-b:8251")
SMALL = ("binlog-dups", "binlog-faults")
NAMES = WHOLE if LANE.whole else SMALL
PUMPS = [(name, node) for name in NAMES for node in NODES] if LANE.whole else list(zip(SMALL, NODES, strict=True))


class RecordedTikv:
    """Says nothing before `ready`: TiDB's own ends have come by then, if they come."""

    def __init__(self, name: str) -> None:
        self.ready = False
        self._commits: dict[int, int] = {}
        for node in NODES:
            for payload in frames(recording(name) / "pumps" / f"{node}.bin.gz"):
                binlog = binlog_of(payload)
                if not binlog.is_fake:
                    self._commits[binlog.start_ts] = binlog.commit_ts

    def mvcc_by_key(self, key: bytes) -> Sequence[LostWrite]:
        return [LostWrite(*ended) for ended in self._commits.items()] if self.ready else []

    def txn_status(self, key: bytes, start_ts: int, now_ts: CommitTs) -> LostStatus:
        return LostStatus(0, lives=not self.ready)

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


def written(name: str, node: str) -> list[bytes]:
    """Payloads that the pump had: answered, or its answer lost. Requests are told in the order of their ends, by number."""
    folder = recording(name) / "writes"
    requests = map(json.loads, gzip.decompress((folder / f"{node}.jsonl.gz").read_bytes()).splitlines())
    had = {request["i"] for request in requests if (request["error"] or "answer lost").startswith("answer lost")}
    return [payload for number, payload in enumerate(frames(folder / f"{node}.bin.gz")) if number in had]


def recorded(name: str, node: str) -> list[bytes]:
    """Streamed by the real pump, without fakes."""
    payloads = frames(recording(name) / "pumps" / f"{node}.bin.gz")
    return [payload for payload in payloads if not binlog_of(payload).is_fake]


@pytest.mark.recordings
@pytest.mark.parametrize(("name", "node"), PUMPS)
def test_our_pump_streams_what_the_real_one_did(tmp_path: Path, etcd: Etcd, name: str, node: str) -> None:
    payloads, expected = written(name, node), recorded(name, node)
    tikv = RecordedTikv(name)
    rest, results = len(payloads) // 2, []
    with made_cluster() as servers:
        servers.physical_ms = _after(payloads)
        rig = PumpRig(tmp_path, etcd, servers, node_id=node)
        with rig.running(lambda: tikv) as pump, Client(f"127.0.0.1:{pump.port}") as client:
            _write(client, payloads[:rest])
        rig.reported.clear()
        with rig.running(lambda: tikv) as pump, Client(f"127.0.0.1:{pump.port}") as client:
            _write(client, payloads[rest:])
            tikv.ready = True
            eventually(lambda: pump.storage.waiting == 0)
            results = [one.payload for one in client.pulled(len(expected), offset=binlog_of(expected[0]).commit_ts - 1)]
            lost = pump.lost.tally
    reported_by_tikv = sum(not binlog_pb2.Binlog.FromString(payload).HasField("prewrite_key") for payload in results)
    assert reported_by_tikv == lost.committed
    assert [_whole(payload) for payload in results] == [_whole(payload) for payload in expected]
    assert [binlog_of(one).commit_ts for one in results] == sorted(binlog_of(one).commit_ts for one in results)


def _write(client: Client, payloads: Sequence[bytes]) -> None:
    for payload in payloads:
        client.write(payload)


def _after(payloads: Sequence[bytes]) -> int:
    """PD's clock when each of these transactions is older than any may be."""
    return (max(binlog_of(payload).start_ts for payload in payloads) >> 18) + 700_000


def _whole(payload: bytes) -> bytes:
    """But for who told the end: a real pump that waited for a second asked TiKV, and TiDB's own end came later."""
    result = binlog_pb2.Binlog.FromString(payload)
    result.ClearField("prewrite_key")
    rest: bytes = result.SerializeToString()
    return rest


@pytest.mark.recordings
@pytest.mark.parametrize("name", NAMES)
def test_every_prewrite_that_was_written_can_be_looked_up(name: str) -> None:
    """The key by which TiKV is asked is in each of them, a DDL's too."""
    prewrites = [one for node in NODES for one in map(binlog_of, written(name, node)) if one.kind == PREWRITE and one.start_ts]
    assert prewrites
    assert all(binlog_pb2.Binlog.FromString(one.payload).prewrite_key for one in prewrites)
