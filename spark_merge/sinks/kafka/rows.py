"""Rows to messages: TiCDC's own bytes where the log has them in the output's protocol, all others encoded. So are rows that were read from
TiDB for their message had the key alone (sidecar/feeds/encoded/read_rows.py): they have a form of their own in a log of any protocol. So
are those of a table that the changefeed sends under another name, or without some of its columns: its bytes may have the one or the others.

An update that TiCDC sends as two rows is two messages here too: codecs/encode/split.py. As Debezium has them they are one:
codecs/encode/join.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.codecs.registry import WRITTEN
from sidecar.shared.codecs.simple import READ_ROW_HEAD
from sidecar.shared.model.nouns import TableSchema
from sidecar.shared.partition.ids import is_partitioned, key_ids, partition_ids
from spark_merge.codecs.encode.join import joined
from spark_merge.codecs.encode.messages import Encoder, RowMessage
from spark_merge.codecs.encode.split import RAW_KEY_VALUES, image_column, split
from spark_merge.codecs.protocols import encoder_module


class WrittenRows(NamedTuple):
    """`changes` and a message for each; None: another row's message has it."""

    changes: pa.Table
    messages: Sequence[RowMessage | None]


def of_log(changes: pa.Table, schema: TableSchema, encoder: Encoder, protocol: str, *, codec: str, topic: str = "") -> WrittenRows:
    """Of RAW_CHANGES in order, whose messages are of `codec`; masked ones come without (spark_merge/masks/rows.py). `topic`: of the
    messages. Raises as `encoded`."""
    has_own_bytes = codec == protocol and "message_value" in changes.column_names
    if not has_own_bytes or schema.omitted or schema.feed_name is not None:
        return encoded(changes, schema, encoder, protocol, codec=codec, topic=topic)
    read = changes.filter(pc.starts_with(changes["message_value"], READ_ROW_HEAD))["ordinal"]
    if not len(read):
        return as_they_are(changes, protocol)
    is_read = pc.is_in(changes["ordinal"], read.combine_chunks()).to_numpy()  # of an update that is two rows one has the message
    edges = [0, *(np.flatnonzero(np.diff(is_read)) + 1).tolist(), len(is_read)]
    parts = []
    for first, end in pairwise(edges):
        some = changes.slice(first, end - first)
        parts.append(encoded(some, schema, encoder, protocol, topic=topic) if is_read[first] else as_they_are(some, protocol))
    return WrittenRows(pa.concat_tables([one.changes for one in parts]), [message for one in parts for message in one.messages])


def as_they_are(changes: pa.Table, protocol: str) -> WrittenRows:
    """Of RAW_CHANGES whose messages are of the output's protocol. Of an update that is two rows here TiCDC sent one message."""
    keys, values = encoder_module(protocol).as_sent(*(changes[name].combine_chunks() for name in ("message_key", "message_value")))
    pairs = zip(keys.to_pylist(), values.to_pylist(), strict=True)
    return WrittenRows(changes, [None if pair[1] is None else pair for pair in pairs])


def encoded(
    changes: pa.Table, schema: TableSchema, encoder: Encoder, protocol: str, *, codec: str = "", keys_only: bool = False, topic: str = ""
) -> WrittenRows:
    """`changes` in order. `codec`: of the messages in RAW_CHANGES. `keys_only`, `topic`: as of Encoder. Raises SinkError for what the
    encoder lacks."""
    record = WRITTEN[protocol]
    rows = joined(changes) if record.as_debezium else split(changes, schema)
    ids = _partition_ids(rows, schema, codec) if record.names_partitions else None
    return WrittenRows(rows, encoder.rows(schema, rows, ids, keys_only=keys_only, topic=topic))


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
