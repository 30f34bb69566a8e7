"""Tables of the Delta and the Iceberg sink read back (port/readable.py): every value, at an exact position, whoever works on them.

What recorded streams amount to is in test_sink_recordings.py, and in test_delta_recordings.py and test_iceberg_recordings.py.
"""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import cast, get_args

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, Kind, Seq, TableName
from spark_merge.ddl.eras import WAY_OUT
from spark_merge.port.readable import Readable, newest
from spark_merge.sinks.delta import reading as delta_reading
from spark_merge.sinks.delta.columns import Mode
from tests.lanes import LANE
from tests.support.deliveries import ORDERS
from tests.support.delta_place import delta_table, folder_of
from tests.support.lake import NAMESPACE, catalog_of, uri_of
from tests.support.lake_read_back import LogJudge, Texts, read_back, reading_of
from tests.support.merged_lake import compact as compact_iceberg
from tests.support.one_table import HARD, SinkName, Story, table
from tests.support.recorded_target import Case, RecordedLogs, deliver

SINKS: tuple[SinkName, ...] = ("delta", "iceberg")
MODES: tuple[Mode, ...] = ("append", "merge")
NAME = Column("name", "text")
ONE_FILE = ("delta", "merge")
"""A MERGE rewrites a small table into one file."""

each_sink = pytest.mark.parametrize("sink", SINKS)
each_mode = pytest.mark.parametrize("mode", MODES)


def readable(story: Story) -> Readable:
    sink = story.sink()
    assert isinstance(sink, Readable)
    return sink


def by_repr(rows: list[Texts]) -> list[Texts]:
    return sorted(rows, key=repr)


@each_mode
@each_sink
def test_every_value_is_read_back_as_it_was(tmp_path: Path, sink: SinkName, mode: Mode) -> None:
    """Inserted, dumped and updated; each row then takes the values of the next one."""
    assert {column.kind for column, _ in HARD} == set(get_args(Kind))
    longest = max(len(values) for _, values in HARD)
    images = [(str(number), *(values[number % len(values)] for _, values in HARD)) for number in range(longest)]
    story = Story(tmp_path, mode, sink, schemas={ORDERS: table(*(column for column, _ in HARD))})
    story.deliver(*((None, image) for image in images[1:]), chunk_rows=images[:1])
    assert story.rows() == by_repr(images)
    moved = [(image[0], *images[(number + 1) % longest][1:]) for number, image in enumerate(images)]
    story.deliver(*zip(images, moved, strict=True), (None, ("99", *images[0][1:])), (None, ("100", *images[0][1:])))
    story.deliver((("100", *images[0][1:]), None))
    assert story.rows() == by_repr([*moved, ("99", *images[0][1:])])


@each_mode
@each_sink
def test_nothing_is_read_of_an_output_that_has_not_begun(tmp_path: Path, sink: SinkName, mode: Mode) -> None:
    story = Story(tmp_path, mode, sink, schemas={ORDERS: table(NAME)})
    reading = readable(story).reading(story.schema, parts=4)
    assert (reading.accepted, reading.parts) == (None, ())
    assert newest(reading, story.schema).num_rows == 0
    story.deliver()
    assert story.rows() == []


@each_mode
@each_sink
def test_parts_have_the_rows_of_the_whole(tmp_path: Path, sink: SinkName, mode: Mode) -> None:
    story, expected = filled(tmp_path, sink, mode, segments=6)
    assert story.rows(parts=1) == by_repr(expected)
    for parts in (2, 4, 100):
        assert story.rows(parts=parts) == by_repr(expected)
    number = len(reading_of(story.uri, story.schema, log_id="log-1", parts=4).parts)
    assert number == (1 if (sink, mode) == ONE_FILE else 4)


@each_mode
@each_sink
def test_keys_are_read_without_the_files_that_have_none_of_them(tmp_path: Path, sink: SinkName, mode: Mode) -> None:
    story, expected = filled(tmp_path, sink, mode, segments=6)
    wanted = expected[::7]
    keys = pa.table({"id": pa.array([row[0] for row in wanted], pa.string())})
    reading = readable(story).reading(story.schema, parts=3, keys=keys)
    assert by_repr(list(zip(*newest(reading, story.schema).to_pydict().values(), strict=True))) == by_repr(wanted)
    one = keys.slice(0, 1)
    some = readable(story).reading(story.schema, parts=100, keys=one)
    assert len(some.parts) < len(readable(story).reading(story.schema, parts=100).parts) or (sink, mode) == ONE_FILE
    assert newest(some, story.schema).column("id").to_pylist() == one.column("id").to_pylist()
    none = readable(story).reading(story.schema, parts=3, keys=pa.table({"id": pa.array(["-77"])}))
    assert newest(none, story.schema).num_rows == 0


@each_mode
@each_sink
def test_a_table_that_is_a_batch_ahead_is_read_at_the_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sink: SinkName, mode: Mode
) -> None:
    """The worker dies between its tables' commits and the position; at the end of that batch the table gets other columns."""
    story = Story(tmp_path, mode, sink, schemas={ORDERS: table(NAME)})
    story.deliver((None, ("1", "a")), (None, ("2", "b")))
    before = story.sink().look()
    monkeypatch.setattr(delta_reading, "_COMMITS_FIRST", 1)
    died = "spark_merge.sinks.kit.position.PositionKeeper.accept"
    changes = [(("1", "a"), ("1", "z")), (("2", "b"), None), (None, ("3", "c"))]
    ddl, after = "ALTER TABLE orders DROP COLUMN name, ADD COLUMN size INT", table(Column("size", "int"))
    with monkeypatch.context() as patch:
        patch.setattr(died, _dies)
        with pytest.raises(InterruptedError):
            story.deliver(*changes, ddl=ddl, after=after)
    reading = readable(story).reading(story.schema, parts=3)
    assert reading.accepted == before
    assert story.rows() == [("1", "a"), ("2", "b")]
    story.seq -= 1
    story.deliver(*changes, ddl=ddl, after=after)
    assert story.rows() == [("1", None), ("3", None)]


def _dies(*_: object, **__: object) -> None:
    raise InterruptedError


@each_mode
@each_sink
def test_what_was_begun_to_be_read_stays_what_it_was_while_the_worker_delivers(tmp_path: Path, sink: SinkName, mode: Mode) -> None:
    story, expected = filled(tmp_path, sink, mode, segments=3)
    begun = reading_of(story.uri, story.schema, log_id="log-1")
    story.deliver(*((row, None) for row in expected))
    story.deliver((None, ("-5", "later")))
    assert by_repr(list(zip(*newest(begun, story.schema).to_pydict().values(), strict=True))) == by_repr(expected)
    assert story.rows() == [("-5", "later")]


@each_mode
@each_sink
def test_rows_are_the_same_after_somebody_has_compacted_the_table(tmp_path: Path, sink: SinkName, mode: Mode) -> None:
    story, expected = filled(tmp_path, sink, mode, segments=6)
    _compact(story)
    assert story.rows() == by_repr(expected)
    story.deliver((expected[0], None), (None, ("-5", "later")))
    assert story.rows() == by_repr([*expected[1:], ("-5", "later")])


@each_mode
@each_sink
def test_files_that_go_while_they_are_read_are_an_error_and_a_second_reading_has_the_rows(
    tmp_path: Path, sink: SinkName, mode: Mode
) -> None:
    story, expected = filled(tmp_path, sink, mode, segments=4)
    begun = reading_of(story.uri, story.schema, log_id="log-1")
    _compact(story, vacuum=True)
    with pytest.raises(SinkError, match="is gone since the reading began") as gone:
        newest(begun, story.schema)
    assert "read again" in gone.value.hint
    assert story.rows() == by_repr(expected)


def _compact(story: Story, *, vacuum: bool = False) -> None:
    if story.sink_name == "delta":
        result = cast(DeltaTable, delta_table(folder_of(story.uri), ORDERS))
        assert result.optimize.z_order(["id"])["numFilesRemoved"] > 0
        if vacuum:
            assert result.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
        return
    lake = catalog_of(story.uri).load_table((NAMESPACE, *ORDERS))
    files = [Path(path.removeprefix("file://")) for path in lake.inspect.files()["file_path"].to_pylist()]
    compact_iceberg(lake)
    for file in files if vacuum else ():
        file.unlink()


def filled(folder: Path, sink: SinkName, mode: Mode, *, segments: int) -> tuple[Story, list[Texts]]:
    """Keys that are inserted, changed and deleted, each segment among others of its own, so that files have keys apart."""
    rng, rows = Random(7), dict[int, Texts]()
    story = Story(folder, mode, sink, schemas={ORDERS: table(NAME)})
    for segment in range(segments):
        changes: list[tuple[Texts | None, Texts | None]] = []
        for number in range(40):
            key = 1000 * segment + number
            rows[key] = (str(key), rng.choice(["", "漢", None, f"v{key}"]))
            changes.append((None, rows[key]))
        for key in rng.sample(sorted(rows), 5):
            before = rows.pop(key)
            if rng.random() < 0.5:
                rows[key] = (str(key), f"changed in {segment}")
            changes.append((before, rows.get(key)))
        story.deliver(*changes, chunk_rows=[(str(1000 * segment + 500), "dumped")])
        rows[1000 * segment + 500] = (str(1000 * segment + 500), "dumped")
    return story, list(rows.values())


# ---- the log of changes over schema changes --------------------------------------------------------------------------------

A = Column("a", "int")


@each_sink
def test_a_log_of_changes_over_schema_changes_is_the_table_as_it_is(tmp_path: Path, sink: SinkName) -> None:
    story = Story(tmp_path, "append", sink, schemas={ORDERS: table(A, NAME)})
    story.deliver((None, ("1", "7", "x")), (None, ("2", None, "y")))
    c = Column("c", "decimal", length=5, scale=2)
    story.deliver(
        (None, ("3", "9", "z")), ddl="ALTER TABLE orders ADD c DECIMAL(5,2) DEFAULT 1.5", after=table(A, NAME, c, defined={"c": "'1.50'"})
    )
    assert story.rows() == [("1", "7", "x", "1.50"), ("2", None, "y", "1.50"), ("3", "9", "z", "1.50")]
    d = replace(c, name="d")
    renamed = table(A, d, defined={"d": "'1.50'"})
    story.deliver((None, ("4", "8", "w", None)), ddl="ALTER TABLE orders RENAME COLUMN c TO d, DROP COLUMN name", after=renamed)
    assert story.rows() == [("1", "7", "1.50"), ("2", None, "1.50"), ("3", "9", "1.50"), ("4", "8", None)]
    story.deliver(
        (("2", None, "1.50"), ("2", "0", "2.00")), ddl="ALTER TABLE orders ADD name TEXT", after=table(A, d, NAME, defined={"d": "'1.50'"})
    )
    assert story.rows() == [("1", "7", "1.50", None), ("2", "0", "2.00", None), ("3", "9", "1.50", None), ("4", "8", None, None)]
    story.deliver(ddl="TRUNCATE TABLE orders", after=story.schema)
    assert story.rows() == []
    story.deliver((None, ("5", "0", None, "z")))
    assert story.rows() == [("5", "0", None, "z")]


@each_sink
def test_rows_of_a_previous_name_are_the_tables(tmp_path: Path, sink: SinkName) -> None:
    """And those of the table that had the name before are not."""
    bills, attic = TableName("shop", "bills"), TableName("shop", "attic")
    story = Story(tmp_path, "append", sink, schemas={bills: table(A, name=bills)})
    story.deliver((None, ("9", "9")), ddl="RENAME TABLE bills TO attic", after=table(A, name=attic))
    story.deliver(ddl="CREATE TABLE orders (id INT PRIMARY KEY, a INT)", after=table(A))
    story.deliver((None, ("1", "7")), (None, ("2", "8")), ddl="RENAME TABLE Orders TO bills", after=table(A, name=bills))
    assert story.rows() == [("1", "7"), ("2", "8")]
    b = Column("b", "int")
    story.deliver((("2", "8"), None), (None, ("3", "0")), ddl="ALTER TABLE bills CHANGE a b INT", after=table(b, name=bills))
    assert story.rows() == [("1", "7"), ("3", "0")]


@each_sink
def test_rows_of_partitions_that_left_stay_rows_of_a_log_of_changes(tmp_path: Path, sink: SinkName) -> None:
    """No change event of theirs comes, and readers of the log see them. A dump of their keys deletes them."""
    story = Story(tmp_path, "append", sink, schemas={ORDERS: table(A)})
    story.deliver((None, ("1", "7")), (None, ("2", "8")), ddl="ALTER TABLE orders TRUNCATE PARTITION p1", after=table(A))
    assert story.rows() == [("1", "7"), ("2", "8")]
    story.deliver((("1", "7"), None))
    assert story.rows() == [("2", "8")]


@pytest.mark.parametrize(
    ("ddl", "after", "why"),
    [
        ("ALTER TABLE orders ADD b INT DEFAULT (1 + 1)", table(A, Column("b", "int"), defined={"b": "(1 + 1)"}), "computed default"),
        ("ALTER TABLE orders ADD b INT", replace(table(A, Column("b", "int")), definition=None), "a default that the log does not have"),
        ("ALTER TABLE orders FROBNICATE", table(A), "is not understood"),
        ("ALTER TABLE orders DROP PRIMARY KEY, ADD PRIMARY KEY (a)", replace(table(A), key=("a",)), "may have changed the handle key"),
    ],
)
@each_sink
def test_rows_that_the_output_does_not_have_whole_are_refused_by_the_ddl(
    tmp_path: Path, sink: SinkName, ddl: str, after: object, why: str
) -> None:
    story = Story(tmp_path, "append", sink, schemas={ORDERS: table(A)})
    story.deliver((None, ("1", "7")), ddl=ddl, after=after)  # type: ignore[arg-type]  # a parameter
    with pytest.raises(SinkError, match=why) as refused:
        story.rows()
    assert ddl in refused.value.message
    assert refused.value.hint == WAY_OUT


@each_sink
def test_a_value_that_a_new_type_may_have_changed_is_refused_by_the_ddl(tmp_path: Path, sink: SinkName) -> None:
    story = Story(tmp_path, "append", sink, "&changed-types=anew" if sink == "iceberg" else "", schemas={ORDERS: table(NAME)})
    story.deliver((None, ("1", "7")), ddl="ALTER TABLE orders MODIFY name INT", after=table(replace(NAME, kind="int")))
    with pytest.raises(SinkError, match="ALTER TABLE orders MODIFY name INT"):
        story.rows()


def test_a_date_of_no_calendar_stays_with_its_column_of_another_name(tmp_path: Path) -> None:
    """In Iceberg, whose field it stays; another column takes its name."""
    day, other = Column("day", "date"), Column("other", "date")
    for mode in MODES:
        story = Story(tmp_path / mode, mode, "iceberg", schemas={ORDERS: table(day)})
        story.deliver((None, ("1", "0000-00-00")), ddl="ALTER TABLE orders RENAME COLUMN day TO other", after=table(other))
        story.deliver((None, ("2", "2020-02-30")), ddl="ALTER TABLE orders ADD day DATE", after=table(other, day))
        story.deliver((None, ("3", None, "2020-02-31")))
        assert story.rows() == [("1", "0000-00-00", None), ("2", "2020-02-30", None), ("3", None, "2020-02-31")]


def test_a_delta_table_with_features_of_somebody_else_is_refused(tmp_path: Path) -> None:
    story, _ = filled(tmp_path, "delta", "merge", segments=1)
    result = cast(DeltaTable, delta_table(folder_of(story.uri), ORDERS))
    result.alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    with pytest.raises(SinkError, match="deletionVectors"):
        story.rows()


def test_a_table_of_another_log_is_not_read(tmp_path: Path) -> None:
    for sink in SINKS:
        story, _ = filled(tmp_path / sink, sink, "append", segments=1)
        with pytest.raises(SinkError, match="holds the output of log"):
            read_back(story.uri, story.schema, log_id="other")
        shutil.rmtree(tmp_path / sink)


if LANE.whole:  # minutes; the DDLs above are of these kinds

    @pytest.mark.recordings
    @pytest.mark.parametrize(("name", "seed"), [("ddl", 0), ("ddl", 1), ("ddl-new", 2)])
    @each_sink
    def test_a_recorded_log_of_changes_is_the_source_after_each_schema_change(
        tmp_path: Path, recorded_logs: RecordedLogs, sink: SinkName, name: str, seed: int
    ) -> None:
        """But for tables of which the output does not tell all, which are refused by the DDL."""
        made, log = Case(name, "kv", ("watermark", "snapshot")[seed % 2], seed).record(recorded_logs)
        uri = f"delta://{tmp_path}/out?mode=append" if sink == "delta" else uri_of(tmp_path / "lake", changed_types="anew")
        judge, looks = LogJudge(made, uri, log), itertools.count()

        def look(seq: Seq) -> None:
            if log.manifests[seq].ddls and next(looks) % 4 == 0:
                judge.look(seq)

        deliver(log.folder, uri, seed=seed, deaths=1, after=look)
        judge.end()
        assert judge.whole > len(made.tables)
        assert len(judge.refused) < len(made.tables) / 2
        reported = [repr(ddl.query) for manifest in log.manifests for ddl in manifest.ddls]
        assert all(any(query in message for query in reported) for message in judge.refused.values()), judge.refused
