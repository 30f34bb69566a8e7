"""What the console costs the process that has it: cores with no page open and with one, and the time until the process answers.

python -m tests.tools.bench.console_cost none | console      a process with a control service and a status that changes each second;
                                                       it prints its port when it answers, and for each line of input its CPU seconds
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.client import HTTPConnection, IncompleteRead
from pathlib import Path
from threading import Thread

from sidecar.console.listening import ConsoleServer
from sidecar.control.local_call import LocalCall
from sidecar.control.security import serve
from sidecar.control.service import ControlService
from sidecar.control.status import SidecarStatus
from sidecar.pace.controller import SinkState
from sidecar.report.chunks import Chunks
from sidecar.run.console import begin_console
from sidecar.run.ddls import SeenDdls
from sidecar.run.logs import set_up
from sidecar.run.samples import EVERY_S, MeasuredTerms, Samples
from sidecar.shared.config import (
    ChangefeedSection,
    Config,
    ConsoleSection,
    ControlSection,
    EtcdSection,
    LoggingSection,
    LogSection,
    SourceSection,
)
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.progress import DumpState, Progress, Span, TableProgress
from sidecar.shared.model.sink_delivery import SinkTables
from tests.tools.bench.bench import Bench
from tests.tools.bench.figures import Figure
from tests.unit.control.serving import Owner
from tests.unit.report.made import chunk_line
from ticdc_dump.v1 import control_pb2 as pb

WATCHED_S = 30
SETTLED_S = 10.0
"""After which the web libraries are loaded and the first page is sent."""
STARTS = 5
TABLES, DUMP = 1_000, "3f9c1a7e52b04d68"
CHUNKS = 60
SINKS = ("mysql://replica:3306/", "kafka://events:9092/shop")
RATE_LIMIT = f"making the page of {TABLES:,} tables; a stream waits 50 times as long"


def measure(bench: Bench) -> Iterator[Figure]:
    watched_s = bench.sized(WATCHED_S)
    none, idle = _cores("none", watched_s), _cores("console", watched_s)
    yield Figure(
        "a console with no page open",
        max(idle - none, 1e-6),
        "cores",
        "0",
        "four polls of its socket a second",
        reference=_ref(none),
    )
    for page in ("stream", "dump"):
        cores = _cores("console", watched_s, page)
        yield Figure(f"a console with one open page: {page}", cores - none, "cores", "≤ 0.02", RATE_LIMIT, reference=_ref(none))
    starts = bench.sized(STARTS)
    bare_s, with_s = (min(_start_s(kind) for _ in range(starts)) for kind in ("none", "console"))
    limit = "the modules that bind its address"
    yield Figure(
        "answering after the start, with a console", with_s, "s", "", limit, reference=f"without {bare_s:.2f} s", ratio=bare_s / with_s
    )


def _ref(cores: float) -> str:
    return f"without a console {cores:.4f} cores"


def _start_s(kind: str) -> float:
    began_s = time.perf_counter()
    with _process(kind):
        return time.perf_counter() - began_s


def _cores(kind: str, watched_s: float, page: str = "") -> float:
    with _process(kind) as (process, port):
        if page:
            Thread(target=_read, args=(port, f"/live/{page}"), daemon=True).start()
        time.sleep(SETTLED_S)
        first = _cpu_s(process)
        time.sleep(watched_s)
        return (_cpu_s(process) - first) / watched_s


def _read(port: int, path: str) -> None:
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("GET", path)
    answer = connection.getresponse()
    assert answer.status == 200
    with suppress(IncompleteRead):  # the process has ended
        while answer.read1(1 << 16):
            pass


def _cpu_s(process: subprocess.Popen[str]) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return float(process.stdout.readline())


@contextmanager
def _process(kind: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Once it answers."""
    process = subprocess.Popen([sys.executable, "-m", __name__, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


# ---- the process -----------------------------------------------------------------------------------------------------


def _status() -> SidecarStatus:
    """Of a dump under way and two sinks."""
    names = tuple(TableName("shop", f"table_{number:04}") for number in range(TABLES))
    tables = tuple(TableProgress(name, (Span(),), 3, 30_000, 2_800_000) for name in names)
    progress = Progress(DUMP, DumpState.RUNNING, Brackets.WATERMARK, 10_000, 3, 1, Seq(5), tuple(tables))
    status = Owner(progress).status
    assert status is not None
    complete = dict.fromkeys(names[::2], CommitTs(470000000000000000))
    return replace(
        status,
        sinks=tuple(SinkState(name, 0.4, 0.5, 0.2, 75_000, False, limit_s=0.5) for name in SINKS),
        carried=names,
        sink_tables={name: SinkTables(name, name, Seq(3), None, Seq(5), None, complete) for name in SINKS},
    )


def _serve(kind: str) -> None:
    base = _status()

    def status() -> SidecarStatus:
        return replace(base, changes=int(time.time()), rows_per_s=time.time() % 1000)

    service = ControlService(Owner().served(status=status))
    serve(service, ControlSection(listen="127.0.0.1:0"))
    measured = MeasuredTerms(Samples(), Chunks(CHUNKS, first=False), SeenDdls())
    port = _console(service, measured).port if kind == "console" else 0
    service.Query(pb.DumpRequest(changefeed=pb.Changefeed(id="cf")), LocalCall("", "here"))
    print(port, flush=True)  # noqa: T201  # for the process that measures
    _measure_an_hour(measured, base)
    for _ in sys.stdin:
        print(time.process_time(), flush=True)  # noqa: T201  # the same


def _console(service: ControlService, measured: MeasuredTerms) -> ConsoleServer:
    """As `ticdc-dump run` has it."""
    set_up(LoggingSection(level="warning"))
    config = Config(
        changefeed=ChangefeedSection(id="cf"),
        etcd=EtcdSection(endpoints=("127.0.0.1:2379",)),
        source=SourceSection(host="db", user="root"),
        log=LogSection(uri="/nowhere"),
        sinks=SINKS,
        console=ConsoleSection(listen="127.0.0.1:0"),
    )
    server = begin_console(config, Path("sidecar.toml"), service, measured, lambda: "")
    assert server is not None
    return server


def _measure_an_hour(measured: MeasuredTerms, base: SidecarStatus) -> None:
    now_ms, name = int(time.time() * 1000), TableName("shop", "table_0001")
    for at_ms in range(now_ms - 3_600_000, now_ms, int(EVERY_S * 1000)):
        measured.see(replace(base, changes=at_ms), at_ms)
    measured.chunks.add(DUMP, (chunk_line(at, name, rows=10_000, begins_ms=now_ms + at, lasts_ms=900) for at in range(CHUNKS)))


if __name__ == "__main__":
    _serve(sys.argv[1])
