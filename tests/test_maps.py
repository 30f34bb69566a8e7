"""The pages, as a test: every symbol, link and finding that a page names exists, and every command and target has a text."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.support.commands_page import commands
from tests.support.each import each
from tests.test_tidy import ROOT, tree_of

MAPS = ("ARCHITECTURE.md", "tests/PROMISES.md", "tests/FINDINGS.md")
SYMBOL = r"`((?:sidecar|spark_merge|tests|deploy)[\w./]*\.py::[\w.]+)`"
CELL_CHARACTERS_MAX = 200
"""A longer cell is a paragraph, and nobody reads it in a table."""


def _symbols() -> list[tuple[str, str]]:
    return [(page, symbol) for page in MAPS for symbol in dict.fromkeys(re.findall(SYMBOL, (ROOT / page).read_text()))]


def _rows(page: str, head: str) -> list[list[str]]:
    """The cells of each row of the tables of `page` with this head."""
    rows, inside = [], False
    for line in (ROOT / page).read_text().splitlines():
        inside = line == head or (inside and line.startswith("|"))
        if inside and line not in (head, "|---|---|---|", "|---|---|"):
            rows.append(line.strip("| ").split(" | "))
    return rows


RULES = _rows("tests/PROMISES.md", "| rule | guard | test |")


@each(RULES)
def test_each_rule_names_one_guard_and_one_test(row: list[str]) -> None:
    assert len(row) == 3, f"{row} has other cells than a rule, its guard and its test"
    _, guard, test = row
    assert re.fullmatch(SYMBOL, guard), f"{guard} is not one symbol"
    assert re.fullmatch(SYMBOL, test), f"{test} is not one symbol"
    assert test.startswith(("`tests/", "`spark_merge/testing/")), f"{test} is no test"
    assert re.search(r"[:.](test_\w+|Test\w+)`$", test), f"{test} is no test"


def test_every_promise_is_stated_and_kept() -> None:
    stated = (ROOT / "ARCHITECTURE.md").read_text()
    for promise in ("P1", "P2", "P3", "P4", "P5", "P6"):
        assert f"- **{promise} " in stated, f"ARCHITECTURE.md does not state {promise}"
        assert sum(rule.startswith(f"{promise} ") for rule, *_ in RULES) >= 3, f"{promise} needs three rules or more"


@each(["README.md", "ARCHITECTURE.md", "tests/PROMISES.md"])
def test_no_cell_of_a_table_is_a_paragraph(page: str) -> None:
    cells = [cell.strip() for line in (ROOT / page).read_text().splitlines() if line.startswith("|") for cell in line.split("|")]
    assert not [cell for cell in cells if len(cell) > CELL_CHARACTERS_MAX]


@each(["README.md", "ARCHITECTURE.md", "tests/PROMISES.md", "deploy/COMMANDS.md", "deploy/SINKS.md"])
def test_what_a_page_links_or_names_exists(page: str) -> None:
    text, folder = (ROOT / page).read_text(), (ROOT / page).parent
    linked = {target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", text) if not target.startswith("https://")}
    missing = {target for target in linked if not (folder / target).exists()}
    missing |= {name for name in re.findall(r"`((?:sidecar|spark_merge|tests)/[\w/.]+)`", text) if not (ROOT / name).exists()}
    assert not missing, f"{page} names {sorted(missing)}"


@each(_symbols())
def test_every_symbol_on_the_maps_exists(named: tuple[str, str]) -> None:
    page, symbol = named
    file, _, name = symbol.partition("::")
    tree: ast.AST = tree_of(ROOT / file)
    for part in name.split("."):
        results = [
            node
            for node in ast.iter_child_nodes(tree)
            if (isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == part)
            or (isinstance(node, ast.Assign) and any(ast.unparse(target) == part for target in node.targets))
            or (isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == part)
        ]
        assert results, f"{page} names {symbol}, which does not exist"
        tree = results[0]


FINDINGS = (
    *map(str, range(1, 14)), *(f"14{letter}" for letter in "abcdefghij"),
    *(f"{kind}{number}" for kind, last in (("N", 6), ("H", 6), ("M", 11), ("L", 17)) for number in range(1, last + 1)),
)  # fmt: skip
_FINDING = r"(?:1?\d[a-j]?|[NHML]\d+)"
_CELL = re.compile(rf"{_FINDING}(?: \([^)]*\))?(?:, {_FINDING}(?: \([^)]*\))?)*")


def test_every_finding_has_a_line_with_a_test_or_why_it_has_none() -> None:
    rows = [line.strip("| ").split(" | ") for line in (ROOT / "tests/FINDINGS.md").read_text().splitlines() if line.startswith("| ")]
    of_findings = [row for row in rows if _CELL.fullmatch(row[0])]
    results = {finding for row in of_findings for finding in re.findall(_FINDING, re.sub(r" \([^)]*\)", "", row[0]))}
    assert results == set(FINDINGS)
    bare = [row[0] for row in of_findings if ".py::" not in "".join(row) and "told, not mended" not in row[-1]]
    assert not bare, f"neither a test nor why there is none: {bare}"


_FILE = re.compile(r"(?<![\w./-])((?:\w+/)*\w+\.py)\b")
_NOT_OURS = re.compile(r"\w*_pb2(_grpc)?\.py|etcdrpc/.*|connections\.py|conftest\.py|make\.py|checks\.py|.*/NAME\.py|.*maxwell\.py")
"""Files of a library, of the reader's package or of an example, and those of which each folder of a kind has one."""


def files_without_a_path(text: str, path: Path) -> list[str]:
    """Names of Python files in `text` that lead nowhere from the folder of `path`, from one above, or from the top of a package."""
    folders = [*path.relative_to(ROOT).parents, Path("sidecar"), Path("spark_merge")]
    without_links = re.sub(r"\[[^]]*\]\([^)]*\)", "", text)  # which have a test of their own
    names = {name for name in _FILE.findall(without_links) if not _NOT_OURS.fullmatch(name)}
    return sorted(name for name in names if not any((ROOT / folder / name).exists() for folder in folders))


@each(["sidecar", "spark_merge"])
def test_each_file_that_the_code_names_is_where_it_says(top: str) -> None:
    paths = [path for end in ("py", "md") for path in (ROOT / top).rglob(f"*.{end}")]
    lost = {str(path.relative_to(ROOT)): names for path in paths if (names := files_without_a_path(path.read_text(), path))}
    assert not lost


def test_a_file_that_has_moved_is_noticed() -> None:
    text = "rule.py, merge/task.py, codecs/encode/block.py, and [its page](gone.py); contract.py and encode/block.py have moved"
    assert files_without_a_path(text, ROOT / "spark_merge/merge/cut.py") == ["contract.py", "encode/block.py"]


_ELSEWHERE = re.compile(r"\b[Dd]esign [0-9]+\b|\b(?:port|design)\.md|\bfacts/[a-z_-]+\.md")


@each(["proto", "sidecar", "spark_merge", "tests", "deploy"])
def test_no_page_and_no_docstring_cites_a_document_that_is_not_here(top: str) -> None:
    files = {path for end in ("py", "md", "proto", "go", "toml") for path in (ROOT / top).rglob(f"*.{end}")} - {Path(__file__)}
    cited = [f"{path.relative_to(ROOT)}: {match[0]}" for path in sorted(files) if (match := _ELSEWHERE.search(path.read_text()))]
    assert not cited


def test_every_command_has_help() -> None:
    """That deploy/COMMANDS.md has each of them is tests/unit/test_pages.py's."""
    assert not [name for name, command in commands().items() if not command.help]


def test_every_make_target_has_a_text() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    assert targets == set(re.findall(r"^([a-z]+):.*##", makefile, re.MULTILINE)), "a target has no ## text"
