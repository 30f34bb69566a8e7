"""A default dump beside writes where Spark's jobs take long, marks take long to come back from TiCDC, or others want the cores.

The whole product on the rig: MariaDB, Kafka, etcd, `ticdc-dump run`, Parquet on the local disk. Resolved marks come once a second, as
TiCDC's do. Each figure has the live delivery of the same run beside it: from the moment before the UPDATE to the file that has its row,
the way through TiCDC with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.tools.bench.bench import Bench
from tests.tools.bench.figures import Figure
from tests.tools.peers.measure import Sizes, filled_rig, measure
from tests.tools.peers.ours import Ours
from tests.tools.rig.load import busy_loops

ROWS = 300_000
MARK_EVERY_S = 1.0
AIM = "half of a dump without a bound, or live p99 within the bound"


class Variant(NamedTuple):
    """`job_s`: by how much each job of Spark takes longer. `loops`: processes that want a core each. `bound_s`: None for the default.
    `mark_every_s`: between resolved marks; `ways_s`: how long each change takes through TiCDC (tests/tools/rig/way.py)."""

    name: str
    job_s: float
    loops: int
    bound_s: float | None = None
    mark_every_s: float = MARK_EVERY_S
    ways_s: tuple[float, ...] = ()


TRIPS = (
    Variant("marks 0.3 s on their way", 0.0, 0, mark_every_s=0.2, ways_s=(0.1,)),
    *(Variant(f"marks {trip_s:g} s on their way", 0.0, 0, mark_every_s=0.2, ways_s=(trip_s - 0.2,)) for trip_s in (1.0, 5.0, 20.0)),
    Variant("marks 5 s on their way, no bound", 0.0, 0, bound_s=3600.0, mark_every_s=0.2, ways_s=(4.8,)),
    Variant("marks 1 to 10 s on their way", 0.0, 0, ways_s=(1.0, 5.0, 10.0, 2.0)),
    Variant("resolved marks every 5 s", 0.0, 0, mark_every_s=5.0),
)
VARIANTS = (
    Variant("as it is", 0.0, 0),
    Variant("as it is, no bound", 0.0, 0, bound_s=3600.0),
    Variant("Spark's jobs 0.3 s longer", 0.3, 0),
    Variant("Spark's jobs 0.5 s longer", 0.5, 0),
    Variant("Spark's jobs 1 s longer", 1.0, 0),
    Variant("Spark's jobs 3 s longer", 3.0, 0),
    Variant("one busy loop", 0.0, 1),
    Variant("two busy loops", 0.0, 2),
    Variant("four busy loops", 0.0, 4),
    Variant("four busy loops, marks 5 s on their way", 0.0, 4, ways_s=(4.5,)),
)


def measure_variant(bench: Bench, variant: Variant) -> Figure:
    sizes = Sizes(rows=bench.sized(ROWS), warm_up_s=5.0, live_s=5.0 if bench.quick else 10.0)
    folder = bench.new_folder("slow-spark")
    with (
        filled_rig(
            folder, sizes, protocol="open-protocol", published=True, mark_every_s=variant.mark_every_s, ways_s=variant.ways_s
        ) as rig,
        busy_loops(variant.loops),
    ):
        result = measure(rig, Ours(rig, bound_s=variant.bound_s, slow_job_s=variant.job_s), sizes)
    return Figure(
        f"default dump of {sizes.rows:,} rows, resolved marks every {variant.mark_every_s:g} s, {variant.name}",
        result["beside_rows_per_s"],
        "rows/s",
        AIM,
        "the machine's cores",
        cpu_us=result["cpu_us_a_row"],
        reference=f"live p50 {result['dump_p50_s']:.2f}, p99 {result['dump_p99_s']:.2f} s; without a dump {result['live_p50_s']:.2f},"
        f" {result['live_p99_s']:.2f} s; nobody writing {result['alone_rows_per_s']:,.0f} rows/s",
    )


def measure_all(bench: Bench) -> Iterator[Figure]:
    for variant in VARIANTS:
        yield measure_variant(bench, variant)


def measure_trips(bench: Bench) -> Iterator[Figure]:
    for variant in TRIPS:
        yield measure_variant(bench, variant)
