from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="rewrite the expected parts of tests/scenarios/*.txt")


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Pytest reads this file's option only if this folder is named on its command line; else it is as if not given."""
    return bool(request.config.getoption("rewrite", default=False))
