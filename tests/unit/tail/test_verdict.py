"""What a sink has of a key, against what the log says."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.keyset import Key
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.sinks.registry import open_sink
from spark_merge.tail.shown import ShownValues
from spark_merge.tail.verdict import LookedUpKey, SinkHas, Verdict, sink_json
from spark_merge.tail.wanted import table_named
from spark_merge.testing.histories import change_of
from spark_merge.testing.places import Here
from tests.unit.tail.logs import ORDERS, WrittenLog, events_of, put, window
from tests.unit.tail.test_segment import chunk_of

A: Key = ("a", "1")


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path / "log"))


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/copy.db"


def deliver(log: Folder, uri: str, *, name: str = "copy") -> None:
    with closing(open_sink(uri, log_id="log-1")) as sink:
        delivery = Delivery(sink, JobSettings(log), Here())
        while delivery.deliver():
            pass


def looked_at(log: Folder, uri: str, key: Key = A, *, since: int = 0, whole: bool = True) -> SinkHas:
    followed, _ = table_named(log, str(ORDERS))
    versions = [event for event in events_of(log, key=key) if event.is_version and event.commit_ts >= since]
    (has,) = LookedUpKey(log, "log-1", followed, key, versions, whole).at({"copy": uri})
    return has


def test_a_sink_that_has_the_logs_last_version_is_equal(log: Folder, uri: str) -> None:
    to = WrittenLog(log, {ORDERS: 1})
    to.segment(put(ORDERS, 10, "a", "x"), put(ORDERS, 20, "b", "x"))
    to.segment(put(ORDERS, 110, "a", "y", old="x"))
    assert looked_at(log, uri).text == "it has accepted nothing yet"
    deliver(log, uri)
    has = looked_at(log, uri)
    assert (has.verdict, has.accepted, has.row) == (Verdict.EQUAL, 1, {"id": "a", "part": "1", "v": "y"})
    assert has.text == "equal to the version of commit-ts 110"
    to.segment(put(ORDERS, 210, "a", "z", old="y"))
    assert looked_at(log, uri).text == "equal to the version of commit-ts 110; later ones in the log: 1"
    assert sink_json(has, ShownValues(chars_max=1))["row"] == {"id": "a", "part": "1", "v": "y"}


def test_a_deleted_row_and_one_of_a_dump_are_versions(log: Folder, uri: str) -> None:
    to = WrittenLog(log, {ORDERS: 1})
    chunk = chunk_of(log, ("a", "1", "x"), ("b", "1", "x"))
    to.segment(put(ORDERS, 60, "c", "x"), windows=[window(1, 50, 0, chunk)])
    deliver(log, uri)
    assert looked_at(log, uri).text == "equal to the version of commit-ts 50"
    to.segment(change_of(ORDERS, 110, "DELETE", new=("a", "1", "x"), old=None))  # type: ignore[arg-type]  # a number is a TSO
    deliver(log, uri)
    has = looked_at(log, uri)
    assert (has.verdict, has.row) == (Verdict.EQUAL, None)


def test_a_row_that_somebody_changed_behind_the_sink_is_different(log: Folder, uri: str, tmp_path: Path) -> None:
    WrittenLog(log, {ORDERS: 1}).segment(put(ORDERS, 10, "a", "x"))
    deliver(log, uri)
    for sql, row in (
        ('UPDATE "shop.orders" SET v = NULL', {"id": "a", "part": "1", "v": None}),
        ('DELETE FROM "shop.orders"', None),
    ):
        with closing(sqlite3.connect(tmp_path / "copy.db")) as db, db:
            db.execute(sql)
        has = looked_at(log, uri)
        assert (has.verdict, has.row) == (Verdict.DIFFERENT, row)
        assert has.text == "different from the log's version of commit-ts 10"


def test_of_a_key_that_the_log_does_not_have_nothing_is_said(log: Folder, uri: str) -> None:
    WrittenLog(log, {ORDERS: 1}).segment(put(ORDERS, 10, "a", "x"))
    deliver(log, uri)
    has = looked_at(log, uri, ("z", "1"))
    assert (has.verdict, has.text) == (Verdict.OPEN, "the log has no version of the key up to the sink's position")
    has = looked_at(log, uri, since=11, whole=False)
    assert (has.verdict, has.row and has.row["v"]) == (Verdict.OPEN, "x")
    assert "raise --limit" in has.text


def test_a_masked_sink_is_compared_in_its_form_and_shown_as_it_is(log: Folder, tmp_path: Path) -> None:
    WrittenLog(log, {ORDERS: 1}).segment(put(ORDERS, 10, "a", "secret"))
    uri = f"sqlite://{tmp_path}/masked.db?leave-out=shop.orders.v"
    deliver(log, uri)
    has = looked_at(log, uri)
    assert (has.verdict, has.row) == (Verdict.EQUAL, {"id": "a", "part": "1"})


def test_a_sink_that_cannot_be_read_by_key_says_so_and_the_others_follow(log: Folder, uri: str, tmp_path: Path) -> None:
    WrittenLog(log, {ORDERS: 1}).segment(put(ORDERS, 10, "a", "x"))
    deliver(log, uri)
    followed, _ = table_named(log, str(ORDERS))
    versions = events_of(log, key=A)
    other = tmp_path / "other.db"
    other.write_bytes(b"no database, and longer than a header of one would be" * 10)
    sinks = {"files": f"file://{tmp_path}/o?format=jsonl", "console": "console:", "broken": f"sqlite://{other}", "copy": uri}
    files, console, broken, copy = LookedUpKey(log, "log-1", followed, A, versions, whole=True).at(sinks)
    assert "without a read of the whole table" in files.text
    assert "cannot be read back" in console.text
    assert "the sink cannot be read: " in broken.text
    assert {one.verdict for one in (files, console, broken)} == {Verdict.OPEN}
    assert copy.verdict is Verdict.EQUAL
