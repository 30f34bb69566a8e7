"""What a sink has of a key, against what the log says."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.shared.errors import LogBroken
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.keyset import Key
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.delivery.sink_record import SinkId
from spark_merge.log.read import beginning
from spark_merge.merge.rule import Image
from spark_merge.port.readable import Reading
from spark_merge.sinks.registry import open_sink, output_of
from spark_merge.tail import verdict
from spark_merge.tail.events import TailEvent
from spark_merge.tail.shown import ShownValues
from spark_merge.tail.stream import TableStream
from spark_merge.tail.verdict import KeyVersions, LookedUpKey, SinkHas, Verdict, sink_json
from spark_merge.tail.wanted import table_named
from spark_merge.testing.histories import change_of
from spark_merge.testing.places import Here
from tests.unit.tail.logs import ORDERS, WrittenLog, put, stream_of, window
from tests.unit.tail.test_segment import chunk_of
from tests.unit.tail.test_stream import retain

A: Key = ("a", "1")


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path / "log"))


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/copy.db"


def deliver(log: Folder, uri: str, *, name: str = "copy", recorded: bool = True) -> None:
    """Not `recorded`: as by a version that had no file of a sink's tables."""
    with closing(open_sink(uri, log_id="log-1")) as sink:
        sink_id = SinkId(name, output_of(uri)) if recorded else None
        delivery = Delivery(sink, JobSettings(log), Here(), sink_id=sink_id)
        while delivery.deliver():
            pass


def versions_of(log: Folder, key: Key = A, *, since: int = 0) -> KeyVersions:
    """As the command reads them."""
    stream = stream_of(log, key=key)
    versions = KeyVersions(stream, lambda _: None)
    for event in stream.all():
        if event.commit_ts >= since:
            versions.note(event)
    return versions


def looked_up(log: Folder, versions: KeyVersions, uri: str, key: Key = A, *, whole: bool = True) -> SinkHas:
    followed, _ = table_named(log, str(ORDERS))
    (has,) = LookedUpKey(log, "log-1", followed, key, versions, whole).at({"copy": uri})
    return has


def looked_at(log: Folder, uri: str, key: Key = A, *, since: int = 0, whole: bool = True) -> SinkHas:
    return looked_up(log, versions_of(log, key, since=since), uri, key, whole=whole)


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
    other = tmp_path / "other.db"
    other.write_bytes(b"no database, and longer than a header of one would be" * 10)
    sinks = {"files": f"file://{tmp_path}/o?format=jsonl", "console": "console:", "broken": f"sqlite://{other}", "copy": uri}
    files, console, broken, copy = LookedUpKey(log, "log-1", followed, A, versions_of(log), whole=True).at(sinks)
    assert "without a read of the whole table" in files.text
    assert "cannot be read back" in console.text
    assert "the sink cannot be read: " in broken.text
    assert {one.verdict for one in (files, console, broken)} == {Verdict.OPEN}
    assert copy.verdict is Verdict.EQUAL


# ---- every version up to the position -------------------------------------------------------------------------------


def test_a_sink_that_goes_on_while_the_log_is_read_is_equal(log: Folder, uri: str) -> None:
    to, shown = WrittenLog(log, {ORDERS: 1}), list[TailEvent]()
    to.segment(put(ORDERS, 10, "a", "x"))
    deliver(log, uri)
    stream = stream_of(log, key=A)
    versions = KeyVersions(stream, shown.append)
    for event in stream.last(9):
        versions.note(event)
    for seq in range(1, 4):
        to.segment(put(ORDERS, seq * 100 + 10, "a", f"y{seq}"))
    deliver(log, uri)
    to.segment(put(ORDERS, 410, "a", "z"))
    has = looked_up(log, versions, uri)
    assert (has.verdict, has.accepted) == (Verdict.EQUAL, 3)
    assert has.text == "equal to the version of commit-ts 310; later ones in the log: 1"
    assert [event.commit_ts for event in shown] == [10, 110, 210, 310, 410]


@pytest.mark.parametrize(("exact", "is_healthy"), [(True, True), (False, True), (False, False)])
def test_a_sink_that_goes_on_while_its_row_is_read_is_equal(
    log: Folder, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exact: bool, is_healthy: bool
) -> None:
    """Rows that are not of one position may be of a segment that was not there when the row was requested."""
    to = WrittenLog(log, {ORDERS: 1})
    to.segment(put(ORDERS, 10, "a", "x"))
    deliver(log, uri)
    row_of: Callable[..., Image | None] = verdict._row_of

    def meanwhile(reading: Reading, *rest: object) -> Image | None:
        if exact:
            row = row_of(reading, *rest)
        to.segment(put(ORDERS, 110, "a", "y"))
        deliver(log, uri)
        if not is_healthy:
            with closing(sqlite3.connect(tmp_path / "copy.db")) as db, db:
                db.execute("""UPDATE "shop.orders" SET v = 'other'""")
        return row if exact else row_of(reading, *rest)

    monkeypatch.setattr(verdict, "_row_of", meanwhile)
    if not exact:
        kind = type(open_sink(uri, log_id="log-1"))
        reading_of: Callable[..., Reading] = kind.reading  # type: ignore[attr-defined]
        monkeypatch.setattr(kind, "reading", lambda *arguments, **named: replace(reading_of(*arguments, **named), exact=False))
    assert looked_at(log, uri).verdict is (Verdict.EQUAL if is_healthy else Verdict.DIFFERENT)


def test_where_the_log_cannot_be_read_up_to_the_position_nothing_is_said(log: Folder, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    to = WrittenLog(log, {ORDERS: 1})
    to.segment(put(ORDERS, 10, "a", "x"))
    versions = versions_of(log)
    to.segment(put(ORDERS, 110, "a", "y"))
    deliver(log, uri)
    monkeypatch.setattr(TableStream, "to_end", lambda _: iter(()))
    has = looked_up(log, versions, uri)
    assert (has.verdict, has.accepted) == (Verdict.OPEN, 1)
    assert has.text == "the log could be read up to segment 0 only, and the sink is at a later one"


def test_what_retention_removes_before_it_is_read_leaves_no_version_from_before_it(log: Folder, uri: str) -> None:
    to = WrittenLog(log, {ORDERS: 1})
    to.segment(put(ORDERS, 10, "a", "x"))
    versions = versions_of(log)
    for seq, key in enumerate("abb", 1):
        to.segment(put(ORDERS, seq * 100 + 10, key, "y"))
    deliver(log, uri)
    retain(log, 3)
    has = looked_up(log, versions, uri)
    assert (has.verdict, has.text) == (Verdict.OPEN, "the log has no version of the key up to the sink's position")
    assert has.row is not None


def test_a_segment_that_could_not_be_read_is_no_one_without_a_version(log: Folder, tmp_path: Path) -> None:
    """The next sink would be compared with what is left."""
    to = WrittenLog(log, {ORDERS: 1})
    to.segment(put(ORDERS, 10, "a", "x"))
    versions = versions_of(log)
    data = to.segment(put(ORDERS, 110, "a", "y")).data
    for name in ("copy", "other"):
        deliver(log, f"sqlite://{tmp_path}/{name}.db", name=name)
    (tmp_path / "log" / str(data)).write_bytes(b"torn")
    followed, _ = table_named(log, str(ORDERS))
    sinks = {name: f"sqlite://{tmp_path}/{name}.db" for name in ("copy", "other")}
    with pytest.raises(LogBroken, match="is not readable"):
        list(LookedUpKey(log, "log-1", followed, A, versions, whole=True).at(sinks))


# ---- what the sink received -----------------------------------------------------------------------------------------


def test_a_change_from_before_a_sink_began_is_none_that_it_lacks(log: Folder, uri: str, tmp_path: Path) -> None:
    to, new = WrittenLog(log, {ORDERS: 1}), f"sqlite://{tmp_path}/new.db"
    to.segment(put(ORDERS, 10, "z", "x"))
    to.segment(put(ORDERS, 110, "z", "y"))
    to.segment(put(ORDERS, 210, "a", "x"), windows=[window(1, 250, 0, chunk_of(log, ("b", "1", "x")))])
    to.segment(put(ORDERS, 310, "d", "x"))
    deliver(log, uri)
    retain(log, 2)
    assert beginning(log) == 3
    deliver(log, new, name="new")
    followed, _ = table_named(log, str(ORDERS))
    for key, verdicts in ((A, ["equal", "open"]), (("d", "1"), ["equal", "equal"])):
        there = list(LookedUpKey(log, "log-1", followed, key, versions_of(log, key), whole=True).at({"copy": uri, "new": new}))
        assert [has.verdict for has in there] == verdicts
    text = "different from the log's version of commit-ts 210, and the sink began behind it, with segment 3"
    assert looked_up_as("new", log, new).text == text
    with closing(sqlite3.connect(tmp_path / "new.db")) as db, db:
        db.execute("""UPDATE "shop.orders" SET v = 'other'""")
    assert looked_up_as("new", log, new, ("d", "1")).verdict is Verdict.DIFFERENT
    to.segment(put(ORDERS, 410, "a", "y", old="x"))
    deliver(log, new, name="new")
    assert looked_up_as("new", log, new).verdict is Verdict.EQUAL


def looked_up_as(name: str, log: Folder, uri: str, key: Key = A) -> SinkHas:
    followed, _ = table_named(log, str(ORDERS))
    (has,) = LookedUpKey(log, "log-1", followed, key, versions_of(log, key), whole=True).at({name: uri})
    return has


def test_where_it_is_not_known_where_a_sink_began_it_is_not_called_different(log: Folder, uri: str, tmp_path: Path) -> None:
    """One of an earlier version, without a file of its tables; and one whose name was another output's."""
    WrittenLog(log, {ORDERS: 1}).segment(put(ORDERS, 10, "a", "x"))
    deliver(log, uri, recorded=False)
    other = f"sqlite://{tmp_path}/other.db"
    deliver(log, other, name="other")
    assert looked_at(log, uri).verdict is Verdict.EQUAL
    with closing(sqlite3.connect(tmp_path / "copy.db")) as db, db:
        db.execute("""UPDATE "shop.orders" SET v = 'other'""")
    text = "different from the log's version of commit-ts 10, and it is not known where the sink began"
    for name in ("copy", "other"):
        has = looked_up_as(name, log, uri)
        assert (has.verdict, has.text) == (Verdict.OPEN, text)
