"""Decoding raw key-values: the columnar decoder on rows of the `shop` recording in its own mix, beside the slow one.

Two figures, because a recording is small. In batches as a Spark task has them its rows repeat, so that JSON texts and
layouts do, too, and are made once a batch; with every row once, batches are a few hundred rows, and what a batch costs
whatever its size counts in full.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sidecar.shared.columns.kv import decode_rows
from sidecar.shared.rowcodec.kv_row import decode_row
from sidecar.shared.rowcodec.kv_table import KvTable
from tests.support.kv_recordings import kv_recording
from tests.tools.bench.bench import Bench
from tests.tools.bench.figures import Cost, Figure, beside, best, rate, timed

ROWS = 200_000
BATCH_ROWS = 16_384
LIMIT = "numpy and Arrow, one thread"

_Rows = tuple[KvTable, list[bytes], list[bytes]]


def measure(bench: Bench) -> Iterator[Figure]:
    """Rows a second of one core. New and old values alike; each table's rows in batches of their own."""
    tables = _tables()
    once = sum(len(keys) for _, keys, _ in tables)
    slow = best(lambda: _slow(tables), repeats=1)
    copies = max(1, bench.sized(ROWS) // once)
    for name, repeats in (("in batches of 16,384 rows", copies), ("every row once, batches of a table", 1)):
        cost = best(lambda repeats=repeats: _columnar(tables, repeats))  # type: ignore[misc]
        figure = rate(f"key-values to columns: {name}", once * repeats, cost, aim="≥ 300,000", limit=LIMIT)
        yield beside(figure, "slow decoder", once, slow)


def _tables() -> list[_Rows]:
    recording = kv_recording("shop")
    tables: dict[int, _Rows] = {}
    for entry in recording.entries:
        _, keys, values = tables.setdefault(entry.table.id, (entry.table, [], []))
        for value in filter(None, (entry.value, entry.old)):
            keys.append(entry.key)
            values.append(value)
    return list(tables.values())


def _columnar(tables: list[_Rows], repeats: int) -> Cost:
    cost = Cost()
    for table, keys, values in tables:
        all_keys, all_values = pa.array(keys * repeats, pa.binary()), pa.array(values * repeats, pa.binary())
        with timed(cost):
            for start in range(0, len(all_keys), BATCH_ROWS):
                decode_rows(table, all_keys.slice(start, BATCH_ROWS), all_values.slice(start, BATCH_ROWS))
    return cost


def _slow(tables: list[_Rows]) -> Cost:
    cost = Cost()
    for table, keys, values in tables:
        with timed(cost):
            for key, value in zip(keys, values, strict=True):
                decode_row(table, key, value)
    return cost
