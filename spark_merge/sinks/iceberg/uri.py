"""`iceberg://CATALOG/namespace?uri=…&warehouse=…`: the catalog by its name, and the namespace (of several parts: `a/b`) that has all
that this sink makes.

What a catalog needs is given here, or by pyiceberg's own configuration under the catalog's name (`.pyiceberg.yaml`,
`PYICEBERG_CATALOG__…`), which a parameter goes before. Tasks get no secret: they write data files with the keys of the storage as TiCDC
names them (sidecar.log.storage), or with their machine's role.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args
from urllib.parse import unquote, urlencode, urlsplit

from sidecar.core.model import CommitTs, TableName
from sidecar.errors import SinkError
from sidecar.log.storage import Folder, open_folder
from sidecar.log.storage.folder import S3_PARAMETERS
from spark_merge.ddl.routes import Routes
from spark_merge.sinks.iceberg.partition_rules import Partitions, partitions_of
from spark_merge.sinks.iceberg.types import Mode
from spark_merge.sinks.kind import SinkUri
from spark_merge.sinks.parameters import Parameters

TABLES = "{schema}.{table}"
RECORD = "_ticdc_dump"
"""The table, directly in the namespace, of the position."""

COMMIT_S, COMMIT_S_MAX = 10.0, 3600.0
"""Seconds between two batches, each of which is a commit and a file or more a table."""

Retyped = Literal["refuse", "anew"]
_MODES: tuple[Mode, ...] = get_args(Mode)
_RETYPED: tuple[Retyped, ...] = get_args(Retyped)

_CATALOGS = frozenset({"uri", "warehouse", "type", "token", "credential", "scope", "oauth2-server-uri"})
"""pyiceberg's own names."""

_SECRET = frozenset({"token", "credential", "secret-access-key"})
_S3 = {
    "endpoint": "s3.endpoint",
    "region": "s3.region",
    "access-key": "s3.access-key-id",
    "secret-access-key": "s3.secret-access-key",
}
_HOLE = re.compile(r"\{schema\}|\{table\}")

PARAMETERS = _CATALOGS | S3_PARAMETERS | {"mode", "tables", "routes", "changed-types", "commit-interval", "partitions", "ddl-done"}


@dataclass(frozen=True, slots=True)
class Settings:
    """`properties` are the catalog's, secrets among them: for the driver alone. `storage`: of the tasks, without secrets. `tables`: a
    table's name below the namespace. `partitions`: of tables that are made. `retyped`: what becomes of a column whose new type Iceberg
    does not widen to. `ddl_done`: commit_ts of DDLs that the operator has seen to."""

    catalog: str
    namespace: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    storage: Folder = field(default_factory=lambda: Folder("s3", ""))
    tables: str = TABLES
    routes: Routes = field(default_factory=Routes)
    partitions: Partitions = field(default_factory=Partitions)
    retyped: Retyped = "refuse"
    commit_s: float = COMMIT_S
    mode: Mode = "append"
    ddl_done: frozenset[CommitTs] = frozenset()

    def secrets(self) -> Iterator[str]:
        for name, value in self.properties.items():
            if name in _SECRET or name == _S3["secret-access-key"]:
                yield value
        if password := urlsplit(self.properties.get("uri", "")).password:
            yield password
            yield unquote(password)

    @property
    def record(self) -> tuple[str, ...]:
        return (*self.namespace, RECORD)

    def identifier(self, name: TableName) -> tuple[str, ...]:
        """Where a table of the source is. Raises SinkError for a name that a catalog could not tell from another's."""
        to = self.routes.target(name)
        names = {"{schema}": to.schema, "{table}": to.table}
        found = tuple(_HOLE.sub(lambda hole: names[hole[0]], part) for part in self.tables.split("."))
        if any(not part or set(part) & set("./\x1f\0") for part in found) or found == (RECORD,):
            raise SinkError(
                f"{name} would be {'.'.join((*self.namespace, *found))} in catalog {self.catalog}, which is no usable name",
                hint=f"name another one by routes=`{name.schema}`.`{name.table}`=>schema.table",
            )
        return (*self.namespace, *found)

    def folder(self, location: str) -> Folder:
        """A table's, or one in it, as the tasks write to it. Raises SinkError for a storage that we write no files to."""
        parts = urlsplit(location)
        if parts.scheme in ("", "file") and not parts.netloc:
            return open_folder(f"file://{parts.path}")
        if parts.scheme in ("s3", "s3a", "s3n"):
            return Folder("s3", (parts.netloc + parts.path).rstrip("/"), self.storage.options)
        raise SinkError(
            f"the tables of catalog {self.catalog} are at {parts.scheme}://, where this sink writes no files",
            hint="give the catalog a warehouse at s3:// or on a file system (file://)",
        )


def settings_of(uri: SinkUri) -> Settings:
    """Raises SinkError for what cannot be meant; it shows no value of a parameter that may be a secret."""
    found, parts = Parameters(uri.parameters), uri.parts
    namespace = tuple(part for part in parts.path.split("/") if part)
    if not parts.netloc or "@" in parts.netloc or ":" in parts.netloc or not namespace:
        raise SinkError(
            "an iceberg: sink's URI names a catalog and a namespace", hint="write iceberg://CATALOG/namespace?uri=…&warehouse=…"
        )
    mode = _mode(found)
    tables = found.text("tables", TABLES)
    if tables.count("{table}") != 1 or "{" in _HOLE.sub("", tables):
        raise SinkError(f"tables={tables!r} is no table's name", hint=f"leave it out for {TABLES}, or write tables={{schema}}_{{table}}")
    given = found.values
    query = urlencode({name: given[name] for name in S3_PARAMETERS if name in given})
    properties = {name: given[name] for name in _CATALOGS if name in given} | {_S3[name]: given[name] for name in _S3 if name in given}
    if properties.get("warehouse", "").startswith("file:///"):
        properties["warehouse"] = properties["warehouse"].removeprefix("file://")
    return Settings(
        catalog=parts.netloc,
        namespace=namespace,
        properties=properties,
        storage=open_folder(f"s3://tables?{query}"),
        tables=tables,
        routes=found.routes(),
        partitions=partitions_of(found.text("partitions")),
        retyped=found.one_of("changed-types", _RETYPED),
        commit_s=found.seconds("commit-interval", COMMIT_S, COMMIT_S_MAX, least=0),
        mode=mode,
        ddl_done=found.commit_tss("ddl-done"),
    )


def _mode(found: Parameters) -> Mode:
    mode = found.one_of("mode", _MODES)
    other = {"append": "ddl-done", "merge": "changed-types"}[mode]
    if other in found.values:
        raise SinkError(f"{other}= is nothing to mode={mode}", hint=f"leave out {other}=: deploy/ICEBERG-SINK.md, schema changes")
    if found.text("type").lower() == "hadoop":
        raise SinkError(
            "a hadoop catalog is none that pyiceberg has, and it has no exclusive commit on an object store",
            hint="use a REST or SQL catalog, which can register the tables that are there",
        )
    return mode
