"""The Kafka sink into a real broker: an independent consumer reads what the files sink has, each row once, and of live changes the bytes
that TiCDC sent. The rows that the sink reads back end as the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import TableName
from spark_merge.sinks.files.reader import read_output
from spark_merge.testing.places import Shown
from tests.support.kafka_feeds import new_topic
from tests.support.kafka_output import Output, decoded, read_all
from tests.support.read_back import read_back
from tests.support.recorded_target import Case, RecordedLog, deliver
from tests.support.recordings import recording
from tests.support.replaying import Stage
from tests.support.services.kafka import KafkaBroker
from tests.support.targets.target import Place, RecordedSink, Target
from tests.unit.decode.log import recorded_changes

DISPATCHERS = """
case-sensitive = true
[sink]
dispatchers = [
  {matcher = ["shop.customer"], partition = "index-value", topic = "%s_{schema}_{table}"},
  {matcher = ["shop.item"], partition = "ts"},
]
"""
OF_FEED = {"open-protocol": "open-protocol", "canal-json": "canal-json", "kv": "canal-json"}


def in_halves(rows: Sequence[Shown]) -> Counter[Shown]:
    """Each update as a delete and an insert: TiCDC writes it so where a unique value changes, and the files sink does not."""
    counter: Counter[Shown] = Counter()
    for seq, commit_ts, op, key, after in rows:
        counter[seq, commit_ts, "insert" if op == "update" else op, key, after] += 1
        if op == "update":
            counter[seq, commit_ts, "delete", key, None] += 1
    return counter


def rows_of_files(folder: Path) -> dict[TableName, Counter[Shown]]:
    result: dict[TableName, list[Shown]] = {}
    for row in read_output(open_folder(str(folder))):
        after = None if row["after"] is None else tuple(row["after"].values())
        shown = (row["seq"], int(row["commit_ts"]), row["op"], tuple(row["key"].values()), after)
        result.setdefault(TableName(row["schema"], row["table"]), []).append(shown)
    return {table: in_halves(rows) for table, rows in result.items()}


@contextmanager
def target(place: Place) -> Iterator[Target]:
    """In the feed's own protocol, by a dispatcher's rules in every other schedule."""
    broker: KafkaBroker = place.server
    topic, protocol, dispatched = new_topic(), OF_FEED[place.case.feed], place.case.seed % 2 == 0
    architecture = "new" if place.case.name.endswith("-new") else "classic"
    uri = f"kafka://{broker.bootstrap}/{topic}?partition-num=3&protocol={protocol}&architecture={architecture}"
    if dispatched:
        config = place.folder / "changefeed.toml"
        config.write_text(DISPATCHERS % topic)
        uri += f"&config={config}"
    schemas = place.log.log.read_schemas(place.log.manifests[0].schemas)

    def consumed() -> Output:
        topics = [name for name in broker.admin().list_topics().topics if name.startswith(topic)]
        return decoded(read_all(broker.bootstrap, topics), protocol, schemas)

    def check(made: Stage, log: RecordedLog) -> None:
        output = consumed()
        deliver(log.folder, f"file://{place.folder}/files?format=jsonl", seed=0, deaths=0)
        check_output(output, made, place.folder / "files")
        assert {record.topic for record, _ in output.changes} >= ({topic, f"{topic}_shop_customer"} if dispatched else {topic})

    yield Target(uri, read_back(uri), check)


def check_output(output: Output, made: Stage, files: Path) -> None:
    assert {table: in_halves(rows) for table, rows in output.rows.items()} == rows_of_files(files)
    live = [change for record, change in output.changes if record.origin[0] == "log"]
    assert live
    feed = made.feed.name
    if feed != "kv":  # the bytes of raw key-values are in no protocol
        sent = {(change.key, change.value) for change in recorded_changes(recording(made.recording.name), feed, codec=OF_FEED[feed])}
        assert all((change.key, change.value) in sent for change in live)
    assert {record.place for record, _ in output.marks} >= {record.place for record, _ in output.changes}


KAFKA = RecordedSink(
    "kafka",
    target,
    still=[Case("demo", "open-protocol", "recorded", 0), Case("demo", "canal-json", "snapshot", 1)],
    server="broker",
    group="kafka-sink",
    ddl_names=(),
)
"""Over schema changes, and of partitioned tables: test_kafka_sink_grid.py."""
