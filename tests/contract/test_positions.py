"""The position of each sink's output keeps the suite (position_port.py): in memory and at real targets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.core.model import CommitTs, Seq
from sidecar.log.manifest import DdlRecord
from sidecar.log.storage import open_folder
from spark_merge.contract import Accepted
from spark_merge.sinks.files.commits import FolderPositions
from spark_merge.sinks.files.layout import DeliveredSegment, Identity
from spark_merge.sinks.http.client import Receiver
from spark_merge.sinks.http.position import ReceiverPositions
from spark_merge.sinks.http.state import Begun
from spark_merge.sinks.iceberg.lake import Lake
from spark_merge.sinks.iceberg.position import RecordPositions, RecordRows
from spark_merge.sinks.iceberg.sink import IcebergSink
from spark_merge.sinks.memory.positions import MemoryPositions
from spark_merge.sinks.opensearch.client import Server, Session
from spark_merge.sinks.opensearch.position import DocumentPositions, Written
from spark_merge.sinks.registry import open_sink
from spark_merge.sinks.storage.commits import StoragePositions
from spark_merge.sinks.storage.options import options_of
from tests.contract.position_port import LOG, Output, PositionPort
from tests.support.lake import uri_of
from tests.support.services.http_receiver import HttpReceiver
from tests.support.services.opensearch import OpenSearchNode

numbers = itertools.count()


class TestMemory(PositionPort):
    @pytest.fixture
    def output(self) -> Output:
        positions = MemoryPositions[str, str]()
        return Output(lambda: positions, details=("begun", "written"), payload=lambda accepted: f"rows up to {accepted.seq}")


class TestFolder(PositionPort):
    @pytest.fixture
    def output(self, tmp_path: Path) -> Output:
        folder, identity = open_folder(str(tmp_path / "out")), Identity(LOG, "jsonl", 0, 0)

        def payload(accepted: Accepted) -> list[DeliveredSegment]:
            return [DeliveredSegment(accepted.seq, accepted.upto_ts or CommitTs(0), (), None, accepted.manifest)]

        return Output(lambda: FolderPositions(folder, identity), payload=payload)


class TestStorageLayout(PositionPort):
    @pytest.fixture
    def output(self, tmp_path: Path) -> Output:
        folder, options = open_folder(str(tmp_path / "out")), options_of({"protocol": "csv", "csv.include-commit-ts": "true"})
        return Output(lambda: StoragePositions(folder, options))


class TestHttp(PositionPort):
    @pytest.fixture
    def output(self, tmp_path: Path) -> Iterator[Output]:
        with HttpReceiver(tmp_path / "receiver") as server:
            receiver = Receiver(f"http://127.0.0.1:{server.port}/orders")
            yield Output(lambda: ReceiverPositions(receiver), details=(Begun(Seq(0), "m", 3), Begun(Seq(7), "n", 1)))


@pytest.mark.xdist_group("iceberg")
class TestIceberg(PositionPort):
    @pytest.fixture
    def output(self, tmp_path: Path) -> Output:
        sink = open_sink(uri_of(tmp_path / "lake"), log_id=LOG)
        assert isinstance(sink, IcebergSink)
        settings = sink._lake.settings

        def payload(accepted: Accepted) -> RecordRows:
            return [("ddl", DdlRecord(accepted.upto_ts or CommitTs(0), "shop", "orders", "DROP TABLE orders"))]

        return Output(lambda: RecordPositions(Lake(settings)), payload=payload)


@pytest.mark.xdist_group("opensearch")
class TestOpenSearch(PositionPort):
    @pytest.fixture
    def output(self, opensearch: OpenSearchNode) -> Output:
        index = f"position{next(numbers)}"
        details = (Written(Seq(0), {}), Written(Seq(9), {"a": "a-v1", "b": "b-v3"}))
        server = Server(hosts=(("127.0.0.1", opensearch.port),))
        return Output(lambda: DocumentPositions(Session(server), index), details=details)
