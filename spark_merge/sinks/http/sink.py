"""The http: sink's driver. A receiver keeps a line of ours, the state (state.py), and swaps it in the transaction of a body's lines:

    open    look ─► the next owner in the state        tasks    body after body, in order, each from state to state        accept    look

So position, fence and what was begun are one thing: an earlier owner's body continues a state that is no more. Rows are seen in their
order as bodies come, and nothing is sent twice: a batch that is done again, in whatever cut, continues where the receiver is. A segment of
which the receiver has a part is on record as begun, and is the next batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableSchema
from spark_merge.port.contract import Accepted, Batch, Head, Outcome, Standing, Task, Unit
from spark_merge.port.readable import Reading
from spark_merge.sinks.http.client import Receiver, client_of
from spark_merge.sinks.http.position import ReceiverPositions
from spark_merge.sinks.http.reading import read_back
from spark_merge.sinks.http.records import ending_of
from spark_merge.sinks.http.state import ReceiverState
from spark_merge.sinks.http.writer import BodyLimits, HttpWriter, mine
from spark_merge.sinks.kit.fence import check_next
from spark_merge.sinks.kit.position import PositionKeeper


class HttpSink:
    """`log_id` names the log for ever."""

    finds_keys = False

    def __init__(self, receiver: Receiver, limits: BodyLimits, *, log_id: str) -> None:
        self.receiver, self._limits = receiver, limits
        self._positions = ReceiverPositions(receiver)
        remedy = "name another output (another path, if the receiver keeps one for each), and dump again"
        self._position = PositionKeeper(self._positions, log_id=log_id, remedy=remedy)
        self._state: ReceiverState | None = None

    def look(self) -> Accepted | None:
        return self._position.look()

    def open(self, *, epoch: int | None) -> Standing:
        self._position.open(epoch)
        self._state = state = self._positions.swapped()
        if (begun := state.begun) is None:
            return Standing(state.owner, state.accepted)
        return Standing(state.owner, state.accepted, Accepted(begun.seq, manifest=begun.manifest), begun.sink)

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:  # noqa: ARG002 - one task alone is in order
        state = self._opened()
        units = tuple(Unit(head.seq, live=True, chunks=tuple(head.due_chunks())) for head in heads)
        task = Task(f"{heads[0].seq}-{heads[-1].seq}", units, "segment")
        writer = HttpWriter(self.receiver, self._limits, state, tuple(map(ending_of, heads)))
        return Batch(tuple(heads), ((task,),), writer)

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002 - the receiver has them
        state, client = self._opened(), client_of(self.receiver)
        before, last = state.accepted, Accepted.of(batch.heads[-1].manifest)
        check_next(self.receiver, before and before.seq, batch.heads[0].seq)
        state_there = mine(client, client.state(), state)
        if state_there.accepted != last:
            raise SinkError(
                f"{self.receiver} has accepted {state_there.accepted}, and the tasks up to {last} are done", hint="start the worker again"
            )
        self._state = state_there

    def reading(self, schema: TableSchema, *, parts: int, keys: pa.Table | None = None) -> Reading:  # noqa: ARG002 - lines have no index
        accepted = self.look()
        if accepted is None:
            return Reading(None, True, ())
        return read_back(self.receiver, accepted, schema, parts=parts)

    def close(self) -> None:
        client_of(self.receiver).close()

    def _opened(self) -> ReceiverState:
        if self._state is None:
            raise SinkError(f"{self.receiver} was not opened", hint="report this: it is a defect of ticdc-dump")
        return self._state
