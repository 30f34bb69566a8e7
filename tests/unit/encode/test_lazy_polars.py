"""polars is loaded by what is written with it, and by nothing before that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars

from spark_merge.codecs.encode.lazy_polars import pl
from tests.support.eventually import PATIENCE_S

OPENED = """
import sys
import sidecar.shared.process.plain_arrow  # as each command does first
from spark_merge.sinks.registry import load_without_extras, open_sink
load_without_extras()
for uri in sys.argv[1:]:
    open_sink(uri, log_id="x")
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_it_is_polars() -> None:
    assert pl.Series is polars.Series
    assert pl.Series is polars.Series, "and the second time"


def test_a_process_that_opens_sinks_has_not_loaded_it(tmp_path: Path) -> None:
    """Nor what only one sink's writer needs: a sidecar opens its sinks to say what is wrong with them, and writes to none."""
    uris = [f"file://{tmp_path}/{form}?format={form}" for form in ("jsonl", "parquet")] + [f"file://{tmp_path}/csv?protocol=csv"]
    done = subprocess.run([sys.executable, "-c", OPENED, *uris], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    loaded = set(done.stdout.split())
    assert {"pyarrow", "spark_merge"} <= loaded
    assert not loaded & {
        "polars",
        "pandas",
        "pyspark",
        "py4j",
        "deltalake",
        "pyiceberg",
        "sqlalchemy",
        "clickhouse_connect",
        "opensearchpy",
    }
