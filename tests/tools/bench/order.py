"""The sidecar's own part of the line: message bytes to envelopes to commit-ts order, and on into the segment log.

One thread, as in the sidecar. Generating the messages is not timed.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from sidecar.core.sequence import Sequence
from sidecar.pipeline import PipelineLimits
from sidecar.shared.codecs.contract import Codec
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.model.nouns import CommitTs
from tests.tools.bench.bench import Bench
from tests.tools.bench.feed import PROTOCOLS, Batch, Shape, batches, codec_of, schemas
from tests.tools.bench.figures import REPEATS, Cost, Figure, beside, best, rate, timed
from tests.tools.bench.log import LogWriter

ROWS = 300_000
MANY_LANES, MANY_TABLES = 100, 10_000


def measure(bench: Bench) -> Iterator[Figure]:
    """Envelopes and sequence, with and without the log, of both protocols; then many lanes and tables."""
    for protocol in PROTOCOLS:
        shape = Shape(protocol, bench.sized(ROWS))
        yield from _figures(shape, bench)
        many = best(lambda shape=shape: ordered(replace(shape, lanes=MANY_LANES, tables=MANY_TABLES)).cost)  # type: ignore[misc]
        few = best(lambda shape=shape: ordered(shape).cost)  # type: ignore[misc]
        yield Figure(
            f"{protocol}: {MANY_LANES} lanes, {MANY_TABLES:,} tables",
            many.cpu_s / few.cpu_s,
            "× the CPU of 3 lanes, 1 table",
            aim="≤ 1.33",
            limit="open-protocol messages hold fewer rows" if protocol == "open-protocol" else "nothing grows with lanes but R's min",
            cpu_us=many.cpu_s / shape.rows * 1e6,
        )


@dataclass(slots=True)
class Run:
    """What one pass over a feed took, and what the same rows took json.loads."""

    cost: Cost
    reference: Cost
    bytes: int = 0


def ordered(shape: Shape, *, log: Path | None = None, reference: bool = False) -> Run:
    """All rows through codec and sequence, and to the log in the folder `log` if one is given."""
    run, codec = Run(Cost(), Cost()), codec_of(shape.protocol)
    sequence = Sequence(codec.identity, MemorySpill(), CommitTs(0), PipelineLimits().held_bytes_max)
    writer = None if log is None else LogWriter(log, codec=codec.name, schemas=schemas())
    lanes = frozenset(shape.lane_names())
    for batch in batches(shape):
        run.bytes += batch.bytes
        if reference:
            with timed(run.reference):
                for row_json in batch.row_jsons:
                    json.loads(row_json)
        with timed(run.cost):
            _take(sequence, codec, batch)
            upto_ts = sequence.upto(lanes)
            assert upto_ts is not None
            for segment in sequence.release(upto_ts, even_if_empty=False):
                if writer is None:
                    deque(segment.changes, maxlen=0)
                else:
                    writer.write(segment)
    assert not sequence.held_bytes, "the last resolved marks release everything"
    assert not sequence.repeats, "no row is a repeat"
    return run


def _take(sequence: Sequence, codec: Codec, batch: Batch) -> None:
    envelopes, accept = codec.envelopes, sequence.accept
    for message in batch.messages:
        accept(message.lane, message.position, envelopes(message))


def _figures(shape: Shape, bench: Bench) -> Iterator[Figure]:
    runs = [ordered(shape, reference=True) for _ in range(REPEATS)]
    cost = Cost(min(run.cost.wall_s for run in runs), min(run.cost.cpu_s for run in runs))
    loads = Cost(min(run.reference.wall_s for run in runs), min(run.reference.cpu_s for run in runs))
    name = f"{shape.protocol}: envelopes, sequence"
    plain = rate(name, shape.rows, cost, aim="≥ 150,000", limit="one Python thread: partial decode of each row's JSON")
    yield beside(plain, "json.loads", shape.rows, loads)
    yield Figure(name, runs[0].bytes / cost.wall_s / 1e6, "MB/s", aim="", limit=f"{runs[0].bytes / shape.rows:.0f} bytes a row")
    logged = best(lambda: ordered(shape, log=bench.new_folder("log")).cost)
    name = f"{shape.protocol}: the same, and the log"
    yield beside(rate(name, shape.rows, logged, aim="", limit="Python lists to Arrow, zstd, fsync"), "json.loads", shape.rows, loads)
