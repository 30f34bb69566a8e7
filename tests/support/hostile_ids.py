"""Texts that no id may be, and a log with a stranger's folder beside it: what a read changes of either is seen."""

from __future__ import annotations

from pathlib import Path

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


def all_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
