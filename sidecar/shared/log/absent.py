"""Rows of a chunk's file that are keys without a row: a dump requested them and the source has them not (shared/model/chunk.py, ABSENT).

They stand before the chunk's rows, so that a delete comes before a put where a target takes two keys for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sidecar.shared.model.chunk import ABSENT
from sidecar.shared.model.progress import Key


class ChunkRows(NamedTuple):
    """`absent`: the first rows of the file, keys that the source does not have, all other columns null. `rows`: those behind them."""

    absent: pa.Table
    rows: pa.Table


def with_absent(rows: pa.Table, key: Sequence[str], absent: Sequence[Key]) -> pa.Table:
    """The file's rows: `absent`, keys of the columns `key`, and then `rows`; `rows` as they are where no key is absent."""
    if not absent:
        return rows
    keys = dict(zip(key, zip(*absent, strict=True), strict=True))
    columns = [pa.array(keys.get(name, [None] * len(absent)), pa.string()) for name in rows.column_names]
    marked = pa.array(np.arange(len(absent) + rows.num_rows) < len(absent))
    return pa.concat_tables([pa.table(columns, rows.column_names), rows]).append_column(ABSENT, marked)


def parted(file: pa.Table) -> ChunkRows:
    """The two parts of what `with_absent` made. Raises pa.ArrowInvalid for absent keys behind rows."""
    if ABSENT not in file.column_names:
        return ChunkRows(file.slice(0, 0), file)
    marks, rows = file.column(ABSENT).to_numpy(), file.drop_columns([ABSENT])
    count = int(marks.sum())
    if not marks[:count].all():
        raise pa.ArrowInvalid("keys that are absent stand behind rows")
    return ChunkRows(rows.slice(0, count), rows.slice(count))
