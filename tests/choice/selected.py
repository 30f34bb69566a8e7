"""What pytest collects and runs of a choice. Every worker reads the same file, which TICDC_DUMP_CHOICE names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.choice.choose import Choice
from tests.turns import Share, in_turn

VARIABLE = "TICDC_DUMP_CHOICE"


class Case(NamedTuple):
    """A test as pytest collects it: `file` from the root, and `name`, the function or class at the file's top level."""

    id: str
    file: str
    name: str


@cache
def selected() -> Choice | None:
    """None: everything runs."""
    path = os.environ.get(VARIABLE)
    choice = Choice(**json.loads(Path(path).read_text())) if path else None
    return None if choice is None or choice.everything else choice


def write(choice: Choice, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(choice)))


def needs(choice: Choice, file: str) -> bool:
    """Whether a test of this file can run."""
    return file in choice.chosen or file in choice.turns


def running(choice: Choice, cases: Iterable[Case], number: int) -> set[str]:
    """The ids of those that run. `number`: whose turn it is (tests/turns.py)."""
    cases = list(cases)
    shares = [
        Share(one.id, share, f"share {share}") for one in cases if (share := choice.turns.get(one.file, {}).get(one.name)) is not None
    ]
    return {one.id for one in cases if one.name in choice.chosen.get(one.file, ())} | in_turn(shares, number)
