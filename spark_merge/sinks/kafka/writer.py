"""A task at Kafka: its rows, its DDLs and resolved marks, and its slot.

    claim ─► for each unit: rows ─► (the last unit of a segment) DDLs ─► settle ─► a resolved mark to every partition ─► slot

What `settle` and the slot wait for: write_modes.py.

- Live rows in the output's own protocol are the bytes that TiCDC sent, but for some (rows.py); all others are encoded.
- A row that is larger than a message is in a file, or ends the task before any row of its source transaction is written (large_rows.py).
- A delete has a tombstone behind it, a record of its key without a value, if the output says so.
- A header (HEADER) says where a record is from, another one (TS_HEADER) its commit_ts where its message may not. Consumers that do not
  know them ignore them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from operator import attrgetter, itemgetter

import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.codecs.registry import WRITTEN
from sidecar.shared.model.nouns import CommitTs, Seq, TableName, TableSchema
from spark_merge.codecs.encode.by_table import by_table
from spark_merge.codecs.encode.messages import changes_of
from spark_merge.port.contract import ChunkPiece, Counts, Outcome, Piece, Portion, Rows, Task
from spark_merge.sinks.kafka.claims import TaskRequested
from spark_merge.sinks.kafka.client import Fenced
from spark_merge.sinks.kafka.ending import DUMP_HEADER, HEADER, TS_HEADER, TopicEnding
from spark_merge.sinks.kafka.holder import OF_PROCESS, IdHolder
from spark_merge.sinks.kafka.large_rows import sendable
from spark_merge.sinks.kafka.output import Output
from spark_merge.sinks.kafka.partitions import by_handle_key, partitions
from spark_merge.sinks.kafka.position_records import SinkTerm
from spark_merge.sinks.kafka.producer import Headers, KafkaRecord
from spark_merge.sinks.kafka.rows import encoded, of_log

_TOMBSTONE = b"tombstone %d %d"


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """`number`: of the transactional id that a task writes with. `stage`: of the batch; the task's slot is named after it."""

    number: int
    stage: int


@dataclass(frozen=True, slots=True)
class KafkaWriter:
    """For one batch, whose last segment is `batch`. `partitions`: for each topic, how many are written."""

    output: Output
    term: SinkTerm
    batch: Seq
    slots_from: tuple[int, ...]
    places: Mapping[str, TaskPlace]
    endings: Mapping[Seq, TopicEnding]
    partitions: Mapping[str, int]

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        place = self.places[task.id]
        with OF_PROCESS.held(self.output, place.number, self.term) as holder:
            try:
                if (answer := holder.claim(TaskRequested(self.batch, task.id, self.slots_from[place.number]))) is not None:
                    return answer
                outcome = Outcome(task.id, self._written(task, portions, holder))
                holder.commit(self.batch, outcome, key=b"%d" % place.stage)
            except Fenced:
                return holder.answer_of_twin()
            except BaseException:
                holder.abort()
                raise
        return outcome

    def _written(self, task: Task, portions: Iterator[Portion], holder: IdHolder) -> Counts:
        counts: Counts = {}
        units = groupby(portions, key=attrgetter("unit"))
        following = next(units, None)
        for unit in task.units:
            if following is not None and following[0] == unit:
                for together in by_table(following[1]):
                    for schema, piece in together:
                        place = (unit.seq, schema.name)
                        counts[place] = counts.get(place, Rows()).plus(Rows.of(piece))
                    tables = [self._rows(unit.seq, schema, piece) for schema, piece in together]
                    holder.write(map(itemgetter(1), tables[0] if len(tables) == 1 else merge(*tables, key=itemgetter(0))))
                following = next(units, None)
            if (ending := self.endings.get(unit.seq)) is not None and unit.live and unit.part == ending.part:
                holder.write(self._ddls(unit.seq, ending))
                holder.settle()
                holder.write(self._marks(unit.seq, ending))
        assert following is None, "rows of a table in a segment are of no unit of their task"
        return counts

    # ---- rows -------------------------------------------------------------------------------------------------------

    def _rows(self, seq: Seq, schema: TableSchema, piece: Piece) -> Iterator[tuple[CommitTs, KafkaRecord]]:
        """Of one table, in order."""
        output, codec, topic = self.output, self.endings[seq].codec, self.output.router.topic(schema.name)
        if isinstance(piece, ChunkPiece):
            origin, tail = f"dump {seq}", f"{piece.due.dump_id} {piece.due.number}"
            rows = encoded(changes_of(piece, schema), schema, output.encoder, output.protocol, keys_only=piece.deletes, topic=topic)
        else:
            origin, tail = f"log {seq}", ""
            rows = of_log(piece, schema, output.encoder, output.protocol, codec=codec, topic=topic)
        changes = rows.changes
        from_where = pc.binary_join_element_wise(origin, pc.cast(changes["ordinal"], pa.string()), tail or changes["op"], " ")
        headers = pc.cast(from_where, pa.binary()).to_pylist()
        messages, numbers_of = sendable(output, schema, rows, headers), self._partitions(topic, schema, piece, changes)
        has_tombstone, bare = self._has_tombstone(changes), WRITTEN[output.protocol].bare_deletes
        for place, (message, numbers, commit_ts) in enumerate(zip(messages, numbers_of, changes["commit_ts"].to_pylist(), strict=True)):
            if message is not None:
                key, value = message
                of_row: Headers = [(HEADER, headers[place])]
                of_row += [(TS_HEADER, b"%d" % commit_ts)] if bare else []
                for number in numbers:
                    yield commit_ts, (topic, number, key, value, of_row)
                    if has_tombstone[place]:
                        yield commit_ts, (topic, number, key, None, [(HEADER, _TOMBSTONE % (seq, changes["ordinal"][place].as_py()))])

    def _has_tombstone(self, changes: pa.Table) -> Sequence[bool]:
        """Of each row. Such a record lets a compacted topic forget the key."""
        if not self.output.tombstones:
            return [False] * changes.num_rows
        deletes: list[bool] = pc.equal(changes["op"], "delete").to_pylist()
        return deletes

    def _partitions(self, topic: str, schema: TableSchema, piece: Piece, changes: pa.Table) -> Sequence[Sequence[int]]:
        """To which each row goes. A delete of a key alone goes to every partition where other columns decide: the row may be in any."""
        rule, count = self.output.router.partition_rule(schema.name), self.partitions[topic]
        if isinstance(piece, ChunkPiece) and piece.deletes and not by_handle_key(rule, schema):
            return [range(count)] * changes.num_rows
        each = [(number,) for number in range(count)]
        return [each[number] for number in partitions(rule, schema, changes, count).tolist()]

    # ---- what ends a segment ----------------------------------------------------------------------------------------

    def _ddls(self, seq: Seq, ending: TopicEnding) -> Iterator[KafkaRecord]:
        for number, (ddl, before, after) in enumerate(ending.ddls):
            if ddl.commit_ts in self.output.ddl_done:
                continue
            message = self.output.encoder.ddl(ddl, before, after)
            topic = self.output.router.ddl_topic(before.name if before else TableName(ddl.schema, ddl.table))
            for partition in self.output.router.ddl_partitions(self.partitions[topic]):
                yield topic, partition, *message, [(HEADER, b"ddl %d %d" % (seq, number))]

    def _marks(self, seq: Seq, ending: TopicEnding) -> Iterator[KafkaRecord]:
        message = self.output.encoder.resolved(ending.upto_ts)
        headers: Headers = [(HEADER, b"resolved %d" % seq)]
        headers += [] if ending.dump is None else [(DUMP_HEADER, ending.dump)]
        for topic in ending.topics:
            for partition in range(self.partitions[topic]):
                yield topic, partition, *message, headers
