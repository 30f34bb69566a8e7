"""What a StartRequest means: which tables, which rows of them, and everything that is against it.

    exists (SchemaSource) ─► passes the changefeed's filter (FeedScope) ─► matches the table rules ─► can be read (estimates)

- The scope is never wider than the changefeed: its filter's predicate is joined to the operator's keys or predicate by AND.
- A table that the changefeed does not carry is left out, and told; a table that it carries and that cannot be read refuses
  the dump, for a table is never skipped in silence (P1): the way out is a rule that leaves it out.
- A rule that lets nothing in is a misspelt one: refused. So are keys and predicates of tables outside of the scope.
- All that is wrong is found, not only the first of it. Asked in threads that may wait for the database, never the pipeline's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sidecar.control.wire import BRACKETS_ASKED
from sidecar.core.marks import DUMP_ID_LENGTH
from sidecar.core.messages import READERS_MAX, Pace, Settings, StartDump
from sidecar.core.model import MARK_TABLE, TableName, TableSchema
from sidecar.errors import RefusedRequest
from sidecar.ports import SchemaSource, TableEstimate
from sidecar.ticdc.table_rules import matching
from ticdc_dump.v1 import control_pb2 as pb

DELIVERY_BOUND_S_MAX = 86_400
"""A day: whoever wants a longer one wants none, and live changes are late for a reason that nobody looks for."""
PREDICATE_BYTES_MAX = 256 << 10
"""Of one table: it goes into every SELECT, and with the progress into every manifest and into etcd."""
NAMED_MAX = 10
"""Tables that one refusal names."""
NO_KEY = "it has no primary key and no NOT NULL unique key, so that TiCDC does not replicate it: give it one"


class FeedScope(Protocol):
    """What the changefeed's own filter lets through."""

    def through(self, table: TableName) -> tuple[bool, str]:
        """True and the SQL predicate of the rows that pass, empty for all; or False and why the table is left out."""


@dataclass(slots=True)
class Scope:
    """`tables` in the source's order, with their estimates. `left_out`: tables that the changefeed does not carry, with the
    reason. `where`: the predicate of each table that is narrowed. `refusals`: each with the way out; empty: it may start."""

    tables: list[TableName] = field(default_factory=list)
    estimates: Sequence[TableEstimate] = ()
    left_out: dict[TableName, str] = field(default_factory=dict)
    where: dict[TableName, str] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)


def resolve(request: pb.StartRequest, schemas: SchemaSource, feed: FeedScope, *, case_sensitive: bool) -> Scope:
    """Raises RefusedRequest for a rule that is not one, and whatever the source raises."""
    scope = Scope()
    existing = schemas.tables()
    carried: dict[TableName, str] = {}
    for table, schema in existing.items():
        passes, text = _carried(table, schema, feed)
        (carried if passes else scope.left_out)[table] = text
    scope.left_out.pop(MARK_TABLE, None)
    scope.tables = _chosen(request.table_rules, carried, scope, case_sensitive=case_sensitive)
    scope.estimates = schemas.estimates(scope.tables)
    unreadable = [f"{found.table} ({found.refused})" for found in scope.estimates if found.refused]
    if unreadable:
        scope.refusals.append(
            f"tables that cannot be dumped: {_listed(unreadable)}; leave them out with a rule such as --tables '*.*,!shop.t'"
        )
    narrowed = _narrowed(request, frozenset(scope.tables), schemas, scope.refusals)
    for table in scope.tables:
        predicate = " AND ".join(f"({part})" for part in (narrowed.get(table), carried[table]) if part)
        if predicate:
            scope.where[table] = predicate
    scope.refusals += [
        f"the keys or predicate of {table} make {len(where.encode()):,} bytes of SQL, more than {PREDICATE_BYTES_MAX:,}: dump it in parts"
        for table, where in scope.where.items()
        if len(where.encode()) > PREDICATE_BYTES_MAX
    ]
    return scope


def start_dump(request: pb.StartRequest, scope: Scope, *, chunk_rows: int) -> StartDump:
    """`chunk_rows`: where the request says nothing. Raises RefusedRequest with everything that is against it."""
    refusals = [*scope.refusals, *_malformed(request)]
    if refusals:
        raise RefusedRequest("; ".join(refusals), hint="see dumpstart --dry-run for what would be dumped")
    return StartDump(
        dump_id=request.dump_id,
        tables=tuple(scope.tables),
        brackets=BRACKETS_ASKED[request.brackets],
        chunk_rows=request.chunk_rows or chunk_rows,
        where=tuple(scope.where.items()),
        pace=Pace(request.readers, request.rows_per_second, request.bytes_per_second, request.delivery_bound_seconds),
        grows=not request.table_rules,
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
    )


def is_dump_id(text: str) -> bool:
    """It is the beginning of every mark's uuid."""
    return len(text) == DUMP_ID_LENGTH and text.isascii() and text.isalnum()


def _malformed(request: pb.StartRequest) -> Iterator[str]:
    if not is_dump_id(request.dump_id):
        yield f"dump id {request.dump_id!r} is not {DUMP_ID_LENGTH} letters and digits"
    if request.brackets not in BRACKETS_ASKED:
        yield f"brackets {request.brackets} are unknown: use watermark or snapshot"
    if request.readers > READERS_MAX:
        yield f"{request.readers} readers are more than {READERS_MAX}"
    if not 0 <= request.delivery_bound_seconds <= DELIVERY_BOUND_S_MAX:
        yield f"a delivery bound of {request.delivery_bound_seconds:g} s is not between 0 (the sidecar's) and {DELIVERY_BOUND_S_MAX}"


def _carried(table: TableName, schema: TableSchema, feed: FeedScope) -> tuple[bool, str]:
    if table == MARK_TABLE:
        return False, ""
    passes, text = feed.through(table)
    return (False, NO_KEY) if passes and not schema.key else (passes, text)


def _chosen(rules: Sequence[str], carried: Mapping[TableName, str], scope: Scope, *, case_sensitive: bool) -> list[TableName]:
    if not rules:
        if not carried:
            scope.refusals.append("the changefeed carries no table: see its filter")
        return list(carried)
    for rule in rules:
        if not rule.startswith("!") and not matching([rule], carried, case_sensitive=case_sensitive):
            scope.refusals.append(_matches_nothing(rule, scope.left_out, case_sensitive=case_sensitive))
    chosen = matching(rules, carried, case_sensitive=case_sensitive)
    if not chosen and not scope.refusals:
        scope.refusals.append(f"no table is left by the rules {', '.join(rules)}: begin with one that lets tables in, such as *.*")
    return chosen


def _matches_nothing(rule: str, left_out: Mapping[TableName, str], *, case_sensitive: bool) -> str:
    outside = matching([rule], left_out, case_sensitive=case_sensitive)
    if not outside:
        return f"no table matches {rule}: see dumpstart --dry-run for the changefeed's tables"
    return f"the changefeed carries no table of {rule}: {_listed([f'{table} ({left_out[table]})' for table in outside])}"


def _narrowed(request: pb.StartRequest, tables: frozenset[TableName], schemas: SchemaSource, refusals: list[str]) -> dict[TableName, str]:
    """The operator's predicate of each table that has one."""
    narrowed: dict[TableName, str] = {}
    for table, given in _by_table(request):
        if table in narrowed:
            refusals.append(f"{table} is narrowed twice: give it one --keys or one --where")
        elif table not in tables:
            refusals.append(f"{table} is narrowed and is not among the tables of the dump")
            narrowed[table] = ""
        else:
            try:
                narrowed[table] = _plain(given, table) if isinstance(given, str) else schemas.key_predicate(table, given)
            except RefusedRequest as refused:
                refusals.append(str(refused))
    return narrowed


def _by_table(request: pb.StartRequest) -> Iterator[tuple[TableName, str | list[tuple[str, ...]]]]:
    for keys in request.keys:
        yield TableName(keys.schema, keys.table), [tuple(key.values) for key in keys.keys]
    for where in request.where:
        yield TableName(where.schema, where.table), where.predicate


def _plain(predicate: str, table: TableName) -> str:
    """The predicate, if it stays one within parentheses: nothing in it closes them, ends the statement or hides the rest."""
    depth, at = 0, 0
    while at < len(predicate) and depth >= 0:
        char = predicate[at]
        if char in "'\"`":
            at = _end_of_quotes(predicate, at, table)
        elif char == ";" or char == "#" or predicate.startswith(("/*", "--"), at):
            raise RefusedRequest(f"the predicate of {table} has {predicate[at : at + 2]!r} outside of quotes", hint="give one expression")
        else:
            depth += (char == "(") - (char == ")")
        at += 1
    if depth or not predicate.strip():
        problem = "has parentheses that do not match" if depth else "is empty"
        raise RefusedRequest(f"the predicate of {table} {problem}", hint="give one expression, such as amount > 5")
    return predicate


def _end_of_quotes(text: str, start: int, table: TableName) -> int:
    """Where the quotes that open at `start` close; a doubled quote opens new ones there, which comes to the same."""
    quote, at = text[start], start + 1
    while at < len(text) and text[at] != quote:
        at += 2 if text[at] == "\\" and quote != "`" else 1
    if at >= len(text):
        raise RefusedRequest(f"the predicate of {table} has a {quote} that is not closed", hint="close it, or double it within a text")
    return at


def _listed(texts: Iterable[str]) -> str:
    named = list(texts)
    more = f" and {len(named) - NAMED_MAX} more" if len(named) > NAMED_MAX else ""
    return ", ".join(named[:NAMED_MAX]) + more
