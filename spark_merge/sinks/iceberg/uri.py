"""`iceberg://CATALOG/namespace?uri=…&warehouse=…`: the catalog by its name, and the namespace (of several parts: `a/b`) that has all
that this sink makes.

What a catalog needs is given here, or by pyiceberg's own configuration under the catalog's name (`.pyiceberg.yaml`,
`PYICEBERG_CATALOG__…`), which a parameter goes before. Tasks get no secret: they write data files with the keys of the storage as TiCDC
names them (sidecar.shared.log.storage), or with their machine's role.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args
from urllib.parse import unquote, urlencode, urlsplit

from sidecar.shared.errors import SinkError
from sidecar.shared.log.storage import Folder
from sidecar.shared.log.storage.folder import S3_PARAMETERS
from sidecar.shared.model.nouns import CommitTs, TableName, lowered
from spark_merge.ddl.routes import Routes
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.iceberg.partition_rules import PartitionRules, partitions_of
from spark_merge.sinks.iceberg.types import Mode
from spark_merge.sinks.kit.errors import sink_error, sink_folder
from spark_merge.sinks.kit.options import commit_interval, commit_tss, names_of, one_of, option, parsed, read, routes, text

TABLES = "{schema}.{table}"
RECORD = "_ticdc_dump"
"""The table, directly in the namespace, of the position."""

Retyped = Literal["refuse", "anew"]
_MODES: tuple[Mode, ...] = get_args(Mode)
_RETYPED: tuple[Retyped, ...] = get_args(Retyped)

CATALOG = {
    "uri": "The catalog. `http(s)://`: REST; `sqlite:///…`, `postgresql+psycopg2://…`: SQL, whose driver you install.",
    "warehouse": "Where tables are: `s3://…`, a folder, or a REST catalog's name of it.",
    "type": "`sql`, for another database that SQLAlchemy knows (`mysql+pymysql://…`).",
    "token": "The bearer token of a REST catalog.",
    "credential": "The OAuth2 client credential of a REST catalog.",
    "scope": "The OAuth2 scope of a REST catalog.",
    "oauth2-server-uri": "The OAuth2 server of a REST catalog.",
}
"""pyiceberg's own names. The default of each is pyiceberg's configuration of the catalog."""

_SECRET = frozenset({"token", "credential", "secret-access-key"})
_S3 = {
    "endpoint": "s3.endpoint",
    "region": "s3.region",
    "access-key": "s3.access-key-id",
    "secret-access-key": "s3.secret-access-key",
}
_HOLE = re.compile(r"\{schema\}|\{table\}")


@dataclass(frozen=True, slots=True)
class IcebergSettings:
    """`properties` are the catalog's, secrets among them: for the driver alone. `storage`: of the tasks, without secrets."""

    catalog: str
    namespace: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    storage: Folder = field(default_factory=lambda: Folder("s3", "", meaning=sink_error))
    mode: Mode = option("mode", one_of(*_MODES), "append", "`append`: the log of changes. `merge`: the tables as they are.")
    commit_s: float = commit_interval()
    tables: str = option("tables", text("a name with `{table}`, and maybe `{schema}`"), TABLES,
        "A table's name in the namespace. Without nested namespaces: `{schema}_{table}`.")  # fmt: skip
    routes: Routes = routes("Applied before `tables`.")
    partitions: PartitionRules = option("partitions", parsed("rules, separated by commas", partitions_of), PartitionRules(),
        "Of tables that the sink creates: `shop.orders(days(created_at),bucket(16,id)),shop.audit(),crm.*(truncate(4,name))`.")  # fmt: skip
    retyped: Retyped = option("changed-types", one_of(*_RETYPED), "refuse",
        "With `append`, for a type that Iceberg does not widen to. `refuse`: the sink stops. `anew`: the column is dropped and added, and "
        "is null in older rows.")  # fmt: skip
    ddl_done: frozenset[CommitTs] = commit_tss("ddl-done", "DDLs that you carried out by hand.")
    again: frozenset[CommitTs] = commit_tss("ddl-anew", "With `merge`: DDLs whose tables begin again without rows.")

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
        return self.identifier_of(self.routes.target(name), name)

    def place(self, name: TableName) -> tuple[str, ...]:
        """`LakeSettings.place`."""
        return self.identifier(name)

    def compared(self, target: TableName) -> tuple[str, ...]:
        """A catalog may compare names without case."""
        return tuple(map(lowered, self.identifier_of(target, target)))

    def identifier_of(self, target: TableName, name: TableName) -> tuple[str, ...]:
        """`target`: of table `name`, after the routes."""
        names = {"{schema}": target.schema, "{table}": target.table}
        results = tuple(_HOLE.sub(lambda hole: names[hole[0]], part) for part in self.tables.split("."))
        if any(not part or set(part) & set("./\x1f\0") for part in results) or results == (RECORD,):
            raise SinkError(
                f"{name} would be {'.'.join((*self.namespace, *results))} in catalog {self.catalog}, which is no usable name",
                hint=f"name another one by routes=`{name.schema}`.`{name.table}`=>schema.table",
            )
        return (*self.namespace, *results)

    def folder(self, location: str) -> Folder:
        """A table's, or one in it, as the tasks write to it. Raises SinkError for a storage that we write no files to."""
        parts = urlsplit(location)
        if parts.scheme in ("", "file") and not parts.netloc:
            return sink_folder(f"file://{parts.path}")
        if parts.scheme in ("s3", "s3a", "s3n"):
            return replace(self.storage, root=(parts.netloc + parts.path).rstrip("/"))
        raise SinkError(
            f"the tables of catalog {self.catalog} are at {parts.scheme}://, where this sink writes no files",
            hint="give the catalog a warehouse at s3:// or on a file system (file://)",
        )


def settings_of(uri: SinkUri) -> IcebergSettings:
    """Raises SinkError for what is not valid; it shows no value of a parameter that may be a secret."""
    given, parts = uri.parameters, uri.parts
    namespace = tuple(part for part in parts.path.split("/") if part)
    if not parts.netloc or "@" in parts.netloc or ":" in parts.netloc or not namespace:
        raise SinkError(
            "an iceberg: sink's URI names a catalog and a namespace", hint="write iceberg://CATALOG/namespace?uri=…&warehouse=…"
        )
    query = urlencode({name: given[name] for name in S3_PARAMETERS if name in given})
    properties = {name: given[name] for name in CATALOG if name in given} | {_S3[name]: given[name] for name in _S3 if name in given}
    if properties.get("warehouse", "").startswith("file:///"):
        properties["warehouse"] = properties["warehouse"].removeprefix("file://")
    settings = read(
        IcebergSettings,
        given,
        catalog=parts.netloc,
        namespace=namespace,
        properties=properties,
        storage=sink_folder(f"s3://tables?{query}"),
    )
    _check(settings, given)
    return settings


def _check(settings: IcebergSettings, given: Mapping[str, str]) -> None:
    tables = settings.tables
    if settings.mode == "merge" and "changed-types" in given:
        raise SinkError("changed-types= is nothing to mode=merge", hint="remove changed-types=: deploy/ICEBERG-SINK.md, schema changes")
    if given.get("type", "").lower() == "hadoop":
        raise SinkError(
            "a hadoop catalog is none that pyiceberg has, and it has no exclusive commit on an object store",
            hint="use a REST or SQL catalog, which can register the tables that are there",
        )
    if tables.count("{table}") != 1 or "{" in _HOLE.sub("", tables):
        raise SinkError(f"tables={tables!r} is no table's name", hint=f"leave it out for {TABLES}, or write tables={{schema}}_{{table}}")


OPTIONS = (CATALOG, IcebergSettings)
PARAMETERS = names_of(*OPTIONS, S3_PARAMETERS)
