"""The Kafka sink's worker: of the committing kind (contract.py). The order carries weight; after a crash between any two steps the next
owner repeats what is not accepted:

    open    read control ─► init the control id ─► owner in control ─► init all other ids
    plan    topics ─► begun in control          tasks    rows and slot, a transaction each          accept    accepted in control

- The owner that inits the control id fences a racing owner. By initialising the other ids it aborts the open transactions of previous
  tasks, and fences those tasks. A previous task that takes an id later reads the new owner in control (claims.py): so readers must see
  control before the first of these ids is taken.
- Without transactions no id is initialised: a replaced owner and its tasks read control, and stop (control.py, claims.py).
- A batch that was begun is done again in the same cut, with the same numbers of partitions.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sidecar.errors import OwnershipLost, SinkError
from spark_merge.contract import Accepted, Batch, Head, Outcome, Owner, Standing
from spark_merge.cut import stages
from spark_merge.sinks.fence import check_log, check_next
from spark_merge.sinks.kafka.client import OUTAGE_MAX_S, Fenced
from spark_merge.sinks.kafka.control import ControlWriter, control_writer
from spark_merge.sinks.kafka.ending import endings
from spark_merge.sinks.kafka.output import CHUNK_PARTS, LIVE, Output
from spark_merge.sinks.kafka.partitions import verify
from spark_merge.sinks.kafka.position import PositionReader
from spark_merge.sinks.kafka.position_records import Begun, Control, check_owner
from spark_merge.sinks.kafka.topics import make, partitions_of
from spark_merge.sinks.kafka.writer import KafkaWriter, TaskPlace

FEW_ROWS = 30_000
"""Rows of chunks in a segment that go with its live rows in one task: a transaction takes as long as a core needs for so many rows."""

SLOTS_FROM_EVERY_BATCHES = 500
"""So often `slots_from` moves to the end of the slots: a task that takes an id reads the slots of at most so many batches."""

ROUTED_MAX = 8
"""Sets of tables whose topics are kept."""


class KafkaSink:
    def __init__(self, output: Output, *, log_id: str) -> None:
        self.output, self._log_id = output, log_id
        self._reader: PositionReader | None = None
        self._writer: ControlWriter | None = None
        self._control = Control(log_id, output.protocol, Owner(-1, 0))
        self._lost: OwnershipLost | None = None
        self._slots_from: tuple[int, ...] = ()
        self._batches = 0
        self._routed: dict[tuple[str, str], frozenset[str]] = {}
        self._counted_topics = frozenset[str]()

    def look(self) -> Accepted | None:
        control = self._read_control()
        return control.accepted if control else None

    def open(self, *, epoch: int | None) -> Standing:
        self._close_writer()
        self._counted_topics = frozenset()
        self._next_control(epoch)  # before anything of a later owner is fenced
        ids = self._count_ids()
        self._writer, self._lost = control_writer(self.output, self._position()), None
        with self._as_writer() as writer:
            self._control = writer.begin_term(lambda: self._next_control(epoch))
            self._await_own_control()
            writer.fence_tasks(ids)
        self._slots_from = self._ends()
        begun = self._control.begun
        return Standing(self._control.owner, self._control.accepted, begun.last if begun else None)

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:  # noqa: ARG002 - the cut must not depend on the cores
        topics = {head.seq: self._topics(head) for head in heads}
        self._begin(heads, self._counted(frozenset().union(*topics.values())))
        assert self._control.begun is not None
        begun, term, counts = self._control.begun, self._control.term, dict(self._control.partitions)
        cut = stages(heads, chunk_parts=len(begun.slots_from) - 1, raw=True, few_rows=begun.few_rows)
        places = {
            task.id: TaskPlace(1 + number if any(unit.chunks for unit in task.units) else LIVE, stage)
            for stage, tasks in enumerate(cut)
            for number, task in enumerate(tasks)
        }
        writer = KafkaWriter(self.output, term, begun.last, begun.slots_from, places, endings(heads, cut, topics), counts)
        return Batch(tuple(heads), cut, writer)

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002 - the slots hold them
        last, begun = Accepted.of(batch.heads[-1].manifest), self._control.begun
        if begun is None or (begun.first, begun.last) != (batch.heads[0].seq, last.seq):
            raise SinkError(
                f"{self.output} has {begun or 'no batch'} begun, and is given segments {batch.heads[0].seq} to {last.seq}",
                hint="start the worker again",
            )
        self._write(replace(self._control, accepted=last, begun=None))

    def close(self) -> None:
        self._close_writer()
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # ---- what is known ----------------------------------------------------------------------------------------------

    def _position(self) -> PositionReader:
        if self._reader is None:
            self._reader = PositionReader(self.output.cluster, self.output.position_topic)
        return self._reader

    def _read_control(self) -> Control | None:
        """Raises SinkError for another log's."""
        reader = self._position()
        control = reader.control() if reader.partitions(self.output.position_topic) else None
        if control is None:
            return None
        hint = "give another log another topic, and dump again; or another position-topic, if both shall write one topic"
        check_log(self.output, control.log_id, self._log_id, hint=hint)
        if control.protocol != self.output.protocol:
            raise SinkError(
                f"{self.output} holds messages in {control.protocol}, this is {self.output.protocol}",
                hint=f"set protocol={control.protocol}, or give the sink another topic and dump again",
            )
        return control

    def _next_control(self, epoch: int | None) -> Control:
        """The state with this worker as its owner, not yet written. Raises OwnershipLost, SinkError."""
        control = self._read_control()
        owner = Owner.after(control.owner if control else None, epoch, of=self.output)
        return replace(control or Control(self._log_id, self.output.protocol, owner), owner=owner, log_id=self._log_id)

    def _count_ids(self) -> int:
        """How many transactional ids tasks use; each has a partition for its slots. Creates the position topic if it does not exist."""
        topic, reader = self.output.position_topic, self._position()
        if not reader.partitions(topic):
            compacted = {"cleanup.policy": "compact"}
            make(self.output.cluster, topic, 2 + CHUNK_PARTS, replicas=self.output.replicas, config=compacted)
        count = reader.partitions(topic)
        deadline_s = time.monotonic() + OUTAGE_MAX_S
        while not count and time.monotonic() < deadline_s:
            time.sleep(0.05)
            count = reader.partitions(topic)
        if count < 3:
            raise SinkError(
                f"position topic {topic} has {count} partitions, and needs 3 or more: control, live rows, dumps' rows",
                hint="remove it, if it is nobody's, and let the sink make it; or name another one with position-topic=",
            )
        return count - 1

    def _ends(self) -> tuple[int, ...]:
        reader = self._position()
        count = reader.partitions(self.output.position_topic)
        return reader.ends(self.output.position_topic, range(1, count))

    # ---- what is written --------------------------------------------------------------------------------------------

    def _begin(self, heads: Sequence[Head], partitions: Mapping[str, int]) -> None:
        """Have the batch on record. Raises SinkError for another one than was begun."""
        begun = self._control.begun
        log = hashlib.sha256("\n".join(head.manifest.id or str(head.upto_ts) for head in heads).encode()).hexdigest()[:32]
        if begun is not None:
            if (begun.first, begun.last, begun.log) != (heads[0].seq, heads[-1].seq, log):
                raise SinkError(
                    f"{self.output} has begun segments {begun.first} to {begun.last}, and is given {heads[0].seq} to {heads[-1].seq}",
                    hint="put the log back whose segments were begun",
                )
            return
        accepted = self._control.accepted
        check_next(self.output, accepted and accepted.seq, heads[0].seq)
        self._batches += 1
        if not self._batches % SLOTS_FROM_EVERY_BATCHES:
            self._slots_from = self._ends()
        begun = Begun(heads[0].seq, heads[-1].seq, log, self._slots_from, FEW_ROWS)
        self._write(replace(self._control, begun=begun, partitions=partitions))

    def _write(self, control: Control) -> None:
        """The one durable step of this file. Raises OwnershipLost, SinkError; then nothing is known to be written."""
        with self._as_writer() as writer:
            writer.write(control)
        self._control = control

    @contextmanager
    def _as_writer(self) -> Iterator[ControlWriter]:
        if self._writer is None:
            raise self._lost or SinkError(f"{self.output} is not open", hint="start the worker again")
        try:
            yield self._writer
        except Fenced as fenced:
            self._lost = OwnershipLost(f"{self.output} has been opened by a later owner", hint="nothing: the later owner continues")
            self._close_writer()
            raise self._lost from fenced
        except BaseException:
            self._close_writer()
            raise

    def _await_own_control(self) -> None:
        """Wait until every reader of control sees this owner. Raises OwnershipLost, SinkError."""
        deadline_s = time.monotonic() + OUTAGE_MAX_S
        while (control := self._read_control()) is None or control.owner < self._control.owner:
            if time.monotonic() > deadline_s:
                raise SinkError(f"{self.output}: the new owner is not visible in {self.output.position_topic}", hint="look at the brokers")
        check_owner(control, self._control.term, self.output)

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _topics(self, head: Head) -> frozenset[str]:
        """Of its tables, before and after its DDLs. Raises SinkError for a table whose rows the dispatchers cannot place."""
        place = (head.manifest.schemas, head.manifest.next_schemas or "")
        if place not in self._routed:
            router, tables = self.output.router, {**head.schemas, **head.next_schemas}
            for name, schema in tables.items():
                verify(router.partition_rule(name), schema)
            self._routed = {**dict(list(self._routed.items())[-ROUTED_MAX:]), place: router.topics(tables)}
        return self._routed[place]

    def _counted(self, topics: frozenset[str]) -> Mapping[str, int]:
        """The partitions of all known topics; each topic is read once a term."""
        new = topics - self._counted_topics
        if not new:
            return self._control.partitions
        counts = partitions_of(self.output, self._position(), new, self._control.partitions)
        self._counted_topics |= new
        return counts
