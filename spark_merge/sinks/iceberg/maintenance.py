"""Compaction and expiry of Iceberg tables, by Iceberg's own procedures on Spark: pyiceberg 0.12 has no compaction, and its expiry removes
no file. Why it is right beside the sink is in sinks/lake/maintenance.py.

    rewrite_data_files    one snapshot; rows get the sequence number of the snapshot that was read, so what was deleted since stays deleted.
                          In `mode=merge` also of files with `files_min` files of deletes, and then the deletes that hide no row any more go
    expire_snapshots      snapshots older than `keep_hours`, but SNAPSHOTS_KEPT, and the files that only they have

- Deletes that hide nothing go only with a commit of rewritten files: of a table without partitions those from before the compaction before
  it, of another one in a commit after it. The table's newest snapshot is not the sink's then, or was not since an earlier one: it has
  forgotten `base` (merge.py), and no row comes below them any more.
- Manifests are not rewritten: the sink merges them with its commits (lake.py, MADE_WITH).
- Spark's own configuration has Iceberg's runtime and the catalog, under the name that it has in the sink's URI.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyiceberg.table import Table

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableName
from spark_merge.port.kinds import SinkUri
from spark_merge.port.maintained import FileTotals, Sql, Upkeep
from spark_merge.sinks.iceberg.lake import Lake
from spark_merge.sinks.iceberg.position import properties_of
from spark_merge.sinks.iceberg.tables import totals_of
from spark_merge.sinks.iceberg.uri import IcebergSettings, settings_of
from spark_merge.sinks.lake.maintenance import SNAPSHOTS_KEPT


class MaintainedIceberg:
    """`Maintained`."""

    needs_spark = True

    def __init__(self, settings: IcebergSettings) -> None:
        self._settings, self._lake = settings, Lake(settings)
        self.waits_for_dump = settings.mode == "merge"

    @classmethod
    def of(cls, uri: SinkUri) -> MaintainedIceberg:
        return cls(settings_of(uri))

    def totals(self, name: TableName) -> FileTotals | None:
        table = self._table(name)
        return None if table is None else totals_of(table)

    def compact(self, name: TableName, upkeep: Upkeep, sql: Sql) -> None:
        options = {"target-file-size-bytes": upkeep.file_bytes, "min-input-files": upkeep.files_min}
        merged = {"delete-file-threshold": upkeep.files_min, "remove-dangling-deletes": "true"} if self._settings.mode == "merge" else {}
        listed = ", ".join(f"'{option}', '{value}'" for option, value in {**options, **merged}.items())
        sql(self._call("rewrite_data_files", name, f"options => map({listed})"))

    def expire(self, name: TableName, upkeep: Upkeep, sql: Sql) -> int:
        until = datetime.now(UTC) - timedelta(hours=upkeep.keep_hours)
        older = f"older_than => TIMESTAMP '{until:%Y-%m-%d %H:%M:%S} UTC'"
        rows = sql(self._call("expire_snapshots", name, f"{older}, retain_last => {SNAPSHOTS_KEPT}, stream_results => true"))
        return sum(int(count or 0) for row in rows for count in row.values())

    def close(self) -> None:
        self._lake.close()

    def _call(self, procedure: str, name: TableName, arguments: str) -> str:
        place = ".".join(map(_quoted, self._settings.identifier(name)))
        literal = place.replace("\\", "\\\\").replace("'", "\\'")
        return f"CALL {_quoted(self._settings.catalog)}.system.{procedure}(table => '{literal}', {arguments})"

    def _table(self, name: TableName) -> Table | None:
        """Raises SinkError for one that no sink of this mode has made."""
        table = self._lake.table(self._settings.identifier(name))
        if table is not None and properties_of(table, mode=self._settings.mode) is None:
            raise SinkError(
                f"{'.'.join(table.name())} is a table that this sink has not made",
                hint="name the sink's tables by --tables, or move it away",
            )
        return table


def _quoted(part: str) -> str:
    return f"`{part.replace('`', '``')}`"
