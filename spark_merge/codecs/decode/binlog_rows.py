"""Rows of TiDB-Binlog as the log keeps them (sidecar/shared/codecs/binlog.py), to images; the value alone holds the row.

A few rows are decoded one by one: a column's fixed cost is that of some ten rows. A block that is refused is read again so, to name the
row.
"""

from __future__ import annotations

import pyarrow as pa

from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import TableSchema
from sidecar.shared.rowcodec.binlog_row import Texts, decode_logged
from spark_merge.codecs.decode.binlog import decode_events
from spark_merge.codecs.images import NO_IMAGE, Images, unreadable

_SLOW_ROWS_MAX = 24


def read(keys: pa.Array, values: pa.Array, schema: TableSchema, zone: ServerZone) -> Images:  # noqa: ARG001 - all is in the value, in UTC
    """Raises RowUnusable for a row that the slow decoder refuses, FeedUnsuitable for a schema without a layout."""
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if len(values) <= _SLOW_ROWS_MAX:
        return _one_by_one(schema, values)
    try:
        return decode_events(schema, values)
    except MessageUnreadable:
        return _one_by_one(schema, values)


def _one_by_one(schema: TableSchema, values: pa.BinaryArray) -> Images:
    texts: list[Texts] = []
    before, after = [NO_IMAGE] * len(values), [NO_IMAGE] * len(values)
    for row, value in enumerate(values.to_pylist()):
        try:
            decoded_binlog_rows = decode_logged(schema, value or b"")
        except MessageUnreadable as error:
            raise unreadable(row, error.message) from error
        for images, image in zip((before, after), decoded_binlog_rows, strict=True):
            if image is not None:
                images[row] = len(texts)
                texts.append(image)
    return Images([pa.array(column, pa.string()) for column in zip(*texts, strict=True)], before, after)
