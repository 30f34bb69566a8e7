"""A column's mapping, and the form that its values have in a document. What a document holds gives back the canonical text of every value;
what a search returns is another matter: deploy/OPENSEARCH-SINK.md says it.

    number   int, uint, bit, float, double, year      a number of JSON with all its digits; a year without leading zeros
    text     decimal, text, enum, time, binary (hex), vector, date, datetime, timestamp, and json by default
    labels   set                                      an array of labels
    raw      json, with `json=object`

A date that no calendar has, and a fraction finer than milliseconds, is not in the index of a date field, which says so in `_ignored`; its
text is in the document and in the keyword beside the field, by which ranges are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias, assert_never

from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.sinks.kit.options import one_of, option

KEYWORD_CHARS_MAX = 8191
"""A keyword may have 32766 bytes; a longer text is in the document and not in the index."""

SCALED_DIGITS_MAX = 15
"""Of a decimal that a double distinguishes from its neighbours."""

Mapped: TypeAlias = "dict[str, Any]"

METADATA = frozenset(
    {
        "_id", "_index", "_source", "_type", "_routing", "_field_names", "_ignored", "_nested_path", "_seq_no", "_version",
        "_primary_term", "_size", "_doc_count", "_tier", "_feature", "_data_stream_timestamp", "_recovery_source", "_inference_fields",
        "_tsid", "_ts_routing_hash", "_ignored_source",
    }
)  # fmt: skip
"""A document may have no field of such a name."""


class Form(Enum):
    NUMBER = "number"
    YEAR = "year"
    TEXT = "text"
    LABELS = "labels"
    RAW = "raw"


@dataclass(frozen=True, slots=True)
class Forms:
    decimal: str = option("decimal", one_of("keyword", "scaled_float"), "keyword",
        "The type of DECIMAL fields. Above 15 digits it is always `keyword`.")  # fmt: skip
    json: str = option("json", one_of("text", "object"), "text",
        "How a JSON value is stored: as its text, or as JSON without a mapping.")  # fmt: skip

    def form(self, column: Column) -> Form:
        match column.kind:
            case "int" | "uint" | "bit" | "float" | "double":
                return Form.NUMBER
            case "year":
                return Form.YEAR
            case "set":
                return Form.LABELS
            case "json" if self.json == "object":
                return Form.RAW
            case _:
                return Form.TEXT

    def mapping(self, column: Column, *, unsigned_long: bool) -> Mapped | None:
        """None for a field without one: it is in the document, and in no index."""
        match column.kind:
            case "int":
                return {"type": "long"}
            case "uint" | "bit":
                return {"type": "unsigned_long"} if unsigned_long else {"type": "keyword"}
            case "year":
                return {"type": "integer"}
            case "float" | "double":
                return {"type": column.kind}
            case "decimal":
                scaled = self.decimal == "scaled_float" and 0 < column.length <= SCALED_DIGITS_MAX
                return {"type": "scaled_float", "scaling_factor": 10.0**column.scale} if scaled else {"type": "keyword"}
            case "text":
                return {"type": "text", "fields": {"keyword": _keyword()}}
            case "binary":
                return _keyword()
            case "enum" | "set" | "time":
                return {"type": "keyword"}
            case "date" | "datetime" | "timestamp":
                return {"type": "date", "format": _pattern(column), "ignore_malformed": True, "fields": {"keyword": {"type": "keyword"}}}
            case "json":
                return {"type": "text"} if self.json == "text" else None
            case "vector":
                return {"type": "keyword", "index": False, "doc_values": False}
            case _ as never:
                assert_never(never)

    def properties(self, schema: TableSchema, *, unsigned_long: bool) -> dict[str, Mapped]:
        mappings = {column.name: self.mapping(column, unsigned_long=unsigned_long) for column in schema.columns}
        return {name: mapping for name, mapping in mappings.items() if mapping is not None}


def problems(schema: TableSchema) -> Iterator[tuple[str, str]]:
    """Columns that no document can have, each with the way out."""
    way_out = "rename the column, or leave the table out of the changefeed"
    for name in schema.column_names():
        if name in METADATA:
            yield f"column {name} of {schema.name} has a name that the server keeps for itself", way_out
        elif not name.strip() or "." in name:
            yield f"column {name!r} of {schema.name} cannot be a field: a dot is the way into an object", way_out


def differs(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a field that is there is another than is wanted; what it has besides is its owner's."""
    for name, value in wanted.items():
        other = there.get(name)
        if isinstance(value, Mapping):
            if not isinstance(other, Mapping) or differs(other, value):
                return True
        elif other != value:
            return True
    return False


def _keyword() -> Mapped:
    return {"type": "keyword", "ignore_above": KEYWORD_CHARS_MAX}


def _pattern(column: Column) -> str:
    """A pattern of letters is read strictly; the server's own `strict_date` takes 2020-02-30 for a day."""
    clock = " HH:mm:ss" + ("." + "S" * column.scale if column.scale else "")
    return "uuuu-MM-dd" if column.kind == "date" else f"uuuu-MM-dd{clock}"
