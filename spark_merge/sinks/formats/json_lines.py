"""JSON lines, as the files and the http: sinks write them, and the same lines as rows again: one object a row, in order, in these fields:

    seq, ordinal   numbers
    commit_ts      decimal string: a TSO is beyond what readers that know only doubles can hold
    schema, table, op (insert | update | delete)
    key            {column: text} of the handle key, of the new image, for a delete of the old one; null without a key
                   (such tables come only with TiCDC's force-replicate)
    before, after  {column: text or null}, in schema order, or null where there is no such image
    origin         log | dump
    dump_id        the dump's id, null for rows of the log

Values are canonical text (shared/model/nouns.py, Kind). Lines end in a line feed; the text is UTF-8, escaped by polars. What is read back
gives Arrow no name of a column: it cannot have each of them.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from sidecar.shared.process.progress import progressed
from spark_merge.codecs.encode.block import Block, image_columns
from spark_merge.codecs.encode.lazy_polars import pl
from spark_merge.ddl.eras import Era, era_of
from spark_merge.port.readable import RowsRead, Versions
from spark_merge.sinks.kit.row_versions import ranks, rows_read

BLOCK_BYTES = 8 << 20
"""Of lines that are read at a time; a longer one is read alone."""

_RESTORE = "restore the output, or deliver to a new one and dump again"


def json_lines(block: Block) -> memoryview:
    """The block's rows as bytes; empty for no rows."""
    if block.rows <= FEW_ROWS or any("\0" in name for name in block.schema.column_names()):
        return memoryview(few_json_lines(block))  # Arrow hands a name to polars as a C string, which ends there
    return many_json_lines(block)


def many_json_lines(block: Block) -> memoryview:
    """As `few_json_lines`, byte for byte, by columns; no name has a NUL."""
    rows = pa.table(
        {
            "ordinal": block.ordinal,
            "commit_ts": pc.cast(block.commit_ts, pa.string()),
            "op": block.op,
            "key": _keys(block),
            "before": block.before,
            "after": block.after,
        }
    )
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    out = io.BytesIO()
    frame.select(
        pl.lit(block.seq).alias("seq"),
        "ordinal",
        "commit_ts",
        pl.lit(block.schema.name.schema).alias("schema"),
        pl.lit(block.schema.name.table).alias("table"),
        "op",
        "key",
        "before",
        "after",
        pl.lit(block.origin).alias("origin"),
        pl.lit(block.dump_id, dtype=pl.String).alias("dump_id"),
    ).write_ndjson(out)
    return out.getbuffer()


@contextmanager
def writing_json_lines(out: Any, _: TableSchema) -> Iterator[Callable[[Block], object]]:
    yield lambda block: out.write(json_lines(block))


FEW_ROWS = 16
"""Of a block: as many rows one by one cost a fifth of what their columns do, and a single one a twentieth (measured)."""


def few_json_lines(block: Block) -> bytes:
    """Row by row."""
    schema, before, after = block.schema, _texts(block.before), _texts(block.after)
    places = zip(block.ordinal.to_pylist(), block.commit_ts.to_pylist(), block.op.to_pylist(), before, after, strict=True)
    return b"".join(
        _encoded(
            {
                "seq": block.seq,
                "ordinal": ordinal,
                "commit_ts": str(commit_ts),
                "schema": schema.name.schema,
                "table": schema.name.table,
                "op": op,
                "key": {name: (new or old)[name] for name in schema.key} if schema.key else None,
                "before": old,
                "after": new,
                "origin": block.origin,
                "dump_id": block.dump_id,
            }
        )
        + b"\n"
        for ordinal, commit_ts, op, old, new in places
    )


_encoded = msgspec.json.Encoder().encode


def _texts(images: pa.StructArray) -> list[Any]:
    """{column: text or None}, None where there is no such image."""
    names = [images.type.field(i).name for i in range(images.type.num_fields)]
    columns = [images.field(i).to_numpy(zero_copy_only=False).tolist() for i in range(len(names))]
    there = images.is_valid().to_numpy(zero_copy_only=False).tolist()
    return [dict(zip(names, row, strict=True)) if valid else None for valid, row in zip(there, zip(*columns, strict=True), strict=True)]


def _keys(block: Block) -> pa.Array:
    if not block.schema.key:
        return pa.nulls(block.rows)
    images = dict(zip(block.schema.column_names(), image_columns(block), strict=True))
    return pa.StructArray.from_arrays([images[name] for name in block.schema.key], names=list(block.schema.key))


# ---- read back ---------------------------------------------------------------------------------------------------------


def line_blocks(file: IO[bytes], end: bytes = b"\n", quote: bytes = b"") -> Iterator[bytes]:
    """Whole lines; an `end` between two quotes ends none. Raises SinkError for a last one without its end."""
    left = b""
    while data := file.read(BLOCK_BYTES):
        progressed()
        data = left + data
        cut = _end_of_lines(data, end, quote)
        left = data[cut:]
        if cut:
            yield data[:cut]
    if left:
        raise SinkError("the last line has no end", hint=_RESTORE)


def _end_of_lines(data: bytes, end: bytes, quote: bytes) -> int:
    at = data.rfind(end)
    quotes = data.count(quote, 0, max(at, 0)) if quote else 0
    while at >= 0 and quotes % 2:
        before = data.rfind(end, 0, at)
        quotes -= data.count(quote, max(before, 0), at)
        at = before
    return at + len(end) if at >= 0 else 0


def json_file_rows(file: IO[bytes], era: Era) -> Iterator[RowsRead]:
    """All rows, which are of `era`. Raises SinkError."""
    return (rows for lines in line_blocks(file) if (rows := json_rows(lines, era)) is not None)


def split_by_era(lines: bytes, eras: Sequence[Era]) -> Iterator[tuple[bytes, Era]]:
    """`lines`: of one name, in order of commit_ts. Those of no era are omitted."""
    if not lines:
        return
    first, last = (_era_of(line, eras) for line in (lines[: lines.index(b"\n")], lines[lines.rfind(b"\n", 0, -1) + 1 :]))
    if first is last:
        if first is not None:
            yield lines, first
        return
    middle = lines.find(b"\n", len(lines) // 2) + 1
    if middle in (0, len(lines)):
        middle = lines.rfind(b"\n", 0, -1) + 1
    yield from split_by_era(lines[:middle], eras)
    yield from split_by_era(lines[middle:], eras)


class _Place(msgspec.Struct):
    schema: str
    table: str
    commit_ts: str


def _era_of(line: bytes, eras: Sequence[Era]) -> Era | None:
    try:
        place = msgspec.json.decode(line, type=_Place)
        return era_of(eras, TableName(place.schema, place.table), int(place.commit_ts))
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError) as error:
        raise SinkError(f"a line is no row: {error}", hint=_RESTORE) from error


def json_rows(lines: bytes, era: Era, *, types: Mapping[str, Column] | None = None) -> RowsRead | None:
    """`lines`: all of `era`. None: there are none. Raises SinkError for what are no such lines."""
    if not lines:
        return None
    names = [one.name for one in era.columns if one.name is not None]
    era.check()
    try:
        _check_columns(lines, era)
        columns = json_columns(lines, names)
    except ValueError as error:  # msgspec's are
        raise SinkError(f"lines of {era.name} are no rows: {error}", hint=_RESTORE) from error
    versions = Versions(columns.commit_ts, ranks(columns.deleted, columns.from_dump), columns.deleted)
    return rows_read(era, columns.images, versions, types=types)


class _Row(msgspec.Struct):
    op: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


def _check_columns(lines: bytes, era: Era) -> None:
    """Of the first line: where it has not these columns, polars would read NULL."""
    row = msgspec.json.decode(lines[: lines.index(b"\n")], type=_Row)
    there = (row.before if row.op == "delete" else row.after) or {}
    if missing := [one for one in era.columns if one.name is not None and one.name not in there]:
        raise era.without(missing[0])


@dataclass(frozen=True, slots=True)
class JsonColumns:
    """`images`: of each column the text after the change, of a deleted row before it. `deleted`, `from_dump`: pa.bool_."""

    commit_ts: pa.Array
    deleted: pa.Array
    from_dump: pa.Array
    images: Mapping[str, pa.Array]


def json_columns(lines: bytes, names: Sequence[str]) -> JsonColumns:
    """Of the columns `names`; one that a line does not have is null there. Raises ValueError for what are no such lines."""
    image = pl.Struct({name: pl.String() for name in names})
    fields = {"commit_ts": pl.String(), "op": pl.String(), "origin": pl.String(), "before": image, "after": image}
    try:
        frame = pl.read_ndjson(lines, schema=fields)
    except pl.exceptions.PolarsError as error:
        raise ValueError(str(error)) from error
    deleted = frame["op"] == "delete"
    images = _fields(frame["after"])
    if deleted.any():
        is_deleted = _arrow(deleted, pa.bool_())
        images = [pc.if_else(is_deleted, old, new) for old, new in zip(_fields(frame["before"]), images, strict=True)]
    return JsonColumns(
        _arrow(frame["commit_ts"], pa.string()).cast(pa.int64()),
        _arrow(deleted, pa.bool_()),
        _arrow(frame["origin"] == "dump", pa.bool_()),
        dict(zip(names, images, strict=True)),
    )


def _fields(images: pl.Series) -> list[pa.Array]:
    """All columns of an image at once, null where there is none: polars goes through the whole struct for each field alone."""
    numbered = images.struct.rename_fields([str(number) for number in range(len(images.struct.fields))])
    return [one.cast(pa.string()) for one in numbered.to_arrow().flatten()]


def _arrow(series: pl.Series, kind: pa.DataType) -> pa.Array:
    return series.to_arrow().cast(kind)
