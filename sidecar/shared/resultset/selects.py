"""What a SELECT asks for each column, so that its rows come as text, and that text as canonical text (model.Kind).

- Most columns need no cast, as dumpling and mysqldump read them; a cast of each cost the server a third of the SELECT.
- What differs between servers is the spelling of floats, and the zeros of ZEROFILL: they are spelt again here.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.log.float_texts import reprs
from sidecar.shared.model.keyset import ReadKey, qualified, read_as
from sidecar.shared.model.nouns import Column, Kind

_ZEROFILL = r"^0+([0-9])"

_CAST_KINDS = frozenset[Kind]({"binary", "bit", "float", "double", "year", "vector"})
"""Kinds that the text protocol sends as bytes, or spells otherwise: a FLOAT with six digits, a year of 0, a vector as the server likes."""


def key_select(key: ReadKey, rest: str) -> str:
    """The key alone as text; `rest` is what follows the table's alias."""
    selected = ", ".join(f"{as_text(part.column, qualified(part.column.name))} AS c{index}" for index, part in enumerate(key.columns))
    return f"SELECT {selected} FROM {read_as(key.table)}{rest}"


def as_sent(column: Column, place: str) -> str:
    """The expression whose text in a row's packet is `spelt`'s to spell: the column at `place` itself, where that does."""
    return as_text(column, place) if column.kind in _CAST_KINDS else place


def as_text(column: Column, place: str) -> str:
    """The expression that gives the column at `place` as canonical text, but for the spelling of floats."""
    match column.kind:
        case "binary":
            return f"HEX({place})"
        case "int" | "uint" | "bit":
            return f"CAST({place} + 0 AS CHAR)"  # + 0: without the zeros of ZEROFILL, and a bit as its number
        case "float" | "double":
            return f"CAST({place} * 1E0 AS CHAR)"  # a float as its double; + 0E0 would lose the sign of -0
        case "year":
            return f"LPAD(CAST({place} AS CHAR), 4, '0')"
        case _:
            return f"CAST({place} AS CHAR)"


def spelt(table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """The first of the SELECT's columns under the names of `columns`, floats spelt as `repr`, numbers without the zeros of ZEROFILL."""
    arrays = [_spelt(column, table.column(index)) for index, column in enumerate(columns)]
    return pa.Table.from_arrays(arrays, schema=pa.schema([pa.field(column.name, pa.string()) for column in columns]))


def _spelt(column: Column, texts: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    match column.kind:
        case "float" | "double":
            return reprs(texts.cast(pa.float64()))
        case "int" | "uint" | "decimal":
            return _without_zerofill(texts)
        case _:
            return texts


def _without_zerofill(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Few columns have it, so a look at how the texts begin comes before the regular expression."""
    filled = pc.and_(pc.starts_with(texts, "0"), pc.invert(pc.or_(pc.equal(texts, "0"), pc.starts_with(texts, "0."))))
    return pc.replace_substring_regex(texts, _ZEROFILL, r"\1") if pc.any(filled).as_py() else texts
