"""The files of a verification beside the segments: what is asked of the merge worker, and what it has found.

    verify/{id}/request.json        written by the sidecar, exclusively          verify/{id}/stop    the sidecar asks for its end
    verify/{id}/report.json         written by the worker, again after each piece of work
    verify/{id}/differences-{n}.jsonl   all differences of the report's table n, one a line
    verify/{id}/work/…              digests, while a table is compared

JSON by msgspec; every TSO is a decimal string there.
"""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec

from sidecar.core.model import TableName

REQUEST_NAME = re.compile(r"verify/([0-9a-zA-Z]{1,64})/request\.json")
EXAMPLES_MAX = 100
"""Of a table; all differences are in files beside the report."""


def verify_folder(operation_id: str) -> str:
    return f"verify/{operation_id}"


def request_name(operation_id: str) -> str:
    return f"{verify_folder(operation_id)}/request.json"


def report_name(operation_id: str) -> str:
    return f"{verify_folder(operation_id)}/report.json"


def stop_name(operation_id: str) -> str:
    return f"{verify_folder(operation_id)}/stop"


def differences_name(operation_id: str, table: int) -> str:
    return f"{verify_folder(operation_id)}/differences-{table}.jsonl"


class VerifyRequest(msgspec.Struct, frozen=True):
    """`sinks`: their names. `tables`: schema and table of each, as they are called in the log."""

    id: str
    sinks: tuple[str, ...]
    tables: tuple[tuple[str, str], ...]

    def names(self) -> list[TableName]:
        return [TableName(*table) for table in self.tables]

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)


def request_from_json(data: bytes) -> VerifyRequest:
    """Raises ValueError for what is not one."""
    try:
        return msgspec.json.decode(data, type=VerifyRequest)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"not a request for a verification: {error}") from error


class CheckState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    EQUAL = "equal"
    DIFFERENT = "different"
    SKIPPED = "skipped"
    FAILED = "failed"
    STOPPED = "stopped"


class CellDifference(msgspec.Struct, frozen=True):
    """A column's canonical text in both places; None: NULL."""

    column: str
    source: str | None
    sink: str | None


class RowDifference(msgspec.Struct, frozen=True):
    """`kind`: missing (in the sink), extra, different. `key`: the handle key's canonical text. `cells`: of a row that is different."""

    kind: str
    key: tuple[str, ...]
    cells: tuple[CellDifference, ...] = ()


class TableReport(msgspec.Struct):
    """One table in one sink. `rows`: of the source that were compared. `moving`: keys that changed each time that they were looked at.
    `columns`: how many rows differ in each column. `unlooked`: of the differences, how many were seen once only, because there are too many
    to look at each again. `why`: of a table that was skipped or failed."""

    sink: str
    table: str
    state: CheckState = CheckState.WAITING
    rows: int = 0
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
    parts: int = 0
    parts_done: int = 0

    @property
    def differences(self) -> int:
        return self.missing + self.extra + self.different


class VerifyReport(msgspec.Struct):
    """`id`: the verification's. Times in milliseconds since 1970."""

    id: str
    state: CheckState
    started_ms: int
    ended_ms: int = 0
    error: str = ""
    tables: list[TableReport] = []

    def to_json(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=1)


def report_from_json(data: bytes) -> VerifyReport:
    """Raises ValueError for what is not one."""
    try:
        return msgspec.json.decode(data, type=VerifyReport)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"not a verification's report: {error}") from error
