"""What a schema change does to the tables of `mode=merge`, whose rows are to be what TiDB's are. (`append` only sees other columns.)

    TRUNCATE, DROP TABLE, DROP DATABASE     all rows go; the Iceberg table stays
    ADD COLUMN                              a field; rows that are there have null in it, so where TiDB's get a default it is refused
    DROP COLUMN, RENAME COLUMN, CHANGE      the field goes, or has another name (evolution.py)
    another type                            widened, where Iceberg does and no value changes
    RENAME TABLE                            nothing, where `routes` lead both names to one place; else refused
    indexes, comments, views, CREATE …      nothing

TiDB changes rows for the rest without telling of each one (sinks/table_ddl.py). It is refused by name, with nothing done, but of a table
that has no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import VoidTransform

from sidecar.core.model import MARK_TABLE, TableName, TableSchema
from sidecar.errors import SinkError
from sidecar.log.manifest import DdlRecord
from spark_merge.contract import Head
from spark_merge.ddl.columns import column_effects
from spark_merge.ddl.logged import logged_ddls
from spark_merge.ddl.statement import Statement
from spark_merge.sinks.delta.ddl import conversion
from spark_merge.sinks.iceberg.evolution import renamed
from spark_merge.sinks.iceberg.types import iceberg_type, widened
from spark_merge.sinks.iceberg.uri import Settings
from spark_merge.sinks.table_ddl import Merged, emptied, statements

ICEBERG = Merged("Iceberg tables", "a table is not renamed in its catalog", "namespace")
Identifier = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Altered:
    """A table by the end of a segment. `unless_empty`: why rows that are there cannot follow. `by_hand`: the operator has seen to it."""

    before: TableSchema | None
    after: TableSchema | None
    renamed: Mapping[str, str]
    emptied: bool = False
    unless_empty: str = ""
    by_hand: bool = False


def alterations(head: Head, settings: Settings) -> dict[Identifier, Altered]:
    """By the place of a table. Raises SinkError for what no table can follow."""
    if not head.ddls and head.schemas is head.next_schemas:
        return {}
    ddls = [ddl for ddl in head.ddls if ddl.commit_ts not in settings.ddl_done and ddl.query]
    read = statements(head, ddls, settings.routes, ICEBERG)
    gone = {settings.identifier(name) for name in emptied(read, head.schemas) if head.schemas[name].key}
    by_hand = not ddls and bool(head.ddls)
    old, new = _placed(head.schemas, settings.identifier), _placed(head.next_schemas, settings.identifier)
    found: dict[Identifier, Altered] = {}
    for place in sorted(old.keys() | new.keys()):
        before, after = old.get(place), new.get(place)
        if place in gone:
            found[place] = Altered(before, after, {}, emptied=True)
        elif after is None or before is None:
            why = _left(before, head) if after is None and not by_hand else ""
            found |= {place: Altered(before, after, {}, unless_empty=why)} if why or after is not None else {}
        elif (by_hand and _of(head, before.name)) or before.undefined() != after.undefined():
            names = renamed(before, after, [ddl.statement for ddl in logged_ddls(head, head.ddls)])
            why = "" if by_hand else "; ".join(_reasons(before, after, read))
            found[place] = Altered(before, after, names, unless_empty=why, by_hand=by_hand)
    return found


def refusal(head: Head, why: str) -> SinkError:
    return ICEBERG.refused("; ".join(ddl.query for ddl in head.ddls), why, head.ddls)


def check_key(schema: TableSchema) -> None:
    """Raises SinkError for a key that an equality delete cannot name."""
    odd = [column.name for column in schema.columns if column.name in schema.key and column.kind in ("float", "double")]
    if odd:
        raise SinkError(
            f"{schema.name} has {odd[0]}, a floating-point number, in its key, and an equality delete by it is not exact",
            hint="use mode=append, or leave the table out by the changefeed's filter",
        )


def check_parted(spec: PartitionSpec, there: Schema, table: TableSchema) -> None:
    """Raises SinkError for partitions in which a key's rows are not all in one: an equality delete is of one partition."""
    columns = {there.find_column_name(field.source_id) for field in spec.fields if not isinstance(field.transform, VoidTransform)}
    if spec.spec_id != 0 or not columns <= set(table.key):
        raise SinkError(
            f"{table.name} is partitioned by other columns than its key's ({', '.join(table.key)}), or otherwise than it was made, and an "
            "equality delete is of one partition",
            hint="leave it out of partitions=, or part it by columns of the key alone; give a table that is there its partitions of before",
        )


def _placed(schemas: Mapping[TableName, TableSchema], place: Callable[[TableName], Identifier]) -> dict[Identifier, TableSchema]:
    return {place(name): schema for name, schema in schemas.items() if schema.key and name != MARK_TABLE}


def _of(head: Head, name: TableName) -> list[DdlRecord]:
    return [ddl for ddl in head.ddls if TableName(ddl.schema, ddl.table).folded() == name.folded()]


def _left(before: TableSchema | None, head: Head) -> str:
    """Of a table that has no rows for us any more, and was not emptied."""
    if before is None or before.name not in head.next_schemas:
        return ""
    return f"{before.name} has no key any more, so its rows are not delivered"


def _reasons(before: TableSchema, after: TableSchema, read: Sequence[Statement]) -> Iterator[str]:
    for one in column_effects(before, after, read):
        column, former = one.column, one.before
        if former is None:
            if one.unknown:
                yield f"column {column.name} begins with {one.unknown}"
            elif one.existing is not None:
                yield f"column {column.name} begins with {one.existing!r}, and rows that are there would have null"
        elif conversion(former, column) is None or widened(iceberg_type(former), iceberg_type(column)) is None:
            yield f"column {column.name} has values of a {former.kind}, which may be others as a {column.kind}"
