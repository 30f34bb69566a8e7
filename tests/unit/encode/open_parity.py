"""TiCDC's own rows, decoded to canonical text and encoded again: what is equal to the byte, and what is not, by reason.

Compared are each row's key JSON and value JSON: how many rows TiCDC put into a message is its own affair.

    hidden row id    classic writes the `_tidb_rowid` of a table without a clustered integer key as `rid`; no column holds it
    cached flags     new takes `f` from a cache by physical table id, which a DDL of a partitioned table does not clear
    not compared     rows behind the recording's end, of which no schema is known; and messages that are not whole

Anything else is `unexplained`. `python -m tests.unit.encode.open_parity` writes the counts anew.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sidecar.shared.codecs.compression import Compression
from sidecar.shared.codecs.open_protocol import OpenProtocol
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.canonical import equal_text
from sidecar.shared.model.nouns import Change, Ddl, Lane, Message, Resolved, TableName, TableSchema
from spark_merge.codecs.decode import open_protocol
from spark_merge.codecs.decode.tables import TableRows, read
from spark_merge.codecs.encode.messages import Encoder, RowMessage
from spark_merge.codecs.images import NO_IMAGE, Images
from spark_merge.codecs.protocols import encoder
from spark_merge.port.contract import CHANGES, TEXTS
from tests.support.kv_ddl import ddl_recording
from tests.support.recordings import recording
from tests.unit.decode.log import recorded_schemas

COUNTS = Path(__file__).parents[2] / "data" / "parity" / "open-protocol.json"
MAIN = "open-protocol"
FEEDS = {
    "demo": (MAIN,),
    "shop": (MAIN, "open-protocol-index", "open-protocol-raw", "open-protocol-zip"),
    "shop-new": (MAIN, "open-protocol-index", "open-protocol-raw", "open-protocol-zip"),
    "restart": (MAIN, "open-protocol-index"),
    "tz": (MAIN,),
    "rowformats": (MAIN,),
    "filter": (MAIN,),
    "large": (MAIN, "open-claim-check", "open-handle-key-only"),
    "ddl": (MAIN, "open-protocol-index"),
    "ddl-new": (MAIN, "open-protocol-index"),
}
Texts: TypeAlias = "tuple[str | None, ...]"
_RID, _FLAGS = re.compile(rb',"rid":-?[0-9]+'), re.compile(rb'"f":[0-9]+')


@dataclass
class Parity:
    """`rows`: by insert, update and delete, how many there are and how many are equal in key and value. `types`: values by SQL type, in
    rows whose value is equal. `reasons`: rows that differ, by reason and table."""

    rows: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    unexplained: list[tuple[bytes, ...]] = field(default_factory=list)

    def counts(self) -> dict[str, dict[str, int]]:
        return {"rows": _sorted(self.rows), "differ": _sorted(self.reasons), "values": _sorted(self.types)}


def parity(name: str, feed: str) -> Parity:
    tz, own_encoder = "Asia/Shanghai" if name == "tz" else "UTC", encoder_of(name)
    result = Parity()
    whole, beyond, broken = _changes(name, feed)
    for schema, changes in whole:
        images = _images(changes, schema, tz)
        ids = [json.loads(change.key).get("ptn") for change in changes]
        messages = own_encoder.rows(schema, _table(images, changes), None if None in ids else ids)
        _compare(result, schema, images, changes, messages)
    for reason, count in (("not compared: behind the end", beyond), ("not compared: not whole", broken)):
        if count:
            result.reasons[reason] = count
    return result


def _images(changes: Sequence[Change], schema: TableSchema, tz: str) -> Images:
    keys, values = (pa.array([getattr(change, part) for change in changes], pa.binary()) for part in ("key", "value"))
    (images,) = read([TableRows(schema, 0, keys, values)], ServerZone(tz), open_protocol)
    return images


def encoder_of(name: str) -> Encoder:
    options = {"time-zone": "Asia/Shanghai"} if name == "tz" else {}
    return encoder("open-protocol", architecture="new" if name.endswith("-new") else "classic", options=options)


def events(name: str, feed: str) -> Iterator[Change | Ddl | Resolved | None]:
    """All that the feed has; None for a message that is not whole."""
    compression: Compression = "lz4" if feed.endswith("-zip") else "none"
    codec = OpenProtocol(compression)
    for message in messages(name, feed):
        try:
            yield from codec.envelopes(message)
        except FeedUnsuitable:
            yield None


def messages(name: str, feed: str) -> Iterator[Message]:
    rows = pq.read_table(recording(name) / "kafka" / f"{feed}.parquet", columns=["partition", "offset", "key", "value"])
    for partition, offset, key, value in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        yield Message(Lane(f"kafka/{feed}/{partition}"), offset, key, value)


# ---- ours and theirs ------------------------------------------------------------------------------------------------


def _compare(result: Parity, schema: TableSchema, images: Images, changes: Sequence[Change], messages: Sequence[RowMessage]) -> None:
    equal_images: list[int] = []
    for number, (change, (framed_key, framed_value)) in enumerate(zip(changes, messages, strict=True)):
        assert framed_key is not None
        assert framed_value is not None
        key, value = framed_key[16:], framed_value[8:]
        before, after = images.before[number], images.after[number]
        op = "delete" if after == NO_IMAGE else "insert" if before == NO_IMAGE else "update"
        reasons = _reasons(schema, change, key, value)
        result.rows[op] += 1
        result.rows[f"{op} equal"] += not reasons
        result.reasons.update(reasons)
        if "unexplained" in reasons:
            result.unexplained.append((key, change.key, value, change.value))
        if value == change.value:
            equal_images += [image for image in (before, after) if image != NO_IMAGE]
    for column, texts in zip(schema.columns, images.columns, strict=True):
        result.types[_type_of(schema, column.name)] += int(pc.count(texts.take(pa.array(equal_images, pa.int64()))).as_py())


def _reasons(schema: TableSchema, change: Change, key: bytes, value: bytes) -> list[str]:
    reasons = []
    if key != change.key:
        reasons.append(
            f"hidden row id: {schema.name.table}" if key == _RID.sub(b"", change.key) and not _is_handle(schema) else "unexplained"
        )
    if value != change.value:
        same = _FLAGS.sub(b"", value) == _FLAGS.sub(b"", change.value)
        reasons.append(f"cached flags: {schema.name.table}" if same and b'"ptn"' in change.key else "unexplained")
    return reasons


def _is_handle(schema: TableSchema) -> bool:
    assert schema.definition is not None
    return any(index.primary and not index.id for index in schema.definition.indexes)


def _type_of(schema: TableSchema, name: str) -> str:
    """Without lengths and labels."""
    assert schema.definition is not None
    [text] = [column.type_text for column in schema.definition.columns if column.name == name]
    return re.sub(r"\(.*\)", "", text)


def _table(images: Images, changes: Sequence[Change]) -> pa.Table:
    """CHANGES as they were sent: here no update is split in two."""
    count = len(changes)
    rows = list(zip(*(column.to_pylist() for column in images.columns), strict=True))
    lists = [pa.array([None if one == NO_IMAGE else rows[one] for one in numbers], TEXTS) for numbers in (images.before, images.after)]
    filled: dict[str, Any] = {field.name: pa.nulls(count, field.type) for field in CHANGES}
    filled |= {"seq": pa.array(np.ones(count, np.int64)), "before": lists[0], "after": lists[1]}
    filled["commit_ts"] = pa.array([change.commit_ts for change in changes], pa.int64())
    return pa.table([filled[name] for name in CHANGES.names], schema=CHANGES)


# ---- dumped rows ----------------------------------------------------------------------------------------------------


def dumped(name: str) -> tuple[int, list[tuple[bytes, bytes]]]:
    """Of rows of the recorded dump that TiCDC sent too, with equal values, how many there are; and ours, encoded as inserts, beside
    TiCDC's where the new image is another."""
    chunks = defaultdict(list)
    for window in json.loads((recording(name) / "dump" / "windows.json").read_text())["windows"]:
        for chunk in window["chunks"]:
            chunks[TableName(*chunk["table"].split("."))].append(recording(name) / "dump" / chunk["file"])
    count, differ = 0, []
    for schema, changes in _changes(name, MAIN)[0]:
        pairs = list(_sent_too(schema, changes, chunks[schema.name], "Asia/Shanghai" if name == "tz" else "UTC"))
        images = Images([pa.array(texts, pa.string()) for texts in zip(*(row for row, _ in pairs), strict=True)], [], [])
        alone = replace(images, before=[NO_IMAGE] * len(pairs), after=list(range(len(pairs))))
        rows = _table(alone, [change for _, change in pairs])
        for (_, change), message in zip(pairs, encoder_of(name).rows(schema, rows, [1] * len(pairs)), strict=True):
            new = (message[1] or b"")[8:-1]
            count += 1
            if not change.value.startswith((new + b"}", new + b',"p":')):
                differ.append((new, change.value))
    return count, differ


def _sent_too(schema: TableSchema, changes: Sequence[Change], chunks: Sequence[Path], tz: str) -> Iterator[tuple[Texts, Change]]:
    images = _images(changes, schema, tz)
    texts: list[Texts] = list(zip(*(column.to_pylist() for column in images.columns), strict=True))
    places = [schema.column_names().index(name) for name in schema.key]
    sent: defaultdict[Texts, list[tuple[Texts, Change]]] = defaultdict(list)
    for change, image in zip(changes, images.after, strict=True):
        if image != NO_IMAGE:
            sent[tuple(texts[image][place] for place in places)].append((texts[image], change))
    for chunk in chunks:
        table = pq.read_table(chunk)
        for row in zip(*(table.column(name).to_pylist() for name in schema.column_names()), strict=True):
            for texts_then, change in sent[tuple(row[place] for place in places)]:
                if all(equal_text(column.kind, *pair) for column, *pair in zip(schema.columns, row, texts_then, strict=True)):
                    yield row, change


# ---- the recording --------------------------------------------------------------------------------------------------


def _changes(name: str, feed: str) -> tuple[list[tuple[TableSchema, list[Change]]], int, int]:
    """By the schema in force at commit_ts - 1; how many are behind the recording's end; how many messages are not whole."""
    results = list(events(name, feed))
    changes = [event for event in results if isinstance(event, Change)]
    broken = sum(event is None for event in results)
    by_schema: defaultdict[int, list[Change]] = defaultdict(list)
    schemas: dict[int, TableSchema] = {}
    fixed = {} if name.startswith("ddl") else recorded_schemas(recording(name))
    end = None if fixed else ddl_recording(name).recording.end_ts
    for change in changes:
        if end is None or change.commit_ts <= end:
            schema = fixed.get(TableName(change.schema, change.table)) or _schema_then(name, change)
            schemas[id(schema)] = schema
            by_schema[id(schema)].append(change)
    compared = [(schemas[which], group) for which, group in by_schema.items()]
    return compared, len(changes) - sum(len(group) for _, group in compared), broken


def _schema_then(name: str, change: Change) -> TableSchema:
    version: Any = ddl_recording(name).history.by_name(TableName(change.schema, change.table), change.commit_ts - 1)
    schema: TableSchema = version.description.schema
    return schema


def ddl_differences(name: str, feed: str) -> tuple[int, list[tuple[RowMessage, RowMessage]]]:
    """How many DDL messages there are, and ours beside theirs where they differ. A log keeps of a DDL what its record holds."""
    count, differ = 0, []
    for message in messages(name, feed):
        [event, *_] = OpenProtocol("lz4" if feed.endswith("-zip") else "none").envelopes(message)
        if isinstance(event, Ddl):
            count += 1
            ours = encoder_of(name).ddl(DdlRecord(event.commit_ts, event.schema, event.table, event.query), None, None)
            if ours != (message.key, message.value):
                differ.append((ours, (message.key, message.value)))
    return count, differ


def mark_differences(name: str, feed: str) -> tuple[int, list[Message]]:
    """The same of resolved marks."""
    marks = [
        (message, event) for message in messages(name, feed) for event in OpenProtocol().envelopes(message) if isinstance(event, Resolved)
    ]
    return len(marks), [message for message, event in marks if encoder_of(name).resolved(event.ts) != (message.key, message.value)]


def _sorted(counter: Counter[str]) -> dict[str, int]:
    return dict(sorted(counter.items()))


if __name__ == "__main__":
    everything = {f"{name}/{feed}": parity(name, feed).counts() for name, feeds in FEEDS.items() for feed in feeds}
    COUNTS.parent.mkdir(exist_ok=True)
    COUNTS.write_text(json.dumps(everything, indent=1) + "\n")
    sys.stdout.write(f"{COUNTS}\n")
