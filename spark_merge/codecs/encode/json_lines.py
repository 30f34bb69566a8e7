"""A block as JSON lines: one object a row, in order, in these fields:

    seq, ordinal   numbers
    commit_ts      decimal string: a TSO is beyond what readers that know only doubles can hold
    schema, table, op (insert | update | delete)
    key            {column: text} of the handle key, of the new image, for a delete of the old one; null without a key
                   (such tables come only with TiCDC's force-replicate)
    before, after  {column: text or null}, in schema order, or null where there is no such image
    origin         log | dump
    dump_id        the dump's id, null for rows of the log

Values are canonical text (sidecar.core.model.Kind). Lines end in a line feed; the text is UTF-8, escaped by polars.
"""

from __future__ import annotations

import io
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from spark_merge.codecs.encode.block import Block, image_columns


def json_lines(block: Block) -> memoryview:
    """The block's rows as bytes; empty for no rows."""
    if any("\0" in name for name in block.schema.column_names()):
        return memoryview(few_json_lines(block))  # Arrow hands a name to polars as a C string, which ends there
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


FEW_ROWS = 16
"""Of a block: as many rows one by one cost a fifth of what their columns do, and a single one a twentieth (measured)."""


def few_json_lines(block: Block) -> bytes:
    """As `json_lines`, byte for byte, row by row."""
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
