"""The chooser on this repository: each mutation's test is chosen by the mutation, each commit's own tests by the commit, each sink's and
each feed's suite by a change of it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from sidecar.feeds.registry import MAKES
from tests.choice.change import Change, changed, is_module
from tests.choice.choose import ALWAYS, choose, naming
from tests.choice.graph import Graph, Symbol, module_of
from tests.choice.source import BODY
from tests.contract.test_every_sink_has_its_suite import SUITES
from tests.mutations.test_mutations import MUTATIONS
from tests.turns import git

pytestmark = pytest.mark.xdist_group("chooser")  # one graph

ROOT = Path(__file__).parents[3]
COMMITS = 30


@cache
def graph() -> Graph:
    return Graph(ROOT)


def symbol_of(place: str) -> Symbol:
    """Of `tests/x.py::TestA::test_b[1]` and of `sidecar/x.py::Class.method`: what stands at the file's top level."""
    file, _, name = place.partition("::")
    return Symbol(module_of(Path(file)), name.partition("[")[0].replace("::", ".").partition(".")[0])


def test_each_mutations_test_is_chosen_by_its_change() -> None:
    assert len(MUTATIONS) > 60
    missed = [one.name for one in MUTATIONS if not _reaches(one.caught_by, _reaching(one.place))]
    assert missed == []


@cache
def _reaching(place: str) -> set[Symbol]:
    file = place.partition("::")[0]
    return graph().reaching([symbol_of(place)] if is_module(file) else naming(graph(), file))


def _reaches(caught_by: str, reaching: set[Symbol]) -> bool:
    """A whole file of tests catches it where one of them does."""
    test = symbol_of(caught_by)
    return test in reaching if test.name else any(one.module == test.module for one in reaching)


def test_the_tests_that_a_commit_changes_are_chosen_by_it() -> None:
    commits = git(ROOT, "rev-list", "--no-merges", f"--max-count={COMMITS}", "HEAD")
    if not commits:
        pytest.skip("there is no git history here")
    tests, files = set(graph().tests()), {module: str(path) for module, path in graph().files.items()}
    for commit in commits[:-1]:
        change = changed(ROOT, f"{commit}~1", commit)
        own = change.symbols & tests
        choice = choose(graph(), change, since=f"{commit}~1")
        missed = [one for one in own if one.name not in choice.chosen.get(files[one.module], ())]
        assert choice.everything or missed == [], commit


@pytest.mark.parametrize("kind", sorted(SUITES))
def test_a_sinks_suite_is_chosen_by_a_change_of_the_sink(kind: str) -> None:
    suite = symbol_of(f"tests/{SUITES[kind].replace('.', '/').replace('::', '.py::')}")
    scheme = kind.partition(" ")[0]
    for sink in (one for one, schemes in graph().kinds().items() if scheme in schemes):
        assert suite in graph().reaching([sink])


@pytest.mark.parametrize("kind", sorted(MAKES))
def test_a_contract_suite_is_chosen_by_a_change_of_a_feed(kind: str) -> None:
    feed = MAKES[kind].__module__.removesuffix(".make")
    suites = {test for test in graph().tests() if test.module.startswith("tests.contract.")}
    for module in (module for module in graph().files if module.startswith(f"{feed}.") and not module.endswith((".make", ".checks"))):
        assert suites & graph().reaching([Symbol(module, BODY)]), module


def test_what_judges_the_repositorys_files_runs_always() -> None:
    modules = {test.module for test in graph().tests()}
    assert modules >= ALWAYS
    listing = {
        module
        for module, path in graph().files.items()
        if module in modules and "ROOT" in graph().sources[module].uses and "rglob" in (ROOT / path).read_text()
    }
    assert listing - ALWAYS == {"tests.unit.choice.test_this_repository"}, "it lists the repository's files: name it in ALWAYS"
    choice = choose(graph(), Change(frozenset(), (), 0), since="HEAD")
    assert {module_of(Path(file)) for file in choice.chosen} == ALWAYS
