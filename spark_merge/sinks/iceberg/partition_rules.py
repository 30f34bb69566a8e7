"""How tables that are made are partitioned: `partitions=` of the sink's URI, which reads as Iceberg's SQL after PARTITIONED BY.

    shop.orders(days(created_at), bucket(16, id)), shop.audit(), crm.*(truncate(4, name), _op)

    schema.table(…)   one table; it goes before the rule of its schema. () is: no partitions
    schema.*(…)       every other table of a schema
    …                 column, years(column), months(column), days(column), hours(column), bucket(N, column), truncate(WIDTH, column)

- Names are compared as TiDB does, in any case; `` ` `` quotes what is no plain word. Fields of the envelope are columns as others are.
- A table that is there has the partitions that it has (partitions.py): a rule is for who makes one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import NestedField

from sidecar.shared.errors import SinkError, UnsupportedDdl
from sidecar.shared.model.nouns import TableName, TableSchema, lowered
from sidecar.shared.sql.lexer import SqlToken
from spark_merge.ddl.tokens import ddl_tokens
from spark_merge.sinks.iceberg.partitions import fits
from spark_merge.sinks.iceberg.types import Mode, iceberg_schema

HOW = (
    "write partitions=schema.table(days(a), bucket(16, b), d), of years, months, days, hours, bucket(N, …), truncate(WIDTH, …) and columns"
)

_OF_A_COLUMN: Mapping[str, Callable[[], Transform[Any, Any]]] = {
    "YEARS": YearTransform,
    "MONTHS": MonthTransform,
    "DAYS": DayTransform,
    "HOURS": HourTransform,
}
_OF_A_NUMBER: Mapping[str, Callable[[int], Transform[Any, Any]]] = {"BUCKET": BucketTransform, "TRUNCATE": TruncateTransform}
_SUFFIXES = {"years": "_year", "months": "_month", "days": "_day", "hours": "_hour", "bucket": "_bucket", "truncate": "_trunc"}
NUMBER_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PartitionTerm:
    """`name`: as it is in SQL; `identity` for a column alone."""

    name: str
    transform: Transform[Any, Any]
    column: str

    def __str__(self) -> str:
        return self.column if self.name == "identity" else f"{self.transform} of {self.column}"


@dataclass(frozen=True, slots=True)
class PartitionRules:
    """Rules, by folded names. Made by `partitions_of`; without any, a table that is made has no partitions."""

    tables: Mapping[TableName, Sequence[PartitionTerm]] = field(default_factory=dict)
    schemas: Mapping[str, Sequence[PartitionTerm]] = field(default_factory=dict)

    def spec(self, table: TableSchema, mode: Mode = "append") -> PartitionSpec:
        """Of a table that is made by `iceberg_schema`. Raises SinkError for a column that it has not, or that has no such transform."""
        parts = self.tables.get(table.name.folded())
        if parts is None:
            parts = self.schemas.get(lowered(table.name.schema), ())
        schema, fields = iceberg_schema(table, mode), list[PartitionField]()
        for number, part in enumerate(parts, PARTITION_FIELD_ID_START):
            source = _source(table, schema, part)
            name = _free_name(schema, source, part)
            fields.append(PartitionField(source.field_id, number, part.transform, name))
        return PartitionSpec(*fields)


def partitions_of(text: str) -> PartitionRules:
    """Raises SinkError for what is no rule, and for a table or schema with two."""
    try:
        tokens = ddl_tokens(text)
    except UnsupportedDdl as error:
        raise SinkError(f"partitions={text!r} cannot be read", hint=HOW) from error
    return _Rules(text, tokens).all()


class _Rules:
    """Reads from the first token to the last."""

    def __init__(self, text: str, tokens: Sequence[SqlToken]) -> None:
        self._text, self._tokens, self._at = text, tokens, 0

    def all(self) -> PartitionRules:
        tables: dict[TableName, Sequence[PartitionTerm]] = {}
        schemas: dict[str, Sequence[PartitionTerm]] = {}
        while self._tokens[self._at].kind != "end":
            schema = self._name()
            self._sign(".")
            table = "*" if self._is("*") else self._name()
            name, parts = TableName(schema, table).folded(), self._parts()
            if name in tables or (table == "*" and lowered(schema) in schemas):
                raise self._wrong(f"names {schema}.{table} twice")
            if table == "*":
                schemas[lowered(schema)] = parts
            else:
                tables[name] = parts
            if self._tokens[self._at].kind != "end":
                self._sign(",")
        return PartitionRules(tables, schemas)

    def _parts(self) -> list[PartitionTerm]:
        self._sign("(")
        parts: list[PartitionTerm] = []
        while not self._is(")"):
            if parts:
                self._sign(",")
            parts.append(self._part())
        if len({(lowered(part.column), part.transform.dedup_name) for part in parts}) < len(parts):
            raise self._wrong("has one column twice by the same transform, or by two units of time")
        return parts

    def _part(self) -> PartitionTerm:
        token, name = self._tokens[self._at], self._name()
        if not self._is("("):
            return PartitionTerm("identity", IdentityTransform(), name)
        word = token.value if token.value in _OF_A_NUMBER or token.value.endswith("S") else f"{token.value}S"
        if word in _OF_A_COLUMN:
            part = PartitionTerm(lowered(word), _OF_A_COLUMN[word](), self._name())
        elif word in _OF_A_NUMBER:
            number = self._number()
            self._sign(",")
            part = PartitionTerm(lowered(word), _OF_A_NUMBER[word](number), self._name())
        else:
            raise self._wrong(f"has {token.text}(…), which is no transform that this sink writes")
        self._sign(")")
        return part

    # ---- tokens ---------------------------------------------------------------------------------------------------------

    def _name(self) -> str:
        token = self._tokens[self._at]
        if token.kind not in ("word", "name"):
            raise self._wrong(f"has {_shown(token)} where a name is to be")
        self._at += 1
        return token.name

    def _number(self) -> int:
        token = self._tokens[self._at]
        if not token.text.isdecimal() or not 0 < int(token.text) <= NUMBER_MAX:
            raise self._wrong(f"has {_shown(token)} where a whole number above 0 is to be")
        self._at += 1
        return int(token.text)

    def _is(self, sign: str) -> bool:
        result = self._tokens[self._at].text == sign
        self._at += result
        return result

    def _sign(self, sign: str) -> None:
        if not self._is(sign):
            raise self._wrong(f"has {_shown(self._tokens[self._at])} where {sign!r} is to be")

    def _wrong(self, what: str) -> SinkError:
        return SinkError(f"partitions={self._text!r} {what}", hint=HOW)


def _shown(token: SqlToken) -> str:
    return repr(token.text) if token.text else "its end"


def _source(table: TableSchema, schema: Schema, part: PartitionTerm) -> NestedField:
    results = [one for one in schema.fields if lowered(one.name) == lowered(part.column)]
    if not results:
        raise SinkError(
            f"{table.name} has no column {part.column}, by which partitions= parts it",
            hint=f"give it a rule of its own: {table.name}(…) with columns that it has, or {table.name}() for no partitions",
        )
    if not fits(part.transform, results[0].field_type):
        raise SinkError(
            f"{table.name}.{results[0].name} is {results[0].field_type} in Iceberg, of which there is no {part.name} partition",
            hint="use years, months, days of a DATE, these and hours of a DATETIME or TIMESTAMP, truncate of a number, text or BINARY, and "
            "bucket or the column itself of any but FLOAT and DOUBLE",
        )
    return results[0]


def _free_name(schema: Schema, source: NestedField, part: PartitionTerm) -> str:
    """As Spark calls it, with underscores in front where a column is called so."""
    if part.name == "identity":
        return source.name
    name, taken = source.name + _SUFFIXES[part.name], {lowered(one.name) for one in schema.fields}
    while lowered(name) in taken:
        name = f"_{name}"
    return name
