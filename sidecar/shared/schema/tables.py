"""What tables and schemas there were at each ts, by id, by name and by the ids in row keys. It obeys; history.py decides.

- Every change is one `move`: tables before and after, all at one ts. A key (table id, name in its schema, physical id) is taken only
  if it is free or given up in the same move, so that names can be swapped; `refuse_conflicts` says so before anything changes.
- Names are compared without case, as TiDB does.
- TableInfos of the newest versions are kept packed (about 1 KB each): an exchange and FLASHBACK DATABASE need them again.
- Schemas of the system are known by id, to leave their tables out; they hold none.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from sidecar.shared.errors import FeedError
from sidecar.shared.model.nouns import TableName
from sidecar.shared.schema.ddl import TableChange, TableInfo
from sidecar.shared.schema.system import is_system_schema
from sidecar.shared.schema.timeline import TimelineIndex
from sidecar.shared.schema.version import Rowless, SchemaSnapshot, TableVersion

RECOVERABLE_TABLES_MAX = 10_000
"""Tables of dropped schemas that are kept packed for FLASHBACK DATABASE, whose job may not hold them; the oldest schemas go first."""

AGAIN = "start again from the checkpoint with a fresh snapshot of the schemas; if it stops here again, report it with this text"

T = TypeVar("T")


class Move(NamedTuple, Generic[T]):
    """One table before and after; `info` is the TableInfo after."""

    before: TableVersion[T] | Rowless | None
    after: TableVersion[T] | Rowless | None
    info: TableInfo | None

    def change(self) -> TableChange:
        before, after = self.before, self.after
        return TableChange(
            name_before=before.name if before is not None else None,
            name_after=after.name if after is not None else None,
            id_before=before.table_id if before is not None else None,
            id_after=after.table_id if after is not None else None,
            physical_before=before.physical_ids if before is not None else (),
            physical_after=after.physical_ids if after is not None else (),
        )


class _Keys(NamedTuple, Generic[T]):
    """What some tables hold: each key with its holder. `doubled`: keys that two of them hold."""

    tables: dict[int, TableVersion[T] | Rowless]
    names: dict[tuple[int, str], int]
    owners: dict[int, int]
    doubled: list[object]

    @classmethod
    def of(cls, entries: Iterable[TableVersion[T] | Rowless | None]) -> _Keys[T]:
        keys: _Keys[T] = cls({}, {}, {}, [])
        for one in entries:
            if one is None:
                continue
            name = (one.schema_id, one.name.table.lower())
            keys.doubled.extend(key for key in one.physical_ids if key in keys.owners)
            keys.doubled.extend([name] if name in keys.names else [])
            keys.doubled.extend([one.table_id] if one.table_id in keys.tables else [])
            keys.tables[one.table_id] = one
            keys.names[name] = one.table_id
            keys.owners.update(dict.fromkeys(one.physical_ids, one.table_id))
        return keys


class SchemaTables(Generic[T]):
    """`*_at` answer for a ts; the others for the newest moment. The caller checks that a ts is one that can be answered."""

    def __init__(self) -> None:
        self._schemas: TimelineIndex[int, str] = TimelineIndex()
        self._schema_ids: TimelineIndex[str, int] = TimelineIndex()
        self._tables: TimelineIndex[int, TableVersion[T] | Rowless] = TimelineIndex()
        self._names: TimelineIndex[tuple[int, str], int] = TimelineIndex()
        self._owners: TimelineIndex[int, int] = TimelineIndex()
        self._infos: dict[int, bytes] = {}
        self._dropped: dict[int, tuple[bytes, ...]] = {}
        self._system: set[int] = set()

    # ---- at a ts ------------------------------------------------------------------------------------------------------

    def owner_at(self, physical_id: int, ts: int) -> TableVersion[T] | None:
        owner = self._owners.at(physical_id, ts)
        version = self._tables.at(owner, ts) if owner is not None else None
        assert not isinstance(version, Rowless)  # a view owns no physical id
        return version

    def table_at(self, table_id: int, ts: int) -> TableVersion[T] | None:
        version = self._tables.at(table_id, ts)
        return version if isinstance(version, TableVersion) else None

    def absence(self, an_id: int, ts: int, *, logical: bool = False) -> Literal["unknown", "not yet", "gone"]:
        timeline = self._owners.timelines.get(an_id) or (self._tables.timelines.get(an_id) if logical else None)
        if timeline is None:
            return "unknown"
        return "not yet" if ts < timeline.starts[0] else "gone"

    def named_at(self, name: TableName, ts: int) -> TableVersion[T] | Rowless | None:
        schema_id = self._schema_ids.at(name.schema.lower(), ts)
        table_id = self._names.at((schema_id, name.table.lower()), ts) if schema_id is not None else None
        return self._tables.at(table_id, ts) if table_id is not None else None

    def all_at(self, ts: int) -> tuple[TableVersion[T], ...]:
        versions = (timeline.at(ts) for timeline in self._tables.timelines.values())
        return tuple(one for one in versions if isinstance(one, TableVersion))

    # ---- now ----------------------------------------------------------------------------------------------------------

    def table(self, table_id: int) -> TableVersion[T] | Rowless | None:
        return self._tables.last(table_id)

    def named(self, schema_id: int, table: str) -> TableVersion[T] | Rowless | None:
        table_id = self._names.last((schema_id, table.lower()))
        return self._tables.last(table_id) if table_id is not None else None

    def schema_name(self, schema_id: int) -> str | None:
        return self._schemas.last(schema_id)

    def schema_id(self, name: str) -> int | None:
        return self._schema_ids.last(name.lower())

    def is_system(self, schema_id: int) -> bool:
        return schema_id in self._system

    def snapshot(self) -> list[SchemaSnapshot]:
        """All schemas, with what is in them."""
        names = ((schema_id, timeline.last()) for schema_id, timeline in self._schemas.timelines.items())
        return [
            SchemaSnapshot(schema_id, name, [self.info(one.table_id) for one in self.tables_in(schema_id)])
            for schema_id, name in names
            if name is not None
        ]

    def tables_in(self, schema_id: int) -> list[TableVersion[T] | Rowless]:
        versions = (timeline.last() for timeline in self._tables.timelines.values())
        return [one for one in versions if one is not None and one.schema_id == schema_id]

    def info(self, table_id: int) -> dict[str, Any]:
        return _unpacked(self._infos[table_id])

    def dropped_with(self, schema_id: int) -> list[dict[str, Any]] | None:
        """The TableInfos that a dropped schema had; None if they are not known."""
        infos = self._dropped.get(schema_id)
        return [_unpacked(info) for info in infos] if infos is not None else None

    # ---- changes ------------------------------------------------------------------------------------------------------

    def put_schema(self, ts: int, schema_id: int, name: str) -> None:
        if is_system_schema(name):
            self._system.add(schema_id)
        self._schemas.put(ts, schema_id, name)
        self._schema_ids.put(ts, name.lower(), schema_id)
        self._dropped.pop(schema_id, None)

    def drop_schema(self, ts: int, schema_id: int) -> None:
        """Its tables are still there, and move away next."""
        name = self._schemas.last(schema_id)
        assert name is not None
        self._dropped[schema_id] = tuple(self._infos[one.table_id] for one in self.tables_in(schema_id))
        while sum(map(len, self._dropped.values())) > RECOVERABLE_TABLES_MAX:
            del self._dropped[next(iter(self._dropped))]
        self._schema_ids.put(ts, name.lower(), None)
        self._schemas.put(ts, schema_id, None)

    def refuse_conflicts(self, moves: list[Move[T]], where: str) -> None:
        """Raises FeedError if a move takes what another table has."""
        given_up, taken = _Keys.of(move.before for move in moves), _Keys.of(move.after for move in moves)
        held: list[object] = [
            f"table id {key}" for key in taken.tables.keys() - given_up.tables.keys() if self._tables.last(key) is not None
        ]
        held += [f"name {key}" for key in taken.names.keys() - given_up.names.keys() if self._names.last(key) is not None]
        held += [f"physical id {key}" for key in taken.owners.keys() - given_up.owners.keys() if self._owners.last(key) is not None]
        if held or taken.doubled:
            raise FeedError(f"{where}: {', '.join(map(str, held or taken.doubled))} is another table's", hint=AGAIN)

    def move(self, ts: int, moves: list[Move[T]]) -> None:
        """What is the same before and after stays as it is: one column more does not touch a thousand partitions."""
        before, after = _Keys.of(move.before for move in moves), _Keys.of(move.after for move in moves)
        for table_id in before.tables.keys() | after.tables.keys():
            self._tables.put(ts, table_id, after.tables.get(table_id))
        for name in {key for key, _ in before.names.items() ^ after.names.items()}:
            self._names.put(ts, name, after.names.get(name))
        for physical_id in {key for key, _ in before.owners.items() ^ after.owners.items()}:
            self._owners.put(ts, physical_id, after.owners.get(physical_id))
        for table_id in before.tables:
            self._infos.pop(table_id, None)
        for move in moves:
            if move.after is not None:
                self._infos[move.after.table_id] = zlib.compress(json.dumps(move.info).encode(), 1)

    def forget(self, below_ts: int) -> None:
        for index in (self._schemas, self._schema_ids, self._tables, self._names, self._owners):
            index.forget(below_ts)


def _unpacked(info: bytes) -> dict[str, Any]:
    unpacked: dict[str, Any] = json.loads(zlib.decompress(info))
    return unpacked
