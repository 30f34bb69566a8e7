"""The senders of deploy/push, which are scripts, as modules."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "deploy" / "push"


def sender_script(name: str) -> ModuleType:
    """`send_recording` or `send_messages`; they find `stream` beside them, as they do when they are run."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return importlib.import_module(name)
