"""What a schema change does to the tables of `mode=merge`, whose rows are to be what TiDB's are. (`append` only sees other columns.)

    TRUNCATE, DROP TABLE, DROP DATABASE     all rows go; the Iceberg table stays
    CREATE TABLE                            rows that an earlier table left in its place go
    ADD COLUMN                              a field; rows that are there have null in it, so where TiDB's get a default it is refused
    DROP COLUMN, RENAME COLUMN, CHANGE      the field goes, or has another name (evolution.py)
    another type                            widened, where Iceberg does and no value changes
    RENAME TABLE                            nothing, where `routes` lead both names to one place; else refused
    indexes, comments, views                nothing
    of `ddl-anew`                           each of its tables begins without rows

TiDB changes rows for the rest without a change event of each (sinks/kit/table_ddl.py). It fails with an error, and nothing is done, unless
the table has no row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import StringType

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.ddl.columns import ColumnEffect
from spark_merge.ddl.conversion import Conversion
from spark_merge.ddl.effects import TableEffect, TableFate, effects
from spark_merge.port.contract import Head
from spark_merge.sinks.iceberg.evolution import renamed
from spark_merge.sinks.iceberg.types import iceberg_type, widened
from spark_merge.sinks.iceberg.uri import IcebergSettings
from spark_merge.sinks.kit.table_ddl import Merged, begun_again

ICEBERG = Merged("Iceberg tables", "a table is not renamed in its catalog")
Identifier = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LakeAltered:
    """A table by the end of a segment. `unless_empty`: why rows that are there cannot follow. `by_hand`: the operator has seen to it."""

    before: TableSchema | None
    after: TableSchema | None
    renamed: Mapping[str, str]
    emptied: bool = False
    unless_empty: str = ""
    by_hand: bool = False


def alterations(head: Head, settings: IcebergSettings) -> dict[Identifier, LakeAltered]:
    """By the place of a table. Raises SinkError for what no table can follow."""
    if head.upto_ts in settings.again:
        return {settings.identifier(one.name): LakeAltered(None, one, {}, emptied=True) for one in begun_again(head, settings.identifier)}
    by_hand = head.upto_ts in settings.ddl_done
    results = effects(head) if by_hand else ICEBERG.followed(head, settings.routes, settings.identifier)
    placed = ((settings.identifier(effect.name), _altered(effect, by_hand=by_hand)) for effect in results)
    return {place: altered for place, altered in placed if altered is not None}


def _altered(effect: TableEffect, *, by_hand: bool) -> LakeAltered | None:
    before, after = effect.before, effect.after
    if before is None or (by_hand and effect.fate is TableFate.RENAMED):
        created = effect.fate is TableFate.CREATED and not by_hand
        return None if after is None else LakeAltered(None, after, {}, emptied=created, by_hand=by_hand)
    if effect.fate in (TableFate.EMPTIED, TableFate.DROPPED) and not by_hand:
        return LakeAltered(before, after, {}, emptied=True)
    if effect.fate is TableFate.UNKEYED and not by_hand:
        return LakeAltered(before, None, {}, unless_empty=effect.unkeyed)
    if after is None or not (effect.changes_columns or (by_hand and effect.record)):
        return None
    why = "" if by_hand else "; ".join(_reasons(effect.columns))
    return LakeAltered(before, after, renamed(effect.columns), unless_empty=why, by_hand=by_hand)


def check_parted(spec: PartitionSpec, there: Schema, table: TableSchema) -> None:
    """Raises SinkError for partitions in which a key's rows are not all in one: an equality delete is of one partition."""
    columns = {there.find_column_name(field.source_id) for field in spec.fields if not isinstance(field.transform, VoidTransform)}
    if spec.spec_id != 0 or not columns <= set(table.key):
        raise SinkError(
            f"{table.name} is partitioned by other columns than its key's ({', '.join(table.key)}), or otherwise than it was made, and an "
            "equality delete is of one partition",
            hint="leave it out of partitions=, or part it by columns of the key alone; give a table that is there its partitions of before",
        )


def _reasons(columns: Iterable[ColumnEffect]) -> Iterator[str]:
    for one in columns:
        column, previous = one.column, one.before
        if previous is None:
            if one.unknown:
                yield f"column {column.name} begins with {one.unknown}"
            elif one.existing is not None:
                yield f"column {column.name} begins with {one.existing!r}, and rows that are there would have null"
        elif not _stays(one, previous):
            yield f"column {column.name} has values of a {previous.kind}, which may be others as a {column.kind}"


def _stays(one: ColumnEffect, previous: Column) -> bool:
    """Whether what files have of a column is right as one of its new type."""
    conversion, kind = one.conversion, iceberg_type(one.column)
    padded_text = conversion is Conversion.PADDED and isinstance(kind, StringType)
    return conversion is not None and not padded_text and widened(iceberg_type(previous), kind) is not None
