"""What any way of raw key-values brings: the tables follow TiDB's DDL jobs, which come with the key-values; the first snapshot is TiDB's
status port's. Who delivers them is for `push/` and `tikv/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from sidecar.adapters.tidb.infos import TidbInfos
from sidecar.feeds.contract import Brought
from sidecar.feeds.kv.feed import KvFeed
from sidecar.feeds.kv.row_filter import RowFilter
from sidecar.feeds.kv.schemas import KvSchemas
from sidecar.feeds.kv.suitability import refuse_filter
from sidecar.ports import Puller
from sidecar.shared.codecs.kv import KvCodec
from sidecar.shared.config import Config
from sidecar.shared.model.nouns import Change, CommitTs, Ddl, TableName, TableSchema
from sidecar.shared.ticdc.changefeed import Changefeed
from sidecar.shared.ticdc.ddl_rules import DdlRules
from sidecar.shared.ticdc.event_filter import FilterRules
from sidecar.shared.ticdc.scope import LiveScope
from sidecar.shared.ticdc.suitability import check_suitable


def of_key_values(config: Config, changefeed: Changefeed, scope: LiveScope, puller: Callable[[], Puller]) -> Brought:
    """Raises FeedUnsuitable. `puller` begins to listen or to connect."""
    check_suitable(changefeed, None)
    refuse_filter(changefeed)
    rules = DdlRules.of(changefeed.filter, new_architecture=changefeed.new_architecture)
    schemas = KvSchemas(TidbInfos(config.source).snapshot, rules, RowFilter(FilterRules.of(changefeed)))
    scoped = ScopedSchemas(schemas, lambda tables: scope.follow(changefeed, {name: table for name, table in tables.items() if table.key}))
    return Brought(KvCodec(schemas.mark_table), scoped, lambda: KvFeed(puller(), schemas))


class ScopedSchemas:
    """The schemas, and what a dump may read follows them."""

    def __init__(self, schemas: KvSchemas, follow: Callable[[Mapping[TableName, TableSchema]], object]) -> None:
        self._schemas, self._follow = schemas, follow

    @property
    def since_ts(self) -> CommitTs:
        return self._schemas.since_ts

    def begin(self) -> Mapping[TableName, TableSchema]:
        return self._followed(self._schemas.begin())

    def resume(self, tables: Mapping[TableName, TableSchema], *, upto_ts: CommitTs) -> Mapping[TableName, TableSchema]:
        return self._followed(self._schemas.resume(tables, upto_ts=upto_ts))

    def after(self, ddls: Sequence[Ddl]) -> Mapping[TableName, TableSchema]:
        return self._followed(self._schemas.after(ddls))

    def named(self, changes: Iterable[Change]) -> Iterable[Change]:
        return self._schemas.named(changes)

    def _followed(self, tables: Mapping[TableName, TableSchema]) -> Mapping[TableName, TableSchema]:
        self._follow(tables)
        return tables
