"""Targets that consist of files, of which readers pay for each (lakes): the optional part of the sink's port.

    CountsFiles.small_files     what the sink's worker reports after its commits
    SinkKind.maintained ─► Maintained ─► of each table: compact, then expire     `ticdc-dump maintain`, a process beside that worker

Why it is right beside a writer is in spark_merge/sinks/lake/maintenance.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from sidecar.shared.model.nouns import TableName
from sidecar.shared.model.sink_delivery import TableFiles

FILE_BYTES = 128 << 20
"""What a file should have: what Spark and Trino read as one split."""

Sql: TypeAlias = Callable[[str], Sequence[Mapping[str, Any]]]
"""Carries a statement out on Spark and returns its rows. Raises SinkError, and Outpaced where a commit came too late."""


class FileTotals(NamedTuple):
    """What a reader of a table opens: files of rows and of deletes."""

    files: int
    bytes: int

    def extra(self, file_bytes: int = FILE_BYTES) -> int:
        """How many files a compaction to such files would save at the most. Partitions play no part: the totals do not say which there
        are."""
        return max(0, self.files - max(1, -(-self.bytes // file_bytes)))


@runtime_checkable
class CountsFiles(Protocol):
    """A sink whose tables consist of files."""

    def small_files(self) -> Sequence[TableFiles]:
        """Of the tables that this worker has committed, each as of its last commit or the one before. Asks nobody. From any thread."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What an operator wants. `file_bytes`: of a compacted file, about. `files_min`: a table, or a partition, with fewer small files stays
    as it is. `keep_hours`: for which readers find earlier versions of a table."""

    file_bytes: int = FILE_BYTES
    files_min: int = 5
    keep_hours: int = 168


class Maintained(Protocol):
    """The tables of a sink's output, for a process that never becomes its writer. Each call raises SinkError."""

    @property
    def needs_spark(self) -> bool:
        """For `compact` and `expire`; else `sql` is not called."""

    @property
    def waits_for_dump(self) -> bool:
        """A compaction of a table makes the rest of its dump more expensive, so it waits until the sink has the table whole."""

    def totals(self, name: TableName) -> FileTotals | None:
        """None: there is no such table yet."""

    def compact(self, name: TableName, upkeep: Upkeep, sql: Sql) -> None:
        """One commit, or none where it is not worth it. Raises Outpaced: nothing was changed."""

    def expire(self, name: TableName, upkeep: Upkeep, sql: Sql) -> int:
        """Removes what only versions older than `keep_hours` have. How many files. Raises as `compact`."""

    def close(self) -> None:
        """Free connections; never raises."""
