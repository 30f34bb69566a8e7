"""A subscriber that reads a spool from its beginning, over TCP, beside a plain stream of the same messages by the same library: both ends
are in this process, and both make the messages."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import grpc

from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import Seq
from spark_merge.sinks.spool.reader import SpoolReader
from tests.tools.bench.figures import Cost, Figure, beside, best_in_turn, rate, timed
from tests.unit.control.serving import Owner, Serving
from ticdc_dump.v1 import control_pb2 as pb
from ticdc_dump.v1 import control_pb2_grpc
from ticdc_dump.v1.delivery_pb2 import Delivery

ANY_SIZE = (("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1))
SERVICE, METHOD = "bench.Plain", "Stream"


def measure(spool: Path, log: Folder, *, rows: int, last: Seq) -> Iterator[Figure]:
    """Of a spool with `rows` rows up to segment `last`."""
    with contextlib.ExitStack() as open_things:
        address = open_things.enter_context(_serving(SpoolReader(open_folder(str(spool)), log)))
        messages = [delivery.SerializeToString() for delivery in _read(address, last)]
        plain = open_things.enter_context(_plain(messages))
        ours, theirs = best_in_turn(partial(_counted, partial(_read, address, last), rows), partial(_counted, partial(_all, plain), rows))
        size = sum(map(len, messages)) >> 20
        yield beside(
            rate(f"{rows:,} rows to a subscriber", rows, ours, aim="", limit=f"{size} MiB of messages, made and parsed in one process"),
            "a plain gRPC stream of the same messages", rows, theirs,
        )  # fmt: skip


def copied(folder: Path, spool: Path) -> Cost:
    """The spool's own bytes into one file, on disk."""
    results = [path.read_bytes() for path in sorted(spool.rglob("*")) if path.is_file()]
    cost = Cost()
    with timed(cost), (folder / "copy").open("wb") as file:
        file.writelines(results)
        file.flush()
        os.fsync(file.fileno())
    return cost


def _counted(read: partial[Iterator[Delivery]], rows: int) -> Cost:
    cost = Cost()
    with timed(cost):
        number = sum(len(batch.ops) for delivery in read() for batch in delivery.rows)
    assert number == rows, f"{number} of {rows} rows came"
    return cost


def _read(address: str, last: Seq) -> Iterator[Delivery]:
    with grpc.insecure_channel(address, options=ANY_SIZE) as channel:
        stream = control_pb2_grpc.ControlStub(channel).Subscribe(pb.SubscribeRequest(changefeed=pb.Changefeed(id="cf")))  # type: ignore[no-untyped-call]  # generated without types
        for delivery in stream:
            yield delivery
            if delivery.seq == last and delivery.HasField("resolved"):
                stream.cancel()
                return


def _all(address: str) -> Iterator[Delivery]:
    with grpc.insecure_channel(address, options=ANY_SIZE) as channel:
        yield from channel.unary_stream(f"/{SERVICE}/{METHOD}", response_deserializer=Delivery.FromString)(b"")


@contextlib.contextmanager
def _serving(spool: SpoolReader) -> Iterator[str]:
    with Owner() as owner, Serving(owner.served(spool=spool)) as server:
        yield server.address


@contextlib.contextmanager
def _plain(messages: list[bytes]) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(2))
    handler = grpc.unary_stream_rpc_method_handler(
        lambda *_: map(Delivery.FromString, messages), response_serializer=Delivery.SerializeToString
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()
