from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.console import Browser, ServedConsole, browser_of, console_of
from tests.unit.control.serving import Owner


@pytest.fixture
def owner() -> Iterator[Owner]:
    with Owner() as made:
        yield made


@pytest.fixture
def console(owner: Owner, tmp_path: Path) -> Iterator[ServedConsole]:
    with console_of(owner, tmp_path) as served:
        yield served
        assert not served.ended


@pytest.fixture
def browser(console: ServedConsole) -> Browser:
    """Logged in."""
    return browser_of(console, logged_in=True)
