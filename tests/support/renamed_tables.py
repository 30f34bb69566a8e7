"""A log that grows a segment at a time, a sink that follows it, and an operator who does what the sink's hints say: so a schema change of
whole tables is played to its end at any sink that can be read back."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from random import Random
from urllib.parse import quote

import pyarrow as pa
import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log.absent import with_absent
from sidecar.shared.log.layout import chunk_name
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.nouns import Change, Column, ColumnDefinition, CommitTs, Lane, Rank, Seq, TableName, TableSchema
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.histories import COLUMNS, DEFINITION
from spark_merge.testing.places import Here
from tests.support.read_back import reading_of, texts_of

Texts = tuple[str | None, ...]
LOG, SEGMENT_TS = "log-1", 100
STOPS_MAX = 6
"""Of one segment: hints that lead to each other are none that end."""

_ROUTE, _AGAIN = (
    re.compile(r"set the route (\S+) in routes="),
    re.compile(r"add ddl-anew=(\d+) to the sink's URI: (.+?) begin without rows"),
)


@dataclass
class Table:
    schema: TableSchema
    rows: dict[Texts, Texts] = field(default_factory=dict)


@dataclass
class RenameStory:
    """`uri`: of the sink, without `routes`. `split`: whether several renames are an event for each table, from its name before to the one
    after, as TiCDC has them. `hints`: those that the operator followed."""

    folder: Path
    uri: str
    routes: dict[TableName, str] = field(default_factory=dict)
    split: bool = False
    tables: dict[TableName, Table] = field(default_factory=dict)
    hints: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    seq: int = 0
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.log = open_folder(str(self.folder / "log"))
        self._segments = FolderLog(self.log)
        self._segments.recover(epoch=1)

    # ---- what TiDB does --------------------------------------------------------------------------------------------------

    def create(self, name: TableName, *, like: TableName | None = None) -> None:
        columns = "`id` VARCHAR(20), `part` INT, `v` VARCHAR(20), PRIMARY KEY (`id`, `part`)"
        schema = self.tables[like].schema if like else TableSchema(name, COLUMNS, ("id", "part"), definition=DEFINITION)
        ends = f"LIKE {_quoted(like)}" if like else f"({columns})"
        then = {**self.tables, name: Table(replace(schema, name=name, table_id=next(self._numbers)))}
        self._segment([], [(name, f"CREATE TABLE {_quoted(name)} {ends}")], then)

    def add_column(self, name: TableName, column: str) -> None:
        schema = self.tables[name].schema
        assert schema.definition is not None
        defined = (*schema.definition.columns, ColumnDefinition(column, "varchar(20)", charset="utf8mb4", collation="utf8mb4_bin"))
        after = replace(schema, columns=(*schema.columns, Column(column, "text")), definition=replace(schema.definition, columns=defined))
        then = {**self.tables, name: Table(after, {key: (*row, None) for key, row in self.tables[name].rows.items()})}
        self._segment([], [(name, f"ALTER TABLE {_quoted(name)} ADD COLUMN `{column}` VARCHAR(20)")], then)

    def rename(self, *moves: tuple[TableName, TableName]) -> None:
        """One after another, in one statement."""
        then = dict(self.tables)
        for old, new in moves:
            table = then.pop(old)
            then[new] = Table(replace(table.schema, name=new), table.rows)
        if self.split:
            names = {table.schema.table_id: name for name, table in then.items()}
            moves = tuple((name, names[table.schema.table_id]) for name, table in self.tables.items())
            moves = tuple((old, new) for old, new in moves if old != new)
        texts = [f"{_quoted(old)} TO {_quoted(new)}" for old, new in moves]
        if self.split:
            self._segment([], [(new, f"RENAME TABLE {text}") for (_, new), text in zip(moves, texts, strict=True)], then)
        else:
            self._segment([], [(moves[0][1], f"RENAME TABLE {', '.join(texts)}")], then)

    def truncate(self, name: TableName) -> None:
        then = {**self.tables, name: Table(replace(self.tables[name].schema, table_id=next(self._numbers)))}
        self._segment([], [(name, f"TRUNCATE TABLE {_quoted(name)}")], then)

    def drop(self, name: TableName) -> None:
        then = {other: table for other, table in self.tables.items() if other != name}
        self._segment([], [(name, f"DROP TABLE {_quoted(name)}")], then)

    def leave(self, name: TableName) -> None:
        """The log does not have it any more, and no statement says why: the changefeed's filter ignores the DDL."""
        self._segment([], [], {other: table for other, table in self.tables.items() if other != name})

    def put(self, name: TableName, *ids: int) -> None:
        """Rows of these ids, new or other ones."""
        table, changes = self.tables[name], list[Change]()
        for number in ids:
            row: Texts = (str(number), "1", *(f"{column.name}{next(self._numbers)}" for column in table.schema.columns[2:]))
            changes.append(self._change(table, len(changes), row, table.rows.get(row[:2])))
            table.rows[row[:2]] = row
        self._segment(changes, [], self.tables)

    def delete(self, name: TableName, *ids: int) -> None:
        table = self.tables[name]
        gone = [row for number in ids if (row := table.rows.pop((str(number), "1"), None)) is not None]
        self._segment([self._change(table, place, None, row) for place, row in enumerate(gone)], [], self.tables)

    def copy(self, source: TableName, target: TableName) -> None:
        """As the tool copies rows, chunk by chunk: columns that the source has not are new values."""
        to, changes = self.tables[target], list[Change]()
        for key, row in self.tables[source].rows.items():
            if key not in to.rows:
                to.rows[key] = (*row, *(f"c{next(self._numbers)}" for _ in to.schema.columns[len(row) :]))
                changes.append(self._change(to, len(changes), to.rows[key], None))
        self._segment(changes, [], self.tables)

    # ---- the log -----------------------------------------------------------------------------------------------------------

    def _change(self, table: Table, place: int, new: Texts | None, old: Texts | None) -> Change:
        names, row = table.schema.column_names(), new or old
        kind = "DELETE" if new is None else "UPDATE" if old else "INSERT"
        ts = CommitTs(self.seq * SEGMENT_TS + place + 1)
        assert row is not None
        event = {
            "database": table.schema.name.schema, "table": table.schema.name.table, "isDdl": False, "type": kind, "sql": "",
            "mysqlType": {name: "int" if name == "part" else "varchar" for name in names}, "data": [dict(zip(names, row, strict=True))],
            "old": [dict(zip(names, old, strict=True))] if kind == "UPDATE" and old is not None else None, "_tidb": {"commitTs": ts},
        }  # fmt: skip
        rank = Rank.DELETE if new is None else Rank.PUT
        return Change(ts, rank, *table.schema.name, b"", json.dumps(event).encode(), Lane("k/0"), 0)

    def _segment(
        self,
        changes: Sequence[Change],
        ddls: Sequence[tuple[TableName, str]],
        then: Mapping[TableName, Table],
        *,
        dump: Sequence[TableName] = (),
    ) -> None:
        """It is in the log and delivered when this returns, whatever the operator had to do for it."""
        seq, after_ts, upto_ts = Seq(self.seq), CommitTs(self.seq * SEGMENT_TS), CommitTs((self.seq + 1) * SEGMENT_TS)
        before = self._segments.write_schemas({name: table.schema for name, table in self.tables.items()})
        after = (
            self._segments.write_schemas({name: table.schema for name, table in then.items()})
            if ddls or then.keys() != self.tables.keys()
            else None
        )
        data = self._segments.write_data(seq, epoch=1, codec="canal-json", changes=changes)
        windows = tuple(
            ClosedWindow(f"{self.seq:016d}", after_ts, upto_ts, seq, (self._chunk(name, number),)) for number, name in enumerate(dump)
        )
        records = tuple(DdlRecord(upto_ts, *name, query) for name, query in ddls)
        manifest = Manifest(
            seq, 1, after_ts, upto_ts, data.name, data.rows, data.bytes, {}, before, "canal-json", records, windows,
            next_schemas=after, table_rows=data.table_rows, id=f"once {seq}", open_from=None,
        )  # fmt: skip
        self._segments.commit(manifest)
        self.seq, self.tables = self.seq + 1, dict(then)
        begun = self._follow()
        if due := [name for name in sorted(begun) if name in self.tables]:
            self._segment([], [], self.tables, dump=due)

    def _chunk(self, name: TableName, number: int) -> ChunkFile:
        table, path = self.tables[name], chunk_name(name.table.replace("_", ""), epoch=1, number=1000 * self.seq + number)
        rows = list(table.rows.values())
        columns = {one.name: pa.array([row[place] for row in rows], pa.string()) for place, one in enumerate(table.schema.columns)}
        write_chunk(self.log, path, with_absent(pa.table(columns), table.schema.key, []))
        return ChunkFile(name, path, len(rows), 1, None, None, since_seq=Seq(self.seq))

    # ---- the sink and the operator -----------------------------------------------------------------------------------------

    @property
    def uri_now(self) -> str:
        options = {"routes": ",".join(self.routes.values()), "ddl-anew": ",".join(self.again)}
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in options.items() if value)
        return self.uri + ("&" if "?" in self.uri else "?") * bool(query) + query

    def _follow(self) -> set[TableName]:
        """The tables that the operator has to dump."""
        begun = set[TableName]()
        for _ in range(STOPS_MAX):
            sink = open_sink(self.uri_now, log_id=LOG)
            try:
                delivery = Delivery(sink, JobSettings(self.log), Here())
                while delivery.deliver():
                    continue
            except SinkError as stopped:
                begun |= self._obey(stopped)
            else:
                return begun
            finally:
                sink.close()
        pytest.fail(f"the hints lead to no end: {self.hints}")

    def _obey(self, stopped: SinkError) -> set[TableName]:
        self.hints.append(f"{stopped.message}: {stopped.hint}")
        if led := _ROUTE.search(stopped.hint):
            for one in led[1].split(","):
                source = TableName(*one.partition("=>")[0].replace("`", "").split("."))
                self.routes[source] = one
            return set()
        if again := _AGAIN.search(stopped.hint):
            self.again.append(again[1])
            return {TableName(*name.split(".")) for name in again[2].split(", ") if name}
        raise stopped

    def check(self) -> None:
        """The rows of each table are TiDB's."""
        for name, table in self.tables.items():
            result = texts_of(reading_of(self.uri_now, table.schema, log_id=LOG, parts=2), table.schema)
            assert sorted(result, key=repr) == sorted(table.rows.values(), key=repr), (name, self.hints)


def _quoted(name: TableName) -> str:
    return f"`{name.schema}`.`{name.table}`"


# ---- stories -------------------------------------------------------------------------------------------------------------------

T = TableName("s", "t")


def online_change(story: RenameStory, made: str, old: str, column: str) -> None:
    """Of table T, by a tool that copies it into `made` and swaps: gh-ost, pt-online-schema-change."""
    new, gone = TableName("s", made), TableName("s", old)
    story.create(new, like=T)
    story.add_column(new, column)
    story.copy(T, new)
    story.put(T, 1, 90)
    story.put(new, 1, 90)
    story.delete(T, 2)
    story.delete(new, 2)
    story.check()
    story.rename((T, gone), (new, T))
    story.check()
    story.put(T, 3, 91)
    story.delete(T, 4)
    story.check()
    story.drop(gone)
    story.check()
    story.put(T, 2, 5)
    story.check()


def began(story: RenameStory) -> None:
    story.create(T)
    story.put(T, 1, 2, 3, 4, 5)


def gh_ost(story: RenameStory) -> None:
    """Twice, as a table is changed again and again; the log table of the tool comes and goes beside it."""
    began(story)
    for column in ("w", "x"):
        log = TableName("s", "_t_ghc")
        story.create(log)
        story.put(log, 1)
        online_change(story, "_t_gho", "_t_del", column)
        story.drop(log)
    story.check()


def pt_osc(story: RenameStory) -> None:
    began(story)
    for column in ("w", "x"):
        online_change(story, "_t_new", "_t_old", column)


def two_steps(story: RenameStory) -> None:
    """Without a swap: between both there is no table of the name; and the same again."""
    began(story)
    for column in ("w", "x"):
        new, gone = TableName("s", "_t_new"), TableName("s", "_t_old")
        story.create(new, like=T)
        story.add_column(new, column)
        story.copy(T, new)
        story.rename((T, gone))
        story.rename((new, T))
        story.put(T, 3, 92)
        story.check()
        story.drop(gone)
        story.put(T, 4)
        story.check()


def swap(story: RenameStory) -> None:
    """Of tables whose rows differ, and back."""
    began(story)
    other, aside = TableName("s", "other"), TableName("s", "aside")
    story.create(other)
    story.put(other, 1, 7, 8)
    for _ in range(2):
        story.rename((T, aside), (other, T), (aside, other))
        story.put(T, 3, 7)
        story.put(other, 5)
        story.check()
    story.drop(other)
    story.check()


def comes_back(story: RenameStory) -> None:
    """What a table has left in its place is nothing of the next one of its name."""
    began(story)
    story.leave(T)
    story.create(T)
    story.check()
    story.put(T, 3)
    story.check()


STORIES = {one.__name__: one for one in (gh_ost, pt_osc, two_steps, swap)}


def one_place(story: RenameStory) -> None:
    """Two schemas that routes lead to one: a table that comes, without a row and with some, by CREATE and by RENAME."""
    story.routes = {TableName("s", "*"): "s.*=>both.*", TableName("crm", "*"): "crm.*=>both.*"}
    began(story)
    twin, other = TableName("crm", "t"), TableName("crm", "u")
    story.create(twin)
    story.check()
    story.drop(twin)
    story.check()
    story.create(twin)
    story.put(twin, 1, 7)
    story.truncate(twin)
    story.check()
    story.drop(twin)
    story.create(other)
    story.put(other, 8, 9)
    story.rename((other, twin))
    story.put(twin, 8)
    story.check()
    story.drop(twin)
    story.put(T, 6)
    story.check()


NAMES = [TableName(schema, table) for schema in ("s", "crm") for table in "tu"]


def any_story(story: RenameStory, random: Random, *, steps: int) -> None:
    """Tables of few names come, go, are emptied and change names, at random; each state is checked."""
    if "sqlite" not in story.uri and random.random() < 0.5:
        story.routes = {TableName("crm", "*"): "crm.*=>s.*"}
    began(story)
    for _ in range(steps):
        there = sorted(story.tables)
        free = [name for name in NAMES if name not in story.tables]
        name = random.choice(there) if there else None
        act = random.choice(["create", "put", "put", "rename", "rename", "swap", "drop", "truncate"])
        if act == "create" and free:
            story.create(random.choice(free))
        elif name is None:
            story.create(T)
        elif act == "rename" and free:
            story.rename((name, random.choice(free)))
        elif act == "swap" and free and len(there) > 1:
            one, other = random.sample(there, 2)
            story.rename((one, random.choice(free)), (other, one))
        elif act == "drop":
            story.drop(name)
        elif act == "truncate":
            story.truncate(name)
        else:
            story.put(name, *random.sample(range(9), 3))
            story.delete(name, random.randrange(9))
        story.check()
