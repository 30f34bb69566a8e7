"""A real file system of a few megabytes, mounted for a test: a disk that can be full."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_volume(path: Path, *, size: str) -> Iterator[Path]:
    """`size` as mount reads it: "1m". Skips the test where this user may not mount; CI must."""
    path.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        assert "CI" not in os.environ, f"CI must be able to mount a tmpfs: {mounted.stderr}"
        pytest.skip(f"a real full disk needs the right to mount a tmpfs: {mounted.stderr}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill(volume: Path) -> Path:
    """Take all that is left, by one file; remove it to make room."""
    filler = volume / "filler"
    with pytest.raises(OSError, match="No space"):
        _write_for_ever(filler)
    return filler


def _write_for_ever(path: Path) -> None:
    with path.open("ab", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
