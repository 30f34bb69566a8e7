"""TiDB-Binlog: a batch of one table's damaged transactions, as a pump's messages, through codec, fold and both decoders."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from sidecar.shared.codecs.binlog import BinlogCodec
from sidecar.shared.codecs.kv import encode_ddl, encode_resolved
from sidecar.shared.errors import MessageUnreadable, TicdcDumpError
from sidecar.shared.model.nouns import Change, CommitTs, Envelope, Lane, Message, TableSchema
from sidecar.shared.rowcodec.binlog_event import HEAD_BYTES, KIND_AT, MAYBE_REPEATED, pairs
from sidecar.shared.rowcodec.binlog_fold import folded
from sidecar.shared.rowcodec.binlog_row import DecodedBinlogRows, decode_logged
from sidecar.shared.rowcodec.kv_layout import kv_table_of
from sidecar.shared.rowcodec.kv_table import KvTable
from spark_merge.codecs.decode import binlog
from tests.tools.fuzz import slow_binlog
from tests.tools.fuzz.damage import damaged_bytes, damaged_json
from tests.tools.fuzz.seeds import mutations
from tests.tools.fuzz.slow_values import Texts
from tests.tools.fuzz.verdict import Counts, Refused, differ, fault, ours, reported_of, slow
from tests.tools.fuzz.worker import Taken, agrees
from ticdc_dump.binlog.binlog_pb2 import Binlog, Commit, DeleteRow, Insert, PrewriteValue, TableMutation, Update

LANE = Lane("pump/1")
REFUSED = "(refused)"
COMMIT_TS = 470_000_000_000_000_000

Outcome = DecodedBinlogRows | MessageUnreadable


def batch(random: Random, size: int) -> Counts:
    """Raises Fault."""
    counts = Counts()
    rows: list[tuple[Change, Outcome]] = []
    versions, seeds = random.choice(mutations())
    schema = random.choice(versions)
    codec = BinlogCodec(lambda: kv_table_of(mutations()[0][0][0]))
    for position in range(size):
        value = damaged(random, schema, random.choice(seeds), random.choice(seeds))
        counts.messages += 1
        envelopes = _envelopes(codec, Message(LANE, position, None, value))
        if isinstance(envelopes, TicdcDumpError):
            counts.refused[type(envelopes).__name__] += 1
            continue
        read = [(one, _slowly(schema, one.value)) for one in envelopes if isinstance(one, Change)]
        refused = any(isinstance(outcome, MessageUnreadable) for _, outcome in read)
        counts.refused["MessageUnreadable"] += refused
        counts.equal += not refused
        rows += read + _net(schema, read, value)
    counts.rows += len(rows)
    _columnar_agrees(schema, rows)
    agrees(
        schema, [Taken(change, *map(_tuple, outcome)) for change, outcome in rows if isinstance(outcome, DecodedBinlogRows)], codec="binlog"
    )
    return counts


def whole(schema: TableSchema, mutation: TableMutation) -> list[Outcome]:
    """What a recorded transaction decodes to."""
    envelopes = _envelopes(BinlogCodec(lambda: kv_table_of(schema)), Message(LANE, 1, None, _message(0, [mutation])))
    assert not isinstance(envelopes, TicdcDumpError), envelopes
    return [_slowly(schema, one.value) for one in envelopes if isinstance(one, Change)]


# ---- messages -------------------------------------------------------------------------------------------------------


def _envelopes(codec: BinlogCodec, message: Message) -> list[Envelope] | TicdcDumpError:
    envelopes = ours(lambda: codec.envelopes(message), "binlog", message.value)
    expected = slow(lambda: slow_binlog.envelopes(message.value))
    if isinstance(envelopes, TicdcDumpError):
        if not isinstance(expected, Refused) and (message.value or b"")[:1] not in (b"R", b"D"):
            raise differ("binlog", envelopes, expected, message.value)
        return envelopes
    if (reported := [reported_of(one) for one in envelopes]) != expected:
        raise differ("binlog", reported, expected, message.value)
    for one in envelopes:
        if isinstance(one, Change):
            ours(lambda change=one: codec.identity(change), "identity", message.value)  # type: ignore[misc]  # a default that binds
            ours(lambda change=one: codec.mark(change), "mark", message.value)  # type: ignore[misc]  # a default that binds
    return envelopes


def _net(schema: TableSchema, read: Sequence[tuple[Change, Outcome]], value: bytes) -> list[tuple[Change, Outcome]]:
    """The rows that the fold makes anew, with what the slow decoder says. Of a transaction that can be read all must be the slow fold's."""
    table = kv_table_of(schema)
    changes = sorted((change for change, _ in read), key=lambda change: change.rank)
    result = ours(lambda: list(folded(changes, lambda _: table)), f"fold of {schema.name}", value)
    if isinstance(result, TicdcDumpError):
        if not isinstance(result, MessageUnreadable):
            raise fault(f"fold of {schema.name}: another error than MessageUnreadable: {result}", value)
        return []
    left = [(change, _slowly(schema, change.value)) for change in result if change not in changes]
    tables = {change.table for change in changes}
    if len(tables) != 1 or any(isinstance(outcome, MessageUnreadable) for _, outcome in read):
        return left
    events = [
        slow_binlog.Event(_handle(table, change, rows), *map(_tuple, rows)) for change, rows in read if isinstance(rows, DecodedBinlogRows)
    ]
    expected = slow_binlog.net(events)
    reported = [_slowly(schema, change.value) for change in result]
    if any(isinstance(rows, MessageUnreadable) for rows in reported):
        raise differ(f"fold of {schema.name}", reported, expected, value)
    if sorted((tuple(map(_tuple, rows)) for rows in reported if isinstance(rows, DecodedBinlogRows)), key=str) != expected:
        raise differ(f"fold of {schema.name}", reported, expected, value)
    return left


def _handle(table: KvTable, change: Change, rows: DecodedBinlogRows) -> Hashable:
    """The texts of the clustered key, else `_tidb_rowid`. Of an event that says that it is its row's only one: its bytes."""
    if not change.value[KIND_AT] & MAYBE_REPEATED:
        return change.value
    key = [part.number for part in table.key_parts] or ([] if table.int_handle is None else [table.int_handle])
    image = rows.after if rows.before is None else rows.before
    if key and image is not None:
        return tuple(image[number] for number in key)
    value = change.value
    if value[KIND_AT] in b"Ii":
        return slow_binlog.varint(value, HEAD_BYTES + 1)[0]
    last = pairs(value, HEAD_BYTES)[-1]
    if last.id != -1:
        raise fault(f"fold of {table.schema.name}: a row without _tidb_rowid", value)
    return slow_binlog.varint(value, last.value_at + 1)[0]


def _tuple(texts: list[str | None] | None) -> Texts | None:
    return None if texts is None else tuple(texts)


# ---- rows -----------------------------------------------------------------------------------------------------------


def _slowly(schema: TableSchema, value: bytes) -> Outcome:
    what = f"decode_logged of {schema.name}"
    result = ours(lambda: decode_logged(schema, value), what, value)
    if isinstance(result, TicdcDumpError) and not isinstance(result, MessageUnreadable):
        raise fault(f"{what}: another error than MessageUnreadable: {result}", value)
    return result


def _lenient(schema: TableSchema, value: bytes) -> DecodedBinlogRows:
    try:
        return decode_logged(schema, value)
    except MessageUnreadable:
        refused: list[str | None] = [REFUSED] * len(schema.columns)
        return DecodedBinlogRows(refused, refused)


def _columnar_agrees(schema: TableSchema, rows: Sequence[tuple[Change, Outcome]]) -> None:
    """All of them at once: those that the slow decoder refuses must have been left to it. Then as they are: the first one's error."""
    if not rows:
        return
    values, what = pa.array([change.value for change, _ in rows], pa.binary()), f"decode_events of {schema.name}"
    inputs = [change.value for change, _ in rows]
    with patch.object(binlog, "decode_logged", _lenient):
        result = ours(lambda: binlog.decode_events(schema, values), what, *inputs)
    if isinstance(result, TicdcDumpError):
        raise fault(f"{what}: refused, though no row was: {result}", *inputs)
    for column in result.columns:
        column.validate(full=True)
    images = list(zip(*(column.to_pylist() for column in result.columns), strict=True))
    for (change, outcome), *numbers in zip(rows, result.before, result.after, strict=True):
        read = [None if number < 0 else images[number] for number in numbers]
        if isinstance(outcome, DecodedBinlogRows):
            expected: list[Any] = list(map(_tuple, outcome))
        else:
            expected = [image and (REFUSED,) * len(image) for image in read]
        if read != expected:
            raise differ(what, read, expected, change.value)
    refused = [outcome for _, outcome in rows if isinstance(outcome, MessageUnreadable)]
    if refused:
        error = ours(lambda: binlog.decode_events(schema, values), what, *inputs)
        if str(error) != str(refused[0]):
            raise differ(what, error, refused[0], *inputs)


# ---- damage ---------------------------------------------------------------------------------------------------------


def damaged(random: Random, schema: TableSchema, mutation: TableMutation, other: TableMutation) -> bytes:
    """A pump's message, or one of the feed's own."""
    until = 1 if schema.former is None else schema.former.until
    version = random.choice((0, until - 1, until, 1 << 40, -1))
    result = TableMutation.FromString(mutation.SerializeToString())
    match random.randrange(16):
        case 0:
            return _made_here(random)
        case 1 | 2:
            return damaged_bytes(random, _message(version, [result]), _message(version, [other]))
        case 3:
            prewrite = damaged_bytes(random, _prewrite(version, [result]), other.SerializeToString())
            return _message(version, [], prewrite_value=prewrite)
        case 4:
            return _message(version, [TableMutation.FromString(result.SerializeToString() + other.SerializeToString())])
        case 5:
            return _message(version, [result, other])
        case 6:
            _disordered(random, result)
        case 7:
            field, number = random.choice((("tp", 2), ("tp", 0), ("start_ts", COMMIT_TS), ("commit_ts", 0), ("ddl_job_id", 7)))
            return _message(version, [result], **{field: number})
        case 8:
            pass
        case _:
            _with_damaged_row(random, result, other)
    return _message(version, [result])


def _with_damaged_row(random: Random, mutation: TableMutation, other: TableMutation) -> None:
    rows = [some for some in (mutation.inserted_rows, mutation.updated_rows, mutation.deleted_rows) if some]
    others = [*other.inserted_rows, *other.updated_rows, *other.deleted_rows]
    if rows:
        some = random.choice(rows)
        at = random.randrange(len(some))
        some[at] = damaged_bytes(random, some[at], random.choice(others or [b""]))


def _disordered(random: Random, mutation: TableMutation) -> None:
    """Another order, other kinds of rows, rows more or fewer."""
    rows = {Insert: mutation.inserted_rows, Update: mutation.updated_rows, DeleteRow: mutation.deleted_rows}
    match random.randrange(5):
        case 0:
            sequence = random.sample(list(mutation.sequence), k=len(mutation.sequence))
            mutation.ClearField("sequence")
            mutation.sequence.extend(sequence)
        case 1:
            mutation.sequence.append(random.choice((Insert, Update, 2, 3, DeleteRow)))
        case 2:
            random.choice(
                (mutation.deleted_ids.append, mutation.deleted_ids.append, lambda one: mutation.deleted_pks.append(bytes([one])))
            )(7)
        case _:  # a row of one kind as one of another
            kind, came = random.choice(list(mutation.sequence) or [Insert]), random.choice(list(rows))
            if rows[kind]:
                rows[came].append(rows[kind][random.randrange(len(rows[kind]))])
                mutation.sequence.append(came)


def _message(version: int, value: Sequence[TableMutation], **more: Any) -> bytes:
    reported: dict[str, Any] = {
        "tp": Commit,
        "start_ts": COMMIT_TS - 5,
        "commit_ts": COMMIT_TS,
        "prewrite_key": b"t",
        "prewrite_value": _prewrite(version, value),
    }
    made: bytes = Binlog(**(reported | more)).SerializeToString()
    return made


def _prewrite(version: int, value: Sequence[TableMutation]) -> bytes:
    made: bytes = PrewriteValue(schema_version=version, mutations=value).SerializeToString()
    return made


def _made_here(random: Random) -> bytes:
    made = encode_resolved(CommitTs(COMMIT_TS)) if random.randrange(2) else encode_ddl(CommitTs(COMMIT_TS), "shop", "t", "drop table t")
    if made[:1] == b"D" and random.randrange(2):
        return b"D" + damaged_json(random, made[1:], made)
    return damaged_bytes(random, made, b"D{}")
