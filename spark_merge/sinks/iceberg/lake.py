"""An Iceberg catalog, and the one way in which a table of it is changed.

- A commit is made once: it names the snapshot that it was made on, and fails (`CommitFailedException`) where the table has another one by
  then. pyiceberg's own way to commit takes the new snapshot for its base and tries again, which would bring the same files twice, or those
  of an earlier owner: it is not used. The caller reads the table again, and decides.
- So each change makes a snapshot, one without files too: it is what a later commit is compared with.
- An error that passes (a catalog or a storage that is away) is tried again here for a while, and then reported.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import stamina
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    ServerError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TooManyRequestsError,
)
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertLastAssignedFieldId,
    AssertTableUUID,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    TableUpdate,
)
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError

from sidecar.shared.errors import SinkError, StorageFull
from sidecar.shared.process.patience import patience_s
from sidecar.shared.process.progress import may_take
from spark_merge.sinks.iceberg import rest
from spark_merge.sinks.iceberg.deletes import RowDelta
from spark_merge.sinks.iceberg.uri import IcebergSettings
from spark_merge.sinks.lake.steps import STEPS_MAX, Outpaced

T = TypeVar("T")
Identifier = tuple[str, ...]

RETRY_S = 30.0
"""How long an error that passes is tried again here; then the loop of the sink tries again, and reports it."""

RETRY_FIRST_S, RETRY_MAX_S = 0.1, 2.0

CALL_S_MAX = 3600
"""Of pyiceberg: a commit reads and writes manifests, a request each. The catalog's end by rest.py; a SQL catalog's, by its driver."""

_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
_AWAY = (OSError, OperationalError, ServerError, ServiceUnavailableError, TooManyRequestsError, CommitStateUnknownException)
_FULL = (errno.ENOSPC, errno.EDQUOT)

MADE_WITH = {
    "write.parquet.compression-codec": "zstd",
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
}
"""Of a table that we make: what commits leave behind stays bounded, but for snapshots."""


@dataclass(frozen=True, slots=True)
class RowsOfFiles:
    """How files become rows, where they are not only added. `below`, `emptied`: as of RowDelta. `reported_by`: the property that is to name
    the snapshot."""

    reported_by: str
    below: Mapping[str, int] = field(default_factory=dict)
    emptied: bool = False


@dataclass(frozen=True, slots=True)
class LakeChange:
    """Of a table, all of it or nothing. `schema` None: as it is. `forget`: snapshots that are to go."""

    properties: Mapping[str, str]
    summary: Mapping[str, str]
    files: Sequence[DataFile] = ()
    schema: Schema | None = None
    forget: Sequence[int] = ()
    rows: RowsOfFiles | None = None


class _Staged(Transaction):
    """pyiceberg copies all metadata, each snapshot, whenever it looks at it: some dozen times a commit, before anything is staged."""

    @property
    def table_metadata(self) -> TableMetadata:
        return super().table_metadata if self._updates else self._table.metadata


class Lake:
    """Opens the catalog when it is needed; after an error that passes it is closed, and opens afresh. One thread."""

    def __init__(self, settings: IcebergSettings) -> None:
        self.settings = settings
        self._catalog: Catalog | None = None

    def __str__(self) -> str:
        return f"iceberg catalog {self.settings.catalog}"

    def table(self, name: Identifier) -> Table | None:
        """As it is now. None where it is not there."""

        def load() -> Table | None:
            try:
                return self.catalog().load_table(name)
            except (NoSuchTableError, NoSuchNamespaceError):
                return None

        return self.retried(load, doing=f"reading {'.'.join(name)}")

    def make(
        self,
        name: Identifier,
        schema: Schema,
        properties: Mapping[str, str],
        folder: str,
        spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
    ) -> Table:
        """With its namespaces, if they are not there; a table that is there stays as it is. `folder`: below the warehouse, where that is a
        place and not the catalog's own matter."""

        def act() -> Table:
            catalog = self.catalog()
            for end in range(1, len(name)):
                with suppress(IntegrityError):  # a SQL catalog, in which another worker creates it at this moment
                    catalog.create_namespace_if_not_exists(name[:end])
            try:
                return catalog.create_table(name, schema, self._location(catalog, folder), spec, properties={**MADE_WITH, **properties})
            except TableAlreadyExistsError:
                return catalog.load_table(name)

        return self.retried(act, doing=f"making {'.'.join(name)}")

    def commit(self, table: Table, change: LakeChange) -> None:
        """Raises Outpaced; what the catalog raises passes through: then it is not known whether it was made. Not tried again."""
        staged = _Staged(table)
        properties = dict(change.properties)
        if change.rows is None:
            append = staged.update_snapshot(snapshot_properties=dict(change.summary)).merge_append()
        else:
            append = RowDelta(staged, change.summary, below=change.rows.below, emptied=change.rows.emptied)
            properties[change.rows.reported_by] = str(append.snapshot_id)
        for file in change.files:
            append.append_data_file(file)
        append.commit()
        updates, requirements = [*staged._updates], [*staged._requirements]
        updates.append(SetPropertiesUpdate(updates=properties))
        if change.schema is not None:
            updates += _to_schema(table, change.schema)
            requirements.append(AssertCurrentSchemaId.model_validate({"current-schema-id": table.metadata.current_schema_id}))
            requirements.append(AssertLastAssignedFieldId.model_validate({"last-assigned-field-id": table.metadata.last_column_id}))
        if change.forget:
            updates.append(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": list(change.forget)}))
        requirements.append(AssertTableUUID(uuid=table.metadata.table_uuid))
        try:
            table._do_commit(tuple(updates), tuple(requirements))
        except CommitFailedException as error:
            raise Outpaced(str(error)) from error

    def retried(self, act: Callable[[], T], *, doing: str) -> T:
        """`act` may be called again after it was half done. Raises SinkError, StorageFull; what else it raises passes through."""

        def tried() -> T:
            try:
                return act()
            except (OSError, SQLAlchemyError, RESTError):
                self.close()
                raise

        try:
            for attempt in stamina.retry_context(
                on=_passes, attempts=None, timeout=patience_s(RETRY_S), wait_initial=RETRY_FIRST_S, wait_max=RETRY_MAX_S
            ):
                with attempt, may_take(CALL_S_MAX):
                    return tried()
        except OSError as error:
            if error.errno in _FULL:
                raise StorageFull(
                    f"no room left in {self}, {doing}", hint="make room or enlarge the storage: nothing is lost, it continues automatically"
                ) from error
            raise self._sink_error(error, doing) from error
        except (SQLAlchemyError, RESTError, ValueError, NoSuchNamespaceError, ImportError) as error:
            raise self._sink_error(error, doing) from error
        raise AssertionError("it returns or raises")

    def close(self) -> None:
        catalog, self._catalog = self._catalog, None
        if catalog is not None:
            catalog.close()

    def catalog(self) -> Catalog:
        """For use within `retried`."""
        if self._catalog is None:
            rest.use_it()
            self._catalog = load_catalog(self.settings.catalog, **self.settings.properties)
        return self._catalog

    def _location(self, catalog: Catalog, folder: str) -> str | None:
        """Where the catalog would put it by the names alone these would have to be fit for paths, and TiDB's may be anything."""
        warehouse = catalog.properties.get("warehouse", "")
        if not warehouse or catalog.properties.get("uri", "").startswith("http"):
            return None
        root = f"file://{warehouse}" if warehouse.startswith("/") else warehouse
        return f"{root.rstrip('/')}/{folder}"

    def _sink_error(self, error: Exception, doing: str) -> SinkError:
        text = str(error) or type(error).__name__
        for secret in self.settings.secrets():
            text = text.replace(secret, "…")
        return SinkError(
            f"{self}, {doing}: {text}",
            hint="make catalog and warehouse exist and be reachable with these rights; nothing accepted is lost, and it is tried again",
        )


def outpaced(name: Identifier) -> SinkError:
    return SinkError(
        f"{'.'.join(name)}: {STEPS_MAX} commits of others came before one of this sink's, one after another",
        hint="let compaction and expiry of snapshots run more seldom; nothing accepted is lost, and it is tried again",
    )


def _to_schema(table: Table, schema: Schema) -> list[TableUpdate]:
    """One that the table had before is taken again, as the catalogs do."""
    for known in table.metadata.schemas:
        if known == schema:
            return [SetCurrentSchemaUpdate.model_validate({"schema-id": known.schema_id})]
    number = 1 + max(known.schema_id for known in table.metadata.schemas)
    return [AddSchemaUpdate(schema=schema.model_copy(update={"schema_id": number})), SetCurrentSchemaUpdate()]


def _passes(error: Exception) -> bool:
    full: Any = getattr(error, "errno", None)
    return isinstance(error, _AWAY) and not isinstance(error, _FINAL) and full not in _FULL
