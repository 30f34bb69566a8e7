"""Schema changes at targets that keep tables as they are in TiDB and carry no statement out themselves: which tables lose all rows, and
what no such target can follow, for TiDB changes rows without telling of each one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sidecar.core.model import TableName, TableSchema, lowered
from sidecar.errors import SinkError, UnsupportedDdl
from sidecar.log.manifest import DdlRecord
from spark_merge.sinks.mysql.ddl_parser import parsed
from spark_merge.sinks.mysql.ddl_routes import Routes
from spark_merge.sinks.mysql.ddl_statement import Kind, SchemaPiece, Statement

_MOVED_ROWS = re.compile(r"\b(?:DROP|TRUNCATE|EXCHANGE)\s+PARTITION\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Merged:
    """How a target is told of: `tables` what it keeps, `stays` why one is not renamed, `place` what a new dump goes to."""

    tables: str
    stays: str
    place: str

    def refused(self, ddl_text: str, why: str, ddls: Sequence[DdlRecord]) -> SinkError:
        stamps = ", ".join(str(ddl.commit_ts) for ddl in ddls)
        return SinkError(
            f"the DDL {ddl_text!r} cannot be carried out on {self.tables}: {why}",
            hint=f"bring the table to what TiDB has by hand and add ddl-done={stamps} to the sink's URI; or deliver a new dump to a new "
            f"{self.place}; mode=append follows every DDL",
        )


def emptied(ddls: Sequence[DdlRecord], schemas: Mapping[TableName, TableSchema], routes: Routes, of: Merged) -> set[TableName]:
    """The tables that have no row after these. Raises SinkError for what cannot be followed."""
    statements = [(ddl, _parsed(ddl, of)) for ddl in ddls]
    for ddl, statement in statements:
        _check_followed(ddl, statement, schemas, routes, of)
    return {name for ddl, statement in statements for name in _emptied(ddl, statement, schemas)}


def _parsed(ddl: DdlRecord, of: Merged) -> Statement:
    try:
        return parsed(ddl.query, ddl.schema)
    except UnsupportedDdl as error:
        raise of.refused(ddl.query, error.message, (ddl,)) from error


def _emptied(ddl: DdlRecord, statement: Statement, schemas: Mapping[TableName, TableSchema]) -> Iterator[TableName]:
    pieces = [piece for part in (statement.head, *statement.items, statement.tail) for piece in part]
    if statement.kind in (Kind.DROP_TABLE, Kind.TRUNCATE):
        named = {piece.folded() for piece in pieces if isinstance(piece, TableName)} or {TableName(ddl.schema, ddl.table).folded()}
        yield from (name for name in schemas if name.folded() in named)
    elif statement.kind is Kind.DROP_SCHEMA:
        whole = {lowered(piece.schema) for piece in pieces if isinstance(piece, SchemaPiece)} or {lowered(ddl.schema)}
        yield from (name for name in schemas if lowered(name.schema) in whole)


def _check_followed(ddl: DdlRecord, statement: Statement, schemas: Mapping[TableName, TableSchema], routes: Routes, of: Merged) -> None:
    ours = {name.folded() for name, schema in schemas.items() if schema.key}
    moves = [move for move in statement.moves if statement.kind is not Kind.CREATE_LIKE and ours & {name.folded() for name in move}]
    if statement.kind is Kind.EXCHANGE and moves:
        raise of.refused(ddl.query, "rows change places without a change of each", (ddl,))
    for source, to in moves:
        if routes.target(source).folded() != routes.target(to).folded():
            raise SinkError(
                f"the DDL {ddl.query!r} cannot be carried out on {of.tables}: {of.stays}",
                hint=f"add the route {to}=>{routes.target(source)} to routes=, so that its rows stay where they are",
            )
    if statement.kind is Kind.ALTER_TABLE and _MOVED_ROWS.search(ddl.query):
        raise of.refused(ddl.query, "rows go without a change of each", (ddl,))
