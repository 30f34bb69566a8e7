"""Comparing a sink whose column rules mask some columns: the source's rows are masked the same way, whatever happens meanwhile."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from sidecar.shared.log.verification import CheckState, RequestedTable
from spark_merge.sinks.registry import open_sink
from spark_merge.verify.table_check import TableCheck
from tests.support.masked import salt_file, slow_hash
from tests.support.table_shapes import TABLE, WIDE
from tests.support.verified import World

RULES = "&hash=s.t.v,s.t.n&leave-out=s.t.bin,s.t.j&constant=s.t.amount=>'0.0000',s.t.at=>NULL"
OUTPUTS = ["sqlite://{}/out.db?", "file://{}/out?format=parquet", "file://{}/out?format=jsonl", "file://{}/out?protocol=canal-json"]


def masked_world(folder: Path, output: str, seed: int) -> tuple[World, Callable[[], TableCheck]]:
    uri = f"{output.format(folder)}{RULES}&salt-file={salt_file(folder)}&flush-interval=2s".replace("?&", "?")
    uri = uri if "protocol" in output else uri.replace("&flush-interval=2s", "")
    world = World(folder, Random(seed), shape=WIDE)
    world.follow(open_sink(uri, log_id="log-1"))
    names = itertools.count()

    def check() -> TableCheck:
        sink, table = open_sink(uri, log_id="log-1"), RequestedTable(TABLE.schema, TABLE.table)
        return TableCheck(world.context(), "mine", sink, table, f"check-{next(names)}")  # type: ignore[arg-type]  # it can be read

    return world, check


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_masked_sink_that_follows_has_no_difference_whatever_happens_meanwhile(tmp_path: Path, output: str) -> None:
    for seed in range(3):
        _, check = masked_world(tmp_path / str(seed), output, seed)
        report = check().run()
        assert (report.state, report.differences, report.examples) == (CheckState.EQUAL, 0, []), seed
        assert report.rows > 10


@pytest.mark.parametrize(("column", "value"), [("n", "f" * 64), ("n", slow_hash("5")), ("v", "x"), ("amount", "1.0000"), ("at", "x")])
def test_a_masked_value_that_somebody_has_changed_is_named_and_no_source_value_is_in_the_report(
    tmp_path: Path, column: str, value: str
) -> None:
    world, check = masked_world(tmp_path, OUTPUTS[0], 1)
    world.busy = 1
    key = sorted(world.rows, key=repr)[3]
    with closing(sqlite3.connect(tmp_path / "out.db")) as db, db:
        db.execute(f'UPDATE "s.t" SET {column} = ? WHERE id = ? AND part = ?', (value, *key))
    one = check()
    report = one.run()
    ((difference,),) = ([*one.tally.differences],)
    assert (report.state, difference.key, difference.kind) == (CheckState.DIFFERENT, key, "different")
    ((cell,),) = (difference.cells,)
    source = dict(zip(WIDE.schema.column_names(), world.rows[key], strict=True))[column]
    masked = {"amount": "0.0000", "at": None}.get(column, None if source is None else slow_hash(source))
    assert (cell.column, cell.source, cell.sink) == (column, masked, value)
