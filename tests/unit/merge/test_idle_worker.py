"""What a merge worker holds that has delivered a log and has nothing else to do: no Spark, and no library that it did not use."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from sidecar.shared.log.delivery_report import DELIVERED_NAME, DeliveryReport, report_from_json
from sidecar.shared.log.storage import open_folder
from spark_merge.testing.histories import SEGMENTS, random_history, write_log
from tests.support.eventually import PATIENCE_S, eventually

NEVER = {"pyspark", "py4j", "pandas", "grpc", "etcd3", "confluent_kafka", "s3fs", "aiohttp", "botocore"}
OF_OTHER_SINKS = {"deltalake", "pyiceberg", "sqlalchemy", "clickhouse_connect", "opensearchpy", "urllib3"}

PROGRAM = """
import sys
from sidecar.cli.main import main
try:
    main()
except SystemExit:
    pass
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""

SETTINGS = """
sinks = ["file://{folder}/out?format={form}"]
changefeed = {{ id = "orders" }}
etcd = {{ endpoints = ["127.0.0.1:1"] }}
source = {{ host = "127.0.0.1", user = "u" }}
log = {{ uri = "{folder}/log" }}
"""


def report(log: Path) -> DeliveryReport | None:
    with suppress(FileNotFoundError):
        return report_from_json((log / DELIVERED_NAME).read_bytes())
    return None


@pytest.mark.parametrize(("form", "also"), [("jsonl", {"polars"}), ("parquet", set())])
def test_it_loads_neither_spark_nor_what_its_sink_does_not_write_with(tmp_path: Path, form: str, also: set[str]) -> None:
    """A few JSON lines are written without polars, too."""
    write_log(open_folder(f"{tmp_path}/log"), random_history(Random(1)))
    config = tmp_path / "sidecar.toml"
    config.write_text(SETTINGS.format(folder=tmp_path, form=form))
    command = [sys.executable, "-c", PROGRAM, "merge", "--config", str(config), "--log-id", "default/orders", "--end-with-stdin"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        try:
            last = eventually(lambda: (one := report(tmp_path / "log")) is not None and one.seq == SEGMENTS - 1 and one)
            children = [pid for each in Path(f"/proc/{worker.pid}/task").glob("*/children") for pid in each.read_text().split()]
            output, _ = worker.communicate(timeout=PATIENCE_S)
        finally:
            worker.kill()
    assert (last.spark, children) == ("", [])
    assert {"pyarrow", "spark_merge"} <= set(output.split())
    assert set(output.split()) & (NEVER | OF_OTHER_SINKS | also) == set()
