"""A changefeed as TiCDC has it in etcd (ChangeFeedInfo), cut down to what decides our stream. Plain values.

`ticdc/changefeed_info.py` makes it from the JSON; `ticdc/event_filter.py` says what its filter lets through.
Source: pingcap/tiflow cdc/model/changefeed.go, pkg/config, pkg/etcd/etcdkey.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from sidecar.shared.errors import ConfigError

KAFKA_SCHEMES = frozenset({"kafka", "kafka+ssl"})

PUSH_SCHEME = "ticdc-dump"
"""Of our own sink in TiCDC (deploy/push): its messages are Kafka's."""

MESSAGE_SCHEMES = KAFKA_SCHEMES | {PUSH_SCHEME}
"""TiCDC treats both alike: TLS is decided by `enable-tls` and the certificates."""


STORAGE_SCHEMES = frozenset({"file", "s3", "gcs", "gs", "azblob", "azure"})
"""Of the storage sink (pingcap/ticdc pkg/config, IsStorageScheme)."""

UNKNOWN = "unknown"
"""The state of a changefeed whose definition is a file's."""

NAME = r"[A-Za-z0-9_-]{1,128}"
NAME_FORM = "letters, digits and -, 128 at most"
"""Of TiCDC's names; a keyspace's may have _ too."""


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
    expression with {schema} and {table}; empty: the changefeed's default topic. `target_schema`, `target_table`: other names
    in the feed (the new architecture's table routing); empty: none."""

    matcher: tuple[str, ...]
    topic: str
    partition: str
    target_schema: str = ""
    target_table: str = ""


@dataclass(frozen=True, slots=True)
class ColumnSelector:
    """Columns that the feed carries, of the tables that `matcher` has."""

    matcher: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EventFilter:
    """What is omitted of the tables that `matcher` has. Expressions are SQL over the row's columns; empty: none."""

    matcher: tuple[str, ...]
    ignore_event: tuple[str, ...] = ()
    ignore_sql: tuple[str, ...] = ()
    ignore_insert_value_expr: str = ""
    ignore_update_old_value_expr: str = ""
    ignore_update_new_value_expr: str = ""
    ignore_delete_value_expr: str = ""
    ignore_update_only_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FeedFilter:
    rules: tuple[str, ...] = ("*.*",)
    case_sensitive: bool = False
    event_filters: tuple[EventFilter, ...] = ()
    ignore_txn_start_ts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangefeedSinkUri:
    """`hosts`: `host:port` or `[::1]:port`, as written. `path`: without the slashes around it; Kafka's default topic.
    `parameters`: the first value of each."""

    scheme: str
    hosts: tuple[str, ...]
    path: str
    parameters: dict[str, str] = field(repr=False)

    @classmethod
    def parsed(cls, text: str) -> ChangefeedSinkUri:
        """Raises ConfigError. Several hosts with IPv6 among them are more than `urllib` reads."""
        match = re.fullmatch(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#.*)?", text, re.DOTALL)
        if match is None:
            raise ConfigError("the changefeed's sink URI is not one", hint="give it as scheme://host:port/path?parameter=value")
        scheme, place, path, query = match.groups(default="")
        parameters = dict(reversed(parse_qsl(query, keep_blank_values=True)))
        hosts = tuple(host for host in place.rpartition("@")[2].split(",") if host)
        return cls(scheme.lower(), hosts, unquote(path).strip("/"), parameters)


_GO_TRUE, _GO_FALSE = {"1", "t", "T", "TRUE", "true", "True"}, {"0", "f", "F", "FALSE", "false", "False", ""}


@dataclass(frozen=True, slots=True)
class Changefeed:
    """`incarnation` is made of create time and start-ts: a changefeed that was removed and made again under the same id is
    another one, with a log and a progress of its own. `sink_uri` holds the password as etcd has it; `str()` hides it.
    `target_ts`: where TiCDC ends, 0 for never. `created_ms`: when it was made, in Unix ms, 0 where that is not known. `new_architecture`:
    which of TiCDC's two wrote it. `config`: TiCDC's config section as it is, kebab-case; it may hold passwords too. `upstream_id`: of the
    cluster that it reads, as its PD has it; 0: not recorded.
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
    target_ts: int = 0
    upstream_id: int = 0
    created_ms: int = 0

    @property
    def log_id(self) -> str:
        """Names the changefeed and its incarnation, for ever."""
        return f"{self.name}/{self.incarnation}"

    @property
    def sink(self) -> ChangefeedSinkUri:
        """Raises ConfigError for a URI that is not one."""
        return ChangefeedSinkUri.parsed(self.sink_uri)

    def setting(self, *path: str) -> object:
        """A value of the config section, None if it is not there: `setting("sink", "open", "output-old-value")`."""
        config: object = self.config
        for name in path:
            config = config.get(name) if isinstance(config, dict) else None
        return config

    def option(self, *path: str) -> str:
        """A text that the sink URI has under the path's last name, else the config under the path; empty if neither."""
        parameter = self.sink.parameters.get(path[-1]) or self.setting(*path)
        return parameter if isinstance(parameter, str) else ""

    def flag(self, *path: str) -> bool:
        """The same for a switch. TiCDC merges so that `false` in the URI does not undo `true` in the config (mergo).

        Raises ConfigError for a parameter that is neither true nor false.
        """
        parameter = self.sink.parameters.get(path[-1], "")
        if parameter not in _GO_TRUE | _GO_FALSE:
            raise ConfigError(f"{path[-1]}={parameter} in the changefeed's sink URI is no switch", hint="give it as true or false")
        return parameter in _GO_TRUE or self.setting(*path) is True
