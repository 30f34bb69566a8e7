"""What comes to the metrics port, of area 5: the server is the real one. After each the probe is answered at once."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from time import monotonic
from urllib.request import urlopen

from sidecar.run.metrics import CONNECTIONS_MAX, MetricsServer
from tests.tools.hostile.attempts import Attempt, Fault, Outcome

QUICK_S = 30.0
SILENT_MAX_S = 20 * QUICK_S
"""What a connection is allowed here: no answer comes because a silent one was given up."""
SILENT_S = 0.2
"""After which a connection that has not been answered is not waited for."""
ANSWER_BYTES_MAX = 1 << 20

SAID: dict[str, bytes] = {
    "nothing": b"",
    "half a line": b"GET /heal",
    "half a header": b"GET /healthz HTTP/1.1\r\nHost: x\r\n",
    "garbage": bytes(range(256)) * 20,
    "NULs": b"\0" * 10_000,
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
    "HTTP/0.9": b"GET /metrics\r\n",
    "HTTP/9.9": b"GET /metrics HTTP/9.9\r\n\r\n",
    "no version": b"GET /metrics HTTP/x\r\n\r\n",
    "a line of 1 MiB": b"GET /" + b"x" * (1 << 20) + b" HTTP/1.1\r\n\r\n",
    "a header of 1 MiB": b"GET /healthz HTTP/1.1\r\nX: " + b"x" * (1 << 20) + b"\r\n\r\n",
    "10,000 headers": b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
    "a body that does not come": b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999\r\n\r\nx",
    "a body of -1": b"POST /metrics HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "a body of x": b"POST /metrics HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    "chunks": b"POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    "a way out": b"GET /../../../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
    "a way out in percents": b"GET /%2e%2e/%2e%2e/etc/passwd%00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "another server's": b"GET http://127.0.0.1:2379/v2/keys HTTP/1.1\r\nHost: x\r\n\r\n",
    "an odd method": b"TRACE / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a method of 60,000": b"X" * 60_000 + b" / HTTP/1.1\r\n\r\n",
    "CONNECT": b"CONNECT 127.0.0.1:2379 HTTP/1.1\r\n\r\n",
    "a query of names": b"GET /metrics?" + b"name[]=x&" * 5_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a query of rubbish": b"GET /metrics?%ff%00[]==&;& HTTP/1.1\r\nHost: x\r\n\r\n",
    "odd Accepts": b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=9.9;escaping=\xff,,;q=x\r\n\r\n",
    "odd encodings": b"GET /metrics HTTP/1.1\r\nAccept-Encoding: gzip;q=nan,,x\r\n\r\n",
    "a folded header": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\tfolded\r\n\r\n",
    "a header without a name": b"GET /healthz HTTP/1.1\r\n: x\r\n\r\n",
}


def attempts(server: MetricsServer) -> Iterator[Attempt]:
    for name, said in SAID.items():
        yield Attempt(f"metrics: {name}", partial(_said, server, said), within_s=4 * QUICK_S)
    for name in ("nothing", "half a header", "garbage"):
        yield Attempt(f"metrics: {name}, 20 times what is served", partial(_many, server, SAID[name]), within_s=4 * QUICK_S, whole=True)
    yield Attempt("metrics: who asks and reads nothing", partial(_deaf, server), within_s=4 * QUICK_S)


def _said(server: MetricsServer, said: bytes) -> Outcome:
    with closing(_connected(server, said)) as connection:
        _answers(server)
        answer = b""
        connection.settimeout(SILENT_S)
        with suppress(OSError):
            while len(answer) < ANSWER_BYTES_MAX and (more := connection.recv(65_536)):
                answer += more
    for trace in (b"Traceback", b'File "', b"root:"):
        if trace in answer:
            raise Fault(Outcome.LEAK, answer[-500:].decode(errors="replace"))
    return Outcome.REFUSED if answer.startswith(b"HTTP/1.0 4") or not answer else Outcome.HARMLESS


def _many(server: MetricsServer, said: bytes) -> Outcome:
    with ExitStack() as opened:
        for _ in range(20 * CONNECTIONS_MAX):
            opened.enter_context(closing(_connected(server, said)))
        _answers(server)
    return Outcome.HARMLESS


def _deaf(server: MetricsServer) -> Outcome:
    requested: Sequence[bytes] = [b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"] * CONNECTIONS_MAX
    with ExitStack() as opened:
        for said in requested:
            opened.enter_context(closing(_connected(server, said)))
        _answers(server)
    return Outcome.HARMLESS


def _connected(server: MetricsServer, said: bytes) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", server.port), timeout=QUICK_S)
    with suppress(OSError):  # sent away before all was said
        made.sendall(said)
    return made


def _answers(server: MetricsServer) -> None:
    began_s = monotonic()
    with urlopen(f"http://127.0.0.1:{server.port}/healthz", timeout=3 * QUICK_S) as answer:
        said = answer.read()
    if said != b"standby\n" or monotonic() - began_s > QUICK_S:
        raise Fault(Outcome.HANG, f"{said!r} after {monotonic() - began_s:.1f} s")
