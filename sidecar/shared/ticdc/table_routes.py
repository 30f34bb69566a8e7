"""Table routes: under which name a changefeed sends a table (`target-schema` and `target-table` of a dispatcher; new architecture, v8.5.7).

- Of the dispatchers that have one of them, the first that has the table decides; one without them does not count, whatever it matches.
- Rows have the target's name in every protocol, and so have the folders of files. DDLs have a text with targets' names, and TiCDC sends
  one with the source's names where nothing in it is routed: no text says which. So DDLs are TiDB's own (feeds/encoded/hidden.py).
- Topics, partitions, column selectors and filters go by the source's name.
- Here a table has the name that it has in TiDB. Two tables with one target are refused, as TiCDC does it: no row would say whose it is.
- The watermark table is routed like any other.

Source: pingcap/ticdc pkg/routing/router.go, registry.go; pkg/sink/codec (GetTargetSchemaName); downstreamadapter/sink/kafka/sink.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Change, TableName, TableSchema
from sidecar.shared.ticdc.changefeed import Changefeed, Dispatcher
from sidecar.shared.ticdc.table_rules import TableRules, compiled


@dataclass(frozen=True, slots=True)
class TableRoutes:
    """Of one changefeed; `of` makes it."""

    routes: tuple[tuple[TableRules, Dispatcher], ...]

    @classmethod
    def of(cls, changefeed: Changefeed) -> TableRoutes:
        """Raises FeedUnsuitable for rules that are none."""
        sensitive = changefeed.filter.case_sensitive
        return cls(
            tuple(
                (compiled(f"sink.dispatchers number {number}, matcher", one.matcher, case_sensitive=sensitive), one)
                for number, one in enumerate(changefeed.dispatchers, 1)
                if one.target_schema or one.target_table
            )
        )

    def target(self, table: TableName) -> TableName:
        route = next((route for rules, route in self.routes if rules.matches(table)), None)
        if route is None:
            return table
        return TableName(_filled(route.target_schema, table, table.schema), _filled(route.target_table, table, table.table))

    def feed_name(self, table: TableName) -> TableName | None:
        """None: its own."""
        target = self.target(table)
        return None if target == table else target

    def conflicts(self, tables: Iterable[TableName]) -> list[tuple[TableName, TableName, TableName]]:
        """Targets of more than one table, each with two that have it."""
        sources: dict[TableName, TableName] = {}
        pairs = [(target, sources.setdefault(target, table), table) for table in sorted(tables) for target in (self.target(table),)]
        return [pair for pair in pairs if pair[1] != pair[2]]


def _filled(expression: str, table: TableName, own: str) -> str:
    """TiCDC fills in the one, then the other: a schema that is called {table} becomes the table."""
    return expression.replace("{schema}", table.schema).replace("{table}", table.table) if expression else own


def names_in_feed(tables: Mapping[TableName, TableSchema]) -> Mapping[TableName, TableName]:
    """TiDB's names by the feed's, of tables with a key; folded too, where one table has that. Empty where all are
    the same."""
    if all(table.feed_name is None for table in tables.values()):
        return {}
    exact = {table.feed_name or name: name for name, table in tables.items() if table.key}
    tables_of = Counter(in_feed.folded() for in_feed in exact)
    return {folded: name for in_feed, name in exact.items() if tables_of[folded := in_feed.folded()] == 1} | exact


def with_own_name(change: Change, names: Mapping[TableName, TableName]) -> Change:
    """`names`: as of `names_in_feed`. Raises FeedUnsuitable for a name that no table has in the feed."""
    name = TableName(change.schema, change.table)
    own = names.get(name) or names.get(name.folded())
    if own is None:
        raise FeedUnsuitable(
            f"{change.lane}@{change.position} has a change of {change.schema}.{change.table} at commit_ts {change.commit_ts}, a name under"
            " which the changefeed sends no table (target-schema, target-table)",
            hint="if its dispatchers were changed, set them again as they were, or begin a new log behind these rows and dump; if it was"
            " filter.rules, see deploy/FIRST-DAY.md; else report this",
        )
    return change._replace(schema=own.schema, table=own.table)
