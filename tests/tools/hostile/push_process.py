"""Area 2 again: the push feed as a whole process, `ticdc-dump run` with `feed = "push"`, with few descriptors and everything that strangers
can reach attacked at once: control, push and metrics. etcd is real; TiDB is stood in for; there is no Spark, for nothing is delivered.

The attempts come one after another on one process, and the last ones end it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.request import urlopen

import grpc

from sidecar.feeds.push.credits import SENDERS_MAX
from sidecar.replay.recording import Recording
from sidecar.shared.config import SourceSection
from sidecar.shared.model.nouns import MARK_TABLE
from tests.support.recorded_tidb import recorded_tidb
from tests.support.recordings import recording
from tests.support.services.etcd import Etcd
from tests.support.services.ports import free_ports
from tests.tools.hostile.attempts import Area, Attempt, Fault, Outcome
from tests.tools.rig import changefeed
from tests.tools.rig.sidecar_process import BIN, SidecarProcess
from tests.tools.rig.tso import ms_of_tso
from tests.unit.feeds.pushing import RawSender, sent
from ticdc_dump.v1 import feed_pb2 as pb

ID = "hostile"
CHANGEFEED = f"{changefeed.CLUSTER}/{changefeed.NAMESPACE}/{ID}"
TOKEN = "0123456789abcdef-T0KEN-0123456789abcdef"
DESCRIPTORS = 512
START_S, ANSWER_S, END_S = 120.0, 60.0, 60.0
MARK_MS = 200
"""Between marks; their ts are as far from each other."""
MIB = 1 << 20
LARGE_BYTES = 100 * MIB
MEMORY_BYTES_MAX = 22 * LARGE_BYTES
"""What the process may have more at its peak, when 33 streams send LARGE_BYTES each: a third of what they would take at once, each held
twice. Two are taken at a time; 0.5 to 1.7 GB were seen, as gRPC gives back by and by what it collected for a stream that has ended."""


class Narrow(SidecarProcess):
    """With few descriptors, none of which can be had more."""

    def start(self) -> None:
        command = ["sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "sh", str(BIN / "ticdc-dump"), "run", "--config", str(self.config)]
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True)


class Target:
    def __init__(self, process: Narrow, ports: tuple[int, int, int]) -> None:
        self.process = process
        self.push_port, self.control_port, self.metrics_port = self.ports = ports

    def answers(self, *, within_s: float = ANSWER_S) -> None:
        """The owner's status is there, and the probe answers."""
        began_s = monotonic()
        self.process.await_status(lambda value: value["epoch"] > 0, timeout_s=within_s)
        with urlopen(f"http://127.0.0.1:{self.metrics_port}/healthz", timeout=within_s) as answer:
            if answer.read() != b"owner\n":
                raise Fault(Outcome.HANG, "it does not own the changefeed any more")
        if monotonic() - began_s > within_s:
            raise Fault(Outcome.HANG, f"{monotonic() - began_s:.0f} s for a status and a probe")

    def sender(self, *, token: str = TOKEN) -> RawSender:
        return RawSender(self.push_port, token=token)

    def welcomed(self, name: str) -> RawSender:
        """A sender that does all well. The process polls on its own."""
        until_s = monotonic() + START_S
        while True:
            made = self.sender()
            made.hello(name, changefeed=CHANGEFEED)
            while not made.ended and not made.wanted() and monotonic() < until_s:
                sleep(0.01)
            if made.wanted():
                return made
            made.kill()
            if monotonic() > until_s:
                raise Fault(Outcome.HANG, f"no welcome: {made.ended}")

    def peak_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))


@contextmanager
def opened() -> Iterator[Sequence[Attempt]]:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        played = Recording(recording("demo"))
        ports = free_ports(3)
        etcd = stack.enter_context(Etcd(folder / "etcd"))
        source = stack.enter_context(recorded_tidb(played, folder))
        put_changefeed(etcd, played)
        process = stack.enter_context(Narrow(_settings(folder, etcd, source, ports), folder / "sidecar.log"))
        target = Target(process, (ports[0], ports[1], ports[2]))
        target.answers(within_s=START_S)
        yield [*_attempts(target)]


def _attempts(target: Target) -> Iterator[Attempt]:
    def add(name: str, tried: Any, inputs: int = 1) -> Attempt:
        def counted() -> Outcome:
            tried(target)
            target.answers()
            return Outcome.REFUSED

        return Attempt(name, counted, within_s=START_S + END_S, inputs=inputs)

    yield add("senders without the token", _without_token, 5)
    yield add(f"{SENDERS_MAX + 1} streams that say nothing", _silent_streams)
    yield add("large first messages", _large_hellos)
    yield add("garbage after Hello's credit", _garbage_after_welcome)
    yield add("silent connections to the probe", _silent_probe)
    for name, said in {"silent": b"", "garbage": b"\x16\x03\x01\0\xff" * 50, "HTTP/1": b"GET / HTTP/1.1\r\n"}.items():
        yield add(f"{name} connections to every port, more than there are descriptors", _connections(said))
    yield Attempt("a broken sender stops it by its name", lambda: _broken_sender(target), within_s=START_S + END_S)
    yield Attempt("it comes back, and is stopped amid silent connections", lambda: _stopped(target), within_s=START_S + END_S)


def _without_token(target: Target) -> None:
    for token in ("", "x", TOKEN[:-1], TOKEN + "x", "x" * 4000):
        with target.sender(token=token) as sender:
            sender.hello("node", changefeed=CHANGEFEED)
            code, text = sender.wait_end()
            if code is not grpc.StatusCode.UNAUTHENTICATED:
                raise Fault(Outcome.ACCEPTED, f"{code}: {text}")


def _silent_streams(target: Target) -> None:
    with ExitStack() as streams:
        for sender in [streams.enter_context(target.sender()) for _ in range(SENDERS_MAX + 1)]:
            sender.wait_end()
        target.welcomed("after-silence").kill()


def _large_hellos(target: Target) -> None:
    before_bytes = target.peak_bytes()
    with ExitStack() as streams:
        large = [streams.enter_context(target.sender()) for _ in range(SENDERS_MAX + 1)]
        for sender in large:
            sender.send_bytes(b"\0" * LARGE_BYTES)
        for sender in large:
            sender.wait_end()
    if (more_bytes := target.peak_bytes() - before_bytes) > MEMORY_BYTES_MAX:
        raise Fault(Outcome.LEAK, f"{more_bytes >> 20} MiB more")
    target.welcomed("after-large").kill()


def _garbage_after_welcome(target: Target) -> None:
    """A number that does not follow ends the stream alone, also where the rest is garbage."""
    with target.welcomed("garbage") as sender:
        sender.send(number=9, heartbeat={})
        if sender.wait_end()[0] is not grpc.StatusCode.DATA_LOSS:
            raise Fault(Outcome.ACCEPTED, str(sender.ended))


def _silent_probe(target: Target) -> None:
    with ExitStack() as opened:
        for said in (b"", b"GET /heal", b"GET /metrics HTTP/1.1\r\nHost: x\r\n") * 20:
            opened.enter_context(closing(_connection(target.metrics_port, said)))
        target.answers()


def _connections(said: bytes) -> Any:
    def tried(target: Target) -> None:
        """Amid them the sender that was there before is received, and the log is written: in the same term as before."""
        with target.welcomed("steady") as sender, ExitStack() as opened:
            steady = Steady(target, sender)
            steady.written()
            before = target.process.await_status(bool, timeout_s=ANSWER_S)
            for port in target.ports:
                for _ in range(DESCRIPTORS):
                    opened.enter_context(closing(_connection(port, said)))
            steady.written()
            opened.close()
            after = target.process.await_status(bool, timeout_s=START_S)
        if (after["epoch"], after["last_error"]) != (before["epoch"], before["last_error"]):
            raise Fault(Outcome.FOREIGN, f"the term ended: {after['last_error']}")
        target.welcomed("after-connections").kill()

    return tried


class Steady:
    """A sender of all that is wanted, which has nothing but marks to send."""

    def __init__(self, target: Target, sender: RawSender) -> None:
        self._folder, self._sender, self._ts = target.process.config.parent / "log", sender, 0
        wanted = sender.wanted()
        for span, one in enumerate(wanted, 1):
            sender.open(span, one)
        until_s = monotonic() + END_S
        while len(sender.of_kind("opened")) < len(wanted):
            if monotonic() > until_s:
                raise Fault(Outcome.HANG, "spans do not open")
            sleep(0.01)

    def written(self) -> None:
        """Marks, until a segment more is in the log."""
        before, until_s = self._segments(), monotonic() + END_S
        while self._segments() == before:
            if monotonic() > until_s or self._sender.ended:
                raise Fault(Outcome.HANG, f"no segment is written: {self._sender.ended}")
            opened = self._sender.of_kind("opened")
            self._ts = max(self._ts, *(reported.from_ts for reported in opened)) + (MARK_MS << 18)
            self._sender.send(resolved=pb.Resolved(spans=[pb.SpanResolved(span=reported.span, ts=self._ts) for reported in opened]))
            sleep(MARK_MS / 1000)

    def _segments(self) -> int:
        return sum(name.endswith(".json") for name in os.listdir(self._folder))


def _connection(port: int, said: bytes) -> socket.socket:
    made = socket.socket()
    made.settimeout(2.0)
    try:
        made.connect(("127.0.0.1", port))
        made.sendall(said)
    except OSError:
        pass  # sent away
    return made


def _broken_sender(target: Target) -> Outcome:
    with target.welcomed("broken-1") as sender:
        sender.open(1, sender.wanted()[0])
        sender.entries(1, sent(b"elsewhere", (1 << 63) + 1))
        until_s = monotonic() + END_S
        while target.process.ended() is None:
            if monotonic() > until_s:
                raise Fault(Outcome.ACCEPTED, "it continues")
            sleep(0.05)
    said = target.process.log.read_text()
    if target.process.ended() != 3 or "broken-1" not in said.splitlines()[-2] + said.splitlines()[-1]:
        raise Fault(Outcome.FOREIGN, f"exit code {target.process.ended()}: {said[-500:]}")
    if "Traceback" in said or TOKEN in said:
        raise Fault(Outcome.LEAK if TOKEN in said else Outcome.FOREIGN, said[-2000:])
    return Outcome.REFUSED


def _stopped(target: Target) -> Outcome:
    target.process.start()
    target.answers(within_s=START_S)
    with ExitStack() as opened:
        for port in target.ports * 20:
            opened.enter_context(closing(_connection(port, b"")))
        opened.enter_context(target.sender())
        if (code := target.process.stop(timeout_s=END_S)) != 0:
            raise Fault(Outcome.FOREIGN, f"exit code {code}: {target.process.log.read_text()[-500:]}")
    return Outcome.HARMLESS


def put_changefeed(etcd: Etcd, played: Recording, *, sink_uri: str = "blackhole://") -> None:
    info = changefeed.info(
        ID,
        sink_uri=sink_uri,
        start_ts=played.start_ts,
        created=datetime.fromtimestamp(ms_of_tso(played.start_ts) / 1000, UTC),
        filter_rules=("shop.*", f"{MARK_TABLE.schema}.*"),
        dispatchers=(),
        protocol="",
    )
    etcd.put(changefeed.info_key(ID), info)
    etcd.put(changefeed.status_key(ID), changefeed.status(played.start_ts))


def _settings(folder: Path, etcd: Etcd, source: SourceSection, ports: Sequence[int]) -> Path:
    token_file = folder / "token"
    token_file.write_text(TOKEN)
    token_file.chmod(0o600)
    path = folder / "sidecar.toml"
    path.write_text(f"""
sinks = ["file://{folder}/output?format=jsonl"]
feed = "push"
changefeed.id = "{ID}"
etcd = {{ endpoints = {json.dumps(etcd.endpoints)}, lease_s = 10 }}
push = {{ listen = "127.0.0.1:{ports[0]}", token_file = "{token_file}", silent_max_s = 3600.0 }}
log.uri = "file://{folder}/log"
spark.managed = false
control.listen = "127.0.0.1:{ports[1]}"
metrics.listen = "127.0.0.1:{ports[2]}"

[source]
host = "{source.host}"
port = {source.port}
status_port = {source.status_port}
user = "{source.user}"
""")
    return path


AREA = Area("push, a whole process", 12, opened, whole=True)
