"""What every OperationHistory keeps: the one in etcd, and the twin in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.adapters.etcd.client import EtcdClient
from sidecar.adapters.etcd.history import HISTORY_OPERATIONS_MAX, EtcdHistory, read_history
from sidecar.adapters.etcd.keys import Put, changefeed_root
from sidecar.adapters.etcd.opening import open_keys
from sidecar.adapters.etcd.owner import EtcdOwner, OwnerHolder
from sidecar.adapters.etcd.progress import EtcdProgress
from sidecar.adapters.memory.progress import MemoryHistory, MemoryProgress
from sidecar.history.entry import HISTORY_MAX, HistoryEntry, OperationKind, OperationScope, of_dump
from sidecar.ports import OperationHistory, ProgressStore
from sidecar.shared.config import EtcdSection
from sidecar.shared.errors import OwnershipLost
from sidecar.shared.model.messages import Asker, Brackets
from sidecar.shared.model.nouns import OperationId, Seq, TableName
from sidecar.shared.model.progress import OVER, DumpState, Progress, TableProgress
from sidecar.shared.ticdc.changefeed import ChangefeedName
from tests.support.eventually import PATIENCE_S
from tests.support.services.etcd import Etcd

pytestmark = pytest.mark.xdist_group("etcd")

ROOT = changefeed_root(ChangefeedName("default", "default", "orders"), "1")
ALICE = Asker("certificate älice", "10.0.0.7:41000")
PROGRESS = Progress("1" * 16, DumpState.RUNNING, Brackets.WATERMARK, 10, 1, 1, Seq(1), (TableProgress(TableName("shop", "ü")),))


def entry(number: int) -> HistoryEntry:
    scope = OperationScope(("shop.ü",), 1, 1, 0, ("lake",))
    made = HistoryEntry(
        OperationId(f"{number:016x}"), OperationKind.VERIFICATION, scope, ALICE, 1_000 + number, result="3 differences", rows=number
    )
    return made.commanded("stop", ALICE, 7)


def ids(history: OperationHistory) -> list[int]:
    return [int(one.id, 16) for one in history.entries()]


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd")) as made:
        yield made


class OwnerProcess:
    """A process that owns the changefeed, until the next one does."""

    def __init__(self, section: EtcdSection) -> None:
        self._section, self._ending = section, ExitStack()
        self.noticed: list[str] = []

    def become(self) -> EtcdProgress:
        self._ending.close()
        client = open_keys(self._section)
        self._ending.callback(client.close)
        owner = EtcdOwner(client, ROOT, lease_s=10, holder=OwnerHolder("here", 1, "127.0.0.1:8310"))
        self._ending.callback(owner.release)
        assert owner.acquire(timeout_s=PATIENCE_S) is not None
        return EtcdProgress(client, ROOT, owner, self.noticed.append)

    def end(self) -> None:
        self._ending.close()


@pytest.fixture
def process(etcd: Etcd) -> Iterator[OwnerProcess]:
    etcd.etcdctl("del", "--prefix", f"{ROOT}/")
    made = OwnerProcess(EtcdSection(endpoints=etcd.endpoints))
    yield made
    made.end()


@pytest.fixture
def with_folder(tmp_path: Path) -> Iterator[OwnerProcess]:
    made = OwnerProcess(EtcdSection(folder=str(tmp_path)))
    yield made
    made.end()


Open = Callable[[], ProgressStore]


@pytest.fixture(params=["twin", "process", "with_folder"])
def reopened(request: pytest.FixtureRequest) -> Open:
    """Opens store and history as the next process would."""
    if request.param == "twin":
        kept = MemoryProgress()
        assert isinstance(kept.history, MemoryHistory)
        return lambda: kept
    process: OwnerProcess = request.getfixturevalue(request.param)
    return process.become


def test_there_is_nothing_at_first(reopened: Open) -> None:
    history = reopened().history
    assert list(history.entries()) == []
    assert history.find(OperationId("1" * 16)) is None
    history.record()
    assert list(history.entries()) == []


def test_what_was_recorded_is_there_as_it_was_newest_first(reopened: Open) -> None:
    history = reopened().history
    for number in (7, 3, 9):
        history.record(entry(number))
    for again in (False, True):
        result = reopened().history if again else history
        assert ids(result) == [9, 3, 7], "in their order, whatever their ids and times are"
        assert result.find(entry(3).id) == entry(3)
        assert list(result.entries()) == [entry(9), entry(3), entry(7)]


def test_an_entry_that_is_recorded_again_is_replaced_where_it_is(reopened: Open) -> None:
    history = reopened().history
    history.record(entry(1))
    history.record(entry(2))
    changed = replace(entry(1), state=DumpState.FAILED, result="denied")
    reopened().history.record(changed)
    assert list(reopened().history.entries()) == [entry(2), changed]


def record(history: OperationHistory, entries: list[HistoryEntry]) -> None:
    """So many at once that there is room for as many removals."""
    at_once = HISTORY_OPERATIONS_MAX // 2
    for start in range(0, len(entries), at_once):
        history.record(*entries[start : start + at_once])


def over(number: int) -> HistoryEntry:
    return replace(entry(number), state=sorted(OVER)[number % len(OVER)])


def test_the_oldest_go_where_there_are_more_than_a_thousand(reopened: Open) -> None:
    history = reopened().history
    record(history, [*map(over, range(HISTORY_MAX))])
    assert len(ids(history)) == HISTORY_MAX == 1000
    history.record(over(2_000))
    assert (len(ids(history)), max(ids(history)), min(ids(history))) == (HISTORY_MAX, 2_000, 1)
    history.record(replace(over(1), result="again"), over(2_001))
    assert (len(ids(history)), ids(history)[0], ids(history)[-2:]) == (HISTORY_MAX, 2_001, [3, 1]), "what just changed stays where it is"
    history.record(over(0))
    assert ids(history)[0] == 0, "one that had gone is the newest"
    history = reopened().history
    history.record(over(2_002))
    assert (len(ids(history)), ids(history)[-2:]) == (HISTORY_MAX, [5, 1]), "the next owner knows what was recorded last"


@pytest.mark.parametrize("state", sorted(set(DumpState) - OVER))
def test_an_operation_that_is_not_over_stays_whatever_its_age(reopened: Open, state: DumpState) -> None:
    """A dump that is over gets its certificate once the history says so: it is there until others were recorded since."""
    history = reopened().history
    long = replace(entry(0), state=state)
    history.record(long)
    record(history, [*map(over, range(1, HISTORY_MAX + 30))])
    assert (len(ids(history)), ids(history)[-2:]) == (HISTORY_MAX, [31, 0])
    history = reopened().history
    history.record(over(3_000))
    assert ids(history)[-2:] == [32, 0], "so it is for the next owner"
    finished = replace(long, state=DumpState.FINISHED)
    history.record(finished, over(3_001))
    assert history.find(finished.id) == finished
    history.record(over(3_002))
    assert history.find(finished.id) == finished


def test_progress_and_entries_are_saved_in_one_step(reopened: Open) -> None:
    store = reopened()
    of_it = of_dump(PROGRESS, ALICE, started_ms=1, now_ms=1)
    store.save([PROGRESS], [entry(1), of_it])
    store.save([replace(PROGRESS, revision=2)])
    store = reopened()
    assert store.load() == (replace(PROGRESS, revision=2),)
    assert store.history.find(OperationId(PROGRESS.dump_id)) == of_it
    assert len(ids(store.history)) == 2


# ---- etcd alone ------------------------------------------------------------------------------------------------------


def test_a_save_with_entries_is_one_transaction(process: OwnerProcess) -> None:
    store = process.become()
    store.save([PROGRESS])
    before = revision(store)
    store.save([replace(PROGRESS, revision=2)], [entry(1), entry(2)])
    assert revision(store) == before + 1


def test_ten_thousand_tables_and_two_entries_fit_into_the_transactions(process: OwnerProcess) -> None:
    """Where the progress is written aside first, the entries come with the head that names it."""
    store = process.become()
    tables = tuple(TableProgress(TableName("shop", f"t{number}")) for number in range(10_000))
    for number in range(2):
        store.save([replace(PROGRESS, dump_id=f"{number:016x}", tables=tables)], [entry(number)])
    assert ids(store.history) == [1, 0]


def revision(store: EtcdProgress) -> int:
    (result,) = store.client.get_prefix(f"{ROOT}/progress", keys_only=True)[:1]
    return result.modified


def test_an_owner_that_was_replaced_records_nothing(etcd: Etcd, process: OwnerProcess) -> None:
    """Its clock stands still: it is etcd that stops it."""
    client = EtcdClient(EtcdSection(endpoints=etcd.endpoints))
    previous = EtcdOwner(client, ROOT, lease_s=600, holder=OwnerHolder("there", 2, "127.0.0.1:8311"), clock=lambda: 0.0)
    assert previous.acquire(timeout_s=0) is not None
    history = EtcdHistory(client, ROOT, previous)
    history.record(entry(1))
    etcd.etcdctl("del", f"{ROOT}/owner")
    heir = process.become().history
    with pytest.raises(OwnershipLost):
        history.record(entry(2))
    with pytest.raises(OwnershipLost):
        EtcdProgress(client, ROOT, previous).save([PROGRESS], [entry(2)])
    assert ids(heir) == [1]
    previous.release()
    client.close()


def test_two_threads_record_and_none_is_lost(process: OwnerProcess) -> None:
    """A dump's and a verification's."""
    store = process.become()

    def record(start: int) -> None:
        for number in range(start, start + 40):
            store.history.record(entry(number))

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(record, (0, 1_000)))
    assert sorted(ids(store.history)) == [*range(40), *range(1_000, 1_040)]


def test_what_is_no_entry_is_reported_and_hides_no_other(etcd: Etcd, process: OwnerProcess) -> None:
    store = process.become()
    store.history.record(entry(1), entry(2))
    store.client.transact([], [Put(f"{ROOT}/history/{entry(1).id}/entry", b'{"id": 1}')])
    assert store.history.find(entry(1).id) is None
    assert ids(store.history) == [2]
    assert len(process.noticed) == 2
    assert f"etcdctl del {ROOT}/history/{entry(1).id}/entry" in process.noticed[0]
    noticed: list[str] = []
    assert [one.id for one in read_history(store.client, ROOT, noticed.append)] == [entry(2).id]
    assert len(noticed) == 1
    store.history.record(entry(1))
    assert ids(store.history) == [2, 1]


def test_a_key_whose_id_begins_as_another_one_stays(process: OwnerProcess) -> None:
    history = process.become().history
    history.record(replace(over(1), id=OperationId("abc")), replace(over(2), id=OperationId("abcdef")))
    for start in range(0, HISTORY_MAX - 1, HISTORY_OPERATIONS_MAX):
        numbers = range(start, min(start + HISTORY_OPERATIONS_MAX, HISTORY_MAX - 1))
        history.record(*map(over, numbers))
    assert history.find(OperationId("abc")) is None
    assert history.find(OperationId("abcdef")) is not None
