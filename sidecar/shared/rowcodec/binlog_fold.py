"""Several changes of one row in one transaction as the one change that TiCDC would send.

TiDB writes a transaction's row events one by one: insert, update and delete of one row are three. TiKV, and so TiCDC, has but what the
transaction left: the row as it was before it and as it is after it. So has the log, for a row has one version at one commit_ts:

    first event   I: there was no row     U, D: its old row
    last event    D: there is no row      I, U: its new row          neither: the row came and went, and nothing is left of it

- A row is what TiDB keeps under one handle: the clustered key, or `_tidb_rowid`. An update that changes a clustered key is two events, of
  two rows; one that changes another key is one of one row, and is parted in decoding, as for every feed.
- Folded before the log, not in decoding: there a transaction is cut by row groups and tasks, here it is whole. Filters of rows see what
  TiCDC's would.
- What may be repeated the codec has marked; a commit without such a change passes as it comes. Else all of it is held: its bytes were one
  message.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator

from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import Change, Message
from sidecar.shared.rowcodec.binlog_event import (
    DELETE,
    HEAD_BYTES,
    INSERT,
    KIND_AT,
    MAYBE_REPEATED,
    event_of,
    event_value,
    read_id,
    settled_value,
)
from sidecar.shared.rowcodec.binlog_row import ALL_BITS, read_handle, unreadable
from sidecar.shared.rowcodec.kv_datum import VARINT, Plain, canonical, plain_of_datum, read_datum, read_varint
from sidecar.shared.rowcodec.kv_error import Broken
from sidecar.shared.rowcodec.kv_table import KvTable

_LAST_PAIR = bytes([VARINT, 1, VARINT])
"""Of a row with `_tidb_rowid`, before its number: the flag of an id, -1, the flag of an int."""

_SHORT_BYTE_MAX = 0x7F

TableOf = Callable[[str], KvTable | None]


def folded(changes: Iterable[Change], table_of: TableOf) -> Iterator[Change]:
    """`changes` in order of commit_ts, deletes before puts, which is the order of what comes out. `table_of`: by the table id as the codec
    has it; None: not replicated, its changes pass as they are. Raises MessageUnreadable."""
    held: list[Change] = []
    for change in changes:
        if held and change[0] != held[0][0]:
            yield from _folded_commit(held, table_of)
            held = []
        if held or change[5][KIND_AT] & MAYBE_REPEATED:
            held.append(change)
        else:
            yield change
    yield from _folded_commit(held, table_of)


def _folded_commit(changes: list[Change], table_of: TableOf) -> list[Change]:
    """Changes of one commit_ts."""
    repeated: defaultdict[str, list[Change]] = defaultdict(list)
    for change in changes:
        if change[5][KIND_AT] & MAYBE_REPEATED:
            repeated[change[3]].append(change)
    gone: set[Change] = set()
    came: list[Change] = []
    for table_id, events in repeated.items():
        table = table_of(table_id)
        if table is None:
            continue
        for chain in _chains(table, events):
            gone.update(chain)
            came += _net(table, chain)
    if not gone:
        return changes
    return sorted([change for change in changes if change not in gone] + came, key=_rank_and_ordinal)


def _rank_and_ordinal(change: Change) -> tuple[int, bytes]:
    return change[1], change[5][:KIND_AT]


def _chains(table: KvTable, events: list[Change]) -> Iterator[list[Change]]:
    """Of each row that was changed more than once, its events in order. Most are not."""
    first: dict[Hashable, Change] = {}
    chains: dict[Hashable, list[Change]] = {}
    for event in events:
        try:
            row = _handle(table, event[5])
        except Broken as broken:
            raise _unreadable(table, broken, event) from broken
        other = first.setdefault(row, event)
        if other is not event:
            chains.setdefault(row, [other]).append(event)
    for chain in chains.values():
        yield sorted(chain, key=lambda change: change[5][:KIND_AT])


def _net(table: KvTable, chain: list[Change]) -> list[Change]:
    """What the events of one row come to: one change, or none."""
    first, last = chain[0], chain[-1]
    try:
        begin, end = event_of(first.value), event_of(last.value)
    except Broken as broken:
        raise _unreadable(table, broken, last) from broken
    old = b"" if begin.old is None else first.value[begin.old.start : begin.old.stop]
    if end.new is None:
        return [last._replace(value=event_value(end.ordinal, DELETE, end.schema_version, old))] if old else []
    new = last.value[end.new.start : end.new.stop]
    if end.new.has_handle and not old:
        return [last._replace(value=event_value(end.ordinal, INSERT, end.schema_version, new))]
    return [last._replace(value=settled_value(end.ordinal, end.schema_version, old, new, has_handle=end.new.has_handle))]


def _unreadable(table: KvTable, broken: Broken, change: Change) -> MessageUnreadable:
    error = unreadable(table, broken)
    return MessageUnreadable(f"{Message(change.lane, change.position, None, None).at()}: {error.message}", hint=error.hint)


# ---- which row an event is of ---------------------------------------------------------------------------------------


def _handle(table: KvTable, value: bytes) -> Hashable:
    """Equal for events of one row. Strings that a collation holds equal may differ here: these are two rows to the caller."""
    is_insert = value[KIND_AT] & ~MAYBE_REPEATED == INSERT
    if table.key_parts:
        of_key, at = read_handle(table, value[HEAD_BYTES:]) if is_insert else ({}, 0)
        texts = {number: canonical(table.columns[number], plain) for number, plain in of_key.items()}
        wanted = {table.columns[part.number].id: part.number for part in table.key_parts if part.number not in texts}
        plain_values = _plain_values(table, value, HEAD_BYTES + at, wanted)
        texts |= {number: canonical(table.columns[number], plain) for number, plain in plain_values.items()}
        return tuple(texts[part.number] for part in table.key_parts)
    if is_insert:
        return _int(value, HEAD_BYTES)
    if table.int_handle is None:
        return _rowid(value)
    number = table.int_handle
    plain = _plain_values(table, value, HEAD_BYTES, {table.columns[number].id: number})[number]
    return plain & ALL_BITS if isinstance(plain, int) else plain


def _plain_values(table: KvTable, value: bytes, at: int, wanted: dict[int, int]) -> dict[int, Plain]:
    """The first value of each of these columns, by number. Raises Broken where one is not there or NULL."""
    plain_values: dict[int, Plain] = {}
    while len(plain_values) < len(wanted):
        if at >= len(value):
            raise Broken(at, "a value of each column of the handle", "the end")
        id_, at = read_id(value, at)
        number = wanted.get(id_)
        if number is None or number in plain_values:
            at = read_datum(value, at)[2]
            continue
        plain, at = plain_of_datum(table.columns[number], value, at, in_key=False)
        if plain is None:
            raise Broken(at - 1, f"a value of column {table.columns[number].column.name}", "NULL")
        plain_values[number] = plain
    return plain_values


def _rowid(value: bytes) -> int:
    """Of the last pair: its number is what ends the bytes, and all bytes of a number but the last one are large."""
    at = len(value) - 1
    while at > 0 and value[at - 1] > _SHORT_BYTE_MAX:
        at -= 1
    begin = at - len(_LAST_PAIR)
    if begin < HEAD_BYTES or value[begin:at] != _LAST_PAIR:
        raise Broken(max(begin, 0), "a row that ends with its _tidb_rowid", value[max(begin, 0) :].hex())
    return _int(value, at - 1)


def _int(value: bytes, at: int) -> int:
    if value[at : at + 1] != bytes([VARINT]):
        raise Broken(at, f"an int handle (flag {VARINT})", value[at : at + 1].hex() or "the end")
    return read_varint(value, at + 1)[0] & ALL_BITS
