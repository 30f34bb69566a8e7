"""How long is tried again where somebody waits: also in the work that is begun there, and as usual elsewhere."""

from __future__ import annotations

from sidecar.shared.process.background import Background
from sidecar.shared.process.patience import patience, patience_s
from tests.support.eventually import eventually


def test_in_the_block_and_in_its_work_nothing_is_tried_for_longer() -> None:
    results: list[float] = []
    with patience(5.0):
        assert (patience_s(60.0), patience_s(2.0)) == (5.0, 2.0)
        with patience(1.0):
            assert patience_s(60.0) == 1.0
        work = Background(lambda _: results.append(patience_s(60.0)), name="asking")
    eventually(lambda: not work.alive)
    assert results == [5.0]
    assert patience_s(60.0) == 60.0
