"""This product as its users run it: `ticdc-dump run` with default settings on the rig's Kafka feed, to Parquet on the local disk, or to a
topic of the same broker, read by a consumer as Debezium's is."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sidecar.control.client import Access, ControlClient
from sidecar.control.wire import status_json
from sidecar.shared.config import DumpSection
from spark_merge.sinks.folder.layout import SEGMENT, SEGMENTS, DeliveredSegment
from tests.tools.peers.arrivals import Arrivals, Numbers, Writes, missing_ids
from tests.tools.peers.big import NAME, TABLE
from tests.tools.peers.system import kill_tree
from tests.tools.peers.topic_reader import TopicReader
from tests.tools.rig.rig import Rig
from tests.tools.rig.sidecar_process import MergeWorkerProcess, SidecarProcess
from ticdc_dump.v1 import control_pb2 as pb

BOUND = "delivery_bound_s"
"""The setting of [dump] that says how far a dump may push live delivery, where this version has it."""
START_S_MAX = 120.0
TOPIC = "merged"


def has_bound() -> bool:
    return BOUND in DumpSection.__struct_fields__


class Ours:
    """`bound_s`: the dump's bound, None for the default; where the setting does not exist it must be None. `slow_job_s`: by how much each
    of its Spark's jobs takes longer."""

    def __init__(self, rig: Rig, *, bound_s: float | None = None, sink: str = "", slow_job_s: float = 0.0) -> None:
        self._rig = rig
        self._out = rig.folder / "output"
        dump: dict[str, Any] = {} if bound_s is None else {BOUND: bound_s}
        config = rig.sidecar_config(
            sinks=[sink or f"file://{self._out}?format=parquet"],
            log=f"file://{rig.folder}/log",
            dump=dump,
            spark={"managed": not slow_job_s},
        )
        self._sidecar = SidecarProcess(config, rig.folder / "sidecar.log")
        self._worker = MergeWorkerProcess(config, rig.folder / "worker.log", slow_job_s=slow_job_s) if slow_job_s else None
        self._changefeed = pb.Changefeed(id=self._sidecar.changefeed_id)
        self._requested = False
        self._published_ts: int | None = None

    def __enter__(self) -> Self:
        self._sidecar.start()
        try:
            if self._worker is not None:
                self._worker.start()
            self._sidecar.await_status(lambda value: value["merge_worker"] in ("running", "external"), timeout_s=START_S_MAX)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._sidecar.ended() is None:
            kill_tree(self._sidecar.pid)
        self._sidecar.kill()
        if self._worker is not None:
            self._worker.kill()

    @property
    def pid(self) -> int:
        return self._sidecar.pid

    def has_live(self) -> bool:
        self._check()
        return any(json.loads(path.read_bytes())["counts"]["from_log"] for path in self._segments())

    def has_all(self, writes: Writes) -> bool:
        if self._published_ts is None:
            self._published_ts = int(self._rig.await_published())
        return self._upto_ts() >= self._published_ts

    def ask_dump(self) -> None:
        """By the same call as `dumpstart`, then as `dumprestart`."""
        new_id = secrets.token_hex(8)
        if self._requested:
            self._call("Restart", pb.RestartRequest(changefeed=self._changefeed, new_dump_id=new_id))
        else:
            self._call(
                "Start", pb.StartRequest(changefeed=self._changefeed, dump_id=new_id, table_rules=[NAME], brackets=pb.BRACKETS_WATERMARK)
            )
        self._requested = True

    def is_dumped(self, *, requested_ns: int) -> bool:
        status = self._status()
        return status["state"] == "finished" and self._upto_ts() >= max(int(table["complete_at_tso"]) for table in status["tables"])

    def arrivals(self) -> Arrivals:
        """A row is there when the `_segments` file that names its own is: that is renamed into place, which is its ctime."""
        parts = []
        for path in self._segments():
            at_ns = path.stat().st_ctime_ns
            parts += [_rows(self._out / file.path, at_ns) for file in _read(path).files if file.table.table == TABLE]
        whole = np.concatenate(parts) if parts else np.empty((0, 4), np.int64)
        return Arrivals(whole[:, 0], whole[:, 1], whole[:, 2], whole[:, 3])

    def _status(self) -> dict[str, Any]:
        self._check()
        status: dict[str, Any] = status_json(self._call("Query", pb.DumpRequest(changefeed=self._changefeed)))
        if status["state"] == "failed":
            raise RuntimeError(f"the dump failed: {status}")
        return status

    def _segments(self) -> list[Path]:
        folder = self._out / SEGMENTS
        return sorted(folder.glob("[0-9]*.json")) if folder.exists() else []

    def _upto_ts(self) -> int:
        paths = self._segments()
        return int(_read(paths[-1]).upto_ts) if paths else 0

    def _call(self, method: str, request: Any) -> Any:
        with ControlClient(self._sidecar.address, Access()) as client:
            return client.call(method, request)

    def _check(self) -> None:
        if self._sidecar.ended() is not None:
            raise RuntimeError(f"ticdc-dump ended with {self._sidecar.ended()}: {self._sidecar.log.read_text()[-3000:]}")


class OursToKafka(Ours):
    """To a topic of one partition, as Debezium makes of a table."""

    def __init__(self, rig: Rig, *, rows: int, bound_s: float | None = None) -> None:
        brokers = rig.kafka.bootstrap
        super().__init__(rig, bound_s=bound_s, sink=f"kafka://{brokers}/{TOPIC}?protocol=open-protocol&partition-num=1")
        self._reader = TopicReader(rig.folder / "reader", brokers=brokers, topic=TOPIC, form="open-protocol")
        self._rows = rows
        self._came_before = 0

    def __enter__(self) -> Self:
        self._rig.kafka.create_topic(TOPIC, 1)
        self._reader.__enter__()
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._reader.__exit__(None, None, None)

    def has_live(self) -> bool:
        self._check()
        return bool((self._reader.arrivals().dumped == 0).any())

    def has_all(self, writes: Writes) -> bool:
        self._check()
        return bool(np.isin(writes.numbers, self._reader.arrivals().live().touched).all())

    def ask_dump(self) -> None:
        self._came_before = self._reader.count()
        super().ask_dump()

    def is_dumped(self, *, requested_ns: int) -> bool:
        if self._status()["state"] != "finished" or self._reader.count() - self._came_before < self._rows:
            return False
        return not missing_ids(self._reader.arrivals().since(requested_ns), rows=self._rows)

    def arrivals(self) -> Arrivals:
        return self._reader.arrivals()


def _read(path: Path) -> DeliveredSegment:
    return SEGMENT.from_json(path.read_bytes(), name=str(path))


def _rows(file: Path, at_ns: int) -> Numbers:
    table = pq.read_table(file, columns=["id", "touched", "_origin"])
    dumped = pc.equal(table["_origin"], "dump").to_numpy().astype(np.int64)
    at = np.full(len(table), at_ns, dtype=np.int64)
    return np.column_stack([at, table["id"].to_numpy().astype(np.int64), table["touched"].to_numpy().astype(np.int64), dumped])
