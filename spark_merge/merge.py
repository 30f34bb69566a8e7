"""The merge rule, fast (design 6). The slow obvious twin is `rule.py`; a property test holds them equal.

For a window `(low_ts, high_ts]` and a chunk of table T read inside it, let K be the keys of old and new images of all
changes of T with `low_ts < commit_ts <= high_ts`. The chunk's survivors are its rows whose key is not in K. They come
out at high_ts: after every change <= high_ts, before every change > high_ts.

    touched    K of every chunk's window, by a join of changes and windows          (Spark, on keys only)
    survivors  the chunk's rows whose key is not in K                               (Arrow, in the task that writes them)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # what everyone who knows Spark calls it

from sidecar.core.model import Seq, TableSchema
from sidecar.storage import Folder
from spark_merge.contract import CHUNK_STRUCT, RANK_CHUNK

_CHANGE_COLUMNS = ("seq", "commit_ts", "rank", "ordinal", "schema", "table", "op", "key", "before", "after")


@dataclass(frozen=True, slots=True)
class Survivors:
    """`rows`: the table's columns as canonical text (pa.string), in schema order, in the chunk's order.
    `ordinals`: each row's number in the chunk, from 0 (pa.int64). `dropped`: rows whose key was touched in the window."""

    rows: pa.Table
    ordinals: pa.Array
    dropped: int


def key_text(columns: list[Any]) -> Any:
    """One text per row that is equal exactly for equal keys: a JSON array of the key columns' canonical text.

    `columns`: the key's columns in key order, each a pa.Array or ChunkedArray of strings without nulls. Control
    characters are left as they are: the text is an identity, not meant to be parsed.
    """
    escaped = [pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), '"', '\\"') for column in columns]
    quoted = pc.binary_join_element_wise(*escaped, '","') if len(escaped) > 1 else escaped[0]
    return pc.binary_join_element_wise('["', quoted, '"]', "")


def survivors(log: Folder, schema: TableSchema, path: str, touched: pa.Array) -> Survivors:
    """Open the chunk file `path` of the log and leave out the rows whose key is in `touched`."""
    table = pq.read_table(log.path(path), filesystem=log.fs(), columns=list(schema.column_names()))
    ordinals = pa.array(range(table.num_rows), pa.int64())
    if len(touched) == 0 or table.num_rows == 0:
        return Survivors(table, ordinals, 0)
    keep = pc.invert(pc.is_in(key_text([table.column(name) for name in schema.key]), value_set=touched))
    kept = table.filter(keep)
    return Survivors(kept, ordinals.filter(keep.combine_chunks()), table.num_rows - kept.num_rows)


def touched(changes: DataFrame, chunks: DataFrame) -> DataFrame:
    """K of each window and table: `window long, schema string, table string, touched array<string>`.

    `changes`: CHANGE_SCHEMA rows that cover the windows. `chunks`: CHUNK_SCHEMA.
    """
    windows = chunks.select("window", "schema", "table", "low_ts", "high_ts").distinct()
    return (
        changes.select("schema", "table", "commit_ts", "key")
        .join(F.broadcast(windows), ["schema", "table"])
        .where((F.col("commit_ts") > F.col("low_ts")) & (F.col("commit_ts") <= F.col("high_ts")))
        .groupBy("window", "schema", "table")
        .agg(F.collect_set("key").alias("touched"))
        .select("window", "schema", "table", "touched")
    )


def live(changes: DataFrame, *, first_seq: Seq) -> DataFrame:
    """The changes of the segments from `first_seq` on, as DELIVERY_SCHEMA."""
    return changes.where(F.col("seq") >= first_seq).select(*_CHANGE_COLUMNS, F.lit(None).cast(CHUNK_STRUCT).alias("chunk"))


def dumped(changes: DataFrame, chunks: DataFrame) -> DataFrame:
    """One DELIVERY_SCHEMA row for each chunk, with the keys touched in its window, at the window's high_ts."""
    no_keys = F.array().cast("array<string>")
    return chunks.join(F.broadcast(touched(changes, chunks)), ["window", "schema", "table"], "left").select(
        "seq",
        F.col("high_ts").alias("commit_ts"),
        F.lit(RANK_CHUNK).alias("rank"),
        "ordinal",
        "schema",
        "table",
        F.lit(None).cast("string").alias("op"),
        F.lit(None).cast("string").alias("key"),
        F.lit(None).cast("array<string>").alias("before"),
        F.lit(None).cast("array<string>").alias("after"),
        F.struct("dump_id", "path", F.coalesce("touched", no_keys).alias("touched")).alias("chunk"),
    )
