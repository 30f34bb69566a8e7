"""When it counts that everything passed, and how it is recorded."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.choice.__main__ import made, not_recordable
from tests.choice.__main__ import recorded as recorded_at
from tests.choice.passed import COMMITS, DAYS, FILE, Passed
from tests.unit.choice.tree import Tree

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def recorded(tree: Tree, at: datetime = NOW, commit: str = "") -> Passed:
    passed = Passed(commit or tree.first, at)
    tree.write(FILE, passed.written())
    return passed


def test_what_is_written_is_read(tree: Tree) -> None:
    passed = recorded(tree)
    assert Passed.read(tree.root) == passed


@pytest.mark.parametrize(
    "text", ["", 'commit = "a"\n', "commit = 5\nat = 2026-01-01T00:00:00Z\n", 'commit = "a"\nat = 2026-01-01T00:00:00\n', "{"]
)
def test_a_record_that_says_something_else_is_rejected(tree: Tree, text: str) -> None:
    tree.write(FILE, text)
    with pytest.raises(ValueError, match=r"everything_passed\.toml"):
        Passed.read(tree.root)


@pytest.mark.parametrize(("age", "why"), [
    (timedelta(0), ""),
    (timedelta(days=DAYS), ""),
    (timedelta(days=DAYS, seconds=1), "more than 3 days ago"),
    (-timedelta(days=2), "which has not come yet"),
])  # fmt: skip
def test_it_counts_for_days(tree: Tree, age: timedelta, why: str) -> None:
    assert why in recorded(tree).too_old(tree.root, NOW + age)
    assert bool(recorded(tree).too_old(tree.root, NOW + age)) == bool(why)


def test_it_counts_for_commits(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.choice.passed.COMMITS", 1)
    passed = recorded(tree)
    tree.commit("second")
    assert passed.too_old(tree.root, NOW) == ""
    tree.write("deploy/ONE.md", "more\n")
    tree.commit("third")
    assert passed.too_old(tree.root, NOW) == "everything passed 2 commits ago, more than 1"
    assert COMMITS == 150


def test_a_commit_of_another_history_does_not_count(tree: Tree) -> None:
    assert "not in the history of HEAD" in recorded(tree, commit="0" * 40).too_old(tree.root, NOW)


def test_whatever_keeps_from_choosing_runs_everything(tree: Tree) -> None:
    assert "does not say" in made(tree.root, NOW).everything
    recorded(tree)
    assert not made(tree.root, NOW).everything
    assert "more than 3 days ago" in made(tree.root, NOW + timedelta(days=9)).everything
    assert "is not in this repository's history" in made(tree.root, NOW, since="0" * 40).everything
    tree.write("sidecar/core.py", "def (")
    assert "sidecar/core.py is no Python" in made(tree.root, NOW).everything


def test_without_git_everything_runs(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / FILE).write_text(Passed("a" * 40, NOW).written())
    assert made(tmp_path, NOW).everything


def test_what_is_recorded_is_the_commit_at_which_the_run_began(tree: Tree) -> None:
    assert "began at another commit" in recorded_at(tree.root, begins=False)
    tree.write(".gitignore", "build\n")
    begun = tree.commit("ignore")
    assert recorded_at(tree.root, begins=True) == ""
    tree.write("deploy/ONE.md", "more\n")
    tree.commit("meanwhile")
    assert "began at another commit" in recorded_at(tree.root, begins=False)
    subprocess.run(["git", "-C", str(tree.root), "reset", "-q", "--hard", begun], check=True)
    assert recorded_at(tree.root, begins=False) == ""
    assert Passed.read(tree.root).commit == begun


def test_a_git_that_fails_runs_everything(tree: Tree) -> None:
    recorded(tree)
    tree.write(".git/config", (tree.root / ".git/config").read_text() + "[diff]\n\talgorithm = none-such\n")
    assert "git diff fails" in made(tree.root, NOW).everything
    assert "is not in this repository's history" in made(tree.root, NOW, since=f"{tree.first}:pyproject.toml").everything


def test_only_what_is_committed_can_be_recorded(tree: Tree, tmp_path: Path) -> None:
    assert not_recordable(tree.root) == ""
    tree.write("deploy/ONE.md", "more\n")
    assert "files differ from HEAD" in not_recordable(tree.root)
    assert "no commit" in not_recordable(tmp_path.parent)
