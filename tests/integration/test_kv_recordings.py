"""Key-values of a real TiKV, decoded, are the changes that TiCDC sent in open-protocol and canal-json: row for row, column for
column, commit_ts for commit_ts; and they lead to the truth.

What differs is listed with its count. `UPDATES_SPLIT`: TiCDC sends an update that changes a unique key as a delete and an
insert of the same key (tiflow cdc/entry/mounter.go). `NOT_REPLICATED`: entries of tables without a usable key (rule 10), which are
decoded all the same. `DELETES_OF_NOTHING`: neither value nor old value (rule 2).

The `ddl` recordings need the schema at each commit: they are tested with the schema storage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache

import pyarrow as pa
import pytest

from sidecar.replay.judge.rows import equal_rows, rows_by_key
from sidecar.replay.recording import Recording
from sidecar.shared.columns import kv
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.canonical import equal_text
from sidecar.shared.model.nouns import MARK_TABLE, TableName, TableSchema
from sidecar.shared.rowcodec.kv_row import decode_row
from sidecar.shared.rowcodec.kv_table import KvTable
from tests.support.kv_recordings import Entry, Place, Row, Versions, feed_versions, kv_recording, merged

FEEDS = ("open-protocol", "canal-json")
UPDATES_SPLIT = {"demo": 14, "shop": 26, "shop-new": 21, "restart": 32, "rowformats": 9, "large": 45, "tz": 10}
NOT_REPLICATED = {"shop": 390, "shop-new": 432, "restart": 302, "rowformats": 85}
DELETES_OF_NOTHING = {"demo": 1, "restart": 2, "rowformats": 1, "tz": 1}
COMPLETE = tuple(UPDATES_SPLIT)
SERVER_TZ = {"tz": "Asia/Shanghai"}

pytestmark = pytest.mark.recordings


@cache
def kv_versions(name: str) -> dict[Place, Versions]:
    return merged(_changes(name))


def _changes(name: str) -> Iterator[tuple[TableName, int, str, Row | None, Row | None, Recording]]:
    recording = kv_recording(name)
    for entry in recording.entries:
        schema = entry.table.schema
        if schema.name == MARK_TABLE or not schema.key or not (entry.value or entry.old):
            continue
        after = tuple(decode_row(entry.table, entry.key, entry.value)) if entry.value else None
        before = tuple(decode_row(entry.table, entry.key, entry.old, at_rest=True)) if entry.old else None
        if after and before and key_of(schema, after) != key_of(schema, before):
            yield schema.name, entry.commit_ts, "delete", before, None, recording.recording
            yield schema.name, entry.commit_ts, "insert", None, after, recording.recording
        else:
            op = "delete" if not after else "insert" if not before else "update"
            yield schema.name, entry.commit_ts, op, before, after, recording.recording


def key_of(schema: TableSchema, row: Row) -> Row:
    names = schema.column_names()
    return tuple(row[names.index(name)] for name in schema.key)


def equal(schema: TableSchema, a: Row | None, b: Row | None) -> bool:
    if a is None or b is None:
        return a is b
    return all(equal_text(column.kind, x, y) for column, x, y in zip(schema.columns, a, b, strict=True))


@pytest.mark.parametrize("feed", FEEDS)
@pytest.mark.parametrize("name", COMPLETE)
def test_key_values_are_the_changes_of_the_feed(name: str, feed: str) -> None:
    schemas = kv_recording(name).recording.schemas
    mine, theirs = kv_versions(name), feed_versions(name, feed, server_tz=SERVER_TZ.get(name, "UTC"))
    assert mine.keys() == theirs.keys()
    other_ops = Counter[tuple[tuple[str, ...], tuple[str, ...]]]()
    for place, versions in mine.items():
        other, schema = theirs[place], schemas[place[0]]
        assert equal(schema, versions.before, other.before), (place, versions.before, other.before)
        assert equal(schema, versions.after, other.after), (place, versions.after, other.after)
        other_ops[versions.ops, other.ops] += versions.ops != other.ops
    assert +other_ops == {(("update",), ("delete", "insert")): UPDATES_SPLIT[name]}


@pytest.mark.parametrize("feed", FEEDS)
def test_a_filtered_feed_is_a_part_of_the_key_values(feed: str) -> None:
    """The changefeed drops rows by type and by value; a row that it sends is the one in the key-values."""
    schemas = kv_recording("filter").recording.schemas
    mine, theirs = kv_versions("filter"), feed_versions("filter", feed)
    assert 0 < len(theirs) < len(mine)
    for place, other in theirs.items():
        for sent, results in ((other.before, mine[place].before), (other.after, mine[place].after)):
            assert sent is None or equal(schemas[place[0]], sent, results), place


@pytest.mark.parametrize("name", COMPLETE)
def test_what_the_feeds_leave_out_is_counted_and_decoded(name: str) -> None:
    recording = kv_recording(name)
    without_key = [entry for entry in recording.entries if not entry.table.schema.key]
    for entry in without_key:
        for value in filter(None, (entry.value, entry.old)):
            assert len(decode_row(entry.table, entry.key, value)) == len(entry.table.columns)
    assert {entry.table.schema.name.table for entry in without_key} <= {"heap"}
    assert len(without_key) == NOT_REPLICATED.get(name, 0)
    assert sum(not (entry.value or entry.old) for entry in recording.entries) == DELETES_OF_NOTHING.get(name, 0)


@pytest.mark.parametrize("name", [*COMPLETE, "filter"])
def test_key_values_lead_to_the_truth(name: str) -> None:
    """From the truth at the start, with every change up to a snapshot: that snapshot, in every table and column."""
    recording = kv_recording(name).recording
    changes = sorted(kv_versions(name).items(), key=lambda item: item[0][1])
    rows = {table: rows_by_key(recording.schemas[table], truth) for table, truth in _truth(recording, recording.truth_ts[0]).items()}
    done = compared = 0
    for tso in recording.truth_ts[1:]:
        while done < len(changes) and changes[done][0][1] <= tso:
            (table, _, key), version = changes[done]
            state = rows[table]
            if version.after is not None:
                state[key] = version.after  # type: ignore[index]  # a handle key holds no NULL
            else:
                del state[key]  # type: ignore[arg-type]
            done += 1
        for table, truth in _truth(recording, tso).items():
            schema, expected = recording.schemas[table], rows_by_key(recording.schemas[table], truth)
            assert expected.keys() == rows[table].keys(), (table, tso)
            assert all(equal_rows(schema, row, rows[table][key]) for key, row in expected.items()), (table, tso)
            compared += len(expected)
    assert done == len(changes)
    assert compared > 0


def _truth(recording: Recording, tso: int) -> dict[TableName, pa.Table]:
    truth = recording.truth(tso)  # type: ignore[arg-type]
    return {table: rows for table, rows in truth.items() if table != MARK_TABLE and recording.schemas[table].key}


# ---- the columnar decoder -------------------------------------------------------------------------------------------


def rows_by_table(name: str) -> dict[tuple[KvTable, bool], list[tuple[bytes, bytes]]]:
    """Key and value of every new value, and of every old one."""
    rows: dict[tuple[KvTable, bool], list[tuple[bytes, bytes]]] = {}
    for entry in kv_recording(name).entries:
        for is_old, value in ((False, entry.value), (True, entry.old)):
            if value:
                rows.setdefault((entry.table, is_old), []).append((entry.key, value))
    return rows


@pytest.mark.parametrize("name", [*COMPLETE, "filter"])
def test_columns_are_the_slow_decoders_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only rows of format 1, the `rowformats` recording's old ones, are left to the slow decoder."""
    left: list[bytes] = []

    def slow(table: KvTable, key: bytes, value: bytes, *, at_rest: bool = False) -> list[str | None]:
        left.append(value)
        return decode_row(table, key, value, at_rest=at_rest)

    monkeypatch.setattr(kv, "decode_row", slow)
    of_format_1 = 0
    for (table, is_old), rows in rows_by_table(name).items():
        keys, values = (pa.array(column, pa.binary()) for column in zip(*rows, strict=True))
        result = kv.decode_rows(table, keys, values, at_rest=is_old)
        assert result.schema.names == list(table.schema.column_names())
        expected = [decode_row(table, key, value, at_rest=is_old) for key, value in rows]
        assert [list(row) for row in zip(*(column.to_pylist() for column in result.columns), strict=True)] == expected
        of_format_1 += sum(value[0] != 128 for _, value in rows)
    assert len(left) == of_format_1
    assert (of_format_1 > 0) is (name == "rowformats")


# ---- checksums ------------------------------------------------------------------------------------------------------


def checked_rows() -> list[Entry]:
    return [entry for entry in kv_recording("rowformats").entries if entry.value and entry.value[0] == 128 and entry.value[1] & 2]


def test_every_new_row_of_rowformats_has_a_checksum_that_holds() -> None:
    rows = checked_rows()
    put = [entry for entry in kv_recording("rowformats").entries if entry.value[:1] == b"\x80"]
    assert len(rows) == len(put) > 1000
    for entry in rows:
        decode_row(entry.table, entry.key, entry.value)


def test_every_flipped_bit_of_a_checksummed_row_is_found() -> None:
    """All bits of one row of every table, in row and handle; every eleventh by the columnar decoder, too."""
    first = {entry.table.schema.name: entry for entry in reversed(checked_rows()) if len(entry.value) < 300}
    assert len(first) >= 13
    for entry in first.values():
        flipped = [(entry.key, value) for value in _flips(entry.value)]
        flipped += [(entry.key[:11] + handle, entry.value) for handle in _flips(entry.key[11:])]
        for key, value in flipped:
            with pytest.raises(MessageUnreadable):
                decode_row(entry.table, key, value)
        for key, value in flipped[::11]:
            with pytest.raises(MessageUnreadable):
                kv.decode_rows(entry.table, pa.array([key]), pa.array([value]))


def _flips(data: bytes) -> Iterator[bytes]:
    for bit in range(8 * len(data)):
        made = bytearray(data)
        made[bit // 8] ^= 1 << bit % 8
        yield bytes(made)
