"""What a StartRequest means: which tables, which rows of them, and everything that is against it.

    exists (SchemaSource) ─► passes the changefeed's filter (FeedScope) ─► matches the table rules ─► can be read (estimates)

- The scope is never wider than the changefeed: its filter's predicate is joined to the operator's keys or predicate by AND, and comes
  first, so that no query reads what the filter hides. predicate.py decides what an operator may request.
- A table that the changefeed does not carry is omitted, and reported; a table that it carries and that cannot be read refuses
  the dump, for a table is never skipped in silence (P1): the way out is a rule that omits it.
- A rule that lets nothing in is a misspelt one: refused. So are keys and predicates of tables outside of the scope.
- All that is wrong is reported, not only the first of it. Runs in threads that may wait for the database, never the pipeline's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from sidecar.control.predicate import PREDICATE_BYTES_MAX, predicate
from sidecar.control.wire import BRACKETS_REQUESTED
from sidecar.core.marks import DUMP_ID_LENGTH
from sidecar.ports import Bracketing, SchemaSource, TableEstimate
from sidecar.shared.config import DumpSection
from sidecar.shared.errors import RefusedRequest, SourceLost, nearest, parted
from sidecar.shared.model.keyset import Key
from sidecar.shared.model.messages import READERS_MAX, Brackets, Pace, ReadWith, Settings, StartDump
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, TableName, TableSchema
from sidecar.shared.model.progress import Progress
from sidecar.shared.ticdc.hidden_changes import Explanation
from sidecar.shared.ticdc.table_rules import asked, check_bounds
from ticdc_dump.v1 import control_pb2 as pb

DELIVERY_BOUND_S_MAX = 86_400
"""A day: an operator who wants a longer one wants none, and live changes are late for a reason that nobody looks for."""
NAMED_MAX = 10
"""Tables that one refusal names."""
NO_KEY = "it has no primary key and no NOT NULL unique key, so that TiCDC does not replicate it: give it one"


class FeedScope(Protocol):
    """What the changefeed's own filter lets through."""

    def has(self, table: TableName) -> bool:
        """By its table rules alone. A table that it has not is counted and never named: nobody asks here for what there is beside it."""

    def through(self, table: TableName) -> tuple[bool, str]:
        """True and the SQL predicate of the rows that pass, empty for all; or False and why the table is omitted."""

    def explains(self, table: TableName) -> Sequence[Explanation]:
        """What of it can make a sink's rows of the table differ from the source's, and be right."""

    def omits(self, table: TableName) -> frozenset[str]:
        """Columns of it that the changefeed does not carry, which no caller may ask for."""


@dataclass(slots=True)
class Scope:
    """`tables` in the source's order, with their estimates. `left_out`: tables of its rules that the changefeed does not carry, with the
    reason; `outside`: how many are not of its rules. `delivered`: all tables of which the changefeed may have changes, also those outside
    of the request. `explained`: of `tables`, as of FeedScope.explains. `where`: the predicate of each table that has one. `keys`: of each
    table of which only some keys are dumped. `narrowed`: tables of which the operator wants a part. `bracketing`: what a dump of it can
    have. `refusals`: each with the way out; empty: it may start."""

    tables: list[TableName] = field(default_factory=list)
    estimates: Sequence[TableEstimate] = ()
    left_out: dict[TableName, str] = field(default_factory=dict)
    outside: int = 0
    delivered: tuple[TableName, ...] = ()
    explained: dict[TableName, Sequence[Explanation]] = field(default_factory=dict)
    where: dict[TableName, str] = field(default_factory=dict)
    keys: dict[TableName, tuple[Key, ...]] = field(default_factory=dict)
    narrowed: tuple[TableName, ...] = ()
    bracketing: Bracketing = field(default_factory=Bracketing)
    refusals: list[str] = field(default_factory=list)


def resolve(
    request: pb.StartRequest, schemas: SchemaSource, feed: FeedScope, *, case_sensitive: bool, gone: Callable[[], bool] = lambda: False
) -> Scope:
    """`gone`: whether the caller does not wait any more. Raises RefusedRequest for rules that are none or too many, and whatever the
    source raises."""
    check_bounds(request.table_rules)
    scope = Scope()
    existing = schemas.tables()
    carried: dict[TableName, str] = {}
    for table, schema in existing.items():
        if table == MARK_TABLE:
            continue
        if not feed.has(table):
            scope.outside += 1
            continue
        passes, text = _carried(table, schema, feed)
        (carried if passes else scope.left_out)[table] = text
    scope.delivered = tuple(table for table, schema in existing.items() if table != MARK_TABLE and schema.key and feed.has(table))
    scope.tables = _chosen(request.table_rules, carried, scope, _Matching(case_sensitive, gone))
    scope.explained = {table: explanations for table in scope.tables if (explanations := feed.explains(table))}
    scope.estimates = schemas.estimates(scope.tables)
    unreadable = [f"{estimate.table} ({estimate.refused})" for estimate in scope.estimates if estimate.refused]
    if unreadable:
        scope.refusals.append(
            f"tables that cannot be dumped: {_listed(unreadable)}; leave them out with a rule such as --tables '*.*,!shop.t'"
        )
    narrowed = _narrowed(request, {table: _carries(existing[table], feed) for table in scope.tables}, schemas, scope)
    scope.narrowed = tuple(table for table in scope.tables if table in narrowed or table in scope.keys)
    for table in scope.tables:
        both = " AND ".join(f"({part})" for part in (carried[table], narrowed.get(table)) if part)
        if both:
            scope.where[table] = both
    sizes = [(table, len(where.encode())) for table, where in scope.where.items()]
    sizes += [(table, sum(len(text.encode()) for key in keys for text in key)) for table, keys in scope.keys.items()]
    scope.refusals += [
        f"the keys or the predicate of {table} are {size:,} bytes, more than {PREDICATE_BYTES_MAX:,}: dump it in parts"
        for table, size in sizes
        if size > PREDICATE_BYTES_MAX
    ]
    return scope


def start_dump(request: pb.StartRequest, scope: Scope, defaults: DumpSection) -> StartDump:
    """`defaults`: where the request says nothing. Raises RefusedRequest with everything that is against it."""
    refusals = [*scope.refusals, *_malformed(request)]
    brackets, why = chosen_brackets(request, scope.bracketing, defaults.read_with)
    if why:
        refusals.append(why)
    if refusals:
        raise refused(refusals, hint="see dumpstart --dry-run for what would be dumped")
    return StartDump(
        dump_id=request.dump_id,
        tables=tuple(scope.tables),
        brackets=brackets,
        chunk_rows=request.chunk_rows or defaults.chunk_rows,
        where=tuple(scope.where.items()),
        pace=Pace(request.readers, request.rows_per_second, request.bytes_per_second, request.delivery_bound_seconds, request.strict_bound),
        grows=not request.table_rules,
        keys=tuple(scope.keys.items()),
        narrowed=scope.narrowed,
        sinks=tuple(dict.fromkeys(request.sinks)),
        read_with=defaults.read_with,
        for_ddl=CommitTs(request.for_ddl) if request.for_ddl else None,
        exact=request.exact,
    )


def chosen_brackets(request: pb.StartRequest, bracketing: Bracketing, read_with: ReadWith) -> tuple[Brackets, str]:
    """Those of the request, or where it leaves them open: marks where they can be, for each of them shows that the source is what the
    feed comes from, else snapshots. TiKV's snapshots need no marks. And why the dump cannot have them, with the way out."""
    wanted = BRACKETS_REQUESTED.get(request.brackets)
    if wanted is Brackets.WATERMARK:
        return wanted, bracketing.marks
    if wanted is None and read_with is not ReadWith.TIKV and not bracketing.marks:
        return Brackets.WATERMARK, ""
    if wanted is None and bracketing.marks and bracketing.snapshots:
        return Brackets.SNAPSHOT, bracketing.neither()
    return Brackets.SNAPSHOT, bracketing.snapshots


def restarted_brackets(dump: Progress, bracketing: Callable[[], Bracketing]) -> Brackets | None:
    """Of the restart of `dump`: snapshots in the place of marks that it cannot have any more. None: those that it had. A source that does
    not answer is not waited for: the dump does."""
    if dump.brackets is not Brackets.WATERMARK:
        return None
    try:
        there = bracketing()
    except SourceLost:
        return None
    return Brackets.SNAPSHOT if there.marks and not there.snapshots else None


def refused(refusals: Sequence[str], *, hint: str) -> RefusedRequest:
    """At least one. `hint`: the way out where none of them has its own."""
    results = [parted(text) for text in refusals]
    if len(results) == 1:
        return RefusedRequest(results[0][0], hint=results[0][1] or hint)
    return RefusedRequest(
        "; ".join(message for message, _ in results), hint="; ".join(dict.fromkeys(own for _, own in results if own)) or hint
    )


def settings_of(given: pb.DumpSettings, *, chunk_rows: int) -> Settings:
    """`chunk_rows`: what 0 asks for. Raises RefusedRequest."""
    if given.readers > READERS_MAX or not 0 <= given.delivery_bound_seconds <= DELIVERY_BOUND_S_MAX:
        raise RefusedRequest(
            f"{given.readers} readers or a delivery bound of {given.delivery_bound_seconds:g} s cannot be",
            hint=f"give at most {READERS_MAX} readers, and 0 (the sidecar's) to {DELIVERY_BOUND_S_MAX} seconds",
        )
    return Settings(
        chunk_rows=(given.chunk_rows or chunk_rows) if given.HasField("chunk_rows") else None,
        readers=given.readers if given.HasField("readers") else None,
        rows_per_s=given.rows_per_second if given.HasField("rows_per_second") else None,
        bytes_per_s=given.bytes_per_second if given.HasField("bytes_per_second") else None,
        delivery_bound_s=given.delivery_bound_seconds if given.HasField("delivery_bound_seconds") else None,
        strict_bound=given.strict_bound if given.HasField("strict_bound") else None,
    )


def unknown_sinks(requested: Iterable[str], known: Collection[str]) -> Iterator[str]:
    """Why a dump for these sinks is refused. `known`: the names of those that are configured."""
    if unknown := sorted(set(requested) - set(known)):
        intended = nearest(unknown[0], known) if len(unknown) == 1 else ""
        yield f"no sink is called {_listed(unknown)}{intended or ':'} the sinks are {_listed(known)}"


def is_dump_id(text: str) -> bool:
    """It is the beginning of every mark's uuid."""
    return len(text) == DUMP_ID_LENGTH and text.isascii() and text.isalnum()


def _malformed(request: pb.StartRequest) -> Iterator[str]:
    if not is_dump_id(request.dump_id):
        yield f"dump id {request.dump_id!r} is not {DUMP_ID_LENGTH} letters and digits"
    if request.brackets not in BRACKETS_REQUESTED:
        yield f"brackets {request.brackets} are unknown: use watermark or snapshot"
    if request.readers > READERS_MAX:
        yield f"{request.readers} readers are more than {READERS_MAX}"
    if not 0 <= request.delivery_bound_seconds <= DELIVERY_BOUND_S_MAX:
        yield f"a delivery bound of {request.delivery_bound_seconds:g} s is not between 0 (the sidecar's) and {DELIVERY_BOUND_S_MAX}"
    if request.for_ddl and not (request.sinks and request.table_rules and not request.keys and not request.where):
        yield "a dump for a DDL is of whole tables, for the sinks that stop there: give --tables and --sink, and no --keys or --where"


def _carried(table: TableName, schema: TableSchema, feed: FeedScope) -> tuple[bool, str]:
    passes, text = feed.through(table)
    return (False, NO_KEY) if passes and not schema.key else (passes, text)


class _Matching(NamedTuple):
    case_sensitive: bool
    gone: Callable[[], bool]


def _chosen(rules: Sequence[str], carried: Mapping[TableName, str], scope: Scope, how: _Matching) -> list[TableName]:
    if not rules:
        if not carried:
            scope.refusals.append("the changefeed carries no table: see its filter")
        return list(carried)
    result = asked(rules, carried, case_sensitive=how.case_sensitive, gone=how.gone)
    scope.refusals += [_matches_nothing(rule, scope.left_out, how) for rule in result.idle[:NAMED_MAX]]
    if rest := result.idle[NAMED_MAX:]:
        scope.refusals.append(f"no table of the changefeed matches {len(rest):,} rules more, such as {rest[0]}")
    if not result.chosen and not scope.refusals:
        scope.refusals.append(f"no table is left by the rules {_listed(rules)}: begin with one that lets tables in, such as *.*")
    return result.chosen


def _matches_nothing(rule: str, left_out: Mapping[TableName, str], how: _Matching) -> str:
    outside = asked([rule], left_out, case_sensitive=how.case_sensitive, gone=how.gone).chosen
    if not outside:
        return f"no table of the changefeed matches {rule}; its tables are those that its own table rules choose"
    return f"the changefeed carries no table of {rule}: {_listed([f'{table} ({left_out[table]})' for table in outside])}"


def _carries(schema: TableSchema, feed: FeedScope) -> TableSchema:
    omitted = feed.omits(schema.name)
    return replace(schema, columns=tuple(one for one in schema.columns if one.name not in omitted))


def _narrowed(
    request: pb.StartRequest, tables: Mapping[TableName, TableSchema], schemas: SchemaSource, scope: Scope
) -> dict[TableName, str]:
    """The operator's predicate of each table that has one. Keys go into the scope."""
    narrowed: dict[TableName, str] = {}
    for table, given in _by_table(request):
        if table in narrowed or table in scope.keys:
            scope.refusals.append(f"{table} is narrowed twice: give it one --keys or one --where")
        elif table not in tables:
            scope.refusals.append(f"{table} is narrowed and is not among the tables of the dump")
            narrowed[table] = ""
        else:
            try:
                if isinstance(given, str):
                    narrowed[table] = predicate(given, tables[table])
                elif keys := schemas.keys(table, given):
                    scope.keys[table] = keys
                else:
                    scope.refusals.append(f"no key of {table} is given")
            except RefusedRequest as refused:
                scope.refusals.append(str(refused))
    return narrowed


def _by_table(request: pb.StartRequest) -> Iterator[tuple[TableName, str | list[tuple[str, ...]]]]:
    for keys in request.keys:
        yield TableName(keys.schema, keys.table), [tuple(key.values) for key in keys.keys]
    for where in request.where:
        yield TableName(where.schema, where.table), where.predicate


def _listed(texts: Iterable[str]) -> str:
    named = list(texts)
    more = f" and {len(named) - NAMED_MAX} more" if len(named) > NAMED_MAX else ""
    return ", ".join(named[:NAMED_MAX]) + more
