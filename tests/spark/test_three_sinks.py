"""The demo recording into files, a Kafka topic and a database at once, everything by Spark's tasks, and with live rows in this process:
all three end as the truth.

Sinks that commit as they go are cut into stages, and their writers travel to other processes; with one recording and a task at a time:
tests/integration/test_sink_recordings.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sidecar.replay.replay import Replay
from sidecar.replay.report import ReplaySettings
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import TableName
from spark_merge.delivery.places import WORKER_ROWS
from spark_merge.sinks.files.reader import read_output
from spark_merge.worker.session import OpenSession
from tests.support.kafka_feeds import new_topic
from tests.support.kafka_output import decoded, read_all
from tests.support.recordings import recording
from tests.support.services.kafka import KafkaBroker
from tests.support.services.mariadb import MariaDb
from tests.support.sql_place import rows_of
from tests.support.targets.kafka import in_halves, rows_of_files

pytestmark = pytest.mark.spark

COPY, POSITION = "three_copy", "three_position"


@pytest.fixture
def database(mariadb: MariaDb) -> Iterator[MariaDb]:
    yield mariadb
    mariadb.execute(f"DROP DATABASE IF EXISTS {COPY}", f"DROP DATABASE IF EXISTS {POSITION}")


@pytest.mark.parametrize("worker_rows", [0, WORKER_ROWS], ids=["spark", "worker"])
def test_each_has_the_files_rows_and_they_are_the_truth(
    spark: SparkSession, tmp_path: Path, broker: KafkaBroker, database: MariaDb, worker_rows: int
) -> None:
    topic, schema, password = new_topic(), "shop", tmp_path / "password"
    password.write_text(database.password)  # this Spark's workers have the environment that its first test had
    sinks = (
        f"file://{tmp_path}/files?format=jsonl",
        f"kafka://{broker.bootstrap}/{topic}?protocol=open-protocol&partition-num=3",
        f"mysql://{database.user}@{database.host}:{database.port}/?position-schema={POSITION}&password-file={password}"
        f"&create-tables=true&routes={schema}.*=>{COPY}.*",
    )
    settings = ReplaySettings(
        recording("demo"),
        brackets="watermark",
        chunk_rows=100,
        seed=3,
        crashes=1,
        sinks=sinks,
        out=tmp_path / "out",
        worker_rows=worker_rows,
    )
    played = Replay(settings)
    report = played.run(lambda _: None, lambda: OpenSession(spark))
    assert report.ok, report.to_json()
    assert report.dump_rows > 0
    assert database.password not in "".join(report.outputs)

    reported = decoded(read_all(broker.bootstrap, [topic]), "open-protocol", played.schemas)
    assert {table: in_halves(rows) for table, rows in reported.rows.items()} == rows_of_files(tmp_path / "files")
    kept: dict[TableName, dict[str, tuple[str | None, ...]]] = {}
    for row in read_output(open_folder(f"{tmp_path}/files")):
        table = kept.setdefault(TableName(row["schema"], row["table"]), {})
        table.pop(repr(row["key"]), None)
        if row["after"] is not None:
            table[repr(row["key"])] = tuple(row["after"].values())
    for name, rows in kept.items():
        assert sorted(map(repr, rows_of(database, played.schemas[name], TableName(COPY, name.table)))) == sorted(map(repr, rows.values()))
