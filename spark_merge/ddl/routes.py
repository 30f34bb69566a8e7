"""Where a table of the source is at the target: `routes=shop.*=>shop_copy.*,shop.orders=>copy.orders2` in the sink's URI.

    schema.*     => schema.*        every table of a schema, by the same name
    schema.table => schema.table    one table; it goes before the rule of its schema

Names are compared as TiDB does, in any case; `` ` `` quotes what is no plain word. A table that no rule names stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from sidecar.core.model import TableName, lowered
from sidecar.errors import ConfigError, SinkError, UnsupportedDdl
from sidecar.sql.lexer import SqlToken
from sidecar.sql.text import quoted
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


def check_disjoint(names: Iterable[TableName], place: Callable[[TableName], Hashable], *, hint: str) -> None:
    """Raises SinkError where two of the tables would have one place. `place` is compared as the target compares it: a text only where the
    target has one text for schema and table."""
    seen: dict[Hashable, TableName] = {}
    for name in names:
        if (other := seen.setdefault(at := place(name), name)) != name:
            shown = ".".join(at) if isinstance(at, tuple) else at
            raise SinkError(f"{distinct(other)} and {distinct(name)} would both be {shown}", hint=hint)


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
