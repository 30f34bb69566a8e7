"""Which mutations a run makes that does not make all: of symbols that have changed, or whose test has, and a twentieth of the others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.mutations.mutation import Mutation, symbol_text
from tests.turns import git, is_turn, turn

COMMITS = 10
"""What they have changed counts: about what is submitted at once."""
SHARE = 20
"""One of so many is made, of what has not changed."""


def chosen(mutations: Sequence[Mutation], root: Path) -> list[Mutation]:
    """Without git nothing has changed."""
    changed = frozenset(git(root, "diff", "--name-only", f"HEAD~{COMMITS}"))
    number = turn.__wrapped__(root)
    return [one for one in mutations if _touches(one, changed, root) or is_turn(one.name, SHARE, number)]


def _touches(mutation: Mutation, changed: frozenset[str], root: Path) -> bool:
    """Its symbol has changed, or its test."""
    return any(
        file in changed and symbol_text(_before(root, file), symbol) != symbol_text(_now(root, file), symbol)
        for file, _, symbol in (place.partition("::") for place in (mutation.place, mutation.caught_by.partition("[")[0]))
    )


@cache
def _before(root: Path, file: str) -> str:
    """Empty where it was not there."""
    return "\n".join(git(root, "show", f"HEAD~{COMMITS}:{file}"))


def _now(root: Path, file: str) -> str:
    path = root / file
    return "\n".join(path.read_text().split("\n")[:-1]) if path.is_file() else ""
