"""What the changefeed carries of the tables there are, as DDLs change them. With it follows what operators may dump.

It must not know who reports the tables: the `Schemas` of any feed do. The pipeline asks about a table that a DDL brings.
"""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.shared.model.nouns import MARK_TABLE, TableName, TableSchema
from sidecar.shared.ticdc.changefeed import Changefeed
from sidecar.shared.ticdc.event_filter import FilterRules, LeftOut, Through, dump_scope
from sidecar.shared.ticdc.hidden_changes import Explanation, explanations
from sidecar.shared.ticdc.table_routes import TableRoutes


class LiveScope:
    """What the changefeed carries. `follow` gives it a new definition or other tables; the other calls may come from any thread."""

    def __init__(self, *, server_tz: str) -> None:
        self._server_tz = server_tz
        self._through: dict[TableName, Through | LeftOut] = {}
        self._explanations: dict[TableName, tuple[Explanation, ...]] = {}
        self._omitted: dict[TableName, frozenset[str]] = {}
        self._rules: FilterRules | None = None
        self.warnings: tuple[str, ...] = ()

    def follow(self, changefeed: Changefeed, schemas: Mapping[TableName, TableSchema]) -> dict[TableName, TableSchema]:
        """The tables of `schemas` that the changefeed has, the watermark table among them. Raises FeedUnsuitable."""
        scope = dump_scope(changefeed, schemas, server_tz=self._server_tz)
        rules = FilterRules.of(changefeed)
        skipped = bool(changefeed.filter.ignore_txn_start_ts)
        self._explanations = {
            table: explanations(rules, table, key=schema.key, skipped_transactions=skipped) for table, schema in schemas.items()
        }
        self._omitted = {table: frozenset(one.name for one in schema.omitted) for table, schema in schemas.items()}
        self._through, self._rules, self.warnings = dict(scope.tables), rules, scope.warnings
        return {table: schema for table, schema in schemas.items() if table == MARK_TABLE or rules.has(table)}

    def has(self, table: TableName) -> bool:
        """Whether the changefeed's table rules have it, also if it has not come by the feed yet."""
        return self._rules is not None and self._rules.has(table)

    def through(self, table: TableName) -> tuple[bool, str]:
        """Whether existing rows of `table` may be dumped, and the predicate of those that may, or why not."""
        known = self._through.get(table)
        match known:
            case Through(predicate):
                return True, predicate or ""
            case LeftOut(reason):
                return False, reason
            case None:
                return False, "the changefeed's table rules leave it out, or the DDL that made it has not come by the feed yet"

    def explains(self, table: TableName) -> tuple[Explanation, ...]:
        """What of the filter can make a sink's rows of `table` differ from the source's, and be right."""
        return self._explanations.get(table, ())

    def omits(self, table: TableName) -> frozenset[str]:
        """Columns of it that no row in the feed has, by TiDB's names."""
        return self._omitted.get(table, frozenset())


def ddls_hidden(changefeed: Changefeed) -> bool:
    """Whether DDLs of tables that there are or that may come do not come by the feed, or under other names. Raises FeedUnsuitable."""
    omitted = bool(changefeed.filter.ignore_txn_start_ts) or FilterRules.of(changefeed).hides_ddls()
    return omitted or bool(TableRoutes.of(changefeed).routes)
