"""What a verification found, as it is shown and stored. JSON by msgspec; every TSO is a decimal string there."""

from __future__ import annotations

from enum import StrEnum

import msgspec

EXAMPLES_MAX = 100
"""Of a table; all differences are in files beside the report."""


class CheckState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    EQUAL = "equal"
    DIFFERENT = "different"
    SKIPPED = "skipped"
    FAILED = "failed"


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
