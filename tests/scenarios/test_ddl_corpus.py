"""Whether ddl_*.txt have a statement for each alternative of TiDB's grammar. What the statements do: test_scenarios.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ALTERNATIVES = [line for line in (FOLDER / "ddl_grammar.list").read_text().splitlines() if line and not line.startswith("#")]


def statements() -> list[str]:
    """Of all files, as somebody wrote them."""
    blocks = [block for file in sorted(FOLDER.glob("ddl_*.txt")) for block in file.read_text().split("\n\n")[1:]]
    results = [line for block in blocks for line in block.split("\n----")[0].splitlines() if not line.startswith(("#", "~"))]
    return [line.strip() for line in results]


STATEMENTS = statements()


def test_the_corpus_has_three_hundred_statements_each_once() -> None:
    assert len(STATEMENTS) >= 300
    assert len(set(STATEMENTS)) == len(STATEMENTS)


@pytest.mark.parametrize("line", ALTERNATIVES)
def test_each_alternative_of_tidbs_grammar_has_a_statement(line: str) -> None:
    _, pattern = line.split(maxsplit=1)
    wanted = re.compile(".*".join(map(re.escape, pattern.split("…"))))
    assert any(wanted.fullmatch(statement.upper()) for statement in STATEMENTS), f"no statement of ddl_*.txt is {line!r}"
