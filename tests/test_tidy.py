"""The shape of the code, as a test: who may import whom, sizes that fit in a head, every file tested, every claim resolved."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GENERATED = ("_pb2.py", "_pb2_grpc.py")
PRODUCT = sorted(p for top in ("sidecar", "spark_merge") for p in (ROOT / top).rglob("*.py") if not p.name.endswith(GENERATED))

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
"""Design and style aim at 300 and 60; this is where a reader gives up."""

LEAVES = ["sidecar.errors", "sidecar.storage"]
"""Plain helpers at the bottom, without imports of ours: everybody may use them; the pure part uses the errors only."""

MAY_IMPORT = {
    "sidecar.errors": [],
    "sidecar.storage": [],
    "sidecar.core": ["sidecar.core", "sidecar.errors"],
    "sidecar.codecs": ["sidecar.core", "sidecar.codecs", "sidecar.errors"],
    "sidecar.ports": ["sidecar.core", "sidecar.errors"],
    "sidecar.pipeline": ["sidecar.core", "sidecar.ports", "sidecar.codecs.contract", "sidecar.errors"],
    "sidecar.config": ["sidecar.errors"],
    "sidecar.listening": ["sidecar.config", "sidecar.errors"],
    "sidecar.feeds": ["sidecar.feeds", "sidecar.ports", "sidecar.codecs", "sidecar.core", "sidecar.config", "sidecar.listening", *LEAVES],
    "sidecar.adapters": ["sidecar.adapters", "sidecar.ports", "sidecar.codecs", "sidecar.core", "sidecar.config", *LEAVES],
    "sidecar.app": ["sidecar", "spark_merge"],
    "sidecar.term": ["sidecar"],
    "sidecar.gauge": ["sidecar"],
    "sidecar.upstream": ["sidecar"],
    "sidecar.stream": ["sidecar"],
    "sidecar.definition": ["sidecar"],
    "sidecar.merge_process": [],
    "sidecar.metrics": ["sidecar.core", *LEAVES],
    "sidecar.logs": ["sidecar.config"],
    "sidecar.preflight": ["sidecar", "spark_merge"],
    "sidecar.__main__": ["sidecar.control"],
    "spark_merge.decode": ["spark_merge", "sidecar.core", "sidecar.codecs", *LEAVES],
    "spark_merge": ["spark_merge", "sidecar.core", *LEAVES],
    "sidecar.replay": ["sidecar", "spark_merge"],
    "sidecar.control": ["sidecar", "spark_merge"],
}
"""Design 12. The longest prefix of a module's name decides. `replay` and `control` wire things up; nothing imports them."""

PURE = ("sidecar.core", "sidecar.codecs")
IMPURE_MODULES = {"time", "random", "os", "logging", "socket", "threading", "subprocess", "asyncio", "secrets", "tempfile", "pathlib"}
PURE_LIBRARIES = {"msgspec", "cramjam"}
"""What `codecs` may use besides the standard library: one JSON library and TiCDC's compressions."""


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def within(name: str, packages: list[str]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


@pytest.mark.parametrize("path", PRODUCT, ids=module_name)
def test_imports_point_inwards(path: Path) -> None:
    module = module_name(path)
    rule = max((prefix for prefix in MAY_IMPORT if within(module, [prefix])), key=len, default=None)
    if module in ("sidecar", "spark_merge") and path.name == "__init__.py":
        return
    assert rule is not None, f"{module} has no place in MAY_IMPORT"
    ours = {name for name in imports(path) if within(name, ["sidecar", "spark_merge", "tests"])}
    allowed = MAY_IMPORT[rule]
    wrong = {name for name in ours if not within(name, allowed) and not any(within(package, [name]) for package in allowed)}
    assert not wrong, f"{module} may not import {sorted(wrong)}"


@pytest.mark.parametrize("path", [path for path in PRODUCT if module_name(path).startswith(PURE)], ids=module_name)
def test_the_core_and_the_codecs_are_pure(path: Path) -> None:
    tops = {name.split(".")[0] for name in imports(path)}
    assert not tops & IMPURE_MODULES, f"{module_name(path)} is pure and imports {sorted(tops & IMPURE_MODULES)}"
    libraries = {"sidecar"} | (PURE_LIBRARIES if module_name(path).startswith("sidecar.codecs") else set())
    foreign = {top for top in tops if importlib.util.find_spec(top) is None or "site-packages" in str(importlib.util.find_spec(top).origin)}  # type: ignore[union-attr]  # checked just before
    assert not foreign - libraries, f"{module_name(path)} is pure and imports {sorted(foreign - libraries)}"


@pytest.mark.parametrize("path", PRODUCT, ids=module_name)
def test_files_and_functions_fit_in_a_head(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= FILE_LINES_MAX, f"{path} is too long to hold"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= FUNCTION_LINES_MAX, f"{path}:{node.lineno} {node.name} has {lines} lines"


@pytest.mark.parametrize("path", [path for path in PRODUCT if path.name not in ("__init__.py", "__main__.py")], ids=module_name)
def test_every_source_file_is_used_by_a_test(path: Path) -> None:
    """A test imports it, or the test of a module that imports it goes through it; named here by import, not by chance."""
    reached = _reached_by_tests()
    assert module_name(path) in reached, f"no test reaches {module_name(path)}"


@cache
def _reached_by_tests() -> frozenset[str]:
    by_name = {module_name(path): path for path in PRODUCT}
    todo = [name for test in (ROOT / "tests").rglob("*.py") for name in imports(test)]
    reached: set[str] = set()
    while todo:
        name = todo.pop()
        if name in by_name and name not in reached:
            reached.add(name)
            todo += imports(by_name[name])
    return frozenset(reached)


@pytest.mark.parametrize("path", PRODUCT, ids=module_name)
def test_every_file_opens_with_its_rules(path: Path) -> None:
    tree = ast.parse(path.read_text())
    if tree.body:
        assert ast.get_docstring(tree), f"{path} does not say what it decides"


def _symbols() -> list[str]:
    return re.findall(r"`((?:sidecar|spark_merge|tests)[\w./]*\.py::[\w.]+)`", (ROOT / "ARCHITECTURE.md").read_text())


def test_architecture_names_symbols_for_every_promise() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    for promise in ("P1", "P2", "P3", "P4", "P5", "P6"):
        row = next((line for line in text.splitlines() if line.startswith(f"| {promise} ")), None)
        assert row is not None, f"{promise} is not in ARCHITECTURE.md's map"
        assert row.count(".py::") >= 3, f"{promise} must name its home, its guard and its tests"


@pytest.mark.parametrize("symbol", _symbols())
def test_every_symbol_in_architecture_exists(symbol: str) -> None:
    file, _, name = symbol.partition("::")
    tree: ast.AST = ast.parse((ROOT / file).read_text())
    for part in name.split("."):
        found = [
            node
            for node in ast.iter_child_nodes(tree)
            if (isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == part)
            or (isinstance(node, ast.Assign) and any(ast.unparse(target) == part for target in node.targets))
            or (isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == part)
        ]
        assert found, f"ARCHITECTURE.md names {symbol}, which does not exist"
        tree = found[0]


def test_every_command_has_help_and_is_in_the_readme() -> None:
    from sidecar.control.cli import app

    readme = (ROOT / "README.md").read_text()
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        assert command.callback.__doc__, f"{name} has no help"
        assert f"ticdc-dump {name}" in readme or f"cdc cli changefeed {name}" in readme, f"README.md does not show {name}"


def test_every_make_target_is_told() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    assert targets == set(re.findall(r"^([a-z]+):.*##", makefile, re.MULTILINE)), "a target has no ## text"
