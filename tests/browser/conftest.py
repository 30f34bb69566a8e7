"""One Chromium for a module, and a shop's console for a test. All modules go to one worker: a browser takes what a core has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.support.chromium import chromium
from tests.support.console import ServedConsole
from tests.support.console_shop import Shop
from tests.unit.control.serving import Owner


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def owner() -> Iterator[Owner]:
    """Of a shop with a dump under way."""
    with Shop().owner() as made:
        yield made


@pytest.fixture
def console(owner: Owner, tmp_path: Path) -> Iterator[ServedConsole]:
    with Shop().console(owner, tmp_path) as served:
        yield served
        assert not served.ended
