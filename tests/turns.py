"""Whose turn it is: of what is too much for each run, a run makes one of so many, and each commit another one. `make matrix` makes all."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zlib import crc32


@cache
def turn(root: Path) -> int:
    """The number of commits: the same for everybody who has this one. 0 without git."""
    return int(next(iter(git(root, "rev-list", "--count", "HEAD")), "0"))


def is_turn(name: str, share: int, number: int) -> bool:
    return crc32(name.encode()) % share == number % share


class Share(NamedTuple):
    """A case (its id of pytest), of whose kind a run makes one of `share`."""

    case: str
    share: int
    kind: str

    @classmethod
    def of(cls, case: str, share: int, kind: str = "") -> Share:
        """Where no kind is given it is the case's test."""
        return cls(case, share, kind or case.partition("[")[0])


def in_turn(shares: Iterable[Share], number: int) -> set[str]:
    """Of the cases of each kind one of its share, and at least one."""
    by_kind: defaultdict[str, list[Share]] = defaultdict(list)
    for one in shares:
        by_kind[one.kind].append(one)
    return {
        one.case
        for each in by_kind.values()
        for place, one in enumerate(sorted(each))
        if place % one.share == number % min(one.share, len(each))
    }


def git(root: Path, *words: str) -> list[str]:
    """Lines; none where it fails: there is no git, or not so many commits."""
    return _lines(_git(root, words)) or []


def checked_git(root: Path, *words: str) -> list[str]:
    """Lines. Raises ValueError where it fails."""
    done = _git(root, words)
    if (lines := _lines(done)) is None:
        raise ValueError(f"git {words[0]} fails: {done.stderr.strip()}")
    return lines


def _git(root: Path, words: Iterable[str]) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(root), "-c", "core.quotePath=false", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _lines(done: subprocess.CompletedProcess[str]) -> list[str] | None:
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else None
