"""One transaction of a million rows, through a sidecar with its own bounds, in a process of its own: its peak memory.

python -m tests.tools.bench.transaction PROTOCOL ROWS FOLDER      prints the process's Outcome as JSON
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from sidecar.core.sequence import Sequence
from sidecar.pipeline import PipelineLimits
from sidecar.shared.log.spill import FileSpill
from sidecar.shared.model.nouns import CommitTs
from tests.tools.bench.bench import Bench
from tests.tools.bench.feed import PROTOCOLS, Shape, batches, codec_of, schemas
from tests.tools.bench.figures import Cost, Figure, rate, timed
from tests.tools.bench.log import LogWriter

ROWS = 1_000_000


def measure(bench: Bench) -> Iterator[Figure]:
    """Rows a second and the peak of resident memory, for both protocols."""
    rows = bench.sized(ROWS)
    for protocol in PROTOCOLS:
        command = [sys.executable, "-m", "tests.tools.bench.transaction", protocol, str(rows), str(bench.new_folder("transaction"))]
        result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        name = f"{protocol}: a transaction of {rows:,} rows"
        spilled = f"{result['spilled_rows']:,} rows spilled"
        yield Figure(name, result["peak_bytes"] / 2**20, "MiB peak", aim="< 1,024", limit=f"identities of one commit_ts; {spilled}")
        yield rate(name, rows, Cost(result["wall_s"], result["cpu_s"]), aim="", limit="identity of each row, spill, log")


def _run(protocol: str, rows: int, folder: Path) -> dict[str, float]:
    """Generating the messages, a batch at a time, is in the peak but not in the time."""
    shape, codec, cost = Shape(protocol, rows, one_commit=True), codec_of(protocol), Cost()
    sequence = Sequence(codec.identity, FileSpill(str(folder)), CommitTs(0), PipelineLimits().held_bytes_max)
    writer = LogWriter(folder / "log", codec=codec.name, schemas=schemas())
    for batch in batches(shape):
        with timed(cost):
            for message in batch.messages:
                sequence.accept(message.lane, message.position, codec.envelopes(message))
            upto_ts = sequence.upto(shape.lane_names())
            for segment in sequence.release(upto_ts, even_if_empty=False) if upto_ts is not None else ():
                writer.write(segment)
    assert writer.rows == rows, f"{writer.rows} rows of {rows} are in the log"
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"peak_bytes": peak_bytes, "wall_s": cost.wall_s, "cpu_s": cost.cpu_s, "spilled_rows": sequence.spilled_rows}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_run(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))))
