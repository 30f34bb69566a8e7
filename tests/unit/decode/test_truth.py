"""Every row of the recorded feeds, decoded and replayed on the truth at the start, gives the truth at every later
snapshot; and every old image is the row that it replaces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sidecar.shared.codecs.compression import Compression
from sidecar.shared.codecs.registry import CARRIERS
from sidecar.shared.model.canonical import equal_text
from sidecar.shared.model.nouns import TableName, TableSchema
from spark_merge.codecs.decode.rows import decode
from spark_merge.port.contract import CHANGES
from spark_merge.port.keys import key_text
from tests.support.recordings import recording
from tests.unit.decode.log import about, logged, recorded_changes, recorded_schemas

Row = list[str | None]
State = dict[TableName, dict[str, Row]]

FEEDS = [
    *(
        (name, feed)
        for name in ("demo", "shop", "shop-new", "restart", "rowformats", "tz", "large")
        for feed in ("open-protocol", "canal-json")
    ),
    *((name, "simple-json") for name in ("shop", "shop-new", "rowformats", "tz")),
    *((name, "simple-avro") for name in ("shop", "shop-new")),
    *((name, "open-protocol-index") for name in ("shop", "shop-new", "restart")),
    *((name, feed) for name in ("shop", "shop-new") for feed in ("open-protocol-zip", "open-protocol-raw")),
]


@pytest.mark.recordings
@pytest.mark.parametrize(("name", "feed"), FEEDS, ids=map("/".join, FEEDS))
def test_replaying_decoded_changes_gives_every_later_truth(name: str, feed: str) -> None:
    folder = recording(name)
    schemas = recorded_schemas(folder)
    codec = next(protocol for protocol in CARRIERS if feed.startswith(protocol))
    compression: Compression = "lz4" if feed.endswith("-zip") else "none"
    rows = logged(recorded_changes(folder, feed, codec=codec, compression=compression), codec=codec)
    decoded = decode(rows, codec=codec, schemas=schemas, server_tz="Asia/Shanghai" if name == "tz" else "UTC")
    assert decoded.schema.equals(CHANGES)

    start, *later = sorted(int(tso) for tso in about(folder)["truth"])
    state = truth(folder, start, schemas)
    changes = in_order(decoded.to_pylist(), after=start)
    upto = next(changes, None)
    for tso in later:
        while upto is not None and upto["commit_ts"] <= tso:
            apply(state, upto, schemas)
            upto = next(changes, None)
        assert differences(state, truth(folder, tso, schemas), schemas) == []


def in_order(changes: list[dict[str, Any]], *, after: int) -> Iterator[dict[str, Any]]:
    """Changes after `after` as a segment orders them, equal ones once."""
    seen: set[tuple[Any, ...]] = set()
    for change in sorted(changes, key=lambda c: (c["commit_ts"], c["rank"], c["ordinal"])):
        identity = (
            change["commit_ts"], change["schema"], change["table"], change["op"], change["key"],
            None if change["before"] is None else tuple(change["before"]), None if change["after"] is None else tuple(change["after"]),
        )  # fmt: skip
        if change["commit_ts"] > after and identity not in seen:
            seen.add(identity)
            yield change


def apply(state: State, change: dict[str, Any], schemas: dict[TableName, TableSchema]) -> None:
    name = TableName(change["schema"], change["table"])
    table, key = state[name], change["key"]
    assert (key in table) is (change["op"] != "insert"), change
    if change["op"] != "insert":
        assert unequal_columns(schemas[name], table[key], change["before"]) == [], change
    if change["op"] == "delete":
        del table[key]
    else:
        table[key] = change["after"]


def truth(folder: Path, tso: int, schemas: dict[TableName, TableSchema]) -> State:
    state: State = {}
    for name, schema in schemas.items():
        if schema.key and name.schema == about(folder)["database"]:
            table = pq.read_table(folder / "truth" / str(tso) / f"{name}.parquet", columns=list(schema.column_names()))
            keys = key_text([table[column] for column in schema.key]).to_pylist()
            rows = [list(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]
            state[name] = dict(zip(keys, rows, strict=True))
    return state


def differences(state: State, expected: State, schemas: dict[TableName, TableSchema]) -> list[str]:
    differing: list[str] = []
    for name, rows in expected.items():
        differing.extend(f"{name} {key}: only in one" for key in rows.keys() ^ state[name].keys())
        for key in rows.keys() & state[name].keys():
            differing.extend(f"{name} {key}: {what}" for what in unequal_columns(schemas[name], state[name][key], rows[key]))
    return differing[:20]


def unequal_columns(schema: TableSchema, row: Row, expected: Row) -> list[str]:
    return [
        f"{column.name}: {a!r} is not {b!r}"
        for column, a, b in zip(schema.columns, row, expected, strict=True)
        if not equal_text(column.kind, a, b)
    ]
