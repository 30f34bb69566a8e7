"""A row event of a TiDB-Binlog (binlog_event.py) to canonical text: the slow, exact decoder, and the oracle for the one by columns.

    value ─► images ─► handle, pairs (row format 1, kv_row.py) ─► text in the order of the segment's columns

- Of an inserted row the handle holds the columns of the clustered key: an unsigned integer comes as the signed one of the same bits, a
  string may be but a sort key or a prefix, and is then in the pairs as well.
- Old rows, and new ones of updates, hold all public columns, those of the clustered key too: without one of these a row is refused.
- What a pair is absent for is as with raw key-values: the origin default, else NULL. Virtual columns, and ids that the segment's table does
  not have, are skipped.
- Between the two binlogs of DROP COLUMN rows lack the column. TiDB drops none of a primary key, clustered or not, and none of an index of
  several columns; but one that alone is a unique key it drops with its index, and that may be the handle key: then rows cannot be
  distinguished, and are refused (pingcap/tidb ddl: checkIsDroppableColumn, isColumnCanDropWithIndex).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import TableSchema
from sidecar.shared.rowcodec.binlog_event import ROWID_ID, ImagePlace, event_of, schema_version_of
from sidecar.shared.rowcodec.binlog_table import BinlogTable, binlog_table_of
from sidecar.shared.rowcodec.kv_datum import INT_BITS, VARINT, Plain, canonical, plain_of_datum, read_datum
from sidecar.shared.rowcodec.kv_error import Broken
from sidecar.shared.rowcodec.kv_key import text_of_sort_key
from sidecar.shared.rowcodec.kv_layout import kv_table_of
from sidecar.shared.rowcodec.kv_row import text_of, values_of_format_1
from sidecar.shared.rowcodec.kv_table import KvTable

ALL_BITS = (1 << INT_BITS[8]) - 1
_HINT = (
    "report it: the binlog is damaged, or the table had another schema when the transaction began; the row can be compared with the one "
    "that TiDB holds, and a new dump of the table reads it again"
)

Texts = list[str | None]


class DecodedBinlogRows(NamedTuple):
    before: Texts | None
    after: Texts | None


def decode_logged(schema: TableSchema, value: bytes) -> DecodedBinlogRows:
    """As `decode_event`, in the columns of a segment's table. Raises FeedUnsuitable for a table without a layout."""
    try:
        schema_version = schema_version_of(value)
    except Broken as broken:
        raise unreadable(kv_table_of(schema), broken) from broken
    return decode_event(binlog_table_of(schema, schema_version), value)


def decode_event(table: BinlogTable, value: bytes) -> DecodedBinlogRows:
    """Canonical text of `table.table.columns`, None where NULL, of the row before and after the event. Raises MessageUnreadable, with the
    table and the byte in the value."""
    try:
        event = event_of(value)
        return DecodedBinlogRows(*(None if image is None else _texts(table, value, image) for image in (event.old, event.new)))
    except Broken as broken:
        raise unreadable(table.table, broken) from broken


def unreadable(table: KvTable, broken: Broken) -> MessageUnreadable:
    return MessageUnreadable(
        f"table {table.schema.name} (id {table.id}): row event byte {broken.at}: expected {broken.form}; got {broken.got}",
        hint=_HINT,
    )


def _texts(table: BinlogTable, value: bytes, image: ImagePlace) -> Texts:
    row, of_handle, at = value[image.start : image.stop], dict[int, Plain](), 0
    try:
        if image.has_handle:
            of_handle, at = read_handle(table.table, row)
        of_key = {number: canonical(table.table.columns[number], plain) for number, plain in of_handle.items()}
    except Broken as broken:
        raise broken.shifted(image.start) from broken
    try:
        return _of_pairs(table, row[at:], of_key)
    except Broken as broken:
        raise broken.shifted(image.start + at) from broken


def _of_pairs(table: BinlogTable, pairs: bytes, of_key: Mapping[int, str]) -> Texts:
    if not pairs:
        raise Broken(0, "columns", "the end")
    of_row = values_of_format_1(table.table, pairs, hidden_id=ROWID_ID)
    for number, one in enumerate(of_row):
        if one is None and number not in of_key:
            _check_absent(table, number)
    return [text_of(table.table, number, one, of_key) for number, one in enumerate(of_row)]


def _check_absent(table: BinlogTable, number: int) -> None:
    """Raises Broken for a column that a row may not lack. What a clustered key's columns need `text_of` knows."""
    name = table.table.columns[number].column.name
    if number in table.unclear or number == table.table.int_handle:
        raise Broken(0, f"column {name}", "neither it nor what it may have been")
    if name in table.table.schema.key and not table.table.key_parts:
        raise Broken(0, f"a value of column {name}, of the handle key", "none: it is being dropped")


def read_handle(table: KvTable, row: bytes) -> tuple[dict[int, Plain], int]:
    """Plain values by column number, of the columns that the handle alone holds, and where the pairs begin. Raises Broken."""
    if not table.key_parts:
        flag, handle, at = read_datum(row, 0)
        if flag != VARINT or not isinstance(handle, int):
            raise Broken(0, f"an int handle (flag {VARINT})", f"flag {flag}")
        if table.int_handle is None:
            return {}, at
        return {table.int_handle: handle & ALL_BITS if table.columns[table.int_handle].unsigned else handle}, at
    values: dict[int, Plain] = {}
    at = 0
    for part in table.key_parts:
        column = table.columns[part.number]
        try:
            plain, at = plain_of_datum(column, row, at, in_key=False)
            if plain is None:
                raise Broken(0, "a value", "NULL in the handle")
        except Broken as broken:
            raise broken.shifted(0, f"column {column.column.name}") from broken
        if part.is_whole:
            values[part.number] = text_of_sort_key(table, part.number, plain)
    return values, at
