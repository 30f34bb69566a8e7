"""What an f1 scenario may say, a line each; a column is `id name type`, then `null`, `unsigned`, `pk` (the int handle), `origin=text`
or the state of a column that is not public (`delete-only`, `write-only`, `write-reorg`, `delete-reorg`):

    table @100 | 1 id int pk | 2 c int origin=5 | unique u 2      the snapshot; the hidden row id is the handle without pk
    amid @105 | 3 d int write-only                                a state that no feed tells: columns that writers know from here on
    ddl @120 | 1 id int pk | …                                    the DDL is done: the table after it
    switch @110 | 2 -> 4 c varchar(9)                             the step of a running MODIFY COLUMN
    dropping @110 | c                                             the first step of a running DROP COLUMN
    key @120                                                      the handle key of a row that is committed then
    insert @119 7: 2=5 3=null                                     a row by handle, its cells as written by column id
    update @121 7: 2=6 was 2=5                                    the new value, the old one
    delete @121 7: was 2=5

Rows come out under the schema at their commit_ts - 1, named by the ts since which it holds; `refused` is the error. Rows are decoded by
the slow and by the columnar decoder, which must agree to the word, and in row format 1 as well, which must give the same values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from sidecar.shared.columns.kv import decode_rows
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.kv_row import decode_row
from sidecar.shared.rowcodec.kv_table import KvTable, kv_table
from sidecar.shared.schema.ddl import Action, ColumnSwitch, DdlJob, JobTable, Successor
from sidecar.shared.schema.history import SchemaHistory
from sidecar.shared.schema.version import SchemaSnapshot, TableVersion
from tests.support.kv_encoder import NOT_NULL, Plain, Stored, column, info, memcomparable_int, row_1, row_2, row_key

_TABLE_ID = 104
_STATES = {"delete-only": 1, "write-only": 2, "write-reorg": 3, "delete-reorg": 4}
_CELL = re.compile(r"(\d+)=('[^']*'|\S+)")

Column = dict[str, Any]


class F1Player:
    def __init__(self) -> None:
        self._history: SchemaHistory[KvTable] | None = None
        self._columns: dict[int, Column] = {}
        self._jobs = 0

    def play(self, line: str) -> list[str]:
        head, *parts = (part.strip() for part in line.split(" | "))
        word, at, *_ = head.split()
        ts = CommitTs(int(at.removeprefix("@")))
        match word:
            case "table":
                schemas = [SchemaSnapshot(1, "shop", [self._info(parts)])]
                self._history = SchemaHistory(ts, schemas, describe=lambda value, schema: kv_table(value, schema=schema))
                return []
            case "amid":
                self._known(parts)
                return []
            case "ddl":
                self._jobs += 1
                result = (JobTable(self._info(parts), 1),)
                self._schemas.apply(DdlJob(self._jobs, Action.MODIFY_COLUMN, ts, ts - 5, "alter table t …", 1, "shop", _TABLE_ID, result))
                return []
            case "switch":
                return self._switch(ts, parts)
            case "dropping":
                names = frozenset(parts)
                self._schemas.apply(
                    ColumnSwitch(self._jobs + 1, Action.DROP_COLUMN, ts, ts - 5, "alter table t …", "shop", _TABLE_ID, (), dropped=names)
                )
                return []
            case "key":
                return [f"key {', '.join(self._version(ts).description.schema.key) or 'none'}"]
            case _:
                return self._row(word, ts, line.partition(" @")[2].partition(" ")[2])

    @property
    def _schemas(self) -> SchemaHistory[KvTable]:
        assert self._history is not None, "a scenario begins with its table"
        return self._history

    # ---- tables -----------------------------------------------------------------------------------------------------

    def _switch(self, ts: CommitTs, parts: list[str]) -> list[str]:
        reports = []
        for part in parts:
            old, _, new = part.partition(" -> ")
            (made,) = self._known([new])
            reports.append(Successor(int(old), made))
        self._schemas.apply(
            ColumnSwitch(self._jobs + 1, Action.MODIFY_COLUMN, ts, ts - 5, "alter table t …", "shop", _TABLE_ID, tuple(reports))
        )
        return []

    def _info(self, parts: list[str]) -> Any:
        indexes = [part.split() for part in parts if part.startswith(("unique", "primary", "index"))]
        columns = self._known([part for part in parts if not part.startswith(("unique", "primary", "index"))])
        by_id = {one["id"]: one for one in columns}
        public = sorted(columns, key=lambda one: one["state"] != 5)
        return info(
            [one | {"offset": place} for place, one in enumerate(public)],
            int_handle=any(one["type"]["Flag"] & 2 for one in columns),
            index_info=[
                {
                    "id": number, "state": 5, "is_unique": kind != "index", "is_primary": kind == "primary",
                    "idx_name": {"O": f"i{number}", "L": f"i{number}"},
                    "idx_cols": [{"name": by_id[int(id_)]["name"], "length": -1} for id_ in ids],
                }
                for number, (kind, _, *ids) in enumerate(indexes, 1)
            ],
            update_timestamp=1, view=None, sequence=None,
        )  # fmt: skip

    def _known(self, parts: list[str]) -> list[Column]:
        known = [_column(part) for part in parts]
        self._columns |= {one["id"]: one for one in known}
        return known

    # ---- rows -------------------------------------------------------------------------------------------------------

    def _version(self, commit_ts: CommitTs) -> TableVersion[KvTable]:
        self._schemas.advance(CommitTs(commit_ts - 1))
        version = self._schemas.table_at(_TABLE_ID, commit_ts - 1)
        assert version is not None
        return version

    def _row(self, word: str, ts: CommitTs, text: str) -> list[str]:
        handle, _, cells = text.partition(":")
        new, _, old = cells.partition("was")
        assert (bool(new.strip()), bool(old.strip())) == {"insert": (True, False), "update": (True, True), "delete": (False, True)}[word]
        version, key = self._version(ts), row_key(memcomparable_int(int(handle)), table_id=_TABLE_ID)
        reported = [
            f"{name} {self._decoded(version.description, key, self._values(result), at_rest=name == 'before')}"
            for name, result in (("before", old), ("after", new))
            if result.strip()
        ]
        return [f"since {version.since_ts}: {'; '.join(reported)}"]

    def _values(self, cells: str) -> dict[int, Plain | None]:
        results = _CELL.findall(cells)
        assert _CELL.sub("", cells).strip() == "", cells
        return {int(id_): _plain(self._columns[int(id_)], text) for id_, text in results}

    def _decoded(self, table: KvTable, key: bytes, values: dict[int, Plain | None], *, at_rest: bool) -> str:
        value = row_2(self._columns, values)
        slow = _outcome(table, lambda: decode_row(table, key, value, at_rest=at_rest))
        fast = _outcome(table, lambda: _columnar(table, key, value, at_rest=at_rest))
        in_format_1 = _outcome(table, lambda: decode_row(table, key, row_1(self._columns, values), at_rest=at_rest))
        assert slow == fast, (slow, fast)
        assert re.sub(r"byte \d+", "", slow) == re.sub(r"byte \d+", "", in_format_1), (slow, in_format_1)
        return slow


def _columnar(table: KvTable, key: bytes, value: bytes, *, at_rest: bool) -> list[str | None]:
    """The row among others, so that it is not alone in its batch."""
    rows = decode_rows(table, pa.array([key] * 3, pa.binary()), pa.array([value] * 3, pa.binary()), at_rest=at_rest)
    return [one[1].as_py() for one in rows.columns]


def _outcome(table: KvTable, decode: Callable[[], list[str | None]]) -> str:
    try:
        texts = decode()
    except MessageUnreadable as error:
        return f"refused: {str(error).splitlines()[0].partition(': ')[2]}"
    names = table.schema.column_names()
    return " ".join(f"{name}={'NULL' if text is None else text}" for name, text in zip(names, texts, strict=True))


def _column(text: str) -> Column:
    id_, name, type_, *words = text.split()
    kind, _, arguments = type_.removesuffix(")").partition("(")
    more: dict[str, Any] = {"flag": 0 if "null" in words else NOT_NULL, "unsigned": "unsigned" in words, "primary": "pk" in words}
    for word in words:
        if word in _STATES:
            more["state"] = _STATES[word]
        elif word.startswith("origin="):
            more["origin_default"] = word.removeprefix("origin=")
        else:
            assert word in ("null", "unsigned", "pk"), text
    if kind == "decimal":
        more |= dict(zip(("flen", "decimal"), map(int, arguments.split(",")), strict=True))
    elif kind == "enum":
        more |= {"elems": arguments.split(","), "collation": "utf8mb4_bin"}
    elif kind == "varchar":
        more |= {"flen": int(arguments), "collation": "utf8mb4_bin"}
    return column(int(id_), name, kind, **more)


def _plain(of: Column, text: str) -> Plain | None:
    if text == "null":
        return None
    if of["type"]["Tp"] == 246:
        whole, _, part = text.partition(".")
        assert len(part) == of["type"]["Decimal"]
        return Stored(int(whole + part), of["type"]["Flen"], of["type"]["Decimal"])
    if text.startswith("'"):
        label = text.strip("'")
        return of["type"]["Elems"].index(label) + 1 if of["type"]["Elems"] else label.encode()
    return int(text)
