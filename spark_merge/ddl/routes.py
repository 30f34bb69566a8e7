"""Where a table of the source is at the target: `routes=shop.*=>shop_copy.*,shop.orders=>copy.orders2` in the sink's URI.

    schema.*     => schema.*        every table of a schema, by the same name
    schema.table => schema.table    one table; it goes before the rule of its schema

Names are compared as TiDB does, in any case; `` ` `` quotes what is no plain word. A table that no rule names stays where it is.

Two tables never share a place unless the sink says so, and no DDL of one touches the other's rows: `check_apart`, in each sink that keeps
tables (port/contract.KeepsTables), after each change of tables or routes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from sidecar.shared.errors import ConfigError, SinkError, UnsupportedDdl
from sidecar.shared.model.nouns import TableName, lowered
from sidecar.shared.sql.lexer import SqlToken
from sidecar.shared.sql.text import quoted
from spark_merge.ddl.tokens import ddl_tokens

SEPARATE = "give each table a target of its own by routes="
_HINT = "write routes as schema.*=>other.* or schema.table=>other.table2, separated by commas"


@dataclass(frozen=True, slots=True)
class Routes:
    """`tables` and `schemas` by folded names. Made by `routes_of`; without any, everything stays where it is."""

    tables: Mapping[TableName, TableName] = field(default_factory=dict)
    schemas: Mapping[str, str] = field(default_factory=dict)

    def target(self, name: TableName) -> TableName:
        table = self.tables.get(name.folded())
        return table or TableName(self.schemas.get(lowered(name.schema), name.schema), name.table)

    def schema(self, name: str) -> str:
        """Where the tables of a schema are that have no rule of their own."""
        return self.schemas.get(lowered(name), name)

    def check_schema_goes_alone(self, name: str) -> None:
        """Raises SinkError where dropping the target's schema is not what dropping the source's is: tables of it are elsewhere, or tables
        of other schemas are in it."""
        target = lowered(self.schema(name))
        elsewhere = [str(one) for one, to in self.tables.items() if one.schema == lowered(name) and lowered(to.schema) != target]
        others = [one for one, to in self.schemas.items() if one != lowered(name) and lowered(to) == target]
        others += [str(one) for one, to in self.tables.items() if one.schema != lowered(name) and lowered(to.schema) == target]
        if elsewhere or others:
            raise SinkError(
                f"DROP DATABASE {name} cannot be carried out at schema {self.schema(name)}: the routes "
                + (f"take {', '.join(elsewhere)} elsewhere" if elsewhere else f"bring {', '.join(others)} there too"),
                hint="drop the tables at the target by hand and name the DDL's commit_ts in the sink's `ddl-done`",
            )

    def check_table_goes_alone(self, name: TableName, known: Iterable[TableName], query: str) -> None:
        """Raises SinkError where rows of another one of the `known` tables are in the target's table: a DDL takes or changes them all."""
        target = self.target(name).folded()
        if others := sorted(str(one) for one in known if one.folded() != name.folded() and self.target(one).folded() == target):
            raise SinkError(
                f"the DDL {query!r} cannot be carried out at {self.target(name)}: the routes bring rows of {', '.join(others)} there too",
                hint=f"change the target by hand, for the rows of {name} alone, and name the DDL's commit_ts in the sink's `ddl-done`;"
                f" or {SEPARATE}",
            )


def check_disjoint(names: Iterable[TableName], place: Callable[[TableName], Hashable], *, hint: str) -> None:
    """Raises SinkError where two of the tables would have one place. `place` is compared as the target compares it: a text only where the
    target has one text for schema and table."""
    if (shared := _shared(names, lambda name: (place(name),))) is not None:
        raise SinkError(shared.message, hint=hint)


Places: TypeAlias = Callable[[TableName], Iterable[Hashable]]
"""What has a table's rows at the target, by its name after the routes; as the target compares it."""


def check_apart(names: Iterable[TableName], before: Collection[TableName], places: Places, *, routes: Routes | None = None) -> None:
    """Raises SinkError where two of the tables would share a place. `before`: those that were there before a DDL. The table that the hint
    leads elsewhere is none of them, where there is one: it has no rows yet. `routes` None: the sink has none."""
    target = (routes or Routes()).target
    in_order = sorted(names, key=lambda name: name not in before)
    shared = _shared(in_order, lambda name: places(target(name)))
    if shared is None:
        return
    if routes is None:
        raise SinkError(
            shared.message, hint="leave one of them out by the changefeed's filter, or rename it in TiDB: this sink has no routes"
        )
    taken = {place for name in in_order for place in places(target(name))}
    goal = target(shared.name)
    tries = (TableName(goal.schema, f"{shared.name.schema}_{shared.name.table}{end}") for end in ("", *(f"_{n}" for n in range(2, 1000))))
    free = next((one for one in tries if taken.isdisjoint(places(one))), shared.name)
    rows = "" if before else f", if {distinct(shared.name)} has no rows there yet; else deliver both to a new target and dump them again"
    raise SinkError(shared.message, hint=f"set the route {route(shared.name, free)} in routes= of the sink's URI{rows}")


class _Shared(NamedTuple):
    """A place that `other` has, and `name` too."""

    other: TableName
    name: TableName
    place: Hashable

    @property
    def message(self) -> str:
        shown = ".".join(self.place) if isinstance(self.place, tuple) else self.place
        return f"{distinct(self.other)} and {distinct(self.name)} would both be {shown}"


def _shared(names: Iterable[TableName], places: Places) -> _Shared | None:
    seen: dict[Hashable, TableName] = {}
    for name in names:
        for place in places(name):
            if (other := seen.setdefault(place, name)) != name:
                return _Shared(other, name, place)
    return None


def route(source: TableName, target: TableName) -> str:
    """As `routes_of` reads it."""
    return "=>".join(".".join(part if _PLAIN.fullmatch(part) else quoted(part) for part in name) for name in (source, target))


_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def distinct(name: TableName) -> str:
    """With quotes where a dot in the schema or the table would hide which is which."""
    return f"{quoted(name.schema)}.{quoted(name.table)}" if "." in name.schema + name.table else str(name)


def routes_of(text: str) -> Routes:
    """Raises ConfigError for what is no route, and for a table or schema with two."""
    try:
        tokens = ddl_tokens(text)[:-1]
    except UnsupportedDdl as error:
        raise ConfigError(f"routes {text!r} cannot be read", hint=_HINT) from error
    tables: dict[TableName, TableName] = {}
    schemas: dict[str, str] = {}
    at = 0
    while at < len(tokens):
        source, target, at = _route(text, tokens, at)
        if source.folded() in tables or (source.table == "*" and lowered(source.schema) in schemas):
            raise ConfigError(f"routes {text!r} name {source} twice", hint=_HINT)
        if source.table == "*":
            schemas[lowered(source.schema)] = target.schema
        else:
            tables[source.folded()] = target
    return Routes(tables, schemas)


def _route(text: str, tokens: list[SqlToken], at: int) -> tuple[TableName, TableName, int]:
    names, places = tokens[at : at + 8], (0, 2, 5, 7)
    signs = "".join(token.text for number, token in enumerate(names) if number not in places)
    ends = tokens[at + 8].text if at + 8 < len(tokens) else ","
    if len(names) < 8 or signs != ".=>." or ends != "," or any(names[place].kind == "sign" for place in (0, 5)):
        raise ConfigError(f"routes {text!r}: a route is schema.table=>schema.table", hint=_HINT)
    parts = [names[place].name for place in places]
    if (parts[1] == "*") != (parts[3] == "*"):
        raise ConfigError(f"routes {text!r}: either both tables of a route are * or none", hint=_HINT)
    return TableName(parts[0], parts[1]), TableName(parts[2], parts[3]), at + 9
