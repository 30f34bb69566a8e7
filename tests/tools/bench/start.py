"""What a sidecar that has just started costs, on the rig with Kafka and etcd: seconds from `run` to its first live row in a file, what
the process trees of sidecar and worker hold while nothing but a change now and then comes, and how soon a dump's first row follows then.

The memory is PSS: a page that several processes share counts once (proc(5), smaps_rollup).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event

from sidecar.shared.log.delivery_report import DELIVERED_NAME, DeliveryReport, report_from_json
from sidecar.shared.process.background import Background
from tests.support.eventually import eventually
from tests.tools.bench.bench import Bench
from tests.tools.bench.figures import Figure, tree_of
from tests.tools.rig.rig import Rig
from tests.tools.rig.sidecar_process import SidecarProcess
from tests.tools.rig.tables import SCHEMA
from tests.tools.rig.workload import connect

TIMES = 3
WRITE_EVERY_S = 0.1
IDLE_S = 60.0
DUMP_ROWS = 500
WITHIN_S = 600.0


@dataclass(frozen=True, slots=True)
class Start:
    """`live_s`: from `run` to the report of the first delivered row. `dump_s`: from the request to the sink's first dump row.
    `idle_bytes`: PSS of both trees after IDLE_S."""

    live_s: float
    dump_s: float
    idle_bytes: int
    processes: tuple[str, ...]


def measure(bench: Bench) -> Iterator[Figure]:
    starts = starts_of(bench.new_folder("start"), times=1 if bench.quick else TIMES, idle_s=bench.sized(int(IDLE_S)))
    limit = "the machine's cores"
    yield Figure("first live row after `run`", min(one.live_s for one in starts), "s", "≤ 3", limit)
    yield Figure("idle sidecar and worker", min(one.idle_bytes for one in starts) / (1 << 20), "MB PSS", "≤ 350", "what is loaded")
    yield Figure("first dump row after `dumpstart`, idle before", min(one.dump_s for one in starts), "s", "as with a JVM", limit)


def starts_of(folder: Path, *, times: int, idle_s: float) -> list[Start]:
    with Rig(folder / "rig", initial_rows=DUMP_ROWS) as rig:
        writing = Background(partial(_write, rig), name="writes")
        try:
            return [_started(rig, folder / str(number), idle_s) for number in range(times)]
        finally:
            writing.close()
            writing.check()


def _write(rig: Rig, closing: Event) -> None:
    connection = connect(rig.source)
    with connection.cursor() as cursor:
        while not closing.wait(WRITE_EVERY_S):
            cursor.execute(f"update {SCHEMA}.account set version = version + 1 order by id limit 1")


def _started(rig: Rig, folder: Path, idle_s: float) -> Start:
    folder.mkdir()
    log = folder / "log"
    config = rig.sidecar_config(sinks=[f"file://{folder}/output?format=jsonl"], log=f"file://{log}")
    began_s = time.monotonic()
    with SidecarProcess(config, folder / "sidecar.log") as sidecar:
        eventually(lambda: (report := _report(log)) is not None and sum(report.rows.values()) > 0, within_s=WITHIN_S)
        live_s = time.monotonic() - began_s
        time.sleep(idle_s)  # until it is idle, whatever happens
        held = held_by(sidecar.pid)
        requested_ms = time.time() * 1000
        sidecar.ask("dumpstart")
        dumped_ms = eventually(lambda: _dumped_ms(log), within_s=WITHIN_S)
        sidecar.stop()
    shown = tuple(f"{name} {size >> 20}" for name, size in held)
    return Start(live_s, (dumped_ms - requested_ms) / 1000, sum(size for _, size in held), shown)


def _report(log: Path) -> DeliveryReport | None:
    with suppress(FileNotFoundError, ValueError):
        return report_from_json((log / DELIVERED_NAME).read_bytes())
    return None


def _dumped_ms(log: Path) -> int:
    report = _report(log)
    batches = report.sinks[0].batches if report is not None and report.sinks else ()
    return next((batch.accepted_ms for batch in batches if batch.dump_rows), 0)


def held_by(pid: int) -> list[tuple[str, int]]:
    """Each process of its tree with the bytes that it holds (PSS)."""
    held = []
    for one in tree_of(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            words = (Path("/proc") / str(one) / "cmdline").read_bytes().split(b"\0")
            rollup = (Path("/proc") / str(one) / "smaps_rollup").read_text()
            kilobytes = next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
            held.append((b" ".join(words[:5]).decode()[-60:], kilobytes << 10))
    return held
