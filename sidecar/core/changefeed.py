"""A changefeed as TiCDC has it in etcd (ChangeFeedInfo), cut down to what decides our stream. Plain values.

`adapters/changefeed_info.py` makes it from the JSON; `core/event_filter.py` says what its filter lets through.
Source: pingcap/tiflow cdc/model/changefeed.go, pkg/config; facts/ticdc.md sections 4 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ChangefeedName:
    """`cluster`: TiCDC's --cluster-id. `namespace`: of the classic architecture; the other one calls it keyspace."""

    cluster: str
    namespace: str
    id: str

    def __str__(self) -> str:
        return f"{self.cluster}/{self.namespace}/{self.id}"


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """The first dispatcher whose `matcher` (table rules) has a table decides its topic and partitions. `topic` is an
    expression with {schema} and {table}; empty: the changefeed's default topic."""

    matcher: tuple[str, ...]
    topic: str
    partition: str


@dataclass(frozen=True, slots=True)
class ColumnSelector:
    """Columns that the feed carries, of the tables that `matcher` has."""

    matcher: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EventFilter:
    """What is left out of the tables that `matcher` has. Expressions are SQL over the row's columns; empty: none."""

    matcher: tuple[str, ...]
    ignore_event: tuple[str, ...] = ()
    ignore_sql: tuple[str, ...] = ()
    ignore_insert_value_expr: str = ""
    ignore_update_old_value_expr: str = ""
    ignore_update_new_value_expr: str = ""
    ignore_delete_value_expr: str = ""


@dataclass(frozen=True, slots=True)
class FeedFilter:
    rules: tuple[str, ...] = ("*.*",)
    case_sensitive: bool = False
    event_filters: tuple[EventFilter, ...] = ()
    ignore_txn_start_ts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Changefeed:
    """`incarnation` is made of create time and start-ts: a changefeed that was removed and made again under the same id is
    another one, with a log and a progress of its own. `sink_uri` holds the password as etcd has it; `str()` hides it.
    `new_architecture`: which of TiCDC's two wrote it. `config`: the rest of TiCDC's config section, kebab-case, for the preflight.
    """

    name: ChangefeedName
    incarnation: str
    sink_uri: str = field(repr=False)
    protocol: str = ""
    start_ts: int = 0
    state: str = "normal"
    error: str | None = None
    creator_version: str = ""
    new_architecture: bool = False
    force_replicate: bool = False
    filter: FeedFilter = FeedFilter()
    dispatchers: tuple[Dispatcher, ...] = ()
    column_selectors: tuple[ColumnSelector, ...] = ()
    config: dict[str, object] = field(default_factory=dict, repr=False)
