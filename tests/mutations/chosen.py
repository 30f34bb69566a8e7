"""Which mutations a run makes that does not make all: those of what has changed, and a tenth of the others."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

from tests.mutations.mutation import Mutation

COMMITS = 10
"""Whose files count as changed: about what is submitted at once."""
SHARE = 10
"""One of so many is made, of what has not changed. Which ones, the number of commits says: the same for everybody who has this commit."""


def chosen(mutations: Sequence[Mutation], root: Path) -> list[Mutation]:
    """Without git nothing has changed."""
    changed = frozenset(_git(root, "diff", "--name-only", f"HEAD~{COMMITS}"))
    turn = next(iter(_git(root, "rev-list", "--count", "HEAD")), "0")
    return [one for one in mutations if touches(one, changed) or is_turn(one, int(turn))]


def touches(mutation: Mutation, changed: frozenset[str]) -> bool:
    """Its file has changed, or its test's."""
    return not changed.isdisjoint((mutation.file, mutation.caught_by.partition("::")[0]))


def is_turn(mutation: Mutation, turn: int) -> bool:
    return crc32(mutation.name.encode()) % SHARE == turn % SHARE


def _git(root: Path, *words: str) -> list[str]:
    """Lines; none where it fails: there is no git, or not so many commits."""
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []
