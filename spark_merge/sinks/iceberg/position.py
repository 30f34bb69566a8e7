"""The position (`PositionStore`): the properties of one small table for all tables, `_ticdc_dump` in the namespace. Each change of them is
a commit that is compared with the one before it (lake.py).

    ticdc-dump.log        whose output this is              ticdc-dump.seq, .upto-ts, .manifest   what is accepted; absent at the start
    ticdc-dump.owner      epoch-incarnation                 ticdc-dump.mode    what the tables are, for ever; absent for `append`

Its rows are for readers, and for the worker that opens it: each table that has got rows (`table`), and each DDL that was accepted (`ddl`).
They are the payload of a swap. Of its own snapshots the last ones stay: nobody reads earlier ones.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from spark_merge.port.contract import Accepted, Owner
from spark_merge.sinks.iceberg.lake import Lake, LakeChange
from spark_merge.sinks.iceberg.types import Mode, arrow_schema
from spark_merge.sinks.iceberg.uri import RECORD
from spark_merge.sinks.iceberg.writer import LakeFile, write_parquet
from spark_merge.sinks.kit.fence import check_log
from spark_merge.sinks.kit.position import Missed, OutputState, Stored, gone
from spark_merge.sinks.lake.steps import Outpaced

VERSIONS: dict[Mode, str] = {"append": "1", "merge": "2"}
PREFIX = "ticdc-dump."
SNAPSHOTS_KEPT = 10
NO_OWNER = Owner(0, 0)
"""Of a record that was made and not opened."""

ANOTHER_NAMESPACE = "deliver a new log to a new namespace, and dump again; or set log.uri back to the log that the output is of"

RecordRows: TypeAlias = Sequence[tuple[str, DdlRecord]]
"""What each is, `table` or `ddl`, and its names and text."""

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
    """What the properties of a table say, of the record's and of a data table's alike. `owner` None: nobody has opened it. `first`: of the
    segments whose rows come with a commit; it is in its snapshot alone."""

    log_id: str
    mode: Mode
    owner: Owner | None = None
    accepted: Accepted | None = None
    first: Seq | None = None

    def properties(self) -> dict[str, str]:
        result = {"version": VERSIONS[self.mode], "log": self.log_id} | ({"mode": self.mode} if self.mode != "append" else {})
        if self.owner is not None:
            result["owner"] = f"{self.owner.epoch}-{self.owner.incarnation}"
        if self.accepted is not None:
            result |= {"seq": str(self.accepted.seq), "upto-ts": str(self.accepted.upto_ts), "manifest": self.accepted.manifest}
        return {PREFIX + name: value for name, value in result.items()}

    def summary(self) -> dict[str, str]:
        """Of a snapshot, for who travels in time."""
        first = {} if self.first is None else {f"{PREFIX}first-seq": str(self.first)}
        return {name: value for name, value in self.properties().items() if name.removeprefix(PREFIX) in ("seq", "upto-ts")} | first


def standing_of(table: Table, *, log_id: str, mode: Mode) -> Standings | None:
    """None: of nobody of ours. Raises SinkError for another log's, another mode's, or a later version's."""
    standing = properties_of(table, mode=mode)
    if standing is not None:
        check_log(".".join(table.name()), standing.log_id, log_id, hint=ANOTHER_NAMESPACE)
    return standing


def properties_of(table: Table, *, mode: Mode) -> Standings | None:
    """As `standing_of`, of any log."""
    name = ".".join(table.name())
    result = {key.removeprefix(PREFIX): value for key, value in table.properties.items() if key.startswith(PREFIX)}
    if "log" not in result:
        return None
    if result.get("version") not in VERSIONS.values():
        raise SinkError(
            f"{name} was written by format version {result.get('version')}, this ticdc-dump knows {', '.join(VERSIONS.values())}",
            hint="run the version that wrote it, or deliver to a new namespace",
        )
    if result.get("mode", "append") != mode:
        raise SinkError(
            f"{name} was made by mode={result.get('mode', 'append')}, and this is mode={mode}: a namespace has one for ever",
            hint="set mode= back to what it was, or deliver to a new namespace and dump again",
        )
    try:
        return Standings(result["log"], mode, _owner(result), _accepted(result))
    except (ValueError, KeyError) as error:
        raise SinkError(
            f"{name} has properties {PREFIX}* that are not as they were written: {error!r}",
            hint="restore them from an earlier metadata file, or deliver to a new namespace",
        ) from error


def _owner(value: Mapping[str, str]) -> Owner | None:
    if "owner" not in value:
        return None
    epoch, _, incarnation = value["owner"].partition("-")
    return Owner(int(epoch), int(incarnation))


def _accepted(value: Mapping[str, str]) -> Accepted | None:
    return Accepted(Seq(int(value["seq"])), CommitTs(int(value["upto-ts"])), value["manifest"]) if "seq" in value else None


class RecordPositions:
    """`PositionStore` in the lake's record. A swap's payload is the record's rows of segment `accepted.seq`."""

    def __init__(self, lake: Lake) -> None:
        self._lake, self._mode = lake, lake.settings.mode
        self.place = ".".join(lake.settings.record)

    def read(self) -> Stored[None] | None:
        table = self._lake.table(self._lake.settings.record)
        return None if table is None else self._stored(table)

    def compare_and_swap(
        self, before: Stored[None] | None, after: OutputState[None], payload: RecordRows | None = None
    ) -> Stored[None] | Missed:
        if before is None:
            name, bare = self._lake.settings.record, Standings(after.log_id, self._mode)
            before = self._stored(self._lake.make(name, SCHEMA, bare.properties(), "/".join(name)))
            if before.state.owner != NO_OWNER:
                return Missed.CONFLICT
        table, tries = _table(before), 0
        change = self._change(table, after, payload or ())

        def commit() -> Stored[None] | Missed:
            nonlocal tries
            tries += 1
            try:
                self._lake.commit(table, change)
            except Outpaced:
                return Missed.CONFLICT if tries == 1 else Missed.UNKNOWN
            return Stored(after, table)

        return self._lake.retried(commit, doing="writing the position")

    def tables(self) -> set[TableName]:
        """Those that have got rows in what is accepted, since they last began without any."""

        def scan() -> set[TableName]:
            table = self._lake.table(self._lake.settings.record)
            if table is None:
                raise gone(self.place)
            rows = table.scan(row_filter="what in ('table', 'begun')", selected_fields=("what", "seq", "schema", "table")).to_arrow()
            last: dict[tuple[str, TableName], int] = {}
            for row in rows.to_pylist():
                place = row["what"], TableName(row["schema"], row["table"])
                last[place] = max(row["seq"], last.get(place, -1))
            return {name for (what, name), seq in last.items() if what == "table" and seq > last.get(("begun", name), -1)}

        return self._lake.retried(scan, doing="reading which tables have rows")

    def _stored(self, table: Table) -> Stored[None]:
        standing = properties_of(table, mode=self._mode)
        if standing is None:
            raise SinkError(f"{self.place} is a table that no sink of ours made", hint=f"name a namespace without a table {RECORD}")
        return Stored(OutputState(standing.log_id, standing.owner or NO_OWNER, standing.accepted), table)

    def _change(self, table: Table, state: OutputState[None], rows: RecordRows) -> LakeChange:
        standing = Standings(state.log_id, self._mode, state.owner, state.accepted)
        snapshots = sorted(table.metadata.snapshots, key=lambda one: one.sequence_number or 0)
        files = [self._file(table, state, rows).data_file()] if rows else []
        forget = [one.snapshot_id for one in snapshots[:-SNAPSHOTS_KEPT]]
        return LakeChange(standing.properties(), standing.summary(), files, forget=forget)

    def _file(self, table: Table, state: OutputState[None], rows: RecordRows) -> LakeFile:
        """Of these rows: a new one for each try of a batch."""
        assert state.accepted is not None, "rows are of an accepted segment"
        seq, owner = state.accepted.seq, state.owner
        location, name = data_location(table), f"{seq:020d}.{owner.epoch}-{owner.incarnation}-{secrets.token_hex(4)}.parquet"
        folder, into = self._lake.settings.folder(location), arrow_schema(SCHEMA.fields)
        columns = list(zip(*((what, seq, ddl.commit_ts, ddl.schema, ddl.table, ddl.query) for what, ddl in rows), strict=True))
        result = pa.Table.from_arrays([pa.array(column, field.type) for column, field in zip(columns, into, strict=True)], schema=into)
        with storage.new_file(folder, name) as out:
            size, statistics = write_parquet(out, SCHEMA, result, {})
        return LakeFile(seq, seq, TableName("", RECORD), version_of(table), f"{location}/{name}", size, statistics)


def _table(stored: Stored[None]) -> Table:
    assert isinstance(stored.version, Table)
    return stored.version


def version_of(table: Table) -> str:
    """Other field ids, columns or partitions: another version."""
    return f"{table.metadata.table_uuid} {table.metadata.current_schema_id} {table.metadata.default_spec_id}"


def data_location(table: Table) -> str:
    return (table.properties.get("write.data.path") or f"{table.location().rstrip('/')}/data").rstrip("/")
