"""`mode=merge`: rows into a table that is as it is in TiDB, one commit a table and batch.

    files of the batch ─► of each key the last row by (commit_ts, rank) ─► MERGE by the handle key: delete, update, insert

- A dump's files are added as they are where the table was empty when the first ones of their pass came and nothing else has come since: the
  chunks of one pass share no key (contract.DumpPass). Chunks of a second pass share keys with those of the first, also within one dump, so
  they are merged; a batch that has both is merged as a whole, and so is one in which a dump deletes keys. Two more transactions of the
  table remember it: `… dump {pass}` whose rows it has, `… live` 1 where it has others. They are in the commit of the rows, and the log says
  which pass a chunk is of, so a worker that dies changes nothing.
- Memory: the keys of a batch's rows of a table, then a piece of them at a time; of the MERGE itself MERGE_BYTES_MAX, after which delta-rs
  spills to the disk. A MERGE rewrites the files in which it finds a key, so it costs what these are large: files that the least and the
  greatest key of a batch exclude are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Seq
from spark_merge.log.read import batches_of
from spark_merge.port.contract import RANK_CHUNK, RANK_DELETE, RANK_PUT, DumpPass
from spark_merge.port.keys import are_last, key_codes
from spark_merge.sinks.delta.table import Act, Moment, Table, adding, app, hooks, with_transactions
from spark_merge.sinks.delta.writer import TablePlace, WrittenFile, merged_columns
from spark_merge.sinks.kit.held import missing

MERGE_BYTES_MAX = 512 << 20


def merge(table: Table, place: TablePlace, files: Sequence[WrittenFile], moment: Moment, folder: Folder) -> Seq:
    """As `Table.bring`."""

    def act(value: DeltaTable, due: Seq) -> Act | None:
        new = missing(files, due, table=f"the Delta table {table.uri}")
        if not new:
            return None
        only = _only_pass(new)
        if only is not None and (not value.file_uris() or _is_of_pass(value, table, only, moment.log_id)):
            return with_transactions(adding(new), Transaction(_live(moment.log_id), 0), Transaction(_pass(moment.log_id, only), 1))
        return with_transactions(_merging(place, new, folder), Transaction(_live(moment.log_id), 1))

    return table.bring(place.layout, moment, act)


def touched(log_id: str) -> Transaction:
    """What makes a later dump's rows be merged."""
    return Transaction(_live(log_id), 1)


def _live(log_id: str) -> str:
    return f"{app(log_id)} live"


def _pass(log_id: str, of: DumpPass) -> str:
    return f"{app(log_id)} dump {of}"


def _only_pass(files: Sequence[WrittenFile]) -> DumpPass | None:
    """The pass whose rows these are and nobody else's; None where it has deletes, which are no rows of a table."""
    if any(file.staged for file in files):
        return None
    passes = {file.passes for file in files}
    (first, *others) = next(iter(passes)) or (None,)
    return first if len(passes) == 1 and not others else None


def _is_of_pass(value: DeltaTable, table: Table, only: DumpPass, log_id: str) -> bool:
    return not table.transaction(value, _live(log_id)) and table.transaction(value, _pass(log_id, only)) == 1


# ---- the MERGE ------------------------------------------------------------------------------------------------------


def _merging(place: TablePlace, files: Sequence[WrittenFile], folder: Folder) -> Act:
    def acting(table: DeltaTable, how: CommitProperties) -> object:
        rows = Folded(place, files, folder)
        names = merged_columns(place.layout).names
        all_of_it = {f"t.`{name}`": f"s.`{name}`" for name in names}
        return (
            table.merge(
                rows.reader(),
                predicate=rows.predicate(),
                source_alias="s",
                target_alias="t",
                max_spill_size=MERGE_BYTES_MAX,
                commit_properties=how,
                post_commithook_properties=hooks(table),
            )
            .when_matched_delete(f"s.`{rows.gone}`")
            .when_matched_update(all_of_it, f"NOT s.`{rows.gone}`")
            .when_not_matched_insert(all_of_it, f"NOT s.`{rows.gone}`")
            .execute()
        )

    return acting


class Folded:
    """Of each key the last row that files have of it. `gone`: the column that says that it was deleted."""

    def __init__(self, place: TablePlace, files: Sequence[WrittenFile], folder: Folder) -> None:
        self._place, self._files, self._folder = place, files, folder
        names = merged_columns(place.layout).names
        self.gone = "gone"
        while self.gone in (name.lower() for name in names):
            self.gone = f"_{self.gone}"
        self._key = list(place.key)
        self._keep, self._bounds = self._last_of_each_key()

    def predicate(self) -> str:
        equal = [f"t.`{name}` = s.`{name}`" for name in self._key]
        return " AND ".join(equal + [f"t.`{name}` BETWEEN {least} AND {most}" for name, (least, most) in self._bounds.items()])

    def reader(self) -> pa.RecordBatchReader:
        schema = merged_columns(self._place.layout).append(pa.field(self.gone, pa.bool_()))
        return pa.RecordBatchReader.from_batches(schema, self._batches(schema))

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        op = self._place.layout.envelope("op")
        for file, keep in zip(self._files, self._keep, strict=True):
            names, at = schema.names[:-1] + ([op] if file.staged else []), 0
            for rows in _read(self._folder, file, names):
                kept = pa.Table.from_batches([rows]).filter(pa.array(keep[at : at + rows.num_rows]))
                at += rows.num_rows
                gone = pc.equal(kept[op], "delete") if file.staged else pa.repeat(pa.scalar(value=False), kept.num_rows)
                yield from kept.select(schema.names[:-1]).append_column(self.gone, gone).cast(schema).to_batches()

    def _last_of_each_key(self) -> tuple[list[Any], dict[str, tuple[int, int]]]:
        layout = self._place.layout
        op, commit_ts = layout.envelope("op"), layout.envelope("commit_ts")
        keys, times, ranks = list[pa.Table](), list[Any](), list[Any]()
        for file in self._files:
            for rows in _read(self._folder, file, [*self._key, commit_ts, *([] if file.passes else [op])]):
                keys.append(pa.Table.from_batches([rows.select(self._key)]))
                times.append(rows.column(commit_ts).to_numpy())
                ranks.append(np.full(rows.num_rows, RANK_CHUNK) if file.passes else _ranks(rows.column(op)))
        result = pa.concat_tables(keys)
        self._check_comparable(result)
        keep = are_last(key_codes(result), ranks=np.concatenate(ranks), commit_ts=np.concatenate(times))
        edges = np.cumsum([file.rows for file in self._files])[:-1]
        return np.split(keep, edges), {name: _bounds(result[name]) for name in self._key if pa.types.is_int64(result[name].type)}

    def _check_comparable(self, keys: pa.Table) -> None:
        for name in keys.column_names:
            if keys[name].null_count:
                raise SinkError(
                    f"{self._files[0].table} has a key whose {name} is a date of no calendar, and a MERGE cannot compare it",
                    hint="use mode=append, or leave the table out by the changefeed's filter",
                )


def _read(folder: Folder, file: WrittenFile, names: list[str]) -> Iterator[pa.RecordBatch]:
    with storage.open_to_read(folder, file.path) as result:
        for _, rows in batches_of(pq.ParquetFile(result), columns=names):
            yield from rows.to_batches()


def _ranks(op: pa.Array) -> Any:
    return np.where(pc.equal(op, "delete").to_numpy(zero_copy_only=False), RANK_DELETE, RANK_PUT)


def _bounds(column: pa.ChunkedArray) -> tuple[int, int]:
    result = pc.min_max(column)
    return result["min"].as_py(), result["max"].as_py()
