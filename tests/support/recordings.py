"""Where the recorded streams of a real cluster are (../shared/recordings/README.md).

`demo` is in the repository and always there. The others are too big for it; a run without them says so, and a run in
CI fails without them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).resolve().parents[2]
_SHARED = _REPOSITORY.parent / "shared" / "recordings"


def recording(name: str) -> Path:
    """The folder of one recording. Skips the test, or fails it when CI=true, if the folder is absent."""
    folder = _REPOSITORY / "tests" / "recordings" / "demo" if name == "demo" else _SHARED / name
    if (folder / "recording.json").is_file():
        return folder
    text = f"the recording {name!r} is absent: {folder} has no recording.json"
    if os.environ.get("CI") == "true":
        pytest.fail(text)
    pytest.skip(text)
