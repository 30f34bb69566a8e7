"""A recording of a real cluster through the whole line into Kafka: what an independent consumer reads is what the files sink has, and its
live part is what TiCDC sent, byte for byte.

The replay is the real one; its tasks run here and not on Spark, whose way through the same recordings is in tests/spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from sidecar.core.model import TableName
from sidecar.log.storage import open_folder
from sidecar.replay import replay
from sidecar.replay.replay import Replay
from sidecar.replay.report import ReplaySettings
from spark_merge.contract import Rows, Sink
from spark_merge.delivery import Delivery, JobSettings
from spark_merge.sinks.files.reader import read_output
from tests.lanes import LANE
from tests.support.kafka_feeds import new_topic
from tests.support.kafka_output import Output, decoded, read_all
from tests.support.recordings import recording
from tests.support.services.kafka import KafkaBroker
from tests.support.sinks import Here, Shown
from tests.unit.decode.log import recorded_changes

pytestmark = pytest.mark.xdist_group("kafka-sink")

DISPATCHERS = """
case-sensitive = true
[sink]
dispatchers = [
  {matcher = ["shop.customer"], partition = "index-value", topic = "%s_{schema}_{table}"},
  {matcher = ["shop.item"], partition = "ts"},
]
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


class JobHere:
    """spark_merge.job.Job, for what a replay asks of it: all is delivered at the end, by tasks of this process."""

    def __init__(self, _: object, sinks: Mapping[str, Sink], settings: JobSettings, *, worker_rows: int) -> None:
        self._sinks, self._settings = sinks, settings
        self.counts: dict[TableName, Rows] = {}
        self.delivered = worker_rows * 0

    def start(self) -> None: ...
    def check(self) -> None: ...

    def finish(self) -> None:
        for number, sink in enumerate(self._sinks.values()):
            delivery = Delivery(sink, self._settings, Here())
            while segments := delivery.deliver():
                for segment in segments if number == 0 else ():
                    self.delivered += 1
                    for table, rows in segment.tables.items():
                        self.counts[table] = self.counts.get(table, Rows()).plus(rows)
            sink.close()


def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broker: KafkaBroker, feed: str, parameters: str, topic: str) -> Replay:
    monkeypatch.setattr(replay, "Job", JobHere)
    monkeypatch.setattr(replay, "SparkTasks", lambda _: None)
    files = f"file://{tmp_path}/files?format=jsonl"
    kafka = f"kafka://{broker.bootstrap}/{topic}?partition-num=3&{parameters}"
    run = Replay(ReplaySettings(recording("demo"), feed=feed, sinks=(files, kafka), out=tmp_path / "out", crashes=2, seed=3))
    report = run.run(lambda _: None, None)  # type: ignore[arg-type]  # no session is asked for anything
    assert report.ok, report.to_json()
    assert report.dump_rows > 0
    return run


def consumed(broker: KafkaBroker, topic: str, protocol: str, run: Replay) -> Output:
    topics = [name for name in broker.admin().list_topics().topics if name.startswith(topic)]
    return decoded(read_all(broker.bootstrap, topics), protocol, run.schemas)


def rows_of_files(folder: Path) -> dict[TableName, Counter[Shown]]:
    found: dict[TableName, list[Shown]] = {}
    for row in read_output(open_folder(str(folder))):
        after = None if row["after"] is None else tuple(row["after"].values())
        shown = (row["seq"], int(row["commit_ts"]), row["op"], tuple(row["key"].values()), after)
        found.setdefault(TableName(row["schema"], row["table"]), []).append(shown)
    return {table: in_halves(rows) for table, rows in found.items()}


def in_halves(rows: Sequence[Shown]) -> Counter[Shown]:
    """Each update as a delete and an insert: TiCDC writes it so where a unique value changes, and the files sink does not."""
    found: Counter[Shown] = Counter()
    for seq, commit_ts, op, key, after in rows:
        found[seq, commit_ts, "insert" if op == "update" else op, key, after] += 1
        if op == "update":
            found[seq, commit_ts, "delete", key, None] += 1
    return found


CASES = [("open-protocol", "open-protocol", True), ("canal-json", "canal-json", False), ("kv", "open-protocol", False)]
REST = [("open-protocol", "open-protocol", False), ("canal-json", "canal-json", True), ("kv", "canal-json", True)]


@pytest.mark.parametrize(("feed", "protocol", "dispatched"), CASES + REST if LANE.whole else CASES)
def test_the_consumer_has_the_rows_of_the_files_and_ticdcs_own_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broker: KafkaBroker, feed: str, protocol: str, dispatched: bool
) -> None:
    topic, parameters = new_topic(), f"protocol={protocol}"
    if dispatched:
        config = tmp_path / "changefeed.toml"
        config.write_text(DISPATCHERS % topic)
        parameters += f"&config={config}"
    run = played(tmp_path, monkeypatch, broker, feed, parameters, topic)
    output = consumed(broker, topic, protocol, run)
    assert {table: in_halves(rows) for table, rows in output.rows.items()} == rows_of_files(tmp_path / "files")
    live = [change for record, change in output.changes if record.origin[0] == "log"]
    assert live
    if feed != "kv":  # the bytes of raw key-values are in no protocol
        sent = {(change.key, change.value) for change in recorded_changes(recording("demo"), feed, codec=protocol)}
        assert all((change.key, change.value) in sent for change in live)
    assert {record.place for record, _ in output.marks} >= {record.place for record, _ in output.changes}
    if dispatched:
        assert {record.topic for record, _ in output.changes} == {topic, f"{topic}_shop_customer"}
