"""Compaction and expiry of Delta tables, by deltalake (delta-rs) in this process: OPTIMIZE and VACUUM. Why it is right beside the sink is
in sinks/lake/maintenance.py.

- OPTIMIZE is one commit of files that go and files that come, of the same rows. delta-rs puts it on top of commits that have come
  meanwhile if they only added files, and raises where one of them removed a file that it has rewritten, or changed the columns.
- VACUUM removes what no version younger than `keep_hours` has. Before ORPHAN_HOURS it goes by the log alone, which names neither the files
  of a batch that is being written nor those of a worker that is frozen. The log forgets a removed file with a checkpoint a week later, and
  never names a dead worker's: so a second VACUUM goes by the folder, after ORPHAN_HOURS. It too keeps what the log says was removed later.
- One file is written at a time, by one core: the worker has the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, PostCommitHookProperties, WriterProperties
from deltalake.exceptions import CommitFailedError

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableName
from spark_merge.codecs.encode.typed import ROW_GROUP_ROWS_MAX
from spark_merge.port.kinds import SinkUri
from spark_merge.port.maintained import FileTotals, Sql, Upkeep
from spark_merge.sinks.delta.table import Table, columns_of, delta_errors, totals_of
from spark_merge.sinks.delta.uri import DeltaSettings, settings_of
from spark_merge.sinks.lake.maintenance import ORPHAN_HOURS
from spark_merge.sinks.lake.steps import Outpaced

TASKS_MAX = 1

COMPRESSION_LEVEL = 1
"""Of zstd, as the sink writes its own (sinks/formats/parquet.py)."""

HOOKS = PostCommitHookProperties(cleanup_expired_logs=False)
"""The log is cleaned up by the sink, now and then."""


@dataclass(frozen=True, slots=True)
class MaintainedDelta:
    """`Maintained`. Reads each table again for each call."""

    settings: DeltaSettings
    needs_spark: bool = False
    waits_for_dump: bool = False

    @classmethod
    def of(cls, uri: SinkUri) -> MaintainedDelta:
        return cls(settings_of(uri))

    def totals(self, name: TableName) -> FileTotals | None:
        table = self._loaded(name)
        with delta_errors(self._uri(name)):
            return None if table is None else totals_of(table)

    def compact(self, name: TableName, upkeep: Upkeep, sql: Sql) -> None:  # noqa: ARG002 - no Spark
        if (table := self._loaded(name)) is None:
            return
        written = WriterProperties(compression="ZSTD", compression_level=COMPRESSION_LEVEL, max_row_group_size=ROW_GROUP_ROWS_MAX)
        with delta_errors(self._uri(name)):
            sizes = pa.table(table.get_add_actions()).column("size_bytes")
            if (pc.sum(pc.less(sizes, upkeep.file_bytes)).as_py() or 0) < upkeep.files_min:
                return
            try:
                table.optimize.compact(
                    target_size=upkeep.file_bytes,
                    max_concurrent_tasks=TASKS_MAX,
                    writer_properties=written,
                    post_commithook_properties=HOOKS,
                )
            except CommitFailedError as error:
                raise Outpaced(str(error)) from error

    def expire(self, name: TableName, upkeep: Upkeep, sql: Sql) -> int:  # noqa: ARG002 - no Spark
        if (table := self._loaded(name)) is None:
            return 0
        passes = [(max(upkeep.keep_hours, ORPHAN_HOURS), True)]
        if upkeep.keep_hours < ORPHAN_HOURS:
            passes.insert(0, (upkeep.keep_hours, False))

        def vacuumed(hours: int, whole: bool, *, dry_run: bool) -> list[str]:
            return table.vacuum(hours, dry_run, enforce_retention_duration=False, post_commithook_properties=HOOKS, full=whole)

        files = set[str]()
        with delta_errors(self._uri(name)):
            try:
                for one in passes:
                    if vacuumed(*one, dry_run=True):
                        files.update(vacuumed(*one, dry_run=False))
            except CommitFailedError as error:
                raise Outpaced(str(error)) from error
        return len(files)

    def close(self) -> None:
        """Nothing is held."""

    def _loaded(self, name: TableName) -> DeltaTable | None:
        table = self._table(name).load()
        if table is not None and all(column.source is None for column in columns_of(table)):
            raise SinkError(
                f"the Delta table {self._uri(name)} is none that this sink made", hint="name the sink's tables by --tables, or move it away"
            )
        return table

    def _table(self, name: TableName) -> Table:
        return Table(self.settings.folder, self.settings.place(name))

    def _uri(self, name: TableName) -> str:
        return self._table(name).uri
