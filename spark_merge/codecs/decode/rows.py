"""Logged rows to the change frame (contract.CHANGES), in columns and without Spark: it runs inside a task.

    rows of a segment ─► by table ─► images (a protocol's reader) ─► changes ─► one Arrow table

Rules: rows of the watermark table are omitted. A table's schema is the one given. A row that differs from it is
refused with its lane and position, and its segment and ordinal, by which an operator may skip it (sidecar/log/skips.py); nothing is
skipped here. An update that changes the handle key becomes a delete of the old
key and an insert of the new one. Which update has no old image is the reader's concern (open_protocol.py).

Output order: tables in the order of their first row; in each its rows, then the deletes of changed keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.codecs.registry import CARRIERS
from sidecar.core.model import MARK_TABLE, Message, TableName, TableSchema
from sidecar.errors import FeedError, FeedUnsuitable, MessageUnreadable
from sidecar.process.progress import progressed
from spark_merge.codecs.decode import binlog_rows, kv_rows
from spark_merge.codecs.images import NO_IMAGE, SCHEMA_HINT, UNREADABLE_HINT, Images, RowUnusable, row_of_image
from spark_merge.codecs.protocols import decoder_module
from spark_merge.codecs.zone import ServerZone
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

_Reader = Callable[[pa.Array, pa.Array, TableSchema, ServerZone], Images]
"""Key and value of each row in the log, the schema and the server's time zone to the images. Raises RowUnusable."""


def _reader_of_values(read: Callable[[list[bytes], TableSchema, ServerZone], Images]) -> _Reader:
    """Of a protocol whose values say everything."""
    return lambda _, values, schema, zone: read(values.to_pylist(), schema, zone)


_READERS: dict[str, tuple[_Reader, int]] = {
    **{protocol: (_reader_of_values(decoder_module(protocol).read), _BLOCK_ROWS_MAX) for protocol in CARRIERS},
    "kv": (kv_rows.read, _KV_BLOCK_ROWS_MAX),
    "binlog": (binlog_rows.read, _KV_BLOCK_ROWS_MAX),
}
"""By codec, with the rows that are read at a time."""

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Group:
    """Rows of one table, all images converted. `before`, `after` and `key_*` have one entry a row."""

    rows: pa.Table
    before: pa.Array
    after: pa.Array
    key_before: pa.Array
    key_after: pa.Array


def decode(
    rows: pa.Table, *, codec: str, schemas: Mapping[TableName, TableSchema], server_tz: str | ServerZone = "UTC", whole: bool = True
) -> pa.Table:
    """`rows` has manifest.DATA_COLUMNS and `seq`, null where they are of no log. `server_tz` is the TiCDC server's time zone (`--tz`); a
    name refuses ambiguous hours. `whole` False, of a protocol of CARRIERS: columns that a schema does not have are passed over.

    Raises MessageUnreadable for bytes that do not follow the protocol, FeedUnsuitable for a row or a table that does not
    fit `schemas`; the text names lane, position, table, column and value.
    """
    reader, rows_max = _READERS.get(codec, (None, 0))
    if reader is None:
        raise FeedUnsuitable(f"rows of codec {codec} are not decoded here", hint=f"use one of {', '.join(_READERS)} as the protocol")
    if not whole:
        reader = _reader_of_values(partial(decoder_module(codec).read, whole=False))
    zone = server_tz if isinstance(server_tz, ServerZone) else ServerZone(server_tz)
    parts = [CHANGES.empty_table()]
    for name, group in _by_table(rows.select(_COLUMNS)):
        schema = schemas.get(name)
        if schema is None or not schema.key:
            why = "has no schema here" if schema is None else "has no handle key"
            hint = SCHEMA_HINT if schema is None else "unset force-replicate in the changefeed, or give the table a primary key"
            raise _refused(FeedUnsuitable, f"table {name} {why}", hint, group, 0)
        for block in _blocks(group, rows_max):
            try:
                parts.extend(_changes(_read_block(block, reader, schema, zone)))
            except RowUnusable as unusable:
                raise _refused(unusable.kind, f"table {name}: {unusable}", unusable.hint, block, unusable.row) from unusable
            progressed()
    return pa.concat_tables(parts)


def _by_table(rows: pa.Table) -> Iterator[tuple[TableName, pa.Table]]:
    """Rows of each table but the watermark table, in their order; tables in the order of their first row."""
    if rows.num_rows == 0:
        return
    joined = pc.binary_join_element_wise(rows["schema"], rows["table"], "\0").combine_chunks().dictionary_encode()
    codes: _Numbers = joined.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(joined.dictionary) + 1))
    for code, name in enumerate(joined.dictionary.to_pylist()):
        table = TableName(*name.split("\0"))
        if table != MARK_TABLE:
            yield table, rows.take(pa.array(order[starts[code] : starts[code + 1]])).combine_chunks()


def _blocks(group: pa.Table, rows_max: int) -> Iterator[pa.Table]:
    """Of so many rows at most, and fewer if their values are large."""
    sizes: _Numbers = pc.binary_length(group["value"]).to_numpy().astype(np.int64)
    ends = np.cumsum(sizes)
    start = 0
    while start < group.num_rows:
        before = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends[start : start + rows_max], before + _BLOCK_BYTES_MAX, side="right"))
        yield group.slice(start, max(fitting, 1))
        start += max(fitting, 1)


def _refused(kind: type[FeedError], text: str, hint: str, group: pa.Table, row: int) -> FeedError:
    lane, position, seq, ordinal = (group[name][row].as_py() for name in ("lane", "position", "seq", "ordinal"))
    at = Message(lane, position, None, None).at()
    if seq is None:
        return kind(f"{at}: {text}", hint=hint)
    or_skip = f"to continue without this row, see `ticdc-dump skip --config FILE --seq {seq} --ordinal {ordinal}`"
    return kind(f"{at}: {text} (segment {seq}, ordinal {ordinal} of the log)", hint=f"{hint}; {or_skip}")


# ---- images to rows -------------------------------------------------------------------------------------------------


def _read_block(block: pa.Table, reader: _Reader, schema: TableSchema, zone: ServerZone) -> _Group:
    """Raises RowUnusable also for what a library raises: of the first row that it cannot have alone."""
    try:
        return _converted(block, reader, schema, zone)
    except BaseException as error:
        if isinstance(error, RowUnusable) or not is_foreign(error):
            raise
        for row in range(block.num_rows if block.num_rows > 1 else 0):
            try:
                _read_block(block.slice(row, 1), reader, schema, zone)
            except RowUnusable as unusable:
                raise RowUnusable(row, str(unusable), kind=unusable.kind, hint=unusable.hint) from error
        raise RowUnusable(0, f"{type(error).__name__}: {error}", kind=MessageUnreadable, hint=UNREADABLE_HINT) from error


def _converted(group: pa.Table, reader: _Reader, schema: TableSchema, zone: ServerZone) -> _Group:
    images = reader(group["key"], group["value"], schema, zone)
    before, after = np.asarray(images.before, np.int64), np.asarray(images.after, np.int64)
    _refuse_other_op(group, after)
    keys, texts = _keys(images, schema), pa.concat_arrays(images.columns)
    return _Group(
        rows=group,
        before=_lists(texts, before, width=len(images.columns)),
        after=_lists(texts, after, width=len(images.columns)),
        key_before=keys.take(pa.array(before, mask=before == NO_IMAGE)),
        key_after=keys.take(pa.array(after, mask=after == NO_IMAGE)),
    )


def _refuse_other_op(group: pa.Table, after: _Numbers) -> None:
    """The log's own `op` was read from the same bytes by the sidecar's codec."""
    other = pc.not_equal(pa.array(after == NO_IMAGE), pc.equal(group["op"], "delete"))
    if pc.any(other).as_py():
        row = pc.index(other, True).as_py()
        raise RowUnusable(row, f"logged as {group['op'][row]}, its value is another", kind=MessageUnreadable, hint=UNREADABLE_HINT)


def _keys(images: Images, schema: TableSchema) -> pa.Array:
    """`key_text` of each image."""
    names = schema.column_names()
    columns = [images.columns[names.index(name)] for name in schema.key]
    for name, column in zip(schema.key, columns, strict=True):
        if column.null_count:
            image = pc.index(column.is_null(), True).as_py()
            row = row_of_image(image, images.before, images.after)
            raise RowUnusable(row, f"column {name}: a key column is null", kind=FeedUnsuitable, hint=SCHEMA_HINT)
    return key_text(columns)


def _lists(texts: pa.Array, numbers: _Numbers, *, width: int) -> pa.Array:
    """One list a row, of its image's texts, null where it has no image. `texts` holds the columns one behind the other."""
    there = numbers != NO_IMAGE
    across = numbers[there][:, None] + np.arange(width) * (len(texts) // width)
    offsets = np.concatenate([[0], np.cumsum(there) * width]).astype(np.int32)
    result = texts.take(pa.array(across.ravel()))
    return pa.ListArray.from_arrays(pa.array(offsets), result, type=TEXTS, mask=pa.array(~there))


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
