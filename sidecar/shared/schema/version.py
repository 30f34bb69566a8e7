"""One version of a table, as the schema history keeps it: ids and names from the TableInfo, and somebody else's description.

- Ids in row keys are physical: the partitions' if the table has any, else its own. A partitioned table's own id has no rows.
- Views and sequences take names and ids, and have no rows in a feed: nothing describes them.
- A description is opaque here: a function of TableInfo and the schema's name made it. It must be immutable: it is shared.

Source: pingcap/tidb pkg/meta/model/table.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import CommitTs, TableName
from sidecar.shared.schema.ddl import TableInfo

T = TypeVar("T")

Describe = Callable[[TableInfo, str], T]
"""(TableInfo, its schema's name) to what decodes the table's rows."""

_DELETE_REORGANIZATION = 4
_FORMS: tuple[Literal["view", "sequence"], ...] = ("view", "sequence")


class SchemaSnapshot(NamedTuple):
    """One schema (database) with all of its tables, views and sequences, at the snapshot's ts."""

    schema_id: int
    name: str
    tables: Iterable[TableInfo]


@dataclass(frozen=True, slots=True)
class TableVersion(Generic[T]):
    """A table from `since_ts` on. `physical_ids`: those in its row keys. `state`: TiDB's SchemaState, 5 is public."""

    table_id: int
    schema_id: int
    name: TableName
    physical_ids: tuple[int, ...]
    update_ts: int
    state: int
    since_ts: CommitTs
    description: T


@dataclass(frozen=True, slots=True)
class Rowless:
    """A view or a sequence: it takes a name, and has no rows in a feed."""

    table_id: int
    schema_id: int
    name: TableName
    form: Literal["view", "sequence"]
    since_ts: CommitTs

    @property
    def physical_ids(self) -> tuple[int, ...]:
        return ()


def read_version(info: TableInfo, describe: Describe[T], *, schema_id: int, schema: str, since_ts: CommitTs) -> TableVersion[T] | Rowless:
    """Raises FeedUnsuitable if a field is absent, and what `describe` raises."""
    try:
        table_id, name = info["id"], TableName(schema, info["name"]["O"])
        form = next((form for form in _FORMS if info.get(form) is not None), None)
        if form is not None:
            return Rowless(table_id, schema_id, name, form, since_ts)
        physical, update_ts, state = _physical_ids(info), info["update_timestamp"], info["state"]
    except (KeyError, TypeError) as error:
        raise FeedUnsuitable(
            f"a table info of schema {schema} lacks or breaks a field: {error!r}", hint="run a ticdc-dump that knows this TiDB version"
        ) from error
    return TableVersion(table_id, schema_id, name, physical, update_ts, state, since_ts, describe(info, schema))


def _physical_ids(info: TableInfo) -> tuple[int, ...]:
    """Amid a DDL (in a snapshot) `definitions` is what SQL sees, what is being added is a copy, what is being dropped will vanish.
    While a reorganisation is in delete-reorganization SQL sees the new ones already, but it can still be rolled back: the old
    ones count, which are written to as well."""
    partition = info.get("partition")
    if partition is None or not partition["enable"]:
        return (info["id"],)
    ids = [one["id"] for one in partition["definitions"]]
    adding = {one["id"] for one in partition.get("adding_definitions") or ()}
    if adding and partition.get("ddl_state") == _DELETE_REORGANIZATION:
        ids = [one for one in ids if one not in adding] + [one["id"] for one in partition["dropping_definitions"]]
    return tuple(ids)
