"""The Kafka sink's worker: of the committing kind (port/contract.py). The order carries weight; after a crash between any two steps the
next owner repeats what is not accepted:

    open    read control ─► init the control id ─► owner in control ─► init all other ids
    plan    topics ─► begun in control          tasks    rows and slot, a transaction each          accept    accepted in control

- The owner that inits the control id fences a racing owner. By initialising the other ids it aborts the open transactions of previous
  tasks, and fences those tasks. A previous task that takes an id later reads the new owner in control (claims.py): so readers must see
  control before the first of these ids is taken.
- Without transactions no id is initialised: a replaced owner and its tasks read control, and stop (acknowledged_position.py).
- A batch that was begun is done again in the same cut, as the sink of the same name receives it, with the same numbers of partitions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from sidecar.shared.codecs.registry import WRITTEN
from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableSchema
from spark_merge.merge.cut import stages
from spark_merge.port.contract import Accepted, Batch, Head, Outcome, Standing, has_rows
from spark_merge.port.readable import Reading
from spark_merge.sinks.kafka.acknowledged_position import control_store
from spark_merge.sinks.kafka.ending import endings
from spark_merge.sinks.kafka.output import LIVE, Output
from spark_merge.sinks.kafka.partitions import verify, verify_whole_keys
from spark_merge.sinks.kafka.position import TopicProgress
from spark_merge.sinks.kafka.position_records import TopicBatch
from spark_merge.sinks.kafka.reading import read_back
from spark_merge.sinks.kafka.topics import check_apart, partitions_of
from spark_merge.sinks.kafka.writer import KafkaWriter, TaskPlace
from spark_merge.sinks.kit.position import PositionKeeper

FEW_ROWS = 30_000
"""Rows of chunks in a segment that go with its live rows in one task: a transaction takes as long as a core needs for so many rows."""

SLOTS_FROM_EVERY_BATCHES = 500
"""So often `slots_from` moves to the end of the slots: a task that takes an id reads the slots of at most so many batches."""

REMEDY = "give another log another topic, and dump again; or another position-topic, if both shall write one topic"

ROUTED_MAX = 8
"""Sets of tables whose topics are kept."""


class SegmentTopics(NamedTuple):
    """Those that a segment is written to, and those of them that its resolved mark goes to."""

    written: frozenset[str]
    marked: frozenset[str]


class KafkaSink:
    finds_keys = False

    def __init__(self, output: Output, *, log_id: str) -> None:
        self.output = output
        self._store = control_store(output)
        self._log_id = log_id
        self._position = PositionKeeper(self._store, log_id=log_id, remedy=REMEDY)
        self._slots_from: tuple[int, ...] = ()
        self._batches = 0
        self._routed: dict[tuple[str, str], SegmentTopics] = {}
        self._counted_topics = frozenset[str]()

    def look(self) -> Accepted | None:
        return self._position.look()

    def open(self, *, epoch: int | None) -> Standing:
        self._counted_topics = frozenset()
        state = self._position.open(epoch)
        self._slots_from = self._store.slots_from()
        if (begun := self._progress.begun) is None:
            return Standing(state.owner, state.accepted)
        return Standing(state.owner, state.accepted, Accepted(begun.last, manifest=begun.manifest), begun.sink)

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:  # noqa: ARG002 - the cut must not depend on the cores
        topics = {head.seq: self._topics(head) for head in heads}
        begun = self._begun(heads, self._counted(frozenset().union(*(one.written for one in topics.values()))))
        term, counts = self._store.control.term, dict(self._progress.partitions)
        cut = stages(heads, chunk_parts=len(begun.slots_from) - 1, raw=True, few_rows=begun.few_rows)
        places = {
            task.id: TaskPlace(1 + number if any(unit.chunks for unit in task.units) else LIVE, stage)
            for stage, tasks in enumerate(cut)
            for number, task in enumerate(tasks)
        }
        marked = {seq: one.marked for seq, one in topics.items()}
        writer = KafkaWriter(self.output, term, begun.last, begun.slots_from, places, endings(heads, cut, marked), counts)
        return Batch(tuple(heads), cut, writer)

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002 - the slots hold them
        last, progress = Accepted.of(batch.heads[-1].manifest), self._progress
        begun = progress.begun
        if begun is None or (begun.first, begun.last) != (batch.heads[0].seq, last.seq):
            raise SinkError(
                f"{self.output} has {begun or 'no batch'} begun, and is given segments {batch.heads[0].seq} to {last.seq}",
                hint="start the worker again",
            )
        self._position.accept(last, first=batch.heads[0].seq, detail=replace(progress, begun=None))

    def reading(self, schema: TableSchema, *, parts: int, keys: pa.Table | None = None) -> Reading:  # noqa: ARG002 - a topic has no index
        """By connections of its own."""
        with closing(control_store(self.output)) as store:
            state = PositionKeeper(store, log_id=self._log_id, remedy=REMEDY).stored()
            if state is None or state.accepted is None:
                return Reading(None, True, ())
            partitions = (state.detail or TopicProgress()).partitions
            return read_back(self.output, store.reader, state.accepted, partitions, schema, parts=parts)

    def close(self) -> None:
        self._store.close()

    @property
    def _progress(self) -> TopicProgress:
        return self._position.state.detail or TopicProgress()

    def _begun(self, heads: Sequence[Head], partitions: Mapping[str, int]) -> TopicBatch:
        """The batch, on record. Raises SinkError for another one than was begun."""
        log = hashlib.sha256("\n".join(head.manifest.id or str(head.upto_ts) for head in heads).encode()).hexdigest()[:32]
        if (begun := self._progress.begun) is not None:
            if not begun.manifest and begun.log != log:  # 0.4 and before: the delivery has nothing to compare
                raise SinkError(
                    f"{self.output} has begun other segments up to {begun.last}", hint="put the log back whose segments were begun"
                )
            return begun
        self._position.check_next(heads[0].seq)
        self._batches += 1
        if not self._batches % SLOTS_FROM_EVERY_BATCHES:
            self._slots_from = self._store.slots_from()
        last = heads[-1]
        begun = TopicBatch(heads[0].seq, last.seq, log, self._slots_from, FEW_ROWS, heads[0].received_as, last.manifest.id)
        self._position.change(TopicProgress(begun, partitions))
        return begun

    def _topics(self, head: Head) -> SegmentTopics:
        """Of its tables, before and after its DDLs. Raises SinkError for a table whose rows the dispatchers cannot place."""
        place = (head.manifest.schemas, head.manifest.next_schemas or "")
        if place not in self._routed:
            router, tables = self.output.router, {**head.schemas, **head.next_schemas}
            protocol = WRITTEN[self.output.protocol]
            for name, schema in tables.items():
                verify(router.partition_rule(name), schema)
                if protocol.as_debezium and has_rows(schema):
                    verify_whole_keys(router.partition_rule(name), schema)
            if protocol.rows_alone:
                check_apart(router, head.schemas)
                check_apart(router, head.next_schemas)
            self._routed = {
                **dict(list(self._routed.items())[-ROUTED_MAX:]),
                place: SegmentTopics(router.topics(tables), router.mark_topics(tables)),
            }
        return self._routed[place]

    def _counted(self, topics: frozenset[str]) -> Mapping[str, int]:
        """The partitions of all known topics; each topic is read once a term."""
        new = topics - self._counted_topics
        if not new:
            return self._progress.partitions
        counts = partitions_of(self.output, self._store.reader, new, self._progress.partitions)
        self._counted_topics |= new
        return counts
