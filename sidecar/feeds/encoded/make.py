"""What every way of messages that TiCDC has encoded brings to a term, whatever carries them: they name their tables, which after a DDL are
TiDB's at that TSO.

The tables change under way, by DDLs. Who passes a DDL receives the tables after it (`FollowedSchemas`); the scope follows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple, cast

from sidecar.adapters.tidb.ddl_history import DdlHistory
from sidecar.adapters.tidb.follow import FollowedSchemas
from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.adapters.tidb.selected import SelectedTables, TablesAndRows
from sidecar.feeds.contract import Brought, LiveFeed, Note, NotifyingFeed
from sidecar.feeds.encoded.claims import ClaimFiles
from sidecar.feeds.encoded.column_order import CodecInColumnOrder, takes_other_names
from sidecar.feeds.encoded.files import folder_at
from sidecar.feeds.encoded.hidden import CodecWithCuts, WithHiddenDdls, may_change_rows, names_of
from sidecar.feeds.encoded.parked import MessageParking
from sidecar.feeds.encoded.read_rows import CodecWithReadRows, KeyRows, RowsInTime
from sidecar.feeds.encoded.whole_rows import CodecOfWholeRows, Fetch, WithWholeRows
from sidecar.shared.codecs.contract import Claim, Codec, CodecWithDescriptions, CodecWithParts, KeyAlone
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.config import Config, KafkaSection, SourceSection
from sidecar.shared.errors import ConfigError, FeedUnsuitable
from sidecar.shared.log.storage import Folder, log_folder
from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedSinkUri
from sidecar.shared.ticdc.changefeed_info import codec_of
from sidecar.shared.ticdc.ddl_rules import DdlRules
from sidecar.shared.ticdc.event_filter import FilterRules
from sidecar.shared.ticdc.large_rows import claims_uri, has_claims, has_raw_claims, may_have_large_rows
from sidecar.shared.ticdc.scope import LiveScope, ddls_hidden
from sidecar.shared.ticdc.selected_columns import SelectedColumns
from sidecar.shared.ticdc.suitability import check_suitable
from sidecar.shared.ticdc.table_routes import TableRoutes


class Begins(NamedTuple):
    """Where a new log does: now, or at `oldest`, in words. `said`: the value of `setting`, empty where it is left to us."""

    setting: str
    said: str
    oldest: str

    @property
    def now(self) -> bool:
        return self.said in ("", "now")

    def in_words(self, since_ts: CommitTs) -> str:
        """Where, and why. `since_ts` 0: at the oldest messages."""
        if since_ts:
            why = f"as {self.setting} says" if self.said else f"the default of {self.setting}"
            return f"now, at TSO {since_ts} of its tables ({why}): what is older is skipped, a dump brings its rows"
        why = f"as {self.setting} says" if not self.now else "the source reports no TSO at which to begin"
        return f"at {self.oldest} ({why}): read with the present tables, whatever DDLs are among them"


def of_messages(
    config: Config,
    changefeed: Changefeed,
    source: TidbSchemas,
    schemas: FollowedSchemas,
    feed: Callable[[], NotifyingFeed],
    place: Callable[[], Mapping[str, str]],
) -> Brought:
    """`feed` of the messages themselves begins to listen or to connect. Raises FeedUnsuitable for a filter that is not understood."""
    routed = bool(TableRoutes.of(changefeed).routes)
    hidden = ddls_hidden(changefeed) and source.now_ts() is not None
    if routed and not hidden:
        raise FeedUnsuitable(
            f"changefeed {changefeed.name} sends tables under other names; its DDLs are read from TiDB's history, and the source has none",
            hint="set source to the changefeed's upstream TiDB; or take target-schema and target-table out of its dispatchers",
        )
    opened: list[NotifyingFeed] = []

    messages_codec = codec_of(changefeed)
    codec = CodecWithReadRows(messages_codec) if may_have_large_rows(changefeed) else messages_codec
    if takes_other_names(changefeed):
        codec = CodecInColumnOrder(codec, cast(CodecWithDescriptions, messages_codec), lambda: schemas.tables, lambda: schemas.after_ts)
    claims_folder(changefeed, config.kafka)  # raises before a term begins
    parking = MessageParking(log_folder(config.log.uri), messages_codec)

    def opening() -> LiveFeed:
        rows = SelectedTables(source, SelectedColumns.of(changefeed))
        whole = with_whole_rows(parking.around(feed()), messages_codec, changefeed, config.kafka, rows, lambda: schemas.after_ts)
        opened.append(with_hidden_ddls(whole, changefeed, config.source, schemas) if hidden else whole)
        return opened[-1]

    still_because = lambda: opened[-1].still_because() if opened else ""  # noqa: E731 - as short as it is used
    return Brought(CodecWithCuts(codec, all_hidden=routed) if hidden else codec, schemas, opening, still_because, place, parking)


def schemas_of(
    source: TablesAndRows,
    scope: LiveScope,
    changefeed: Changefeed,
    note: Note,
    *,
    from_now: bool = True,
) -> FollowedSchemas:
    """For one term. Raises FeedUnsuitable."""

    def narrow(tables: Mapping[TableName, TableSchema]) -> Mapping[TableName, TableSchema]:
        check_suitable(changefeed, tables)  # a setting can be wrong for a table that has just come
        carried = scope.follow(changefeed, tables)
        return {name: replace(table, feed_name=routes.feed_name(name)) for name, table in carried.items()}

    routes = TableRoutes.of(changefeed)
    selected = SelectedTables(source, SelectedColumns.of(changefeed))
    return FollowedSchemas(selected, narrow=narrow, note=note, from_now=from_now)


def with_whole_rows(
    feed: NotifyingFeed, codec: Codec, changefeed: Changefeed, settings: KafkaSection, rows: RowsInTime, after_ts: Callable[[], CommitTs]
) -> NotifyingFeed:
    """With the rows that are larger than a message, where the changefeed has such; `after_ts` as of WithWholeRows. Raises ConfigError."""
    if not may_have_large_rows(changefeed):
        return feed
    keys = KeyRows(codec.name, rows, ServerZone(settings.server_tz))
    ways: dict[type[Claim] | type[KeyAlone], Fetch] = {}
    if not TableRoutes.of(changefeed).routes:  # else its message has another table's name
        ways[KeyAlone] = keys
    if (folder := claims_folder(changefeed, settings)) is not None:
        ways[Claim] = ClaimFiles(codec, folder, raw=has_raw_claims(changefeed))
    return WithWholeRows(feed, cast(CodecWithParts, codec), ways, after_ts=after_ts, end=keys.close)


def of_whole_rows(codec: Codec, changefeed: Changefeed) -> Codec:
    """For who looks at messages alone."""
    return CodecOfWholeRows(cast(CodecWithParts, codec)) if may_have_large_rows(changefeed) else codec


def claims_folder(changefeed: Changefeed, settings: KafkaSection) -> Folder | None:
    """Of rows that are larger than a message; None where there are none. Raises ConfigError for one that cannot be read from here."""
    if settings.claim_check_uri and may_have_large_rows(changefeed):
        return folder_at(changefeed.sink, ours=settings.claim_check_uri, setting="kafka.claim_check_uri")
    if not has_claims(changefeed):
        return None
    uri = claims_uri(changefeed)
    if not isinstance(uri, str) or "://" not in uri:
        raise ConfigError(
            f"the definition of changefeed {changefeed.name} says claim-check, and has no claim-check-storage-uri",
            hint="give the whole definition; TiCDC has none without it",
        )
    return folder_at(ChangefeedSinkUri.parsed(uri), ours="", setting="kafka.claim_check_uri")


def with_hidden_ddls(feed: NotifyingFeed, changefeed: Changefeed, source: SourceSection, schemas: FollowedSchemas) -> WithHiddenDdls:
    """For a changefeed whose filter omits DDLs, or that sends tables under other names. Raises FeedUnsuitable for a filter that is not
    understood."""
    rules, carried = DdlRules.of(changefeed.filter, new_architecture=changefeed.new_architecture), FilterRules.of(changefeed).has
    hides = may_change_rows if TableRoutes.of(changefeed).routes else rules.may_hide
    history = DdlHistory(source, lambda ddl: bool(names_of(ddl, carried)))
    return WithHiddenDdls(feed, history, begins=lambda: schemas.known_ts, carried=carried, hides=hides)
