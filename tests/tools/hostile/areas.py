"""The areas, in the order of the first report."""

from __future__ import annotations

from tests.tools.hostile import control, files, leaks, push, push_process, unlucky, wrapper
from tests.tools.hostile.attempts import Area

AREAS: tuple[Area, ...] = (control.AREA, push.AREA, push_process.AREA, leaks.AREA, files.AREA, unlucky.AREA, wrapper.AREA)
