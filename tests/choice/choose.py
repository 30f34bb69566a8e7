"""The rule: which tests run, given what has changed.

1. **Everything** runs where nothing says that everything passed lately (passed.py), and where a file of WHOLE has changed.
2. **Chosen** is a test that reaches a changed symbol (graph.py), and one that reaches a text which names a changed file that is no module:
   a page, SQL, TOML, a proto, a recording, a file of deploy/, the Makefile. A file in a package's folder that no text names counts as a
   change of the whole package, if it is no page.
3. **Always** run the files of tests that judge the repository's files (the code's shape, words, pages), and the mutations, which choose
   for themselves (tests/mutations/chosen.py).
4. **In turns** run those which only a process of the whole product leads to the change (one of STARTED), and of what is left the cases
   of simulation and property (one of IDLE). Of tests marked with a turn fewer are made than in a run of everything (SCARCER).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from tests.choice.change import Change
from tests.choice.graph import Graph, Symbol

WHOLE = ("pyproject.toml", "requirements.lock")
"""Everything depends on these: libraries, versions, pytest's settings."""
STARTED = 8
IDLE = 20
SCARCER = 3
"""Times the share of a test's mark `turns`."""
ALWAYS = {
    "tests.model.test_names", "tests.mutations.test_mutations", "tests.test_maps", "tests.test_tidy", "tests.test_words",
    "tests.unit.test_deploy", "tests.unit.test_errors", "tests.unit.test_guide", "tests.unit.test_pages",
    "tests.unit.sinks.test_option_tables",
}  # fmt: skip
"""Files of tests that judge the repository's files, and the mutations."""
BY_TURNS = ("tests.simulation.", "tests.property.")
TOO_COMMON = {"data", "recordings", "schema", "unit", "support", "sink", "push"}
"""Names of folders and files that say nothing about which file it is."""


@dataclass(frozen=True, slots=True)
class Choice:
    """`everything`: why all tests run; empty where not. `chosen`: the functions and classes that run, by their file (a path). `turns`: of
    how many cases one takes its turn. `report`: what is skipped and why, for the reader of the run. `head`: the commit for which it was
    chosen."""

    everything: str = ""
    chosen: dict[str, list[str]] = field(default_factory=dict)
    turns: dict[str, dict[str, int]] = field(default_factory=dict)
    report: list[str] = field(default_factory=list)
    head: str = ""


def choose(graph: Graph, change: Change, *, since: str) -> Choice:
    if whole := [name for name in change.others if name in WHOLE]:
        return Choice(f"{whole[0]} has changed since {since[:8]}")
    tests = set(graph.tests())
    seeds = {*change.symbols, *(symbol for name in change.others for symbol in naming(graph, name))}
    chosen = graph.reaching(seeds) & tests
    always = {test for test in tests if test.module in ALWAYS}
    started = (graph.reaching(seeds, starts=True) & tests) - chosen - always
    idle = {test for test in tests - chosen - always - started if test.module.startswith(BY_TURNS)}
    running = chosen | always
    return Choice(
        chosen=_by_file(graph, running),
        turns=_turns(graph, {STARTED: started, IDLE: idle}),
        report=[
            f"changed since {since[:8]}: {change.files} files, {len(change.symbols)} symbols",
            f"run: {len(running)} of {len(tests)} tests: {len(chosen)} reach the change, {len(always - chosen)} run always",
            f"in turns: 1 of {STARTED} of {len(started)} that reach it through a process of the product, 1 of {IDLE} of {len(idle)} others",
            f"skipped: {len(tests - running - started - idle)} tests, which do not reach it",
        ],
    )


def naming(graph: Graph, name: str) -> set[Symbol]:
    """What names this file in a text, or, of tests and of what is deployed, a folder that it is in; where nothing does, and the file is in
    a package's folder, that package."""
    path = PurePosixPath(name)
    words = {path.name, ".".join(path.with_suffix("").parts)}
    if path.suffix != ".md" and path.parts[0] in ("tests", "deploy"):
        words |= {path.name.partition(".")[0], *path.parts[1:-1]} - TOO_COMMON
    symbols = {
        Symbol(module, symbol)
        for module, source in graph.sources.items()
        for symbol, uses in source.uses.items()
        if (path.suffix != ".md" or module.startswith("tests."))  # the product's hints name pages, and read none
        and any(text in words or text.endswith(f"/{path.name}") for text in uses.texts)
    }
    packages = [".".join(one.parts) for one in path.parents if ".".join(one.parts) in graph.files]
    if symbols or not packages or path.suffix == ".md":
        return symbols
    modules = [module for module in graph.files if f"{module}.".startswith(f"{packages[0]}.")]
    return {Symbol(module, symbol) for module in modules for symbol in graph.sources[module].uses}


def _by_file(graph: Graph, tests: Iterable[Symbol]) -> dict[str, list[str]]:
    files: dict[str, list[str]] = {}
    for test in sorted(tests):
        files.setdefault(str(graph.files[test.module]), []).append(test.name)
    return files


def _turns(graph: Graph, shares: dict[int, set[Symbol]]) -> dict[str, dict[str, int]]:
    turns: dict[str, dict[str, int]] = {}
    for share, tests in shares.items():
        for file, names in _by_file(graph, tests).items():
            turns.setdefault(file, {}).update(dict.fromkeys(names, share))
    return turns
