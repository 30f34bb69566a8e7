"""Recorded schema changes read back out of outputs that keep rows of all times: a table that can be read is the source's at the position,
whatever became of its columns and its name; one that cannot be read names the statement that is the reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast
from urllib.parse import quote

import pytest

from sidecar.replay.judge.rows import Key, Row, equal_rows
from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import MARK_TABLE, TableName
from spark_merge.ddl.eras import WAY_OUT
from spark_merge.port.readable import Readable, newest
from spark_merge.sinks.registry import open_sink
from tests.lanes import LANE
from tests.support.kafka_feeds import new_topic
from tests.support.recorded_target import Case, RecordedLogs, counted, deliver
from tests.support.services.http_receiver import HttpReceiver
from tests.support.services.kafka import KafkaBroker
from tests.support.services.schema_registry import ApicurioRegistry

pytestmark = [pytest.mark.recordings, pytest.mark.turns(3), pytest.mark.xdist_group("read-back")]

CASES = [
    Case(name, "kv", brackets, seed)
    for name, brackets, seed in (("ddl", "snapshot", 0), ("ddl-new", "watermark", 1), *([("ddl", "watermark", 3)] if LANE.whole else []))
]
Uri = Callable[[pytest.FixtureRequest, Path], str]


def _kafka(protocol: str) -> Uri:
    def uri(request: pytest.FixtureRequest, _: Path) -> str:
        broker: KafkaBroker = request.getfixturevalue("broker")
        return f"kafka://{broker.bootstrap}/{new_topic()}?partition-num=3&protocol={protocol}"

    return uri


def _avro(protocol: str) -> Uri:
    def uri(request: pytest.FixtureRequest, folder: Path) -> str:
        registry: ApicurioRegistry = request.getfixturevalue("schema_registry")
        return f"{_kafka(protocol)(request, folder)}&schema-registry={quote(registry.url, safe='')}"

    return uri


def _http(request: pytest.FixtureRequest, folder: Path) -> str:
    receiver = HttpReceiver(folder / "receiver")
    receiver.start()
    request.addfinalizer(receiver.kill)
    return receiver.uri("out")


OUTPUTS: dict[str, Uri] = {
    **{query: lambda _, folder, query=query: f"file://{folder}/out?{query}"  # type: ignore[misc]  # bound here
       for query in ("format=jsonl", "format=parquet", "protocol=csv&csv.include-commit-ts=true", "protocol=canal-json")},
    "http": _http,
    "kafka open-protocol": _kafka("open-protocol"),
    "kafka canal-json": _kafka("canal-json"),
    "kafka debezium": _kafka("debezium"),
    "kafka debezium without schemas": _kafka("debezium&debezium-disable-schema=true"),
    "kafka avro": _avro("avro&avro-bigint-unsigned-handling-mode=string"),
    "kafka debezium-avro": _avro("debezium-avro&invalid-dates=null-or-epoch"),
}  # fmt: skip
READABLE_MIN = 9
"""Tables of the recording that each output reads back over its schema changes, at the least."""


PAIRS = [
    pytest.param(name, case, id=f"{name}-{case}")
    for at, name in enumerate(OUTPUTS)
    for case in (CASES if LANE.whole else [CASES[at % len(CASES)]])
]
"""The outputs take the recordings in turn; in `make matrix` each takes all."""


@pytest.mark.parametrize(("name", "case"), PAIRS)
def test_what_is_read_back_over_schema_changes_is_the_source(
    request: pytest.FixtureRequest, tmp_path: Path, recorded_logs: RecordedLogs, name: str, case: Case
) -> None:
    made, log = case.record(recorded_logs)
    uri = OUTPUTS[name](request, tmp_path)
    deliver(log.folder, uri, seed=case.seed, deaths=2)
    last = log.manifests[-1]
    schemas = log.log.read_schemas(last.next_schemas or last.schemas)
    sink = open_sink(uri, log_id="recorded")
    assert isinstance(sink, Readable)
    read, refused = set[TableName](), dict[TableName, str]()
    for table, schema in schemas.items():
        if table == MARK_TABLE or made.history.schema(table, last.upto_ts) is None:
            continue
        try:
            reading = sink.reading(schema, parts=2)
            rows = newest(reading, schema)
        except SinkError as error:
            if error.hint != WAY_OUT:
                raise
            refused[table] = error.message
            continue
        assert reading.exact
        assert reading.accepted is not None
        assert reading.accepted.upto_ts == last.upto_ts
        result = cast("dict[Key, Row]", dict(counted(list(zip(*(column.to_pylist() for column in rows.columns), strict=True)), schema)))
        expected = made.history.rows(table, last.upto_ts)
        assert result.keys() == expected.keys(), table
        wrong = [(row, expected[key]) for key, row in result.items() if not equal_rows(schema, row, expected[key])]
        assert not wrong, (table, wrong[:2])
        read.add(table)
    sink.close()
    assert len(read) >= READABLE_MIN, refused
    assert all("cannot be read back: " in why for why in refused.values())
    assert {table.table for table in refused} >= {"ledger", "swap_me"}, "rows came and went with partitions"
