"""Since when the source is away, and when it is asked again."""

from __future__ import annotations

from sidecar.core.messages import MarkSent, SendMark, SourceFailed
from sidecar.core.model import MarkKind
from sidecar.pace.outage import AGAIN_AFTER_S, Outage, outage

MARK = SendMark("u", MarkKind.LOW)
AWAY = SourceFailed(MARK, "no route", "wait", away=True)
REFUSED = SourceFailed(MARK, "no right", "grant it")


def test_it_began_when_the_source_was_last_received_of_and_goes_on_until_an_answer_of_any_kind() -> None:
    first = outage(None, [AWAY], answered_s=10, now_s=70)
    assert first == Outage(10, 70 + AGAIN_AFTER_S, "no route")
    assert outage(first, [], answered_s=70, now_s=71) is first
    second = outage(first, [AWAY], answered_s=70, now_s=140)
    assert second == Outage(10, 140 + AGAIN_AFTER_S, "no route")
    for answer in (MarkSent("u"), REFUSED):
        assert outage(second, [answer], answered_s=140, now_s=150) is None
        assert outage(second, [answer, AWAY], answered_s=140, now_s=150) == Outage(140, 150 + AGAIN_AFTER_S, "no route")
