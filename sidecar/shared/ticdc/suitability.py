"""What in a changefeed's definition makes a dump impossible or wrong, setting by setting, for the preflight.

- Judged from the definition alone, all of it at once: an operator mends a changefeed in one go. What only a look at Kafka or
  TiDB shows (partitions without marks, rights, the watermark table) is not known here.
- A dump needs commit_ts and resolved marks (the protocol), whole old images, the handle key of each row (selected_columns.py), a name of
  its own for each table (table_routes.py), and a feed that holds every change of the rows that it sends (no omitted transactions).
- A dump needs no watermark row: where `no_marks` says why none can come, dumps have snapshot brackets.
- Fine, and so not in the list: any dispatch by partition (rows are ordered by commit_ts), raw change events, several topics,
  compression by Kafka's own codec, integrity checksums, tables across nodes, states `pending` and `warning` (TiCDC tries again).

Source: facts of pingcap/tiflow pkg/config, pkg/sink/codec, cdc/model/changefeed.go, and of pingcap/ticdc.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sidecar.shared.codecs.registry import CARRIERS, codec_module, compression_of, protocol_of
from sidecar.shared.errors import FeedUnsuitable, with_hint
from sidecar.shared.model.nouns import MARK_TABLE, TableName, TableSchema
from sidecar.shared.model.soft_delete import is_active_active, is_softly_deleted
from sidecar.shared.ticdc.changefeed import KAFKA_SCHEMES, MESSAGE_SCHEMES, PUSH_SCHEME, STORAGE_SCHEMES, UNKNOWN, Changefeed
from sidecar.shared.ticdc.changefeed_info import codec_settings, files_of_csv
from sidecar.shared.ticdc.csv_dialect import csv_dialect
from sidecar.shared.ticdc.event_filter import FilterRules, dump_scope, mark_table_problem
from sidecar.shared.ticdc.large_rows import CLAIM_CHECK, KEYS_ALONE, large_rows_option
from sidecar.shared.ticdc.selected_columns import SelectedColumns
from sidecar.shared.ticdc.table_routes import TableRoutes
from sidecar.shared.ticdc.table_rules import compiled
from sidecar.shared.ticdc.topics import topic_of


@dataclass(frozen=True, slots=True)
class Problem:
    """`setting` as it is called in TiCDC's configuration file or sink URI. `hint`: the way out, in the imperative."""

    setting: str
    what: str
    hint: str


_WHOLE_ROWS = "set it to false in the changefeed's [sink] (and take it out of the sink URI)"
_STATES = {
    "stopped": "resume it: cdc cli changefeed resume",
    "failed": "mend what its error says and resume it, or create it again",
    "finished": "create it again without a target-ts",
    "removed": "create it again",
}
_RUNNING = frozenset({"normal", "pending", "warning", UNKNOWN})

_OF_A_MARK = ("changefeed_id", "unique_identifier", "event_type")
"""Columns of the watermark table without which no codec reads a mark."""

_Schemas = Mapping[TableName, TableSchema]


def problems_of_key_values(changefeed: Changefeed) -> list[Problem]:
    """What is wrong with a changefeed whose rows come as raw key-values: its sink and its protocol do not matter."""
    return [*_of_the_life(changefeed), *_of_the_filter(changefeed, with_topics=False)]


def check_suitable(changefeed: Changefeed, schemas: _Schemas | None) -> None:
    """Raises FeedUnsuitable naming everything that makes a dump of the changefeed impossible or wrong. `schemas` None: its rows come
    as raw key-values.

    Its state is not judged: a changefeed that is paused or has failed sends nothing now, and will resume where it stopped.
    """
    running = replace(changefeed, state="normal", error=None)
    against = problems_of_key_values(running) if schemas is None else problems(running, schemas)
    if against:
        raise FeedUnsuitable(
            f"changefeed {changefeed.name} cannot be dumped: " + "; ".join(f"{problem.setting}: {problem.what}" for problem in against),
            hint="; ".join(problem.hint for problem in against),
        )


def problems(changefeed: Changefeed, schemas: _Schemas | None = None) -> list[Problem]:
    """Everything that is wrong, empty if nothing is. With `schemas`, what depends on the tables is judged by them (those that
    the changefeed's rules have), without them by the setting alone. Raises ConfigError for a sink URI that TiCDC would not take."""
    against = [
        *_of_the_life(changefeed),
        *_of_the_sink(changefeed, schemas),
        *_of_the_rows(changefeed),
        *_of_the_filter(changefeed, with_topics=changefeed.sink.scheme in KAFKA_SCHEMES),
        *_of_the_tables(changefeed, schemas),
    ]
    first = {problem.what: problem for problem in reversed(against)}  # a filter that cannot be read is reported by more than one
    return [problem for problem in against if first[problem.what] is problem]


def _of_the_life(changefeed: Changefeed) -> Iterator[Problem]:
    if changefeed.state not in _RUNNING:
        why = f" ({changefeed.error})" if changefeed.error else ""
        hint = _STATES.get(changefeed.state, "report it with TiCDC's version")
        yield Problem("state", f"the changefeed is {changefeed.state}{why} and sends nothing", hint)
    if changefeed.target_ts:
        what = f"the changefeed ends at {changefeed.target_ts}, and no change after it arrives"
        yield Problem("target-ts", what, "create the changefeed without --target-ts")
    if changefeed.setting("bdr-mode") is True:
        what = "changes that came from the other cluster are not in the feed, but their rows would be in the dump"
        yield Problem("bdr-mode", what, "use a changefeed without bdr-mode")
    if changefeed.setting("enable-active-active") is True:
        what = "active-active replication is not supported: its rows are resolved by their origin, not by commit_ts"
        yield Problem("enable-active-active", what, "use a changefeed without it")


def _of_the_sink(changefeed: Changefeed, schemas: _Schemas | None) -> Iterator[Problem]:
    sink = changefeed.sink
    if sink.scheme in STORAGE_SCHEMES:
        yield from _of_files(changefeed, schemas)
        return
    if sink.scheme not in MESSAGE_SCHEMES or not sink.hosts or not sink.path:
        what = f"a sink {sink.scheme}:// without Kafka's brokers, or a sidecar's address, and a topic cannot be attached to"
        hint = f"attach to a changefeed with a sink URI kafka://host:9092/topic, {PUSH_SCHEME}://host:8312/topic (deploy/push) or s3://…"
        yield Problem("sink-uri", what, hint)
    yield from _of_messages(changefeed)


def _of_files(changefeed: Changefeed, schemas: _Schemas | None) -> Iterator[Problem]:
    """Of the storage sink."""
    protocol = protocol_of(changefeed.protocol)
    if protocol is None or not protocol.in_files:
        what = f"files of protocol {changefeed.protocol or 'none'} are not read"
        hint = "create the changefeed with protocol=csv and [sink.csv] include-commit-ts = true, or with protocol=canal-json"
        yield Problem("protocol", what, f"{hint}&enable-tidb-extension=true")
    elif files_of_csv(changefeed):
        yield from _of_csv(changefeed)
    else:
        yield from _of_messages(changefeed)
        terminator = changefeed.setting("sink", "terminator")
        if isinstance(terminator, str) and terminator and not terminator.endswith("\n"):
            yield Problem("sink.terminator", f"rows end with {terminator!r}, and not with their line", "leave it at its default")
    if changefeed.setting("sink", "enable-partition-separator") is False:
        partitioned = sorted(name for name, table in (schemas or {}).items() if len(table.physical_ids) > 1)
        if schemas is None or partitioned:
            what = "files of partitions are in one folder, where TiCDC can write one over another"
            what += f" ({', '.join(map(str, partitioned))})" if partitioned else ""
            yield Problem("sink.enable-partition-separator", what, "set it to true, and give the changefeed a new folder")
    if changefeed.setting("scheduler", "enable-table-across-nodes") is True and changefeed.creator_version.startswith("v8.5.4"):
        what = "in v8.5.4 several nodes that write a table write one file over another"
        yield Problem(
            "scheduler.enable-table-across-nodes", what, "set it to false, or upgrade TiCDC; and give the changefeed a new folder"
        )


def _of_csv(changefeed: Changefeed) -> Iterator[Problem]:
    try:
        csv_dialect(changefeed)
    except FeedUnsuitable as error:
        yield Problem("sink.csv", error.message, error.hint)


def _of_messages(changefeed: Changefeed) -> Iterator[Problem]:
    settings = codec_settings(changefeed)
    try:
        codec_module(settings.protocol, tidb_extension=settings.tidb_extension, encoding=settings.encoding)
    except FeedUnsuitable as error:
        protocol = protocol_of(settings.protocol)
        setting = "protocol"
        if protocol is not None and protocol.name in CARRIERS:
            setting = "enable-tidb-extension" if protocol.needs_extension else "encoding-format"
        yield Problem(setting, error.message, error.hint)
    yield from _of_versions(changefeed)
    option = large_rows_option(changefeed)
    if option not in (None, "", "none", CLAIM_CHECK, KEYS_ALONE):
        hint = f'set it to "{CLAIM_CHECK}" or "{KEYS_ALONE}"; or to "none", and max-message-bytes above the largest row'
        yield Problem("large-message-handle-option", f"{option} is none that TiCDC has", hint)
    try:
        compression_of(settings.compression)
    except FeedUnsuitable as error:
        yield Problem("large-message-handle-compression", error.message, error.hint)


def _of_versions(changefeed: Changefeed) -> Iterator[Problem]:
    """Judged by the TiCDC that made the changefeed: the one that runs it now is not in its definition."""
    protocol, version = protocol_of(changefeed.protocol), changefeed.creator_version
    if protocol is not None and changefeed.new_architecture and version.startswith(protocol.wrong_in) and protocol.wrong_in:
        what = f"TiCDC {version} of the new architecture writes some values of {protocol.name} wrong (vectors, binary ones)"
        yield Problem("protocol", what, "upgrade TiCDC to v8.5.6 or later and create the changefeed again, or use another protocol")


def _of_the_rows(changefeed: Changefeed) -> Iterator[Problem]:
    """TiCDC sends old values unless the protocol's section is there and does not say so, or an old release was configured not to."""
    protocol = protocol_of(changefeed.protocol)
    options = changefeed.setting("sink", protocol.options_section) if protocol else None
    if protocol and isinstance(options, dict) and options.get("output-old-value") is not True:
        what = "updates come without their old row, so a changed key cannot be detected"
        yield Problem(f"sink.{protocol.options_section}.output-old-value", what, "set it to true")
    if changefeed.setting("enable-old-value") is False:
        what = "updates come without their old row, so a changed key cannot be detected"
        yield Problem("enable-old-value", what, "set it to true in the changefeed's configuration")
    for name in ("content-compatible", "only-output-updated-columns"):
        if changefeed.flag("sink", name):
            yield Problem(f"sink.{name}", "old rows hold only the columns that an update changed", _WHOLE_ROWS)
    if changefeed.setting("sink", "delete-only-output-handle-key-columns") is True:
        yield Problem("sink.delete-only-output-handle-key-columns", "deletes hold only the key of the old row", _WHOLE_ROWS)


def no_marks(changefeed: Changefeed, *, encoded: bool) -> str:
    """What of its definition keeps a dump's marks out of the feed, with the way out; empty: they come. `encoded`: the feed is TiCDC's
    messages; raw key-values have every mark."""
    if not encoded:
        return ""
    try:
        if problem := mark_table_problem(changefeed):
            return with_hint(*problem)
        if changefeed.sink.scheme in KAFKA_SCHEMES:
            topic_of(changefeed, changefeed.sink.path, MARK_TABLE)
        selector = SelectedColumns.of(changefeed).selector(MARK_TABLE)
        if selector is not None and (lost := [column for column in _OF_A_MARK if not selector.has(column)]):
            return with_hint(f"{selector.setting}: {MARK_TABLE} comes without {', '.join(lost)}", f"add !{MARK_TABLE} to its matcher")
    except FeedUnsuitable as error:
        return with_hint(error.message, error.hint)
    return ""


def _of_the_filter(changefeed: Changefeed, *, with_topics: bool) -> Iterator[Problem]:
    try:
        FilterRules.of(changefeed)
        if with_topics:
            topic_of(changefeed, changefeed.sink.path, MARK_TABLE)  # of any table: whether the expressions are understood
    except FeedUnsuitable as error:
        yield Problem("filter, sink.dispatchers", error.message, error.hint)
    if changefeed.filter.ignore_txn_start_ts:
        what = "changes of the transactions that are omitted are in no feed, but their rows would be in the dump"
        yield Problem("filter.ignore-txn-start-ts", what, "create the changefeed with a start-ts after them, and without the setting")


def _of_the_tables(changefeed: Changefeed, schemas: _Schemas | None) -> Iterator[Problem]:
    try:
        rules = compiled("filter.rules", changefeed.filter.rules, case_sensitive=changefeed.filter.case_sensitive)
        tables = (
            None if schemas is None else {name: schema for name, schema in schemas.items() if name != MARK_TABLE and rules.matches(name)}
        )
        yield from _of_routing(changefeed, tables or {})
        yield from _of_selectors(changefeed, tables or {})
        yield from _of_soft_deletes(changefeed, tables or {})
        dump_scope(changefeed, tables or {})
    except FeedUnsuitable as error:
        yield Problem("filter, sink.dispatchers, sink.column-selectors", error.message, error.hint)
        return
    keyless = None if tables is None else sorted(name for name, schema in tables.items() if not schema.key)
    if changefeed.force_replicate and (keyless is None or keyless):
        what = "rows of tables without a key" + (f" ({', '.join(map(str, keyless))})" if keyless else "") + " cannot be distinguished"
        yield Problem("force-replicate", what, "set it to false, or exclude tables without a key by filter.rules")


def _of_routing(changefeed: Changefeed, schemas: _Schemas) -> Iterator[Problem]:
    routes = TableRoutes.of(changefeed)
    sent = (name for name, schema in schemas.items() if schema.key)
    for target, one, other in routes.conflicts({MARK_TABLE, *sent}):
        what = f"{one} and {other} are both sent as {target}: no row says of which it is"
        yield Problem("sink.dispatchers, target-schema and target-table", what, "let each table have a target of its own")
    if routes.routes and large_rows_option(changefeed) == KEYS_ALONE:
        what = "rows that are larger than a message are read from TiDB by the name in their message, which is another table's name there"
        yield Problem("large-message-handle-option", what, f'set it to "{CLAIM_CHECK}", or take target-schema and target-table out')


def _of_selectors(changefeed: Changefeed, schemas: _Schemas) -> Iterator[Problem]:
    selected = SelectedColumns.of(changefeed)
    for name, schema in schemas.items():
        selector = selected.selector(name)
        if selector is not None and (lost := [column for column in schema.key if not selector.has(column)]):
            what = f"rows of {name} come without {', '.join(lost)}, of its handle key: nobody can tell them apart"
            yield Problem(selector.setting, what, "let the selector's columns have the primary key, or the unique key in its place")


def _of_soft_deletes(changefeed: Changefeed, schemas: _Schemas) -> Iterator[Problem]:
    """By the tables' columns (model/soft_delete.py)."""
    softly = {name: schema for name, schema in sorted(schemas.items()) if schema.key and is_softly_deleted(schema.columns)}
    both = [name for name, schema in softly.items() if is_active_active(schema.columns)]
    if both:
        what = f"{', '.join(map(str, both))}: active-active, where a row that another cluster has deleted comes as an INSERT"
        yield Problem("filter.rules", what, "exclude these tables, and dump tables that are not ACTIVE_ACTIVE")
    if not changefeed.new_architecture and (alone := [name for name in softly if name not in both]):
        what = f"{', '.join(map(str, alone))}: SOFTDELETE, and TiCDC's classic architecture sends no DELETE of a row that is deleted softly"
        yield Problem("filter.rules", what, "use TiCDC's new architecture, or exclude these tables")
