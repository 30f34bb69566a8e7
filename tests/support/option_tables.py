"""`make pages`: writes the tables of parameters in deploy/ from the sinks' declarations, between `<!-- options: NAME -->` and
`<!-- /options -->`. A test fails where a committed table differs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from sidecar.shared.log.storage.folder import S3_PARAMETERS
from spark_merge.sinks.clickhouse import uri as clickhouse
from spark_merge.sinks.delta import uri as delta
from spark_merge.sinks.files import uri as files
from spark_merge.sinks.http import uri as http
from spark_merge.sinks.iceberg import uri as iceberg
from spark_merge.sinks.kafka import uri as kafka
from spark_merge.sinks.kit.options import CommonOptions, Declarations, Option, options_in
from spark_merge.sinks.mysql import uri as mysql
from spark_merge.sinks.opensearch import uri as opensearch
from spark_merge.sinks.spool.keeping import Bounds
from spark_merge.sinks.sqlite import sink as sqlite
from spark_merge.sinks.storage import options as storage

DEPLOY = Path(__file__).parents[2] / "deploy"

TABLES: dict[str, tuple[Declarations, ...]] = {
    "every": (CommonOptions,),
    "s3": (S3_PARAMETERS,),
    "files": (files.FileOptions,),
    "storage": storage.OPTIONS,
    "kafka": kafka.OPTIONS,
    "debezium": (kafka.DebeziumParameters,),
    "avro": (kafka.AvroParameters,),
    "mysql": mysql.OPTIONS,
    "clickhouse": clickhouse.OPTIONS,
    "opensearch": opensearch.OPTIONS,
    "http": http.OPTIONS,
    "delta": delta.OPTIONS,
    "iceberg": iceberg.OPTIONS,
    "grpc": (Bounds,),
    "sqlite": (sqlite.SqliteSettings,),
}
"""By the names in the markers; `every` has the parameters of every sink, `s3` those that all sinks on S3 share."""

_TABLE = re.compile(r"(?<=<!-- options: )([a-z0-9]+)( -->\n).*?(?=<!-- /options -->)", re.DOTALL)


def table(declarations: Iterable[Declarations]) -> str:
    rows = (row for declared in declarations for row in _rows(declared))
    lines = (
        f"| {', '.join(f'`{name}`' for name, *_ in alike)} | {values} | {meaning} |\n"
        for (values, meaning), alike in groupby(rows, itemgetter(1, 2))
    )
    return "".join(("| parameter | values, **default** | meaning |\n|---|---|---|\n", *lines))


def _rows(declared: Declarations) -> Iterator[tuple[str, str, str]]:
    """Name, values, meaning. Neighbours with the same values and meaning share a line."""
    if isinstance(declared, Mapping):
        yield from ((name, "text", meaning) for name, meaning in declared.items())
    else:
        yield from ((one.name, _values(one), one.help) for one in options_in(declared))


def _values(one: Option[object]) -> str:
    """What it may be, the default in bold."""
    values, default = one.kind.values, one.shown or (f"`{text}`" if (text := one.default_text()) else "")
    if not default:
        return values
    return values.replace(default, f"**{default}**") if default in values.split(", ") else f"{values}; **{default}**"


def with_tables(page: str) -> str:
    """The page with each of its tables as the declarations have it. Raises KeyError for a name that is not in TABLES."""
    return _TABLE.sub(lambda match: f"{match[1]}{match[2]}{table(TABLES[match[1]])}", page)


def names_in(page: str) -> list[str]:
    return [match[1] for match in _TABLE.finditer(page)]


def main() -> None:
    for path in sorted(DEPLOY.glob("*.md")):
        page = path.read_text()
        if (written := with_tables(page)) != page:
            path.write_text(written)


if __name__ == "__main__":
    main()
