"""The narrowest type that holds some values: an output seldom has the type that a column had before a MODIFY, and it has the values.

A value of it is the same in the new type, whatever the old one was, if `conversion` says so of this narrowest type: what fits is neither
rounded nor cut, in a session of any mode. What does not fit is a value of which no statement says what TiDB made of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.model.nouns import Column, ColumnDefinition, Kind
from sidecar.shared.rowcodec.type_cast import INTEGER_BITS, TEXT_BYTES, ColumnType, column_type, integer_range
from sidecar.shared.sql.lexer import tokens
from spark_merge.codecs.decode.canal_json import kind_of
from spark_merge.ddl.conversion import Conversion, Typed, conversion

_SIZES = {"char": 1, "binary": 1, "decimal": 10, "bit": 1}
"""Of types that are written without one."""
_TEXTS = [name for name in TEXT_BYTES if name.endswith("text")]


_OTHER_NAMES = {
    "integer": "int", "int1": "tinyint", "int2": "smallint", "int3": "mediumint", "int4": "int", "int8": "bigint", "bool": "tinyint",
    "boolean": "tinyint", "numeric": "decimal", "dec": "decimal", "fixed": "decimal", "real": "double", "double precision": "double",
    "character varying": "varchar", "char varying": "varchar", "varcharacter": "varchar", "character": "char",
}  # fmt: skip
"""TiDB's types by the other names that its grammar has (pingcap/tidb pkg/parser/parser.y). REAL may be a FLOAT: the wider one."""
_NAME = re.compile("|".join(sorted(map(re.escape, _OTHER_NAMES), key=len, reverse=True)))
_PRECISION = re.compile(r"float\((\d+)\)")
_SINGLE_MAX = 24
"""Bits of FLOAT(p); with more it is a DOUBLE."""


def _as_shown(text: str) -> str:
    """Of a type as somebody wrote it what TiDB shows: without blanks around brackets and commas, by TiDB's own name."""
    text = re.sub(r"\s*([(,])\s*|\s+(?=\))", lambda match: match[1] or "", " ".join(text.lower().split()))
    if (own := _NAME.match(text)) and not text[own.end() : own.end() + 1].isalnum():
        text = _OTHER_NAMES[own[0]] + text[own.end() :]
    if precision := _PRECISION.match(text):
        text = ("float" if int(precision[1]) <= _SINGLE_MAX else "double") + text[precision.end() :]
    return text.replace(" zerofill", "" if " unsigned" in text else " unsigned")


def typed(name: str, text: str) -> Typed | None:
    """Of a column, by its type as a statement has it: `VARCHAR(20)`. None for a type that is not known."""
    made = column_type(ColumnDefinition(name, _as_shown(text)))
    kind = kind_of(f"{made.name}{' unsigned' * made.unsigned}")
    if kind is None or (made.name in TEXT_BYTES and made.size >= 0):  # TEXT(10) is the smallest TEXT that holds so many
        return None
    if made.size < 0 and made.name in _SIZES:
        made = made._replace(size=_SIZES[made.name])
    length = made.size if made.name in _SIZES and made.name != "char" else -1
    scale = made.scale if kind == "decimal" else max(made.size, 0) if kind in ("time", "datetime", "timestamp") else 0
    labels = tuple(token.value for token in tokens(text) if token.text.startswith("'")) if kind in ("enum", "set") else ()
    return Typed(Column(name, kind, length=length, scale=scale, elements=labels), made)


def keeps(texts: pa.Array, column: Column, new: Typed) -> bool:
    """Whether each of these values of `column`, canonical text, is the same in a column of the type `new`, which is of the same kind."""
    values = pc.drop_null(texts)
    if column.kind != new.column.kind:
        return False
    conversions = (conversion(one, new) for one in _narrowest(values, column, new)) if len(values) else ()
    return all(one in (Conversion.UNCHANGED, Conversion.PADDED) for one in conversions)


def _narrowest(values: pa.Array, column: Column, new: Typed) -> Iterator[Typed]:
    """Those that hold the values between them."""
    match column.kind:
        case "int" | "uint":
            yield Typed(column, _integer(_ends(values, column.kind), column.kind))
        case "decimal":
            points = pc.find_substring(values, ".")
            scale = cast(int, pc.max(pc.if_else(pc.less(points, 0), 0, pc.subtract(pc.utf8_length(values), pc.add(points, 1)))).as_py())
            digits = max(len(one.partition(".")[0].lstrip("-0")) for one in pc.unique(values).to_pylist())
            made = replace(column, length=digits + scale, scale=scale)
            yield Typed(made, ColumnType("decimal", digits + scale, scale, unsigned=not _negative(values)))
        case "float" | "double":
            yield Typed(column, ColumnType(column.kind, unsigned=not _negative(values)))
        case "text":
            yield Typed(column, _text(values, new))
        case "binary":
            sizes = {size // 2 for size in pc.unique(pc.utf8_length(values)).to_pylist()}
            fixed = new.column.length if sizes == {new.column.length} else -1
            yield Typed(replace(column, length=fixed), ColumnType("varbinary", max(sizes)))
        case "bit":
            yield Typed(replace(column, length=max(1, *(int(one).bit_length() for one in pc.unique(values).to_pylist()))))
        case "enum":
            yield Typed(replace(column, elements=tuple(pc.unique(values).to_pylist())), new.type)
        case "set":
            labels = (tuple(one.split(",")) for one in pc.unique(values).to_pylist() if one)
            yield from (Typed(replace(column, elements=one), new.type) for one in labels)
        case "time" | "datetime" | "timestamp":
            fractions = (one.partition(".")[2].rstrip("0") for one in pc.unique(values).to_pylist())
            yield Typed(replace(column, scale=max(map(len, fractions))))
        case _:
            yield Typed(new.column)


def _ends(values: pa.Array, kind: Kind) -> tuple[int, int]:
    ends = pc.min_max(pc.cast(values, pa.int64() if kind == "int" else pa.uint64()))
    return ends["min"].as_py(), ends["max"].as_py()


def _integer(ends: tuple[int, int], kind: Kind) -> ColumnType:
    """INTEGER_BITS has them from the narrowest on."""
    types = (ColumnType(name, unsigned=kind == "uint") for name in INTEGER_BITS)
    return next(one for one in types if all(integer_range(one)[0] <= end <= integer_range(one)[1] for end in ends))


def _text(values: pa.Array, new: Typed) -> ColumnType:
    """As far as it is of the same sort as `new`: by bytes, or by characters; a CHAR has no spaces at its end."""
    assert new.type is not None, "a statement has it"
    if new.type.name in TEXT_BYTES:
        size = pc.max(pc.binary_length(values)).as_py()
        return ColumnType(next(name for name in _TEXTS if TEXT_BYTES[name] >= size), charset=new.type.charset)
    name = "varchar" if pc.any(pc.ends_with(values, " ")).as_py() else "char"
    return ColumnType(name, pc.max(pc.utf8_length(values)).as_py(), charset=new.type.charset)


def _negative(values: pa.Array) -> bool:
    is_negative: bool = pc.any(pc.starts_with(values, "-")).as_py()
    return is_negative
