"""Continuous verification: a slice of a table in a sink is compared, then there is a pause, then comes the next one.

    due? ─► cycle.py: which slice ─► its file ─► the request, as of an operator (term_verifications.py) ─► its report ─► its file

- The file is written before the request and after the report, so the next owner continues with the slice that is under way. It is of its
  owner's epoch (shared/log/owned.py), so that what a late owner writes is none of the next one's.
- One slice at a time, and none while a dump or another verification is there.
- Only sinks that work and can be read back, and only tables of which they have all rows.
- A file that cannot be read begins a cycle: what was compared is compared again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from time import monotonic
from typing import Protocol

import msgspec

from sidecar.control.answers import new_operation_id
from sidecar.control.dump_scope import Scope, resolve
from sidecar.control.judging import unjudged
from sidecar.control.served import Served
from sidecar.control.service import ASKING_MAX_S
from sidecar.control.verification_messages import asked
from sidecar.ports import Caller, SchemaSource
from sidecar.run.cycle import DAY_MS, Cycle, TableInSink, VerifiedSinks, VerifiedTable, cycle_from_json
from sidecar.run.log_event import LogEvent
from sidecar.shared.errors import LogBroken, LogUnreachable, RefusedRequest, StorageFull, TicdcDumpError
from sidecar.shared.log import storage
from sidecar.shared.log.owned import OwnedLog, latest
from sidecar.shared.log.verification import CYCLE_STEM, Slice, VerifyReport, VerifyRequest
from sidecar.shared.model.messages import Asker
from sidecar.shared.model.nouns import OperationId, TableName, operation_id
from sidecar.shared.ticdc.hidden_changes import are_all
from sidecar.shared.ticdc.table_rules import exact_rule
from ticdc_dump.v1 import control_pb2 as pb

ASKER = Asker("the sidecar", "", "continuous verification")

AGAIN_S = 30.0
"""Where the source does not answer, or there is nothing to compare."""


class SliceSource(Protocol):
    """What there is to compare. Raises TicdcDumpError."""

    def carried(self) -> Collection[TableInSink] | None:
        """All tables in all sinks that can be read back, without those of which no difference can be judged; None: not known."""

    def ready(self) -> Collection[TableInSink]:
        """Of these, those of sinks that work and have all rows of the table; none while a dump is there that is not over."""

    def rows(self, tables: Sequence[TableName]) -> Mapping[TableName, int]:
        """By the source's statistics, where it has some."""

    def request(self, name: TableInSink, part: Slice) -> VerifyRequest:
        """Raises RefusedRequest, too, for a table that cannot be compared."""


class ContinuousVerification:
    """For the thread of the service, but for `metrics`. `share_per_day`: of all rows; 0: no slices, and only what operators verify is
    recorded."""

    def __init__(
        self, log: OwnedLog, share_per_day: float, wall_ms: Callable[[], int], source: SliceSource, log_line: Callable[[LogEvent], object]
    ) -> None:
        self._log, self._share_per_day, self._wall_ms = log, share_per_day, wall_ms
        self._source, self._log_line = source, log_line
        self._cycle = Cycle()
        self._again_s, self._noticed = 0.0, ""
        self._known: tuple[tuple[TableInSink, int | None, int | None], ...] = ()

    def begin(self) -> OperationId | None:
        """What an earlier owner has left: the id of the slice's verification that is under way. Raises what a retry can help."""
        self._cycle, requested, log = Cycle(), None, self._log.folder
        name = latest(log, CYCLE_STEM)
        try:
            data = None if name is None else storage.read_if_there(log, name)
            self._cycle = cycle_from_json(data) if data is not None else Cycle()
            requested = operation_id(self._cycle.asked) if self._cycle.asked else None
        except (ValueError, LogBroken) as error:
            self._log_line(LogEvent("continuous verification begins again", {"file": name, "text": str(error)}, "warning"))
        self._know()
        return requested

    def metrics(self) -> VerifiedSinks:
        """Of the tables that there are. For any thread."""
        carried, now_ms = self._source.carried() if self._known else None, self._wall_ms()
        tables = [
            VerifiedTable(name, None if oldest_ms is None else max(now_ms - oldest_ms, 0) / 1000, differences)
            for name, oldest_ms, differences in self._known
            if carried is None or name in carried
        ]
        return VerifiedSinks(tables, DAY_MS / 1000 / self._share_per_day if self._share_per_day else 0.0)

    def due(self) -> VerifyRequest | None:
        """The next slice, if it is time for one; durable when this returns. Raises as the log's storage."""
        if not self._share_per_day or monotonic() < self._again_s:
            return None
        now_ms, cycle = self._wall_ms(), self._cycle
        cycle.ended_ms = min(cycle.ended_ms, now_ms)  # a clock that was set back
        if now_ms < cycle.due_ms(self._share_per_day):
            return None
        self._again_s = monotonic() + AGAIN_S
        try:
            return self._next()
        except (LogUnreachable, StorageFull):
            raise
        except TicdcDumpError as error:  # of the source: it ends no term
            self._notice(str(error))
            return None

    def _next(self) -> VerifyRequest | None:
        carried = self._source.carried()
        if carried is None:
            return None
        if new := self._cycle.follow(carried):
            self._cycle.estimated(self._source.rows([one.name.table for one in new]))
        turn = self._cycle.next(self._source.ready())
        if turn is None:
            return None
        part = turn.next_slice()
        try:
            request = msgspec.structs.replace(self._source.request(turn.name, part), asked_ms=self._wall_ms())
        except RefusedRequest as refused:
            self._notice(f"{turn.name.table} in {turn.sink}: {refused}")
            self._cycle.ended(turn, part, None, self._wall_ms())
            return None
        self._cycle.asked = request.id
        self._write()
        self._again_s, self._noticed = 0.0, ""
        return request

    def _notice(self, text: str) -> None:
        """Once, until it is another text."""
        if text != self._noticed:
            self._log_line(LogEvent("continuous verification waits", {"text": text}, "warning"))
        self._noticed = text

    def ended(self, request: VerifyRequest, report: VerifyReport | None) -> None:
        """Any verification, of operators too. `report` None: it has none. Raises what a retry can help; then it is to be called again. What
        else keeps the file from being written is logged: a verification has its result without it."""
        now_ms = self._wall_ms()
        if request.slice is not None:
            if self._cycle.asked == request.id:
                turn = self._cycle.turn(TableInSink(request.sinks[0], request.tables[0].name))
                self._cycle.ended(turn, request.slice, report.tables[0] if report is not None and report.tables else None, now_ms)
        elif report is None or not self._cycle.compared(report.tables, now_ms):
            return
        self._know()
        try:
            self._write()
        except LogBroken as error:
            self._notice(str(error))

    def _know(self) -> None:
        results = [(one.name, one.oldest_ms, one.differences) for one in self._cycle.tables]
        known = [one for one in results if one[1] is not None or one[2] is not None]  # one that never could be compared, too
        self._known = tuple(known)

    def _write(self) -> None:
        self._log.write(CYCLE_STEM, msgspec.json.encode(self._cycle))


class ServedSlices:
    """`SliceSource` of what the sidecar serves."""

    def __init__(self, served: Callable[[], Served]) -> None:
        self._served = served

    def carried(self) -> frozenset[TableInSink] | None:
        served = self._served()
        status = served.status()
        if status is None:
            return None
        sinks = [name for name, unreadable in served.sinks.items() if not unreadable]
        results = {TableInSink(sink, table) for sink in sinks for table in status.carried}
        explained = {table: served.feed_scope.explains(table) for table in status.carried}
        scope = Scope(list(status.carried), delivered=tuple(status.carried), explained=explained)
        kinds: dict[TableInSink, list[tuple[str, ...]]] = {}
        for one in unjudged(scope, sinks, served.targets):
            kinds.setdefault(TableInSink(one.sink, one.name), []).append(one.kinds)
        return frozenset(name for name in results if not are_all(kinds.get(name, ())))

    def ready(self) -> frozenset[TableInSink]:
        status = self._served().status()
        if status is None or not status.is_idle():
            return frozenset()
        failing = {sink.sink for sink in status.sinks if sink.error}
        return frozenset(
            TableInSink(sink, table) for sink, known in status.sink_tables.items() if sink not in failing for table in known.complete
        )

    def rows(self, tables: Sequence[TableName]) -> dict[TableName, int]:
        return {estimate.table: estimate.rows or 0 for estimate in self._schemas().estimates(tuple(dict.fromkeys(tables)))}

    def request(self, name: TableInSink, part: Slice) -> VerifyRequest:
        served = self._served()
        rules = pb.StartRequest(table_rules=[exact_rule(name.table)])
        scope = resolve(rules, self._schemas(), served.feed_scope, case_sensitive=served.case_sensitive)
        wanted = pb.VerifyRequest(id=new_operation_id(), sinks=[name.sink])
        request = asked(wanted, scope, sinks=served.sinks, targets=served.targets, asked_ms=0)
        return msgspec.structs.replace(request, slice=part)

    def _schemas(self) -> SchemaSource:
        return self._served().schemas.asked_by(Caller(lambda: ASKING_MAX_S, lambda: False, lambda _: True))
