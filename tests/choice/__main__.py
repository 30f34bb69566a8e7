"""`python -m tests.choice`: chooses the tests that the change since the last run of everything concerns, and reports what it skips.

`make test CHOSEN=1` calls it. Whatever keeps it from choosing is printed, and then everything runs.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from tests.choice.change import changed
from tests.choice.choose import Choice, choose
from tests.choice.graph import Graph
from tests.choice.passed import FILE, Passed
from tests.choice.selected import write
from tests.turns import git

ROOT = Path(__file__).parents[2]
BEGAN = "build/everything_began"


def made(root: Path, now: datetime, *, since: str = "", until: str = "") -> Choice:
    """By what has changed since this commit; without one, since everything passed. `until`: a commit, in the place of what is on disk."""
    try:
        if not since:
            passed = Passed.read(root)
            if reason := passed.too_old(root, now):
                return Choice(reason)
            since = passed.commit
        change = changed(root, since, until)
        return choose(Graph(root), change, since=since)
    except ValueError as error:
        return Choice(str(error))


def not_recordable(root: Path) -> str:
    """Why a run of everything cannot be recorded: what passes is what HEAD has. Empty where it can."""
    head, differing = git(root, "rev-parse", "HEAD"), git(root, "status", "--porcelain")
    if not head:
        return "there is no commit"
    return f"files differ from HEAD ({differing[0].strip()}): commit them first" if differing else ""


def recorded(root: Path, *, begins: bool) -> str:
    """Notes at which commit a run of everything begins; or writes that it passed there, if HEAD is the same. Why not; empty where it is."""
    if reason := not_recordable(root):
        return reason
    now, note = git(root, "rev-parse", "HEAD")[0], root / BEGAN
    if begins:
        note.parent.mkdir(exist_ok=True)
        note.write_text(now)
    elif not note.is_file() or note.read_text() != now:
        return f"the run began at another commit than {now[:8]}"
    else:
        (root / FILE).write_text(Passed(now, datetime.now(UTC)).written())
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.choice", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--since", default="", help="a commit (default: the one at which everything passed)")
    parser.add_argument("--until", default="", help="a commit, to try what was to run for it (default: what is on disk)")
    parser.add_argument("--out", type=Path, help="where the choice is written, for the tests")
    parser.add_argument("--can-record", action="store_true", help="choose nothing; note that a run of everything begins")
    parser.add_argument("--record", action="store_true", help="choose nothing; write that everything passed at HEAD")
    given = parser.parse_args()
    if given.record or given.can_record:
        if reason := recorded(ROOT, begins=given.can_record):
            print(f"not recorded: {reason}", file=sys.stderr)  # noqa: T201
            return 1
        if given.record:
            print(f"recorded in {FILE}: commit it")  # noqa: T201
        return 0
    choice = made(ROOT, datetime.now(UTC), since=given.since, until=given.until)
    lines = [f"everything runs: {choice.everything}"] if choice.everything else [*choice.report, "everything: make test"]
    print("\n".join(lines))  # noqa: T201
    if given.out:
        write(choice, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
