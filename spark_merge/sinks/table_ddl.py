"""Schema changes at targets that keep tables as they are in TiDB and carry no statement out themselves: which tables lose all rows, and
what no such target can follow, for TiDB changes rows without telling of each one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sidecar.core.model import TableName, TableSchema, lowered
from sidecar.errors import SinkError
from sidecar.log.manifest import DdlRecord
from spark_merge.contract import Head
from spark_merge.ddl.logged import LoggedDdl, logged_ddls
from spark_merge.ddl.routes import Routes
from spark_merge.ddl.statement import Kind, Partitions, Statement


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


def statements(head: Head, ddls: Sequence[DdlRecord], routes: Routes, of: Merged) -> list[Statement]:
    """Of `ddls`, which are `head`'s. Raises SinkError for what cannot be followed."""
    found = logged_ddls(head, ddls)
    for ddl in found:
        if ddl.problem is not None:
            raise of.refused(ddl.record.query, ddl.problem.message, (ddl.record,)) from ddl.problem
        _check_followed(ddl, head.schemas, routes, of)
    return [ddl.statement for ddl in found]


def emptied(statements: Iterable[Statement], schemas: Mapping[TableName, TableSchema]) -> set[TableName]:
    """The tables that have no row after these."""
    return {name for statement in statements for name in _emptied(statement, schemas)}


def _emptied(statement: Statement, schemas: Mapping[TableName, TableSchema]) -> Iterator[TableName]:
    if statement.kind in (Kind.DROP_TABLE, Kind.TRUNCATE):
        named = {name.folded() for name in statement.tables()}
        yield from (name for name in schemas if name.folded() in named)
    elif statement.kind is Kind.DROP_SCHEMA:
        whole = {lowered(name) for name in statement.schemas()}
        yield from (name for name in schemas if lowered(name.schema) in whole)


def _check_followed(ddl: LoggedDdl, schemas: Mapping[TableName, TableSchema], routes: Routes, of: Merged) -> None:
    record, statement = ddl.record, ddl.statement
    ours = {name.folded() for name, schema in schemas.items() if schema.key}
    moves = [move for move in statement.moves if statement.kind is not Kind.CREATE_LIKE and ours & {name.folded() for name in move}]
    if statement.kind is Kind.EXCHANGE and moves:
        raise of.refused(record.query, "rows change places without a change of each", (record,))
    for source, to in moves:
        if routes.target(source).folded() != routes.target(to).folded():
            raise SinkError(
                f"the DDL {record.query!r} cannot be carried out on {of.tables}: {of.stays}",
                hint=f"add the route {to}=>{routes.target(source)} to routes=, so that its rows stay where they are",
            )
    if statement.partitions is Partitions.ROWS_LEAVE and statement.tables()[0].folded() in ours:
        raise of.refused(record.query, "rows go without a change of each", (record,))
