"""For the tests of pumps as lanes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.feeds.pumps import Place, placed, quick


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    quick(monkeypatch)
    with placed() as made:
        yield made
