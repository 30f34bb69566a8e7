"""Rows of a partitioned table by partition, in whose folders they are: an update that moves a row is a delete here and an insert there, as
TiDB carries it out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableSchema
from sidecar.shared.partition.ids import key_ids, partition_ids
from spark_merge.codecs.encode.split import image_column, split_at
from spark_merge.port.contract import CHANGES

_Ids = npt.NDArray[np.int64]


def by_partition(changes: pa.Table, schema: TableSchema) -> Iterator[tuple[int, pa.Table]]:
    """Each partition's rows in order. Raw key-values (RAW_CHANGES of such a log) know where they are. Raises SinkError for a table whose
    partitions cannot be worked out."""
    if "message_key" in changes.schema.names:
        ids: _Ids = key_ids(changes["message_key"].combine_chunks())
    else:
        changes, ids = _located(changes, schema)
    for partition in np.unique(ids).tolist():
        yield partition, changes.filter(pa.array(ids == partition))


def _located(changes: pa.Table, schema: TableSchema) -> tuple[pa.Table, _Ids]:
    ids = _ids(changes, schema)
    updates = pc.equal(changes["op"], "update").to_numpy(zero_copy_only=False)
    if not updates.any():
        return changes, ids
    old = changes.filter(pa.array(updates))
    old = old.set_column(CHANGES.names.index("after"), CHANGES.field("after"), pa.nulls(old.num_rows, CHANGES.field("after").type))
    moved = np.zeros(changes.num_rows, np.bool_)
    moved[np.flatnonzero(updates)] = _ids(old, schema) != ids[updates]
    if not moved.any():
        return changes, ids
    changes = split_at(changes, moved)
    return changes, _ids(changes, schema)


def _ids(changes: pa.Table, schema: TableSchema) -> _Ids:
    try:
        ids = partition_ids(schema, [image_column(changes, number) for number in range(len(schema.columns))])
    except SinkError as error:
        raise SinkError(
            str(error), hint=f"{error.hint}; or deliver to a new folder with enable-partition-separator=false, and dump again"
        ) from error
    assert ids is not None, "only rows of partitioned tables come here"
    return ids
