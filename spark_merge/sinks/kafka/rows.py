"""Rows to messages: TiCDC's own bytes where the log has them, all others encoded.

An update that TiCDC sends as two rows is two messages here too: codecs/encode/split.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from sidecar.shared.codecs.registry import WRITTEN
from sidecar.shared.model.nouns import TableSchema
from sidecar.shared.partition.ids import is_partitioned, key_ids, partition_ids
from spark_merge.codecs.encode.messages import Encoder, RowMessage
from spark_merge.codecs.encode.split import RAW_KEY_VALUES, image_column, split
from spark_merge.codecs.protocols import encoder_module


class WrittenRows(NamedTuple):
    """`changes` and a message for each; None: another row's message has it."""

    changes: pa.Table
    messages: Sequence[RowMessage | None]


def as_they_are(changes: pa.Table, protocol: str) -> WrittenRows:
    """Of RAW_CHANGES whose messages are of the output's protocol. Of an update that is two rows here TiCDC sent one message."""
    keys, values = encoder_module(protocol).as_sent(*(changes[name].combine_chunks() for name in ("message_key", "message_value")))
    pairs = zip(keys.to_pylist(), values.to_pylist(), strict=True)
    return WrittenRows(changes, [None if pair[1] is None else pair for pair in pairs])


def encoded(
    changes: pa.Table, schema: TableSchema, encoder: Encoder, protocol: str, *, codec: str = "", keys_only: bool = False
) -> WrittenRows:
    """`changes` in order. `codec`: of the messages in RAW_CHANGES. `keys_only`: as of Encoder. Raises SinkError for what the encoder
    lacks."""
    rows = split(changes, schema)
    ids = _partition_ids(rows, schema, codec) if WRITTEN[protocol].names_partitions else None
    return WrittenRows(rows, encoder.rows(schema, rows, ids, keys_only=keys_only))


def _partition_ids(changes: pa.Table, schema: TableSchema, codec: str) -> list[int] | None:
    """Where a message carries them: in other protocols no table is refused for want of them. The keys of raw key-values know them
    where a definition would not tell."""
    if not is_partitioned(schema):
        return None
    if codec == RAW_KEY_VALUES:
        return [int(one) for one in key_ids(changes["message_key"].combine_chunks())]
    columns = [image_column(changes, number) for number in range(len(schema.columns))]
    result = partition_ids(schema, columns)
    return None if result is None else [int(one) for one in result]
