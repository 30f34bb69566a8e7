"""Keys in a local folder: what they do is what a plain model of etcd's keys does, and when a lease ends."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidecar.adapters.etcd import folder as module
from sidecar.adapters.etcd.folder import FILE, VERSION, FolderKeys
from sidecar.adapters.etcd.keys import Compare, Delete, KeyEntry, Put
from sidecar.shared.config import EtcdSection
from sidecar.shared.errors import Compacted, ConfigError, CoordinationError, CoordinationLost, OwnershipLost

TTL_S = 10


@dataclass
class At:
    """A clock that stands where it is put."""

    s: float = 1000.0

    def __call__(self) -> float:
        return self.s


@dataclass
class Model:
    """A dictionary, a counter and the living leases."""

    keys: dict[str, KeyEntry] = field(default_factory=dict)
    revision: int = 1
    leases: set[int] = field(default_factory=set)

    def transact(self, compares: list[Compare], writes: list[Put | Delete]) -> bool:
        for compare in compares:
            there = self.keys.get(compare.key)
            if (0 if there is None else getattr(there, compare.what)) != compare.revision:
                return False
        self.revision += bool(writes)
        for write in writes:
            if isinstance(write, Delete):
                self.keys = {key: entry for key, entry in self.keys.items() if not key.startswith(write.prefix)}
            else:
                before = self.keys.get(write.key)
                self.keys[write.key] = KeyEntry(
                    write.key, write.value, before.created if before else self.revision, self.revision, write.lease
                )
        return True

    def revoke(self, lease: int) -> None:
        if lease in self.leases:
            self.leases.discard(lease)
            self.revision += 1
            self.keys = {key: entry for key, entry in self.keys.items() if entry.lease != lease}


@pytest.fixture
def at() -> At:
    return At()


@pytest.fixture
def keys(tmp_path: Path, at: At) -> Iterator[FolderKeys]:
    with closing(FolderKeys(EtcdSection(folder=str(tmp_path)), clock=at)) as opened:
        yield opened


NAMES = st.sampled_from(["a", "a/b", "a/b/c", "ab", "b", "ä", "\U0010ffff/x"])
WRITES = st.one_of(st.builds(Put, NAMES, st.binary(max_size=4), st.integers(0, 2)), st.builds(Delete, NAMES))
COMPARES = st.builds(Compare, NAMES, st.sampled_from(["created", "modified"]), st.just(0))
STEPS = st.lists(
    st.one_of(st.tuples(st.lists(COMPARES, max_size=2), st.lists(WRITES, max_size=3)), st.integers(1, 2)),
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_they_are_what_a_model_of_etcds_keys_is(tmp_path: Path, steps: list[tuple[list[Compare], list[Put | Delete]] | int]) -> None:
    """A number is a lease that is granted or revoked; what is put with one that is not there is put without."""
    shutil.rmtree(tmp_path / "state", ignore_errors=True)
    leases = dict[int, int]()
    with closing(FolderKeys(EtcdSection(folder=str(tmp_path / "state")))) as real:
        model = Model(revision=real.transact([], []).revision)
        for step in steps:
            if isinstance(step, int):
                if step in leases:
                    lease = leases.pop(step)
                    real.revoke(lease)
                    model.revoke(lease)
                else:
                    leases[step] = real.grant(TTL_S)
                    model.leases.add(leases[step])
            else:
                compares, writes = step
                known = [Put(write.key, write.value, leases.get(write.lease, 0)) if isinstance(write, Put) else write for write in writes]
                done = real.transact(compares, known, otherwise=["a"])
                assert done.succeeded == model.transact(compares, known)
                assert done.revision == model.revision
                assert done.entries == (() if done.succeeded else (model.keys.get("a"),))
            for prefix in ("a", "a/", "b", "\U0010ffff"):
                there = [entry for key, entry in sorted(model.keys.items()) if key.startswith(prefix)]
                assert real.get_prefix(prefix) == there
                assert [(entry.key, entry.value) for entry in real.get_prefix(prefix, keys_only=True)] == [(one.key, b"") for one in there]
            assert [real.get(key) for key in model.keys] == list(model.keys.values())


def test_a_lease_ends_when_nobody_renewed_it_for_its_time_and_its_keys_with_it(keys: FolderKeys, at: At) -> None:
    lease = keys.grant(TTL_S)
    keys.transact([], [Put("k", b"v", lease)])
    at.s += TTL_S - 0.1
    assert keys.keep_alive(lease)
    at.s += TTL_S - 0.1
    assert keys.get("k") is not None
    at.s += 0.1
    assert keys.get("k") is None
    assert not keys.keep_alive(lease)
    with pytest.raises(OwnershipLost, match="run out"):
        keys.transact([], [Put("k", b"v", lease)])


@pytest.mark.parametrize("boot", ["another boot", ""])
def test_a_lease_of_another_boot_or_machine_is_watched_for_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot: str) -> None:
    """Whatever the clocks say: they are not of one origin."""
    texts = {module.BOOT_ID: boot}
    monkeypatch.setattr(module, "_text_of", lambda file: texts[file])
    section = EtcdSection(folder=str(tmp_path))
    with closing(FolderKeys(section, clock=At(9e9))) as holder:
        lease = holder.grant(TTL_S)
        holder.transact([], [Put("k", b"v", lease)])
        texts[module.BOOT_ID] = "this boot"
        at = At(5.0)
        with closing(FolderKeys(section, clock=at)) as standby:
            assert standby.get("k") is not None
            at.s += TTL_S - 1
            assert standby.get("k") is not None
            assert holder.keep_alive(lease), "it lives, over there"
            at.s += TTL_S - 1
            assert standby.get("k") is not None, "it was renewed meanwhile"
            at.s += TTL_S + 1
            assert standby.get("k") is None
            assert not holder.keep_alive(lease)


def test_another_process_that_holds_the_file_is_waited_for_and_no_longer(tmp_path: Path) -> None:
    with closing(FolderKeys(EtcdSection(folder=str(tmp_path), timeout_s=0.2))) as keys:
        keys.get("k")
        with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(CoordinationLost, match="locked"):
                keys.get("k")
            other.execute("ROLLBACK")
        assert keys.get("k") is None, "and goes on"


def test_a_process_that_dies_amid_a_transaction_leaves_nothing_of_it(tmp_path: Path) -> None:
    with closing(FolderKeys(EtcdSection(folder=str(tmp_path)))) as keys:
        keys.transact([], [Put("k", b"whole")])
        dying = (
            "import os, sqlite3, sys; sql = sqlite3.connect(sys.argv[1], isolation_level=None); sql.execute('BEGIN IMMEDIATE');"
            "sql.execute(\"UPDATE keys SET value = x'00'\"); os._exit(9)"
        )
        assert subprocess.run([sys.executable, "-c", dying, tmp_path / FILE], check=False).returncode == 9
        whole = keys.get("k")
        assert whole is not None
        assert whole.value == b"whole"
        assert keys.transact([Compare("k", "modified", whole.modified)], [Put("k", b"next")]).succeeded


@pytest.mark.parametrize("content", [b"no database at all, but some text that is longer than a header", b"SQLite format 3\x00" + bytes(80)])
def test_a_file_that_is_broken_says_what_to_do(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with closing(FolderKeys(EtcdSection(folder=str(tmp_path)))) as keys, pytest.raises(CoordinationError, match="move the file away"):
        keys.get("k")


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE)) as other:
        other.execute(f"PRAGMA user_version = {VERSION + 1}")
    with closing(FolderKeys(EtcdSection(folder=str(tmp_path)))) as keys:
        for _ in range(2):
            with pytest.raises(ConfigError, match="of version 2"):
                keys.get("k")


def test_who_has_a_file_open_that_was_moved_away_or_replaced_holds_nothing_any_more(tmp_path: Path) -> None:
    with closing(FolderKeys(EtcdSection(folder=str(tmp_path)))) as keys:
        lease = keys.grant(TTL_S)
        keys.transact([], [Put("k", b"v", lease)])
        (tmp_path / FILE).rename(tmp_path / "aside")
        assert keys.get("k") is None
        assert not keys.keep_alive(lease)
        anew = keys.transact([], [Put("k", b"anew")])
        (tmp_path / FILE).unlink()
        (tmp_path / "aside").rename(tmp_path / FILE)
        there = keys.get("k")
        assert there is not None
        assert (there.value, there.created) != (b"anew", anew.revision), "no file has the revisions of another one"


def test_a_place_that_is_no_folder_is_refused_and_a_new_one_is_for_this_user_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with closing(FolderKeys(EtcdSection(folder=str(tmp_path / "file")))) as keys, pytest.raises(ConfigError, match="can write"):
        keys.grant(TTL_S)
    with closing(FolderKeys(EtcdSection(folder=str(tmp_path / "a" / "b")))) as keys:
        assert keys.members() == ()
        assert keys.get("k") is None
        assert keys.get_prefix("k") == []
        assert not (tmp_path / "a").exists(), "reading makes nothing"
        keys.grant(TTL_S)
    assert (tmp_path / "a" / "b").stat().st_mode & 0o077 == 0


def test_it_keeps_no_past_and_answers_nothing_once_closed(keys: FolderKeys) -> None:
    done = keys.transact([], [Put("k", b"v")])
    assert keys.get("k", revision=done.revision) is not None
    with pytest.raises(Compacted):
        keys.get("k", revision=1)
    keys.close()
    with pytest.raises(CoordinationError, match="closed"):
        keys.get("k")
