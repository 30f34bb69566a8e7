"""The files of a verification beside the segments: the requests to the merge worker, and its results.

    verify/{id}/request.json        written by the sidecar          verify/{id}/stop    the sidecar asks for its end
    verify/{id}/report.json         written by the worker, again after pieces of work
    verify/{id}/state.json          what of the report is read each second (verification_state.py), written after it
    verify/{id}/waiting.json        the request, until the dump after which it is to begin has finished
    verify/{id}/begun.json          how often the worker's process has begun with it at the same place
    verify/{id}/repair-{epoch}.json     written by the sidecar: the dumps that correct the differences
    verify/{id}/kept-{epoch}.json       written by the sidecar: for how long it keeps the log (run/retention.py)
    verify/{id}/differences-{n}.jsonl   all differences of the report's table n, one a line
    verify/{id}/work/…              digests, while a table is compared
    verify/cycle-{epoch}.json       of continuous verification: what was compared when (sidecar/run/cycle.py)

JSON by msgspec; every TSO is a decimal string there. What reads and writes these files is `verification_files`; owned.py says of whom the
names with an epoch are. The sidecar writes a stop, and removes files, once the history says that the verification is over or is to stop:
the history is fenced, so a late owner ends nothing of a later one.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Protocol, TypeVar

import msgspec

from sidecar.shared.model.nouns import OPERATION_ID, OperationId, TableName

REQUEST_NAME, WAITING_NAME = (re.compile(rf"verify/({OPERATION_ID})/{name}\.json") for name in ("request", "waiting"))
CYCLE_STEM = "verify/cycle"
TEXT_CHARACTERS_MAX = 200
"""Of a value in an example: the whole value is in the file of differences."""
EXAMPLES_MAX = 100
"""Of a table; all differences are in files beside the report."""


StoredId = Annotated[OperationId, msgspec.Meta(pattern=rf"^{OPERATION_ID}\Z")]
"""In a file: checked as it is read."""


def verify_folder(operation_id: OperationId) -> str:
    return f"verify/{operation_id}"


def request_name(operation_id: OperationId) -> str:
    return f"{verify_folder(operation_id)}/request.json"


def waiting_name(operation_id: OperationId) -> str:
    return f"{verify_folder(operation_id)}/waiting.json"


def report_name(operation_id: OperationId) -> str:
    return f"{verify_folder(operation_id)}/report.json"


def stop_name(operation_id: OperationId) -> str:
    return f"{verify_folder(operation_id)}/stop"


def begun_name(operation_id: OperationId) -> str:
    return f"{verify_folder(operation_id)}/begun.json"


def repair_stem(operation_id: OperationId) -> str:
    return f"{verify_folder(operation_id)}/repair"


def kept_stem(operation_id: OperationId) -> str:
    return f"{verify_folder(operation_id)}/kept"


def state_name(operation_id: OperationId) -> str:
    return f"{verify_folder(operation_id)}/state.json"


def differences_name(operation_id: OperationId, table: int) -> str:
    return f"{verify_folder(operation_id)}/differences-{table}.jsonl"


S = TypeVar("S")


def decoded(kind: type[S], data: bytes) -> S:
    """Of a file of JSON. Raises ValueError for what is none of this kind."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no {kind.__name__}: {error}") from error


class RequestedTable(msgspec.Struct, frozen=True):
    """A table, as it is called in the log. `where`: an SQL predicate of the source's rows that are compared; empty: all of them. `rows`: by
    the source's statistics when it was requested; 0: not known."""

    schema: str
    table: str
    where: str = ""
    rows: int = 0

    @property
    def name(self) -> TableName:
        return TableName(self.schema, self.table)


class Slice(msgspec.Struct, frozen=True):
    """Rows of a table in the order of its handle key, whose keys (canonical text) are in `(after, upper]`; empty: without this bound. The
    first `rows` of them, about. A sink that does not find keys, or a table that has no more rows, is compared whole."""

    after: tuple[str, ...]
    upper: tuple[str, ...]
    rows: int

    @property
    def range(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.after, self.upper


class Unjudged(msgspec.Struct, frozen=True):
    """Differences of a table in a sink that can be right, so that nobody may judge or repair them. `kinds`: of RowDifference. `why`: what
    of the changefeed's filter or of the sink's routes makes them so."""

    sink: str
    schema: str
    table: str
    kinds: tuple[str, ...]
    why: str

    @property
    def name(self) -> TableName:
        return TableName(self.schema, self.table)


class VerifyResult(Protocol):
    """A report, or its state. `differing`: what a repair can correct, or whether there is something."""

    @property
    def state(self) -> CheckState: ...
    @property
    def differing(self) -> object: ...


class VerifyRequest(msgspec.Struct, frozen=True):
    """`sinks`: their names. `sample`: of each table the part whose rows are compared, 1 for all. `left_out`: why other sinks are not read,
    by name. Verifications are carried out in the order of their times, since 1970. `repair`: whether what differs is to be corrected.
    `after_dump`: begin when the dump of this id has finished; empty: at once. `slice`: of a continuous verification, which has one table
    and one sink. `unjudged`: what of its tables and sinks is not judged. `delete_at_most`: of each table in a sink as many rows may be
    deleted by the repair without a question; None: as of repairing.rows_to_delete. `partly`: what differs is corrected also if another
    table could not be compared; up to 0.4 nothing was, and the operator saw why. `seed`: of the sample's ranges; empty: the id."""

    id: StoredId
    sinks: tuple[str, ...]
    tables: tuple[RequestedTable, ...]
    sample: float = 1.0
    left_out: dict[str, str] = {}
    asked_ms: int = 0
    repair: bool = False
    after_dump: str = ""
    slice: Slice | None = None
    unjudged: tuple[Unjudged, ...] = ()
    delete_at_most: int | None = None
    partly: bool = False
    seed: str = ""

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)

    def is_to_repair(self, result: VerifyResult) -> bool:
        """Of one that is over."""
        return self.repair and bool(result.differing) and (self.partly or result.state is CheckState.DIFFERENT)


class CheckState(StrEnum):
    """Of a table or a verification. WAITING and RUNNING are no ends. INCOMPLETE: nothing differs but rows that the sink lacks, because it
    is not complete for the table."""

    WAITING = "waiting"
    RUNNING = "running"
    EQUAL = "equal"
    DIFFERENT = "different"
    SKIPPED = "skipped"
    FAILED = "failed"
    STOPPED = "stopped"
    INCOMPLETE = "incomplete"


class CellDifference(msgspec.Struct, frozen=True):
    """A column's canonical text in both places; None: NULL."""

    column: str
    source: str | None
    sink: str | None


class RowDifference(msgspec.Struct, frozen=True):
    """`kind`: missing (in the sink), extra, different, duplicate (a target that keeps one row of each key has the key more than once).
    `key`: the handle key's canonical text. `cells`: of a row that is different, and of a duplicate one of which a row is."""

    kind: str
    key: tuple[str, ...]
    cells: tuple[CellDifference, ...] = ()

    def shortened(self) -> RowDifference:
        """With the beginnings of long values."""
        key = tuple(_beginning(text) for text in self.key)
        cells = tuple(CellDifference(one.column, _shortened(one.source), _shortened(one.sink)) for one in self.cells)
        return RowDifference(self.kind, key, cells)


def _shortened(text: str | None) -> str | None:
    return None if text is None else _beginning(text)


def _beginning(text: str) -> str:
    return text if len(text) <= TEXT_CHARACTERS_MAX else f"{text[:TEXT_CHARACTERS_MAX]}… ({len(text):,} characters)"


class TableReport(msgspec.Struct, omit_defaults=True):
    """One table in one sink. `rows`: of the source that were compared; `rows_total`: those that there are, by the source's statistics.
    `moving`: keys that changed each time that they were looked at. `look`: which one is under way, since `look_ms`, at `pending` keys; 0:
    the first one, at all rows. `columns`: how many rows differ in each column. `unlooked`: of the differences, how many were seen once
    only, because there are too many to look at each again. `partial`: only rows of a predicate, a sample or a slice were compared, so extra
    rows were not looked for. `expected`: rows that differ in a kind that `unjudged` names, so that they are no differences. `why`: of a
    table that was skipped, failed or was compared in part only. `waiting_for`: of one that runs; empty: nothing. `after_seq`: the sink's
    position when the comparison began, so both sides were read once the log had this segment; None: not known, as by 0.4 and before.
    `table_id`: of the table that was compared; 0: the source has none. `lower`, `upper`: the slice that was compared has the keys in
    `(lower, upper]`; empty: without this bound."""

    sink: str
    schema: str
    table: str
    state: CheckState = CheckState.WAITING
    rows: int = 0
    rows_total: int = 0
    equal: int = 0
    missing: int = 0
    extra: int = 0
    different: int = 0
    moving: int = 0
    unlooked: int = 0
    low_tso: str = ""
    high_tso: str = ""
    seconds: float = 0.0
    columns: dict[str, int] = {}
    examples: list[RowDifference] = []
    why: str = ""
    partial: bool = False
    parts: int = 0
    parts_done: int = 0
    lower: tuple[str, ...] = ()
    upper: tuple[str, ...] = ()
    duplicate: int = 0
    expected: int = 0
    unjudged: list[Unjudged] = []
    waiting_for: str = ""
    look: int = 0
    look_ms: int = 0
    pending: int = 0
    after_seq: int | None = None
    table_id: int = 0

    @property
    def name(self) -> TableName:
        return TableName(self.schema, self.table)

    @property
    def differences(self) -> int:
        return self.missing + self.extra + self.different + self.duplicate


class VerifyReport(msgspec.Struct):
    """`id`: the verification's. Times in milliseconds since 1970; `written_ms`: of this report, 0: unknown. `needs_from`: the first
    segment of the log that is still to be read, and must not be removed; None: there is none.
    `waiting_for`: as of TableReport, of all tables. `worked_s`: for how long a process has carried it out, without outages."""

    id: StoredId
    state: CheckState
    started_ms: int
    ended_ms: int = 0
    tables: list[TableReport] = []
    needs_from: int | None = None
    written_ms: int = 0
    waiting_for: str = ""
    worked_s: float = 0.0

    @property
    def waits(self) -> str:
        """What it, or a table of it, waits for; empty: nothing."""
        return self.waiting_for or next((one.waiting_for for one in self.tables if one.waiting_for), "")

    @property
    def differing(self) -> list[TableReport]:
        """Of a report that is over, the tables that a repair can correct. Others may have failed."""
        return [one for one in self.tables if one.state is CheckState.DIFFERENT] if self.state in _COMPARED else []

    def to_json(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=1)


def stopped(report: VerifyReport | None, operation_id: OperationId, now_ms: int, *, why: str = "") -> VerifyReport:
    """The report of one that an operator has ended, or that has failed because of `why`. `report`: the last one; None: it has not begun."""
    end = CheckState.FAILED if why else CheckState.STOPPED
    report = report or VerifyReport(operation_id, end, now_ms)
    open_ = {"state": end, "waiting_for": ""} | ({"why": why} if why else {})
    tables = [one if one.state in TABLE_OVER else msgspec.structs.replace(one, **open_) for one in report.tables]
    ended = {"needs_from": None, "ended_ms": now_ms, "waiting_for": ""}
    return msgspec.structs.replace(report, state=end, tables=tables, **ended)


class RepairState(StrEnum):
    RUNNING = "running"
    ASKS = "asks"
    FINISHED = "finished"
    FAILED = "failed"


class RowsToDelete(msgspec.Struct, frozen=True):
    """A repair is to delete so many `rows` of a table in a sink; more than `at_most` only if an operator says so."""

    sink: str
    schema: str
    table: str
    rows: int
    at_most: int

    def __str__(self) -> str:
        return f"{self.rows:,} rows of {self.schema}.{self.table} in sink {self.sink}"


class RepairReport(msgspec.Struct, frozen=True):
    """`dumps`: the ids of those that were started, each of some keys for one sink. `followed_by`: the verification that compares the tables
    again. `error`: of one that failed, with the way out; `waiting_for`: what keeps it from continuing. `deletes`: of each table in a
    sink that has extra rows. `delete_at_most`: an operator's answer to the question for it; None: no answer."""

    state: RepairState = RepairState.RUNNING
    keys: int = 0
    dumps: tuple[StoredId, ...] = ()
    followed_by: str = ""
    error: str = ""
    waiting_for: str = ""
    deletes: tuple[RowsToDelete, ...] = ()
    delete_at_most: int | None = None

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)


_COMPARED = frozenset({CheckState.DIFFERENT, CheckState.FAILED})

OVER = frozenset({CheckState.EQUAL, CheckState.DIFFERENT, CheckState.FAILED, CheckState.STOPPED, CheckState.INCOMPLETE})
"""Of a verification."""
TABLE_OVER = frozenset({CheckState.EQUAL, CheckState.DIFFERENT, CheckState.SKIPPED, CheckState.FAILED, CheckState.INCOMPLETE})
"""Of a table: a worker that starts again compares the others."""
