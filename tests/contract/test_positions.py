"""The position of each sink's output keeps the suite (position_port.py): in memory and at real targets."""

from __future__ import annotations

import itertools

import pytest

from sidecar.core.model import Seq
from spark_merge.sinks.memory.positions import MemoryPositions
from spark_merge.sinks.opensearch.client import Server, Session
from spark_merge.sinks.opensearch.position import DocumentPositions, Written
from tests.contract.position_port import Output, PositionPort
from tests.support.services.opensearch import OpenSearchNode

numbers = itertools.count()


class TestMemory(PositionPort):
    @pytest.fixture
    def output(self) -> Output:
        positions = MemoryPositions[str, str]()
        return Output(lambda: positions, details=("begun", "written"), payload=lambda accepted: f"rows up to {accepted.seq}")


@pytest.mark.xdist_group("opensearch")
class TestOpenSearch(PositionPort):
    @pytest.fixture
    def output(self, opensearch: OpenSearchNode) -> Output:
        index = f"position{next(numbers)}"
        details = (Written(Seq(0), {}), Written(Seq(9), {"a": "a-v1", "b": "b-v3"}))
        server = Server(hosts=(("127.0.0.1", opensearch.port),))
        return Output(lambda: DocumentPositions(Session(server), index), details=details)
