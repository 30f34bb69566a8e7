"""One whole replay for all that looks at its end."""

from __future__ import annotations

import pytest

from tests.support.played import Played

BUSY_OPERATOR = 3
"""A seed with a restart, a pause and a resume."""


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder = tmp_path_factory.mktemp("played")
    return Played(folder, seed=BUSY_OPERATOR, crashes=2, report=folder / "report.html", key_life=True)
