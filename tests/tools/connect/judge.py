"""A recording is written into topics by a sink that is killed, while all readers read; then each target is held against the source."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import pyspark
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from sidecar.shared.model.nouns import MARK_TABLE, TableName, TableSchema
from tests.support.recorded_target import Case, RecordedLog, RecordedLogs
from tests.support.replaying import Stage
from tests.support.services.connect import KafkaConnect
from tests.support.services.jars import jars
from tests.support.services.kafka import KafkaBroker
from tests.tools.connect.history import Topics, topics_of, written
from tests.tools.connect.iceberg import control_topic
from tests.tools.connect.kinds import REMOVED
from tests.tools.connect.plain import of_source
from tests.tools.connect.readers import Kind, Place, Reader, Row

POM = Path(__file__).with_name("pom.xml")
PREFIX = {True: "feed", False: "bare"}
"""Of the topics whose messages have their schemas, and of those whose messages have none."""
KILLS = 3
READ_S_MAX = 300.0
LOOK_EVERY_S = 1.0
SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """`rows` and `records`: of all tables. `differences`: one a table, empty if all are equal; or what stopped the reader."""

    reader: str
    records: int
    rows: int
    limits: Mapping[str, str]
    differences: Sequence[str] = field(default_factory=tuple)


def uri_of(brokers: str, *, schemas: bool) -> str:
    options = f"protocol=debezium&partition-num=2&invalid-dates=null-or-epoch&debezium-disable-schema={str(not schemas).lower()}"
    return f"kafka://{brokers}/{PREFIX[schemas]}?{options}"


def judged(folder: Path, case: Case, kinds: Sequence[Kind]) -> list[Verdict]:
    """One a kind, in their order. Raises RuntimeError if the sink or a server fails."""
    folder.mkdir(parents=True, exist_ok=True)
    made, log = case.record(RecordedLogs(folder))
    tables = _tables(made, log)
    kinds = [replace(kind, limits={**kind.limits, **(kind.amid if case.name in REMOVED else {})}) for kind in kinds]
    with KafkaBroker(folder / "kafka") as kafka, _reading(folder, kafka, kinds, tables, _names(log)) as running:
        topics = {schemas: _written(kafka, log, case, schemas=schemas) for schemas in sorted({kind.schemas for kind in kinds})}
        return [_verdict(one, topics[one.kind.schemas], made, tables) for one in running]


@dataclass(frozen=True, slots=True)
class _Running:
    """A reader, and the process of Kafka Connect that it has alone: two dialects in one process share Debezium's types, and make tables
    of one in the other."""

    kind: Kind
    reader: Reader
    connect: KafkaConnect
    kafka: KafkaBroker


@contextmanager
def _reading(
    folder: Path, kafka: KafkaBroker, kinds: Sequence[Kind], tables: Mapping[TableName, TableSchema], names: Sequence[TableName]
) -> Iterator[list[_Running]]:
    hadoop = map(str, (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar"))
    classpath = [f"{jars(POM)}/*", *hadoop]
    with ExitStack() as stack:
        running = list[_Running]()
        for kind in kinds:
            kafka.create_topic(control_topic(kind.name))
            its = folder / kind.name
            place = Place(kind.name, its, kafka.bootstrap, PREFIX[kind.schemas], tables, names)
            reader = stack.enter_context(kind.opened(place))
            connect = KafkaConnect(its / "connect", jars=classpath, brokers=kafka.bootstrap, connectors={kind.name: reader.settings})
            running.append(_Running(kind, reader, stack.enter_context(connect), kafka))
        yield running


def _written(kafka: KafkaBroker, log: RecordedLog, case: Case, *, schemas: bool) -> Topics:
    killed = written(log.folder, uri_of(kafka.bootstrap, schemas=schemas), PREFIX[schemas], kafka.bootstrap, kills=KILLS, seed=case.seed)
    if killed != KILLS:
        raise RuntimeError(f"{killed} of {KILLS} deliveries were killed: the recording is too short")
    return topics_of(kafka.bootstrap, PREFIX[schemas])


def _stopped(one: _Running, topics: Topics) -> str:
    """Empty when the reader has all of the topics, else why not."""
    deadline_s = time.monotonic() + READ_S_MAX
    while True:
        try:
            one.connect.states(one.kind.name)
        except RuntimeError as error:
            return str(error)
        missing = _missing(one, topics)
        if not missing or time.monotonic() > deadline_s:
            return missing
        time.sleep(LOOK_EVERY_S)  # neither a group nor a table has an event for its end


def _missing(one: _Running, topics: Topics) -> str:
    if one.reader.records is not None:
        there = {table: one.reader.records(table) for table in topics.records}
        wrong = {f"{table}": f"{there[table]} of {count}" for table, count in topics.records.items() if there[table] != count}
        return f"records that came: {wrong}" if wrong else ""
    places = [TopicPartition(*place) for place in topics.ends]
    group = ConsumerGroupTopicPartitions(f"connect-{one.kind.name}", places)
    result = one.kafka.admin().list_consumer_group_offsets([group])[group.group_id].result()
    behind = [place for place in result.topic_partitions if place.offset < topics.ends[place.topic, place.partition]]
    return f"not read to the end: {behind}" if behind else ""


def _verdict(one: _Running, topics: Topics, made: Stage, tables: Mapping[TableName, TableSchema]) -> Verdict:
    kind, stopped = one.kind, _stopped(one, topics)
    removed = REMOVED.get(made.recording.name, frozenset())
    differences, rows = [stopped] if stopped else list[str](), 0
    for schema in () if stopped else tables.values():
        try:
            result = one.reader.rows(kind.narrowed(schema))
        except ValueError as error:
            differences.append(str(error))
            continue
        rows += len(result)
        if said := compared(kind.narrowed(schema), source_rows(made, schema, kind), result, removed=schema.name.table in removed):
            differences.append(said)
    return Verdict(kind.name, topics.records.total(), rows, kind.limits, differences)


def _names(log: RecordedLog) -> list[TableName]:
    """Of all tables that there ever were."""
    schemas = {one for manifest in log.manifests for one in (manifest.schemas, manifest.next_schemas) if one}
    return sorted({name for one in schemas for name in log.log.read_schemas(one)} - {MARK_TABLE})


def _tables(made: Stage, log: RecordedLog) -> dict[TableName, TableSchema]:
    """That the source has at the end, without the table of marks."""
    names = log.log.read_schemas(log.manifests[-1].next_schemas or log.manifests[-1].schemas)
    schemas = {name: made.history.schema(name, made.recording.end_ts) for name in names if name != MARK_TABLE}
    return {name: schema for name, schema in schemas.items() if schema is not None}


def source_rows(made: Stage, schema: TableSchema, kind: Kind) -> list[Row]:
    """At the end of the recording, in the columns of `kind.narrowed`."""
    taken = [(at, column) for at, column in enumerate(schema.columns) if column.name not in kind.limits]
    rows = made.history.rows(schema.name, made.recording.end_ts).values()
    return [tuple(of_source(column, row[at]) for at, column in taken) for row in rows]


def compared(schema: TableSchema, truth: Sequence[Row], result: Sequence[Row], *, removed: bool = False) -> str:
    """Empty if equal, else how many rows and which values differ. `removed`: more rows may be there, those that a DDL removed."""
    at = [schema.column_names().index(name) for name in schema.key]
    keyed = [{tuple(row[place] for place in at): row for row in rows} for rows in (truth, result)]
    sizes = [len(truth), len(result)]
    source, target = keyed
    wrong = [key for key, row in source.items() if key in target and target[key] != row]
    gone, more = source.keys() - target.keys(), target.keys() - source.keys()
    if not wrong and not gone and (removed or not more) and sizes == [len(source), len(target)]:
        return ""
    cells = {key: _cells(schema, source[key], target[key]) for key in wrong}
    return (
        f"{schema.name}: {sizes[1]} rows, {sizes[0]} in the source; {len(gone)} missing {sorted(gone, key=repr)[:SHOWN_MAX]}, "
        f"{len(more)} too many {sorted(more, key=repr)[:SHOWN_MAX]}, {len(wrong)} other in {sorted({*chain(*cells.values())})}: "
        f"{[(key, cells[key]) for key in wrong[:SHOWN_MAX]]}"
    )


def _cells(schema: TableSchema, source: Row, target: Row) -> dict[str, str]:
    """Those that differ, by column."""
    rows = zip(schema.column_names(), source, target, strict=True)
    return {name: f"is {there!r}, not {value!r}" for name, value, there in rows if there != value}
