"""What a sidecar's process has loaded before there is anything to do: nothing that only its worker writes with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.eventually import PATIENCE_S
from tests.unit.merge.test_idle_worker import OF_OTHER_SINKS, PROGRAM, SETTINGS

OF_THE_WORKER = {"pyspark", "py4j", "polars", "pandas", "connectorx", "s3fs", "aiohttp", "botocore"}


def test_it_has_loaded_nothing_that_only_its_worker_writes_with(tmp_path: Path) -> None:
    """It has opened its sinks once, to say what is wrong with them, and tries to reach etcd, which is not there."""
    config = tmp_path / "sidecar.toml"
    listening = "".join(f'\n{part} = {{ listen = "127.0.0.1:{port}" }}' for part, port in (("control", 1), ("console", 2), ("metrics", 3)))
    config.write_text(SETTINGS.format(folder=tmp_path, form="jsonl") + listening)
    command = [sys.executable, "-c", PROGRAM, "run", "--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as sidecar:
        try:
            assert sidecar.stderr is not None
            assert any("cannot begin yet" in line for line in sidecar.stderr), "it has ended"
            sidecar.terminate()
            output, _ = sidecar.communicate(timeout=PATIENCE_S)
        finally:
            sidecar.kill()
    assert {"pyarrow", "spark_merge", "grpc"} <= set(output.split())
    assert set(output.split()) & (OF_OTHER_SINKS | OF_THE_WORKER) == set()
