"""A subscription for real: over TCP, a spool on disk that a sink fills from a log, subscribers that are slow, die and come back."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import grpc
import pytest

from sidecar.control.subscribe import Spool
from sidecar.shared.config import ControlSection, Tls
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import Seq
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.sinks.spool.keeping import Bounds
from spark_merge.sinks.spool.reader import SpoolReader
from spark_merge.sinks.spool.sink import SpoolSink
from spark_merge.testing import histories
from spark_merge.testing.places import Here
from tests.support.deliveries import Segments, change, deliver
from tests.support.eventually import PATIENCE_S
from tests.support.services.tls import Authority
from tests.support.subscriber import Row, rows_of
from tests.unit.control.serving import Owner, Serving
from ticdc_dump.v1 import control_pb2 as pb
from ticdc_dump.v1 import control_pb2_grpc, delivery_pb2

pytestmark = pytest.mark.xdist_group("control")

FEED = pb.Changefeed(id="cf")
TOKEN = "correct horse battery staple"
LOG_ID = "cf#" + "a" * 32
CHANNEL = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.http2.bdp_probe", 0),  # windows that do not grow with what a connection seems to carry
)


@pytest.fixture
def owner() -> Iterator[Owner]:
    with Owner() as made:
        yield made


class Output:
    """A log with a random history and the spool that is made of it."""

    def __init__(self, folder: Path, seed: int = 1) -> None:
        self.history = histories.random_history(Random(seed))
        self.log = open_folder(str(folder / "log"))
        self.manifests = histories.write_log(self.log, self.history)
        self.folder = open_folder(str(folder / "spool"))
        self.reader = SpoolReader(self.folder, self.log)
        self.last = self.manifests[-1].seq

    def delivery(self) -> Delivery:
        return Delivery(SpoolSink(self.folder, log_id=LOG_ID, bounds=Bounds()), JobSettings(self.log), Here())

    def deliver(self) -> Output:
        delivery = self.delivery()
        while delivery.deliver():
            pass
        return self

    def expected(self) -> list[tuple[object, ...]]:
        return [
            (row.seq, row.commit_ts, row.table, row.op, row.key, row.before, row.after, row.dump_id)
            for row in self.history.merged(self.manifests)
        ]


def shown(rows: list[Row]) -> list[tuple[object, ...]]:
    return [(row.seq, row.commit_ts, row.table, row.op, row.key, row.before, row.after, row.dump_id or None) for row in rows]


def by_table(rows: list[tuple[object, ...]]) -> dict[object, list[tuple[object, ...]]]:
    table: dict[object, list[tuple[object, ...]]] = {}
    for row in rows:
        table.setdefault(row[2], []).append(row)
    return table


@contextmanager
def serving(owner: Owner, spool: Spool, control: ControlSection | None = None) -> Iterator[Serving]:
    with Serving(owner.served(spool=spool), control) as made:
        yield made


@contextmanager
def stub_of(address: str) -> Iterator[Any]:
    with grpc.insecure_channel(address, options=CHANNEL) as channel:
        yield control_pb2_grpc.ControlStub(channel)  # type: ignore[no-untyped-call]  # generated without types


def subscribed(stub: Any, metadata: tuple[tuple[str, str], ...] = (), **given: Any) -> Any:
    return stub.Subscribe(pb.SubscribeRequest(changefeed=FEED, **given), metadata=metadata)


def up_to(stream: Any, seq: int) -> list[delivery_pb2.Delivery]:
    """All deliveries until segment `seq` is complete."""
    result = []
    for delivery in stream:
        result.append(delivery)
        if delivery.seq == seq and delivery.HasField("resolved"):
            stream.cancel()
            return result
    raise AssertionError(f"the stream ended before {seq}")


# ---- who may ask -----------------------------------------------------------------------------------------------------


def test_a_subscription_needs_the_token_as_any_call(owner: Owner, tmp_path: Path) -> None:
    output = Output(tmp_path).deliver()
    (tmp_path / "token").write_text(TOKEN)
    control = ControlSection(listen="127.0.0.1:0", token_file=str(tmp_path / "token"))
    with serving(owner, output.reader, control) as server, stub_of(server.address) as stub:
        for metadata in ((), (("authorization", "Bearer wrong"),)):
            with pytest.raises(grpc.RpcError) as error:
                next(subscribed(stub, metadata))
            assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED
            with pytest.raises(grpc.RpcError) as error:
                stub.Acknowledge(pb.AcknowledgeRequest(changefeed=FEED, subscriber="a"), metadata=metadata)
            assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert up_to(subscribed(stub, (("authorization", f"Bearer {TOKEN}"),)), output.last)


def test_a_subscription_needs_a_certificate_where_any_call_does(owner: Owner, tmp_path: Path) -> None:
    output, authority = Output(tmp_path).deliver(), Authority(tmp_path)
    signed, client = authority.sign("sidecar"), authority.sign("subscriber")
    tls = Tls(ca_file=str(authority.ca_file), cert_file=str(signed.cert_file), key_file=str(signed.key_file))
    ca = Path(authority.ca_file).read_bytes()
    with serving(owner, output.reader, ControlSection(listen="127.0.0.1:0", tls=tls)) as server:
        own = grpc.ssl_channel_credentials(ca, Path(client.key_file).read_bytes(), Path(client.cert_file).read_bytes())
        with grpc.secure_channel(server.address, own, options=CHANNEL) as channel:
            assert up_to(subscribed(control_pb2_grpc.ControlStub(channel)), output.last)  # type: ignore[no-untyped-call]  # generated
        with grpc.secure_channel(server.address, grpc.ssl_channel_credentials(ca)) as channel, pytest.raises(grpc.RpcError) as error:
            next(subscribed(control_pb2_grpc.ControlStub(channel)))  # type: ignore[no-untyped-call]  # generated
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE


# ---- where it goes on ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_what_comes_after_each_segment_is_the_rest_of_the_whole(owner: Owner, tmp_path: Path, seed: int) -> None:
    output = Output(tmp_path, seed).deliver()
    with serving(owner, output.reader) as server, stub_of(server.address) as stub:
        whole = shown(list(rows_of(up_to(subscribed(stub), output.last))))
        assert by_table(whole) == by_table(output.expected())
        for seq in range(output.last):
            rest = up_to(subscribed(stub, subscriber="a", after_seq=seq, log="a" * 32), output.last)
            assert shown(list(rows_of(rest))) == [row for row in whole if int(str(row[0])) > seq]
            stub.Acknowledge(pb.AcknowledgeRequest(changefeed=FEED, subscriber="a", seq=seq))
            known = up_to(subscribed(stub, subscriber="a"), output.last)
            assert [delivery.seq for delivery in known] == [delivery.seq for delivery in rest]


def test_one_that_is_ahead_or_of_another_log_is_refused(owner: Owner, tmp_path: Path) -> None:
    output = Output(tmp_path).deliver()
    with serving(owner, output.reader) as server, stub_of(server.address) as stub:
        for given, reported_of in (({"after_seq": output.last + 1}, "does not have it yet"), ({"log": "b" * 32}, "of log bbbb")):
            with pytest.raises(grpc.RpcError) as error:
                next(subscribed(stub, subscriber="a", **given))
            assert error.value.code() is grpc.StatusCode.OUT_OF_RANGE
            assert reported_of in (error.value.details() or "")
        assert [one.name for one in stub.Query(pb.DumpRequest(changefeed=FEED)).subscribers] == []


@pytest.mark.parametrize("seed", range(4))
def test_a_subscriber_that_dies_and_comes_back_loses_and_doubles_nothing(owner: Owner, tmp_path: Path, seed: int) -> None:
    """It dies in the middle of segments, before and after it acknowledges, and so do the sidecar and the merge worker; the log is
    delivered meanwhile. What it keeps it keeps with the segment's number, as a consumer with transactions would."""
    output, random = Output(tmp_path, seed), Random(seed)
    delivery = output.delivery()
    kept: list[delivery_pb2.Delivery] = []
    seq: int | None = None
    while seq != output.last:
        with serving(owner, output.reader) as server, stub_of(server.address) as stub:
            if random.random() < 0.3:
                delivery = output.delivery()  # a new worker
            delivery.deliver()
            named: dict[str, Any] = {} if seq is None else {"after_seq": seq, "log": "a" * 32}
            stream, lives = subscribed(stub, subscriber="a", **named), random.randrange(1, 40)
            under_way: list[delivery_pb2.Delivery] = []
            for _ in range(lives):
                under_way.append(next(stream))
                if under_way[-1].HasField("resolved"):
                    kept, seq, under_way = kept + under_way, under_way[-1].seq, []
                    if random.random() < 0.5:
                        stub.Acknowledge(pb.AcknowledgeRequest(changefeed=FEED, subscriber="a", seq=seq))
                    if seq == output.last or output.reader.deliveries(Seq(seq + 1)) is None:
                        break
            stream.cancel()
    assert by_table(shown(list(rows_of(kept)))) == by_table(output.expected())
    assert [one.seq for one in kept if one.HasField("resolved")] == list(range(output.last + 1))


def test_a_second_stream_of_a_name_ends_the_first(owner: Owner, tmp_path: Path) -> None:
    output = Output(tmp_path).deliver()
    with serving(owner, output.reader) as server, stub_of(server.address) as stub:
        first = subscribed(stub, subscriber="a")
        next(first)
        second = subscribed(stub, subscriber="a")
        next(second)
        with pytest.raises(grpc.RpcError):
            for _ in first:
                pass
        assert first.code() is grpc.StatusCode.CANCELLED
        up_to(second, output.last)


# ---- at the subscriber's pace ----------------------------------------------------------------------------------------

LARGE_SEGMENTS, LARGE_ROWS, LARGE_TEXT = 40, 400, 10_000


class Counting:
    """A spool that counts the bytes that were taken out of it."""

    def __init__(self, reader: SpoolReader) -> None:
        self.taken = 0
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def deliveries(self, seq: Seq) -> Iterator[delivery_pb2.Delivery] | None:
        deliveries = self._reader.deliveries(seq)
        return None if deliveries is None else map(self._counted, deliveries)

    def _counted(self, delivery: delivery_pb2.Delivery) -> delivery_pb2.Delivery:
        self.taken += delivery.ByteSize()
        return delivery


def large(folder: Path) -> tuple[SpoolReader, int]:
    spool: Folder = open_folder(str(folder / "spool"))
    log = open_folder(str(folder / "log"))
    sink = SpoolSink(spool, log_id=LOG_ID, bounds=Bounds())
    sink.open(epoch=None)
    for seq in range(LARGE_SEGMENTS):
        rows = [change(seq, 100 * seq + 1, after=[str(at), "x" * LARGE_TEXT], ordinal=at) for at in range(LARGE_ROWS)]
        deliver(sink, Segments([seq], rows, rows_max=LARGE_ROWS), log=log)
    return SpoolReader(spool, log), LARGE_SEGMENTS * LARGE_ROWS * LARGE_TEXT


def at_rest(read: Callable[[], int]) -> int:
    """What `read` gives once it has not changed for a second."""
    pause, still, before = Event(), 0, -1
    while still < 10:
        pause.wait(0.1)
        now = read()
        still, before = (still + 1, now) if now == before else (0, now)
    return before


def test_a_subscriber_that_does_not_read_costs_a_few_deliveries(owner: Owner, tmp_path: Path) -> None:
    """160 MB are there for each of two, and both ends of the connection are in this process."""
    reader, size = large(tmp_path)
    counting = Counting(reader)
    with serving(owner, counting) as server, stub_of(server.address) as stub:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        streams = [subscribed(stub, subscriber=name) for name in "ab"]
        for stream in streams:
            next(stream)
        taken = at_rest(lambda: counting.taken)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
        assert taken < 2 * size / 4, f"{taken:,} bytes of {2 * size:,} were taken out for two subscribers that read one delivery each"
        assert grown < size, f"{grown:,} bytes of memory"
        assert stub.Query(pb.DumpRequest(changefeed=FEED), timeout=PATIENCE_S).owner == "here:1", "and holds no other call"
        rows = sum(len(batch.ops) for delivery in up_to(streams[0], LARGE_SEGMENTS - 1) for batch in delivery.rows)
        assert rows > (LARGE_SEGMENTS - 2) * LARGE_ROWS
        streams[1].cancel()


def test_the_server_ends_though_a_subscriber_does_not_read(owner: Owner, tmp_path: Path) -> None:
    reader, _ = large(tmp_path)
    with stub_of("127.0.0.1:1"):
        pass
    with serving(owner, reader) as server, stub_of(server.address) as stub:
        stream = subscribed(stub)
        next(stream)
    with pytest.raises(grpc.RpcError):
        for _ in stream:
            pass


# ---- the client of deploy/subscribe -------------------------------------------------------------------------------


CLIENT = Path(__file__).parents[2] / "deploy" / "subscribe" / "client.py"


def test_the_client_of_the_page_gets_every_row_as_written(owner: Owner, tmp_path: Path) -> None:
    output = Output(tmp_path).deliver()
    results: list[tuple[object, ...]] = []

    class Enough(Exception):
        pass

    def apply(table: delivery_pb2.TableColumns, rows: Any) -> None:
        results.extend((table.table, commit_tso, before, after) for _, commit_tso, before, after in rows)
        if len(results) == len(expected):
            raise Enough

    rows = output.history.merged(output.manifests)
    expected = [(row.table.table, row.commit_ts, row.before or (None if row.after else (*row.key, None)), row.after) for row in rows]
    names: dict[str, Any] = {}
    exec(CLIENT.read_text(), names)
    names["apply"] = apply
    with serving(owner, output.reader) as server, suppress(Enough):
        names["follow"](server.address, "cf", "search")
    assert sorted(results, key=repr) == sorted(expected, key=repr)
    [known] = output.reader.subscribers()
    assert (known.name, known.segments <= 2) == ("search", True)
