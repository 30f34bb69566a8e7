"""Each mutation is made within as many commits as there are shares, and at once where its symbol or its test changes."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.mutations.chosen import COMMITS, SHARE, chosen
from tests.mutations.mutation import Mutation

MUTATIONS = [Mutation(f"number {n}", f"src/{n}.py::act", "a", "b", f"tests/test_{n}.py::test_it[1]") for n in range(100)]


def commit(root: Path, name: str) -> None:
    """One more, in which this file's functions change."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text() if path.exists() else "def act():\n    a = 0\n\n\ndef test_it():\n    a = 0\n"
    path.write_text(text.replace("a =", "a = 1 +"))
    who = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-q", "-m", name)):
        subprocess.run(["git", "-C", str(root), *words], check=True)


def test_all_are_made_in_their_turn_and_those_of_what_has_changed_each_time(tmp_path: Path) -> None:
    made: set[str] = set()
    for number in range(COMMITS + SHARE):
        commit(tmp_path, "tests/test_5.py" if number == COMMITS else "src/7.py")
        if number < COMMITS:
            continue  # there are not so many commits yet
        now = {one.name for one in chosen(MUTATIONS, tmp_path)}
        assert "number 7" in now
        assert "number 5" in now or number >= 2 * COMMITS, "so long ago its test has changed"
        assert len(now) < len(MUTATIONS) / 2
        made |= now
    assert made == {one.name for one in MUTATIONS}


def test_without_git_a_share_is_made(tmp_path: Path) -> None:
    assert 0 < len(chosen(MUTATIONS, tmp_path / "none")) < len(MUTATIONS) / 2


def test_what_is_not_committed_has_changed(tmp_path: Path) -> None:
    for _ in range(COMMITS + 1):
        commit(tmp_path, "src/7.py")
        commit(tmp_path, "src/other.py")
    before = {one.name for one in chosen(MUTATIONS, tmp_path)}
    other = next(one for one in MUTATIONS if one.name not in before)
    commit(tmp_path, other.file)
    (tmp_path / other.file).write_text("def act():\n    return 1\n")
    assert other.name in {one.name for one in chosen(MUTATIONS, tmp_path)}


def test_a_change_of_another_symbol_of_its_file_changes_nothing(tmp_path: Path) -> None:
    names = [one.file for one in MUTATIONS]
    for _ in range(COMMITS + 1):
        commit(tmp_path, "src/other.py")
        for name in names:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("def act():\n    a = 0\n")
    before = {one.name for one in chosen(MUTATIONS, tmp_path)}
    for name in names:
        (tmp_path / name).write_text("B = 1\n\n\ndef act():\n    a = 0\n")
    assert {one.name for one in chosen(MUTATIONS, tmp_path)} == before
