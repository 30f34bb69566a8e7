"""A sink that is added late: what its file says over its life, whatever dies when; and what a dump for it alone changes elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.filled import FilledWord, write_words
from sidecar.shared.log.identity import own_id
from sidecar.shared.log.layout import manifest_name, sink_tables_name, skip_name
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.sink_tables import last_generation, read_sink_tables, write_sink_tables
from sidecar.shared.log.skips import Skip, skip_row
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.hole import HoleCause
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import CommitTs, Lane, Seq, TableName, TableSchema
from sidecar.shared.model.progress import DumpState, Progress, TableProgress
from sidecar.shared.model.sink_delivery import SinkTables
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.delivery.sink_record import LAG_MAX, SinkId, SinkRecord
from spark_merge.log.read import new_manifests
from spark_merge.merge.cut import BatchLimits
from spark_merge.port.contract import Owner
from spark_merge.sinks.files.reader import read_output
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.histories import COLUMNS, DEFINITION, change_of
from spark_merge.testing.places import Here

T = TableName("s", "t")
ROWS = {str(key): (str(key), "0", "x") for key in range(4)}
LATE = ("late",)
DUMPED_IN, LAST = 4, 5
CHUNK = "chunks/1111111111111111/0000000001-00000000.parquet"


class Log:
    """Each row is inserted in segment 0 or 1, row 0 is updated in segment 3; a dump for the late sink closes its window in segment 4."""

    def __init__(self, folder: Path, *, dump: bool = True) -> None:
        self.folder = open_folder(str(folder))
        own_id(self.folder)
        self.owner = FolderLog(self.folder)
        self.owner.recover(epoch=1)
        self.schemas = self.owner.write_schemas({T: TableSchema(T, COLUMNS, ("id", "part"), definition=DEFINITION)})
        self.dump = dump

    def write(self, *seqs: int) -> None:
        for seq in seqs:
            new = [ROWS[str(2 * seq)], ROWS[str(2 * seq + 1)]] if seq < 2 else [("0", "0", "y")] if seq == 3 else []
            kind = "INSERT" if seq < 2 else "UPDATE"
            changes = [change_of(T, CommitTs(100 * seq + 50), kind, new=row, old=row if kind == "UPDATE" else None) for row in new]
            data = self.owner.write_data(Seq(seq), epoch=1, codec="canal-json", changes=changes)
            manifest = Manifest(
                Seq(seq), 1, CommitTs(100 * seq), CommitTs(100 * seq + 100), data.name, data.rows, data.bytes, {}, self.schemas,
                "canal-json", table_rows=data.table_rows, id=str(seq), open_from=None,
            )  # fmt: skip
            self.owner.commit(self.with_the_dump(manifest) if self.dump and seq >= 2 else manifest)

    def with_the_dump(self, manifest: Manifest) -> Manifest:
        """It starts in segment 2."""
        table = TableProgress(T, since_seq=Seq(2))
        windows: tuple[ClosedWindow, ...] = ()
        if manifest.seq >= DUMPED_IN:
            table = replace(table, spans=(), complete_at=CommitTs(450))
        if manifest.seq == DUMPED_IN:
            rows = [("0", "0", "y"), *list(ROWS.values())[1:]]
            columns = {column.name: pa.array([row[n] for row in rows], pa.string()) for n, column in enumerate(COLUMNS)}
            write_chunk(self.folder, CHUNK, pa.table(columns))
            chunk = ChunkFile(T, CHUNK, len(rows), 1, None, None, since_seq=Seq(2))
            windows = (ClosedWindow("1" * 16, CommitTs(410), CommitTs(450), Seq(4), (chunk,), LATE),)
        progress = Progress("1" * 16, DumpState.RUNNING, Brackets.WATERMARK, 10, 1, 1, manifest.seq, (table,), sinks=LATE)
        return replace(manifest, windows=windows, progress=progress.to_json())

    def tables(self, name: str) -> SinkTables | None:
        return read_sink_tables(self.folder, [name]).get(name)


def delivery(log: Log, out: Path, name: str, *, segments_max: int = 1) -> Delivery:
    uri = f"file://{out}?format=jsonl"
    settings = JobSettings(log.folder, limits=BatchLimits(segments_max=segments_max))
    return Delivery(open_sink(uri, log_id="cf"), settings, Here(), sink_id=SinkId(name, uri))


def finish(delivering: Delivery) -> Delivery:
    while delivering.deliver():
        pass
    delivering.sink.close()
    return delivering


def rows_of(out: Path) -> dict[str, object]:
    """As a reader has them in the end."""
    rows: dict[str, object] = {}
    for row in read_output(open_folder(str(out))):
        rows[json.dumps(row["key"])] = row["after"]
    return rows


def retain(log: Log, seq: int) -> None:
    log.owner.retain(delivered=Seq(seq), open_from=None)
    for gone in range(seq):
        (Path(log.folder.root) / manifest_name(Seq(gone))).unlink(missing_ok=True)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "log")


def test_a_late_sink_is_incomplete_until_a_dump_for_it_and_then_equals_the_others(tmp_path: Path, log: Log) -> None:
    """And to the others it is as if there were no such dump, byte for byte."""
    log.write(0, 1, 2)
    finish(delivery(log, tmp_path / "early", "early"))
    retain(log, 2)
    late = finish(delivery(log, tmp_path / "late", "late"))
    known = log.tables("late")
    assert known is not None
    assert late.record is not None
    assert (known.began_seq, known.began_ts, known.incomplete([T])) == (2, 200, [T])
    assert rows_of(tmp_path / "late") != rows_of(tmp_path / "early")

    log.write(3, 4, 5)
    for name in ("early", "late"):
        finish(delivery(log, tmp_path / name, name))
    known, early = log.tables("late"), log.tables("early")
    assert known is not None
    assert early is not None
    assert known.complete == {T: 450}
    assert early.complete == {}, "the dump was not for it, and what it has from before is not known"
    assert rows_of(tmp_path / "late") == rows_of(tmp_path / "early")

    without = Log(tmp_path / "log of no dump", dump=False)
    without.write(*range(LAST + 1))
    finish(delivery(without, tmp_path / "other", "early"))
    assert rows_of(tmp_path / "other") == rows_of(tmp_path / "early")
    assert data_of(tmp_path / "other") == data_of(tmp_path / "early")


def data_of(out: Path) -> dict[str, bytes]:
    """The files with rows, by their names without the worker's part."""
    files = {re.sub(r"-\d+-[0-9a-f]{8}\.jsonl", "", str(path.relative_to(out))): path.read_bytes() for path in out.rglob("*.jsonl")}
    assert files
    return files


@pytest.mark.parametrize("at", range(LAST + 1))
def test_a_worker_that_dies_between_accept_and_the_file_loses_nothing(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """The next one reads the segments again that the file lacks."""
    log.write(*range(LAST + 1))
    dying = delivery(log, tmp_path / "late", "late")
    for _ in range(at):
        dying.deliver()

    def die(*_: object) -> None:
        raise KeyError("the process is gone")

    monkeypatch.setattr(SinkRecord, "passed", die)
    with pytest.raises(KeyError):
        dying.deliver()
    monkeypatch.undo()
    before = log.tables("late")
    assert before is not None
    assert before.seq < at, "what was accepted last is not in the file"
    again = finish(delivery(log, tmp_path / "late", "late"))
    assert again.record is not None
    assert again.record.tables is not None
    assert again.record.tables.complete == {T: 450}
    assert (log.tables("late") or before).complete == {T: 450}


def test_segments_that_retention_removed_change_nothing_that_the_file_lacks(tmp_path: Path, log: Log) -> None:
    log.write(*range(LAST + 1))
    finish(delivery(log, tmp_path / "late", "late"))
    retain(log, LAST)
    again = delivery(log, tmp_path / "late", "late")
    assert again.record is not None
    assert again.record.tables is not None
    assert again.record.tables.complete == {T: 450}
    assert again.record.tables.seq == LAST


def test_of_a_sink_that_an_earlier_version_fed_nothing_is_known(tmp_path: Path, log: Log) -> None:
    log.write(0, 1, 2)
    uri = f"file://{tmp_path}/out?format=jsonl"
    finish(Delivery(open_sink(uri, log_id="cf"), JobSettings(log.folder), Here()))
    finish(delivery(log, tmp_path / "out", "late"))
    known = log.tables("late")
    assert known is not None
    assert (known.began_seq, known.began_ts, known.seq, known.complete) == (3, None, 2, {})
    log.write(3, 4, 5)
    finish(delivery(log, tmp_path / "out", "late"))
    assert (log.tables("late") or known).complete == {}, "the dump's pass began in segment 2, before what is known"


def test_a_name_that_moves_to_another_output_takes_nothing_with_it(tmp_path: Path, log: Log) -> None:
    log.write(*range(LAST + 1))
    finish(delivery(log, tmp_path / "a", "late"))
    finish(delivery(log, tmp_path / "b", "other"))
    moved = delivery(log, tmp_path / "b", "late")
    assert moved.record is not None
    assert moved.record.tables is not None
    assert moved.record.tables.complete == {}


def test_an_output_that_begins_again_is_not_complete_by_its_old_file(tmp_path: Path, log: Log) -> None:
    log.write(0, 1, 2)
    finish(delivery(log, tmp_path / "out", "late"))
    write_sink_tables(log.folder, replace(known_of(log), complete={T: CommitTs(7)}), log_id=own_id(log.folder))
    (tmp_path / "out").rename(tmp_path / "lost")
    finish(delivery(log, tmp_path / "out", "late"))
    assert known_of(log).complete == {}


def known_of(log: Log) -> SinkTables:
    known = log.tables("late")
    assert known is not None
    return known


def test_a_file_that_cannot_be_read_stops_its_sink_before_a_batch(tmp_path: Path, log: Log) -> None:
    log.write(0, 1)
    finish(delivery(log, tmp_path / "out", "late"))
    known = known_of(log)
    storage.write_atomically(log.folder, sink_tables_name("late", known.generation, known.epoch, known.incarnation), b"{")
    with pytest.raises(SinkError, match="not readable"):
        delivery(log, tmp_path / "out", "late")


def test_a_worker_that_was_frozen_after_its_batch_leaves_its_successors_file_alone(tmp_path: Path, log: Log) -> None:
    log.write(*range(LAST + 1))
    previous = SinkRecord(log.folder, SinkId("late", "out"))
    segments = manifests(log)
    previous.begin(segments[0], Owner(1, 1))
    later = SinkRecord(log.folder, SinkId("late", "out"))
    later.begin(segments[0], Owner(1, 2))
    with pytest.raises(OwnershipLost):
        previous.passed(segments, Owner(1, 1))
    assert known_of(log).incarnation == 2


def test_a_worker_that_was_frozen_amid_its_first_write_leaves_its_successors_file_alone(tmp_path: Path, log: Log) -> None:
    log.write(0, 1, 2, 3, 4)
    previous = SinkRecord(log.folder, SinkId("late", "out"))
    later = SinkRecord(log.folder, SinkId("late", "out"))
    later.begin(manifests(log)[0], Owner(1, 2))
    later.passed(manifests(log), Owner(1, 2))
    known = known_of(log)
    previous.begin(manifests(log)[0], Owner(1, 1))
    assert known_of(log) == known
    with pytest.raises(OwnershipLost):
        previous.passed(manifests(log), Owner(1, 1))


@pytest.mark.parametrize("output", ["out", "other"])
def test_a_target_that_is_emptied_or_another_one_begins_whatever_its_workers_numbers(tmp_path: Path, log: Log, output: str) -> None:
    """The target counts them: from 1 again."""
    log.write(0, 1, 2)
    first = SinkRecord(log.folder, SinkId("late", "out"))
    first.begin(manifests(log)[0], Owner(0, 7))
    first.passed(manifests(log), Owner(0, 7))
    again = SinkRecord(log.folder, SinkId("late", output), before=last_generation(log.folder, "late"))
    again.begin(manifests(log)[1], Owner(0, 1))
    known = known_of(log)
    assert (known.output, known.incarnation, known.generation, known.complete, known.began_seq) == (output, 1, 1, {}, 1)
    again.passed(manifests(log)[1:], Owner(0, 1))
    with pytest.raises(OwnershipLost):
        first.passed([replace(manifests(log)[0], seq=Seq(LAG_MAX + 9))], Owner(0, 7))


def test_a_file_ahead_of_a_log_that_was_restored_is_none(tmp_path: Path, log: Log) -> None:
    log.write(0, 1, 2)
    finish(delivery(log, tmp_path / "out", "late"))
    ahead = replace(known_of(log), seq=Seq(9), upto_ts=CommitTs(1000), complete={T: CommitTs(900)})
    write_sink_tables(log.folder, ahead, log_id=own_id(log.folder))
    delivery(log, tmp_path / "out", "late")
    assert (known_of(log).complete, known_of(log).seq) == ({}, 2)


def test_the_file_is_never_far_behind(tmp_path: Path, log: Log) -> None:
    """Or a worker of a log that is never retained would read all of it again."""
    log.write(0)
    record = SinkRecord(log.folder, SinkId("late", "out"))
    first = manifests(log)[0]
    record.begin(first, Owner(1, 1))
    for seq in range(LAG_MAX):
        record.passed([replace(first, seq=Seq(seq))], Owner(1, 1))
        assert known_of(log).seq == (-1 if seq < LAG_MAX - 1 else LAG_MAX - 1)


def skip_of(seq: int, op: str) -> Skip:
    return Skip(Seq(seq), 0, CommitTs(100 * seq + 50), op, T, "canal-json", Lane("k/0"), 1, b"", b"", "no number", by="alice@db1")


@pytest.mark.parametrize("op", ["put", "delete"])
def test_a_row_that_is_skipped_is_a_hole_of_its_table(tmp_path: Path, log: Log, op: str) -> None:
    """Also where the worker dies before the file is written: the next one follows the same segments."""
    log.write(0, 1, 2, 3, 4, 5)
    skip_row(log.folder, skip_of(3, op))
    finish(delivery(log, tmp_path / "out", "late"))
    hole = known_of(log).holes[T]
    assert (hole.cause, hole.since_ts, hole.seq, hole.vanished) == (HoleCause.SKIPPED, 350, 3, op == "delete")
    assert hole.text == "segment 3, ordinal 0, skipped by alice@db1"
    assert T not in known_of(log).complete, "the dump began before the row"
    write_sink_tables(
        log.folder, replace(known_of(log), seq=Seq(2), upto_ts=CommitTs(300), complete={}, holes={}), log_id=own_id(log.folder)
    )
    delivery(log, tmp_path / "out", "late").sink.close()
    assert known_of(log).holes == {T: hole}


def test_a_decision_to_skip_that_cannot_be_read_is_a_hole_of_each_table(tmp_path: Path, log: Log) -> None:
    """Its name alone decides what is skipped."""
    log.write(0, 1, 2)
    finish(delivery(log, tmp_path / "out", "late"))
    storage.write_atomically(log.folder, skip_name(Seq(5), 1), b"{}")
    log.write(3, 4, 5)
    finish(delivery(log, tmp_path / "out", "late"))
    assert known_of(log).complete == {}
    assert (known_of(log).holes[T].vanished, known_of(log).holes[T].complete) == (True, 450)


def test_a_word_ends_a_hole_with_the_next_batch(tmp_path: Path) -> None:
    log = Log(tmp_path / "log of no dump", dump=False)
    log.write(0, 1, 2, 3)
    skip_row(log.folder, skip_of(3, "delete"))
    finish(delivery(log, tmp_path / "out", "late"))
    for seq, (sink, upto_seq, ends) in enumerate([("other", 9, False), ("late", 2, False), ("late", 3, True)], 4):
        write_words(log.folder, [FilledWord(sink, 0, T, 0, Seq(upto_seq), "alice@db1", "by hand", 1)])
        log.write(seq)
        finish(delivery(log, tmp_path / "out", "late"))
        assert (T not in known_of(log).holes) is ends


def manifests(log: Log) -> Sequence[Manifest]:
    return new_manifests(log.folder, after=None, limit=100)
