"""The rule on a small repository: an edit, and the tests that run by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.choice.tree import Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.mark.parametrize(
    ("file", "old", "new", "chosen"),
    [
        pytest.param("sidecar/core.py", "min(n, LIMIT)", "n", {"test_bounded", "test_plain"}, id="a function, also by a sink"),
        pytest.param("sidecar/core.py", "LIMIT = 3", "LIMIT = 4", {"test_bounded", "test_plain", "test_three", "test_send"}, id="constant"),
        pytest.param("sidecar/core.py", "return 1", "return 2", {"test_other", "test_deep"}, id="another function of the file"),
        pytest.param("sidecar/core.py", "LIMIT = 3", "LIMIT = 3  # three", set(), id="a comment"),
        pytest.param("sidecar/core.py", "def other():", 'def other():\n    """Text."""', set(), id="a docstring"),
        pytest.param("sidecar/core.py", "LIMIT = 3", "LIMIT = 3\nprint(LIMIT)",
                     {"test_bounded", "test_other", "test_plain", "test_deep", "test_three", "test_send"}, id="a statement"),
        pytest.param("sidecar/core.py", "def other", "def renamed",
                     {"test_bounded", "test_other", "test_plain", "test_deep", "test_three", "test_send"}, id="a lost name"),
        pytest.param("spark_merge/sinks/deep/sink.py", "DEEP = other", "DEEP = 1", {"test_deep"}, id="a sink, by its scheme"),
        pytest.param("spark_merge/sinks/registry.py", 'partition(":")[0]', 'partition("+")[0]', {"test_plain", "test_deep"}, id="registry"),
        pytest.param("tests/conftest.py", "return LIMIT", "return LIMIT + 0", {"test_three"}, id="a fixture"),
        pytest.param("tests/unit/test_core.py", "== 1", "== 1.0", {"test_other"}, id="a test"),
        pytest.param("sidecar/pages/look.html", "<p>", "<b>", {"test_look", "test_text"}, id="a file that a text names"),
        pytest.param("sidecar/pages/__init__.py", "return", "return 1 and", {"test_look", "test_text"}, id="a program in a text"),
        pytest.param("deploy/send.py", "return LIMIT", "return 1", {"test_send"}, id="a script of deploy"),
        pytest.param("sidecar/cli/options.py", "an option", "one", {"test_options"}, id="an annotation of a command"),
        pytest.param("tests/unit/below/conftest.py", "def one", "def two", {"test_one", "test_none"}, id="a lost fixture"),
        pytest.param("tests/unit/below/conftest.py", "@pytest.fixture\n", "", {"test_one", "test_none"}, id="no fixture any more"),
        pytest.param("tests/unit/below/conftest.py", "pytest_runtest_setup", "pytest_runtest_call", {"test_one", "test_none"}, id="a hook"),
        pytest.param("deploy/ONE.md", "one", "1", {"test_page"}, id="a page that a test reads"),
        pytest.param("deploy/TWO.md", "two", "2", set(), id="a page that only a test of all pages reads"),
    ],
)  # fmt: skip
def test_an_edit_chooses_the_tests_that_reach_it(tree: Tree, file: str, old: str, new: str, chosen: set[str]) -> None:
    tree.edit(file, old, new)
    assert tree.chosen() == chosen


def test_what_judges_the_repositorys_files_runs_always(tree: Tree) -> None:
    assert tree.choice().chosen == {"tests/unit/test_guide.py": ["test_all"]}


def test_a_sink_that_only_a_process_loads_takes_turns(tree: Tree) -> None:
    tree.write(
        "tests/unit/test_sink_process.py",
        "import sys\n\nURI = 'deep://x'\n\ndef test_deep_process():\n    assert [sys.executable, '-m', 'sidecar', URI]\n",
    )
    tree.edit("sidecar/cli/main.py", "def main():", "def main():\n    from spark_merge.sinks.registry import open_sink\n    open_sink('')")
    tree.first = tree.commit("a program with sinks")
    tree.edit("spark_merge/sinks/deep/sink.py", "DEEP = other", "DEEP = 1")
    assert (tree.chosen(), tree.in_turns()) == ({"test_deep"}, {"test_deep_process"})


def test_a_conftest_that_is_gone_changes_what_is_below(tree: Tree) -> None:
    (tree.root / "tests/unit/below/conftest.py").unlink()
    assert tree.chosen() == {"test_one", "test_none"}


def test_what_only_a_process_leads_to_takes_turns(tree: Tree) -> None:
    tree.edit("sidecar/core.py", "return 1", "return 2")
    assert tree.in_turns() == {"test_program"}


def test_a_new_test_runs_though_it_is_not_committed(tree: Tree) -> None:
    tree.write("tests/unit/test_more.py", "def test_more():\n    pass\n")
    assert tree.chosen() == {"test_more"}


def test_a_file_that_is_gone_runs_what_still_asks_for_it(tree: Tree) -> None:
    (tree.root / "sidecar/core.py").unlink()
    assert tree.chosen() >= {"test_bounded", "test_other", "test_plain", "test_deep", "test_three", "test_send"}


def test_a_file_that_no_text_names_counts_as_its_package(tree: Tree) -> None:
    tree.write("sidecar/pages/more.html", "x")
    assert tree.chosen() == {"test_look", "test_text"}


def test_settings_of_everything_run_everything(tree: Tree) -> None:
    tree.write("pyproject.toml", "[tool]\n")
    assert tree.choice().everything == f"pyproject.toml has changed since {tree.first[:8]}"
    assert not tree.choice().chosen


def test_the_report_counts_every_test_once(tree: Tree) -> None:
    tree.edit("sidecar/core.py", "return 1", "return 2")
    report = tree.choice().report
    assert report[1] == "run: 3 of 14 tests: 2 reach the change, 1 run always"
    assert report[2].startswith("in turns: 1 of 8 of 1 that")
    assert report[3] == "skipped: 10 tests, which do not reach it"
