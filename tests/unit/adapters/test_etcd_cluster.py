"""PD's other members: those that answer from here, and those that do not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sidecar.adapters.etcd import cluster
from sidecar.adapters.etcd.cluster import other_members


def test_members_that_do_not_answer_from_here_are_not_among_those_that_do(monkeypatch: pytest.MonkeyPatch) -> None:
    there = ("pd-0:2379", "pd-1:2379", "pd-2:2379")
    client = SimpleNamespace(section=SimpleNamespace(endpoints=("pd-0:2379",)), members=lambda: there)
    monkeypatch.setattr(cluster, "_answers", lambda _, endpoint: endpoint != "pd-2:2379")
    assert other_members(cast("Any", client)) == (("pd-1:2379",), ("pd-2:2379",))
