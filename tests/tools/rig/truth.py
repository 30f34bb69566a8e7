"""The rows of every table now, as canonical text, and judging an output against them.

The SELECTs are the rig's own: they share nothing with the product's. A truth is of one moment only if nobody writes while it
is read; `Rig.truth` gives it with a commit_ts that everything in it is at or below.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pymysql
from pymysql.converters import encoders

from sidecar.replay.judge.rows import Key, Row, equal_rows, rows_by_key
from sidecar.replay.judge.verify import VerifyVerdict, verify
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Column, CommitTs, TableName, TableSchema
from spark_merge.sinks.files.reader import read_segments
from tests.tools.rig.binlog import MySqlAddress
from tests.tools.rig.columns import read_tables

POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class LiveTruth:
    """What `sidecar.replay.judge.verify` asks of a truth, with one snapshot, at `ts`."""

    schemas: Mapping[TableName, TableSchema]
    tables: Mapping[TableName, pa.Table]
    ts: CommitTs

    @property
    def truth_ts(self) -> tuple[CommitTs, ...]:
        return (self.ts,)

    def truth(self, tso: CommitTs) -> Mapping[TableName, pa.Table]:
        assert tso == self.ts
        return self.tables


def read_truth(source: MySqlAddress, tables: Collection[TableName], *, ts: CommitTs) -> LiveTruth:
    """All rows of `tables`, in one transaction."""
    connection = pymysql.connect(
        host=source.host, port=source.port, user=source.user, password=source.password, charset="utf8mb4", conv=_TEXT_ONLY
    )
    try:
        with connection.cursor() as cursor:
            schemas = {name: table.schema() for name, table in read_tables(cursor).items() if name in tables}
            cursor.execute("set session time_zone = '+00:00', session tx_isolation = 'REPEATABLE-READ'")
            cursor.execute("start transaction with consistent snapshot")
            return LiveTruth(schemas, {name: _rows(cursor, schema) for name, schema in schemas.items()}, ts)
    finally:
        connection.close()


def await_delivered(output: Folder, truth: LiveTruth, *, complete_at: Mapping[TableName, CommitTs], timeout_s: float) -> VerifyVerdict:
    """Wait until the files sink (JSON lines) has accepted everything up to the truth, then judge all of its tables: equal,
    and no row ever went back. Raises TimeoutError with how far the output is."""
    give_up_s = time.monotonic() + timeout_s
    while True:
        segments = read_segments(output)
        upto_ts = segments[-1].upto_ts if segments else 0
        if upto_ts >= truth.ts:
            return verify(output, truth, complete_at=complete_at, tables=tuple(truth.tables))
        if time.monotonic() > give_up_s:
            raise TimeoutError(f"after {timeout_s} s the output reaches {upto_ts} in {len(segments)} segments, the truth is at {truth.ts}")
        time.sleep(POLL_S)  # there is no event when a folder grows


def differences(truth: LiveTruth, value: Mapping[TableName, Mapping[Key, Row]]) -> list[str]:
    """Tables whose rows are not the truth's, with up to three of their keys; empty where all are equal."""
    wrong = []
    for name, rows in truth.tables.items():
        schema, expected, there = truth.schemas[name], rows_by_key(truth.schemas[name], rows), value.get(name, {})
        keys = [key for key in expected.keys() | there.keys() if not _same(schema, expected.get(key), there.get(key))]
        if keys:
            wrong.append(f"{name}: {len(keys)} of {len(expected)} rows, among them {sorted(keys)[:3]}")
    return wrong


def _same(schema: TableSchema, a: Row | None, b: Row | None) -> bool:
    return a is not None and b is not None and equal_rows(schema, a, b)


_TEXT_ONLY: dict[Any, Any] = dict(encoders)
"""pymysql's converters without those of results: every value comes as the server's text."""


def _rows(cursor: Any, schema: TableSchema) -> pa.Table:
    cursor.execute(f"select {', '.join(map(_canonical, schema.columns))} from {_quoted(schema.name.schema)}.{_quoted(schema.name.table)} t")
    rows = cursor.fetchall()
    columns = [[_text(column, row[number]) for row in rows] for number, column in enumerate(schema.columns)]
    return pa.table([pa.array(texts, pa.string()) for texts in columns], names=list(schema.column_names()))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _canonical(column: Column) -> str:
    name = f"t.{_quoted(column.name)}"
    match column.kind:
        case "binary":
            return f"hex({name})"
        case "bit":
            return f"cast({name} as unsigned)"
        case "float":
            return f"cast({name} as double)"
        case _:
            return name


def _text(column: Column, value: Any) -> str | None:
    if value is None:
        return None
    text = value.decode() if isinstance(value, bytes) else str(value)
    return repr(float(text)) if column.kind in ("float", "double") else text
