"""A made-up table of twelve columns of mixed kinds, about 200 bytes a row: its rows as chunks hold them, its changes as
TiCDC's canal-json has them. Row `id` is the same in every chunk and change that holds it, but for `amount` of a change."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.model.nouns import Column, ColumnDefinition, IndexDefinition, IndexPart, TableDefinition, TableName, TableSchema

ACCOUNT = TableName("bench", "account")
STATES = ("new", "active", "frozen", "closed")

SCHEMA = TableSchema(
    ACCOUNT,
    (
        Column("id", "int", nullable=False),
        Column("customer", "int", nullable=False),
        Column("email", "text", nullable=False),
        Column("name", "text"),
        Column("amount", "decimal", nullable=False, length=20, scale=4),
        Column("state", "enum", nullable=False, elements=STATES),
        Column("opened", "datetime", nullable=False, scale=6),
        Column("updated", "timestamp", nullable=False, scale=6),
        Column("birthday", "date"),
        Column("score", "double"),
        Column("note", "text"),
        Column("version", "int", nullable=False),
    ),
    ("id",),
    definition=TableDefinition(
        tuple(
            ColumnDefinition(name, text, nullable, *(("utf8mb4", "utf8mb4_bin") if "char" in text or text == "text" else ()))
            for name, text, nullable in (
                ("id", "bigint(20)", False), ("customer", "int(11)", False), ("email", "varchar(60)", False), ("name", "varchar(60)", True),
                ("amount", "decimal(20,4)", False), ("state", "enum('new','active','frozen','closed')", False),
                ("opened", "datetime(6)", False), ("updated", "timestamp(6)", False), ("birthday", "date", True),
                ("score", "double", True), ("note", "text", True), ("version", "int(11)", False),
            )
        ),
        (IndexDefinition("PRIMARY", (IndexPart("id"),), unique=True, primary=True),),
        charset="utf8mb4",
        collation="utf8mb4_bin",
    ),
)  # fmt: skip

NAMES, NOTES = 5_000, 2_000
_FIRST_US = 1_700_000_000_000_000

_SQL_TYPES = {
    "id": ("bigint", -5), "customer": ("int", 4), "email": ("varchar", 12), "name": ("varchar", 12), "amount": ("decimal", 3),
    "state": ("enum", 4), "opened": ("datetime", 93), "updated": ("timestamp", 93), "birthday": ("date", 91),
    "score": ("double", 8), "note": ("text", 2005), "version": ("int", 4),
}  # fmt: skip


def rows(first_id: int, count: int) -> pa.Table:
    """Rows with ids from `first_id`, in canonical text, in key order."""
    return rows_of(np.arange(first_id, first_id + count))


def rows_of(ids: np.typing.NDArray[np.int64]) -> pa.Table:
    """Those."""
    mixed = (ids * 2_654_435_761) % 4_294_967_291
    names = pa.array([_words(Random(number), 2) for number in range(NAMES)])
    notes = pa.array([_words(Random(-number), 9) for number in range(1, NOTES)])
    texts = [
        _text(ids),
        _text(mixed % 10_000_000),
        pc.binary_join_element_wise("user", _text(mixed), "@example.com", ""),
        names.take(pa.array(mixed % len(names))),
        pc.binary_join_element_wise(_text(mixed), _text(1000 + mixed % 9000), "."),
        pa.array(STATES).take(pa.array(mixed % len(STATES))),
        pa.array(_FIRST_US + mixed * 1_003, pa.timestamp("us")).cast(pa.string()),
        pa.array(_FIRST_US + mixed * 2_003, pa.timestamp("us")).cast(pa.string()),
        pa.array(mixed % 20_000, pa.int32()).cast(pa.date32()).cast(pa.string()),
        _text(mixed / 7.0),
        notes.take(pa.array(mixed % len(notes))),
        _text(mixed % 100),
    ]
    return pa.table(texts, names=list(SCHEMA.column_names()))


def canal_updates(images: pa.Table) -> list[bytes]:
    """For each row an UPDATE that adds one to `amount`: what stands before the commit_ts, for `message`."""
    sql_types = {name: java for name, (_, java) in _SQL_TYPES.items()}
    mysql_types = {name: mysql for name, (mysql, _) in _SQL_TYPES.items()}
    head = {"id": 0, "database": ACCOUNT.schema, "table": ACCOUNT.table, "pkNames": ["id"], "isDdl": False, "type": "UPDATE"}
    result = []
    for row in images.to_pylist():
        row["state"] = str(STATES.index(row["state"]) + 1)
        whole, _, fraction = row["amount"].partition(".")
        data = row | {"amount": f"{int(whole) + 1}.{fraction}"}
        times = {"es": _FIRST_US // 1000, "ts": _FIRST_US // 1000, "sql": "", "sqlType": sql_types, "mysqlType": mysql_types}
        result.append(json.dumps(head | times | {"old": [row], "data": [data]}, separators=(",", ":")).encode()[:-1])
    return result


def message(update: bytes, commit_ts: int) -> bytes:
    return b'%s,"_tidb":{"commitTs":%d}}' % (update, commit_ts)


def _text(numbers: np.ndarray[tuple[int], np.dtype[np.int64]] | np.ndarray[tuple[int], np.dtype[np.float64]]) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _words(random: Random, count: int) -> str:
    return " ".join("".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(3, 9))) for _ in range(count))
