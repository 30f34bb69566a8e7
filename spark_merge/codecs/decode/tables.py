"""Rows of several tables of a protocol whose values say everything, to their images.

Each value is parsed as one of its table. Columns that are alike, of whatever table, then become texts together: their fixed cost is that of
a kind of column, not of a table. A column of many images is one alone, as it need not be copied.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple

import pyarrow as pa

from sidecar.shared.columns.values import UnfitValue
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.model.nouns import TableSchema
from spark_merge.codecs.images import Cells, Images, RowUnusable, row_of_image, unfit_in
from spark_merge.codecs.protocols import DecoderModule

ALONE_IMAGES = 64
"""From here on a column costs more by its values than by its fixed costs (an estimate)."""


class TableRows(NamedTuple):
    """Rows of one table that begin at row `first` of the input, as the log has them."""

    schema: TableSchema
    first: int
    keys: pa.Array
    values: pa.Array


class _Place(NamedTuple):
    table: int
    column: int


def read(tables: Sequence[TableRows], zone: ServerZone, module: DecoderModule, *, whole: bool = True) -> list[Images]:
    """Of each table. `whole`: as of DecoderModule. Raises RowUnusable for a row of the input."""
    parsed = [_parsed(table, module, whole=whole) for table in tables]
    texts: list[list[Any]] = [[None] * len(table.schema.columns) for table in tables]
    for places in _alike(tables, parsed):
        columns = [parsed[table].columns[column] for table, column in places]
        starts = list(accumulate(map(len, columns), initial=0))
        cells = columns[0] if len(columns) == 1 else list(chain.from_iterable(columns))
        table, column = places[0]
        try:
            column_texts = module.texts(cells, tables[table].schema.columns[column], zone)
        except UnfitValue as unfit:
            at = bisect_right(starts, unfit.index) - 1
            table, column = places[at]
            row = row_of_image(unfit.index - starts[at], parsed[table].before, parsed[table].after)
            raise unfit_in(row, tables[table].schema.columns[column].name, unfit).behind(tables[table].first) from unfit
        for (table, column), start, cells in zip(places, starts[:-1], columns, strict=True):
            texts[table][column] = column_texts.slice(start, len(cells))
    return [Images(columns, one.before, one.after) for columns, one in zip(texts, parsed, strict=True)]


def _parsed(table: TableRows, module: DecoderModule, *, whole: bool) -> Cells:
    try:
        return module.cells(table.values.to_pylist(), table.schema, whole=whole)
    except RowUnusable as unusable:
        raise unusable.behind(table.first) from unusable.__cause__


def _alike(tables: Sequence[TableRows], parsed: Sequence[Cells]) -> Iterable[list[_Place]]:
    """All columns, those together that become texts in the same way."""
    alike: defaultdict[Any, list[_Place]] = defaultdict(list)
    for number, (table, cells) in enumerate(zip(tables, parsed, strict=True)):
        for place, column in enumerate(table.schema.columns):
            alone = (number, place) if len(cells.columns[place]) >= ALONE_IMAGES else None
            alike[alone or (column.kind, column.length, column.scale, column.elements)].append(_Place(number, place))
    return alike.values()
