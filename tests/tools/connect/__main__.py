"""python -m tests.tools.connect [--only READER] [--case still|amid]: readers that nobody here wrote, and whether they end with the source's
rows. Exit code 0 if all do, 1 if one does not, 3 if nothing could be judged."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.support.services.jars import jars
from tests.tools.connect.judge import POM, Verdict, judged
from tests.tools.connect.kinds import AMID, KINDS, STILL

EXIT_DIFFERENT, EXIT_FAILED = 1, 3
WIDTH = 200
CASES = {"still": STILL, "amid": AMID}


def table(verdicts: Sequence[Verdict], *, title: str) -> Table:
    shown = Table("reader", "records", "rows", "verdict", "kept from it", title=title)
    for one in verdicts:
        verdict = "equal" if not one.differences else "\n".join(one.differences)
        shown.add_row(one.reader, f"{one.records:,}", f"{one.rows:,}", verdict, ", ".join(sorted(one.limits)))
    return shown


def reasons(verdicts: Sequence[Verdict]) -> list[str]:
    """Each limit once, with the columns and the readers that it concerns."""
    by_reason: dict[str, tuple[set[str], set[str]]] = {}
    for one in verdicts:
        for column, reason in one.limits.items():
            columns, readers = by_reason.setdefault(reason, (set(), set()))
            columns.add(column)
            readers.add(one.reader)
    return [f"{', '.join(sorted(columns))} ({', '.join(sorted(readers))}): {why}" for why, (columns, readers) in by_reason.items()]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.connect", description="Judge protocol=debezium by its readers.")
    parser.add_argument("--only", action="append", choices=[kind.name for kind in KINDS], metavar="READER", help="may be repeated")
    parser.add_argument("--case", action="append", choices=CASES, help="without or amid schema changes; default: both")
    args = parser.parse_args(arguments)
    kinds = [kind for kind in KINDS if not args.only or kind.name in args.only]
    console, different = Console(width=None if sys.stdout.isatty() else WIDTH), False
    root = Path(tempfile.mkdtemp(prefix="connect-"))
    try:
        jars(POM)
        for name in args.case or CASES:
            verdicts = judged(root / name, CASES[name], kinds)
            console.print(table(verdicts, title=f"{CASES[name]}"), *reasons(verdicts), sep="\n", markup=False)
            different |= any(one.differences for one in verdicts)
    except RuntimeError as error:
        sys.stderr.write(f"connect: {error}\n")
        return EXIT_FAILED
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return EXIT_DIFFERENT if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
