"""What a table's columns become when the source's do: a new schema of Iceberg's, in which a column that stayed keeps its id.

    added     a field at the end; rows of before have null there
    dropped   gone; a read of an earlier snapshot has it
    renamed   the same field by another name (spark_merge/ddl/columns.py says which one it is)
    retyped   the wider one of both types, if Iceberg widens to it (types.widened): a narrower one is not requested. Else the DDL is
              refused, or by `changed-types=anew` the column is dropped and added: what was written before is null in it

In `mode=merge` rows that are there have null in an added field, so where TiDB's get a default it is refused (lake/ddl.py).

Another table of the same name (dropped and made again) continues in the same one of Iceberg; a column of another type is added again there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableSchema, lowered
from spark_merge.ddl.columns import ColumnEffect
from spark_merge.ddl.conversion import Conversion
from spark_merge.sinks.iceberg.types import Mode, envelope, envelope_fields, iceberg_type, widened
from spark_merge.sinks.lake.ddl import MergeRules

Renamed = Mapping[str, str]
"""A column's previous name by the one that it has, both folded."""


def evolved(there: Schema, last_id: int, after: TableSchema, renamed: Renamed, *, again: bool, mode: Mode = "append") -> Schema | None:
    """`there` for the columns of `after`; None where it fits as it is. `last_id`: the greatest field id that the table has had. Raises
    SinkError for a type that Iceberg does not widen to, unless `again`."""
    width = envelope_fields(mode)
    previous = {lowered(field.name): field for field in there.fields[width:]}
    taken = set(renamed.values())
    kept: dict[int, NestedField] = {}
    added: list[NestedField] = []
    for column in after.columns:
        name = lowered(column.name)
        field = previous.get(renamed.get(name, "" if name in taken else name))
        wanted = iceberg_type(column)
        kind = None if field is None else widened(field.field_type, wanted)
        if field is not None and kind is not None:
            kept[field.field_id] = NestedField(field.field_id, column.name, kind, required=False)
        elif field is None or again:
            added.append(NestedField(last_id + len(added) + 1, column.name, wanted, required=False))
        else:
            raise SinkError(
                f"{after.name}.{column.name} is {field.field_type} in Iceberg and {wanted} after this DDL, which Iceberg does not widen to",
                hint="add changed-types=anew to the sink's URI: the column is dropped there and added, and rows of before have null in it; "
                "or deliver to a new namespace, and dump again",
            )
    own = [
        NestedField(field.field_id, name, field.field_type, required=False)
        for field, name in zip(there.fields[:width], envelope(after, mode), strict=True)
    ]
    stay = [kept[field.field_id] for field in there.fields[width:] if field.field_id in kept]
    results = (*own, *stay, *added)
    return None if _same(results, there.fields) else Schema(*results)


def renamed(columns: Iterable[ColumnEffect]) -> Renamed:
    pairs = [(lowered(one.column.name), lowered(one.before.name)) for one in columns if one.before is not None]
    return {name: previous for name, previous in pairs if name != previous}


def same_columns(one: TableSchema, other: TableSchema) -> bool:
    """For Iceberg: lengths of a text, labels and what may be null are nothing to it."""
    return one.columns == other.columns or list(map(_identity, one.columns)) == list(map(_identity, other.columns))


def _identity(column: Column) -> tuple[str, str]:
    return column.name, str(iceberg_type(column))


def _same(some: Iterable[NestedField], others: Iterable[NestedField]) -> bool:
    return [(f.field_id, f.name, f.field_type) for f in some] == [(f.field_id, f.name, f.field_type) for f in others]


# ---- merged rows ----------------------------------------------------------------------------------------------------------


def _begins(added: ColumnEffect) -> str:
    if added.unknown or added.existing is None:
        return added.unknown
    return f"{added.existing!r}, and rows that are there would have null"


def _stays(one: ColumnEffect, previous: Column) -> bool:
    """Whether what files have of a column is right as one of its new type."""
    conversion, kind = one.conversion, iceberg_type(one.column)
    padded_text = conversion is Conversion.PADDED and isinstance(kind, StringType)
    return conversion is not None and not padded_text and widened(iceberg_type(previous), kind) is not None


ICEBERG = MergeRules("Iceberg tables", "a table is not renamed in its catalog", "an equality delete", _begins, _stays)
