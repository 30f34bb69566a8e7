"""Our tables at the target and the views that readers use.

    shop.orders__rows   ReplacingMergeTree(_version, _is_deleted) ORDER BY the handle key: versions of each row
    shop.orders         SELECT its columns FROM shop.orders__rows FINAL [WHERE _version > floor]: of each key the newest row, unless deleted

A table's comment is our note on it: whose rows it has, up to which DDL it is as the source's, and `floor`: what is not newer than that was
before a TRUNCATE or a DROP, and does not count whenever it comes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from sidecar.shared.errors import SinkError
from sidecar.shared.log.identity import continues
from sidecar.shared.model.nouns import TableName, TableSchema
from spark_merge.port.contract import has_rows
from spark_merge.sinks.clickhouse.block import Ours
from spark_merge.sinks.clickhouse.columns import DATE_KINDS, column_type, holds, kept_as
from spark_merge.sinks.clickhouse.server import identifier, literal, quoted
from spark_merge.sinks.clickhouse.uri import ClickHouseSettings

NAMES_A_QUERY = 200

DEDUPLICATION_WINDOW = 1000
"""Blocks whose content a table remembers, so that one that is sent again is skipped."""

_VIEW_NOTE = "ticdc-dump "


class Note(msgspec.Struct, frozen=True):
    """`ticdc_dump`: the log. `table`: of the log, whose rows it has. `upto`, `moved`: commit_ts of the last DDL that it has behind it, and
    of the last one that gave it another name; 0 for none. `floor`: a version."""

    ticdc_dump: str
    table: tuple[str, str]
    upto: int = 0
    moved: int = 0
    floor: int = 0

    @property
    def name(self) -> TableName:
        return TableName(*self.table)

    def text(self) -> str:
        return literal(msgspec.json.encode(self).decode())


@dataclass(frozen=True, slots=True)
class There:
    """A table or view of the target. `columns`: name to type, in order. `sorted_by`: the text of ORDER BY, whose columns are `key`. `note`
    None: the comment is none of ours."""

    engine: str
    comment: str
    columns: Mapping[str, str]
    key: frozenset[str]
    note: Note | None
    sorted_by: str


@dataclass(frozen=True, slots=True)
class ClickHouseTarget:
    """Where a task writes a table's rows: `kept` has the kinds that its columns have there. Picklable."""

    rows: TableName
    kept: TableSchema


@dataclass
class ClickHouseTables:
    settings: ClickHouseSettings
    log_id: str
    _typed_keys: set[TableName] = field(default_factory=set)
    """Tables that were made with dates in their keys, which cannot become text."""

    def target(self, schema: TableSchema) -> ClickHouseTarget:
        """As far as the table has been compared."""
        return ClickHouseTarget(self.settings.names.rows(schema.name), self.kept(schema))

    def note(self, schema: TableSchema, upto: int = 0, floor: int = 0) -> Note:
        return Note(self.log_id, (schema.name.schema, schema.name.table), upto, floor=floor)

    def kept(self, schema: TableSchema) -> TableSchema:
        return kept_as(schema, self.settings.dates, typed_key=schema.name in self._typed_keys)

    def learn_key(self, schema: TableSchema, there: There) -> None:
        kinds = [column_type(column, in_key=True) for column in schema.columns if column.kind in DATE_KINDS and column.name in schema.key]
        if kinds and there.key & {name for name, kind in there.columns.items() if kind in kinds}:
            self._typed_keys.add(schema.name)

    # ---- what is there ---------------------------------------------------------------------------------------------------------------

    def read(self, names: Iterable[TableName]) -> dict[TableName, There]:
        wanted, theres = sorted(set(names)), dict[TableName, There]()
        for start in range(0, len(wanted), NAMES_A_QUERY):
            theres |= self._read(wanted[start : start + NAMES_A_QUERY])
        return theres

    def _read(self, names: Sequence[TableName]) -> dict[TableName, There]:
        among = ", ".join(f"({literal(name.schema)}, {literal(name.table)})" for name in names)
        server, doing = self.settings.server, "reading what the tables have"
        tables = server.rows(
            f"SELECT database, name, engine_full, comment, sorting_key FROM system.tables WHERE (database, name) IN ({among})", doing=doing
        )
        columns = server.rows(
            f"SELECT database, table, name, type, is_in_sorting_key FROM system.columns WHERE (database, table) IN ({among})"
            " ORDER BY database, table, position",
            doing=doing,
        )
        tables_there = {}
        for schema, table, engine, comment, sorted_by in tables or ():
            own = [(name, kind, key) for a, b, name, kind, key in columns or () if (a, b) == (schema, table)]
            key = frozenset(name for name, _, in_key in own if in_key)
            kinds = {name: kind for name, kind, _ in own}
            tables_there[TableName(schema, table)] = There(engine, comment, kinds, key, note_of(comment), _ALONE.sub(r"\1", sorted_by))
        return tables_there

    # ---- making and comparing --------------------------------------------------------------------------------------------------------

    def ready(self, schemas: Iterable[TableSchema], *, fresh: bool) -> None:
        """Each is there, as it must be. `fresh`: nothing is accepted, so what is not there is made; later it would lack the rows that it
        had. Raises SinkError."""
        wanted = [schema for schema in schemas if has_rows(schema)]
        there = self.read(self.names(wanted))
        for schema in wanted:
            self.check(schema, there, fresh=fresh)
            target = there.get(self.settings.names.rows(schema.name))
            if target is None:
                self.make(schema, self.note(schema))
            else:
                self.compare(schema, target)
            self.view(schema, there, floor=target.note.floor if target and target.note else 0)

    def check(self, schema: TableSchema, there: Mapping[TableName, There], *, fresh: bool) -> None:
        """What `ready` of it would raise; writes nothing."""
        name, reader = self.settings.names.rows(schema.name), self.settings.names.reader(schema.name)
        if name in there:
            self._dates_to_turn(schema, there[name])
        elif not fresh:
            raise SinkError(
                f"{name}, which has the rows of {schema.name}, is not at the target",
                hint="bring it back from where it went. If it never was there (a table that came to the changefeed without a DDL), or"
                f" may begin empty, make it: {self._create(schema, self.note(schema))}",
            )
        if reader is not None and reader in there:
            check_view(reader, there[reader])

    def names(self, schemas: Iterable[TableSchema]) -> list[TableName]:
        """Of their tables and views."""
        names = self.settings.names
        return [name for schema in schemas for name in (names.rows(schema.name), names.reader(schema.name)) if name is not None]

    def make(self, schema: TableSchema, note: Note) -> None:
        doing = f"making {self.settings.names.rows(schema.name)} for {schema.name}"
        database = self.settings.names.rows(schema.name).schema
        self.settings.server.run(f"CREATE DATABASE IF NOT EXISTS {quoted(database)}", doing=doing)
        self.settings.server.run(self._create(schema, note), doing=doing)

    def _create(self, schema: TableSchema, note: Note) -> str:
        kept, ours = self.kept(schema), Ours.of(schema)
        columns = [f"{quoted(column.name)} {column_type(column, in_key=column.name in kept.key)}" for column in kept.columns]
        columns += [f"{quoted(ours.version)} UInt64", f"{quoted(ours.deleted)} UInt8"]
        options = f"non_replicated_deduplication_window = {DEDUPLICATION_WINDOW}"
        if self.settings.fsync:
            options += ", fsync_after_insert = 1, fsync_part_directory = 1"
        return (
            f"CREATE TABLE IF NOT EXISTS {identifier(self.settings.names.rows(schema.name))} ({', '.join(columns)})"
            f" ENGINE = ReplacingMergeTree({quoted(ours.version)}, {quoted(ours.deleted)})"
            f" ORDER BY ({', '.join(map(quoted, kept.key))}) SETTINGS {options} COMMENT {note.text()}"
        )

    def compare(self, schema: TableSchema, there: There) -> None:
        """Raises SinkError where it is not what `make` would make, or more. A date that is to be text becomes text."""
        name = self.settings.names.rows(schema.name)
        for column, wanted in self._dates_to_turn(schema, there):
            doing = f"turning {name}.{column} into text"
            self.settings.server.run(f"ALTER TABLE {identifier(name)} MODIFY COLUMN {quoted(column)} {wanted}", doing=doing)

    def _dates_to_turn(self, schema: TableSchema, there: There) -> list[tuple[str, str]]:
        """With the types that they are to have. Raises as `compare`."""
        name, turned = self.settings.names.rows(schema.name), list[tuple[str, str]]()
        self.check_ours(name, there, schema.name)
        self.learn_key(schema, there)
        kept, ours = self.kept(schema), Ours.of(schema)
        differ = [] if _merges_by(there.engine, ours) else [f"the engine {there.engine.partition(' ')[0]}"]
        if there.key != set(kept.key) or not _columns_alone(there.sorted_by, kept.key):
            differ.append(f"ORDER BY ({there.sorted_by}) and not ({', '.join(kept.key)})")
        own = {ours.version: "UInt64", ours.deleted: "UInt8"}
        differ += [f"{one} {there.columns.get(one)} and not {kind}" for one, kind in own.items() if there.columns.get(one) != kind]
        for column, typed in zip(kept.columns, schema.columns, strict=True):
            in_key, is_there = column.name in kept.key, there.columns.get(column.name)
            wanted = column_type(column, in_key=in_key)
            if is_there is None:
                differ.append(f"no column {column.name}")
            elif not holds(is_there, wanted):
                if column.kind == typed.kind or in_key or not holds(is_there, column_type(typed, in_key=False)):
                    differ.append(f"{column.name} {is_there} and not {wanted}")
                else:
                    turned.append((column.name, wanted))
        if differ:
            raise SinkError(
                f"{name}, which is at the target, is another table than {schema.name} of the log: it has {'; '.join(differ)}",
                hint="alter or drop it (then dump the table again), or give the log's table another target with `routes`",
            )
        return turned

    def check_ours(self, name: TableName, there: There, of: TableName) -> None:
        note = there.note
        if note is None or note.name != of or not continues(note.ticdc_dump, self.log_id):
            rows_there = f"rows of {note.name} by log {note.ticdc_dump}" if note else "no rows of this sink's"
            raise SinkError(
                f"{name} is at the target already, and has {rows_there}; the rows of {of} by log {self.log_id} would go there",
                hint="drop or rename it, or give the log's table another target with `routes` or `rows-table`",
            )

    # ---- views -----------------------------------------------------------------------------------------------------------------------

    def view(self, schema: TableSchema, there: Mapping[TableName, There], *, floor: int) -> None:
        """What readers use is there; made again when a column's type is another, as a view converts to those that it was made with. Raises
        SinkError where something else has its name."""
        name = self.settings.names.reader(schema.name)
        if name is None:
            return
        text = self._select(schema, floor)
        kinds = [column_type(column, in_key=column.name in schema.key) for column in self.kept(schema).columns]
        mark = _VIEW_NOTE + hashlib.blake2b(f"{text} {kinds}".encode(), digest_size=12).hexdigest()
        view_there = there.get(name)
        if view_there is not None:
            check_view(name, view_there)
            if view_there.comment == mark:
                return
        doing = f"making view {name}"
        self.settings.server.run(f"CREATE DATABASE IF NOT EXISTS {quoted(name.schema)}", doing=doing)
        self.settings.server.run(f"CREATE OR REPLACE VIEW {identifier(name)} AS {text} COMMENT {literal(mark)}", doing=doing)

    def _select(self, schema: TableSchema, floor: int) -> str:
        where = f" WHERE {quoted(Ours.of(schema).version)} > {floor}" if floor else ""
        columns = ", ".join(map(quoted, schema.column_names()))
        return f"SELECT {columns} FROM {identifier(self.settings.names.rows(schema.name))} FINAL{where}"

    def drop_view(self, name: TableName, there: Mapping[TableName, There]) -> None:
        """Nothing where it is not there, or is none of ours."""
        view = self.settings.names.reader(name)
        view_there = there.get(view) if view else None
        if view is not None and view_there is not None and view_there.comment.startswith(_VIEW_NOTE):
            self.settings.server.run(f"DROP VIEW IF EXISTS {identifier(view)}", doing=f"dropping view {view}")


def check_view(name: TableName, there: There) -> None:
    if not there.comment.startswith(_VIEW_NOTE):
        raise SinkError(
            f"{name}, under which readers would find a view of ours, is at the target already and is none of ours",
            hint="drop or rename it, or give views another name with `view`, such as view={table}_now; an empty `view` makes none",
        )


_ALONE = re.compile(r"^\(([^()]*)\)$")
"""A server shows the parentheses of a sorting key as the table was made with."""


def _columns_alone(sorted_by: str, key: Sequence[str]) -> bool:
    """An expression of a column, such as lower(id), takes two keys for one."""
    one = "|".join(re.escape(text) for name in key for text in (name, quoted(name)))
    return re.fullmatch(rf"(?:{one})(?:, (?:{one}))*", sorted_by) is not None


def _merges_by(engine: str, ours: Ours) -> bool:
    """Whatever replicates it beside."""
    head, _, rest = engine.partition("(")
    arguments = [part.strip(" `") for part in rest.partition(")")[0].split(",")]
    return head.endswith("ReplacingMergeTree") and arguments[-2:] == [ours.version, ours.deleted]


def note_of(comment: str) -> Note | None:
    try:
        return msgspec.json.decode(comment, type=Note)
    except msgspec.MsgspecError:
        return None
