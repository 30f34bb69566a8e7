"""What the control service needs around it, without a cluster: tables, a filter, and a thread in the pipeline's place that
carries requests out with the real state machine of a dump and publishes a status after each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from threading import Event, Lock, Thread
from types import TracebackType

from sidecar.adapters.memory.progress import MemoryHistory
from sidecar.control.requests import QueuedRequests
from sidecar.control.security import ControlServer, serve
from sidecar.control.served import Served
from sidecar.control.service import ControlService
from sidecar.control.status import LaneStatus, SidecarStatus
from sidecar.core.dump_start import DumpLimits
from sidecar.core.dumps import Dumps
from sidecar.ports import Caller, SchemaSource, TableEstimate
from sidecar.shared.config import ControlSection, DumpSection
from sidecar.shared.errors import RefusedRequest, SourceError, UnfitKeys
from sidecar.shared.model.messages import Asker, Request
from sidecar.shared.model.nouns import MARK_TABLE, Column, CommitTs, Lane, Seq, TableName, TableSchema
from sidecar.shared.model.progress import DumpState, Progress
from sidecar.shared.ticdc.changefeed import ChangefeedName
from sidecar.shared.ticdc.hidden_changes import Explanation

NAME = ChangefeedName("default", "default", "cf")
ORDERS, ITEM, LOGS, FLOATS, SECRET = (
    TableName("shop", "orders"),
    TableName("shop", "item"),
    TableName("shop", "logs"),
    TableName("shop", "floats"),
    TableName("hidden", "secret"),
)
ALICE = Asker("certificate alice", "10.0.0.7:41000")
STEP_S = 0.005


def schema(table: TableName, key: tuple[str, ...] = ("id",)) -> TableSchema:
    return TableSchema(table, (Column("id", "int", nullable=False), Column("amount", "int")), key)


TABLES = {t: schema(t) for t in (ORDERS, ITEM, FLOATS, SECRET, MARK_TABLE)} | {LOGS: schema(LOGS, ())}


@dataclass(slots=True)
class Schemas:
    """`SchemaSource`: `refused` tables have a key that no SELECT can be ordered by. `failing` is raised at every question."""

    found: Mapping[TableName, TableSchema] = field(default_factory=lambda: {t: s for t, s in TABLES.items() if t != FLOATS})
    refused: Mapping[TableName, str] = field(default_factory=lambda: {FLOATS: "its key is a float: give it another"})
    failing: SourceError | None = None
    analyzed: bool = True

    def asked_by(self, caller: Caller) -> SchemaSource:
        return self

    def tables(self) -> Mapping[TableName, TableSchema]:
        if self.failing is not None:
            raise self.failing
        return self.found

    def estimates(self, tables: Sequence[TableName]) -> Sequence[TableEstimate]:
        rows, size = (1000, 50_000) if self.analyzed else (None, None)
        return [TableEstimate(t, rows, size, "clustered primary key (id)", refused=self.refused.get(t)) for t in tables]

    def keys(self, table: TableName, keys: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
        if unfit := tuple(key for key in keys if len(key) != len(self.found[table].key)):
            raise UnfitKeys(f"a key of {table} needs {len(self.found[table].key)} values", hint="give a value for each column", keys=unfit)
        return tuple(dict.fromkeys(keys))


@dataclass(slots=True)
class Filter:
    """`FeedScope`: its rules leave out schema `hidden`, an event filter `left`, and `predicates` narrow tables. `explained`:
    of a table, what of the filter can make rows differ. `omitted`: columns that it does not carry, of any table."""

    predicates: Mapping[TableName, str] = field(default_factory=dict)
    left: frozenset[TableName] = frozenset()
    explained: Mapping[TableName, Sequence[Explanation]] = field(default_factory=dict)
    omitted: frozenset[str] = frozenset()

    def has(self, table: TableName) -> bool:
        return table.schema != "hidden"

    def through(self, table: TableName) -> tuple[bool, str]:
        return (False, "an event filter leaves it out") if table in self.left else (True, self.predicates.get(table, ""))

    def explains(self, table: TableName) -> Sequence[Explanation]:
        return self.explained.get(table, ())

    def omits(self, table: TableName) -> frozenset[str]:
        return self.omitted


def _dump(*recovered: Progress) -> Dumps:
    ts = CommitTs(470000000000000000)
    return Dumps(changefeed_id=NAME.id, epoch=3, limits=DumpLimits(), recovered=recovered, after_ts=ts, next_seq=Seq(7))


class Owner(AbstractContextManager["Owner"]):
    """The owner's pipeline as far as operators see it. `hold` stops it between steps, until `go`."""

    def __init__(self, progress: Progress | None = None) -> None:
        self.requests = QueuedRequests()
        self.history = MemoryHistory()
        self.dump = _dump(*([] if progress is None else [progress]))
        self.status: SidecarStatus | None = None
        self.changes: Callable[[SidecarStatus], SidecarStatus] = lambda status: status
        self.carried_out: list[Request] = []
        self.refusals: list[str] = []
        self._stepping, self._ending = Lock(), Event()
        self._publish()
        self._thread = Thread(target=self._run, name="pipeline", daemon=True)

    def __enter__(self) -> Owner:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ending.set()
        self._thread.join()

    def hold(self) -> None:
        self._stepping.acquire()

    def go(self) -> None:
        self._stepping.release()

    def forget(self) -> None:
        """The dump, as if none had been: to be called while it is held."""
        self.dump = _dump()
        self._publish()

    def _run(self) -> None:
        while not self._ending.wait(STEP_S):
            with self._stepping:
                self.step()

    def step(self) -> None:
        while (request := self.requests.take()) is not None:
            try:
                self.dump.request(request)
            except RefusedRequest as refused:
                self.refusals.append(str(refused))
                self.requests.answer(refused)
            else:
                self.carried_out.append(request)
                self.requests.answer(None)
        self._publish()

    def _publish(self) -> None:
        self.status = self.changes(
            SidecarStatus(
                changefeed=NAME,
                epoch=3,
                owner="here:1",
                dumps=self.dump.records,
                resolved_ts=CommitTs(470000000000000000),
                delivered_ts=CommitTs(469999999000000000),
                resolved_lag_s=0.4,
                lanes=(LaneStatus(Lane("kafka/t/0"), CommitTs(470000000000000000), 0.0), LaneStatus(Lane("kafka/t/1"), None, 0.0)),
                segments=7,
                merge_worker="running",
                estimates={ORDERS: 1000},
            )
        )

    def served(self, **changed: object) -> Served:
        made = Served(
            status=lambda: self.status,
            owner_address=lambda: None,
            requests=self.requests,
            schemas=Schemas(),
            feed_scope=Filter(),
            defaults=DumpSection(),
            asker=lambda _: ALICE,
            history=self.history.entries,
        )
        return replace(made, **changed)  # type: ignore[arg-type]  # fields of Served, by name

    def finish(self, state: DumpState, *, reason: str | None = None) -> None:
        """End the dump as its last segment, or a failure, would."""
        self.hold()
        assert self.dump.progress is not None
        tables = tuple(replace(table, complete_at=CommitTs(470000000000000000)) for table in self.dump.progress.tables)
        tables = tables if state is DumpState.FINISHED else self.dump.progress.tables
        self.dump = _dump(replace(self.dump.progress, state=state, reason=reason, tables=tables))
        self.go()
        shown = Event()
        while self.status is None or self.status.progress is not self.dump.progress:
            shown.wait(STEP_S)


class Serving(AbstractContextManager["Serving"]):
    """A service that listens, on a port of its own unless `control` says otherwise."""

    def __init__(self, served: Served, control: ControlSection | None = None) -> None:
        self.server: ControlServer = serve(ControlService(served), control or ControlSection(listen="127.0.0.1:0"))
        self.address = f"127.0.0.1:{self.server.port}"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.server.close(grace_s=1.0)


def standby(owner_address: Callable[[], str | None]) -> Served:
    """What a process that does not own the changefeed serves."""
    schemas: SchemaSource = Schemas()
    return Served(lambda: None, owner_address, QueuedRequests(), schemas, Filter(), DumpSection(), lambda _: ALICE)
