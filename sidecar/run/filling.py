"""`[dump] fill_holes`: dumps of what is incomplete, as an operator's `dumpstart --holes`, without an operator.

- A hole has one dump: which had one is in the log's folder, under the owner's name (shared/log/owned.py). So one that an operator stops,
  or that fills nothing, is not begun again. What is noticed again is another hole. A dump's id is made of its holes: where a process dies
  before that is on record, the next one requests the same dump.
- It waits while a dump is there that is not over and has one of the tables: that one may fill them, and what is noticed again and again
  must not queue up.
- Holes where rows vanished have dumps of their own: those are exact, and an exact dump can be refused for one table.
- A dump that is refused is requested in halves: one table that cannot be dumped leaves the others their dump, and is named in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Event

import msgspec

from sidecar.control.local_call import CallRejected
from sidecar.control.status import SidecarStatus
from sidecar.control.verification_messages import derived_id
from sidecar.shared.log import storage
from sidecar.shared.log.owned import OwnedLog, latest
from sidecar.shared.model.nouns import TableName
from sidecar.shared.model.progress import OVER, holding
from sidecar.shared.ticdc.table_rules import exact_rule
from ticdc_dump.v1 import control_pb2 as pb

LOOK_EVERY_S = 5.0
NAME = "the sidecar (dump.fill_holes)"
"""Who asks, in the history."""
STEM = "holes/begun"
"""Below a folder: beside the segments a look for it would list them all."""
BESIDE_MAX = 8
"""Dumps that are not over: operators have room left for theirs (core/dumps.py)."""
TABLES_MAX = 1_000
"""Of one dump. What is left has one when that is over."""

Holes = dict[TableName, tuple[int, bool]]
"""By table: the segment in which its hole was noticed last, in any sink, and whether rows vanished."""


class Filling:
    """Of one term. `start`: as the control service's Start, by local_call; what else it raises ends the service's life, which begins again
    after a pause. `note`: for people."""

    def __init__(
        self,
        status: Callable[[], SidecarStatus | None],
        log: OwnedLog,
        start: Callable[[pb.StartRequest], object],
        note: Callable[[str], object],
    ) -> None:
        self._status, self._log, self._start, self._note = status, log, start, note
        self._begun: dict[str, int] | None = None

    def serve(self, ending: Event) -> None:
        """Until the end of the term."""
        while not ending.wait(LOOK_EVERY_S):
            self.look()

    def look(self) -> None:
        """Start a dump where one is due. Raises what the log's storage raises, and what may be different later."""
        status = self._status()
        if status is None or not (holes := _holes(status)) or sum(dump.state not in OVER for dump in status.dumps) >= BESIDE_MAX:
            return
        begun = self._known()
        for vanished in (False, True):
            new = [table for table, (seq, gone) in sorted(holes.items()) if gone is vanished and seq > begun.get(str(table), -1)]
            if new and not holding(set(new), status.dumps):
                self._fill(new[:TABLES_MAX], holes)

    def _fill(self, tables: Sequence[TableName], holes: Holes) -> None:
        number = derived_id(repr([(table, holes[table][0]) for table in tables]), "holes")
        try:
            self._start(pb.StartRequest(dump_id=number, holes=True, table_rules=map(exact_rule, tables)))
        except CallRejected as rejected:
            if rejected.may_come_back:
                raise
            if len(tables) > 1:
                half = len(tables) // 2
                self._fill(tables[:half], holes)
                self._fill(tables[half:], holes)
                return
            self._note(f"the hole of {tables[0]} is not filled automatically: {rejected.details}")
        self._record(tables, holes)

    def _record(self, tables: Sequence[TableName], holes: Holes) -> None:
        """They have had their dump; what has no hole any more is forgotten."""
        self._begun = {str(table): seq for table, (seq, _) in holes.items() if seq == self._known().get(str(table)) or table in tables}
        self._log.write(STEM, msgspec.json.encode(self._begun))

    def _known(self) -> dict[str, int]:
        if self._begun is None:
            name = latest(self._log.folder, STEM)
            data = None if name is None else storage.read_if_there(self._log.folder, name)
            try:
                self._begun = {} if data is None else msgspec.json.decode(data, type=dict[str, int])
            except msgspec.DecodeError:
                self._note(f"{name} in the log cannot be read: what is incomplete is dumped once more")
                self._begun = {}
        return self._begun


def _holes(status: SidecarStatus) -> Holes:
    """Of the sinks that there are, and of tables that can be dumped."""
    there, holes = {sink.sink for sink in status.sinks}, Holes()
    for table, seq, vanished in _each(status, there):
        known_seq, known_vanished = holes.get(table, (seq, vanished))
        holes[table] = max(seq, known_seq), vanished or known_vanished
    return holes


def _each(status: SidecarStatus, sinks: set[str]) -> Iterator[tuple[TableName, int, bool]]:
    carried = set(status.carried)
    for name, tables in status.sink_tables.items():
        if name in sinks:
            yield from ((table, hole.seq, hole.vanished) for table, hole in tables.holes.items() if table in carried)
