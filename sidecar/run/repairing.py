"""The repair of the differences that a verification reports: dumps of the differing keys, one after another, each to the sink that differs.

    differences ─► some keys of a sink ─► dump ─► … ─► a verification of these tables again

- The ids of the dumps and of the last verification are derived from the verification's id. So the next owner asks for the same ones, and
  the history says which of them are done.
- A key that the source does not have is a delete (deploy/DUMP.md): so extra rows leave the sink, too.
- A repair that is to delete many rows of a table asks first, and has corrected nothing until an operator answers (`rows_to_delete`).
- A dump waits for others of its tables, as any other (sidecar/core/dumps.py). Where no more dumps can wait, it is requested again later.
- A key that somebody has put into a sink, and that the type of the source's key cannot have, is omitted: no dump can delete it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from sidecar.control.dump_scope import NAMED_MAX, resolve, start_dump, unknown_sinks
from sidecar.control.judging import not_repairable, unjudged
from sidecar.control.served import Served
from sidecar.control.service import ASKING_MAX_S, REQUEST_TIMEOUT_S
from sidecar.control.verification_messages import derived_id
from sidecar.history.entry import HistoryEntry
from sidecar.ports import Caller, OperationHistory, SchemaSource
from sidecar.shared.errors import DumpsWait, RefusedRequest, TicdcDumpError, UnfitKeys
from sidecar.shared.log.verification import (
    CheckState,
    RepairReport,
    RepairState,
    RowDifference,
    RowsToDelete,
    TableReport,
    VerifyReport,
    VerifyRequest,
)
from sidecar.shared.model.messages import Asker
from sidecar.shared.model.nouns import OperationId, TableName
from sidecar.shared.model.progress import OVER, DumpState
from sidecar.shared.ticdc.table_rules import exact_rule
from ticdc_dump.v1 import control_pb2 as pb

KEYS_BYTES_MAX = 200 << 10
"""Of the keys of one dump, below what a dump takes for a table (control/predicate.py)."""

DELETED_SHARE, DELETED_MIN = 0.01, 1_000
"""Of a table's rows, and rows: what a repair deletes without a question. More of them have a cause that somebody should know first: a
filter, another writer, a table that was emptied by mistake."""

BEGINS = RepairReport()

Keys = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class KeyDump:
    """A dump of these keys for one sink."""

    dump_id: OperationId
    sink: str
    keys: dict[TableName, Keys]
    asker: Asker


class Repair:
    """Of one verification, for one thread. `start`: starts a dump of those of its keys that rows of the source can have, and returns that
    one; without any such key it starts none. Again with the same id it changes nothing. Raises DumpsWait, RefusedRequest for one that
    cannot be, and errors that a retry can help."""

    def __init__(
        self,
        history: OperationHistory,
        operation_id: OperationId,
        asker: Asker,
        differences: Callable[[], Iterable[tuple[TableReport, RowDifference]]],
        start: Callable[[KeyDump], KeyDump],
        begins: RepairReport = BEGINS,
    ) -> None:
        """`begins`: with what it deletes, and what an operator has said of that."""
        self._history, self._start = history, start
        self._id = operation_id
        self.asker = replace(asker, reason=f"repair of verification {operation_id}")
        self._differences = differences
        self._dumps = self._numbered(batches(differences()))
        self._now: KeyDump | None = None
        self.report = begins

    def step(self) -> RepairReport:
        """One step, if there is one to be done now. Raises what the differences and the history raise."""
        if requested := question(self._id, self.report.deletes):
            self.report = structs.replace(self.report, state=RepairState.ASKS, waiting_for=requested)
            return self.report
        if self._now is None:
            self._now = self._next()
        try:
            self.report = self._stepped(self._now) if self._now is not None else self._finished()
        except TicdcDumpError as error:
            if not error.retryable:
                raise
            self.report = structs.replace(self.report, waiting_for=error.message)
        return self.report

    def _next(self) -> KeyDump | None:
        try:
            return next(self._dumps, None)
        except TicdcDumpError:
            self._dumps = self._numbered(batches(self._differences()))  # an iterator that has raised would end here, as if it had no more
            raise

    def _finished(self) -> RepairReport:
        return structs.replace(self.report, state=RepairState.FINISHED, followed_by=derived_id(self._id, "again"), waiting_for="")

    def _stepped(self, dump: KeyDump) -> RepairReport:
        entry = self._history.find(dump.dump_id)
        if entry is None:
            try:
                return self._begun_without(dump, self._start(dump))
            except DumpsWait as full:
                return structs.replace(self.report, waiting_for=full.message)
            except RefusedRequest as refused:
                return structs.replace(self.report, state=RepairState.FAILED, error=str(refused), waiting_for="")
        match entry.state:
            case DumpState.FINISHED:
                self._now = None
            case DumpState.FAILED | DumpState.STOPPED:
                why = f"its dump {dump.dump_id} is {entry.state}: {entry.result or 'an operator ended it'}"
                return structs.replace(self._begun(dump), state=RepairState.FAILED, error=f"{why}; verify and repair again")
            case DumpState.QUEUED:
                return structs.replace(self._begun(dump), waiting_for="other dumps: its own is queued")
            case _:
                pass
        return self._begun(dump)

    def _begun_without(self, dump: KeyDump, started: KeyDump) -> RepairReport:
        """The keys that were not dumped stay in the sink: the report names the first of them, and the last verification all."""
        self._now = started if started.keys else None
        report = self._begun(started) if started.keys else self.report
        left = [f"{name} {key}" for name, keys in dump.keys.items() for key in keys if key not in started.keys.get(name, ())]
        if not left or report.error:
            return report
        why = f"keys that no row of the source can have are not corrected, such as {left[0]}: delete these rows in sink {dump.sink}"
        return structs.replace(report, error=why)

    def _begun(self, dump: KeyDump) -> RepairReport:
        if dump.dump_id in self.report.dumps:
            return structs.replace(self.report, waiting_for="")
        keys = self.report.keys + sum(map(len, dump.keys.values()))
        return structs.replace(self.report, dumps=(*self.report.dumps, dump.dump_id), keys=keys, waiting_for="")

    def _numbered(self, value: Iterable[tuple[str, dict[TableName, Keys]]]) -> Iterator[KeyDump]:
        for number, (sink, keys) in enumerate(value):
            yield KeyDump(derived_id(self._id, str(number)), sink, keys, self.asker)


def rows_to_delete(report: VerifyReport, at_most: int | None) -> tuple[RowsToDelete, ...]:
    """`at_most`: what an operator allows of each table in a sink; None: DELETED_SHARE of its rows at the source, and DELETED_MIN."""
    return tuple(
        RowsToDelete(
            one.sink, one.schema, one.table, one.extra, max(DELETED_MIN, int(one.rows * DELETED_SHARE)) if at_most is None else at_most
        )
        for one in report.differing
        if one.extra
    )


def question(operation_id: OperationId, deletes: Sequence[RowsToDelete]) -> str:
    """Empty: none of them is above its bound."""
    many = [one for one in deletes if one.rows > one.at_most]
    if not many:
        return ""
    named = "; ".join(f"{one} are to be deleted, more than {one.at_most:,}" for one in many[:NAMED_MAX])
    more = f"; and {len(many) - NAMED_MAX} more tables" if len(many) > NAMED_MAX else ""
    way_out = f"dumpverify --id {operation_id} --repair --delete-at-most {max(one.rows for one in many)}"
    return f"an answer: {named}{more}. Nothing is corrected yet; `{way_out}` continues"


def follow_up(request: VerifyRequest, report: VerifyReport, *, asked_ms: int) -> VerifyRequest:
    """Compares again the tables that differed or could not be compared, in these sinks: of a sample the same ranges."""
    differing = [table for table in report.tables if table.state is not CheckState.EQUAL]
    names, sinks = {table.name for table in differing}, {table.sink for table in differing}
    return VerifyRequest(
        id=derived_id(request.id, "again"),
        sinks=tuple(sink for sink in request.sinks if sink in sinks),
        tables=tuple(table for table in request.tables if table.name in names),
        sample=request.sample,
        seed=request.seed or request.id,
        asked_ms=asked_ms,
    )


def batches(value: Iterable[tuple[TableReport, RowDifference]]) -> Iterator[tuple[str, dict[TableName, Keys]]]:
    """A sink, and keys for one dump."""
    keys: dict[TableName, list[tuple[str, ...]]] = {}
    sink, size = "", 0
    for table, row in value:
        if keys and (table.sink != sink or size > KEYS_BYTES_MAX):
            yield sink, {name: tuple(each) for name, each in keys.items()}
            keys, size = {}, 0
        sink = table.sink
        keys.setdefault(table.name, []).append(row.key)
        size += sum(len(text.encode()) + 4 for text in row.key)
    if keys:
        yield sink, {name: tuple(each) for name, each in keys.items()}


def ended_by(asker: Asker, report: RepairReport, dump: HistoryEntry | None) -> RepairReport:
    """`dump`: its last one."""
    still = f"; its dump {dump.id} continues: dumpstop ends it" if dump is not None and dump.state not in OVER else ""
    return structs.replace(report, state=RepairState.FAILED, error=f"{asker.name or 'an operator'} ended it{still}", waiting_for="")


def start_key_dump(served: Served, dump: KeyDump) -> KeyDump:
    """As `Repair` says. Raises RefusedRequest, also where a difference can be right by now or the sink has another name; and what the
    source and the pipeline's thread raise."""
    caller = Caller(lambda: ASKING_MAX_S, lambda: False, lambda _: True)
    schemas = served.schemas.asked_by(caller)
    dump = replace(dump, keys={name: fit for name, each in dump.keys.items() if (fit := _fitting(schemas, name, each))})
    if not dump.keys:
        return dump
    keys = [
        pb.TableKeys(schema=name.schema, table=name.table, keys=[pb.Key(values=key) for key in each]) for name, each in dump.keys.items()
    ]
    request = pb.StartRequest(dump_id=dump.dump_id, table_rules=map(exact_rule, dump.keys), keys=keys, sinks=[dump.sink])
    scope = resolve(request, schemas, served.feed_scope, case_sensitive=served.case_sensitive)
    scope.refusals += unknown_sinks(request.sinks, served.sinks)
    scope.refusals += not_repairable(unjudged(scope, [dump.sink], served.targets))
    scope.bracketing = served.bracketing(caller)
    start = start_dump(request, scope, served.defaults)
    served.requests.submit(replace(start, asker=dump.asker), timeout_s=REQUEST_TIMEOUT_S)
    return dump


def _fitting(schemas: SchemaSource, table: TableName, keys: Keys) -> Keys:
    try:
        schemas.keys(table, keys)
    except UnfitKeys as unfit:
        return tuple(key for key in keys if key not in unfit.keys)
    return keys
