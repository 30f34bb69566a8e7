from __future__ import annotations

import os

import pytest

from tests.support.recorded_target import RecordedLogs


@pytest.fixture(scope="session")
def recorded_logs(tmp_path_factory: pytest.TempPathFactory) -> RecordedLogs:
    """All workers of a run share the folder."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "recorded-logs"
    folder.mkdir(exist_ok=True)
    return RecordedLogs(folder)
