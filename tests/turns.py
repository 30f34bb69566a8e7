"""Whose turn it is: of what is too much for each run, a run makes one of so many, and each commit another one. `make matrix` makes all."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from zlib import crc32


@cache
def turn(root: Path) -> int:
    """The number of commits: the same for everybody who has this one. 0 without git."""
    return int(next(iter(git(root, "rev-list", "--count", "HEAD")), "0"))


def is_turn(name: str, share: int, number: int) -> bool:
    return crc32(name.encode()) % share == number % share


def in_turn(cases: Iterable[tuple[str, int]], number: int) -> set[str]:
    """Of the cases of each test (ids of pytest, each with its test's share) one of `share`, and at least one."""
    by_test: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for case, share in cases:
        by_test[case.partition("[")[0]].append((case, share))
    return {
        case
        for each in by_test.values()
        for place, (case, share) in enumerate(sorted(each))
        if place % share == number % min(share, len(each))
    }


def git(root: Path, *words: str) -> list[str]:
    """Lines; none where it fails: there is no git, or not so many commits."""
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []
