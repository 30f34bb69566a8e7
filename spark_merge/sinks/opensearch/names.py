"""Which index a table is: an alias by a pattern of its name, and behind it an index of the sink's own making, whose name ends in the number
of the segment from which on it is the table's. So a table that is emptied, rewritten or renamed is another index behind an alias, in one
step that a reader sees as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from string import Formatter

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Seq, TableName
from spark_merge.ddl.routes import Routes
from spark_merge.sinks.kit.options import option, parsed, routes

PATTERN = "{schema}.{table}"
BYTES_MAX = 230
"""An index's name has up to 255; `-v` and a segment's number come behind it."""

_NEVER = frozenset('\\/*?"<>| ,#:')


def physical(alias: str, since: Seq | int) -> str:
    return f"{alias}-v{since}"


def checked_pattern(pattern: str) -> str:
    """Raises SinkError for one that cannot tell tables apart."""
    try:
        fields = {name for _, name, _, _ in Formatter().parse(pattern) if name is not None}
    except ValueError as error:
        raise SinkError(f"index={pattern!r} is no pattern: {error}", hint=f"write index={PATTERN}") from error
    if "table" not in fields or fields - {"schema", "table"}:
        raise SinkError(f"index={pattern!r} must hold {{table}}, and nothing but {{schema}} besides", hint=f"write index={PATTERN}")
    if wrong := _wrong(pattern.format(schema="s", table="t").lower()):
        raise SinkError(f"index={pattern!r} makes names that are no index's, {wrong}", hint=f"write index={PATTERN}")
    return pattern


def _wrong(alias: str) -> str:
    if odd := sorted(_NEVER & set(alias)):
        return f"which holds {' '.join(map(repr, odd))}"
    if not alias or alias[0] in "-_+.":
        return "which begins with - _ + or ."
    return f"which is longer than {BYTES_MAX} bytes" if len(alias.encode()) > BYTES_MAX else ""


@dataclass(frozen=True, slots=True)
class IndexNames:
    """`pattern` names {table}, and {schema} unless the changefeed has one schema alone; in small letters, as the server wants them."""

    pattern: str = option("index", parsed("a pattern with `{table}`, and maybe `{schema}`", checked_pattern, str), PATTERN,
        "The name of a table's index, in small letters.")  # fmt: skip
    routes: Routes = routes("Names in `index`.")

    def alias(self, name: TableName) -> str:
        return self.alias_of(self.routes.target(name))

    def alias_of(self, target: TableName) -> str:
        """By its name after the routes."""
        return self.pattern.format(schema=target.schema, table=target.table).lower()

    def any(self) -> str:
        """What the aliases of all tables match."""
        return self.pattern.format(schema="*", table="*").lower()

    def problems(self, tables: Iterable[TableName]) -> Iterable[tuple[str, str]]:
        """What keeps tables from having an index, each with the way out."""
        for name in sorted(tables):
            alias = self.alias(name)
            if wrong := _wrong(alias):
                yield f"{name} would be index {alias!r}, {wrong}", "lead it to another name by routes= or index= of the sink's URI"

    def check(self, tables: Iterable[TableName]) -> None:
        """Raises SinkError for the first of the problems."""
        for problem, way_out in self.problems(tables):
            raise SinkError(problem, hint=way_out)
