"""What every way of messages that TiCDC has encoded needs of the changefeed, whatever carries them."""

from __future__ import annotations

from functools import partial

from sidecar.adapters.tidb.ddl_history import may_read
from sidecar.feeds.checks import CHANGEFEED, MARK, SCHEMAS, TABLES, TIDB, Tables, of_problem
from sidecar.feeds.encoded.column_order import takes_other_names
from sidecar.feeds.encoded.files import feed_error
from sidecar.feeds.encoded.make import claims_folder
from sidecar.shared.config import SourceSection
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.process.checks import Check, CheckFinding, Checking, CheckResult, Key, listed, ok, warning
from sidecar.shared.ticdc.changefeed import Changefeed
from sidecar.shared.ticdc.event_filter import FilterRules
from sidecar.shared.ticdc.large_rows import KEYS_ALONE, large_rows_option
from sidecar.shared.ticdc.scope import ddls_hidden
from sidecar.shared.ticdc.selected_columns import SelectedColumns
from sidecar.shared.ticdc.suitability import problems
from sidecar.shared.ticdc.table_routes import TableRoutes


def settings(changefeed: Changefeed, existing: Tables | None) -> Checking[None]:
    against = [problem for problem in problems(changefeed, existing) if problem.setting != "state"]
    yield from map(of_problem, against)
    if takes_other_names(changefeed):
        yield warning(
            f"TiCDC's classic architecture gives values under other columns' names in {changefeed.protocol}, once a column was added by"
            " FIRST or AFTER, or its type was rewritten: the sidecar stops where it learns that, and rows before it may be wrong",
            setting="protocol (changefeed)",
            hint="use open-protocol or canal-json, unless each column was added at the end and will be",
        )
    if not against:
        by = f"judged by {len(existing)} tables" if existing is not None else "judged without the tables"
        yield ok(f"protocol, whole rows, filter and dispatchers are fit for a dump ({by})")
        yield from _of_columns(changefeed, existing or {})
        yield from _of_names(changefeed, existing or {})


def _of_columns(changefeed: Changefeed, existing: Tables) -> Checking[None]:
    """Those that its selectors omit of tables that it has."""
    selected, rules = SelectedColumns.of(changefeed), FilterRules.of(changefeed)
    narrowed = (selected.narrowed(table) for name, table in sorted(existing.items()) if rules.has(name))
    omitted = [f"{table.name} ({', '.join(column.name for column in table.omitted)})" for table in narrowed if table.omitted]
    if omitted:
        yield ok(f"sink.column-selectors omit columns, which dumps and sinks have not either: {listed(omitted)}")


def _of_names(changefeed: Changefeed, existing: Tables) -> Checking[None]:
    routes, rules = TableRoutes.of(changefeed), FilterRules.of(changefeed)
    routed = [f"{name} as {target}" for name in sorted(existing) if rules.has(name) and (target := routes.feed_name(name))]
    if routed:
        yield ok(f"the changefeed sends tables under other names, and sinks have TiDB's: {listed(routed)}")


def _hidden_ddls(it: CheckResult) -> Checking[None]:
    yield of_hidden_ddls(it.config.source, it[CHANGEFEED])


def of_hidden_ddls(section: SourceSection, changefeed: Changefeed) -> CheckFinding:
    """Whether DDLs that do not come by the feed can be followed all the same. Raises FeedUnsuitable for a filter that is not understood."""
    if TableRoutes.of(changefeed).routes:
        why, way_out = "the changefeed sends tables under other names", "take target-schema and target-table out of its dispatchers"
    elif ddls_hidden(changefeed):
        why, way_out = "the changefeed's filter leaves DDLs out", "narrow the event filters to rows"
    else:
        return ok("every DDL comes by the feed")
    if may_read(section):
        return ok(f"{why}: DDLs are read from TiDB's own history, and no sink receives their text")
    what = f"{why}, and {section.user} may not read TiDB's history: a DDL stops the stream"
    grants = "; ".join(f"GRANT SELECT ON mysql.{table} TO '{section.user}'@'%'" for table in ("tidb_ddl_job", "tidb_ddl_history"))
    return warning(what, setting="filter.event-filters, sink.dispatchers (changefeed), GRANT SELECT", hint=f"{grants}; or {way_out}")


SETTINGS: Check[None] = Check(
    Key("changefeed settings"),
    lambda it: settings(it[CHANGEFEED], it.get(SCHEMAS, None)),
    "sink-uri (changefeed)",
    (CHANGEFEED,),
    before=TABLES,
)


def _large_rows(it: CheckResult) -> Checking[None]:
    if large_rows_option(it[CHANGEFEED]) == KEYS_ALONE:
        yield ok("rows that are larger than a message are read from TiDB by their keys, as of their commit, while its GC lets them")
    else:
        yield of_large_rows(claims_folder(it[CHANGEFEED], it.config.kafka))


def of_large_rows(folder: Folder | None) -> CheckFinding:
    """Whether rows that are larger than a message can be read. Raises FeedUnsuitable."""
    if folder is None:
        return ok("every row is in a message, or TiCDC stops")
    storage.exists(folder.opened_for(partial(feed_error, waits=False)), "0.json")
    return ok(f"rows that are larger than a message are read from {folder}")


LARGE_ROWS: Check[None] = Check(
    Key("large rows"), _large_rows, "kafka.claim_check_uri, claim-check-storage-uri (changefeed)", (CHANGEFEED,), before=MARK
)

HIDDEN: Check[None] = Check(
    Key("hidden DDLs"), _hidden_ddls, "filter.event-filters (changefeed), GRANT SELECT", (CHANGEFEED, TIDB), before=MARK
)
