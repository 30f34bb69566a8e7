"""The key-values of a recording (kv/entries.parquet) with the tables at its start, and its feeds' changes beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sidecar.replay.recording import Recording
from sidecar.replay.tables import logged
from sidecar.shared.model.nouns import MARK_TABLE, Change, Message, TableName
from sidecar.shared.rowcodec.kv_key import record_key
from sidecar.shared.rowcodec.kv_table import KvTable, kv_table
from spark_merge.codecs.decode.rows import decode
from tests.support.recordings import recording

Row = tuple[str | None, ...]


class Entry(NamedTuple):
    """`old` empty: no row before. `value` empty: deleted."""

    table: KvTable
    commit_ts: int
    key: bytes
    value: bytes
    old: bytes


@dataclass(frozen=True)
class KvRecording:
    """`entries` are of tables known at the start, up to `end_ts`, in the order of the file."""

    recording: Recording
    tables: Mapping[int, KvTable]
    entries: tuple[Entry, ...]


@cache
def kv_recording(name: str) -> KvRecording:
    result = Recording(recording(name))
    tables: dict[int, KvTable] = {}
    for path in sorted((result.folder / "schema" / str(result.start_ts)).glob("*.*.json")):
        table = kv_table(json.loads(path.read_bytes()), schema=path.name.split(".")[0])
        tables |= dict.fromkeys(table.physical_ids, table)
    rows = pq.read_table(result.folder / "kv" / "entries.parquet")
    rows = rows.filter((pa.compute.field("op") != "resolved") & (pa.compute.field("commit_ts") <= result.end_ts))
    entries = []
    for row in rows.to_pylist():
        known = tables.get(record_key(row["key"]).table_id)
        if known is not None:
            entries.append(Entry(known, row["commit_ts"], row["key"], row["value"] or b"", row["old_value"] or b""))
    return KvRecording(result, tables, tuple(entries))


class Versions(NamedTuple):
    """What one commit did to one handle key: the row before and after it. `ops` as the feed has them, sorted."""

    before: Row | None
    after: Row | None
    ops: tuple[str, ...]


Place = tuple[TableName, int, Row]
"""Table, commit_ts, handle key."""


def feed_versions(name: str, feed: str, *, server_tz: str = "UTC") -> dict[Place, Versions]:
    """Decoded as Spark decodes it, without the watermark table, up to `end_ts`."""
    result = Recording(recording(name))
    config = result.feed_config(feed)
    codec = config.codec()
    changes = [
        change
        for lane, messages in result.messages(config).items()
        for position, message in enumerate(messages)
        for change in codec.envelopes(Message(lane, position, message.key, message.value))
        if isinstance(change, Change) and (change.schema, change.table) != MARK_TABLE and change.commit_ts <= result.end_ts
    ]
    rows = logged(changes, codec.name)
    decoded = decode(rows, codec=codec.name, schemas=result.schemas, server_tz=server_tz).to_pylist()
    return merged(
        (TableName(row["schema"], row["table"]), row["commit_ts"], row["op"], _row(row["before"]), _row(row["after"]), result)
        for row in decoded
    )


def _row(value: list[str | None] | None) -> Row | None:
    return None if value is None else tuple(value)


def merged(changes: Iterator[tuple[TableName, int, str, Row | None, Row | None, Recording]]) -> dict[Place, Versions]:
    """One entry a handle key and commit. Repeats fall together; two different rows for one place are an error."""
    made: dict[Place, Versions] = {}
    for name, commit_ts, op, before, after, result in changes:
        names, key = result.schemas[name].column_names(), result.schemas[name].key
        image = after or before
        assert image is not None
        place = (name, commit_ts, tuple(image[names.index(column)] for column in key))
        other = made.get(place, Versions(None, None, ()))
        assert other.before in (None, before) or before is None, f"{place}: two rows before"
        assert other.after in (None, after) or after is None, f"{place}: two rows after"
        ops = tuple(sorted({*other.ops, op}))
        made[place] = Versions(before or other.before, after or other.after, ops)
    return made
