"""What every ProgressStore keeps: the file on each storage, the one in etcd, and the twin in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.adapters.etcd.keys import changefeed_root
from sidecar.adapters.etcd.opening import open_keys
from sidecar.adapters.etcd.owner import EtcdOwner, OwnerHolder
from sidecar.adapters.etcd.progress import EtcdProgress
from sidecar.adapters.memory.progress import MemoryProgress
from sidecar.ports import ProgressStore
from sidecar.replay.progress_file import FileProgress
from sidecar.shared.config import EtcdSection
from sidecar.shared.errors import LogBroken
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.progress import DumpState, Progress, Span, TableProgress
from sidecar.shared.ticdc.changefeed import ChangefeedName
from tests.support.eventually import PATIENCE_S
from tests.support.services.etcd import Etcd

PROGRESS = Progress(
    dump_id="d1",
    state=DumpState.RUNNING,
    brackets=Brackets.SNAPSHOT,
    chunk_rows=1000,
    epoch=3,
    revision=17,
    seq=Seq(4),
    tables=(
        TableProgress(TableName("shop", "ü"), (Span(("1", "a'b")),), 2, 2000, 12345, CommitTs((1 << 63) - 1)),
        TableProgress(TableName("shop", "empty")),
    ),
)

Open = Callable[[], ProgressStore]


@contextmanager
def _in_keys(section: EtcdSection) -> Iterator[Open]:
    """Each process owns the changefeed in its turn."""
    root = changefeed_root(ChangefeedName("default", "default", "orders"), "1")
    opened: list[EtcdOwner] = []

    def close() -> None:
        for owner in opened:
            owner.release()
            owner.client.close()
        opened.clear()

    def reopen() -> ProgressStore:
        close()
        client = open_keys(section)
        opened.append(EtcdOwner(client, root, lease_s=10, holder=OwnerHolder("here", 1, "127.0.0.1:8310")))
        assert opened[0].acquire(timeout_s=PATIENCE_S) is not None
        return EtcdProgress(client, root, opened[0])

    yield reopen
    close()


@pytest.fixture
def in_etcd(tmp_path: Path) -> Iterator[Open]:
    with Etcd(tmp_path / "etcd") as etcd, _in_keys(EtcdSection(endpoints=etcd.endpoints)) as reopen:
        yield reopen


@pytest.fixture
def in_folder(tmp_path: Path) -> Iterator[Open]:
    with _in_keys(EtcdSection(folder=str(tmp_path / "state"))) as reopen:
        yield reopen


@pytest.fixture(params=["twin", "local", "memory", "in_etcd", "in_folder"])
def reopened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens the store as the next process would."""
    match request.param:
        case "twin":
            kept = MemoryProgress()
            return lambda: kept
        case "in_etcd" | "in_folder":
            return request.getfixturevalue(request.param)  # type: ignore[no-any-return]  # pytest does not know fixtures' types
    folder = open_folder(str(tmp_path / "new" / "folder") if request.param == "local" else f"memory://progress{tmp_path}")
    return lambda: FileProgress(folder)


def test_there_is_nothing_at_first(reopened: Open) -> None:
    assert reopened().load() == ()


def test_loads_what_was_saved_last(reopened: Open) -> None:
    for progress in (PROGRESS, replace(PROGRESS, state=DumpState.FAILED, reason="table `x` is gone", revision=18)):
        reopened().save([progress])
        assert reopened().load() == (progress,)


def test_a_save_in_the_same_process_replaces_the_one_before(reopened: Open) -> None:
    """The first of another dump, and of other tables, included."""
    store = reopened()
    first, second = PROGRESS.tables
    for number, tables in enumerate([(first,), (second, first), (second, replace(first, chunks=3)), ()]):
        for dump_id in ("d1", "d2"):
            progress = replace(PROGRESS, dump_id=dump_id, tables=tables, revision=number)
            store.save([progress])
            store.save([progress])
            assert store.load() == (progress,)
    assert reopened().load() == (progress,)


@pytest.mark.parametrize("value", [b"", b"{", b"[1]", b"null", b'[{"dump_id": "d1"}]', b"\xff"])
def test_a_file_that_is_no_progress_says_that_it_may_be_deleted(tmp_path: Path, value: bytes) -> None:
    (tmp_path / "progress.json").write_bytes(value)
    with pytest.raises(LogBroken, match="delete the file"):
        FileProgress(open_folder(str(tmp_path))).load()
