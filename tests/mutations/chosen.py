"""Which mutations a run makes that does not make all: of symbols that have changed since everything passed, or whose test has, and a
sixtieth of the others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from tests.choice.passed import Passed
from tests.mutations.mutation import Mutation, symbol_text
from tests.turns import git, is_turn, turn

COMMITS = 10
"""What they have changed counts where nothing says when everything passed."""
SHARE = 60
"""One of so many is made, of what has not changed."""


def chosen(mutations: Sequence[Mutation], root: Path) -> list[Mutation]:
    """Without git nothing has changed."""
    since = _since(root)
    changed = frozenset(git(root, "diff", "--name-only", since))
    number = turn.__wrapped__(root)
    return [one for one in mutations if _touches(one, changed, root, since) or is_turn(one.name, SHARE, number)]


def _since(root: Path) -> str:
    """A record that does not count is none."""
    try:
        passed = Passed.read(root)
    except ValueError:
        return f"HEAD~{COMMITS}"
    return f"HEAD~{COMMITS}" if passed.too_old(root, datetime.now(UTC)) else passed.commit


def _touches(mutation: Mutation, changed: frozenset[str], root: Path, since: str) -> bool:
    """Its symbol has changed, or its test."""
    return any(
        file in changed and symbol_text(_before(root, file, since), symbol) != symbol_text(_now(root, file), symbol)
        for file, _, symbol in (place.partition("::") for place in (mutation.place, mutation.caught_by.partition("[")[0]))
    )


@cache
def _before(root: Path, file: str, since: str) -> str:
    """Empty where it was not there."""
    return "\n".join(git(root, "show", f"{since}:{file}"))


def _now(root: Path, file: str) -> str:
    path = root / file
    return "\n".join(path.read_text().split("\n")[:-1]) if path.is_file() else ""
