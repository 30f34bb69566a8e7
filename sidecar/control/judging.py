"""Which differences of a table in a sink are none: a sink can rightly have other rows than the source.

    the changefeed's filter omits changes (shared/ticdc/hidden_changes.py) ──┐
    other tables of the changefeed have the same target in the sink ──┴─► Unjudged ─► counted, and never repaired

`unjudged` is called before a verification, and again before each dump of a repair: filter, tables and sinks may have changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from sidecar.control.dump_scope import NAMED_MAX, Scope
from sidecar.shared.log.verification import Unjudged
from sidecar.shared.model.nouns import TableName
from sidecar.shared.ticdc.hidden_changes import KINDS

Targets = Mapping[str, Callable[[TableName], str]]
"""Of each sink, by name, that does not distinguish rows by their table: what has a table's rows. Two tables for which it is equal have one
target."""


def unjudged(scope: Scope, sinks: Iterable[str], targets: Targets) -> tuple[Unjudged, ...]:
    """Of the scope's tables in these sinks."""
    return tuple(one for sink in sinks for one in (*_filtered(scope, sink), *_shared(scope, sink, targets)))


def not_repairable(value: Sequence[Unjudged]) -> Iterator[str]:
    """Why no repair and no exact dump is possible, with the remedy; nothing where it is."""
    if not value:
        return
    tables = dict.fromkeys((one.name, one.sink) for one in value)
    reasons = list(dict.fromkeys(f"{one.name} in {one.sink}: {_kinds(one)} rows can be right, since {one.why}" for one in value))
    more = f"; and {len(reasons) - NAMED_MAX} more reasons" if len(reasons) > NAMED_MAX else ""
    (table, sink), *_ = tables
    yield (
        f"a repair would delete or overwrite rows that the sink has rightly: {'; '.join(reasons[:NAMED_MAX])}{more}. Leave the tables out"
        f" with a rule such as --tables '*.*,!{table}', choose sinks other than {sink} with --sink, or compare without --repair and --exact"
    )


def _filtered(scope: Scope, sink: str) -> Iterator[Unjudged]:
    for table in scope.tables:
        for one in scope.explained.get(table, ()):
            yield Unjudged(sink, *table, tuple(kind for kind in KINDS if kind in one.kinds), one.why)


def _shared(scope: Scope, sink: str, targets: Targets) -> Iterator[Unjudged]:
    target = targets.get(sink)
    if target is None:
        return
    there: dict[str, list[TableName]] = {}
    for table in dict.fromkeys((*scope.delivered, *scope.tables)):
        there.setdefault(target(table), []).append(table)
    for table in scope.tables:
        place = target(table)
        if others := [str(other) for other in there[place] if other != table]:
            more = f" and {len(others) - NAMED_MAX} more" if len(others) > NAMED_MAX else ""
            yield Unjudged(sink, *table, KINDS, f"its target {place} has the rows of {', '.join(others[:NAMED_MAX])}{more} too")


def _kinds(one: Unjudged) -> str:
    return " and ".join(filter(None, [", ".join(one.kinds[:-1]), one.kinds[-1]]))
