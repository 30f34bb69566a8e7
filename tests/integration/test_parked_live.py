"""A message that nothing can read, in the whole product: it stops the stream, an operator parks it, and what it hid is read again."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from sidecar.shared.log.sink_tables import read_sink_tables
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.hole import HoleCause
from sidecar.shared.model.nouns import TableName
from sidecar.shared.model.sink_delivery import SinkTables
from spark_merge.sinks.files.reader import read_output
from tests.support.eventually import eventually
from tests.tools.rig.rig import Rig
from tests.tools.rig.sidecar_process import BIN, MergeWorkerProcess, SidecarProcess
from tests.tools.rig.tables import SCHEMA

pytestmark = pytest.mark.xdist_group("rig")

DEADLINE_S = 600.0
ACCOUNT = TableName(SCHEMA, "account")
SINK = "out"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with Rig(tmp_path, initial_rows=200) as result:
        yield result


def park(config: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = [str(BIN / "ticdc-dump"), "park", "--config", str(config), *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=True)


def rows_of(output: Path) -> set[tuple[str, str]]:
    """Ids and versions, as a reader has them in the end."""
    rows: dict[str, dict[str, str] | None] = {}
    for row in read_output(open_folder(str(output))):
        if (row["schema"], row["table"]) == ACCOUNT:
            rows[json.dumps(row["key"])] = row["after"]
    return {(row["id"], row["version"]) for row in rows.values() if row is not None}


@pytest.mark.turns(2, "whole product")
def test_what_a_parked_message_hid_is_read_again_and_what_went_is_removed(rig: Rig) -> None:
    """Rows change behind the feed's back, as if their changes had been in the message."""
    folder = rig.folder
    sinks, log = [f"file://{folder}/output?format=jsonl&name={SINK}"], f"file://{folder}/log"
    config = rig.sidecar_config(sinks=sinks, log=log, spark={"managed": False})

    def known() -> SinkTables | None:
        return read_sink_tables(open_folder(log), [SINK]).get(SINK)

    def finished(dump_id: str) -> dict[str, Any]:
        return sidecar.await_status(lambda value: (value["dump_id"], value["state"]) == (dump_id, "finished"), timeout_s=DEADLINE_S)

    def started() -> str:
        """Empty while the sidecar has not read the worker's report."""
        answer = sidecar.cdc("dumpstart", "--holes", "--json")
        return str(json.loads(answer.stdout)["dump_id"]) if answer.returncode == 0 else ""

    with ExitStack() as stack:
        sidecar = stack.enter_context(SidecarProcess(config, folder / "sidecar.log"))
        sidecar.await_status(lambda value: True, timeout_s=DEADLINE_S)
        stack.enter_context(MergeWorkerProcess(config, folder / "worker.log"))
        finished(sidecar.ask("dumpstart")["dump_id"])
        eventually(lambda: (one := known()) is not None and ACCOUNT in one.complete, "the dump is delivered", within_s=DEADLINE_S)

        ids = [row[0] for row in rig.db.execute(f"select id from {ACCOUNT} order by id limit 2")]
        changes = (f"delete from {ACCOUNT} where id = {ids[0]}", f"update {ACCOUNT} set version = version + 1 where id = {ids[1]}")
        rig.db.execute("set session sql_log_bin = 0", *changes, "commit")
        producer = Producer({"bootstrap.servers": rig.kafka.bootstrap})
        producer.produce(rig.topic, b"\xff\x00 no row", partition=1)
        producer.flush()
        assert sidecar._running.wait(DEADLINE_S) == 3
        assert "ticdc-dump park --config FILE" in sidecar.log.read_text()
        assert r"value: 9 bytes: '\\xff\x00 no row'" in park(config).stdout

        park(config, "--table", str(ACCOUNT))
        sidecar.start()
        sidecar.await_status(lambda value: True, timeout_s=DEADLINE_S)
        eventually(lambda: (one := known()) is not None and ACCOUNT in one.holes, "the hole is known", within_s=DEADLINE_S)
        tables = known()
        assert tables is not None
        assert (tables.holes[ACCOUNT].cause, ACCOUNT in tables.complete) == (HoleCause.PARKED, False)
        done = finished(eventually(started, "the sidecar has read of the hole", within_s=DEADLINE_S))
        assert [table["table"] for table in done["tables"]] == [ACCOUNT.table]
        eventually(lambda: (one := known()) is not None and ACCOUNT in one.complete, "its comparison is equal", within_s=DEADLINE_S)
        truth = {(str(id_), str(version)) for id_, version in rig.db.execute(f"select id, version from {ACCOUNT}")}
    assert rows_of(folder / "output") == truth
