"""Who reads: a connector with its target. Each is made by a context manager that takes a `Place`, and ends what it has started.

jdbc      Debezium's JDBC sink into MariaDB and PostgreSQL, which makes the tables and adds their columns
iceberg   Iceberg's sink: of Debezium's envelope by Iceberg's own transform, flattened by Debezium's, and without schemas
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from sidecar.shared.model.nouns import TableName, TableSchema
from tests.support.services.connect import CONVERTER
from tests.tools.connect.plain import Plain

Row = tuple[Plain, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """`name`: the reader's. `folder`: for what its target leaves. `prefix`: of the topics (`topic.prefix`). `tables`: at the
    end. `names`: of all tables that there ever were."""

    name: str
    folder: Path
    brokers: str
    prefix: str
    tables: Mapping[TableName, TableSchema]
    names: Sequence[TableName]


@dataclass(frozen=True, slots=True)
class Reader:
    """`settings`: the connector's. `rows`: of a table that the target has, in the schema's columns; an absent table has none. It raises
    ValueError if the target does not say which rows those are. `records`: how many records of a table have come to a target that keeps
    each, None where it does not keep them."""

    settings: Mapping[str, str]
    rows: Callable[[TableSchema], Sequence[Row]]
    records: Callable[[TableName], int] | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """`limits`: columns that the reader cannot take, each with the reason; they are kept from it, and not compared. `amid`: those that it
    cannot take amid schema changes. `schemas`: whether it reads messages with their schema."""

    name: str
    made: Callable[[Place, Sequence[str]], AbstractContextManager[Reader]]
    limits: Mapping[str, str] = field(default_factory=dict)
    amid: Mapping[str, str] = field(default_factory=dict)
    schemas: bool = True

    @contextmanager
    def opened(self, place: Place) -> Iterator[Reader]:
        with self.made(place, sorted(self.limits)) as reader:
            settings = {"tasks.max": "1", "topics.regex": topics_regex(place.prefix), **reader.settings}
            for converter in () if self.schemas else ("key.converter", "value.converter"):
                settings |= {converter: CONVERTER, f"{converter}.schemas.enable": "false"}
            yield replace(reader, settings=settings)

    def narrowed(self, schema: TableSchema) -> TableSchema:
        return replace(schema, columns=tuple(column for column in schema.columns if column.name not in self.limits))


def topics_regex(prefix: str) -> str:
    """Of rows: not the topic of DDLs, which is the prefix, nor that of marks."""
    return rf"{prefix}\.[^.]+\.[^.]+"
