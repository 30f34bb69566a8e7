"""The limit of descriptors: raised as far as the system lets, never lowered; a server's part of it."""

from __future__ import annotations

import resource

import pytest

from sidecar.shared.process.descriptors import CONNECTIONS_MAX, DESCRIPTORS_MAX, connections_max, raise_limit

ENDLESS = resource.RLIM_INFINITY


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """`[soft, hard]`, in the system's place."""
    results = [1024, 4096]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(results))
    monkeypatch.setattr(resource, "setrlimit", lambda _, given: results.__setitem__(slice(None), given))
    return results


@pytest.mark.parametrize(
    ("soft", "hard", "then"),
    [
        (1024, 4096, 4096),
        (4096, 4096, 4096),
        (1024, ENDLESS, DESCRIPTORS_MAX),
        (DESCRIPTORS_MAX * 2, DESCRIPTORS_MAX * 4, DESCRIPTORS_MAX * 2),
        (ENDLESS, ENDLESS, ENDLESS),
    ],
)
def test_the_limit_is_raised_to_the_hard_one_and_never_lowered(limits: list[int], soft: int, hard: int, then: int) -> None:
    limits[:] = soft, hard
    assert raise_limit() == then
    assert limits == [then, hard]


@pytest.mark.parametrize(("soft", "most"), [(1 << 20, CONNECTIONS_MAX), (ENDLESS, CONNECTIONS_MAX), (1024, 128), (256, 32), (4, 1)])
def test_a_server_has_a_part_of_them_at_most(limits: list[int], soft: int, most: int) -> None:
    limits[0] = soft
    assert connections_max() == most
