"""`[dump] fill_holes`: a dump of what is incomplete, as an operator's `dumpstart --holes`, without an operator.

- Its id is made of the holes that it fills. So the next owner asks for the same dump, and one that an operator has stopped is not begun
  again: it is the history's word that there was one. Another hole, or the same one noticed again, is another dump.
- It waits while a dump is there that is not over and has one of the tables: that one may fill them, and what is noticed again and again
  must not queue up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event

from sidecar.control.status import SidecarStatus
from sidecar.control.verification_messages import derived_id
from sidecar.ports import OperationHistory
from sidecar.shared.model.nouns import OperationId, TableName
from sidecar.shared.model.progress import holding
from ticdc_dump.v1 import control_pb2 as pb

LOOK_EVERY_S = 5.0
NAME = "the sidecar (dump.fill_holes)"
"""Who asks, in the history."""


class Filling:
    """Of one term. `start`: as the control service's Start; it raises what ends the service's life, which begins again after a pause."""

    def __init__(
        self, status: Callable[[], SidecarStatus | None], history: OperationHistory, start: Callable[[pb.StartRequest], object]
    ) -> None:
        self._status, self._history, self._start = status, history, start

    def serve(self, ending: Event) -> None:
        """Until the end of the term."""
        while not ending.wait(LOOK_EVERY_S):
            self.look()

    def look(self) -> None:
        """Start a dump where one is due. Raises what its start and the history raise."""
        status = self._status()
        if status is None or not (holes := sorted(_holes(status))):
            return
        tables = {table for _, table, _ in holes}
        dump_id = filling_id(holes)
        if not holding(tables, status.dumps) and self._history.find(dump_id) is None:
            self._start(pb.StartRequest(dump_id=dump_id, holes=True))


def filling_id(holes: list[tuple[str, TableName, int]]) -> OperationId:
    """Of the dump that fills these, each of a sink, a table and the segment in which it was noticed last."""
    return derived_id(repr(holes), "holes")


def _holes(status: SidecarStatus) -> Iterator[tuple[str, TableName, int]]:
    """Of the sinks that there are. A file may be of one that was taken out."""
    there = {sink.sink for sink in status.sinks}
    for name, tables in status.sink_tables.items():
        if name in there:
            yield from ((name, table, hole.seq) for table, hole in tables.holes.items())
