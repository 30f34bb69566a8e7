"""Texts that no id may be, and a log with a stranger's folder beside it: what a read changes of either is seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sidecar.shared.log import storage
from sidecar.shared.log.verification import differences_name, report_name
from tests.unit.control.serving import Owner
from tests.unit.run.test_term_verifications import ALICE, REQUEST, Term

OUTSIDE = "../../home/app"
"""From the folder of verifications to the stranger's folder."""
HOSTILE = (
    "../", OUTSIDE, "..", ".", "/etc/passwd", "a/b", "\0", "a\0b", "x" * 300, "%2e%2e%2f", "%00", "ä" * 16, "а" * 16, "٣" * 16,
    "a\nb", "0123456789abcdef\n", " ", "\t", "a b", "*", "-", "a\u202eb",
)  # fmt: skip


def strangers_folder(log: Path) -> Path:
    """Beside `log`, with files as a verification names its own, and none of them is one."""
    folder = log / "verify" / OUTSIDE
    (log / "verify").mkdir(parents=True, exist_ok=True)
    folder.resolve().mkdir(parents=True)
    for name in ("request.json", "waiting.json", "report.json", "repair.json", "differences-0.jsonl", "stop"):
        (folder.resolve() / name).write_text("a stranger's")
    return folder.resolve()


@contextmanager
def damaged_verification(folder: Path) -> Iterator[tuple[Owner, Term]]:
    """Of an owner whose log is `folder`/log, with a stranger's folder beside it: REQUEST, whose report and differences are none."""
    with Owner() as owner:
        term = Term(folder / "log", owner.history)
        strangers_folder(folder / "log")
        term.made.begin()
        term.made.start(REQUEST, ALICE)
        storage.write_atomically(term.log, report_name(REQUEST.id), b"no report")
        storage.write_atomically(term.log, differences_name(REQUEST.id, 0), b"no differences")
        yield owner, term


def all_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
