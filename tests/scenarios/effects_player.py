"""What an effects scenario may say, a line each:

    tables t(id a b:text=x) u(id v)       what the log has, from here on
    STATEMENT -> t(id b<a) u(id v)        a DDL and the tables after it; `@u STATEMENT`: TiCDC sent it for table u, and not for t
    STATEMENT ;; @u STATEMENT -> …        two records of one commit
    t(id) | STATEMENT -> …                with the tables before it
    (step) -> …                           other schemas without a DDL

A table's first column is its key. `t-(…)`: it has none. `t[a](…)`: its key is a. `v<t(…)`: it is what t was. `+t(…)`: another table of the
name. `t{1,2}(…)`: its partitions. A column is `name:kind(length,scale)=default`, of kind int without one; `!` behind it: NOT NULL; `*`
behind it: computed for each row. `b<a`: it is what a was. `+a`: another column of the name.

Each statement is read from three logs: of raw key-values, with definitions and the ids of tables, partitions and columns; of messages, with
definitions; and of an old version, with names and types alone. What `<` and `+` say is in the first one only. What comes out of all of them
is written once. A table stands with what became of it and of its columns; then each sink that cannot follow it where the table has rows,
with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sidecar.shared.errors import SinkError, UnsupportedDdl
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import MARK_TABLE, Column, ColumnDefinition, CommitTs, Seq, TableDefinition, TableName, TableSchema
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.rowcodec.kv_layout import layout_of
from spark_merge.ddl.effects import TableEffect, TableFate, effects
from spark_merge.ddl.names import of_the_log
from spark_merge.ddl.parser import parsed
from spark_merge.port.contract import Head
from spark_merge.sinks.clickhouse.alter import change
from spark_merge.sinks.clickhouse.columns import column_type
from spark_merge.sinks.clickhouse.ddl import followed
from spark_merge.sinks.delta.ddl import DELTA
from spark_merge.sinks.delta.uri import DeltaSettings
from spark_merge.sinks.iceberg.evolution import ICEBERG, evolved, renamed
from spark_merge.sinks.iceberg.types import iceberg_schema
from spark_merge.sinks.iceberg.uri import IcebergSettings
from spark_merge.sinks.kit.table_ddl import checked_effects
from spark_merge.sinks.lake.ddl import alterations
from spark_merge.sinks.mysql.ddl_dialect import rendered
from spark_merge.sinks.mysql.ddl_values import AtTarget, rewrites, tables_of
from spark_merge.sinks.opensearch.changes import changes
from spark_merge.sinks.sqlite import tables as sqlite
from tests.support.kv_encoder import NOT_NULL, info
from tests.support.kv_encoder import column as kv_column
from tests.support.sql_target import AsInTheLog
from tests.support.sql_types import sql_type

_TABLE = re.compile(
    r"(?P<new>\+?)(?P<name>\w+)(?:<(?P<was>\w+))?(?P<keyless>-?)(?:\[(?P<key>[\w,]+)\])?(?:\{(?P<parts>[\d,]*)\})?"
    r"\((?P<columns>(?:[^()]|\([^()]*\))*)\)"
)
_COLUMN = re.compile(
    r"(?P<new>\+?)(?P<name>\w+)(?:<(?P<was>\w+))?(?::(?P<kind>\w+)(?:\((?P<length>-?\d+)(?:,(?P<scale>\d+))?\))?)?"
    r"(?P<formula>\*?)(?P<not_null>!?)(?:=(?P<default>\S+))?"
)
_TIDB_TYPES = {"int": "bigint", "uint": "bigint", "text": "varchar", "binary": "blob"}
_MOMENTS = ("time", "datetime", "timestamp")
_LOGS = ("key-values", "messages", "names")


@dataclass(frozen=True)
class Table:
    schema: TableSchema
    id: int
    column_ids: Mapping[str, int]
    defaults: Mapping[str, str]
    formulas: frozenset[str]

    def of(self, log: str) -> TableSchema:
        plain = replace(self.schema, physical_ids=())
        if log == "names":
            return plain
        made = (
            ColumnDefinition(
                one.name, sql_type(one), one.nullable, default=self._literal(one.name), generated="…" * (one.name in self.formulas)
            )
            for one in self.schema.columns
        )
        bounds = (f"PARTITION `p{number}` VALUES LESS THAN ({10 * number + 10})" for number, _ in enumerate(self.schema.physical_ids))
        partitioning = f"PARTITION BY RANGE (`id`) ({', '.join(bounds)})" if self.schema.physical_ids else ""
        defined = replace(plain, definition=TableDefinition(tuple(made), partitioning=partitioning))
        if log == "messages":
            return defined
        described = info(
            [self._described(one) for one in self.schema.columns], primary=[(name, -1) for name in self.schema.key], id=self.id
        )
        physical = self.schema.physical_ids or (self.id,)
        return replace(defined, table_id=self.id, physical_ids=physical, layout=layout_of(1, described, new_collation=True))

    def _literal(self, name: str) -> str | None:
        return f"'{self.defaults[name]}'" if name in self.defaults else None

    def _described(self, column: Column) -> dict[str, Any]:
        kind, flags = _TIDB_TYPES.get(column.kind, column.kind), NOT_NULL * (not column.nullable)
        result = kv_column(
            self.column_ids[column.name], column.name, kind, unsigned=column.kind == "uint", flen=column.length, decimal=column.scale,
            collation="utf8mb4_bin" if column.kind == "text" else "binary", flag=flags, elems=list(column.elements) or None,
            origin_default=self.defaults.get(column.name),
        )  # fmt: skip
        return result | {"generated_expr_string": "…" * (column.name in self.formulas), "generated_stored": column.name in self.formulas}


class EffectsPlayer:
    def __init__(self) -> None:
        self._tables: dict[str, Table] = {}
        self._last_id = 100

    def play(self, line: str) -> list[str]:
        if line.startswith("tables "):
            self._tables = self._read(line.removeprefix("tables "), {})
            return []
        first, bar, rest = line.partition(" | ")
        if bar:
            self._tables, line = self._read(first, {}), rest
        text, arrow, tables = line.partition(" ->")
        after = self._read(tables, self._tables) if arrow else self._tables
        reported = [(log, list(self._reported(_head(text, self._tables, after, log)))) for log in _LOGS]
        if all(lines == reported[0][1] for _, lines in reported):
            return reported[0][1]
        by_lines: dict[tuple[str, ...], list[str]] = {}
        for log, lines in reported:
            by_lines.setdefault(tuple(lines), []).append(log)
        return [f"{', '.join(logs)}: {one}" for lines, logs in by_lines.items() for one in lines or ("nothing",)]

    def _read(self, text: str, before: Mapping[str, Table]) -> dict[str, Table]:
        result = {}
        for one in _TABLE.finditer(text):
            was = None if one["new"] else before.get(one["was"] or one["name"])
            result[one["name"]] = self._table(one, was)
        return result

    def _table(self, one: re.Match[str], was: Table | None) -> Table:
        columns, ids, defaults, formulas = list[Column](), dict[str, int](), dict[str, str](), set[str]()
        for match in filter(None, map(_COLUMN.fullmatch, one["columns"].split())):
            name, kind = match["name"], match["kind"] or "int"
            columns.append(
                Column(
                    name, kind, nullable=bool(columns) and not match["not_null"],  # type: ignore[arg-type]
                    length=int(match["length"] or -1) if kind in ("decimal", "binary", "bit") else -1,
                    scale=int(match["scale"] or 0) if kind == "decimal" else int(match["length"] or 0) if kind in _MOMENTS else 0,
                    elements=("x", "y") if kind in ("enum", "set") else (),
                )
            )  # fmt: skip
            previous = None if was is None or match["new"] else was.column_ids.get(match["was"] or name)
            ids[name] = previous or self._next_id()
            defaults |= {name: match["default"]} if match["default"] else {}
            formulas |= {name} if match["formula"] else set()
        key = tuple(one["key"].split(",")) if one["key"] else () if one["keyless"] else (columns[0].name,)
        parts = tuple(map(int, one["parts"].split(","))) if one["parts"] else ()
        schema = TableSchema(TableName("s", one["name"]), tuple(columns), key, physical_ids=parts)
        return Table(schema, was.id if was else self._next_id(), ids, defaults, frozenset(formulas))

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _reported(self, head: Head) -> Iterator[str]:
        for effect in effects(head):
            yield _line(effect)
        refusals: dict[str, list[str]] = {}
        for sink, plan in _SINKS.items():
            try:
                plan(head)
            except (SinkError, UnsupportedDdl) as error:
                refusals.setdefault(_reason(head, error.message), []).append(sink)
        yield from (f"refused by {', '.join(sinks)}: {reason}" for reason, sinks in refusals.items())


def _head(text: str, before: Mapping[str, Table], after: Mapping[str, Table], log: str) -> Head:
    ddls = []
    for one in text.split(" ;; ") if text != "(step)" else ():
        of, _, query = one.partition(" ") if one.startswith("@") else ("@t", "", one)
        schema, _, table = of[1:].rpartition(".")
        ddls.append(DdlRecord(CommitTs(90), schema or "s", table, query))
    schemas, next_schemas = ({TableName("s", name): table.of(log) for name, table in tables.items()} for tables in (before, after))
    manifest = Manifest(Seq(3), 1, CommitTs(0), CommitTs(90), None, 0, 0, {}, "s", "c", tuple(ddls), next_schemas="n")
    return Head(manifest, schemas, next_schemas)


def _line(effect: TableEffect) -> str:
    before, after = effect.before, effect.after
    name = effect.name.table if before is None else before.name.table
    text = f"{name} {effect.fate.value}" + (f" to {effect.name}" if effect.fate is TableFate.RENAMED else "")
    changes = []
    for one in effect.columns:
        if one.before is None:
            existing = one.unknown or ("NULL" if one.existing is None else repr(one.existing))
            changes.append(f"{one.column.name} added with {existing}")
        elif one.before != one.column:
            changes.append(f"{one.column.name} was {one.before.name}" if one.renamed else f"{one.column.name} altered")
    stay = {one.before.name for one in effect.columns if one.before}
    changes += [f"{name} gone" for name in before.column_names() if name not in stay] if before and after else []
    changes += ["rows leave"] if effect.rows_leave else []
    changes += ["text not understood"] if effect.problem else []
    return f"{text}: {', '.join(changes)}" if changes else text


def _reason(head: Head, message: str) -> str:
    """Without what a message begins with."""
    for ddl in head.ddls:
        message = message.replace(repr(ddl.query), "…")
    return "not understood" if "is not understood" in message else re.split(r"carried out on [\w ]+: |^segment 3, [^:]*: ", message)[-1]


# ---- what the sinks make of it, as far as they decide without their target --------------------------------------------


def _delta(head: Head) -> None:
    for altered in alterations(head, DeltaSettings(open_folder("file:///out"), "merge"), DELTA).values():
        if altered.unless_empty:
            raise SinkError(altered.unless_empty, hint="")


def _iceberg(head: Head) -> None:
    for altered in alterations(head, IcebergSettings("c", ("n",), mode="merge"), ICEBERG).values():
        if altered.unless_empty:
            raise SinkError(altered.unless_empty, hint="")
        if altered.before and altered.after and not altered.emptied:
            there = iceberg_schema(altered.before, "merge")
            evolved(there, there.highest_field_id, altered.after, renamed(altered.columns), again=False, mode="merge")


def _clickhouse(head: Head) -> None:
    for effect in followed(head):
        if effect.before and effect.after:
            was = replace(effect.before, name=effect.name)
            there = {column.name: column_type(column, in_key=column.name in was.key) for column in was.columns}
            change(was, effect.after, effect.columns, there)


def _mysql(head: Head) -> None:
    checked_effects(head)
    for record in head.ddls:
        if record.schema != MARK_TABLE.schema:
            statement = of_the_log(parsed(record.query, record.schema), record, head)
            tables = tables_of(statement, head)
            rewrites(statement, record, *tables, AtTarget(Flavour.MYSQL, AsInTheLog(tables[0])))
            rendered(statement, Flavour.MYSQL)


_SINKS: dict[str, Callable[[Head], object]] = {
    "delta": _delta,
    "iceberg": _iceberg,
    "clickhouse": _clickhouse,
    "opensearch": changes,
    "mysql": _mysql,
    "sqlite": lambda head: sqlite.statements(head, ()),
}
