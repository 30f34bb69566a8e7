"""Recorded streams of real clusters into Kafka, whatever the schedule and whoever dies when: an independent consumer has the files sink's
rows, each once (without transactions: apart from repeats); behind a feed in the same protocol its live part is what TiCDC sent, byte for
byte; and rows of partitioned tables, of a dump or live, name the partition that TiCDC names for their key.

Schema changes are played by raw key-values, for over Kafka nobody is right amid some of them (tests/integration/test_ddl_recordings.py).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random

import pytest

from sidecar.adapters.memory.log import MemoryLog
from sidecar.shared.log.layout import logged_dumps
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Change, CommitTs, TableName
from sidecar.shared.model.progress import leading
from sidecar.shared.partition.ids import is_partitioned
from spark_merge.codecs.decode.rows import decode
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.merge.cut import BatchLimits
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.places import Here
from spark_merge.testing.story import Died, Mortal, WorkerLife
from tests.lanes import LANE
from tests.support.kafka_feeds import new_topic
from tests.support.kafka_output import Output, Schemas, decoded, read_all, without_repeats
from tests.support.logged import copied
from tests.support.recordings import recording
from tests.support.replaying import Run, live, stage
from tests.support.services.kafka import KafkaBroker
from tests.support.targets.kafka import in_halves, rows_of_files
from tests.unit.decode.log import logged, recorded_changes

pytestmark = [pytest.mark.xdist_group("kafka-sink"), pytest.mark.recordings]

OPEN, CANAL = "open-protocol", "canal-json"
STILL = ("demo", "shop", "shop-new", "restart")
WITH_KEY_VALUES = (*STILL, "rowformats")
WHOLE = [
    *((name, feed, feed, brackets) for name in STILL for feed in (OPEN, CANAL) for brackets in ("recorded", "watermark", "snapshot")),
    *((name, feed, other, "watermark") for name in STILL for feed, other in ((OPEN, CANAL), (CANAL, OPEN))),
    *((name, "open-protocol-index", OPEN, "snapshot") for name in ("shop", "shop-new", "restart")),
    *((name, "kv", protocol, brackets) for name in WITH_KEY_VALUES for protocol in (OPEN, CANAL) for brackets in ("watermark", "snapshot")),
    *((name, "kv", protocol, "watermark") for name in ("ddl", "ddl-new") for protocol in (OPEN, CANAL)),
]
CASES = WHOLE if LANE.whole else [("shop-new", CANAL, OPEN, "snapshot")]
WAYS = ("", "&transactions=false") if LANE.whole else ("",)
PARTITIONED = {"shop", "shop-new", "ddl", "ddl-new"}


def deliver(folder: Path, uri: str, *, seed: int, deaths: int) -> int:
    """To the end of the log, by workers of which the first ones die between any two steps; how many died."""
    rng, died = Random(seed), 0
    while True:
        life = WorkerLife(rng.randrange(1, 40 if died else 8) if died < deaths else -1)
        sink = open_sink(uri, log_id="recorded")
        try:
            limits = BatchLimits(segments_max=rng.choice([1, 5, 200]) if died < deaths else 200)
            delivery = Delivery(Mortal(sink, life), JobSettings(open_folder(str(folder)), limits=limits), Here(before=life.step))
            while delivery.deliver():
                pass
            return died
        except Died:
            died += 1
        finally:
            sink.close()


def schemas_of(log: MemoryLog, manifests: Sequence[Manifest]) -> Callable[[int], Schemas]:
    read = cache(log.read_schemas)
    return lambda seq: read(manifests[seq].schemas)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "feed", "protocol", "brackets"), CASES)
def test_a_consumer_has_the_rows_of_the_files(
    broker: KafkaBroker, tmp_path: Path, name: str, feed: str, protocol: str, brackets: str, way: str
) -> None:
    seed, topic = len(name) + len(feed) + len(brackets), new_topic()
    verdict, _, log = live(stage(name, feed), Run(brackets, seed, chunk_rows=50 if name == "demo" else 1000))
    assert feed != "kv" or verdict.ok
    manifests = copied(log, open_folder(f"{tmp_path}/log"))
    architecture = "new" if name.endswith("-new") else "classic"
    uri = f"kafka://{broker.bootstrap}/{topic}?protocol={protocol}&partition-num=3&architecture={architecture}{way}"
    assert deliver(tmp_path / "log", uri, seed=seed, deaths=2) > 0
    deliver(tmp_path / "log", f"file://{tmp_path}/files?format=jsonl", seed=seed, deaths=0)
    schemas = schemas_of(log, manifests)
    records = read_all(broker.bootstrap, [topic], committed=not way)
    output = decoded(without_repeats(records) if way else records, protocol, schemas)
    assert {table: in_halves(rows) for table, rows in output.rows.items()} == rows_of_files(tmp_path / "files")
    of = Counter(record.origin[0] for record, _ in output.changes)
    assert of["log"] > 100
    assert of["dump"] > 100
    assert {ts for _, ts in output.marks} == {manifest.upto_ts for manifest in manifests}
    check_dump_is_reported(output, manifests)
    if feed.startswith(protocol):
        sent = {(change.key, change.value) for change in recorded_changes(recording(name), feed, codec=protocol)}
        assert all((change.key, change.value) in sent for record, change in output.changes if record.origin[0] == "log")
    if protocol == OPEN and name in PARTITIONED and not name.startswith("ddl"):
        check_partitions(name, output, schemas(0))


def check_dump_is_reported(output: Output, manifests: Sequence[Manifest]) -> None:
    """In each partition, by marks alone: each segment's state, and each table once it is complete, behind all rows of it."""
    before, expected = set[CommitTs](), dict[int, tuple[str, str, list[list[str]]] | None]()
    for manifest in manifests:
        progress = leading(logged_dumps(manifest.dumps))
        tables = progress.tables if progress is not None else ()
        complete = [[*table.table] for table in tables if table.complete_at is not None and table.complete_at not in before]
        expected[manifest.seq] = None if progress is None else (progress.dump_id, progress.state, complete)
        before = {table.complete_at for table in tables if table.complete_at is not None}
    places = {record.place for record, _ in output.marks}
    last = dict[tuple[tuple[str, int], TableName], int]()
    for place in places:
        marks = [record for record, _ in output.marks if record.place == place]
        reported = {int(record.origin[1]): record.dump and tuple(record.dump.values()) for record in marks}
        assert reported == expected
        assert len(marks) == len(manifests), "a batch that was done again tells nothing again"
        last |= {(place, TableName(*table)): record.offset for record in marks if record.dump for table in record.dump["complete"]}
    assert [dump.state for dump in logged_dumps(manifests[-1].dumps)] == ["finished"]
    dumped = [(record, TableName(change.schema, change.table)) for record, change in output.changes if record.origin[0] == "dump"]
    assert {table for _, table in dumped} & {table for _, table in last}
    assert all(record.offset < last[record.place, table] for record, table in dumped if (record.place, table) in last)
    assert not any(record.dump for record, _ in output.changes)


def check_partitions(name: str, output: Output, schemas: Schemas) -> None:
    """Of each key that has a live row in TiCDC's own messages: unique keys hold the columns that partitions go by, so a key has one."""
    theirs = partitions_of(recorded_changes(recording(name), OPEN, codec=OPEN), schemas)
    assert all(len(results) == 1 for results in theirs.values())
    for origin in ("log", "dump"):
        ours = partitions_of([change for record, change in output.changes if record.origin[0] == origin], schemas)
        assert len(ours.keys() & theirs.keys()) > 20, origin
        assert {place: ours[place] for place in ours.keys() & theirs.keys()} == {
            place: theirs[place] for place in ours.keys() & theirs.keys()
        }
        assert all(results <= set(schemas[table].physical_ids) for (table, _), results in ours.items())


def partitions_of(changes: Sequence[Change], schemas: Schemas) -> dict[tuple[TableName, str], set[int]]:
    """Of rows of partitioned tables, by key."""
    partitioned = {table for table, schema in schemas.items() if is_partitioned(schema)}
    rows = [change for change in changes if (change.schema, change.table) in partitioned]
    partitions: dict[tuple[TableName, str], set[int]] = {}
    for row in decode(logged(rows, codec=OPEN), codec=OPEN, schemas=schemas).to_pylist():
        reported = json.loads(rows[row["ordinal"]].key)["ptn"]
        partitions.setdefault((TableName(row["schema"], row["table"]), row["key"]), set()).add(reported)
    return partitions
