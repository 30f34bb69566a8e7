"""`make demo-live`: the demo of the design, on the rig: an UPDATE every half second, a dump in chunks of ten rows, paused, resumed
from where it stood, restarted. The merged stream goes into files, a Kafka topic and a database at once; in the end each is held against
the tables. `ARGS=--files`: TiCDC's storage sink in the place of Kafka, and the changefeed's definition from a file: neither Kafka nor
TiCDC's etcd is there for the sidecar.

Everything that is shown is what a user would type and see; the rig's package docstring says what stands in for TiDB and TiCDC.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from stamina import instrumentation

from sidecar.replay.judge.rows import Key, Row, rows_by_key
from sidecar.shared.log.dump_files import REPORTS
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import CommitTs, OperationId, TableName
from tests.support.kafka_output import decoded, newest, read_all
from tests.support.services.ports import free_ports
from tests.tools.rig.rig import CONSOLE_TOKEN, Rig
from tests.tools.rig.sidecar_process import SidecarProcess
from tests.tools.rig.tables import SCHEMA
from tests.tools.rig.truth import LiveTruth, await_delivered, differences, read_truth
from tests.tools.rig.workload import connect

UPDATE_EVERY_S = 0.5
INITIAL_ROWS = 200
CHUNK_ROWS = 10
ROWS_PER_S = 150
DEADLINE_S = 600.0
TOPIC, PARTITIONS = "merged", 3
COPY = "shop_copy"
REPORT = Path("out/demo-live-report.html")


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(prog="make demo-live ARGS=…", description="The demo on real servers.")
    options.add_argument("--files", action="store_true", help="without Kafka and without TiCDC's etcd: the files of a storage sink")
    files = bool(options.parse_args(arguments).files)
    instrumentation.set_on_retry_hooks([])  # a sidecar that is starting is queried again: no message
    try:
        with tempfile.TemporaryDirectory(prefix="demo-live-", ignore_cleanup_errors=True) as folder:
            return _demo(Path(folder), files=files)
    except KeyboardInterrupt:
        _say("interrupted: what the demo had started is ended, and its folder is gone")
        return 130


def _demo(folder: Path, *, files: bool) -> int:
    (port,) = free_ports(1)
    _say(f"web console, as soon as the sidecar runs: http://127.0.0.1:{port} (to log in: {CONSOLE_TOKEN})")
    if files:
        _say("starting MariaDB, with 12 tables, and a publisher of the binlog into files, as TiCDC's storage sink writes them …")
    else:
        _say("starting MariaDB, Kafka and etcd, with 12 tables, and a publisher of the binlog in TiCDC's open-protocol …")
    with Rig(folder, initial_rows=INITIAL_ROWS, files=files, etcd_in_reach=not files) as rig, _Updates(rig) as updates:
        config = rig.sidecar_config(sinks=_sinks(rig, folder), log=f"file://{folder}/log", console={"listen": f"127.0.0.1:{port}"})
        _say("$ ticdc-dump run --config sidecar.toml")
        with SidecarProcess(config, folder / "sidecar.log") as sidecar:
            sidecar.await_status(lambda value: value["merge_worker"] == "running", timeout_s=DEADLINE_S)
            _run(sidecar, "dumpstart", "--chunk-rows", str(CHUNK_ROWS), "--rows-per-second", str(ROWS_PER_S))
            sidecar.await_status(lambda value: _rows(value) >= 300, timeout_s=DEADLINE_S)
            _run(sidecar, "dumppause")
            stuck = _rows(sidecar.ask("dumpquery"))
            _run(sidecar, "dumpresume")
            went_on = sidecar.await_status(lambda value: _rows(value) > stuck, timeout_s=DEADLINE_S)
            _say(f"  it stood at {stuck} rows and continued from there: {_rows(went_on)}")
            _run(sidecar, "dumprestart")
            _say(f"  another dump of the same tables, from the start: {_rows(sidecar.ask('dumpquery'))} rows")
            done = sidecar.await_status(lambda value: value["state"] in ("finished", "failed"), timeout_s=DEADLINE_S)
            _run(sidecar, "dumpquery")
            updates.end()
            truth = rig.truth()
            complete = {TableName(t["schema"], t["table"]): CommitTs(int(t["complete_at_tso"])) for t in done["tables"]}
            _say(f"{updates.count} UPDATEs ran beside it. Comparing the merged output with the tables …")
            verdict = await_delivered(open_folder(f"{folder}/output"), truth, complete_at=complete, timeout_s=DEADLINE_S)
            _say(f"  files: {len(truth.tables)} tables {'equal, and no row went back' if verdict.ok else f'different: {verdict}'}")
            sidecar.await_status(lambda value: _delivered(value, truth), timeout_s=DEADLINE_S)
            sidecar.stop()
            report = _kept(folder / "log" / REPORTS.name(OperationId(str(done["dump_id"]))))
            wrong = _judged("database", truth, _database_rows(rig, truth))
            if not files:
                wrong += _judged("Kafka topic", truth, _topic_rows(rig, truth))
            _say(f"Report of the dump: {report}")
    return 0 if verdict.ok and not wrong else 1


def _kept(report: Path) -> Path:
    """Where the report stays: the log is gone with the demo. The sidecar writes it once all sinks have the dump."""
    until_s = time.monotonic() + DEADLINE_S
    while not report.exists() and time.monotonic() < until_s:
        time.sleep(0.1)
    REPORT.parent.mkdir(exist_ok=True)
    return Path(shutil.copy(report, REPORT))


def _sinks(rig: Rig, folder: Path) -> list[str]:
    """The database is another one of the same server, made by the sink."""
    source = rig.source
    account = f"{source.user}:{quote(source.password, safe='')}@{source.host}:{source.port}"
    sinks = [f"file://{folder}/output?format=jsonl", f"mysql://{account}/?create-tables=true&routes={quote(f'{SCHEMA}.*=>{COPY}.*')}"]
    if rig.options.files:
        return sinks
    rig.kafka.create_topic(TOPIC, PARTITIONS)
    return [*sinks, f"kafka://{rig.kafka.bootstrap}/{TOPIC}?protocol=open-protocol"]


def _delivered(status: dict[str, Any], truth: LiveTruth) -> bool:
    """Whether every sink has what the truth has."""
    return int(status["delivered_tso"]) >= truth.ts


def _topic_rows(rig: Rig, truth: LiveTruth) -> dict[TableName, dict[Key, Row]]:
    """As a consumer of the topic has them in the end; reading it finds rows that go back, come twice or after a mark."""
    return newest(decoded(read_all(rig.kafka.bootstrap, [TOPIC]), "open-protocol", truth.schemas))


def _database_rows(rig: Rig, truth: LiveTruth) -> dict[TableName, dict[Key, Row]]:
    result = read_truth(rig.source, [TableName(COPY, table.table) for table in truth.tables], ts=truth.ts)
    return {TableName(SCHEMA, name.table): rows_by_key(result.schemas[name], rows) for name, rows in result.tables.items()}


def _judged(what: str, truth: LiveTruth, value: dict[TableName, dict[Key, Row]]) -> list[str]:
    wrong = differences(truth, value)
    _say(f"  {what}: {f'different: {wrong}' if wrong else f'{len(truth.tables)} tables equal'}")
    return wrong


class _Updates:
    """An UPDATE every half second, of rows that the dump may or may not have read yet."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._end = threading.Event()
        self.count = 0
        self._thread = threading.Thread(target=self._run, name="updates", daemon=True)

    def __enter__(self) -> _Updates:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        connection = connect(self._rig.source)
        try:
            with connection.cursor() as cursor:
                cursor.execute("select id from shop.account order by id")
                ids = [row[0] for row in cursor.fetchall()]
                while not self._end.wait(UPDATE_EVERY_S):
                    cursor.execute("update shop.account set balance = balance + 1 where id = %s", (ids[self.count * 7 % len(ids)],))
                    self.count += 1
        finally:
            connection.close()


def _run(sidecar: SidecarProcess, command: str, *arguments: str) -> None:
    _say(f"$ cdc cli changefeed {command} -c {sidecar.changefeed_id} {' '.join(arguments)}")
    done = sidecar.cdc(command, *arguments)
    for line in (done.stdout + done.stderr).splitlines():
        _say(f"  {line}")
    if done.returncode:
        raise SystemExit(done.returncode)


def _rows(status: dict[str, Any]) -> int:
    return sum(int(table["rows"]) for table in status["tables"])


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
