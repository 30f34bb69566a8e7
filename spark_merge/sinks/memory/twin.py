"""What the twins of all kinds share: all of a sink but how it cuts a batch and shows it."""

from __future__ import annotations

import pyarrow as pa

from sidecar.shared.model.nouns import TableSchema
from spark_merge.port.contract import Accepted, Batch, Owner, Standing
from spark_merge.port.readable import Reading
from spark_merge.sinks.kit.position import PositionKeeper
from spark_merge.sinks.memory.reading import read_back
from spark_merge.sinks.memory.target import Begun, target


class Twin:
    finds_keys = False

    def __init__(self, name: str, *, log_id: str) -> None:
        self._name, self._target = name, target(name)
        self._position: PositionKeeper[Begun, None] = PositionKeeper(self._target.positions, log_id=log_id, remedy="use another target")

    @property
    def _owner(self) -> Owner:
        return self._position.state.owner

    def look(self) -> Accepted | None:
        return self._position.look()

    def open(self, *, epoch: int | None) -> Standing:
        with self._target.lock:
            state = self._position.open(epoch)
        begun = state.detail
        return Standing(state.owner, state.accepted, begun.last if begun else None, begun.sink if begun else None)

    def reading(self, schema: TableSchema, *, parts: int, keys: pa.Table | None = None) -> Reading:  # noqa: ARG002 - rows are in one list
        return read_back(self._name, schema, parts=parts)

    def close(self) -> None:
        """Nothing is held."""

    def _accept(self, batch: Batch) -> None:
        """The last durable step."""
        self._position.accept(Accepted.of(batch.heads[-1].manifest), first=batch.heads[0].seq)
