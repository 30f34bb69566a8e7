"""What a term's stream is made of, by the way in which the changes come: feed, codec and schemas belong together.

kafka    the changefeed's own sink; its tables after a DDL are TiDB's at that TSO
push     raw key-values that a custom sink hands over        } the tables follow TiDB's DDL jobs, which come with the
tikv     raw key-values of TiKV's own change feed            } key-values; the first snapshot is TiDB's status port's
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sidecar.adapters.changefeed_info import codec_of
from sidecar.adapters.tidb_infos import TidbInfos
from sidecar.adapters.tidb_schema import TidbSchemas
from sidecar.codecs.contract import Codec
from sidecar.codecs.kv import KvCodec
from sidecar.config import Config
from sidecar.core.changefeed import Changefeed
from sidecar.core.ddl_rules import DdlRules
from sidecar.core.model import Change, CommitTs, Ddl, TableName, TableSchema
from sidecar.definition import check_suitable
from sidecar.feeds.kv import KvFeed
from sidecar.feeds.kv_schemas import KvSchemas
from sidecar.feeds.kv_suitability import refuse_filter
from sidecar.feeds.push import PushPuller
from sidecar.feeds.tikv import TikvPuller
from sidecar.ports import Puller, Schemas
from sidecar.term import LiveFeed
from sidecar.upstream import LiveScope, feed_of, present_names, schemas_of


class FollowingSchemas(Schemas, Protocol):
    @property
    def last_ddl(self) -> Ddl | None: ...


@dataclass(frozen=True, slots=True)
class Stream:
    """`feed` begins to listen or to connect: for the owner only. `still_because`: what the feed knows of why it does not move."""

    codec: Codec
    schemas: FollowingSchemas
    feed: Callable[[], LiveFeed]
    still_because: Callable[[], str] = lambda: ""


def stream_of(config: Config, changefeed: Changefeed, source: TidbSchemas, scope: LiveScope, note: Callable[[str], None]) -> Stream:
    """For one term, by `config.feed`. Raises FeedUnsuitable for a changefeed that cannot be served that way."""
    if config.feed == "kafka":
        existing = source.tables()
        check_suitable(changefeed, existing)
        schemas = schemas_of(source, scope, changefeed, existing, note)
        names = present_names(config.source)
        return Stream(codec_of(changefeed), schemas, lambda: feed_of(changefeed, config.kafka, lambda: schemas.tables, names))
    check_suitable(changefeed, None)
    refuse_filter(changefeed.filter)
    rules = DdlRules.of(changefeed.filter, new_architecture=changefeed.new_architecture)
    of_kv = KvSchemas(TidbInfos(config.source).snapshot, rules)
    scoped = _ScopedSchemas(of_kv, lambda tables: scope.follow(changefeed, {n: t for n, t in tables.items() if t.key}))
    if config.feed == "tikv":
        made = _Tikv(config, changefeed)
        return Stream(KvCodec(of_kv.mark_table), scoped, lambda: KvFeed(made.puller(), of_kv), made.still_because)
    return Stream(KvCodec(of_kv.mark_table), scoped, lambda: KvFeed(PushPuller(config.push, changefeed=changefeed.name), of_kv))


class _Tikv:
    """The term's puller, once it is made."""

    def __init__(self, config: Config, changefeed: Changefeed) -> None:
        self._section, self._name = config.tikv, f"{changefeed.name}/{changefeed.incarnation}"
        self._puller: TikvPuller | None = None

    def puller(self) -> Puller:
        self._puller = TikvPuller(self._section, name=self._name)
        return self._puller

    def still_because(self) -> str:
        view = self._puller.view() if self._puller is not None else None
        if view is None:
            return ""
        waits = next((part.waits_for for part in view.held), view.slowest.waits_for if view.slowest else "")
        return waits or (f"looking for locks failed {view.lock_errors} times: {view.last_lock_error}" if view.lock_errors else "")


class _ScopedSchemas:
    """Key-values' schemas, and what a dump may read follows them."""

    def __init__(self, schemas: KvSchemas, follow: Callable[[Mapping[TableName, TableSchema]], object]) -> None:
        self._schemas, self._follow = schemas, follow
        self.last_ddl: Ddl | None = None

    def begin(self) -> Mapping[TableName, TableSchema]:
        return self._followed(self._schemas.begin())

    def resume(self, tables: Mapping[TableName, TableSchema], *, upto_ts: CommitTs) -> Mapping[TableName, TableSchema]:
        return self._followed(self._schemas.resume(tables, upto_ts=upto_ts))

    def after(self, ddls: Sequence[Ddl]) -> Mapping[TableName, TableSchema]:
        tables = self._followed(self._schemas.after(ddls))
        self.last_ddl = next((ddl for ddl in reversed(ddls) if ddl.query), self.last_ddl)
        return tables

    def named(self, changes: Iterable[Change]) -> Iterable[Change]:
        return self._schemas.named(changes)

    def _followed(self, tables: Mapping[TableName, TableSchema]) -> Mapping[TableName, TableSchema]:
        self._follow(tables)
        return tables
