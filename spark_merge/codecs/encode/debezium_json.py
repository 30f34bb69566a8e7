"""Debezium's rows in JSON, as Kafka Connect's JsonConverter writes values: bytes in base64, and all other values as JSON has them.

The texts of a table's schema come once: each message has them in front of its payload.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_merge.codecs.encode import go_json
from spark_merge.codecs.encode.debezium_fields import DebeziumField
from spark_merge.codecs.encode.debezium_rows import DebeziumImage
from spark_merge.codecs.encode.lazy_polars import pl

_ESCAPED_KINDS = frozenset({"text", "json", "enum", "set"})


def quoted(text: str) -> str:
    return go_json.string(text, html=False)


def values_in_json(field: DebeziumField, values: pa.Array) -> pa.Array:
    """pa.string, null where null."""
    match field.type.type:
        case "bytes":
            return go_json.quoted(pc.cast(pl.Series(pl.from_arrow(values)).bin.encode("base64").to_arrow(), pa.string()))
        case "string":
            return go_json.strings(values, html=False) if field.column.kind in _ESCAPED_KINDS else go_json.quoted(values)
        case "float" | "double":
            return _floats(values)
        case "array":
            return _arrays(values)
        case _:
            return pc.cast(values, pa.string())


def objects(fields: Sequence[DebeziumField], values: Sequence[pa.Array]) -> pa.Array:
    """One JSON object a row."""
    parts: list[object] = []
    before = "{"
    for field, one in zip(fields, values, strict=True):
        parts += [f"{before}{quoted(field.column.name)}:", values_in_json(field, one)]
        before = ","
    return pc.binary_join_element_wise(*parts, "}", "", null_handling="replace", null_replacement="null")


def images(fields: Sequence[DebeziumField], image: DebeziumImage | None) -> pa.Array | str:
    """The same, null where there is no image."""
    if image is None:
        return "null"
    made = objects(fields, image.values)
    return made if image.is_there is None else pc.if_else(image.is_there, made, "null")


def _floats(values: pa.Array) -> pa.Array:
    """With a point or an exponent: to a reader without the schema a whole number is an integer, and so is the column."""
    texts = pc.cast(values, pa.string())
    return pc.if_else(pc.match_substring_regex(texts, "[.e]"), texts, pc.binary_join_element_wise(texts, "0", "."))


def _arrays(values: pa.Array) -> pa.Array:
    numbers = _floats(values.flatten())
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    lists = pa.ListArray.from_arrays(ends, numbers)
    return pc.if_else(
        values.is_valid(), pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", ""), pa.scalar(None, pa.string())
    )
