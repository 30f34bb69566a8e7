"""Many at once, of the control service: connections that say nothing, garbage, calls without a token, watches, large messages. Each ends
with a call that is answered and with as many descriptors and threads as before."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import grpc

from sidecar.control.security import THREADS
from sidecar.control.service import WATCHERS_MAX
from sidecar.shared.process.descriptors import CONNECTIONS_MAX
from tests.tools.hostile.attempts import Attempt, Fault, Outcome
from ticdc_dump.v1 import control_pb2 as pb

if TYPE_CHECKING:
    from tests.tools.hostile.control import Target

SERVICE = "/ticdc_dump.v1.Control/"
FLOOD_S = 120.0
BACK_S = 30.0
"""For descriptors and threads to come back: gRPC closes some of them by and by."""
SLACK = 16
"""Descriptors and threads that gRPC keeps for its own once it has been busy."""
THREADS_SLACK = SLACK + THREADS
"""The server's own threads are made when they are needed, and stay."""


def floods(target: Target) -> Iterator[Attempt]:
    made: dict[str, tuple[int, Callable[[Target], None]]] = {
        "1,000 idle connections": (1000, partial(_connections, b"", 1000)),
        "400 connections of garbage": (400, partial(_connections, b"\x16\x03\x01garbage\r\n\r\n" * 20, 400)),
        "400 connections of HTTP/1": (400, partial(_connections, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 400)),
        "200 half handshakes": (200, partial(_connections, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4", 200)),
        "3,000 calls without a token": (3000, _calls_without_a_token),
        "500 watches": (500, _watches),
        "1,000 watches of health": (1000, _health_watches),
        "40 × 15 MiB": (40, _large),
    }
    for name, (_, made_by) in made.items():
        yield Attempt(f"flood: {name}", partial(flood, target, made_by), within_s=FLOOD_S + BACK_S, whole=True)


def flood(target: Target, made_by: Callable[[Target], None]) -> Outcome:
    """Try it; whether a call is answered afterwards, and all that it took comes back."""
    descriptors, threads = _descriptors(), threading.active_count()
    made_by(target)
    _answered(target)
    until_s = monotonic() + BACK_S
    while _descriptors() > descriptors + SLACK or threading.active_count() > threads + THREADS_SLACK:
        if monotonic() > until_s:
            raise Fault(Outcome.LEAK, f"{_descriptors() - descriptors} descriptors, {threading.active_count() - threads} threads more")
        sleep(0.1)
    return Outcome.HARMLESS


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _answered(target: Target) -> None:
    """Over a connection of its own. One that finds no place is sent again, as our client does."""
    ask = pb.DumpRequest(changefeed=pb.Changefeed(id="cf")).SerializeToString()
    until_s = monotonic() + BACK_S
    while True:
        with target.connected() as channel:
            try:
                channel.unary_unary(f"{SERVICE}Query")(ask, metadata=(target.right,), timeout=BACK_S)
            except grpc.RpcError as error:
                code = error.code()
                if code not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED) or monotonic() > until_s:
                    raise
                sleep(0.1)
            else:
                return


def _connections(said: bytes, count: int, target: Target) -> None:
    """They stay while a call is made."""
    port = target.serving.server.port
    before = _descriptors()
    with ExitStack() as opened:
        for _ in range(count):
            made = opened.enter_context(closing(socket.socket()))
            made.settimeout(5.0)
            try:
                made.connect(("127.0.0.1", port))
                made.sendall(said)
            except OSError:
                continue  # sent away
        of_the_server = _descriptors() - before - count
        _answered(target)
        if of_the_server > CONNECTIONS_MAX + SLACK:
            raise Fault(Outcome.LEAK, f"{of_the_server} descriptors for {count} connections of strangers")


def _calls_without_a_token(target: Target) -> None:
    with target.connected() as channel:
        calls = [channel.unary_unary(f"{SERVICE}Start").future(b"x" * 1000, timeout=FLOOD_S) for _ in range(3000)]
        _all_refused(calls)


def _all_refused(calls: list[Any]) -> None:
    for call in calls:
        if call.exception(FLOOD_S) is None:
            raise Fault(Outcome.ACCEPTED, "a call without a token was carried out")


def _watches(target: Target) -> None:
    with target.connected() as channel:
        watch = channel.unary_stream(f"{SERVICE}Watch")
        ask = pb.DumpRequest(changefeed=pb.Changefeed(id="cf")).SerializeToString()
        streams = [watch(ask, metadata=(target.right,)) for _ in range(500)]
        served = 0
        for stream in streams:
            try:
                next(stream)
                served += 1
            except grpc.RpcError:
                continue
        for stream in streams:
            stream.cancel()
        if served > WATCHERS_MAX:
            raise Fault(Outcome.ACCEPTED, f"{served} watches were served")


def _health_watches(target: Target) -> None:
    with target.connected() as channel:
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
        streams = [watch(b"") for _ in range(1000)]
        try:
            _answered(target)
        finally:
            for stream in streams:
                stream.cancel()


def _large(target: Target) -> None:
    with target.connected() as channel:
        rules = pb.StartRequest(
            changefeed=pb.Changefeed(id="cf"), dump_id="a" * 16, table_rules=["*" * (15 << 20) + ".t"]
        ).SerializeToString()
        start = channel.unary_unary(f"{SERVICE}Start")
        for _ in range(10):
            _all_refused([start.future(rules, metadata=(target.right,), timeout=FLOOD_S) for _ in range(4)])
