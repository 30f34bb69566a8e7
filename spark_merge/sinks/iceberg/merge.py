"""`mode=merge`: tables that are as they are in TiDB, by equality deletes. Nothing of a table is read or rewritten, so a batch costs what
its rows cost.

    of live rows     files of the rows that are there afterwards, and of all keys that were touched: both at the commit's own sequence
                     number. An equality delete hides rows of smaller numbers: what the table had of these keys, and no row beside it
    of dump's rows   files at the number `base`, which no commit with rows has: that of a commit at which the table had no file

Why a chunk's row may come at `base`, below live rows that are older than it. Take a row of key k that a chunk has at high_ts (so no change
of k is in its window), and the table at a commit that has all live rows up to some R >= high_ts.
- No live row of k up to R: the row is the table's only one of k, and TiDB's. All rows at `base` are of one pass of a dump, and a pass has a
  key in one chunk at most (contract.DumpPass). A dump that reads the table again begins another pass, which does not come at `base`.
- Otherwise the last one has left an equality delete of k at its number, above `base`: the chunk's row is hidden, before and after it
  comes. The table has what that live row made. Is it above high_ts, it is the newer one. Else none is between it and high_ts, and the
  chunk has read what it made: the same row; was it a delete, no chunk would have k.
So each snapshot has per key the state after its last live row, or else the dump's (P1, P2). A repeat adds nothing (tables.py, P5).

The last step holds only if the stream brought every change of k. A dump must also repair a row of which the stream lacks a change
(shared/log/skips.py), and then a live row from before the dump is wrong and must not hide the chunk's row. So a pass comes at `base` only
if every live row of the table is of the pass's first segment or a later one (`live` >= `since_seq`): what the log had before the pass began
hides nothing. Live rows that come while the pass runs do not matter. A change that the stream lacks after the pass has begun is repaired by
the next pass, which is merged.

The argument needs all live rows since the table had no file, one pass, and delete files that stay. So `base` is forgotten for ever, in the
commit that sees it, when (a) a second pass comes, or the first one finds live rows from before it or deletes keys, (b) the table's snapshot
is not our last one: `rewrite_data_files` moves rows to later numbers and drops delete files, (c) the table gets another key, or the
operator did a DDL by hand. From then on a dump's rows are merged, with equality deletes of their keys at the commit's own number. A
TRUNCATE removes all files, and is the next `base`.

A worker that dies changes none of this. The log says which pass a chunk is of, and `dump` and `live` are in the commit of the rows that
they describe. A batch with rows of two passes is merged as a whole.

    ticdc-dump.base   that number, or empty      ticdc-dump.dump       the pass whose rows are at `base`
    ticdc-dump.keys   field ids of all deletes   ticdc-dump.live       first segment of live rows since `base`
                                                 ticdc-dump.snapshot   our last one
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyiceberg.manifest import DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Seq, TableSchema
from spark_merge.port.contract import DumpPass
from spark_merge.sinks.iceberg.evolution import ICEBERG, evolved, renamed
from spark_merge.sinks.iceberg.fold import live, passes, with_keys, without_repeats
from spark_merge.sinks.iceberg.lake import LakeChange, RowsOfFiles
from spark_merge.sinks.iceberg.merge_writer import key_ids
from spark_merge.sinks.iceberg.modes import TableBatch
from spark_merge.sinks.iceberg.partitions import check_parted, check_stays
from spark_merge.sinks.iceberg.position import PREFIX, Standings
from spark_merge.sinks.iceberg.types import Mode
from spark_merge.sinks.iceberg.uri import IcebergSettings
from spark_merge.sinks.iceberg.writer import Files, LakeFile
from spark_merge.sinks.lake.ddl import LakeAltered

SNAPSHOT = f"{PREFIX}snapshot"


@dataclass(frozen=True, slots=True)
class Below:
    """What a table remembers of its dump. `base` None: its rows are merged. `dump`: a DumpPass as text. `keys`: fields that delete files go
    by. `live`: None: no live row has come since `base`."""

    base: int | None = None
    dump: str = ""
    keys: frozenset[int] = frozenset()
    live: Seq | None = None

    @classmethod
    def of(cls, table: Table) -> Below:
        """Nobody else has committed a snapshot since, or `base` is forgotten. A table of an earlier version does not say since when it has
        live rows: they may be of any segment."""
        base, dump, keys, last = (table.properties.get(name, "") for name in (*_NAMES, SNAPSHOT))
        live = table.properties.get(LIVE, "0")
        ours = last == str(table.metadata.current_snapshot_id)
        fields = frozenset(map(int, keys.split(","))) if keys else frozenset[int]()
        return cls(int(base) if base and ours else None, dump, fields, Seq(int(live)) if live else None)

    def properties(self) -> dict[str, str]:
        keys = ",".join(map(str, sorted(self.keys)))
        result = dict(zip(_NAMES, ("" if self.base is None else str(self.base), self.dump, keys), strict=True))
        return result | {LIVE: "" if self.live is None else str(self.live)}

    def with_live(self, files: Sequence[LakeFile]) -> Below:
        """With these files of live rows, which are of no earlier segments than those before them."""
        return replace(self, live=min(file.first for file in files)) if files and self.live is None else self

    def takes(self, passes: frozenset[DumpPass]) -> bool:
        """Rows of these passes at `base`, beside all live rows of the commit."""
        if self.base is None or len(passes) != 1:
            return False
        (only,) = passes
        return self.dump == str(only) if self.dump else self.live is None or self.live >= only.since_seq


_NAMES = tuple(PREFIX + name for name in ("base", "dump", "keys"))
LIVE = f"{PREFIX}live"


@dataclass(frozen=True, slots=True)
class MergeMode:
    settings: IcebergSettings
    name: Mode = "merge"

    def check_parted(self, table: Table, schema: TableSchema) -> None:
        check_parted(table.spec(), table.schema(), schema)

    def merges(self, table: Table) -> bool:
        return Below.of(table).base is None

    def beginning(self, table: Table, schema: Schema | None, standing: Standings) -> LakeChange | None:
        """A first snapshot, whose number is `base`."""
        first = table.metadata.current_snapshot_id is None
        if schema is None and not first:
            return None
        below = Below(table.metadata.next_sequence_number()) if first else Below.of(table)
        return LakeChange(standing.properties() | below.properties(), {}, schema=schema, rows=RowsOfFiles(SNAPSHOT))

    def change(self, batch: TableBatch) -> LakeChange | None:
        table, altered, standing = batch.table, batch.altered, batch.standing
        below, schema = Below.of(table), None
        if altered is not None:
            if altered.unless_empty and not altered.emptied and (batch.files or _has_rows(table)):
                raise ICEBERG.refused(batch.last, altered.unless_empty)
            schema = _schema_after(batch, altered, below)
            if altered.by_hand or (altered.before is not None and altered.after is not None and altered.before.key != altered.after.key):
                below = replace(below, base=None)
        if altered is not None and altered.emptied:
            below, rows = Below(table.metadata.next_sequence_number()), RowsOfFiles(SNAPSHOT, emptied=True)
            return LakeChange(standing.properties() | below.properties(), standing.summary(), (), schema, rows=rows)
        if not batch.files and schema is None and below == Below.of(table):
            return None
        below, files, low = _merged_files(batch, below)
        rows = RowsOfFiles(SNAPSHOT, below={file.path: below.base for file in low if below.base is not None})
        made = [file.data_file() for file in files]
        return LakeChange(standing.properties() | below.properties(), standing.summary(), made, schema, rows=rows)


def _merged_files(batch: TableBatch, below: Below) -> tuple[Below, list[LakeFile], list[LakeFile]]:
    """All files of the commit, and those of them that come at `base`."""
    files = batch.files
    if not files:
        return below, [], []
    assert batch.target is not None, "files are written for a target"
    assert batch.standing.owner is not None, "files are written by an owner"
    schema, target = batch.target
    due, below = passes(files), below.with_live(live(files))
    key = key_ids(Schema.model_validate_json(target.schema), schema.key)
    more = Files(batch.standing.owner)
    if below.takes(due) and not any(file.deletes for file in files):
        low = [file for file in files if file.passes and file.content == DataFileContent.DATA]
        below, merged = replace(below, dump=str(next(iter(due)))), live(files)
    else:
        low, merged = [], list(files)
        below = replace(below, base=None) if due else below
        with_keys([file for file in files if file.passes], target, key, more)
    without_repeats(merged, target, key, more)
    more.make_durable()
    return replace(below, keys=below.keys | frozenset(key)), [*merged, *low, *more.written], low


def _schema_after(batch: TableBatch, altered: LakeAltered, below: Below) -> Schema | None:
    if altered.after is None:
        return None
    table, there = batch.table, batch.table.schema()
    again = altered.emptied or altered.by_hand or not _has_rows(table)
    try:
        schema = evolved(there, table.metadata.last_column_id, altered.after, renamed(altered.columns), again=again, mode="merge")
    except SinkError as error:
        raise ICEBERG.refused(batch.last, error.message) from error
    lost = set() if schema is None or altered.emptied else below.keys - set(schema.field_ids)
    if lost:
        names = ", ".join(there.find_field(one).name for one in lost)
        raise ICEBERG.refused(batch.last, f"column {names} is in the key of rows that were deleted")
    if schema is not None:
        check_stays(table, schema, "merge")
    return schema


def _has_rows(table: Table) -> bool:
    """Or files that had some."""
    snapshot = table.current_snapshot()
    return snapshot is not None and any(one.has_added_files() or one.has_existing_files() for one in snapshot.manifests(table.io))
