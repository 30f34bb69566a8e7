"""What is read of a storage sink's folder: when a mark N comes, every row up to N has come, whatever TiCDC's crashes leave."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from sidecar.feeds.encoded.files import feed_error
from sidecar.feeds.storage import reading as module
from sidecar.feeds.storage.names import RowsFile
from sidecar.feeds.storage.reading import LANE, BucketReading, checkpoint, lines
from sidecar.feeds.storage.unread import EXPIRY_MS_MIN, FolderTimes, ReadFrom
from sidecar.shared.codecs.canal_json import CanalJson
from sidecar.shared.errors import FeedUnsuitable, MessageUnreadable
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import Change, CommitTs, Ddl, Message, Resolved
from tests.support.buckets import BucketSink, line_of

CODEC = CanalJson()
SEEDS = range(30)


def folder_of(root: Path) -> Folder:
    return open_folder(str(root)).opened_for(feed_error)


def reading(sink: BucketSink, position: int = 0, times: FolderTimes = FolderTimes()) -> BucketReading:  # noqa: B008  # a plain value
    return BucketReading(folder_of(sink.root), lines, ReadFrom(position, times), form="json")


class Reader:
    """One that dies, and begins again where what it got was durable."""

    def __init__(self, sink: BucketSink) -> None:
        self.sink = sink
        self.position, self.times, self.upto_ts = 0, FolderTimes(), CommitTs(0)
        self.begin()

    def begin(self) -> None:
        self.reading, self.rows = reading(self.sink, self.position, self.times), set[tuple[str, str, CommitTs, bytes]]()
        self.after_ts = CommitTs(max(0, self.position - 2))

    def look(self, *, stops_after: int | None = None) -> None:
        """`stops_after` so many messages it dies, and begins again."""
        for number, message in enumerate(self.reading.look()):
            self._take(message)
            if number == stops_after:
                self.begin()
                return

    def _take(self, message: Message) -> None:
        assert message.lane == LANE
        assert message.position >= self.position
        for envelope in CODEC.envelopes(message):
            if isinstance(envelope, Change):
                self.rows.add((envelope.schema, envelope.table, envelope.commit_ts, envelope.value))
            elif isinstance(envelope, Ddl):
                self.rows.add((envelope.schema, envelope.table, envelope.commit_ts, b""))
            elif isinstance(envelope, Resolved):
                wanted = {(*row.table, row.commit_ts, row.line) for row in self.sink.rows if self.after_ts < row.commit_ts <= envelope.ts}
                assert wanted <= self.rows, f"mark {envelope.ts} has passed {sorted(wanted - self.rows)[:3]}"
                assert envelope.ts >= self.upto_ts
                self.position, self.times, self.upto_ts = message.position, self.reading.times, envelope.ts


def played(sink: BucketSink, reader: Reader, rng: Random, *, steps: int) -> Iterator[None]:
    for _ in range(steps):
        sink.commit(rng.randint(0, 4))
        if rng.random() < 0.1:
            sink.ddl()
        match rng.randint(0, 6):
            case 0:
                sink.crash()
            case 1:
                reader.begin()
            case 2:
                reader.look(stops_after=rng.randint(0, 5))
            case 3 | 4:
                sink.flush()
            case 5:
                sink.mark()
            case 6:
                reader.look()
        yield


@pytest.mark.parametrize("seed", SEEDS)
def test_no_mark_passes_a_row_or_a_ddl_whatever_crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = Random(seed)
    monkeypatch.setattr(module, "BACKLOG_BYTES", rng.choice([0, 1 << 20]))
    monkeypatch.setattr(module, "READ_BYTES_MAX", rng.choice([1, 500, 1 << 20]))
    sink = BucketSink(tmp_path, rng, overwrites=seed % 2 == 0, dated=seed % 3 > 0)
    reader = Reader(sink)
    for _ in played(sink, reader, rng, steps=120):
        pass
    sink.rng = Random(1)
    while sink.checkpoint < sink.rows[-1].commit_ts:
        sink.flush()
        sink.mark()
    reader.look()
    assert reader.upto_ts == sink.rows[-1].commit_ts


def test_a_reader_that_goes_on_reads_what_was_written_lately_and_nothing_older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, read = BucketSink(tmp_path, Random(3), dated=False), list[str]()
    for _ in range(40):
        sink.commit(5)
        sink.now_ms += 100_000
        sink.flush()
        sink.mark()
    goes_on = reading(sink, position=sink.checkpoint)
    of_files = BucketReading._read

    def noting(self: BucketReading, files: list[RowsFile]) -> dict[str, bytes]:
        read.extend(file.name for file in files)
        return of_files(self, files)

    monkeypatch.setattr(BucketReading, "_read", noting)
    sink.commit(9)
    while sink.checkpoint < sink.rows[-1].commit_ts:
        sink.flush()
        sink.mark()
    list(goes_on.look())
    assert 0 < len(set(read)) < len(list(tmp_path.rglob("CDC*"))) / 2


def test_ddls_are_those_of_schema_files_with_a_query_that_are_above_the_position(tmp_path: Path) -> None:
    sink = BucketSink(tmp_path, Random(1))
    sink.commit(3)
    ts = sink.rows[1].commit_ts
    for version, query in ((ts - 10, "ALTER TABLE a ADD x INT"), (ts, "ALTER TABLE a ADD y INT"), (ts + 1, "")):
        text = f'{{"Table":"a","Schema":"shop","Version":1,"TableVersion":{version},"Query":"{query}","Type":5,"TableColumns":null}}'
        sink.put(f"shop/a/meta/schema_{version}_0000000001.json", text.encode())
    sink._sent = 3
    sink.mark()
    of_ddls = [one for message in reading(sink, ts).look() for one in CODEC.envelopes(message) if isinstance(one, Ddl)]
    assert [(one.commit_ts, one.schema, one.table, one.query) for one in of_ddls] == [(ts, "shop", "a", "ALTER TABLE a ADD y INT")]


class TestLost:
    def sink(self, root: Path) -> BucketSink:
        sink = BucketSink(root, Random(1), tables=BucketSink.tables[:1], dated=False)
        for _ in range(4):
            sink.commit(2)
            sink.put(f"{sink.folder_of(sink.tables[0])}/CDC{_ + 1:020d}.json", b"".join(row.line + b"\n" for row in sink.rows[-2:]))
        sink._sent = len(sink.rows)
        sink.mark()
        return sink

    def path(self, sink: BucketSink, number: int) -> Path:
        return sink.root / sink.folder_of(sink.tables[0]) / f"CDC{number:020d}.json"

    @pytest.mark.parametrize(("number", "gone"), [(2, [2]), (3, [3]), (3, [1, 3])])
    def test_a_number_that_is_missing_stops_the_second_look_with_its_place_and_no_mark_before(
        self, tmp_path: Path, number: int, gone: list[int]
    ) -> None:
        sink = self.sink(tmp_path)
        for one in gone:
            self.path(sink, one).unlink()
        reader = reading(sink, position=3)
        assert not [one for message in reader.look() for one in CODEC.envelopes(message) if isinstance(one, Resolved)]
        with pytest.raises(FeedUnsuitable, match=f"the file before CDC{number + 1:020d}.json is gone"):
            list(reader.look())

    def test_a_number_that_ticdc_left_out_is_no_loss_where_its_rows_were_sent(self, tmp_path: Path) -> None:
        """It died between its index and its file; what follows begins at a checkpoint."""
        sink = self.sink(tmp_path)
        reader = Reader(sink)
        reader.look()
        again = sink.rows[-2:]
        sink.commit(1)
        sink.put(f"{sink.folder_of(sink.tables[0])}/CDC{6:020d}.json", b"".join(row.line + b"\n" for row in [*again, sink.rows[-1]]))
        sink._sent = len(sink.rows)
        sink.mark()
        reader.look()
        assert reader.upto_ts == sink.checkpoint

    def test_an_empty_file_fills_its_place(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)
        del sink.rows[2:4]
        sink.put(self.path(sink, 2).relative_to(tmp_path).as_posix(), b"")
        reader = Reader(sink)
        reader.look()
        assert reader.upto_ts == sink.checkpoint

    def test_where_all_that_is_there_is_read_what_retention_has_removed_before_it_is_not_missed(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)
        self.path(sink, 1).unlink()
        list((reader := reading(sink)).look())
        assert reader.position == sink.checkpoint

    def test_where_all_that_is_as_old_as_the_log_is_gone_it_stops(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)
        known, at = sink.now_ms - 1, sink.rows[3].commit_ts
        for number in (1, 2, 3, 4):
            os.utime(self.path(sink, number), (sink.now_ms / 1000, sink.now_ms / 1000))
        with pytest.raises(FeedUnsuitable, match="no file that is as old as the newest one that the log has"):
            list(reading(sink, at, FolderTimes(known, sink.now_ms - EXPIRY_MS_MIN)).look())
        list((lately := reading(sink, at, FolderTimes(known, sink.now_ms - EXPIRY_MS_MIN + 1))).look())
        assert lately.position == sink.checkpoint, "nothing expires within a day"
        os.utime(self.path(sink, 1), (sink.now_ms / 1000 - 1, sink.now_ms / 1000 - 1))
        list((reads_on := reading(sink, at, FolderTimes(known, sink.now_ms - EXPIRY_MS_MIN))).look())
        assert reads_on.times == FolderTimes(sink.now_ms, sink.now_ms)

    def test_what_retention_removed_before_the_lowest_file_is_not_missed_at_a_later_look_either(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The first look breaks off."""
        sink = self.sink(tmp_path)
        for number in (1, 2):
            self.path(sink, number).unlink()
        reader = Reader(sink)
        reader.position = sink.rows[2].commit_ts
        reader.begin()
        del sink.rows[2:4]
        with monkeypatch.context() as patched:
            patched.setattr(BucketReading, "_read", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                reader.look()
        reader.look()
        reader.look()
        assert reader.upto_ts == sink.checkpoint

    def test_a_file_that_a_cached_listing_hid_from_its_mark_stops(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)
        reader, hidden_ts, written_s = Reader(sink), sink.rows[5].commit_ts, sink.now_ms / 1000 - 1
        for number in (5, 6):
            reader.look()
            sink.commit(1)
            sink.put(f"{sink.folder_of(sink.tables[0])}/CDC{number:020d}.json", sink.rows[-1].line + b"\n")
            sink._sent = len(sink.rows)
            sink.mark()
            if number == 5:
                reader.look()
        name = f"{sink.folder_of(BucketSink.tables[1])}/CDC{1:020d}.json"
        sink.put(name, line_of(BucketSink.tables[1], hidden_ts, 99) + b"\n")
        os.utime(tmp_path / name, (written_s, written_s))
        with pytest.raises(FeedUnsuitable, match=f"{name} was written before `metadata` said"):
            reader.look()

    def test_a_file_that_was_read_and_comes_again_is_a_repeat(self, tmp_path: Path) -> None:
        """As where a mount gives it another number, or one listing lacks it."""
        sink = self.sink(tmp_path)
        reader = Reader(sink)
        reader.look()
        for number, age_s in ((2, 9), (3, 5)):
            data = self.path(sink, number).read_bytes()
            self.path(sink, number).write_bytes(data)
            os.utime(self.path(sink, number), (sink.now_ms / 1000 - age_s, sink.now_ms / 1000 - age_s))
        sink.commit(1)
        sink.put(f"{sink.folder_of(sink.tables[0])}/CDC{5:020d}.json", sink.rows[-1].line + b"\n")
        sink._sent = len(sink.rows)
        sink.mark()
        reader.look()
        assert reader.upto_ts == sink.checkpoint

    @pytest.mark.parametrize("name", ["shop/CDC000001.json", "shop/a/470609284631625749/CDC000001.csv"])
    def test_a_data_file_that_would_not_be_read_stops(self, tmp_path: Path, name: str) -> None:
        sink = self.sink(tmp_path)
        sink.put(name, b"")
        with pytest.raises(FeedUnsuitable, match=f"{name} is called like a data file"):
            list(reading(sink).look())

    def test_where_the_storages_clock_is_far_behind_no_file_is_passed_over(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)
        for path in tmp_path.rglob("*"):
            os.utime(path, (sink.now_ms / 1000 - 5000, sink.now_ms / 1000 - 5000))
        reader = Reader(sink)
        reader.position = sink.rows[1].commit_ts
        reader.begin()
        reader.look()
        assert reader.upto_ts == sink.checkpoint

    def test_one_that_comes_between_two_looks_is_no_loss(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)
        late = self.path(sink, 2)
        data = late.read_bytes()
        late.unlink()
        reader = Reader(sink)
        reader.look()
        late.write_bytes(data)
        reader.look()
        assert reader.upto_ts == sink.checkpoint

    def test_files_that_were_removed_below_the_position_are_no_loss(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)
        for number in (1, 2):
            self.path(sink, number).unlink()
        reader = Reader(sink)
        reader.position = sink.rows[4].commit_ts + 2
        reader.begin()
        reader.look()
        assert reader.upto_ts == sink.checkpoint

    def test_one_that_is_removed_before_it_is_read_is_named(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)
        reader = reading(sink)
        next(reader.look())
        self.path(sink, 4).unlink()
        with pytest.raises(FeedUnsuitable, match=r"CDC0+4\.json is gone"):
            list(reader.look())

    def test_an_old_file_that_is_gone_after_it_was_read_is_not_missed(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)
        reader = Reader(sink)
        reader.look()
        self.path(sink, 2).unlink()
        sink.commit(2)
        sink.put(f"{sink.folder_of(sink.tables[0])}/CDC{5:020d}.json", b"".join(row.line + b"\n" for row in sink.rows[-2:]))
        sink._sent = len(sink.rows)
        sink.mark()
        reader.look()
        assert reader.upto_ts == sink.checkpoint


@pytest.mark.parametrize("data", [b"", b"{"])
def test_metadata_that_is_empty_is_none_yet_and_a_broken_one_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "metadata").write_bytes(data)
    if not data:
        assert checkpoint(folder_of(tmp_path)) is None
        return
    with pytest.raises(MessageUnreadable, match="metadata is not what TiCDC's storage sink writes"):
        checkpoint(folder_of(tmp_path))


def test_a_file_that_ends_within_a_row_is_withheld_and_refused_where_it_stays_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk TiCDC writes one under its own name, with flush-concurrency > 1."""
    sink = BucketSink(tmp_path, Random(1), tables=BucketSink.tables[:1])
    sink.commit(2)
    name, data = f"{sink.folder_of(sink.tables[0])}/CDC{1:020d}.json", b"".join(row.line + b"\r\n" for row in sink.rows)
    sink.put(name, data[:-9])
    sink._sent = 2
    sink.mark()
    reader = Reader(sink)
    reader.look()
    assert reader.upto_ts == 0
    sink.put(name, data[:-3])
    reader.look()
    reader.look()
    monkeypatch.setattr(module, "WITHHELD_S_MAX", 0.0)
    with pytest.raises(MessageUnreadable, match=f"{name} ends within a row"):
        list(reader.reading.look())
    sink.put(name, data)
    reader.begin()
    reader.look()
    assert reader.upto_ts == sink.checkpoint


def test_a_long_backlog_has_marks_on_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKLOG_BYTES", 0)
    monkeypatch.setattr(module, "FILES_AT_ONCE_MAX", 2)
    sink = BucketSink(tmp_path, Random(2))
    while len(sink.rows) < 200:
        sink.commit(3)
        sink.flush()
    while sink.checkpoint < sink.rows[-1].commit_ts:
        sink.flush()
        sink.mark()
    reader, marks, held, rows = Reader(sink), list[CommitTs](), 0, list[CommitTs]()
    for message in reader.reading.look():
        reader._take(message)
        for envelope in CODEC.envelopes(message):
            if isinstance(envelope, Resolved):
                marks.append(envelope.ts)
                rows = [ts for ts in rows if ts > envelope.ts]
            elif isinstance(envelope, Change):
                rows.append(envelope.commit_ts)
                held = max(held, len(rows))
    assert len(marks) > 20
    assert marks == sorted(set(marks))
    assert held < 60, "what waits for a mark is a small part"


def test_a_folder_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        (tmp_path / "file").write_text("")
        place = tmp_path / "file" / "below"
    else:
        place = tmp_path / "closed"
        place.mkdir(mode=0)
    with pytest.raises(FeedUnsuitable, match="cannot be read"):
        checkpoint(folder_of(place))
