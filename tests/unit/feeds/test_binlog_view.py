"""What operators read of a pump that holds the stream."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.binlog.nodes import CLOSING, OFFLINE, ONLINE, PAUSED, Node
from sidecar.feeds.binlog.view import StreamsView, view_of
from sidecar.shared.model.nouns import CommitTs, ts_at

NOW = ts_at(1_795_292_104_815)
MINUTE_AGO = ts_at(1_795_292_044_815)
FRESH = Node("pump-b:8251", "10.0.0.2:8251", ONLINE, MINUTE_AGO, NOW)


@pytest.mark.parametrize(
    ("node", "why", "stuck"),
    [
        (FRESH, "", "it lives and has nothing ready: a transaction whose end it does not know holds it, for ten minutes at most"),
        (replace(FRESH, state=CLOSING), "", "it lives and has nothing ready"),
        (replace(FRESH, max_commit_ts=NOW), "", ""),
        (replace(FRESH, max_commit_ts=NOW), "UNAVAILABLE: refused", "it cannot be read: UNAVAILABLE: refused"),
        (replace(FRESH, state=PAUSED), "UNAVAILABLE: refused", "it is paused and has what nobody else has: start it again"),
        (replace(FRESH, update_ts=MINUTE_AGO), "", "it has not updated its entry since 2026-11-21T20:14:04.815Z: start it again"),
        (replace(FRESH, state=OFFLINE, max_commit_ts=NOW), "gone", "it is offline, and its binlogs up to 2026-11-21T20:15:04.815Z were"),
    ],
)
def test_why_a_pump_is_stuck(node: Node, why: str, stuck: str) -> None:
    reported = view_of(node, MINUTE_AGO, NOW, why, held=False).stuck
    assert reported.startswith(stuck)
    assert bool(reported) == bool(stuck)


def test_one_that_is_held_for_others_or_sent_something_lately_does_not_stand() -> None:
    dead = replace(FRESH, update_ts=MINUTE_AGO)
    assert view_of(dead, MINUTE_AGO, NOW, "", held=True).stuck == ""
    assert view_of(dead, CommitTs(NOW - ts_at(9_000)), NOW, "", held=False).stuck == ""


def test_the_pump_that_is_furthest_behind_is_named_and_since_when() -> None:
    first = view_of(replace(FRESH, state=PAUSED), CommitTs(MINUTE_AGO + 1), NOW, "", held=False)
    second = view_of(replace(FRESH, node_id="pump-a:8250", update_ts=MINUTE_AGO), MINUTE_AGO, NOW, "", held=False)
    view = StreamsView((first, second), NOW, "", 0)
    assert view.held_by().startswith("pump pump-a:8250 (10.0.0.2:8251, online), since 2026-11-21T20:14:04.815Z: it has not updated")
    assert StreamsView((), NOW, "", 0).held_by() == ""
    assert StreamsView((first,), NOW, "no leader", 0).held_by() == "PD, since 2026-11-21T20:15:04.815Z: no leader"
