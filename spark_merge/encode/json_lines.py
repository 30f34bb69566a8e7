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

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from spark_merge.encode.block import Block, image_columns


def json_lines(block: Block) -> memoryview:
    """The block's rows as bytes; empty for no rows."""
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


def _keys(block: Block) -> pa.Array:
    if not block.schema.key:
        return pa.nulls(block.rows)
    images = dict(zip(block.schema.column_names(), image_columns(block), strict=True))
    return pa.StructArray.from_arrays([images[name] for name in block.schema.key], names=list(block.schema.key))
