"""Rows that did not come with canal-json, encoded: what TiKV sent, and what a SELECT read, are the bytes that TiCDC made of the same rows.

Behind raw key-values everything is encoded, and a dump's rows always are. So canonical text of both ways is held against TiCDC's messages:
key-values change by change, with updates of unique columns split as TiCDC splits them; rows of a truth snapshot, which were read as a dump
reads them, by the `data` of the last message of their key.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from sidecar.replay.history import RecordedHistory
from sidecar.replay.recording import Recording
from sidecar.replay.tables import logged
from sidecar.shared.codecs.canal_json import CanalJson
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import MARK_TABLE, Change, Message, TableName, TableSchema
from spark_merge.codecs.decode.rows import decode
from spark_merge.codecs.encode.messages import Encoder
from spark_merge.codecs.protocols import encoder
from spark_merge.port.contract import CHANGES
from spark_merge.port.keys import key_text
from tests.lanes import LANE
from tests.support.canal_parity import of_row
from tests.support.recordings import recording

pytestmark = pytest.mark.recordings

ZONES = {"tz": "Asia/Shanghai"}
KEY_VALUES = {"tz": 864, "ddl": 7626, "shop-new": 7329, "demo": 2830, "shop": 6383, "ddl-new": 7766, "rowformats": 1610}
"""Changes that are equal, repeats once."""

SNAPSHOTS = {"tz": 387, "shop-new": 3210, "demo": 1244, "shop": 3311, "restart": 2699, "rowformats": 707, "large": 472}
"""Rows of the last snapshot that are equal: all of which there is a message. Not `filter`, whose feed lacks the last versions of some."""

OTHER_IN_TICDC = {
    "ddl": Counter(
        {"here item UPDATE": 1, "TiCDC item UPDATE": 1, "here item INSERT": 1, "TiCDC item INSERT": 1, "here event_log UPDATE": 1}
    ),
    "ddl-new": Counter({"here item UPDATE": 1, "TiCDC item UPDATE": 1, "here item INSERT": 1, "TiCDC item INSERT": 1}),
}
"""Amid MODIFY COLUMN TiCDC tells two rows' column as NULL (pingcap/ticdc#5548), and amid REMOVE PARTITIONING it loses one
(tests/integration/test_ddl_recordings.py)."""

DEFAULT = ("tz", "ddl", "shop-new")


def played(names: Iterable[str]) -> list[str]:
    return [name for name in names if LANE.whole or name in DEFAULT]


def made(name: str) -> Encoder:
    options = {"enable-tidb-extension": "true", "time-zone": ZONES.get(name, "UTC")}
    return encoder("canal-json", architecture="new" if name.endswith("-new") else "classic", options=options)


def sent(value: Recording) -> list[Change]:
    """The rows of the feed; a message of a row that was too large has none."""
    codec, changes = CanalJson(), []
    for lane, messages in value.messages(value.feed_config("canal-json")).items():
        for position, message in enumerate(messages):
            try:
                (envelope,) = codec.envelopes(Message(lane, position, message.key, message.value))
            except FeedUnsuitable:
                continue
            if isinstance(envelope, Change) and (envelope.schema, envelope.table) != MARK_TABLE:
                changes.append(envelope)
    return changes


def rows_of(schema: TableSchema, images: Iterable[tuple[int, list[str | None] | None, list[str | None] | None]]) -> pa.Table:
    """CHANGES of commit_ts, old and new image."""
    fixed = {"seq": 1, "rank": 1, "schema": schema.name.schema, "table": schema.name.table, "key": ""}
    rows = [
        fixed
        | {"commit_ts": ts, "ordinal": ordinal, "op": "delete" if new is None else "insert" if old is None else "update"}
        | {"before": old, "after": new}
        for ordinal, (ts, old, new) in enumerate(images)
    ]
    return pa.Table.from_pylist(rows, schema=CHANGES)


# ---- key-values -----------------------------------------------------------------------------------------------------


def as_ticdc_splits(schema: TableSchema, ts: int, old: Any, new: Any) -> Iterator[tuple[int, Any, Any]]:
    """An update that changes a column of a unique index is a delete and an insert (tiflow cdc/model/sink.go)."""
    assert schema.definition is not None
    unique = {part.column for index in schema.definition.indexes if index.unique for part in index.parts}
    places = [place for place, column in enumerate(schema.columns) if column.name in unique]
    if old is not None and new is not None and any(old[place] != new[place] for place in places):
        yield ts, old, None
        yield ts, None, new
    else:
        yield ts, old, new


@pytest.mark.parametrize("name", played(KEY_VALUES))
def test_what_tikv_sent_is_encoded_as_ticdc_has_it(name: str) -> None:
    result = Recording(recording(name))
    history = RecordedHistory(result)
    groups: defaultdict[TableSchema, list[tuple[int, Any, Any]]] = defaultdict(list)
    for change in history.changes:
        if change.table != MARK_TABLE:
            table = history.table_at(change.table, change.commit_ts - 1)
            assert table is not None
            groups[table.schema] += as_ticdc_splits(table.schema, change.commit_ts, change.before, change.after)
    ours = {of_row(row[1] or b"") for schema, images in groups.items() for row in made(name).rows(schema, rows_of(schema, images), None)}
    theirs = {of_row(change.value) for change in sent(result)}
    other = Counter(f"{where} {what}" for where, those in (("here", ours - theirs), ("TiCDC", theirs - ours)) for what in map(_what, those))
    assert other == OTHER_IN_TICDC.get(name, Counter())
    assert len(ours & theirs) == KEY_VALUES[name]


def _what(value: bytes) -> str:
    result = msgspec.json.decode(value)
    return f"{result['table']} {result['type']}"


# ---- a SELECT -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", played(SNAPSHOTS))
def test_what_a_select_read_is_encoded_as_ticdcs_insert(name: str) -> None:
    result = Recording(recording(name))
    tso = result.truth_ts[-1]
    changes: defaultdict[TableName, list[Change]] = defaultdict(list)
    for change in sent(result):
        if change.commit_ts <= tso:
            changes[TableName(change.schema, change.table)].append(change)
    equal = 0
    for table, those in changes.items():
        schema, truth = result.schemas[table], result.truth(tso)[table]
        newest = _newest(schema, those, ZONES.get(name, "UTC"))
        rows = rows_of(
            schema, [(tso, None, list(row)) for row in zip(*(truth[one].to_pylist() for one in schema.column_names()), strict=True)]
        )
        keys = key_text([truth[one] for one in schema.key]).to_pylist()
        for key, row in zip(keys, made(name).rows(schema, rows, None), strict=True):
            if key in newest:
                assert _data(row[1] or b"") == _data(newest[key])
                equal += 1
    assert equal == SNAPSHOTS[name]


def _newest(schema: TableSchema, changes: list[Change], server_tz: str) -> dict[str, bytes]:
    """By key, the message of the last row that is still there."""
    decoded = decode(logged(changes, "canal-json"), codec="canal-json", schemas={schema.name: schema}, server_tz=server_tz)
    order = decoded.sort_by([("commit_ts", "ascending"), ("rank", "ascending")]).select(["key", "ordinal", "op"])
    newest: dict[str, bytes] = {}
    for row in order.to_pylist():
        if row["op"] == "delete":
            newest.pop(row["key"], None)
        else:
            newest[row["key"]] = changes[row["ordinal"]].value
    return newest


def _data(value: bytes) -> bytes:
    return value[value.rindex(b',"data":[') : value.rindex(b',"_tidb":')]
