"""Which rows of a table are compared: all, those of some ranges at random, or a slice's; and whether a sink is read whole for them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from sidecar.shared.log.verification import Slice
from sidecar.shared.model.nouns import TableSchema
from sidecar.shared.mysql.key_ranges import KeySpan
from spark_merge.port.readable import Readable
from spark_merge.verify.source import ComparedSource

PART_ROWS = 100_000
"""Of the source, about, in a range: seconds of a SELECT."""

PARTS_MAX = 10_000
LARGER_MAX = 5
"""How many times its rows by the statistics a range may have: of one that has more the reading stops, and it is read in ranges that are
counted. Statistics may be of long ago, and keys may be dense in one place."""
COUNTED_MAX = 100
"""Ranges that one range is cut into at once: each is counted by a walk along the key, one after another."""

SAMPLE_PARTS = 10
"""Ranges of a sample, or more: where rows differ they often do so in a range, and one range would miss it."""

BY_KEYS_MAX = 0.03
"""Of a table, looked up by key: a row costs 12 (MySQL) to 60 times (ClickHouse) what it costs where all of the sink is read."""


def reads_by_keys(sink: Readable, rows: int, *, part: Slice | None, sample: float) -> bool:
    """Whether the sink's rows are those with the keys of the source's ranges. `rows`: of the table, about."""
    if part is not None:
        whole = KeySpan(*part.range) == KeySpan() and rows <= part.rows
        return sink.finds_keys and not whole
    return sink.finds_keys and sample <= BY_KEYS_MAX


def rows_max(rows: int) -> int:
    """Of a range. `rows`: of the table, by the statistics."""
    return LARGER_MAX * max(PART_ROWS, rows // PARTS_MAX)


def counted_ranges(source: ComparedSource, schema: TableSchema, span: KeySpan) -> list[KeySpan]:
    """One that has too many rows, in ranges of PART_ROWS by their keys; the last one may be too large again. One: it cannot be cut."""
    spans = list(source.walk(schema, span, range_rows=PART_ROWS, ranges_max=COUNTED_MAX))
    last = spans[-1]
    if last.upper != span.upper:
        spans.append(KeySpan(last.upper, span.upper))
    return spans


def ranges_of_slice(source: ComparedSource, schema: TableSchema, part: Slice) -> Sequence[KeySpan]:
    count = max(1, part.rows // PART_ROWS)
    return source.walk(schema, KeySpan(*part.range), range_rows=PART_ROWS, ranges_max=count)


def chosen_ranges(source: ComparedSource, schema: TableSchema, rows: int, *, sample: float, seed: str) -> Sequence[KeySpan]:
    """All of them, or as many at random as make the sample."""
    count = max(rows // PART_ROWS, round(SAMPLE_PARTS / sample) if sample < 1 else 1)
    spans = source.cut(schema, parts=min(count, PARTS_MAX))
    wanted = len(spans) if sample >= 1 else max(1, round(len(spans) * sample))
    return Random(seed).sample(spans, wanted) if wanted < len(spans) else spans
