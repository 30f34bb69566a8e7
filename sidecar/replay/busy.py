"""What `ticdc-dump demo` plays: a recording of no cluster, of a busy shop, large enough for a dump of some twenty seconds beside changes.

110,000 rows in four tables (their TableInfo, in busy_tables, is TiDB's, of the recording `demo` of the tests), and for SECONDS
transactions that insert, update and delete rows of all of them, as the open-protocol messages of a TiCDC changefeed. The same arguments
give the same files. What is made here proves nothing of TiDB: the tests play the recordings of real clusters.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

from sidecar.replay.judge.rows import Key, Row
from sidecar.replay.replay import make_empty
from sidecar.shared.codecs.open_protocol import encode_resolved
from sidecar.shared.model.nouns import CommitTs, TableSchema, physical_ms, ts_at
from sidecar.shared.partition.ids import partition_ids
from sidecar.shared.rowcodec.table_info import table_schema
from spark_merge.codecs.encode.messages import RowMessage
from spark_merge.codecs.encode.open_protocol import OpenProtocolEncoder
from spark_merge.port.contract import CHANGES, RANK_DELETE, RANK_PUT

TABLES = Path(__file__).parent / "busy_tables"
"""A file a table, SCHEMA.TABLE.json, as TiDB has it."""

SECONDS = 20.0
BEGAN_MS = 1_795_262_400_000
"""2026-11-21 12:00:00 UTC."""
PARTITIONS, TOPIC = 3, "busy"
RESOLVED_EVERY_MS = 250
"""TiCDC resolves once a second or more often."""
LATENCY_MS = 50
"""From the commit to the broker."""
TRANSACTIONS_PER_S = 150
ROWS_MAX = 4
"""Of a transaction."""
VERSION_BYTES = 8
"""At the beginning of a message's key."""

SHOP = "shop"
COUNTS = {"customer": 15_000, "item": 10_000, "event_log": 25_000, "orders": 60_000}


def _customer(number: int, chance: Random) -> Row:
    name = f"{chance.choice(('Ada', 'Bo', 'Chen', 'Dana', 'Eli', 'Fatima'))} {chance.choice(('Berg', 'Li', 'Novak', 'Okoro', 'Silva'))}"
    balance, level = f"{chance.randrange(500_000) / 100:.4f}", chance.choice(("bronze", "silver", "gold"))
    return (
        str(number), f"user{number}@example.com", name, balance, level, chance.choice(("", "new", "vip", "new,b2b", None)),
        _moment(chance, 6), _moment(chance, 3), f"19{chance.randint(50, 99)}-0{chance.randint(1, 9)}-1{chance.randint(0, 9)}", None, "1",
    )  # fmt: skip


def _item(number: int, chance: Random) -> Row:
    title = f"{chance.choice(('Desk', 'Lamp', 'Chair', 'Shelf'))} {chance.choice(('oak', 'steel', 'white', 'small'))} {number}"
    price, stock = f"{chance.randint(5, 900)}.{chance.randint(10, 99)}", str(chance.randint(0, 500))
    return (
        f"SKU-{number:06d}",
        title,
        price,
        stock,
        f"{chance.randint(1, 60)}.5",
        None,
        None,
        str(chance.randint(1, 400)),
        None,
        str(len(title)),
    )


def _event(number: int, chance: Random) -> Row:
    payload = f"{chance.choice(('login', 'search', 'basket', 'logout'))} from 10.0.{chance.randint(0, 255)}.{chance.randint(1, 254)}"
    return (
        str(number),
        str(chance.randint(0, 7)),
        _moment(chance, 0),
        payload,
        f"00:00:0{chance.randint(0, 9)}.{chance.randint(0, 999):03d}",
    )


def _order(number: int, chance: Random) -> Row:
    customer, seq = divmod(number, 4)
    status, amount = chance.choice(("new", "paid", "sent", "back")), f"{chance.randint(5, 2000)}.{chance.choice(('25', '5', '75'))}"
    return (
        str(customer + 1), str(seq + 1), status, amount, f"{chance.randint(1, 9)}.5",
        _moment(chance, 6), None, str(chance.randint(0, 1)), None,
    )  # fmt: skip


MAKERS: dict[str, Callable[[int, Random], Row]] = {"customer": _customer, "item": _item, "event_log": _event, "orders": _order}
CHANGED = {"customer": ("balance", "level"), "item": ("price", "stock"), "event_log": ("payload",), "orders": ("status", "amount")}
"""Columns that an update gives another value."""


def _moment(chance: Random, digits: int) -> str:
    fraction = f".{chance.randrange(10**digits):0{digits}d}" if digits else ""
    day = f"202{chance.randint(0, 5)}-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}"
    return f"{day} {chance.randint(0, 23):02d}:{chance.randint(0, 59):02d}:15{fraction}"


@dataclass(slots=True)
class _Table:
    """`rows`: those that are there. `keys`: all that ever were. `changes`: of CHANGES, a tuple each."""

    schema: TableSchema
    rows: dict[Key, Row]
    keys: list[Key]
    next_number: int
    changes: list[tuple[CommitTs, str, Row | None, Row | None]] = field(default_factory=list)

    def change(self, commit_ts: CommitTs, chance: Random) -> None:
        """An insert, an update or a delete of one row, which this transaction has not changed."""
        what = chance.random()
        if what < 0.2:
            row = MAKERS[self.schema.name.table](self.next_number, chance)
            self.next_number += 1
            self._put(commit_ts, None, row)
            return
        key = chance.choice(self.keys)
        before = self.rows.get(key)
        if before is None or (self.changes[-1:] and self.changes[-1][0] == commit_ts):
            return
        if what < 0.3:
            del self.rows[key]
            self.changes.append((commit_ts, "delete", before, None))
            return
        made = MAKERS[self.schema.name.table](1, chance)
        changed = CHANGED[self.schema.name.table]
        self._put(
            commit_ts,
            before,
            tuple(new if name in changed else old for name, old, new in zip(self.schema.column_names(), before, made, strict=True)),
        )

    def _put(self, commit_ts: CommitTs, before: Row | None, after: Row) -> None:
        key = _key_of(self.schema, after)
        if before is None:
            self.keys.append(key)
        self.rows[key] = after
        self.changes.append((commit_ts, "insert" if before is None else "update", before, after))


def make_busy_recording(folder: Path, *, seconds: float = SECONDS, seed: int = 1, scale: float = 1.0) -> None:
    """`scale`: of the numbers of rows. Replaces what an earlier call has made there. Raises SinkError if `folder` has anything else."""
    make_empty(folder)
    start_ts, chance = ts_at(BEGAN_MS), Random(seed)
    shutil.copytree(TABLES, folder / "schema" / str(start_ts))
    tables = [_filled(_schema(name), int(count * scale), chance) for name, count in COUNTS.items()]
    _write_truth(folder, start_ts, tables)
    end_ts = _live(tables, start_ts, seconds, chance)
    _write_truth(folder, end_ts, tables)
    _write_messages(folder / "kafka" / "open-protocol.parquet", tables, start_ts, end_ts)
    _write_head(folder, start_ts, end_ts)


def _schema(name: str) -> TableSchema:
    return table_schema(json.loads((TABLES / f"{SHOP}.{name}.json").read_text()), schema=SHOP)


def _filled(schema: TableSchema, count: int, chance: Random) -> _Table:
    made = (MAKERS[schema.name.table](number, chance) for number in range(1, count + 1))
    rows = {_key_of(schema, row): row for row in made}
    return _Table(schema, rows, list(rows), count + 1)


def _live(tables: Sequence[_Table], start_ts: CommitTs, seconds: float, chance: Random) -> CommitTs:
    """Returns the last commit_ts."""
    every_ms, commit_ts = 1000 / TRANSACTIONS_PER_S, start_ts
    weights = [len(table.rows) for table in tables]
    for number in range(1, int(seconds * TRANSACTIONS_PER_S) + 1):
        commit_ts = CommitTs(ts_at(physical_ms(start_ts) + int(number * every_ms)) + number % 100 + 1)
        for _ in range(chance.randint(1, ROWS_MAX)):
            chance.choices(tables, weights)[0].change(commit_ts, chance)
    return commit_ts


def _key_of(schema: TableSchema, row: Row) -> Key:
    return tuple(str(row[schema.column_names().index(name)]) for name in schema.key)


# ---- files ----------------------------------------------------------------------------------------------------------


def _write_truth(folder: Path, ts: CommitTs, tables: Iterable[_Table]) -> None:
    place, heads = folder / "truth" / str(ts), {}
    place.mkdir(parents=True)
    for table in tables:
        names = table.schema.column_names()
        columns = zip(*table.rows.values(), strict=True)
        pq.write_table(pa.table([pa.array(column, pa.string()) for column in columns], list(names)), place / f"{table.schema.name}.parquet")
        heads[str(table.schema.name)] = {"rows": len(table.rows), "columns": [{"name": name, "extra": ""} for name in names]}
    (place / "tables.json").write_text(json.dumps({"tso": str(ts), "tables": heads}))


def _write_messages(path: Path, tables: Iterable[_Table], start_ts: CommitTs, end_ts: CommitTs) -> None:
    """Each partition's in the order of their commits, with a resolved mark after all that it covers."""
    lanes = defaultdict[int, list[tuple[CommitTs, RowMessage]]](list)
    for table in tables:
        lanes[crc32("".join(table.schema.name).encode()) % PARTITIONS] += _messages_of(table)
    results: list[tuple[int, int, int, bytes | None, bytes | None]] = []
    marks = [ts_at(ms) for ms in range(physical_ms(start_ts), physical_ms(end_ts) + 2 * RESOLVED_EVERY_MS, RESOLVED_EVERY_MS)]
    for partition in range(PARTITIONS):
        resolved = [(CommitTs(ts), encode_resolved(ts, physical_ms(ts))) for ts in marks]
        messages = sorted([*lanes[partition], *resolved], key=lambda one: one[0])
        results += [(partition, offset, physical_ms(ts) + LATENCY_MS, *message) for offset, (ts, message) in enumerate(messages)]
    kinds = {"partition": pa.int32(), "offset": pa.int64(), "timestamp_ms": pa.int64(), "key": pa.binary(), "value": pa.binary()}
    path.parent.mkdir(parents=True)
    columns = zip(*results, strict=True)
    pq.write_table(pa.table({name: pa.array(column, kind) for (name, kind), column in zip(kinds.items(), columns, strict=True)}), path)


def _messages_of(table: _Table) -> list[tuple[CommitTs, RowMessage]]:
    """A message holds the rows of a transaction in the table."""
    schema, count = table.schema, len(table.changes)
    commit_ts, ops, before, after = zip(*table.changes, strict=True)
    values: dict[str, object] = {
        "seq": [0] * count, "commit_ts": commit_ts, "rank": [RANK_DELETE if op == "delete" else RANK_PUT for op in ops],
        "ordinal": range(count), "schema": [schema.name.schema] * count, "table": [schema.name.table] * count, "op": ops,
        "key": [""] * count, "before": before, "after": after,
    }  # fmt: skip
    rows = pa.table([pa.array(values[one.name], one.type) for one in CHANGES], schema=CHANGES)
    written = zip(*(new or old for new, old in zip(after, before, strict=True)), strict=True)
    ids = partition_ids(schema, [pa.array(column, pa.string()) for column in written])
    messages: dict[CommitTs, RowMessage] = {}
    for ts, (key, value) in zip(
        commit_ts, OpenProtocolEncoder("classic").rows(schema, rows, None if ids is None else ids.tolist()), strict=True
    ):
        assert key is not None
        assert value is not None
        first = messages.get(ts)
        messages[ts] = (key, value) if first is None else ((first[0] or b"") + key[VERSION_BYTES:], (first[1] or b"") + value)
    return list(messages.items())


def _write_head(folder: Path, start_ts: CommitTs, end_ts: CommitTs) -> None:
    feed = {
        "kind": "kafka",
        "changefeed_id": "shop",
        "sink_uri": f"kafka://127.0.0.1:9092/{TOPIC}?protocol=open-protocol&partition-num={PARTITIONS}",
        "config": "",
        "file": "kafka/open-protocol.parquet",
    }
    head = {
        "name": "busy",
        "start_ts": str(start_ts),
        "end_ts": str(end_ts),
        "truth": [str(start_ts), str(end_ts)],
        "ddl": [],
        "feeds": {"open-protocol": feed},
    }
    (folder / "recording.json").write_text(json.dumps(head))
