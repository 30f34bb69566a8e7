"""What pytest collects and runs of a choice. Every worker reads the same file, which TICDC_DUMP_CHOICE names.

Cases that take turns do so by one number, which is drawn from the commit: one filter's turn must not decide another's, and a landing has
any number of commits. So each case's turn comes sooner or later, and not at a fixed distance.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from tests.choice.choose import SCARCER, Choice
from tests.turns import Share, git, in_turn

ROOT = Path(__file__).parents[2]
VARIABLE = "TICDC_DUMP_CHOICE"


class Case(NamedTuple):
    """A test as pytest collects it: `file` from the root, and `name`, the function or class at the file's top level. `share`, `kind`: of
    its mark `turns`; 1 without one."""

    id: str
    file: str
    name: str
    share: int = 1
    kind: str = ""


@cache
def selected() -> Choice | None:
    """None: everything runs. Raises ValueError for a choice of another commit, and for a file that is none."""
    if not (path := os.environ.get(VARIABLE)):
        return None
    choice = Choice(**json.loads(Path(path).read_text()))
    if (not choice.everything and not choice.report) or choice.head != head():
        raise ValueError(f"{path} is no choice for the present commit: unset {VARIABLE}, or choose again (make test CHOSEN=1)")
    return None if choice.everything else choice


def head() -> str:
    """Empty without git."""
    return next(iter(git(ROOT, "rev-parse", "HEAD")), "")


def write(choice: Choice, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(replace(choice, head=head()))))


def needs(choice: Choice, file: str) -> bool:
    """Whether a test of this file can run."""
    return file in choice.chosen or file in choice.turns


def running(choice: Choice, cases: Iterable[Case], number: int) -> set[str]:
    """The ids of those that run. `number`: whose turn it is."""
    shares = [Share(one.id, share, f"{one.kind} {share}") for one in cases if (share := _share(choice, one))]
    always, by_turns = [one for one in shares if one.share == 1], [one for one in shares if one.share > 1]
    return {one.case for one in always} | in_turn(by_turns, number)


def turn_of(commit: str) -> int:
    return crc32(commit.encode())


def _share(choice: Choice, case: Case) -> int:
    """Of how many one runs; 0: none does."""
    share = 1 if case.name in choice.chosen.get(case.file, ()) else choice.turns.get(case.file, {}).get(case.name, 0)
    return share * case.share * SCARCER if case.share > 1 else share
