"""What a deployment costs, as it was measured: one table of costs, and one of sinks. Each has its unit and the page with the measurement.

What was not measured says so. Costs of a row are of ROW_BYTES, on MEASURED_CORES.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
ROW_BYTES = 200
"""Of the rows that the costs were measured with."""
MEASURED_CORES = 2
"""Of the machine that they were measured on."""
MEASURED_WRITES, MEASURED_TABLES = 5_000, 100
"""Changes a second, and tables that change in one segment: up to here live costs were measured."""

BULK_ROWS = 256
"""Of a table in one segment: more are written by columns, which costs less than one by one."""


class Basis(StrEnum):
    """What a figure is made of. One that has a part which is an estimate is an estimate."""

    MEASURED = "measured"
    ESTIMATE = "estimate"


@dataclass(frozen=True, slots=True)
class UnitCost:
    value: float
    unit: str
    source: str
    basis: Basis = Basis.MEASURED


BENCH = "2026-11-28, tests/tools/bench/sizes.py"
COSTS: Mapping[str, UnitCost] = {
    "processes": UnitCost(0.09, "cores", "2026-11-29, deploy/PERFORMANCE.md, less what follows"),
    "segments": UnitCost(5, "segments/s", "the rig's resolved marks, deploy/PERFORMANCE.md: TiCDC's own may come less often"),
    "segment": UnitCost(8.9, "ms a segment", BENCH),
    "change": UnitCost(9, "µs a change", BENCH),
    "read by SELECT": UnitCost(1.0, "µs a dump row", "deploy/KV.md"),
    "read from TiKV": UnitCost(2.6, "µs a dump row", "deploy/KV.md"),
    "source": UnitCost(1.3, "µs a dump row", "2026-11-29, deploy/PERFORMANCE.md: MariaDB"),
    "reading": UnitCost(430_000, "rows/s of two readers", "deploy/KV.md"),
    "chunk": UnitCost(236 / 1_000_000 * 10_000, "SELECTs for each full chunk", "2026-11-29, deploy/PERFORMANCE.md"),
    "message": UnitCost(1.4, "bytes for each byte of a row", "give --message-bytes", Basis.ESTIMATE),
    "process": UnitCost(1_500 * MIB, "bytes: Python, schemas, decoded rows", "deploy/SIZING.md", Basis.ESTIMATE),
    "another sink": UnitCost(128 * MIB, "bytes", "a segment and its rows of a table, deploy/SIZING.md", Basis.ESTIMATE),
    "large row, sink": UnitCost(20, "times its bytes for each sink", "deploy/SIZING.md", Basis.ESTIMATE),
    "large row, reader": UnitCost(8, "times its bytes for each reader", "deploy/SIZING.md", Basis.ESTIMATE),
    "reader": UnitCost(96 * MIB, "bytes: three chunks of 32 MiB", "deploy/SIZING.md", Basis.ESTIMATE),
    "keeper": UnitCost(50 * MIB, "bytes", "deploy/SIZING.md"),
    "log": UnitCost(60, "seconds of changes in the log", "deploy/SIZING.md: seconds to minutes", Basis.ESTIMATE),
    "etcd tables": UnitCost(8, "tables a key", "deploy/STATE.md"),
    "etcd key": UnitCost(700, "bytes a key", "deploy/STATE.md"),
    "etcd history": UnitCost(500, "bytes for each of 1,000 entries", "deploy/STATE.md"),
    "delivered p50": UnitCost(0.09, "s", "2026-11-29, deploy/PERFORMANCE.md"),
    "delivered p99": UnitCost(0.15, "s", "2026-11-29, deploy/PERFORMANCE.md"),
}
"""What everything else is made of. Bytes are of memory, of the log or of etcd."""


@dataclass(frozen=True, slots=True)
class SinkCost:
    """`part_ms`: for each changing table in a segment. `change_us`: for each change; `bulk_us`, where a part has more than BULK_ROWS, or
    is the only one. `rows_a_s`: of a dump alone, and `beside_a_s` beside 500 writes a second, on MEASURED_CORES. `commit_s`,
    `commit_cpu_s`: of a lake's table; `at_once`: tables that it commits at a time."""

    batch_ms: float
    part_ms: float
    change_us: float
    bulk_us: float
    row_us: float
    rows_a_s: int
    beside_a_s: int
    source: str
    live: Basis = Basis.MEASURED
    dump: Basis = Basis.MEASURED
    commit_s: float = 0.0
    commit_cpu_s: float = 0.0
    at_once: int = 1


_PAGE, _PAGE_NEW = "2026-11-23, deploy/PERFORMANCE.md", "2026-11-28, deploy/PERFORMANCE.md"
_PEERS = "2026-11-29, deploy/PERFORMANCE.md"
_OURS = "2026-11-28, tests/tools/bench/sinks.py, beside other programs"
_FEW = "as the sinks beside it, not measured"
SINKS: Mapping[str, SinkCost] = {
    "kafka": SinkCost(5, 0.29, 80, 40, 10.5, 60_700, 47_300, _PEERS, live=Basis.ESTIMATE),
    "mysql": SinkCost(8, 0.4, 110, 60, 19.4, 39_300, 19_900, _PAGE_NEW, live=Basis.ESTIMATE),
    "file:jsonl": SinkCost(3, 0.83, 75, 40, 8.4, 58_000, 29_000, _OURS, dump=Basis.ESTIMATE),
    "file:parquet": SinkCost(9.3, 1.4, 38, 12, 3.1, 255_000, 186_000, _PEERS),
    "file:csv": SinkCost(3, 0.83, 75, 40, 12.8, 142_000, 39_700, _PAGE, live=Basis.ESTIMATE),
    "delta": SinkCost(2, 0, 20, 12, 4.8, 390_000, 41_300, _PAGE, live=Basis.ESTIMATE, commit_s=0.07, commit_cpu_s=0.02, at_once=8),
    "iceberg": SinkCost(2, 0, 20, 12, 5.3, 348_000, 38_200, _PAGE, live=Basis.ESTIMATE, commit_s=0.085, commit_cpu_s=0.07),
    "clickhouse": SinkCost(8, 1.4, 20, 12, 6.5, 283_000, 31_800, _PAGE_NEW, live=Basis.ESTIMATE),
    "opensearch": SinkCost(5, 0.83, 150, 115, 115, 15_500, 5_960, _PAGE, live=Basis.ESTIMATE),
    "http": SinkCost(3, 0.83, 75, 40, 24.1, 39_900, 20_100, _PAGE, live=Basis.ESTIMATE),
    "grpc": SinkCost(5, 0.16, 80, 40, 10.2, 82_900, 7_800, _OURS),
    "sqlite": SinkCost(8, 0.2, 220, 55, 10, 50_000, 12_000, _OURS, dump=Basis.ESTIMATE),
}
"""By the name that `size` has for them; lakes are of `mode=append`."""

ALIASES = {"tidb": "mysql", "elasticsearch": "opensearch", "https": "http", "file:canal-json": "file:csv"}
