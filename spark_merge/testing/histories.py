"""Random logs for the merge: many tables, each with a random history of its own: windows that overlap, close out of order, are
empty or drop all their rows; deletes; changes of the key; equal commit_ts; windows that begin in earlier batches. One dump reads each table
several times: each window is a pass of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from sidecar.shared.log.absent import with_absent
from sidecar.shared.log.layout import chunk_name
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.nouns import (
    Change,
    Column,
    ColumnDefinition,
    CommitTs,
    IndexDefinition,
    IndexPart,
    Lane,
    Rank,
    Seq,
    TableDefinition,
    TableName,
    TableSchema,
)
from sidecar.shared.model.progress import Key
from spark_merge.merge.rule import Image, OutputRow, merged
from spark_merge.port.contract import RANK_DELETE, RANK_PUT
from spark_merge.sinks.files.reader import read_output

TABLES, SEGMENTS, KEYS, SEGMENT_TS = 12, 6, 8, 100
COLUMNS = (Column("id", "text"), Column("part", "int"), Column("v", "text"))
DEFINITION = TableDefinition(
    (
        ColumnDefinition("id", "varchar(8)", nullable=False, charset="utf8mb4", collation="utf8mb4_bin"),
        ColumnDefinition("part", "int(11)", nullable=False),
        ColumnDefinition("v", "varchar(8)", charset="utf8mb4", collation="utf8mb4_bin"),
    ),
    (IndexDefinition("PRIMARY", (IndexPart("id"), IndexPart("part")), unique=True, primary=True, id=1),),
)


@dataclass
class RandomHistory:
    """What a random sidecar would have logged: changes by segment, and windows by the segment in which they closed; a chunk's rows, and
    the keys that stand before them in its file because the source does not have them."""

    changes: list[list[Change]]
    rows: list[OutputRow]
    windows: list[list[ClosedWindow]]
    chunk_rows: dict[str, list[Image]]
    absent: dict[str, list[Key]] = field(default_factory=dict)

    def merged(self, manifests: list[Manifest]) -> list[OutputRow]:
        """All of the output, by the slow rule."""

        def rows_of(chunk: ChunkFile) -> list[tuple[Image, Image | None]]:
            absent: list[tuple[Image, Image | None]] = [(key, None) for key in self.absent.get(chunk.path, ())]
            return absent + [(row[:2], row) for row in self.chunk_rows[chunk.path]]

        return [row for manifest in manifests for row in merged(manifest, self.rows, rows_of=rows_of)]


def image(rng: Random) -> Image:
    """Keys with what JSON and separators find hard; `id` and `part` are the key."""
    return (rng.choice(["a", 'b"', "c\\", 'd","e', "é", ""]), str(rng.randrange(2)), rng.choice([None, "x", "µ"]))


def random_history(rng: Random) -> RandomHistory:
    history = RandomHistory([[] for _ in range(SEGMENTS)], [], [[] for _ in range(SEGMENTS)], {})
    for table in (TableName("s", f"t{n}") for n in range(TABLES)):
        for seq in range(SEGMENTS):
            for _ in range(rng.randrange(4)):
                ts = CommitTs(seq * SEGMENT_TS + rng.randrange(1, SEGMENT_TS + 1))
                history.changes[seq].append(_change(rng, table, ts))
        for number in range(rng.randrange(4)):
            _add_window(rng, history, table, number)
    for seq, changes in enumerate(history.changes):
        changes.sort(key=lambda change: (change.commit_ts, change.rank))
        history.rows += [row for ordinal, change in enumerate(changes) for row in rows_of_change(seq, ordinal, change)]
    for windows in history.windows:
        rng.shuffle(windows)
    return history


def _change(rng: Random, table: TableName, ts: CommitTs) -> Change:
    return change_of(table, ts, rng.choice(["INSERT", "UPDATE", "DELETE"]), new=image(rng), old=image(rng))


def change_of(table: TableName, ts: CommitTs, kind: str, *, new: Image, old: Image | None) -> Change:
    """`new`: of a delete the row that goes. `old`: of an update."""
    names = [column.name for column in COLUMNS]
    event = {
        "database": table.schema, "table": table.table, "isDdl": False, "type": kind, "sql": "",
        "mysqlType": {"id": "varchar", "part": "int", "v": "text"},
        "data": [dict(zip(names, new, strict=True))],
        "old": [dict(zip(names, old, strict=True))] if kind == "UPDATE" and old is not None else None,
        "_tidb": {"commitTs": ts},
    }  # fmt: skip
    rank = Rank.DELETE if kind == "DELETE" else Rank.PUT
    return Change(ts, rank, table.schema, table.table, b"", json.dumps(event).encode(), Lane("k/0"), 0)


def rows_of_change(seq: int, ordinal: int, change: Change) -> Iterator[OutputRow]:
    """As `decode` has it: an update that changes the key is a delete and an insert."""
    event = json.loads(change.value)
    new = tuple(event["data"][0].values())
    old = tuple(event["old"][0].values()) if event["old"] else None
    table = TableName(change.schema, change.table)
    if event["type"] == "DELETE":
        yield OutputRow(seq, change.commit_ts, RANK_DELETE, ordinal, table, "delete", new[:2], new, None)
    elif old is not None and old[:2] != new[:2]:
        yield OutputRow(seq, change.commit_ts, RANK_DELETE, ordinal, table, "delete", old[:2], old, None)
        yield OutputRow(seq, change.commit_ts, RANK_PUT, ordinal, table, "insert", new[:2], None, new)
    else:
        yield OutputRow(seq, change.commit_ts, RANK_PUT, ordinal, table, event["type"].lower(), new[:2], old, new)


def _add_window(rng: Random, history: RandomHistory, table: TableName, number: int) -> None:
    """Its edges lie on changes of the table as often as not: there the rule is decided. No key is in two of its chunks."""
    edges = [c.commit_ts for changes in history.changes for c in changes if c.table == table.table and c.commit_ts < SEGMENTS * SEGMENT_TS]
    low = rng.choice(edges) if edges and rng.random() < 0.5 else rng.randrange(SEGMENTS * SEGMENT_TS - 1)
    above = [ts for ts in edges if ts > low]
    high = rng.choice(above) if above and rng.random() < 0.5 else rng.randrange(low, SEGMENTS * SEGMENT_TS) + 1
    chunks, keys = [], set[Image]()
    for part in range(rng.randrange(1, 3)):
        path = chunk_name(table.table, epoch=1, number=2 * number + part)
        result = {row[:2]: row for row in (image(rng) for _ in range(rng.randrange(KEYS))) if row[:2] not in keys}
        rows = list(result.values())
        keys |= result.keys()
        history.chunk_rows[path] = rows
        absent = {key: None for key in (image(rng)[:2] for _ in range(rng.choice([0, 0, 2]))) if key not in keys}
        keys |= absent.keys()
        history.absent[path] = [(str(first), str(second)) for first, second in absent]
        size = len(rows) + len(absent)
        chunks.append(ChunkFile(table, path, size, 1, None, None, since_seq=Seq(number), absent=len(absent)))
    closes = (high - 1) // SEGMENT_TS
    window = ClosedWindow(f"{0:016d}", CommitTs(low), CommitTs(high), Seq(min(low // SEGMENT_TS, closes)), tuple(chunks))
    history.windows[closes].append(window)


def write_log(folder: Folder, history: RandomHistory, *, made: str = "once", moved_ts: int = 0) -> list[Manifest]:
    return list(written(folder, history, made=made, moved_ts=moved_ts))


def written(folder: Folder, history: RandomHistory, *, made: str = "once", moved_ts: int = 0) -> Iterator[Manifest]:
    """Each segment is in the log when its manifest is given. Every third manifest does not say which tables have rows, as if an earlier
    version had written it. `made` differs between logs of one history; segments of one that is moved begin and end later."""
    log = FolderLog(folder)
    log.recover(epoch=1)
    names = {chunk.table for windows in history.windows for w in windows for chunk in w.chunks} | {row.table for row in history.rows}
    schemas = log.write_schemas({name: TableSchema(name, COLUMNS, ("id", "part"), definition=DEFINITION) for name in names})
    for path, rows in history.chunk_rows.items():
        columns = {column.name: pa.array([row[n] for row in rows], pa.string()) for n, column in enumerate(COLUMNS)}
        write_chunk(folder, path, with_absent(pa.table(columns), ("id", "part"), history.absent.get(path, ())))
    for seq, (changes, windows) in enumerate(zip(history.changes, history.windows, strict=True)):
        data = log.write_data(Seq(seq), epoch=1, codec="canal-json", changes=changes)
        after_ts, upto_ts = CommitTs(seq * SEGMENT_TS + moved_ts), CommitTs((seq + 1) * SEGMENT_TS + moved_ts)
        later = [window.first_seq for windows in history.windows[seq + 1 :] for window in windows]
        manifest = Manifest(
            Seq(seq), 1, after_ts, upto_ts, data.name, data.rows, data.bytes, {}, schemas, "canal-json", (), tuple(windows),
            table_rows=data.table_rows if seq % 3 else None, id=f"{made} {seq}",
            open_from=min((first for first in later if first <= seq), default=None),
        )  # fmt: skip
        log.commit(manifest)
        yield manifest


def expected(history: RandomHistory, manifests: list[Manifest], table: TableName) -> list[tuple[object, ...]]:
    output_rows = [row for row in history.merged(manifests) if row.table == table]
    return [(row.seq, row.commit_ts, row.op, row.key, row.before, row.after, row.dump_id) for row in output_rows]


def _image_of(value: dict[str, str | None] | None) -> Image | None:
    return None if value is None else tuple(value.values())


def check(history: RandomHistory, manifests: list[Manifest], out: Folder) -> None:
    """The output has exactly the rows of the slow rule, in its order. Raises AssertionError."""
    result: dict[TableName, list[tuple[object, ...]]] = {}
    for row in read_output(out):
        key, before, after = (_image_of(row[name]) for name in ("key", "before", "after"))
        if row["origin"] == "dump" and row["op"] == "delete":
            assert key is not None
            assert before == (*key, None), "of the row no more is known than its key"
            before = None
        name = TableName(row["schema"], row["table"])
        result.setdefault(name, []).append((row["seq"], int(row["commit_ts"]), row["op"], key, before, after, row["dump_id"]))
    tables = {row.table for row in history.rows}
    assert len(tables) > TABLES / 2
    for table in tables | result.keys():
        assert result.get(table, []) == expected(history, manifests, table), table


def poison(history: RandomHistory, seq: int, ordinal: int) -> None:
    """Make this change one that no reader decodes; what is expected is the output without it."""
    change = history.changes[seq][ordinal]
    history.changes[seq][ordinal] = change._replace(
        value=change.value.replace(b'"mysqlType": {"id": "varchar"', b'"mysqlType": {"id": "blob"')
    )
    assert history.changes[seq][ordinal] != change
    history.rows[:] = [row for row in history.rows if (row.seq, row.ordinal) != (seq, ordinal)]
