"""Whether a resume left something out, by the checkpoints before and at it."""

from __future__ import annotations

import pytest

from sidecar.shared.model.nouns import CommitTs, ts_at
from sidecar.shared.ticdc.resumes import Life, skipped

PAUSED, OVERWRITTEN = CommitTs(470625222142197776), CommitTs(470625225249652748)
"""What a real cluster had when the changefeed was paused, and a change that the overwritten checkpoint left out."""


@pytest.mark.parametrize("state", ["stopped", "failed", "finished"])
def test_a_checkpoint_that_was_overwritten_ahead_is_a_gap(state: str) -> None:
    assert skipped(Life(7, state, PAUSED), Life(8, "normal", OVERWRITTEN)) == (PAUSED, OVERWRITTEN)


@pytest.mark.parametrize(
    ("before", "at"),
    [
        (Life(7, "stopped", PAUSED), Life(8, "normal", PAUSED)),
        (Life(7, "stopped", PAUSED), Life(8, "normal", CommitTs(PAUSED + ts_at(4_000)))),
        (Life(7, "stopped", PAUSED), Life(8, "normal", CommitTs(PAUSED - ts_at(60_000)))),
        (Life(7, "warning", PAUSED), Life(8, "normal", OVERWRITTEN)),
        (Life(7, "normal", PAUSED), Life(8, "stopped", OVERWRITTEN)),
        (Life(7, "stopped", None), Life(8, "normal", OVERWRITTEN)),
    ],
    ids=["as it was", "saved late", "back", "by itself", "a pause", "never ran"],
)
def test_nothing_else_is(before: Life, at: Life) -> None:
    assert skipped(before, at) is None
