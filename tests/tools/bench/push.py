"""The push feed: entries of the `shop` recording's mix over loopback, from a sender that only sends, to events from `poll`.

The reference is plain gRPC streaming of the same messages in the same run, thrown away on arrival: what the network and gRPC
cost before anybody looks into a message. Sender and puller are one process; its CPU is both ends', as is the reference's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Thread
from typing import Any

import grpc

from sidecar.feeds.push.puller import PushPuller
from sidecar.shared.config import PushSection
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KvEntry, rows_of
from tests.support.eventually import PATIENCE_S
from tests.support.kv_recordings import kv_recording
from tests.tools.bench.bench import Bench
from tests.tools.bench.figures import Cost, Figure, best, timed
from tests.unit.feeds.pushing import Polling, RawSender
from ticdc_dump.v1 import feed_pb2 as pb

ENTRIES = 400_000
BATCH_BYTES = 512 << 10
SPAN = rows_of(104)
KEPT_PART = 11
"""Of a key of the recording: table id and `_r` are replaced by the span's own."""

OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0))


def measure(bench: Bench) -> Iterator[Figure]:
    """MB a second of messages as they are on the wire, all of it on one core: the interpreter's lock is held."""
    batches, entries = _batches(bench.sized(ENTRIES))
    megabytes = sum(batch.ByteSize() for batch in batches) / 1e6
    plain = best(lambda: _plain(batches))
    pushed = best(lambda: _pushed(batches, entries))
    yield Figure(
        "push feed: entries to events",
        megabytes / pushed.wall_s,
        "MB/s",
        "≥ 30",
        f"one core, {entries / pushed.wall_s:,.0f} entries/s of {megabytes * 1e6 / entries:,.0f} B",
        cpu_us=pushed.cpu_s / entries * 1e6,
        reference=f"plain gRPC stream {megabytes / plain.wall_s:,.0f} MB/s",
        ratio=plain.wall_s / pushed.wall_s,
        cpu_ratio=plain.cpu_s / pushed.cpu_s,
    )


def _batches(count: int) -> tuple[list[pb.SenderMessage], int]:
    """Messages 3, 4, … of a stream that said Hello and opened SPAN, and how many entries are in them."""
    entries = kv_recording("shop").entries
    batches: list[pb.SenderMessage] = []
    batch, size = pb.Entries(span=1), 0
    for number in range(count):
        entry = entries[number % len(entries)]
        sent = pb.Entry(
            op=pb.OP_PUT if entry.value else pb.OP_DELETE,
            key=SPAN.start + entry.key[KEPT_PART:],
            value=entry.value,
            old_value=entry.old,
            start_ts=1_000_000_000_000 + 2 * number,
            commit_ts=1_000_000_000_001 + 2 * number,
            region=7,
        )
        if size + sent.ByteSize() + 8 > BATCH_BYTES:
            batches.append(pb.SenderMessage(number=len(batches) + 3, entries=batch))
            batch, size = pb.Entries(span=1), 0
        batch.entries.append(sent)
        size += sent.ByteSize() + 8
    batches.append(pb.SenderMessage(number=len(batches) + 3, entries=batch))
    return batches, count


def _plain(batches: Sequence[pb.SenderMessage]) -> Cost:
    threads = ThreadPoolExecutor(1)
    server = grpc.server(threads, options=OPTIONS)
    drain = grpc.stream_unary_rpc_method_handler(_drain)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench", {"Drain": drain}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    cost = Cost()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_unary("/bench/Drain", request_serializer=pb.SenderMessage.SerializeToString)
        with timed(cost):
            call(iter(batches))
    server.stop(0).wait()
    threads.shutdown()
    return cost


def _drain(requests: Iterator[bytes], context: Any) -> bytes:
    return b"%d" % sum(len(request) for request in requests)


def _pushed(batches: Sequence[pb.SenderMessage], entries: int) -> Cost:
    cost = Cost()
    with closing(PushPuller(PushSection(listen="127.0.0.1:0"))) as puller, RawSender(puller.port) as sender:
        puller.want({SPAN: CommitTs(1)})
        polling = Polling(puller)
        sender.hello()
        polling.until(lambda: sender.of_kind("welcome"))
        sender.open(1, SPAN)
        polling.until(lambda: sender.of_kind("opened"))
        sending = Thread(target=_send, args=(sender, batches), name="bench-sender", daemon=True)
        with timed(cost):
            sending.start()
            left = entries
            while left:
                events = puller.poll(timeout_s=PATIENCE_S)
                assert events, "the sender stopped"
                left -= sum(type(event) is KvEntry for event in events)
        sending.join()
    return cost


def _send(sender: RawSender, batches: Sequence[pb.SenderMessage]) -> None:
    for batch in batches:
        sender.wait_credit()
        sender.send_message(batch)
