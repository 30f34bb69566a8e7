"""What is done to each system, and the figures that come of it. The same order for all:

    new rig, table filled, server at rest ─► system starts ─► writes begin ─► first row arrived, warm-up ─► LIVE
      ─► the dump is asked for, writes go on ─► DUMP BESIDE WRITES, its first batches included ─► writes end, all arrived
      ─► rest ─► another dump ─► DUMP ALONE ─► every process is killed ─► what arrived when is read, and counted

Figures are by name; report.py says what each is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.tools.bench.figures import percentile
from tests.tools.peers import big
from tests.tools.peers.arrivals import Arrivals, Writes, dumped_at_ns, latencies_s
from tests.tools.peers.meter import Meter
from tests.tools.peers.mydumper import Mydumper
from tests.tools.peers.system import System, await_true
from tests.tools.peers.writes import WriterProcess, WriteSettings
from tests.tools.rig.rig import Rig

FIRST_S_MAX = 120.0
ARRIVED_S_MAX = 300.0
DUMP_S_MAX = 1800.0
REST_S = 3.0
"""Between two phases: what the one left behind is done."""
CHECK_EVERY_S = 1.0

Run = dict[str, float]


@dataclass(frozen=True, slots=True)
class Sizes:
    rows: int = 1_000_000
    writes_per_s: float = 500.0
    sessions: int = 2
    warm_up_s: float = 60.0
    """Until a JVM that has just started is as fast as it gets: at 10 s its first reads are in the figures."""
    live_s: float = 25.0

    def quick(self) -> Sizes:
        """A tenth of the rows: shows that it works, not how fast."""
        return Sizes(self.rows // 10, self.writes_per_s, self.sessions, warm_up_s=3.0, live_s=5.0)


@dataclass(frozen=True, slots=True)
class Phases:
    """Moments, ns. The dump alone began at `alone_ns`."""

    live_ns: int
    dump_ns: int
    alone_ns: int


@contextmanager
def filled_rig(
    folder: Path, sizes: Sizes, *, protocol: str, published: bool, mark_every_s: float = 0.2, ways_s: tuple[float, ...] = ()
) -> Iterator[Rig]:
    """`published`: with the changefeed; else its publisher is stopped, as nothing reads it. `mark_every_s`: between resolved marks."""
    rules = (big.NAME, "changefeed_dump.*")
    made = {"protocol": protocol, "filter_rules": rules, "initial_rows": 0, "statements": big.statements(sizes.rows)}
    with Rig(folder, mark_every_s=mark_every_s, ways_s=ways_s, **made) as rig:
        if not published:
            rig.pause()
        big.settle(rig.db)
        yield rig


def measure(rig: Rig, system: System, sizes: Sizes) -> Run:
    with Meter() as meter:
        _watch(meter, rig)
        with system:
            meter.watch("system", system.pid)
            phases, writes = _beside_writes(rig, system, sizes)
            time.sleep(REST_S)  # a phase, not a wait
            requested = big.queries(rig.db)
            alone_ns = _dump(rig, system)
            answered = big.queries(rig.db).since(requested)
            meter.sample()
        arrivals = system.arrivals()
    result = figures(Phases(*phases, alone_ns), writes, arrivals, meter, rows=sizes.rows)
    return result | {"selects": float(answered.selects), "statements": float(answered.questions)}


def _beside_writes(rig: Rig, system: System, sizes: Sizes) -> tuple[tuple[int, int], Writes]:
    settings = WriteSettings(rig.source, sizes.rows, sizes.writes_per_s, sizes.sessions, first_number=1)
    with WriterProcess(rig.folder / "writes", settings) as writer:
        await_true("the first write is delivered", system.has_live, timeout_s=FIRST_S_MAX)
        _pass(sizes.warm_up_s, writer)
        live_ns = time.time_ns()
        _pass(sizes.live_s, writer)
        dump_ns = _dump(rig, system)
        writes = writer.stop()
    await_true("all writes are delivered", lambda: system.has_all(writes), timeout_s=ARRIVED_S_MAX)
    return (live_ns, dump_ns), writes


def _dump(rig: Rig, system: System) -> int:
    """When it was asked for, ns. Returns when it is there."""
    requested_ns = time.time_ns()
    system.ask_dump()
    await_true("the dump is delivered", lambda: system.is_dumped(requested_ns=requested_ns), timeout_s=DUMP_S_MAX)
    return requested_ns


def _pass(seconds: float, writer: WriterProcess) -> None:
    until_s = time.monotonic() + seconds
    while (left_s := until_s - time.monotonic()) > 0:
        writer.check()
        time.sleep(min(left_s, CHECK_EVERY_S))  # a phase has its length


def _watch(meter: Meter, rig: Rig) -> None:
    meter.watch("source", rig.db.pid)
    if rig.publisher.is_running():
        meter.watch("publisher", rig.publisher.pid)


def figures(phases: Phases, writes: Writes, arrivals: Arrivals, meter: Meter, *, rows: int) -> Run:
    """Raises ValueError where rows are missing: a system that loses some has no figures."""
    live_ns, dump_ns, alone_ns = phases.live_ns, phases.dump_ns, phases.alone_ns
    beside_done_ns = dumped_at_ns(_until(arrivals, alone_ns), requested_ns=dump_ns, rows=rows)
    alone_done_ns = dumped_at_ns(arrivals, requested_ns=alone_ns, rows=rows)
    before = latencies_s(writes, arrivals, from_ns=live_ns, until_ns=dump_ns)
    during = latencies_s(writes, arrivals, from_ns=dump_ns, until_ns=beside_done_ns)
    beside_s, alone_s = (beside_done_ns - dump_ns) / 1e9, (alone_done_ns - alone_ns) / 1e9
    result = {
        "writes_per_s": len(before) / ((dump_ns - live_ns) / 1e9),
        "live_cores": meter.cores("system", live_ns, dump_ns),
        "live_p50_s": percentile(before, 0.5),
        "live_p99_s": percentile(before, 0.99),
        "dump_p50_s": percentile(during, 0.5),
        "dump_p99_s": percentile(during, 0.99),
        "dump_cores": meter.cores("system", dump_ns, beside_done_ns),
        "dump_writes_per_s": len(during) / beside_s,
        "beside_s": beside_s,
        "beside_rows_per_s": rows / beside_s,
        "alone_s": alone_s,
        "alone_rows_per_s": rows / alone_s,
        "cpu_us_a_row": meter.cpu_s("system", alone_ns, alone_done_ns) / rows * 1e6,
        "source_cpu_us_a_row": meter.cpu_s("source", alone_ns, alone_done_ns) / rows * 1e6,
        "others_cores": meter.cores_of_others(live_ns, alone_done_ns),
    }
    if meter.knows("publisher"):
        result["publisher_cores"] = meter.cores("publisher", live_ns, dump_ns)
    return result


def _until(arrivals: Arrivals, until_ns: int) -> Arrivals:
    kept = arrivals.at_ns < until_ns
    return Arrivals(arrivals.at_ns[kept], arrivals.ids[kept], arrivals.touched[kept], arrivals.dumped[kept])


def measure_mydumper(rig: Rig, sizes: Sizes, *, threads: int) -> Run:
    """Beside the writes, then alone. It has no live stream."""
    settings = WriteSettings(rig.source, sizes.rows, sizes.writes_per_s, sizes.sessions, first_number=1)
    with Meter() as meter:
        _watch(meter, rig)
        with WriterProcess(rig.folder / "writes", settings) as writer:
            _pass(sizes.warm_up_s, writer)
            beside = _mydumper(rig, sizes.rows, threads, "beside")
            writer.stop()
        time.sleep(REST_S)  # a phase, not a wait
        requested = big.queries(rig.db)
        alone = _mydumper(rig, sizes.rows, threads, "alone")
        answered = big.queries(rig.db).since(requested)
        meter.sample()
    return {
        "beside_s": beside.seconds,
        "beside_rows_per_s": sizes.rows / beside.seconds,
        "alone_s": alone.seconds,
        "alone_rows_per_s": sizes.rows / alone.seconds,
        "cpu_us_a_row": alone.cpu_s / sizes.rows * 1e6,
        "source_cpu_us_a_row": meter.cpu_s("source", alone.began_ns, alone.ended_ns) / sizes.rows * 1e6,
        "others_cores": meter.cores_of_others(beside.began_ns, alone.ended_ns),
        "selects": float(answered.selects),
        "statements": float(answered.questions),
    }


@dataclass(frozen=True, slots=True)
class _Dumped:
    began_ns: int
    ended_ns: int
    cpu_s: float

    @property
    def seconds(self) -> float:
        return (self.ended_ns - self.began_ns) / 1e9


def _mydumper(rig: Rig, rows: int, threads: int, name: str) -> _Dumped:
    began_ns = time.time_ns()
    with Mydumper(rig.source, rig.folder / f"mydumper-{name}", threads=threads, rows=rows) as dump:
        cpu_s = dump.wait()
    return _Dumped(began_ns, time.time_ns(), cpu_s)
