"""The position of each sink's output keeps the suite (position_port.py): in memory and at real targets."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from confluent_kafka import KafkaError

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import CommitTs, Seq
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.process.kept_secrets import keep
from spark_merge.port.contract import Accepted
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.clickhouse import server as clickhouse_server
from spark_merge.sinks.clickhouse.position import Journal
from spark_merge.sinks.folder.layout import DeliveredSegment, FolderIdentity
from spark_merge.sinks.folder.output import OutputFolder
from spark_merge.sinks.http.client import Receiver
from spark_merge.sinks.http.position import ReceiverPositions
from spark_merge.sinks.http.state import BegunSegment
from spark_merge.sinks.iceberg.lake import Lake
from spark_merge.sinks.iceberg.position import RecordPositions, RecordRows
from spark_merge.sinks.iceberg.uri import settings_of
from spark_merge.sinks.kafka.acknowledged_position import control_store
from spark_merge.sinks.kafka.client import SinkCluster, patiently
from spark_merge.sinks.kafka.position import ControlStore, TopicProgress
from spark_merge.sinks.kafka.position_records import TopicBatch as KafkaBegun
from spark_merge.sinks.kafka.sink import KafkaSink
from spark_merge.sinks.kit.chain import CommitChain
from spark_merge.sinks.kit.errors import sink_folder
from spark_merge.sinks.memory.positions import MemoryPositions
from spark_merge.sinks.mysql import position as mysql
from spark_merge.sinks.mysql.server import SqlServer
from spark_merge.sinks.opensearch.client import OpenSearchServer, OpenSearchSession
from spark_merge.sinks.opensearch.position import DocumentPositions, WrittenBatch
from spark_merge.sinks.registry import open_sink
from spark_merge.sinks.storage.commits import StorageOutput
from spark_merge.sinks.storage.options import options_of
from spark_merge.testing.position_port import LOG, PositionOutput, PositionPort, PositionWorker, accepted_of, looked
from tests.support.lake import uri_of
from tests.support.services.clickhouse import ClickHouse
from tests.support.services.http_receiver import HttpReceiver
from tests.support.services.kafka import KafkaBroker
from tests.support.services.mariadb import MariaDb
from tests.support.services.opensearch import OpenSearchNode

numbers = itertools.count()


class TestMemory(PositionPort):
    @pytest.fixture
    def output(self) -> PositionOutput:
        positions = MemoryPositions[str, str]()
        return PositionOutput(lambda: positions, details=("begun", "written"), payload=lambda accepted: f"rows up to {accepted.seq}")


class TestFolder(PositionPort):
    @pytest.fixture
    def output(self, tmp_path: Path) -> PositionOutput:
        folder, identity = sink_folder(str(tmp_path / "out")), FolderIdentity(LOG, "jsonl", 0, 0)

        def payload(accepted: Accepted) -> list[DeliveredSegment]:
            return [DeliveredSegment(accepted.seq, accepted.upto_ts or CommitTs(0), (), None, accepted.manifest)]

        return PositionOutput(lambda: CommitChain(OutputFolder(folder, identity)), payload=payload)


class TestStorageLayout(PositionPort):
    @pytest.fixture
    def output(self, tmp_path: Path) -> PositionOutput:
        folder, options = sink_folder(str(tmp_path / "out")), options_of({"protocol": "csv", "csv.include-commit-ts": "true"})
        return PositionOutput(lambda: CommitChain(StorageOutput(folder, options)))


class TestHttp(PositionPort):
    @pytest.fixture
    def output(self, tmp_path: Path) -> Iterator[PositionOutput]:
        with HttpReceiver(tmp_path / "receiver") as server:
            receiver = Receiver(f"http://127.0.0.1:{server.port}/orders")
            yield PositionOutput(lambda: ReceiverPositions(receiver), details=(BegunSegment(Seq(0), "m", 3), BegunSegment(Seq(7), "n", 1)))


@pytest.mark.xdist_group("iceberg")
class TestIceberg(PositionPort):
    @pytest.fixture
    def output(self, tmp_path: Path) -> PositionOutput:
        uri = uri_of(tmp_path / "lake")
        parts = urlsplit(uri)
        settings = settings_of(SinkUri(uri, parts, dict(parse_qsl(parts.query)), LOG))

        def payload(accepted: Accepted) -> RecordRows:
            return [("ddl", DdlRecord(accepted.upto_ts or CommitTs(0), "shop", "orders", "DROP TABLE orders"))]

        return PositionOutput(lambda: RecordPositions(Lake(settings)), payload=payload)


@pytest.mark.xdist_group("opensearch")
class TestOpenSearch(PositionPort):
    @pytest.fixture
    def output(self, opensearch: OpenSearchNode) -> PositionOutput:
        index = f"position{next(numbers)}"
        details = (WrittenBatch(Seq(0), {}), WrittenBatch(Seq(9), {"a": "a-v1", "b": "b-v3"}))
        server = OpenSearchServer(hosts=(("127.0.0.1", opensearch.port),))
        return PositionOutput(lambda: DocumentPositions(OpenSearchSession(server), index), details=details)


@pytest.mark.xdist_group("sql-target")
class TestMysql(PositionPort):
    @pytest.fixture
    def output(self, mariadb: MariaDb) -> Iterator[PositionOutput]:
        schema, server = f"position{next(numbers)}", SqlServer(((mariadb.host, mariadb.port),), mariadb.user)
        keep(server.SECRET_KIND, str(server), mariadb.password)
        begun = mysql.SqlBatch(Seq(9), 2, "keys")
        details = (mysql.Underway(begun), mysql.Underway(begun, "a DDL"), mysql.Underway(None, "another DDL"))
        with ExitStack() as sessions:

            def store() -> mysql.SinkTable:
                return mysql.SinkTable(sessions.enter_context(closing(MysqlSession(server, Role.WRITE_TARGET))), schema)

            yield PositionOutput(store, details=details)


@pytest.mark.xdist_group("clickhouse")
class TestClickHouse(PositionPort):
    @pytest.fixture
    def server(self, clickhouse: ClickHouse) -> Iterator[clickhouse_server.ClickHouseServer]:
        server = clickhouse_server.ClickHouseServer(((clickhouse.host, clickhouse.port),), clickhouse.user)
        keep(server.SECRET_KIND, str(server), clickhouse.password)
        yield server
        clickhouse_server.forget(server)

    @pytest.fixture
    def database(self) -> str:
        return f"position{next(numbers)}"

    @pytest.fixture
    def output(self, server: clickhouse_server.ClickHouseServer, database: str) -> PositionOutput:
        return PositionOutput(lambda: Journal(server, database))

    def test_of_two_openings_whose_requests_alternate_each_is_another_owner(
        self, server: clickhouse_server.ClickHouseServer, database: str, output: PositionOutput
    ) -> None:
        """Whichever request of one the other falls between: of the first owner of all, too."""
        for step in itertools.count(1):
            other = output.worker()
            between = Between(server, step, partial(other.keeper.open, None))
            slow = PositionWorker(output, between.journal(database))
            slow.keeper.open(None)
            if between.left > 0:
                break
            workers = sorted([slow, other], key=lambda worker: worker.keeper.state.owner)
            assert workers[0].keeper.state.owner < workers[1].keeper.state.owner
            with pytest.raises(OwnershipLost):
                workers[0].accept(step, first=step)
            assert workers[1].accept(step, first=step) == looked(output).accepted
        assert step > 4

    def test_an_acceptance_amid_which_another_worker_opens_is_counted_or_fails(
        self, server: clickhouse_server.ClickHouseServer, database: str, output: PositionOutput
    ) -> None:
        lost = 0
        for step in itertools.count(1):
            last = output.worker().keeper.open(None).accepted
            other = output.worker()
            between = Between(server, 1 << 30, partial(other.keeper.open, None))
            slow = PositionWorker(output, between.journal(database))
            slow.keeper.open(None)
            between.left = step
            following = 0 if last is None else last.seq + 1
            try:
                slow.accept(following, first=following)
            except OwnershipLost:
                lost += 1
                assert other.keeper.state.accepted == looked(output).accepted
                assert looked(output).accepted in (last, accepted_of(following))
            else:
                assert looked(output).accepted == accepted_of(following)
            if between.left > 0:
                break
        assert lost > 1


@dataclass(slots=True)
class Between:
    """A server that carries out `act` before its request of number `left`."""

    server: clickhouse_server.ClickHouseServer
    left: int
    act: Callable[[], object]

    def journal(self, database: str) -> Journal:
        return Journal(self, database)  # type: ignore[arg-type]  # what it asks of a server

    def rows(self, *args: Any, **kwargs: Any) -> list[list[Any]] | None:
        self._step()
        return self.server.rows(*args, **kwargs)

    def run(self, *args: Any, **kwargs: Any) -> None:
        self._step()
        self.server.run(*args, **kwargs)

    def _step(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.act()


@pytest.mark.xdist_group("kafka-sink")
class TestKafka(PositionPort):
    """With transactions, which a broker fences, and without."""

    @pytest.fixture(params=["true", "false"])
    def output(self, broker: KafkaBroker, request: pytest.FixtureRequest) -> Iterator[PositionOutput]:
        sink = open_sink(f"kafka://{broker.bootstrap}/position{next(numbers)}?protocol=canal-json&transactions={request.param}", log_id=LOG)
        assert isinstance(sink, KafkaSink)
        settings, stores = sink.output, list[ControlStore]()

        def store() -> ControlStore:
            stores.append(control_store(settings))
            return stores[-1]

        details = (
            TopicProgress(KafkaBegun(Seq(0), Seq(0), "log", (0, 0), 1)),
            TopicProgress(KafkaBegun(Seq(1), Seq(9), "log", (3, 4), 1), {"orders": 2}),
        )
        # Without a fence two that open at once may be the same Owner, and their tokens tell them apart.
        yield PositionOutput(store, details=details, term=lambda one: one.control.term)  # type: ignore[attr-defined]  # a ControlStore
        for one in stores:
            one.close()

    @pytest.mark.parametrize("output", ["true"], indirect=True)
    @pytest.mark.parametrize("is_done", [True, False])
    def test_an_opening_that_the_broker_answers_with_an_error_of_its_own_reads_what_came_of_it(
        self, output: PositionOutput, is_done: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Seen with four that open at once on a loaded machine: an EndTxn is answered with UNKNOWN_SERVER_ERROR."""
        before, answers = output.worker(), iter([True])
        before.keeper.open(1)

        def fails_once(cluster: SinkCluster, client: object, call: Callable[[float], None], what: str) -> None:
            if what.startswith("a transaction of") and next(answers, False):
                if is_done:
                    call(60)
                failed = cluster.raised(KafkaError(KafkaError.UNKNOWN), what)
                assert isinstance(failed, SinkError)
                raise failed
            patiently(cluster, client, call, what)

        monkeypatch.setattr("spark_merge.sinks.kafka.producer.patiently", fails_once)
        worker = output.worker()
        owner = worker.keeper.open(1).owner
        assert next(answers, None) is None
        assert looked(output).owner == owner
        with pytest.raises(OwnershipLost):
            before.accept(0, first=0)
        assert worker.accept(0, first=0) == looked(output).accepted
