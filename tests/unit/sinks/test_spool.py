"""The spool: one order over all tables, what is kept for whom and until when, and what a subscriber may begin with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Event, Lock, Thread

import pytest

from sidecar.shared.errors import ConfigError, OutOfReach, OwnershipLost, RefusedRequest, SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.identity import name_of
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.progress import DumpState, SegmentDump
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.merge.rule import OutputRow
from spark_merge.port.contract import Accepted
from spark_merge.sinks.kit.chain import KEPT
from spark_merge.sinks.kit.errors import sink_folder
from spark_merge.sinks.registry import open_sink
from spark_merge.sinks.spool import keeping
from spark_merge.sinks.spool.keeping import Bounds, KeptSegments, first_kept, read_kept, read_subscribers
from spark_merge.sinks.spool.reader import SpoolReader
from spark_merge.sinks.spool.sink import SpoolSink
from spark_merge.sinks.spool.uri import spool_of
from spark_merge.testing import histories
from spark_merge.testing.places import Here
from tests.support.deliveries import Segments, change, deliver
from tests.support.eventually import PATIENCE_S
from tests.support.subscriber import newest, rows_of, spooled

OWN = "a" * 32
LOG_ID = name_of("changefeed", OWN)
HOUR_MS = 3_600_000


class Spooled:
    """A spool beside an empty log, with a clock of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log = open_folder(str(folder / "log"))
        self.folder = sink_folder(str(folder / "spool"))
        self.reader = SpoolReader(self.folder, self.log)
        self.bounds = Bounds()
        self.now_ms = 10 * HOUR_MS
        monkeypatch.setattr("time.time", lambda: self.now_ms / 1000)

    def sink(self) -> SpoolSink:
        made = SpoolSink(self.folder, log_id=LOG_ID, bounds=self.bounds)
        made.open(epoch=None)
        return made

    def deliver(self, *seqs: int, sink: SpoolSink | None = None, ddls: dict[int, tuple[DdlRecord, ...]] | None = None) -> None:
        """A batch, accepted long enough after the last one for a look at what is kept."""
        self.now_ms += keeping.LOOK_EVERY_MS
        rows = [change(seq, 100 * seq, after=[str(seq), "x" * 500]) for seq in seqs]
        deliver(sink or self.sink(), Segments(seqs, rows, ddls=ddls or {}), log=self.log)

    def first(self) -> int:
        kept = read_kept(self.folder)
        assert kept is not None
        assert kept.first == kept.removed
        names = set(storage.list_names(self.folder, deep=True))
        there = {int(name.rpartition("/")[2][:20]) for name in names if name.startswith(("_segments/", "all.rows/", "_ddl/"))}
        last = newest(self.folder)
        assert last is not None
        assert there == set(range(kept.first, last + 1)), "nothing is left of what is not kept, and all is there of what is"
        return kept.first


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spooled:
    return Spooled(tmp_path, monkeypatch)


# ---- the order ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_rows_of_all_tables_come_in_one_order(tmp_path: Path, seed: int) -> None:
    """As committed over all tables, a window's rows at its end; within a window the slow rule leaves the order of the tables open."""
    random = Random(seed)
    history = histories.random_history(random)
    log = open_folder(str(tmp_path / "log"))
    manifests = histories.write_log(log, history)
    sink = SpoolSink(sink_folder(str(tmp_path / "spool")), log_id=LOG_ID, bounds=Bounds())
    delivery = Delivery(sink, JobSettings(log), Here(random.randrange(1, 5)))
    while delivery.deliver():
        pass
    results = [(row.seq, row.commit_ts, row.dump_id != "", row.table, row.op, row.key) for row in rows_of(spooled(sink.folder, log))]

    def place(row: OutputRow) -> tuple[object, ...]:
        return row.seq, row.commit_ts, row.dump_id is not None, row.table, row.op, row.key

    expected = [place(row) for row in history.merged(manifests)]
    assert sorted(results, key=repr) == sorted(expected, key=repr)
    assert [row for row in results if not row[2]] == [row for row in expected if not row[2]]
    assert [row[:3] for row in results] == [row[:3] for row in expected]


def test_a_segment_ends_with_its_ddls_and_its_mark(spool: Spooled) -> None:
    ddl = DdlRecord(CommitTs(200), "shop", "orders", "alter table orders add column x int")
    spool.deliver(1, 2, ddls={2: (ddl,)})
    spool.deliver(3)
    results = [[*(spool.reader.deliveries(Seq(seq)) or ())] for seq in (1, 2, 3)]
    assert [len(deliveries) for deliveries in results] == [1, 1, 1]
    assert [(d.seq, d.resolved.tso, d.resolved.log, len(d.rows), len(d.ddls)) for [d] in results] == [
        (1, 100, OWN, 1, 0), (2, 200, OWN, 1, 1), (3, 300, OWN, 1, 0)
    ]  # fmt: skip
    reported = results[1][0].ddls[0]
    assert (reported.commit_tso, reported.schema, reported.table, reported.query) == (200, "shop", "orders", ddl.query)


def test_a_segment_s_mark_reports_the_state_of_the_dump(spool: Spooled) -> None:
    sink, orders = spool.sink(), TableName("shop", "orders")
    dumps = {2: SegmentDump("d1", DumpState.RUNNING), 3: SegmentDump("d1", DumpState.FINISHED, (orders,))}
    deliver(sink, Segments([1, 2, 3], dumps=dumps), log=spool.log)
    marks = [delivery.resolved for seq in (1, 2, 3) for delivery in spool.reader.deliveries(Seq(seq)) or ()]
    assert [mark.HasField("dump") for mark in marks] == [False, True, True]
    reported = [(mark.dump.dump_id, mark.dump.state, [(one.schema, one.table) for one in mark.dump.complete]) for mark in marks[1:]]
    assert reported == [("d1", "running", []), ("d1", "finished", [orders])]


def test_a_segment_without_rows_is_its_mark(spool: Spooled) -> None:
    sink = spool.sink()
    deliver(sink, Segments([1]), log=spool.log)
    [delivery] = list(spool.reader.deliveries(Seq(1)) or ())
    assert (delivery.seq, delivery.resolved.tso, len(delivery.rows)) == (1, 100, 0)
    assert spool.reader.deliveries(Seq(2)) is None


# ---- what is kept ---------------------------------------------------------------------------------------------------


def test_without_subscribers_all_is_kept_within_the_bounds(spool: Spooled) -> None:
    for seq in range(1, 9):
        spool.deliver(seq)
    assert spool.first() == 1
    spool.now_ms += int(spool.bounds.age_max_s * 1000)
    spool.deliver(9)
    assert spool.first() == 9


def test_what_all_named_subscribers_have_is_removed(spool: Spooled) -> None:
    sink = spool.sink()
    spool.deliver(*range(1, 9), sink=sink)
    for name, after in (("a", 3), ("b", 5)):
        assert spool.reader.begin(name, Seq(after), "") == after + 1
    spool.deliver(9, sink=sink)
    assert spool.first() == 4
    spool.reader.acknowledge("a", Seq(8), OWN)
    spool.deliver(10, sink=sink)
    assert spool.first() == 6
    spool.reader.acknowledge("b", Seq(10), "")
    spool.reader.acknowledge("a", Seq(10), "")
    spool.deliver(11, sink=sink)
    assert spool.first() == 11, "the newest stays"


def test_an_acknowledgement_that_comes_late_takes_nothing_back(spool: Spooled) -> None:
    """Also one that another process is asked for."""
    sink = spool.sink()
    spool.deliver(*range(1, 5), sink=sink)
    spool.reader.begin("a", None, "")
    spool.reader.acknowledge("a", Seq(3), OWN)
    spool.deliver(5, sink=sink)
    assert spool.first() == 4
    for reader in (spool.reader, SpoolReader(spool.folder, spool.log)):
        reader.acknowledge("a", Seq(1), OWN)
        assert [one.acknowledged for one in read_subscribers(spool.folder)] == [3]
        assert reader.begin("a", None, "") == 4


class ReportedLock:
    """A lock that says when somebody meets it held."""

    def __init__(self, met: Event) -> None:
        self._lock, self._met = Lock(), met

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._met.set()
            self._lock.acquire()

    def __exit__(self, *ended: object) -> None:
        self._lock.release()


@pytest.mark.parametrize("note", ["heard", "acknowledge", "begin"])
def test_of_two_notes_of_a_subscriber_at_once_the_higher_stays(spool: Spooled, monkeypatch: pytest.MonkeyPatch, note: str) -> None:
    """What one is about to check or write it has read before; then the other comes, and is done or waits."""
    met_or_done = Event()
    monkeypatch.setattr("spark_merge.sinks.spool.reader.Lock", lambda: ReportedLock(met_or_done), raising=False)
    reader = SpoolReader(spool.folder, spool.log)
    spool.deliver(1, 2, 3)
    reader.begin("a", Seq(1), "")

    def acknowledge() -> None:
        reader.acknowledge("a", Seq(3), OWN)
        met_or_done.set()

    other = Thread(target=acknowledge)

    def amid(call: Callable[..., object]) -> Callable[..., object]:
        def step(*given: object) -> object:
            if other.ident is None:
                other.start()
                assert met_or_done.wait(PATIENCE_S)
            return call(*given)

        return step

    monkeypatch.setattr(reader, "_check", amid(reader._check))
    monkeypatch.setattr("spark_merge.sinks.spool.reader.write_subscriber", amid(keeping.write_subscriber))
    match note:
        case "heard":
            reader.received("a")
        case "acknowledge":
            reader.acknowledge("a", Seq(1), OWN)
        case "begin":
            assert reader.begin("a", None, "") == 2
    other.join()
    assert [one.acknowledged for one in read_subscribers(spool.folder)] == [3]


def test_a_subscriber_that_has_gone_holds_nothing_for_ever(spool: Spooled) -> None:
    sink = spool.sink()
    spool.deliver(*range(1, 5), sink=sink)
    for name in ("stays", "goes"):
        spool.reader.begin(name, None, "")
    for seq in range(5, 30):
        spool.now_ms += 2 * HOUR_MS
        spool.deliver(seq, sink=sink)
        spool.reader.acknowledge("stays", Seq(seq), "")
    assert [subscriber.name for subscriber in read_subscribers(spool.folder)] == ["stays"]
    spool.deliver(30, sink=sink)
    assert spool.first() == 30
    with pytest.raises(OutOfReach, match="segment 5 is not kept any more: what is kept begins at 30"):
        spool.reader.begin("goes", Seq(4), OWN)
    with pytest.raises(OutOfReach, match="subscribe with after_seq 29"):
        spool.reader.begin("goes", None, "")
    assert spool.reader.begin("goes", Seq(29), OWN) == 30


def test_beyond_its_bytes_nothing_is_kept_for_anybody(spool: Spooled) -> None:
    spool.bounds = Bounds(bytes_max=5_000)
    sink = spool.sink()
    spool.deliver(1, sink=sink)
    assert spool.reader.begin("slow", None, "") == 1
    for seq in range(2, 40):
        spool.deliver(seq, sink=sink)
    first = spool.first()
    kept = sum(
        len(storage.read_file(spool.folder, name)) for name in storage.list_names(spool.folder, deep=True) if name.startswith("all.rows")
    )
    assert 30 <= first <= 35
    assert kept <= 5_000 + 1_000
    with pytest.raises(OutOfReach, match="cdc cli changefeed dumprestart"):
        spool.reader.deliveries(Seq(2))


def test_commits_are_forgotten_and_a_previous_worker_that_wakes_up_after_that_is_still_shut_out(spool: Spooled) -> None:
    previous = spool.sink()
    sink = spool.sink()
    for seq in range(1, 130):
        spool.deliver(seq, sink=sink)
    commits = [name for name in storage.list_names(spool.folder, deep=True) if name.startswith("_commits/")]
    assert len(commits) <= 2 * KEPT
    assert f"_commits/{1:020d}.json" not in commits
    for _ in range(2):
        with pytest.raises(OwnershipLost):
            deliver(previous, Segments([1], [change(1, 100, after=["1", "of the former"])]), log=spool.log)
        assert spool.sink().look() == Accepted(Seq(129), CommitTs(12900), "")
    assert next(rows_of(spooled(spool.folder, spool.log))).after == ("1", "x" * 500)
    spool.deliver(130)


def test_a_previous_worker_does_not_set_back_what_is_kept(spool: Spooled) -> None:
    previous, sink = spool.sink(), spool.sink()
    spool.deliver(*range(1, 6), sink=sink)
    before = read_kept(spool.folder)
    assert before is not None
    spool.reader.begin("a", Seq(4), "")
    spool.deliver(6, sink=sink)
    assert spool.first() == 5
    with pytest.raises(OwnershipLost):
        deliver(previous, Segments([1]), log=spool.log)
    assert spool.first() == 5
    keeping.write_kept(spool.folder, before)  # by one that was frozen before it
    spool.deliver(7, sink=sink)
    assert spool.first() == 5


def test_a_new_worker_knows_how_many_bytes_there_are(spool: Spooled) -> None:
    spool.bounds = Bounds(bytes_max=5_000)
    for seq in range(1, 40):
        spool.deliver(seq)
    assert 30 <= spool.first() <= 35


def test_what_a_commit_repeats_for_readers_after_its_removal_is_removed_again(spool: Spooled) -> None:
    """The last commit has ten segments, of which nine are acknowledged and gone; a new worker repeats it."""
    sink = spool.sink()
    spool.deliver(1, sink=sink)
    spool.reader.begin("a", None, "")
    spool.now_ms += 1
    deliver(sink, Segments(range(2, 12), [change(seq, 100 * seq, after=["1", "x"]) for seq in range(2, 12)]), log=spool.log)
    spool.reader.acknowledge("a", Seq(10), "")
    last = keeping.read_segment(spool.folder, 11)
    assert last is not None
    sink._keeping.look(last, spool.now_ms)
    assert spool.first() == 11
    spool.sink()
    assert spool.first() == 11


@pytest.mark.parametrize("at", range(12))
def test_a_worker_that_dies_while_it_removes_leaves_nothing_behind(spool: Spooled, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = spool.sink()
    spool.deliver(*range(1, 6), sink=sink)
    spool.reader.begin("a", Seq(3), "")
    steps = iter(range(at))

    def mortal(call: Callable[..., object]) -> Callable[..., object]:
        def step(*given: object) -> object:
            if next(steps, None) is None:
                raise KeyboardInterrupt
            return call(*given)

        return step

    with monkeypatch.context() as patch:
        patch.setattr(storage, "remove", mortal(storage.remove))
        patch.setattr(keeping, "write_kept", mortal(keeping.write_kept))
        try:
            spool.deliver(6, sink=sink)
        except KeyboardInterrupt:
            kept = read_kept(spool.folder)
            assert kept is not None
            for seq in range(kept.first, 7):
                assert spool.reader.deliveries(Seq(seq)) is not None, "what is kept is whole"
    spool.deliver(7)
    assert spool.first() == 4


@pytest.mark.parametrize("seed", range(50))
def test_the_first_that_is_kept_is_what_a_slow_look_finds(seed: int) -> None:
    random = Random(seed)
    first = random.randrange(5)
    last = first + random.randrange(20)
    fine = random.randrange(first, last + 3)
    acknowledged = [random.randrange(-1, last + 1) for _ in range(random.randrange(3))]
    kept = first_kept(KeptSegments(Seq(0), Seq(first), Seq(first)), Seq(last), acknowledged, lambda seq: seq < fine)
    needed = [seq for seq in range(first, last + 1) if seq >= fine and (not acknowledged or seq > min(acknowledged))]
    assert kept == min(needed, default=last)


# ---- what a subscriber may begin with --------------------------------------------------------------------------------


def test_a_subscriber_begins_where_it_was_or_with_all(spool: Spooled) -> None:
    assert spool.reader.begin("a", None, "") is None, "nothing is there yet"
    spool.deliver(4, 5, 6)
    assert spool.reader.begin("", None, "") == 4
    assert spool.reader.begin("a", None, "") == 4
    assert spool.reader.begin("a", Seq(5), OWN) == 6
    assert spool.reader.begin("a", None, "") == 6
    assert spool.reader.begin("a", Seq(3), "") == 4, "it may go back to what is kept"
    assert spool.reader.begin("", Seq(6), "") == 7
    assert [(one.name, one.next_seq, one.segments) for one in spool.reader.subscribers()] == [("a", 4, 3)]


def test_a_subscriber_ahead_of_the_output_is_refused(spool: Spooled) -> None:
    with pytest.raises(OutOfReach, match=r"has segment 3, and .* does not have it yet"):
        spool.reader.begin("a", Seq(3), "")
    spool.deliver(1, 2)
    acts: list[Callable[[], object]] = [lambda: spool.reader.begin("a", Seq(3), ""), lambda: spool.reader.acknowledge("a", Seq(3), "")]
    for act in acts:
        with pytest.raises(OutOfReach, match=r"has segment 3, and .* does not have it yet"):
            act()
    assert spool.reader.subscribers() == []


def test_a_subscriber_of_another_log_is_refused(spool: Spooled) -> None:
    spool.deliver(1, 2)
    with pytest.raises(OutOfReach, match=f"has segments of log {'b' * 32}, and this is log {OWN}"):
        spool.reader.begin("a", Seq(1), "b" * 32)
    storage.write_atomically(spool.log, "log.txt", b"c" * 32)
    with pytest.raises(RefusedRequest, match=f"is of log {OWN}, and this sidecar's is {'c' * 32}"):
        spool.reader.begin("a", Seq(1), OWN)


@pytest.mark.parametrize("name", ["a/b", "..", ".", "a b", "名前", "%", "x" * 100])
def test_any_name_is_a_subscriber_of_its_own(spool: Spooled, name: str) -> None:
    spool.deliver(1, 2)
    spool.reader.begin(name, Seq(1), "")
    assert [one.name for one in spool.reader.subscribers()] == [name]
    assert spool.reader.begin(name, None, "") == 2


@pytest.mark.parametrize("name", ["a\nb", "x" * 101, "名" * 100])
def test_what_is_no_name_is_refused(spool: Spooled, name: str) -> None:
    spool.deliver(1, 2)
    with pytest.raises(RefusedRequest, match="name"):
        spool.reader.begin(name, None, "")


def test_names_without_number_are_refused(spool: Spooled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_merge.sinks.spool.reader.SUBSCRIBERS_MAX", 2)
    spool.deliver(1)
    for name in "ab":
        spool.reader.begin(name, None, "")
    with pytest.raises(RefusedRequest, match="2 subscribers are known already"):
        spool.reader.begin("c", None, "")
    spool.reader.begin("a", None, "")


def test_a_segment_or_a_file_that_is_gone_is_a_fault_and_not_the_end(spool: Spooled) -> None:
    spool.deliver(1, 2, 3)
    [name] = [name for name in storage.list_names(spool.folder, deep=True) if name.startswith(f"all.rows/{1:020d}")]
    storage.remove(spool.folder, [name, f"_segments/{2:020d}.json"])
    with pytest.raises(SinkError, match="cannot be read"):
        list(spool.reader.deliveries(Seq(1)) or ())
    with pytest.raises(SinkError, match="is gone"):
        spool.reader.deliveries(Seq(2))


# ---- its URI ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "wrong"),
    [
        ("grpc://0.0.0.0:8310", "is given the address 0.0.0.0:8310"),
        ("grpc://u:secret@host:1/x", "is given the address host:1"),
        ("grpc:", "needs the whole path"),
        ("grpc:///x?retain-bytes=lots", "retain-bytes='lots' is no number from 1048576 to"),
        ("grpc:///x?retain-bytes=5", "write retain-bytes=10737418240"),
        ("grpc:///x?retain-hours=-1", "retain-hours='-1' is no number from 0.01"),
        ("grpc:///x?retain-hours=nan", "retain-hours"),
        ("grpc:///x?port=1", "has no parameter port"),
    ],
)
def test_a_uri_that_makes_no_sense_is_refused(uri: str, wrong: str) -> None:
    with pytest.raises(SinkError, match=wrong) as error:
        open_sink(uri, log_id=LOG_ID)
    assert "u:secret" not in str(error.value)


def test_bounds_and_places_of_a_uri(tmp_path: Path) -> None:
    sink = open_sink(f"grpc://{tmp_path}/spool?retain-bytes=2e9&retain-hours=0.5", log_id=LOG_ID)
    assert isinstance(sink, SpoolSink)
    assert (sink.folder, sink._keeping._bounds) == (Folder("file", f"{tmp_path}/spool"), Bounds(2_000_000_000, 1800.0))
    assert open_folder("grpc://bucket/spool").protocol == "s3"
    assert spool_of(["file:///x"], sink.folder) is None
    assert spool_of(["file:///x", "grpc:///y"], sink.folder) is not None
    with pytest.raises(ConfigError, match="two grpc: sinks"):
        spool_of(["grpc:///x", "grpc:///y"], sink.folder)
