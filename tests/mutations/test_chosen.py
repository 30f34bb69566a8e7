"""Each mutation is made within as many commits as there are shares, and at once where its file or its test changes."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.mutations.chosen import COMMITS, SHARE, chosen
from tests.mutations.mutation import Mutation

MUTATIONS = [Mutation(f"number {n}", f"src/{n}.py", "a", "b", f"tests/test_{n}.py::test_it") for n in range(100)]


def commit(root: Path, name: str) -> None:
    """One more, in which this file changes."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(path.read_text() + "x" if path.exists() else "")
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
        assert {"number 5", "number 7"} <= now
        assert len(now) < len(MUTATIONS) / 2
        made |= now
    assert made == {one.name for one in MUTATIONS}


def test_without_git_a_tenth_is_made(tmp_path: Path) -> None:
    assert 0 < len(chosen(MUTATIONS, tmp_path / "none")) < len(MUTATIONS) / 2


def test_what_is_not_committed_has_changed(tmp_path: Path) -> None:
    for _ in range(COMMITS + 1):
        commit(tmp_path, "src/7.py")
        commit(tmp_path, "src/other.py")
    before = {one.name for one in chosen(MUTATIONS, tmp_path)}
    other = next(one for one in MUTATIONS if one.name not in before)
    commit(tmp_path, other.file)
    (tmp_path / other.file).write_text("changed")
    assert other.name in {one.name for one in chosen(MUTATIONS, tmp_path)}
