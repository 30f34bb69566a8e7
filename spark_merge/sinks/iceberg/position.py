"""The sink's position and fence: one small table for all tables, `_ticdc_dump` in the namespace. Its properties say how far the
output is and who writes it; each change of them is a commit that is compared with the one before it (lake.py).

    ticdc-dump.log        whose output this is              ticdc-dump.seq, .upto-ts, .manifest   what is accepted; absent at the start
    ticdc-dump.owner      epoch-incarnation                 ticdc-dump.by                         drawn by the process that opened it
    ticdc-dump.mode       what the tables are, for ever; absent for `append`

Its rows are for readers, and for who opens it: each table that has got rows (`table`), and each DDL that was accepted (`ddl`).
Of its own snapshots the last ones stay: nobody reads the former.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType

from sidecar.core.model import CommitTs, Seq, TableName
from sidecar.errors import SinkError
from sidecar.log import storage
from sidecar.log.manifest import DdlRecord
from spark_merge.contract import Accepted, Owner
from spark_merge.sinks.fence import check_log, check_next, taken
from spark_merge.sinks.files.layout import storage_errors
from spark_merge.sinks.iceberg.lake import CONFLICTS_MAX, Change, Lake, Outpaced, outpaced
from spark_merge.sinks.iceberg.types import Mode, arrow_schema
from spark_merge.sinks.iceberg.uri import RECORD
from spark_merge.sinks.iceberg.writer import Written, write_parquet

VERSIONS: dict[Mode, str] = {"append": "1", "merge": "2"}
PREFIX = "ticdc-dump."
SNAPSHOTS_KEPT = 10

SCHEMA = Schema(
    NestedField(1, "what", StringType(), required=False),
    NestedField(2, "seq", LongType(), required=False),
    NestedField(3, "commit_ts", LongType(), required=False),
    NestedField(4, "schema", StringType(), required=False),
    NestedField(5, "table", StringType(), required=False),
    NestedField(6, "query", StringType(), required=False),
)


@dataclass(frozen=True, slots=True)
class Standings:
    """What the properties of a table say, of the record's and of a data table's alike. `owner` None: nobody has opened it."""

    log_id: str
    mode: Mode
    owner: Owner | None = None
    accepted: Accepted | None = None
    by: str = ""

    def properties(self) -> dict[str, str]:
        found = {"version": VERSIONS[self.mode], "log": self.log_id} | ({"mode": self.mode} if self.mode != "append" else {})
        if self.by:
            found["by"] = self.by
        if self.owner is not None:
            found["owner"] = f"{self.owner.epoch}-{self.owner.incarnation}"
        if self.accepted is not None:
            found |= {"seq": str(self.accepted.seq), "upto-ts": str(self.accepted.upto_ts), "manifest": self.accepted.manifest}
        return {PREFIX + name: value for name, value in found.items()}

    def summary(self) -> dict[str, str]:
        """Of a snapshot, for who travels in time."""
        return {name: value for name, value in self.properties().items() if name.removeprefix(PREFIX) in ("seq", "upto-ts")}


def standing_of(table: Table, *, log_id: str, mode: Mode) -> Standings | None:
    """None: of nobody of ours. Raises SinkError for another log's, another mode's, or a later version's."""
    name = ".".join(table.name())
    found = {key.removeprefix(PREFIX): value for key, value in table.properties.items() if key.startswith(PREFIX)}
    if "log" not in found:
        return None
    if found.get("version") not in VERSIONS.values():
        raise SinkError(
            f"{name} was written by format version {found.get('version')}, this ticdc-dump knows {', '.join(VERSIONS.values())}",
            hint="run the version that wrote it, or deliver to a new namespace",
        )
    if found.get("mode", "append") != mode:
        raise SinkError(
            f"{name} was made by mode={found.get('mode', 'append')}, and this is mode={mode}: a namespace has one for ever",
            hint="set mode= back to what it was, or deliver to a new namespace and dump again",
        )
    hint = "deliver a new log to a new namespace, and dump again; or set log.uri back to the log that the output is of"
    check_log(name, found["log"], log_id, hint=hint)
    try:
        return Standings(found["log"], mode, _owner(found), _accepted(found), found.get("by", ""))
    except (ValueError, KeyError) as error:
        raise SinkError(
            f"{name} has properties {PREFIX}* that are not as they were written: {error!r}",
            hint="restore them from an earlier metadata file, or deliver to a new namespace",
        ) from error


def _owner(found: Mapping[str, str]) -> Owner | None:
    if "owner" not in found:
        return None
    epoch, _, incarnation = found["owner"].partition("-")
    return Owner(int(epoch), int(incarnation))


def _accepted(found: Mapping[str, str]) -> Accepted | None:
    return Accepted(Seq(int(found["seq"])), CommitTs(int(found["upto-ts"])), found["manifest"]) if "seq" in found else None


class Position:
    """For one owner at a time."""

    def __init__(self, lake: Lake, *, log_id: str) -> None:
        self._lake, self._log_id, self._mode = lake, log_id, lake.settings.mode
        self._mine = Standings(log_id, self._mode)

    @property
    def owner(self) -> Owner:
        assert self._mine.owner is not None, "a sink is opened first"
        return self._mine.owner

    def look(self) -> Accepted | None:
        table = self._lake.table(self._lake.settings.record)
        found = None if table is None else self._read(table)
        return None if found is None else found.accepted

    def open(self, epoch: int | None) -> tuple[Standings, set[TableName]]:
        """With the tables that have got rows. Raises OwnershipLost if a later epoch is there."""
        self._mine = self._lake.retried(lambda: self._opened(epoch), doing="becoming its owner")
        return self._mine, self._lake.retried(self._tables, doing="reading which tables have rows")

    def _opened(self, epoch: int | None) -> Standings:
        for _ in range(CONFLICTS_MAX):
            table = self._table(make=True)
            last = self._read(table)
            owner = Owner.after(last.owner, epoch, of=".".join(self._lake.settings.record))
            mine = Standings(self._log_id, self._mode, owner, last.accepted, secrets.token_hex(8))
            try:
                self._lake.commit(table, self._change(table, mine))
            except Outpaced:
                continue
            return mine
        raise outpaced(self._lake.settings.record)

    def check(self, first: Seq) -> None:
        """Raises OwnershipLost for a former owner, SinkError for a gap or a step back."""
        self._lake.retried(lambda: self._check(self._table(), first), doing="reading the position")

    def accept(self, accepted: Accepted, *, first: Seq, rows: Sequence[tuple[str, DdlRecord]]) -> None:
        """As `check`. `rows`: what goes to the record, of segment `accepted.seq`."""
        wanted = replace(self._mine, accepted=accepted)
        file = self._file(self._table(), accepted.seq, rows) if rows else None
        tried = False

        def act() -> None:
            nonlocal tried
            for _ in range(CONFLICTS_MAX):
                table = self._table()
                if tried and self._read(table) == wanted:
                    return  # an answer was lost
                self._check(table, first)
                tried = True
                try:
                    self._lake.commit(table, self._change(table, wanted, file))
                except Outpaced:
                    continue
                return
            raise outpaced(self._lake.settings.record)

        self._lake.retried(act, doing="accepting")

    # ---- the table ------------------------------------------------------------------------------------------------------

    def _table(self, *, make: bool = False) -> Table:
        name = self._lake.settings.record
        table = self._lake.table(name)
        if table is None and make:
            table = self._lake.make(name, SCHEMA, Standings(self._log_id, self._mode).properties(), "/".join(name))
        if table is None:
            raise SinkError(
                f"{'.'.join(name)}, which holds the position, is gone", hint="restore it, or deliver to a new namespace and dump again"
            )
        return table

    def _read(self, table: Table) -> Standings:
        found = standing_of(table, log_id=self._log_id, mode=self._mode)
        if found is None:
            raise SinkError(
                f"{'.'.join(table.name())} is a table that no sink of ours made", hint=f"name a namespace without a table {RECORD}"
            )
        return found

    def _check(self, table: Table, first: Seq) -> None:
        found = self._read(table)
        if (found.owner, found.by) != (self._mine.owner, self._mine.by):
            raise taken(self._lake)
        if found.accepted is not None:
            check_next(".".join(self._lake.settings.record), found.accepted.seq, first)

    def _change(self, table: Table, standing: Standings, file: Written | None = None) -> Change:
        snapshots = sorted(table.metadata.snapshots, key=lambda one: one.sequence_number or 0)
        files = [] if file is None else [file.data_file()]
        forget = [one.snapshot_id for one in snapshots[:-SNAPSHOTS_KEPT]]
        return Change(standing.properties(), standing.summary(), files, forget=forget)

    def _tables(self) -> set[TableName]:
        rows = self._table().scan(row_filter="what = 'table'", selected_fields=("schema", "table")).to_arrow()
        return {TableName(*names) for names in zip(rows["schema"].to_pylist(), rows["table"].to_pylist(), strict=True)}

    def _file(self, table: Table, seq: Seq, rows: Sequence[tuple[str, DdlRecord]]) -> Written:
        """Of these rows: a new one for each try of a batch."""
        location, name = data_location(table), f"{seq:020d}.{self.owner.epoch}-{self.owner.incarnation}-{secrets.token_hex(4)}.parquet"
        folder, into = self._lake.settings.folder(location), arrow_schema(SCHEMA.fields)
        columns = list(zip(*((what, seq, ddl.commit_ts, ddl.schema, ddl.table, ddl.query) for what, ddl in rows), strict=True))
        found = pa.Table.from_arrays([pa.array(column, field.type) for column, field in zip(columns, into, strict=True)], schema=into)
        with storage_errors(folder), storage.new_file(folder, name) as out:
            size, statistics = write_parquet(out, SCHEMA, found, {})
        return Written(seq, seq, TableName("", RECORD), version_of(table), f"{location}/{name}", size, statistics)


def version_of(table: Table) -> str:
    """Other field ids, columns or partitions: another version."""
    return f"{table.metadata.table_uuid} {table.metadata.current_schema_id} {table.metadata.default_spec_id}"


def data_location(table: Table) -> str:
    return (table.properties.get("write.data.path") or f"{table.location().rstrip('/')}/data").rstrip("/")
