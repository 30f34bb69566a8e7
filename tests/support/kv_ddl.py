"""The `ddl` recordings: key-values under the schema in force at each commit_ts - 1, and the feeds' changes under the same."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sidecar.replay.recording import Recording
from sidecar.replay.tables import logged
from sidecar.shared.model.nouns import MARK_TABLE, Change, CommitTs, Message, TableName, TableSchema
from sidecar.shared.rowcodec.ddl_job import ddl_job
from sidecar.shared.rowcodec.key_values import DDL_JOB_TABLE_ID
from sidecar.shared.rowcodec.kv_key import record_key
from sidecar.shared.rowcodec.kv_row import decode_row
from sidecar.shared.rowcodec.kv_table import KvTable, kv_table
from sidecar.shared.schema.ddl import DdlEvent, DdlJob, Step, TableInfo
from sidecar.shared.schema.history import SchemaHistory
from sidecar.shared.schema.version import SchemaSnapshot, TableVersion
from spark_merge.codecs.decode.rows import decode
from tests.support.recordings import recording

Row = tuple[str | None, ...]


class Raw(NamedTuple):
    """One committed write of one key. `old` empty: no row before. `value` empty: deleted."""

    commit_ts: int
    start_ts: int
    table_id: int
    key: bytes
    value: bytes
    old: bytes


@dataclass(frozen=True)
class DdlRecording:
    """`entries` of user tables in commit order, each (key, commit_ts) once, up to the end; `steps` of the DDL job table."""

    recording: Recording
    entries: tuple[Raw, ...]
    repeats: int
    steps: tuple[DdlJob | Step, ...]
    history: SchemaHistory[KvTable]
    events: tuple[DdlEvent, ...]


def describe(info: TableInfo, schema: str) -> KvTable:
    return kv_table(info, schema=schema)


def snapshot(folder: Path, ts: int) -> list[SchemaSnapshot]:
    at = folder / "schema" / str(ts)
    return [
        SchemaSnapshot(
            one["id"],
            one["db_name"]["O"],
            [json.loads(path.read_text()) for path in sorted(at.glob(f"{one['db_name']['O']}.*.json"))],
        )
        for one in json.loads((at / "schemas.json").read_text())
    ]


def job_metas(value: bytes) -> Iterator[bytes]:
    """The JSON of `job_meta` amid the row's bytes: the one column of the table that holds an object."""
    start = value.find(b'{"id":')
    if start >= 0:
        text = value[start:].decode(errors="surrogateescape")
        yield text[: json.JSONDecoder().raw_decode(text)[1]].encode()


@cache
def _entries(name: str) -> tuple[int, tuple[Raw, ...]]:
    """How many there are, and each (key, commit_ts) once, in commit order, up to the end."""
    result = Recording(recording(name))
    rows = pq.read_table(result.folder / "kv" / "entries.parquet")
    rows = rows.filter((pa.compute.field("op") != "resolved") & (pa.compute.field("commit_ts") <= result.end_ts)).to_pylist()
    by_place: dict[tuple[int, bytes], Raw] = {}
    for row in rows:
        raw = Raw(
            row["commit_ts"], row["start_ts"], record_key(row["key"]).table_id, row["key"], row["value"] or b"", row["old_value"] or b""
        )
        assert by_place.setdefault((raw.commit_ts, raw.key), raw) == raw, "a repeat is the same"
    return len(rows), tuple(by_place[place] for place in sorted(by_place))


def job_rows(name: str) -> list[Raw]:
    """What was written to mysql.tidb_ddl_job."""
    return [raw for raw in _entries(name)[1] if raw.table_id == DDL_JOB_TABLE_ID and raw.value]


@cache
def ddl_recording(name: str) -> DdlRecording:
    result = Recording(recording(name))
    count, entries = _entries(name)
    steps = [
        step
        for raw in job_rows(name)
        for meta in job_metas(raw.value)
        if (step := ddl_job(meta, commit_ts=CommitTs(raw.commit_ts), at=f"{name} at {raw.commit_ts}")) is not None
    ]
    history = SchemaHistory(result.start_ts, snapshot(result.folder, result.start_ts), describe=describe)
    events = [event for step in steps if (event := history.apply(step)) is not None]
    history.advance(result.end_ts)
    users = tuple(raw for raw in entries if raw.table_id != DDL_JOB_TABLE_ID)
    return DdlRecording(result, users, count - len(entries), tuple(steps), history, tuple(events))


# ---- the feeds ------------------------------------------------------------------------------------------------------


def feed_changes(value: DdlRecording, feed: str) -> Iterator[tuple[TableVersion[KvTable], dict[str, Any]]]:
    """Every row of a feed up to the end, decoded as Spark decodes it under the schema at its commit_ts - 1."""
    config = value.recording.feed_config(feed)
    codec = config.codec()
    changes = (
        change
        for lane, messages in value.recording.messages(config).items()
        for position, message in enumerate(messages)
        for change in codec.envelopes(Message(lane, position, message.key, message.value))
        if isinstance(change, Change)
    )
    return decoded_by_version(value, codec.name, changes)


def decoded_by_version(
    value: DdlRecording, codec: str, changes: Iterable[Change]
) -> Iterator[tuple[TableVersion[KvTable], dict[str, Any]]]:
    """Those up to the end but for the watermark table's."""
    groups: defaultdict[int, list[Change]] = defaultdict(list)
    versions: dict[int, TableVersion[KvTable]] = {}
    for change in changes:
        if (change.schema, change.table) == MARK_TABLE or change.commit_ts > value.recording.end_ts:
            continue
        version = value.history.by_name(TableName(change.schema, change.table), change.commit_ts - 1)
        assert isinstance(version, TableVersion), change
        versions[id(version)] = version
        groups[id(version)].append(change)
    for which, group in groups.items():
        version = versions[which]
        for row in decoded(group, codec, version.description.schema).to_pylist():
            yield version, row


def decoded(changes: Iterable[Change], codec: str, schema: TableSchema) -> pa.Table:
    results = list(changes)
    (name,) = {TableName(c.schema, c.table) for c in results}
    return decode(logged(results, codec), codec=codec, schemas={name: schema})


class Versions(NamedTuple):
    """What one commit did to one handle key, under `version`: the row before and after it. `ops` as the feed has them, sorted."""

    version: TableVersion[KvTable]
    before: Row | None
    after: Row | None
    ops: tuple[str, ...]


Place = tuple[TableName, int, Row]
"""Table, commit_ts, handle key."""


@cache
def kv_versions(name: str) -> dict[Place, Versions]:
    """Of tables with a usable key. What has no table at its commit_ts - 1 is no data (test_schema_history_recordings.py)."""
    return merged(_kv_changes(ddl_recording(name)))


@cache
def feed_versions(name: str, feed: str) -> dict[Place, Versions]:
    return merged(
        (version, row["commit_ts"], row["op"], _row(row["before"]), _row(row["after"]))
        for version, row in feed_changes(ddl_recording(name), feed)
    )


def _row(value: list[str | None] | None) -> Row | None:
    return None if value is None else tuple(value)


_Change = tuple[TableVersion[KvTable], int, str, Row | None, Row | None]


def _kv_changes(value: DdlRecording) -> Iterator[_Change]:
    for raw in value.entries:
        version = value.history.table_at(raw.table_id, raw.commit_ts - 1)
        if version is None or not version.description.schema.key or version.name == MARK_TABLE or not (raw.value or raw.old):
            continue
        table = version.description
        after = tuple(decode_row(table, raw.key, raw.value)) if raw.value else None
        before = tuple(decode_row(table, raw.key, raw.old, at_rest=True)) if raw.old else None
        if after and before and key_of(table.schema, after) != key_of(table.schema, before):
            yield version, raw.commit_ts, "delete", before, None
            yield version, raw.commit_ts, "insert", None, after
        else:
            yield version, raw.commit_ts, "delete" if not after else "insert" if not before else "update", before, after


def key_of(schema: TableSchema, row: Row) -> Row:
    names = schema.column_names()
    return tuple(row[names.index(name)] for name in schema.key)


def merged(changes: Iterable[_Change]) -> dict[Place, Versions]:
    """One entry a handle key and commit. Repeats fall together; two different rows for one place are an error."""
    made: dict[Place, Versions] = {}
    for version, commit_ts, op, before, after in changes:
        image = after or before
        assert image is not None
        place = (version.name, commit_ts, key_of(version.description.schema, image))
        other = made.get(place, Versions(version, None, None, ()))
        assert other.before in (None, before) or before is None, f"{place}: two rows before"
        assert other.after in (None, after) or after is None, f"{place}: two rows after"
        made[place] = Versions(version, before or other.before, after or other.after, tuple(sorted({*other.ops, op})))
    return made
