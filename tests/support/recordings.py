"""Where the recorded streams of a real cluster are.

The whole set in ../shared/recordings wins where it is there. A clone without it plays the compact copies in tests/recordings, which
hold the same rows of every feed that is read (tests/recordings/README.md), so no test asks which of the two it has. `demo` is small:
the repository has it whole.

TICDC_DUMP_RECORDINGS names another folder for the whole set; where that does not exist, as with the word `compact`, the compact
copies are played whatever lies beside the repository.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

_REPOSITORY = Path(__file__).resolve().parents[2]
_COMPACT = _REPOSITORY / "tests" / "recordings"
_UNPACKED = _REPOSITORY / "build" / "recordings"


def whole_set() -> Path | None:
    """The folder of the whole recordings; None: the compact ones are played."""
    folder = Path(os.environ.get("TICDC_DUMP_RECORDINGS") or _REPOSITORY.parent / "shared" / "recordings")
    return folder if folder.is_dir() else None


@cache
def recording(name: str) -> Path:
    """The folder of one recording. Fails the test if there is none: the repository has a copy of each that a test may ask for."""
    whole, plain, packed = whole_set(), _COMPACT / name, _COMPACT / f"{name}.tar.xz"
    if (plain / "recording.json").is_file():
        return plain
    if whole is not None and (whole / name / "recording.json").is_file():
        return whole / name
    if packed.is_file():
        return _unpacked(name, packed)
    pytest.fail(f"the recording {name!r} is absent: neither {whole or '../shared/recordings'} nor {packed} holds it")


def recorded_cluster(architecture: str) -> dict[str, dict[str, Any]]:
    """What a real cluster's etcd held and its `cdc cli` answered: of `classic` or `new` TiCDC."""
    place = Path("cluster") / f"{architecture}.json"
    whole = whole_set()
    path = whole / place if whole is not None and (whole / place).is_file() else _COMPACT / place
    result: dict[str, dict[str, Any]] = json.loads(path.read_text())
    return result


def real_cluster(name: str) -> Any:
    """Messages as a real TiCDC wrote them to Kafka, for one experiment."""
    return json.loads((_COMPACT / "real-cluster" / name).read_text())


def _unpacked(name: str, packed: Path) -> Path:
    """Once for each content of the archive. Processes may do it at the same time: one of them is first, and each finds all of it."""
    folder = _UNPACKED / hashlib.sha256(packed.read_bytes()).hexdigest()[:16] / name
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent) as made, tarfile.open(packed, "r:xz") as archive:
            archive.extractall(made, filter="data")
            try:
                (Path(made) / name).rename(folder)
            except OSError:
                if not folder.is_dir():
                    raise
    return folder
