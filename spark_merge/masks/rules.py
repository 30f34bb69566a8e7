"""Which column has which mask: the parameters `leave-out`, `hash` and `constant` of a sink's URI.

    leave-out = rule, rule, …              hash = rule, rule, …
    constant  = rule=>value, …             value: NULL; 'quoted', as in SQL; or canonical text without a comma

- A rule is `schema.table.column`, of patterns as in a table rule (sidecar/shared/ticdc/table_rules.py), without `!`. Case does not matter.
- Of several rules of one kind the first one that matches decides. Rules of two kinds for one column are an error.
- No hash of a kind of which one value may have several texts (sidecar/shared/model/canonical.py): it would have several hashes.
- A constant replaces each value, NULL too. It is a value of the column: canonical text of its type, NULL only where the column may be NULL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from sidecar.shared.columns.values import from_bytes, from_ints, from_texts, parse_ints
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.errors import ConfigError, RefusedRequest
from sidecar.shared.model.canonical import SEVERAL_TEXTS
from sidecar.shared.model.nouns import Column, TableSchema, lowered
from sidecar.shared.rowcodec.type_cast import TEXT_BYTES, ColumnType, column_type, default_text
from sidecar.shared.sql.lexer import SqlToken, tokens
from sidecar.shared.ticdc.table_rules import Pattern, column_patterns, split_rules
from spark_merge.port.contract import has_rows

_UTC = ServerZone()
_HEX = re.compile(r"(?:[0-9A-F]{2})*")
_HINT = "write column rules as schema.table.column, separated by commas, with * as in table rules: shop.*.email,hr.people.phone"
_CONSTANT_HINT = "write constant=shop.users.email=>NULL, shop.users.name=>'hidden' or shop.users.points=>0, separated by commas"


class MaskKind(Enum):
    """By the name of its parameter."""

    LEAVE_OUT = "leave-out"
    HASH = "hash"
    CONSTANT = "constant"


class ColumnMask(NamedTuple):
    """`rule`: as the operator wrote it. `text`: of a constant; None: NULL."""

    kind: MaskKind
    rule: str
    text: str | None = None

    @property
    def shown(self) -> str:
        """As an error names it."""
        return f"{self.kind.value}={self.rule}"

    def makes_the_same(self, other: ColumnMask | None) -> bool:
        return other is not None and (self.kind, self.text) == (other.kind, other.text)


@dataclass(frozen=True, slots=True)
class ColumnRules:
    """In the order of the URI. Picklable: each process compiles them for itself."""

    masks: tuple[ColumnMask, ...] = ()

    def of(self, schema: TableSchema) -> dict[str, ColumnMask]:
        """By the columns of the table that are masked. Raises ConfigError for a column of the handle key, for one with rules of two kinds,
        for a hash of a kind that has none, and for a constant that is no value of the column."""
        if not has_rows(schema):
            return {}
        name, own = schema.name.folded(), list[tuple[ColumnMask, Pattern]]()
        for mask in self.masks:
            in_schema, in_table, is_column = _patterns(mask.rule)
            if in_schema(name.schema) and in_table(name.table):
                own.append((mask, is_column))
        masks: dict[str, ColumnMask] = {}
        for column in schema.columns if own else ():
            if matching := [mask for mask, is_column in own if is_column(lowered(column.name))]:
                _check(schema, column, matching)
                masks[column.name] = matching[0]
        return masks

    def idle(self, schemas: Iterable[TableSchema]) -> list[ColumnMask]:
        """Those that match no column of these tables."""
        names = [(*schema.name.folded(), lowered(column)) for schema in schemas for column in schema.column_names()]
        return [mask for mask in self.masks if not any(all(map(_is, _patterns(mask.rule), name)) for name in names)]


def rules_of(kind: MaskKind, text: str) -> tuple[ColumnMask, ...]:
    """Of a parameter's value. Raises ConfigError for what is no rule."""
    masks = _constants(text) if kind is MaskKind.CONSTANT else tuple(ColumnMask(kind, rule) for rule in split_rules(text))
    for mask in masks:
        try:
            _patterns(mask.rule)
        except RefusedRequest as error:
            raise ConfigError(f"{kind.value}: {error.message}", hint=_HINT) from error
    if not masks:
        raise ConfigError(f"{kind.value} names no column", hint=_HINT)
    return masks


def text_of(masks: Iterable[ColumnMask]) -> str:
    """Inverse of `rules_of`."""
    return ",".join(mask.rule if mask.kind is not MaskKind.CONSTANT else f"{mask.rule}=>{_value_text(mask.text)}" for mask in masks)


@lru_cache(maxsize=4096)
def _patterns(rule: str) -> tuple[Pattern, Pattern, Pattern]:
    return column_patterns(rule)


def _is(pattern: Pattern, name: str) -> bool:
    return pattern(name)


# ---- constants ----------------------------------------------------------------------------------------------------------


def _constants(text: str) -> tuple[ColumnMask, ...]:
    masks, at, in_text = list[ColumnMask](), 0, list(tokens(text))
    while in_text[at].kind != "end":
        arrow = next((n for n in range(at, len(in_text) - 2) if (in_text[n].text, in_text[n + 1].text) == ("=", ">")), None)
        if arrow is None:
            raise ConfigError(f"constant: {text[in_text[at].at :]!r} has no =>", hint=_CONSTANT_HINT)
        end = next(n for n in range(arrow + 2, len(in_text)) if in_text[n].text == "," or in_text[n].kind == "end")
        rule = text[in_text[at].at : in_text[arrow].at].strip()
        written = text[in_text[arrow + 1].at + 1 : in_text[end].at].strip()
        masks.append(ColumnMask(MaskKind.CONSTANT, rule, _constant(rule, in_text[arrow + 2 : end], written)))
        at = end + (in_text[end].kind != "end")
    return tuple(masks)


def _constant(rule: str, value: Sequence[SqlToken], written: str) -> str | None:
    if len(value) == 1 and value[0].kind == "string":
        return value[0].value
    if not value or any(token.kind == "string" for token in value):
        raise ConfigError(f"constant: {written!r} for {rule} is no value", hint=f"{_CONSTANT_HINT}; an empty text is ''")
    return None if (len(value), value[0].value, value[0].kind) == (1, "NULL", "word") else written


def _value_text(text: str | None) -> str:
    return "NULL" if text is None else "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _check(schema: TableSchema, column: Column, masks: Sequence[ColumnMask]) -> None:
    mask, place = masks[0], f"column {column.name} of {schema.name}"
    if other := next((one for one in masks if one.kind is not mask.kind), None):
        raise ConfigError(f"{place} has two column rules: {mask.shown} and {other.shown}", hint="let one kind of rule match the column")
    if column.name in schema.key:
        raise ConfigError(
            f"{mask.shown} matches {place}, which is of the handle key: it identifies the row",
            hint="narrow the rule; a value that may not be at the target can be no part of a primary key or its substitute",
        )
    if mask.kind is MaskKind.HASH and column.kind in SEVERAL_TEXTS:
        raise ConfigError(
            f"{mask.shown} matches {place}, a column of kind {column.kind}: one value may have several texts there, and so several hashes",
            hint="narrow the rule, and write leave-out= or constant= for this column",
        )
    if mask.kind is not MaskKind.CONSTANT:
        return
    if mask.text is None and not column.nullable:
        raise ConfigError(f"{mask.shown}=>NULL: {place} is NOT NULL", hint="give another constant, such as '' or 0")
    if mask.text is not None and not is_value(schema, column, mask.text):
        raise ConfigError(
            f"{mask.shown}: {mask.text!r} is no value of {place}, a column of kind {column.kind}",
            hint="give canonical text: decimal digits with the column's scale, upper-case hex, labels, MySQL's text of dates and times",
        )


def is_value(schema: TableSchema, column: Column, text: str) -> bool:
    """Whether it is canonical text (sidecar/shared/model/nouns.py, Kind) of a value that the column can have."""
    made = next((one for one in schema.definition.columns if one.name == column.name), None) if schema.definition else None
    kind = ColumnType("", unsigned=column.kind == "uint") if made is None else column_type(made)
    try:
        return _canonical(column, kind, text) == text
    except (ValueError, ArithmeticError, RecursionError, pa.ArrowInvalid):
        return False


def _canonical(column: Column, kind: ColumnType, text: str) -> str | None:
    """Of a text that means the value. Raises ValueError, ArithmeticError, ArrowInvalid for one that means none."""
    match column.kind:
        case "bit":
            return str(from_ints(parse_ints(pa.array([text]), column), column)[0].as_py())
        case "binary":
            size = TEXT_BYTES.get(kind.name, kind.size)
            if _HEX.fullmatch(text) is None or len(text) // 2 > (size if size >= 0 else len(text)):
                return None
            return str(from_bytes(pa.array([bytes.fromhex(text)]), column)[0].as_py())
        case "json" | "vector":
            json.loads(text)
            return text
        case "date" | "time" | "datetime" | "timestamp":
            return str(from_texts(pa.array([text]), column, _UTC)[0].as_py())
        case "enum" | "set" if not column.elements:
            return None
        case "enum":
            return text if text in column.elements else None
        case _:
            return default_text(column, text, kind)
