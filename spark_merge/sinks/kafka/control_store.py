"""The position (`PositionStore`): control in the position topic, written by the one producer of a term (control.py).

    opening    read control: as before? → begin the term, which fences the previous owner or makes its states void → wait until readers see
               it → end what tasks of earlier terms do
    change     write the next state; a writer that is fenced has lost the output

Two workers that open at once fence each other. The one that is fenced before it has written its state gives up.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from sidecar.errors import OwnershipLost, SinkError
from spark_merge.sinks.kafka.client import OUTAGE_MAX_S, Fenced
from spark_merge.sinks.kafka.control import ControlWriter, control_writer
from spark_merge.sinks.kafka.output import CHUNK_PARTS, Output
from spark_merge.sinks.kafka.position import PositionReader
from spark_merge.sinks.kafka.position_records import Control, TopicBatch, check_term
from spark_merge.sinks.kafka.topics import make
from spark_merge.sinks.position import Missed, OutputState, Stored


@dataclass(frozen=True, slots=True)
class TopicProgress:
    """`begun`, `partitions`: as of `Control`."""

    begun: TopicBatch | None = None
    partitions: Mapping[str, int] = field(default_factory=dict)


class _Overtaken(Exception):
    """Control is not as it was read."""


class ControlStore:
    """`PositionStore` in the position topic of `output`. Holds connections until `close`."""

    def __init__(self, output: Output) -> None:
        self.place = str(output)
        self._output = output
        self._reader: PositionReader | None = None
        self._writer: ControlWriter | None = None
        self._control: Control | None = None
        self._lost: OwnershipLost | None = None

    @property
    def control(self) -> Control:
        """As this store wrote it last."""
        assert self._control is not None, "open comes first"
        return self._control

    @property
    def reader(self) -> PositionReader:
        if self._reader is None:
            self._reader = PositionReader(self._output.cluster, self._output.position_topic)
        return self._reader

    def read(self) -> Stored[TopicProgress] | None:
        control = self._read_control()
        return None if control is None else Stored(_state_of(control), control)

    def compare_and_swap(
        self,
        before: Stored[TopicProgress] | None,
        after: OutputState[TopicProgress],
        payload: None = None,  # noqa: ARG002 - the port's
    ) -> Stored[TopicProgress] | Missed:
        if before is None or before.state.owner != after.owner:
            return self._open(before, after)
        if before.version != self._control:
            return Missed.CONFLICT
        control = _with(self.control, after)
        with self._as_writer() as writer:
            writer.write(control)
        self._control = control
        return Stored(after, control)

    def slots_from(self) -> tuple[int, ...]:
        """For each transactional id, the offset after its last slot."""
        reader, topic = self.reader, self._output.position_topic
        return reader.ends(topic, range(1, reader.partitions(topic)))

    def close(self) -> None:
        self._close_writer()
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # ---- a term ------------------------------------------------------------------------------------------------------

    def _open(self, before: Stored[TopicProgress] | None, after: OutputState[TopicProgress]) -> Stored[TopicProgress] | Missed:
        expected = None if before is None else before.version
        if self._read_control() != expected:
            return Missed.CONFLICT  # before anything of a later owner is fenced
        self._close_writer()
        ids = self._count_ids()
        blank = Control(after.log_id, self._output.protocol, after.owner)

        def next_control() -> Control:
            known = self._read_control()
            if known != expected:
                raise _Overtaken
            return _with(known or blank, after)

        self._writer, self._lost = control_writer(self._output, self.reader), None
        try:
            with self._as_writer() as writer:
                self._control = writer.begin_term(next_control)
                self._await_own_control()
                writer.fence_tasks(ids)
        except _Overtaken:
            return Missed.CONFLICT
        return Stored(after, self._control)

    def _await_own_control(self) -> None:
        """Wait until every reader of control sees this owner. Raises OwnershipLost, SinkError."""
        deadline_s = time.monotonic() + OUTAGE_MAX_S
        while (control := self._read_control()) is None or control.owner < self.control.owner:
            if time.monotonic() > deadline_s:
                raise SinkError(f"{self.place}: the new owner is not visible in {self._output.position_topic}", hint="look at the brokers")
        check_term(control, self.control.term, self.place)

    @contextmanager
    def _as_writer(self) -> Iterator[ControlWriter]:
        if self._writer is None:
            raise self._lost or SinkError(f"{self.place} is not open", hint="start the worker again")
        try:
            yield self._writer
        except Fenced as fenced:
            self._lost = OwnershipLost(f"{self.place} has been opened by a later owner", hint="nothing: the later owner continues")
            self._close_writer()
            raise self._lost from fenced
        except BaseException:
            self._close_writer()
            raise

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    # ---- the topic ---------------------------------------------------------------------------------------------------

    def _read_control(self) -> Control | None:
        """Raises SinkError for messages in another protocol."""
        control = self.reader.control() if self.reader.partitions(self._output.position_topic) else None
        if control is not None and control.protocol != self._output.protocol:
            raise SinkError(
                f"{self.place} holds messages in {control.protocol}, this is {self._output.protocol}",
                hint=f"set protocol={control.protocol}, or give the sink another topic and dump again",
            )
        return control

    def _count_ids(self) -> int:
        """How many transactional ids tasks use; each has a partition for its slots. Creates the position topic if it does not exist."""
        topic, reader = self._output.position_topic, self.reader
        if not reader.partitions(topic):
            compacted = {"cleanup.policy": "compact"}
            make(self._output.cluster, topic, 2 + CHUNK_PARTS, replicas=self._output.replicas, config=compacted)
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


def _state_of(control: Control) -> OutputState[TopicProgress]:
    progress = TopicProgress(control.begun, control.partitions)
    return OutputState(control.log_id, control.owner, control.accepted, None if progress == TopicProgress() else progress)


def _with(control: Control, state: OutputState[TopicProgress]) -> Control:
    progress = state.detail or TopicProgress()
    return replace(
        control,
        log_id=state.log_id,
        owner=state.owner,
        accepted=state.accepted,
        begun=progress.begun,
        partitions=progress.partitions,
    )
