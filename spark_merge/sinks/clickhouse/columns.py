"""A column's type at the target, and when one may become another there with every value as it is at the source.

    int     Int64           decimal(p, s)         Decimal(p, s), up to 65 digits      year     Int16
    uint    UInt64          date                  Date32                              binary   String of its bytes
    bit     UInt64          datetime, timestamp   DateTime64(s, 'UTC')                all other kinds: String
    float   Float32         double                Float64

Nullable as the source's, but never in the handle key. `dates=text`: date, datetime and timestamp are String too, which holds zero dates,
'2020-02-30', the year 0 and what is before 1900 or after 2299.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, assert_never

from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.codecs.encode.typed import DECIMAL_DIGITS_MAX
from spark_merge.ddl.columns import ColumnEffect
from spark_merge.ddl.conversion import Conversion
from spark_merge.sinks.clickhouse.uri import Dates

DATE_KINDS: Final = ("date", "datetime", "timestamp")

FIRST_YEAR, END_YEAR = "1900", "2300"
"""Of Date32, and of DateTime64 with up to 6 digits: from the first to before the second."""


def kept_as(schema: TableSchema, dates: Dates, *, typed_key: bool = False) -> TableSchema:
    """The table with the kinds that its columns have at the target. `typed_key`: those of the handle key are not text even so."""
    if dates == "typed":
        return schema
    stay = schema.key if typed_key else ()
    columns = tuple(
        replace(column, kind="text") if column.kind in DATE_KINDS and column.name not in stay else column for column in schema.columns
    )
    return replace(schema, columns=columns)


def column_type(column: Column, *, in_key: bool) -> str:
    bare = _bare(column)
    return f"Nullable({bare})" if column.nullable and not in_key else bare


def _bare(column: Column) -> str:
    match column.kind:
        case "int":
            return "Int64"
        case "uint" | "bit":
            return "UInt64"
        case "float":
            return "Float32"
        case "double":
            return "Float64"
        case "decimal":
            return f"Decimal({column.length if column.length > 0 else DECIMAL_DIGITS_MAX}, {column.scale})"
        case "date":
            return "Date32"
        case "datetime" | "timestamp":
            return f"DateTime64({column.scale}, 'UTC')"
        case "year":
            return "Int16"
        case "text" | "binary" | "enum" | "set" | "time" | "json" | "vector":
            return "String"
        case _ as never:
            assert_never(never)


def holds(there: str, wanted: str) -> bool:
    """Whether a column of type `there` holds all that one of type `wanted` would: the same, or the same and NULL."""
    return there in (wanted, f"Nullable({wanted})")


_INTEGER_DIGITS = 20


def keeps_values(one: ColumnEffect, before: Column, *, as_text: bool) -> bool:
    """Whether what is in the column stays right, or is made right by the target's conversion. Both as the source has them. `as_text`: the
    column is a text after it."""
    conversion, after = one.conversion, one.column
    if conversion is None or (conversion is Conversion.PADDED and (as_text or after.kind == "time")):
        return False
    if after.kind == "decimal":
        integer_digits = _digits(before) - before.scale if before.kind == "decimal" else _INTEGER_DIGITS
        return _digits(after) - after.scale >= integer_digits
    return conversion is not Conversion.TEXT or before.kind not in _OTHER_TEXT


_OTHER_TEXT = frozenset({"decimal"})
"""Kinds whose text at the target is another than TiDB's: it has no zeros at the end."""


def _digits(column: Column) -> int:
    return column.length if column.length > 0 else DECIMAL_DIGITS_MAX
