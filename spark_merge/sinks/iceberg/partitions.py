"""The partitions that a table has, from this sink or not: whether this sink writes such, and which row is in which.

- A value of a partition is what pyiceberg's transform makes of the column's value, in the form that manifests have: days, microseconds.
- Transforms are applied to each value once, not to each row. (Their form for Arrow needs a package of its own, pyiceberg-core.)
- FLOAT and DOUBLE are no partitions: 0 and -0 would be one, and a reader may take a column's value from the partition.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform, Transform, TruncateTransform, VoidTransform
from pyiceberg.types import DateType, DoubleType, FloatType, IcebergType, LongType, NestedField, TimestampType, TimestamptzType

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableSchema, lowered
from spark_merge.sinks.iceberg.types import Mode

PARTITIONS_MAX = 10_000
"""That one write of a table's rows by a task may have: each is a file."""

_IN_MANIFESTS: Mapping[type[Any], pa.DataType] = {DateType: pa.int32(), TimestampType: pa.int64(), TimestamptzType: pa.int64()}

Place = tuple[Any, ...]
"""A value, or None, for each field of a spec."""


def fits(transform: Transform[Any, Any], kind: IcebergType) -> bool:
    return transform.can_transform(kind) and not isinstance(kind, FloatType | DoubleType)


def check_writable(table: Table) -> None:
    """Raises SinkError."""
    for field in table.spec().fields:
        source = _source(table.schema(), field)
        if not isinstance(field.transform, VoidTransform) and (source is None or not fits(field.transform, source.field_type)):
            raise SinkError(
                f"{'.'.join(table.name())} has got partitions that this sink does not write: {field.name}, {field.transform}",
                hint=f"ALTER TABLE … DROP PARTITION FIELD {field.name}, by Spark: the sink continues without it automatically",
            )


def check_stays(table: Table, after: Schema, mode: Mode) -> None:
    """Whether the table's partitions are still ones with these columns. Raises SinkError."""
    name = ".".join(table.name())
    kept = "a table of mode=merge keeps the partitions that it was created with: deliver to a new namespace, and dump again"
    for field in table.spec().fields:
        if isinstance(field.transform, VoidTransform):
            continue
        source = _source(after, field)
        if source is None or not fits(field.transform, source.field_type):
            previous = table.schema().find_column_name(field.source_id)
            raise SinkError(
                f"{name} is partitioned by {field.transform} of {previous}, "
                f"which is {'gone' if source is None else source.field_type} after this DDL",
                hint=kept
                if mode == "merge"
                else f"ALTER TABLE {name} DROP PARTITION FIELD {field.name}, by Spark, or by pyiceberg's update_spec: the sink continues "
                "automatically, and earlier rows stay in the partitions that they are in",
            )
        own = field.source_id if isinstance(field.transform, IdentityTransform) else None
        if any(lowered(one.name) == lowered(field.name) and one.field_id != own for one in after.fields):
            raise SinkError(
                f"{name} has a partition {field.name}, and after this DDL a column of that name, which Iceberg does not take",
                hint=kept
                if mode == "merge"
                else f"ALTER TABLE {name} DROP PARTITION FIELD {field.name}, and add it again AS another name: the sink continues "
                "automatically",
            )


def parted(rows: pa.Table, spec: PartitionSpec, schema: Schema, *, of: object) -> Iterator[tuple[Place, pa.Table]]:
    """Rows of `schema`, a table for each partition; it copies them once. Raises SinkError for too many partitions, with the name `of`."""
    if not spec.fields:
        yield (), rows
        return
    codes, results = np.zeros(len(rows), dtype=np.int64), [_values(rows, field, schema) for field in spec.fields]
    for values, numbers in results:
        _, codes = np.unique(codes * len(values) + numbers, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1)).tolist()
    if len(starts) > PARTITIONS_MAX:
        raise SinkError(
            f"{of}: {len(rows)} rows fall into {len(starts)} partitions, each of which would be a file; the most is {PARTITIONS_MAX}",
            hint="give the table coarser partitions (months for days, fewer buckets) by Spark's ALTER TABLE … REPLACE PARTITION FIELD: "
            "the sink continues automatically",
        )
    sorted_rows = rows.take(order)
    for start, end in itertools.pairwise([*starts, len(rows)]):
        row = order[start]
        yield tuple(values[numbers[row]] for values, numbers in results), sorted_rows.slice(start, end - start)


def _values(rows: pa.Table, field: PartitionField, schema: Schema) -> tuple[list[Any], npt.NDArray[np.int64]]:
    """The partition's values, and for each row which of them it has."""
    source = schema.find_field(field.source_id)
    column = rows.column(rows.schema.get_field_index(source.name))
    if type(source.field_type) in _IN_MANIFESTS:
        column = column.cast(_IN_MANIFESTS[type(source.field_type)])
    encoded = pc.dictionary_encode(column.combine_chunks(), null_encoding="encode")
    transform = field.transform.transform(source.field_type)
    wraps = isinstance(field.transform, TruncateTransform) and isinstance(source.field_type, LongType)
    numbers: dict[Any, int] = {}
    for_each = []
    for value in encoded.dictionary.to_pylist():
        made = transform(value)
        for_each.append(numbers.setdefault(_wrapped(made) if wraps else made, len(numbers)))
    return list(numbers), np.array(for_each, dtype=np.int64)[encoded.indices.to_numpy()]


def _wrapped(value: int | None) -> int | None:
    """A step below the least long, as Java's arithmetic and so Iceberg's has it."""
    return None if value is None else (value + 2**63) % 2**64 - 2**63


def _source(schema: Schema, field: PartitionField) -> NestedField | None:
    return next((one for one in schema.fields if one.field_id == field.source_id), None)


def check_parted(spec: PartitionSpec, there: Schema, table: TableSchema) -> None:
    """Raises SinkError for partitions in which a key's rows are not all in one: an equality delete is of one partition."""
    columns = {there.find_column_name(field.source_id) for field in spec.fields if not isinstance(field.transform, VoidTransform)}
    if spec.spec_id != 0 or not columns <= set(table.key):
        raise SinkError(
            f"{table.name} is partitioned by other columns than its key's ({', '.join(table.key)}), or otherwise than it was made, and an "
            "equality delete is of one partition",
            hint="leave it out of partitions=, or part it by columns of the key alone; give a table that is there its partitions of before",
        )
