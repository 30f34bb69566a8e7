"""What a schema change makes of a table's columns: for each column after it, the column that its values come from, or the value that
existing rows have. One answer for all sinks.

Which column it was, in this order: by the column's id, where the log has ids (raw key-values; a change of type may give another id); by
CHANGE and RENAME COLUMN of the statement; by its name.

The value of existing rows in an added column is the column's default as of the DDL. Logs of raw key-values have it (TiDB's origin default).
Otherwise it is read from the definition, if that is a plain literal. The definition's text is of a session in UTC (TiDB converts the
default of a TIMESTAMP: pkg/executor/infoschema_reader.go, dataForColumnsInTable). Where a sink's column rules mask the column, it is the
masked value (`MaskedSchema`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sidecar.shared.model.nouns import Column, TableSchema, lowered
from sidecar.shared.model.schema_step import revealed
from sidecar.shared.rowcodec.kv_layout import kv_table_of
from sidecar.shared.rowcodec.type_cast import ColumnType, column_type, defined_default
from spark_merge.ddl.conversion import Conversion, Typed, conversion
from spark_merge.ddl.statement import Statement


@dataclass(frozen=True, slots=True)
class ColumnEffect:
    """`before`: where the values of `column` come from, None for an added column. `existing`: what existing rows have in an added column,
    as canonical text; None: NULL. `unknown`: why that is not known; then `existing` is None. `types`: before and after, as far as the log
    has them. `was_omitted`: the changefeed did not carry it (schema_step.revealed)."""

    column: Column
    before: Column | None = None
    existing: str | None = None
    unknown: str = ""
    types: tuple[ColumnType | None, ColumnType | None] = (None, None)
    was_omitted: bool = False

    @property
    def renamed(self) -> bool:
        return self.before is not None and self.before.name != self.column.name

    @property
    def conversion(self) -> Conversion | None:
        """What became of the values of `before`; None where they may be others."""
        assert self.before is not None, "an added column has no values from before"
        return conversion(Typed(self.before, self.types[0]), Typed(self.column, self.types[1]))

    @property
    def may_change_values(self) -> bool:
        """Whether rows that are there may have other values in it than before."""
        return self.before is not None and self.conversion is not Conversion.UNCHANGED


@dataclass(frozen=True, slots=True)
class MaskedSchema(TableSchema):
    """A table as a sink's column rules show it (spark_merge/masks). `added`: of each masked column, what rows from before it was added
    have in it, as `added_column` says."""

    added: Mapping[str, ColumnEffect] = field(default_factory=dict, compare=False, repr=False)


def column_effects(before: TableSchema, after: TableSchema, statements: Iterable[Statement]) -> tuple[ColumnEffect, ...]:
    """Of each column of `after`, in order; both schemas are of one table. `statements`: those between the two, also of other tables."""
    old = {column.name: column for column in before.columns}
    own = [one for one in statements if one.columns and one.tables()[0].folded() == before.name.folded()]
    names, types = _names_before(before, after, own), (_types(before), _types(after))
    hidden = revealed(before, after)
    return tuple(
        ColumnEffect(column, old[was := names[column.name]], types=(types[0].get(was), types[1].get(column.name)))
        if column.name in names
        else replace(_came(column, after, was_omitted=column.name in hidden), types=(None, types[1].get(column.name)))
        for column in after.columns
    )


def _types(schema: TableSchema) -> Mapping[str, ColumnType]:
    return {one.name: column_type(one) for one in schema.definition.columns} if schema.definition else {}


def _names_before(before: TableSchema, after: TableSchema, statements: Iterable[Statement]) -> dict[str, str]:
    """By the name after; an added column is not in it."""
    old = {lowered(name): name for name in before.column_names()}
    names = _by_id(before, after)
    moved = moved_columns(statements)
    gone = {previous for name, previous in moved.items() if previous != name}
    for name in after.column_names():
        if name in names:
            continue
        previous = old.get(moved.get(lowered(name), ""))
        if previous is None and lowered(name) not in gone:
            previous = old.get(lowered(name))
        if previous is not None and previous not in names.values():
            names[name] = previous
    return names


def _by_id(before: TableSchema, after: TableSchema) -> dict[str, str]:
    old, new = _ids(before), _ids(after)
    names = {id_: name for name, id_ in old.items()}
    return {name: names[id_] for name, id_ in new.items() if id_ in names}


def _ids(schema: TableSchema) -> dict[str, int]:
    """Of the columns that rows have, by name."""
    there = set(schema.column_names())
    return {one.column.name: one.id for one in kv_table_of(schema).columns if one.column.name in there} if schema.layout else {}


def moved_columns(statements: Iterable[Statement]) -> Mapping[str, str]:
    """Names before by names after, folded. Of several changes of one column the way through all of them."""
    names: dict[str, str] = {}
    for statement in statements:
        made = {lowered(name): names.get(lowered(previous), lowered(previous)) for previous, name in statement.columns}
        for previous, _ in statement.columns:
            names.pop(lowered(previous), None)
        names |= made
    return names


def _came(column: Column, after: TableSchema, *, was_omitted: bool) -> ColumnEffect:
    return (
        ColumnEffect(column, unknown="values that the changefeed omitted", was_omitted=True) if was_omitted else added_column(column, after)
    )


def added_column(column: Column, after: TableSchema) -> ColumnEffect:
    """What rows from before it was added have in this column of `after`."""
    if isinstance(after, MaskedSchema) and column.name in after.added:
        return after.added[column.name]
    definitions = after.definition.columns if after.definition else ()
    made = next((one for one in definitions if one.name == column.name), None)
    if made is not None and made.generated:
        return ColumnEffect(column, unknown="what a formula makes of each row")
    if after.layout:
        return ColumnEffect(column, existing=next(one.absent for one in kv_table_of(after).columns if one.column.name == column.name))
    if made is None:
        return ColumnEffect(column, unknown="a default that the log does not have")
    try:
        return ColumnEffect(column, existing=defined_default(column, made))
    except (ValueError, ArithmeticError, IndexError):  # the last: an enum whose labels are not known has no first one
        return ColumnEffect(column, unknown=f"the computed default {made.default}")
