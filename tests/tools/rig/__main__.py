"""`python -m tests.tools.rig [FOLDER] [--protocol canal-json] [--writes-per-s 200]`: a rig with a workload, until Ctrl-C.

Prints the endpoints and where the sidecar's settings are. Without FOLDER in a temporary one that is removed.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
from pathlib import Path

from tests.tools.rig.rig import Rig

REPORT_EVERY_S = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.rig", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="where everything is kept; default: a temporary folder")
    parser.add_argument("--protocol", choices=("open-protocol", "canal-json"), default="open-protocol")
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--initial-rows", type=int, default=200, help="in each table, before the changefeed starts")
    parser.add_argument("--writes-per-s", type=float, default=200.0, help="0: no workload")
    arguments = parser.parse_args()
    if arguments.folder is not None:
        _run(arguments.folder, arguments)
        return
    with tempfile.TemporaryDirectory(prefix="rig-") as folder:
        _run(Path(folder), arguments)


def _run(folder: Path, arguments: argparse.Namespace) -> None:
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with Rig(folder, protocol=arguments.protocol, partitions=arguments.partitions, initial_rows=arguments.initial_rows) as rig:
        config = rig.sidecar_config(sinks=[f"file://{folder}/output?format=jsonl"], log=f"file://{folder}/log")
        _say(f"MariaDB    {rig.source.host}:{rig.source.port}, user {rig.source.user}, password in {folder}/source.password")
        _say(f"Kafka      {rig.kafka.bootstrap}, topic {rig.topic}, {rig.options.partitions} partitions, {rig.options.protocol}")
        _say(f"etcd       {rig.etcd.endpoints[0]}")
        _say(f"changefeed {rig.options.changefeed_id}, start_ts {rig.start_ts}")
        _say(f"sidecar    {config}")
        if not arguments.writes_per_s:
            ended.wait()
            return
        with rig.workload(writes_per_s=arguments.writes_per_s) as workload:
            while not ended.wait(REPORT_EVERY_S):
                rig.publisher.check()
                last = rig.publisher.checkpoints()[-1]
                _say(f"{sum(workload.counts.statements.values())} statements, {workload.counts.rows} rows; checkpoint {last.ts}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
