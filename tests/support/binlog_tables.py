"""A few tables of a recorded TiDB, with a key of each kind: what rows of them are in SQL, in binlogs, and in an output.

A row is its plain values (kv_encoder.py) by column id; that of a table without a clustered key has its `_tidb_rowid` at ROWID. A **key** is
the values of the key by which TiCDC identifies rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from sidecar.shared.model.nouns import MARK_TABLE, TableName
from sidecar.shared.rowcodec.table_info import table_schema
from tests.support import binlog_encoder as encoder
from tests.support.kv_encoder import TYPES, Plain
from tests.support.recordings import recording

ROWID = -1
UID, NOKEY, BIN_PK = (TableName("shop", name) for name in ("uid", "nokey", "bin_pk"))
NAMES = (UID, NOKEY, BIN_PK)
"""An integer as handle; none but `_tidb_rowid`; a clustered binary key."""

KEYS = 60
"""Of each table."""

Row = Mapping[int, Plain | None]
Key = tuple[Plain | None, ...]


def schema_folder() -> Path:
    folder = recording("binlog")
    start_ts: str = json.loads((folder / "recording.json").read_text())["start_ts"]
    return folder / "schema" / start_ts


class Table:
    """`columns` by id, `handle` and `key_ids` are ids of columns; `handle` is empty for one that is kept by `_tidb_rowid`."""

    def __init__(self, name: TableName, info: dict[str, Any]) -> None:
        self.name, self.info = name, info
        self.schema = table_schema(info, schema=name.schema)
        self.columns = {int(item["id"]): item for item in info["cols"]}
        ids = {result["name"]["O"]: id_ for id_, result in self.columns.items()}
        self.key_ids = tuple(ids[column] for column in self.schema.key)
        self.clustered = bool(info["pk_is_handle"] or info["is_common_handle"])
        self.handle = self.key_ids if self.clustered else ()

    def key(self, row: Row) -> Key:
        return tuple(row[id_] for id_ in self.key_ids)

    def texts(self, row: Row) -> tuple[str | None, ...]:
        """Canonical, in the order of the columns."""
        return tuple(_text(result, row[id_]) for id_, result in self.columns.items())

    # ---- as TiDB writes it to a pump ------------------------------------------------------------------------------------

    def event(self, old: Row | None, new: Row | None) -> encoder.Event:
        if old is None:
            assert new is not None
            left = {id_: plain for id_, plain in new.items() if id_ not in (ROWID, *self.handle)}
            return encoder.inserted(self.handle_of(new), self.columns, left)
        if new is None:
            return encoder.deleted(self.columns, self._stored(old), rowid=self.rowid_of(old))
        return encoder.updated(self.columns, self._stored(old), self._stored(new), rowid=self.rowid_of(new))

    def handle_of(self, row: Row) -> bytes:
        if self.info["is_common_handle"]:
            return encoder.common_handle([(self.columns[id_], plain) for id_ in self.handle if (plain := row[id_]) is not None])
        plain = row[self.handle[0]] if self.handle else row[ROWID]
        assert isinstance(plain, int)
        return encoder.int_handle(plain)

    def rowid_of(self, row: Row) -> int | None:
        """None for a table that has a clustered key."""
        rowid = row.get(ROWID)
        assert rowid is None or isinstance(rowid, int)
        return rowid

    def _stored(self, row: Row) -> Row:
        return {id_: plain for id_, plain in row.items() if id_ != ROWID}


def tables() -> dict[TableName, Table]:
    """Those of NAMES, and the watermark table."""
    result = {}
    for name in (*NAMES, MARK_TABLE):
        result[name] = Table(name, json.loads((schema_folder() / f"{name}.json").read_text()))
    return result


def made_row(table: Table, number: int, value: int, rowid: int) -> Row:
    """The `number`th row; rows of one number have one key. `rowid`: for a table that keeps one."""
    match table.name:
        case name if name == UID:
            return {1: number, 2: f"value {value}".encode()}
        case name if name == NOKEY:
            return {1: f"code-{number:04d}".encode(), 2: value, 3: None if value % 7 == 0 else f"w {value} ü".encode(), ROWID: rowid}
        case name if name == BIN_PK:
            width = int(table.columns[2]["type"]["Flen"])
            return {1: b"\x00k" + number.to_bytes(3), 2: value.to_bytes(4).rjust(width, b"\xff")[:width], 3: -value}
    raise AssertionError(table.name)


def some_rows(of: Mapping[TableName, Table], numbers: Random, count: int) -> Iterator[tuple[Table, Row]]:
    """So many of each table."""
    for name in NAMES:
        for number in range(count):
            yield of[name], made_row(of[name], number, numbers.randrange(1 << 20), rowid=number + 1)


def _text(value: dict[str, Any], plain: Plain | None) -> str | None:
    match plain:
        case None:
            return None
        case int():
            return str(plain)
        case bytes() if value["type"]["Tp"] in (TYPES["varchar"], TYPES["char"]):
            return plain.hex().upper() if value["type"]["Collate"] == "binary" else plain.decode()
    raise AssertionError(f"{value['name']['O']}: {plain!r}")
