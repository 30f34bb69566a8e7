"""The file of a sink's tables: what was written is read, and what cannot be read is never taken for nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.identity import own_id
from sidecar.shared.log.layout import sink_tables_name, sink_tables_of
from sidecar.shared.log.sink_tables import last_generation, read_sink_tables, write_sink_tables
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.hole import HoleCause, OpenHole
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.sink_delivery import SinkTables

NAMES = ["lake", "kafka://b1:9092/topic", "file:///var/out?format=jsonl", "x" * 300, "a/b", "a_b", "..", "."]


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path))


def tables_of(sink: str) -> SinkTables:
    complete = {TableName("shop", "a"): CommitTs(2**63), TableName("s.x", 'b"'): CommitTs(7)}
    hole = OpenHole(HoleCause.IMPORT, CommitTs(2**63 + 5), Seq(7), True, "by x")
    holes = {TableName("s", "h"): hole, TableName("s", "i"): replace(hole, complete=CommitTs(4))}
    return SinkTables(sink, "file:///out", Seq(3), CommitTs(2**63), Seq(9), CommitTs(2**63 + 1), complete, 4, 5, holes=holes, generation=3)


@pytest.mark.parametrize("name", NAMES)
def test_what_was_written_is_read(log: Folder, name: str) -> None:
    for tables in (tables_of(name), SinkTables(name, "x", Seq(0), None, Seq(-1), None)):
        write_sink_tables(log, tables, log_id=own_id(log))
        assert read_sink_tables(log, [name, "another"]) == {name: tables}
        storage.remove(log, [f"sinks/{one}" for one in storage.list_names(log, under="sinks", deep=False)])


def test_each_sink_has_a_file_of_its_own_below_the_log(log: Folder) -> None:
    files = {sink_tables_name(name, 3, 4, 5) for name in NAMES}
    assert len(files) == len(NAMES)
    assert all(file.count("/") == 1 and len(file) < 120 for file in files)
    assert sink_tables_name("lake", 3, 4, 5) == "sinks/lake@000003-0000000004-0000000005.json"
    names = [file.removeprefix("sinks/") for file in files]
    for name in NAMES:
        assert sink_tables_of(name, names) == [sink_tables_name(name, 3, 4, 5).removeprefix("sinks/")]


def test_the_file_of_the_latest_worker_counts_in_any_order(log: Folder) -> None:
    """In any order of their writes, also where a number has more digits or an earlier version wrote the only file."""
    own_id(log)
    owners = [(1, 9, 9), (1, 10, 1), (1, 10, 10), (2, 0, 1)]
    storage.write_atomically(log, "sinks/lake.json", b"{")
    for order in permutations(owners):
        for generation, epoch, incarnation in order:
            tables = replace(tables_of("lake"), generation=generation, epoch=epoch, incarnation=incarnation)
            write_sink_tables(log, tables, log_id=own_id(log))
        assert read_sink_tables(log, ["lake"])["lake"].generation == last_generation(log, "lake") == 2
        storage.remove(log, [f"sinks/{one}" for one in storage.list_names(log, under="sinks", deep=False)])
    assert storage.list_names(log, under="sinks", deep=False) == []


def test_the_file_of_0_5_is_read_until_a_worker_writes(log: Folder) -> None:
    write_sink_tables(log, tables_of("lake"), log_id=own_id(log))
    data = storage.read_file(log, sink_tables_name("lake", 3, 4, 5))
    storage.remove(log, [f"sinks/{one}" for one in storage.list_names(log, under="sinks", deep=False)])
    storage.write_atomically(log, "sinks/lake.json", data)
    assert read_sink_tables(log, ["lake"]) == {"lake": tables_of("lake")}
    write_sink_tables(log, replace(tables_of("lake"), epoch=0, incarnation=6), log_id=own_id(log))
    assert storage.list_names(log, under="sinks", deep=False) == ["lake@000003-0000000000-0000000006.json"]


def test_a_file_of_another_log_is_none(log: Folder) -> None:
    own_id(log)
    write_sink_tables(log, tables_of("lake"), log_id="0" * 32)
    assert read_sink_tables(log, ["lake"]) == {}


@pytest.mark.parametrize(
    ("change", "message", "way_out"),
    [
        ((b'"version":1', b'"version":2'), "format version 2", "run the version that wrote it"),
        ((b'"complete"', b'"complete2"'), "is not readable", "remove it"),
        ((b'"seq":9', b'"seq":"x"'), "is not readable", "remove it"),
        ((b'{', b'['), "is not readable", "remove it"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_an_error_with_the_way_out(
    log: Folder, change: tuple[bytes, bytes], message: str, way_out: str
) -> None:
    write_sink_tables(log, tables_of("lake"), log_id=own_id(log))
    name = sink_tables_name("lake", 3, 4, 5)
    data = storage.read_file(log, name).replace(b" ", b"")
    assert change[0] in data
    storage.write_atomically(log, name, data.replace(*change, 1))
    with pytest.raises(SinkError, match=message) as raised:
        read_sink_tables(log, ["lake"])
    assert way_out in raised.value.hint
