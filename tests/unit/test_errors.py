"""The error tree as its docstring draws it, and a message with its hint over wires that carry one text."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from sidecar.control.answers import CallFailed
from sidecar.shared import errors
from sidecar.shared.errors import TicdcDumpError, parted, with_hint

ROOT = Path(__file__).parents[2]
_BRANCH = re.compile(r"^( {4}(?:[│ ] {3})*)(?:[├└]── )?([A-Z]\w+)\b(.*)$")


def drawn() -> dict[str, tuple[str, str]]:
    """Each class of the docstring's tree, with the one above it and what is said of it."""
    result: dict[str, tuple[str, str]] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        branch = _BRANCH.match(line)
        if branch is None:
            continue
        depth = (len(branch[1]) // 4) if "──" in line else 0
        above[depth:] = [branch[2]]
        result[branch[2]] = (above[depth - 1] if depth else "Exception", branch[3])
    return result


def defined() -> dict[str, str]:
    """Each class of ours below TicdcDumpError, in whatever file, with the one above it."""
    bases = {
        node.name: ast.unparse(node.bases[0])
        for top in ("sidecar", "spark_merge")
        for path in (ROOT / top).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and node.bases
    }
    tree = {"TicdcDumpError": "Exception"}
    while more := {name: base for name, base in bases.items() if base.rpartition(".")[2] in tree and name not in tree}:
        tree |= more
    return tree


def test_the_docstring_draws_the_tree_that_there_is() -> None:
    assert {name: above for name, (above, _) in drawn().items()} == defined()


def test_the_docstring_says_where_a_retry_helps() -> None:
    classes: dict[str, type[TicdcDumpError]] = {
        name: CallFailed if name == "CallFailed" else getattr(errors, name) for name in drawn() if name != "TicdcDumpError"
    }
    assert {name for name, (_, reported) in drawn().items() if "helps" in reported} == {n for n, kind in classes.items() if kind.retryable}


def test_an_error_has_its_message_and_its_hint_and_shows_both() -> None:
    error = TicdcDumpError("segment 3 is gone\nand 4 too", hint="restore it")
    assert (error.message, error.hint) == ("segment 3 is gone\nand 4 too", "restore it")
    assert str(error) == "segment 3 is gone\nand 4 too\n  what to do: restore it"


@given(st.text(), st.text())
def test_message_and_hint_come_back_from_one_text(message: str, hint: str) -> None:
    assert parted(with_hint(message, hint)) == (message, hint)


def test_a_message_with_an_error_in_it_comes_back_whole() -> None:
    inner = with_hint("a", "b")
    assert parted(with_hint(f"refused: {inner}", "c")) == (f"refused: {inner}", "c")


def test_a_text_without_a_hint_is_a_message() -> None:
    assert parted("a standby") == ("a standby", "")
