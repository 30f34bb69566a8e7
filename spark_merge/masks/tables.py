"""A table as a sink's target has it.

    leave-out   the column is gone, from indexes and virtual columns too
    hash        a text of 64 characters, which every sink can have as a column
    constant    the column as it is, without its default; an index in which it was is no unique one any more, and is gone

- A generated column is computed of others: where one of them is masked, it has a rule of its own, or its values would say what is masked.
- A column by which a table is partitioned has no mask: outputs tell a row's partition by it.
- A target that carries out TiDB's own statements keeps TiDB's columns, keys and formulas. There the table stays as it is: a constant in a
  unique index would make one row of two, and the target would compute other values of a generated column than TiDB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sidecar.shared.errors import ConfigError
from sidecar.shared.model.nouns import Column, ColumnDefinition, IndexDefinition, TableDefinition, TableSchema, lowered
from sidecar.shared.sql.lexer import tokens
from spark_merge.ddl.columns import ColumnEffect, MaskedSchema, added_column
from spark_merge.masks.rules import ColumnMask, MaskKind
from spark_merge.masks.salt import hashed

HASH_TYPE = "varchar(64)"
_CHARSET, _COLLATION = "utf8mb4", "utf8mb4_bin"


@dataclass(frozen=True, slots=True)
class MaskedTable:
    """`source`: as the log has it; `schema`: as the target has it. `masks`: by the source's columns, not empty."""

    source: TableSchema
    schema: TableSchema
    masks: Mapping[str, ColumnMask]


def masked_table(source: TableSchema, masks: Mapping[str, ColumnMask], salt: bytes, *, statements: bool) -> MaskedTable:
    """`statements`: the target carries out TiDB's own. Raises ConfigError for a generated column that would show what is masked."""
    _check_generated(source, masks, statements=statements)
    _check_partitions(source, masks)
    if statements:
        _check_unique(source, masks)
        return MaskedTable(source, source, masks)
    columns = tuple(_column(one, masks.get(one.name)) for one in source.columns if not _is_gone(masks.get(one.name)))
    definition = None if source.definition is None else _definition(source.definition, masks)
    shown = replace(source, columns=columns, definition=definition, former=None)
    added = {
        column.name: _added(added_column(column, source), _column(column, mask), mask, salt)
        for column in source.columns
        if (mask := masks.get(column.name)) is not None and not _is_gone(mask)
    }
    if not added:
        return MaskedTable(source, shown, masks)
    fields = {name: getattr(shown, name) for name in TableSchema.__dataclass_fields__}
    return MaskedTable(source, MaskedSchema(**fields, added=added), masks)


def _is_gone(mask: ColumnMask | None) -> bool:
    return mask is not None and mask.kind is MaskKind.LEAVE_OUT


def _column(column: Column, mask: ColumnMask | None) -> Column:
    return Column(column.name, "text", column.nullable) if mask is not None and mask.kind is MaskKind.HASH else column


def _added(effect: ColumnEffect, column: Column, mask: ColumnMask, salt: bytes) -> ColumnEffect:
    if mask.kind is MaskKind.CONSTANT:
        return ColumnEffect(column, existing=mask.text)
    return ColumnEffect(column, existing=None if effect.existing is None else hashed(salt, effect.existing), unknown=effect.unknown)


# ---- what it was made of ------------------------------------------------------------------------------------------------


def _definition(definition: TableDefinition, masks: Mapping[str, ColumnMask]) -> TableDefinition:
    columns = tuple(_made(one, masks.get(one.name)) for one in definition.columns if not _is_gone(masks.get(one.name)))
    kept = tuple(one for one in columns if one.stored or not _read_by(one.generated, masks))
    indexes = tuple(one for one in definition.indexes if not _is_spoilt(one, masks, {one.name for one in kept}))
    return replace(definition, columns=kept, indexes=indexes)


def _made(column: ColumnDefinition, mask: ColumnMask | None) -> ColumnDefinition:
    """Without a default: it may say what is masked, and no row has it."""
    if mask is None:
        return column
    if mask.kind is not MaskKind.HASH:
        return replace(column, default=None)
    return ColumnDefinition(column.name, HASH_TYPE, column.nullable, _CHARSET, _COLLATION)


def _is_spoilt(index: IndexDefinition, masks: Mapping[str, ColumnMask], there: set[str]) -> bool:
    """Whether the target has not all of its columns, or they do not tell rows from each other any more. The first characters of a hash are
    not the hash of the first characters."""
    for part in index.parts:
        mask = masks.get(part.column)
        cut = mask is not None and part.length >= 0
        if (part.column and part.column not in there) or _read_by(part.expression, masks) or cut:
            return True
        if index.unique and mask is not None and mask.kind is MaskKind.CONSTANT:
            return True
    return False


def _read_by(sql: str, masks: Mapping[str, ColumnMask]) -> str:
    """A masked column that the expression reads; empty for none."""
    named = {lowered(token.name) for token in tokens(sql) if token.kind in ("word", "name")} if sql else set()
    return next((name for name in masks if lowered(name) in named), "")


# ---- what stops -----------------------------------------------------------------------------------------------------------


def _check_generated(source: TableSchema, masks: Mapping[str, ColumnMask], *, statements: bool) -> None:
    for one in source.definition.columns if source.definition else ():
        mask, read = masks.get(one.name), _read_by(one.generated, masks)
        if statements and one.generated and (mask is not None or read):
            rule = masks[read].shown if mask is None else mask.shown
            raise ConfigError(
                f"{rule}: the target computes the generated column {one.name} of {source.name} for itself, from its own values",
                hint="narrow the rule, leave the table out by the changefeed's filter, or take a sink that writes generated columns",
            )
        if read and mask is None and one.name in source.column_names():
            raise ConfigError(
                f"{masks[read].shown}: the generated column {one.name} of {source.name} is computed of {read}, and no rule matches it",
                hint=f"give {one.name} a rule too: its values may say what is masked",
            )


def _check_partitions(source: TableSchema, masks: Mapping[str, ColumnMask]) -> None:
    """Outputs that name a row's partition compute it of the row."""
    if read := _read_by(source.definition.partitioning, masks) if source.definition else "":
        raise ConfigError(
            f"{masks[read].shown}: {source.name} is partitioned by {read}, and outputs could not tell the partition of a row",
            hint="narrow the rule, or leave the table out by the changefeed's filter",
        )


def _check_unique(source: TableSchema, masks: Mapping[str, ColumnMask]) -> None:
    for index in source.definition.indexes if source.definition else ():
        mask = next((one for part in index.parts if (one := masks.get(part.column)) is not None), None)
        if index.unique and mask is not None and mask.text is not None:
            raise ConfigError(
                f"{mask.shown} would give all rows of {source.name} one value in the unique index {index.name}, and one row would replace"
                " the others",
                hint=f"write constant={mask.rule}=>NULL where the column may be NULL; else leave the table out by the changefeed's filter",
            )
