"""The partition in which TiCDC would put each row: its dispatchers' hashes (shared/ticdc/dispatch.py) over columns of canonical text.

    rule + schema ─► the columns that count ─► their values' bytes, as Go writes them ─► crc32, xor ─► modulo the topic's partitions

A value's bytes are those that TiCDC hashes, which are neither protocol's: an enum's number, a float without exponent, a binary's own bytes.
What is the same for many rows is made once: such columns are looked at by their distinct values.

TiCDC keeps the table's name as it came with the row; here it is the schema's. They differ where the classic architecture lowers a schema's
name after a RENAME (sidecar/shared/ticdc/topics.py).

Source: pingcap/tiflow cdc/sink/dmlsink/mq/dispatcher/partition, cdc/entry/mounter.go (formatColVal), cdc/model/sink.go (ColumnValueString);
pingcap/ticdc pkg/common/{helper,column}.go. Held against vectors of TiCDC's own code and against every recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple, assert_never
from zlib import crc32
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.columns.zone import ZERO
from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, IndexDefinition, TableSchema, lowered
from sidecar.shared.partition.ids import NEW_LOG
from sidecar.shared.ticdc.dispatch import Hashing, TopicPartitionRule

_Hashes = npt.NDArray[np.uint32]


def partitions(rule: TopicPartitionRule, schema: TableSchema, changes: pa.Table, count: int) -> npt.NDArray[np.int32]:
    """One a row of `changes` (contract.CHANGES, of one table), of `count` partitions. Raises SinkError for an index or a column that the
    table has not, and for rows that do not fit the schema."""
    rows = changes.num_rows
    if rule.kind == "ts":
        commit_ts: npt.NDArray[np.int64] = changes["commit_ts"].to_numpy()
        return (commit_ts % count).astype(np.int32)
    hashes = np.full(rows, crc32((schema.name.schema + schema.name.table).encode()), np.uint32)
    if rule.kind != "table" and rows:
        image = _Image(changes, schema)
        for part in hashed(rule, schema):
            hashes ^= _value_hashes(part, schema, image, rule.hashing)
    return (hashes % np.uint32(count)).astype(np.int32)


def by_handle_key(rule: TopicPartitionRule, schema: TableSchema) -> bool:
    """Whether a row's handle key alone decides its partition. Raises as `partitions`."""
    return all(schema.columns[part.place].name in schema.key for part in hashed(rule, schema))


def verify(rule: TopicPartitionRule, schema: TableSchema) -> None:
    """What TiCDC asks of each table before a changefeed starts. Raises SinkError."""
    hashed(rule, schema)
    if rule.kind == "index-value" and rule.index and not _index(rule.index, schema).unique:
        raise SinkError(
            f"the index {rule.index} of {schema.name}, by which rows go to partitions, is not unique: TiCDC refuses it (index is not"
            " unique when verify the table), for an update that changes its value would leave its partition",
            hint="name a unique index in sink.dispatchers, or none for the handle key",
        )


def verify_whole_keys(rule: TopicPartitionRule, schema: TableSchema) -> None:
    """That all events of a key are in one partition, as Debezium's readers and compacted topics need them. An update of another column that
    counts would leave the key's last event in the partition of before. Raises SinkError."""
    if rule.kind == "ts" or not by_handle_key(rule, schema):
        raise SinkError(
            f"a dispatcher puts rows of {schema.name} into partitions by {rule.index or ', '.join(rule.columns) or rule.kind}, and a key's"
            " events would be in several",
            hint="let the dispatcher in the file of config= say index-value without an index, table, or columns of the handle key"
            f" ({', '.join(schema.key)})",
        )


# ---- the columns that count ----------------------------------------------------------------------------------------


class HashedPart(NamedTuple):
    """`name` as it is hashed; `place`: of the column in the schema."""

    name: str
    place: int


def hashed(rule: TopicPartitionRule, schema: TableSchema) -> list[HashedPart]:
    """What of a row of the table is hashed, besides its name. Raises SinkError."""
    match rule.kind:
        case "table" | "ts":
            return []
        case "index-value" if rule.index:
            return list(_of_index(rule, schema))
        case "index-value":
            names = schema.column_names()
            return [HashedPart(_written(name, name, rule.hashing), names.index(name)) for name in schema.key]
        case "columns":
            return [_of_column(name, rule, schema) for name in rule.columns]
        case _:
            assert_never(rule.kind)


def _written(own: str, requested: str, hashing: Hashing) -> str:
    match hashing.names:
        case "own":
            return own
        case "lower":
            return lowered(requested)
        case "written":
            return requested
        case _:
            assert_never(hashing.names)


def _index(name: str, schema: TableSchema) -> IndexDefinition:
    if schema.definition is None:
        raise SinkError(
            f"which columns the index {name} of {schema.name} has is not known: the log was begun by a release that did not keep it",
            hint=f"name them with the columns dispatcher; or {NEW_LOG}",
        )
    definition = next((index for index in schema.definition.indexes if lowered(index.name) == lowered(name)), None)
    if definition is None or (definition.primary and not definition.id):
        why = "" if definition is None else ", for which TiDB has no index: a primary key of one integer column is the row's handle"
        raise SinkError(
            f"index not found when dispatch event, table: {schema.name}, index: {name}{why}",
            hint="name an index that the table has in sink.dispatchers, or none for the handle key; TiCDC stops with the same error",
        )
    return definition


def _of_index(rule: TopicPartitionRule, schema: TableSchema) -> Iterable[HashedPart]:
    for part in _index(rule.index, schema).parts:
        place = _place(part.column, schema, rule.hashing) if part.column else None
        if place is not None:
            yield HashedPart(_written(part.column, part.column, rule.hashing), place)
        elif rule.hashing.shifted:
            raise _behind_the_row(part.column or part.expression, schema)


def _of_column(requested: str, rule: TopicPartitionRule, schema: TableSchema) -> HashedPart:
    own = next((name for name in _all_columns(schema) if lowered(name) == lowered(requested)), None)
    if own is None or own not in schema.column_names():
        what = "columns not found" if own is None else "found virtual generated columns"
        raise SinkError(
            f"{what} when dispatch event, table: {schema.name}, columns: {', '.join(rule.columns)}, column: {requested}",
            hint="name columns that all tables of the rule in sink.dispatchers have; TiCDC stops with the same error",
        )
    place = _place(own, schema, rule.hashing)
    if place is None:
        raise _behind_the_row(own, schema)
    return HashedPart(_written(schema.columns[place].name, requested, rule.hashing), place)


def _place(name: str, schema: TableSchema, hashing: Hashing) -> int | None:
    """Where TiCDC looks for the column's value in a row; None: nowhere in it."""
    names = _all_columns(schema) if hashing.shifted else schema.column_names()
    place = next((place for place, own in enumerate(names) if lowered(own) == lowered(name)), None)
    return place if place is not None and place < len(schema.columns) else None


def _behind_the_row(name: str, schema: TableSchema) -> SinkError:
    return SinkError(
        f"the column {name} of {schema.name} is generated as it is read, or comes after such a column: TiCDC of the classic architecture"
        " looks for its value behind the row's end, and dies of it",
        hint="name other columns, or another index, in sink.dispatchers",
    )


def _all_columns(schema: TableSchema) -> tuple[str, ...]:
    """With virtual generated ones, where they are known."""
    if schema.definition is None:
        return schema.column_names()
    return tuple(column.name for column in schema.definition.columns)


# ---- values and their hashes ---------------------------------------------------------------------------------------


class _Image:
    """The rows after the change, for a delete before it, a column at a time."""

    def __init__(self, changes: pa.Table, schema: TableSchema) -> None:
        rows = changes.select(["before", "after"]).combine_chunks()
        self._before, self._after = rows["before"].chunk(0), rows["after"].chunk(0)
        self._has_after = self._after.is_valid()
        self._deletes = self._after.null_count > 0
        width = len(schema.columns)
        for images in (self._before, self._after):
            if len(images.flatten()) != width * (len(images) - images.null_count):
                raise SinkError(
                    f"a row of {schema.name} has not the {width} columns of its schema",
                    hint="the log's schemas file does not fit its data: check that the log is whole, then report this",
                )
        if self._deletes and pc.any(pc.and_(self._after.is_null(), self._before.is_null())).as_py():
            raise SinkError(
                f"a change of {schema.name} has neither an old nor a new image",
                hint="check that the changefeed sends deleted rows whole (delete-only-output-handle-key-columns = false)",
            )
        self._width = width

    def column(self, place: int) -> pa.Array:
        after = _of_images(self._after, place, self._width)
        return pc.if_else(self._has_after, after, _of_images(self._before, place, self._width)) if self._deletes else after


def _of_images(images: pa.ListArray, place: int, width: int) -> pa.Array:
    """The column in `place` of rows of `width` columns, null where there is no image."""
    absent = images.is_null().to_numpy(zero_copy_only=False)
    at = (np.cumsum(~absent) - 1) * width + place
    return images.flatten().take(pa.array(at, mask=absent))


def _value_hashes(part: HashedPart, schema: TableSchema, image: _Image, hashing: Hashing) -> _Hashes:
    column = schema.columns[part.place]
    texts = image.column(part.place)
    seed = crc32(part.name.encode())
    make = _maker(column, hashing)
    if make is None:
        crcs = _crcs(texts, seed)
    else:
        distinct = texts.dictionary_encode()
        values = pa.array([_made(text, make, column, schema) for text in distinct.dictionary.to_pylist()], pa.binary())
        crcs = _crcs(values, seed)[pc.fill_null(distinct.indices, 0).to_numpy(zero_copy_only=False)] if len(values) else _none(len(texts))
    if texts.null_count:
        crcs[texts.is_null().to_numpy(zero_copy_only=False)] = 0 if hashing.null is None else crc32(hashing.null.encode(), seed)
    return crcs


def _none(rows: int) -> _Hashes:
    return np.zeros(rows, np.uint32)


def _crcs(values: pa.Array, seed: int) -> _Hashes:
    """crc32 of each value's bytes behind what `seed` has read; a null's is nobody's."""
    _, offsets, data = values.buffers()
    if data is None:
        return np.full(len(values), seed, np.uint32)
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].tolist()
    result = memoryview(data)
    return np.fromiter((crc32(result[start:end], seed) for start, end in pairwise(ends)), np.uint32, len(values))


def _made(text: str, make: Callable[[str], str | bytes], column: Column, schema: TableSchema) -> bytes:
    try:
        made = make(text)
    except (ValueError, KeyError) as error:
        raise SinkError(
            f"{text[:64]!r} in column {column.name} of {schema.name} is no {column.kind} of its schema",
            hint="the log's schemas file does not fit its data: check that the log is whole, then report this",
        ) from error
    return made if isinstance(made, bytes) else made.encode()


def _maker(column: Column, hashing: Hashing) -> Callable[[str], str | bytes] | None:
    """From canonical text to what TiCDC hashes; None: the text itself."""
    match column.kind:
        case "int" | "uint" | "decimal" | "text" | "bit" | "date" | "datetime" | "json" | "vector":
            return None
        case "binary":
            return bytes.fromhex
        case "year":
            return lambda text: str(int(text))
        case "float":
            return lambda text: _positional(np.float32(text))
        case "double":
            return lambda text: _positional(np.float64(text))
        case "enum":
            numbers = {"": 0} | {label: number for number, label in enumerate(column.elements, 1)}
            return lambda text: str(numbers[text])
        case "set":
            bits = {label: 1 << number for number, label in enumerate(column.elements)}
            return lambda text: str(sum(bits[label] for label in text.split(","))) if text else "0"
        case "time":
            return (lambda text: text.partition(".")[0]) if hashing.whole_seconds else None
        case "timestamp":
            zone = None if hashing.zone == "UTC" else ZoneInfo(hashing.zone)
            return (lambda text: _local(text, zone)) if zone else None
        case _:
            assert_never(column.kind)


def _positional(number: np.float32 | np.float64) -> str:
    """As Go's FormatFloat(v, 'f', -1, bits); TiCDC writes 0 for what is no number."""
    return np.format_float_positional(number, trim="-") if np.isfinite(number) else "0"


def _local(text: str, zone: ZoneInfo) -> str:
    clock, fraction = text[:19], text[19:]
    if clock == ZERO:
        return text
    return datetime.fromisoformat(clock).replace(tzinfo=UTC).astimezone(zone).isoformat(sep=" ")[:19] + fraction
