"""Logged rows to the change frame (contract.CHANGES), in columns and without Spark: it runs inside a task.

    rows of a segment ─► sorted by table ─► blocks ─► images (a protocol's reader) ─► changes ─► one Arrow table

A block is decoded at once, whatever tables its rows are of: a table with one row costs its row, and no column's fixed costs.

Rules: rows of the watermark table are omitted. A table's schema is the one given. A row that differs from it is
refused with its lane and position, and its segment and ordinal, by which an operator may skip it (sidecar/shared/log/skips.py); nothing is
skipped here. An update that changes the handle key becomes a delete of the old
key and an insert of the new one. Which update has no old image is the reader's concern (open_protocol.py).

Output order: blocks; in each the tables in the order of their first row, then the deletes of changed keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.codecs import csv as csv_codec
from sidecar.shared.codecs.registry import CARRIERS
from sidecar.shared.codecs.simple import READ_ROW_HEAD
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.errors import FeedError, FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import MARK_TABLE, Message, TableName, TableSchema
from sidecar.shared.process.progress import progressed
from spark_merge.codecs.decode import binlog_rows, csv, kv_rows, simple
from spark_merge.codecs.decode.tables import TableRows, read
from spark_merge.codecs.images import NO_IMAGE, SCHEMA_HINT, UNREADABLE_HINT, Images, RowUnusable, row_of_image
from spark_merge.codecs.protocols import DecoderModule, decoder_module
from spark_merge.port.contract import CHANGES, RANK_DELETE, RANK_PUT, TEXTS
from spark_merge.port.foreign import is_foreign
from spark_merge.port.keys import key_text

_BLOCK_ROWS_MAX = 2048
"""Rows parsed at a time: their Python objects then stay in the processor's cache."""

_KV_BLOCK_ROWS_MAX = 16_384
"""Of key-values and TiDB-Binlog, which make no objects: each column costs the same few calls however many rows there are."""

_BLOCK_BYTES_MAX = 128 << 20
"""Values parsed at a time."""

_COLUMNS = ["seq", "commit_ts", "op", "schema", "table", "key", "value", "lane", "position", "ordinal"]

_Reader = Callable[[Sequence[TableRows], ServerZone], list[Images]]
"""Rows of tables as they are in the log and the server's time zone to the images of each. Raises RowUnusable."""

_TableReader = Callable[[pa.Array, pa.Array, TableSchema, ServerZone], Images]
"""Key and value of each row of one table. Raises RowUnusable."""


def _reader_of(one: _TableReader) -> _Reader:
    def read_each(tables: Sequence[TableRows], zone: ServerZone) -> list[Images]:
        images = []
        for table in tables:
            try:
                images.append(one(table.keys, table.values, table.schema, zone))
            except RowUnusable as unusable:
                raise unusable.behind(table.first) from unusable.__cause__
        return images

    return read_each


_MODULES: dict[str, DecoderModule] = {**{protocol: decoder_module(protocol) for protocol in CARRIERS}, csv_codec.CODEC: csv}

_READERS: dict[str, tuple[_Reader, int]] = {
    **{codec: (partial(read, module=module), _BLOCK_ROWS_MAX) for codec, module in _MODULES.items()},
    "kv": (_reader_of(kv_rows.read), _KV_BLOCK_ROWS_MAX),
    "binlog": (_reader_of(binlog_rows.read), _KV_BLOCK_ROWS_MAX),
}
"""By codec, with the rows that are read at a time."""

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Group:
    """Rows whose images are all converted. `before`, `after` and `key_*` have one entry a row."""

    rows: pa.Table
    before: pa.Array
    after: pa.Array
    key_before: pa.Array
    key_after: pa.Array


class _Block(NamedTuple):
    """`rows`: of these tables, one after the other, each column in one piece."""

    rows: pa.Table
    tables: Sequence[TableRows]

    def one(self, row: int) -> _Block:
        """This row alone."""
        table = next(table for table in reversed(self.tables) if table.first <= row)
        return _block(self.rows.slice(row, 1), [(table.schema, 0, 1)])


def decode(
    rows: pa.Table,
    *,
    codec: str,
    schemas: Mapping[TableName, TableSchema],
    server_tz: str | ServerZone = "UTC",
    whole: bool = True,
    module: DecoderModule | None = None,
) -> pa.Table:
    """`rows` has manifest.DATA_COLUMNS and `seq`, null where they are of no log. `server_tz` is the TiCDC server's time zone (`--tz`); a
    name refuses ambiguous hours. `whole` False, of a protocol of CARRIERS or with `module`: columns that a schema does not have are passed
    over. `module`: the decoder, where the codec's name does not say it.

    Raises MessageUnreadable for bytes that do not follow the protocol, FeedUnsuitable for a row or a table that does not
    fit `schemas`; the text names lane, position, table, column and value.
    """
    reader, rows_max = _READERS.get(codec, (None, _BLOCK_ROWS_MAX))
    if module is not None:
        reader = partial(read, module=module, whole=whole)
    elif not whole:
        reader = partial(read, module=_MODULES[codec], whole=False)
    if reader is None:
        raise FeedUnsuitable(f"rows of codec {codec} are not decoded here", hint=f"use one of {', '.join(_READERS)} as the protocol")
    zone = server_tz if isinstance(server_tz, ServerZone) else ServerZone(server_tz)
    parts = [CHANGES.empty_table()]
    for some, read_block in _by_form(rows.select(_COLUMNS), codec, reader, whole=whole):
        for block in _blocks(*_by_table(some, schemas), rows_max):
            try:
                parts.extend(_changes(_read_block(block, read_block, zone)))
            except RowUnusable as unusable:
                table = TableName(block.rows["schema"][unusable.row].as_py(), block.rows["table"][unusable.row].as_py())
                raise _refused(unusable.kind, f"table {table}: {unusable}", unusable.hint, block.rows, unusable.row) from unusable
            progressed()
    return pa.concat_tables(parts)


def _by_form(rows: pa.Table, codec: str, reader: _Reader, *, whole: bool) -> list[tuple[pa.Table, _Reader]]:
    """Rows that were read from TiDB (sidecar/feeds/encoded/read_rows.py) have a form of their own."""
    if codec not in CARRIERS or _MODULES[codec] is simple or not pc.any(were_read := pc.starts_with(rows["value"], READ_ROW_HEAD)).as_py():
        return [(rows, reader)]
    return [(rows.filter(pc.invert(were_read)), reader), (rows.filter(were_read), partial(read, module=simple, whole=whole))]


_Runs = list[tuple[TableSchema, int, int]]
"""Of rows that are sorted by table: each table's schema, first row, and the row after its last one."""


def _by_table(rows: pa.Table, schemas: Mapping[TableName, TableSchema]) -> tuple[pa.Table, _Runs]:
    """The rows but those of the watermark table: tables in the order of their first row, the rows of each in their order. Raises
    FeedUnsuitable."""
    if rows.num_rows == 0:
        return rows, []
    joined = pc.binary_join_element_wise(rows["schema"], rows["table"], "\0").combine_chunks().dictionary_encode()
    codes: _Numbers = joined.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(joined.dictionary) + 1)).tolist()
    names = [TableName(*name.split("\0")) for name in joined.dictionary.to_pylist()]
    if MARK_TABLE in names:
        mark = names.index(MARK_TABLE)
        others = np.concatenate([order[: edges[mark]], order[edges[mark + 1] :]])
        return _by_table(rows.take(pa.array(np.sort(others))), schemas)
    in_order = (rows if len(names) == 1 else rows.take(pa.array(order))).combine_chunks()
    runs = []
    for name, start, end in zip(names, edges, edges[1:], strict=False):
        schema = schemas.get(name)
        if schema is None or not schema.key:
            why = "has no schema here" if schema is None else "has no handle key"
            hint = SCHEMA_HINT if schema is None else "unset force-replicate in the changefeed, or give the table a primary key"
            raise _refused(FeedUnsuitable, f"table {name} {why}", hint, in_order, start)
        runs.append((schema, start, end))
    return in_order, runs


def _blocks(rows: pa.Table, runs: _Runs, rows_max: int) -> Iterator[_Block]:
    """Of so many rows at most, and fewer if their values are large."""
    if not runs:
        return
    sizes: _Numbers = pc.binary_length(rows["value"]).to_numpy().astype(np.int64)
    ends = np.cumsum(sizes)
    start = 0
    while start < rows.num_rows:
        before = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends[start : start + rows_max], before + _BLOCK_BYTES_MAX, side="right"))
        end = start + max(fitting, 1)
        inside = [
            (schema, max(first, start) - start, min(last, end) - start) for schema, first, last in runs if first < end and start < last
        ]
        yield _block(rows.slice(start, end - start), inside)
        start = end


def _block(rows: pa.Table, runs: _Runs) -> _Block:
    keys, values = (rows[name].chunk(0) for name in ("key", "value"))
    return _Block(
        rows, [TableRows(one, first, keys.slice(first, end - first), values.slice(first, end - first)) for one, first, end in runs]
    )


def _refused(kind: type[FeedError], text: str, hint: str, rows: pa.Table, row: int) -> FeedError:
    lane, position, seq, ordinal = (rows[name][row].as_py() for name in ("lane", "position", "seq", "ordinal"))
    at = Message(lane, position, None, None).at()
    if seq is None:
        return kind(f"{at}: {text}", hint=hint)
    or_skip = f"to continue without this row, see `ticdc-dump skip --config FILE --seq {seq} --ordinal {ordinal}`"
    return kind(f"{at}: {text} (segment {seq}, ordinal {ordinal} of the log)", hint=f"{hint}; {or_skip}")


# ---- images to rows -------------------------------------------------------------------------------------------------


def _read_block(block: _Block, reader: _Reader, zone: ServerZone) -> _Group:
    """Raises RowUnusable also for what a library raises: of the first row that it cannot have alone."""
    try:
        return _converted(block, reader, zone)
    except BaseException as error:
        if isinstance(error, RowUnusable) or not is_foreign(error):
            raise
        rows = block.rows.num_rows
        for row in range(rows if rows > 1 else 0):
            try:
                _read_block(block.one(row), reader, zone)
            except RowUnusable as unusable:
                raise unusable.behind(row) from error
        raise RowUnusable(0, f"{type(error).__name__}: {error}", kind=MessageUnreadable, hint=UNREADABLE_HINT) from error


class _TableImages(NamedTuple):
    """Of one table; `before` and `after` as of Images."""

    table: TableRows
    columns: Sequence[pa.Array]
    before: _Numbers
    after: _Numbers


def _converted(block: _Block, reader: _Reader, zone: ServerZone) -> _Group:
    tables = [
        _TableImages(table, images.columns, np.asarray(images.before, np.int64), np.asarray(images.after, np.int64))
        for table, images in zip(block.tables, reader(block.tables, zone), strict=True)
    ]
    before, after = ([table.before for table in tables], [table.after for table in tables])
    _refuse_other_op(block.rows, np.concatenate(after))
    texts = pa.concat_arrays([column for table in tables for column in table.columns])
    keys, starts = _keys(tables)
    return _Group(
        rows=block.rows,
        before=_lists(texts, tables, before),
        after=_lists(texts, tables, after),
        key_before=_taken(keys, starts, before),
        key_after=_taken(keys, starts, after),
    )


def _refuse_other_op(rows: pa.Table, after: _Numbers) -> None:
    """The log's own `op` was read from the same bytes by the sidecar's codec."""
    other = pc.not_equal(pa.array(after == NO_IMAGE), pc.equal(rows["op"], "delete"))
    if pc.any(other).as_py():
        row = pc.index(other, True).as_py()
        raise RowUnusable(row, f"logged as {rows['op'][row]}, its value is another", kind=MessageUnreadable, hint=UNREADABLE_HINT)


def _keys(tables: Sequence[_TableImages]) -> tuple[pa.Array, list[int]]:
    """`key_text` of each image, and where those of each table begin. Tables with as many key columns are done together."""
    starts, texts, length = [0] * len(tables), [], 0
    columns = [_key_columns(table) for table in tables]
    for width in sorted({len(one) for one in columns}):
        numbers = [number for number, one in enumerate(columns) if len(one) == width]
        for number in numbers:
            starts[number] = length
            length += len(columns[number][0])
        texts.append(key_text([pa.concat_arrays([columns[number][place] for number in numbers]) for place in range(width)]))
    return pa.concat_arrays(texts), starts


def _key_columns(table: _TableImages) -> list[pa.Array]:
    schema = table.table.schema
    names = schema.column_names()
    columns = [table.columns[names.index(name)] for name in schema.key]
    for name, column in zip(schema.key, columns, strict=True):
        if column.null_count:
            image = pc.index(column.is_null(), True).as_py()
            row = table.table.first + row_of_image(image, table.before.tolist(), table.after.tolist())
            raise RowUnusable(row, f"column {name}: a key column is null", kind=FeedUnsuitable, hint=SCHEMA_HINT)
    return columns


def _taken(keys: pa.Array, starts: Sequence[int], numbers: Sequence[_Numbers]) -> pa.Array:
    """One key a row, null where it has no image."""
    none = np.concatenate(numbers) == NO_IMAGE
    return keys.take(pa.array(np.concatenate([start + one for start, one in zip(starts, numbers, strict=True)]), mask=none))


def _lists(texts: pa.Array, tables: Sequence[_TableImages], numbers: Sequence[_Numbers]) -> pa.Array:
    """One list a row, of its image's texts, null where it has no image. `texts` holds the columns one behind the other, table by table."""
    places, first = [], 0
    for table, one in zip(tables, numbers, strict=True):
        width, images = len(table.columns), len(table.columns[0])
        places.append((first + one[one != NO_IMAGE][:, None] + np.arange(width) * images).ravel())
        first += width * images
    there = np.concatenate(numbers) != NO_IMAGE
    widths = np.repeat([len(table.columns) for table in tables], [len(one) for one in numbers])
    offsets = np.concatenate([[0], np.cumsum(there * widths)]).astype(np.int32)
    taken = texts.take(pa.array(np.concatenate(places)))
    return pa.ListArray.from_arrays(pa.array(offsets), taken, type=TEXTS, mask=pa.array(~there))


# ---- rows to changes ------------------------------------------------------------------------------------------------


def _changes(group: _Group) -> list[pa.Table]:
    moved = pc.fill_null(pc.not_equal(group.key_before, group.key_after), False)
    if not pc.any(moved).as_py():
        return [_frame(group, group.before, group.after)]
    stayed_before = pc.if_else(moved, pa.scalar(None, TEXTS), group.before)
    kept = _frame(group, stayed_before, group.after)
    numbers = pc.indices_nonzero(moved)
    old = _Group(*(part.take(numbers) for part in (group.rows, group.before, group.after, group.key_before, group.key_after)))
    return [kept, _frame(old, old.before, pa.nulls(len(numbers), TEXTS))]


def _frame(group: _Group, before: pa.Array, after: pa.Array) -> pa.Table:
    gone, new = after.is_null(), before.is_null()
    columns: list[Any] = [
        group.rows["seq"],
        group.rows["commit_ts"],
        pc.if_else(gone, pa.scalar(RANK_DELETE, pa.int32()), pa.scalar(RANK_PUT, pa.int32())),
        group.rows["ordinal"],
        group.rows["schema"],
        group.rows["table"],
        pc.if_else(gone, "delete", pc.if_else(new, "insert", "update")),
        pc.if_else(gone, group.key_before, group.key_after),
        before,
        after,
    ]
    return pa.table(columns, schema=CHANGES)
