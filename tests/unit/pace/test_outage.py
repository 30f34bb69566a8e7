"""Since when the source is away, and when it is asked again."""

from __future__ import annotations

from sidecar.pace.outage import AGAIN_AFTER_S, Outage, outage
from sidecar.shared.model.messages import Brackets, ChunkLost, MarkSent, ReadChunk, SendMark, SourceFailed
from sidecar.shared.model.nouns import MarkKind, TableName

MARK = SendMark("u", MarkKind.LOW)
AWAY = SourceFailed(MARK, "no route", "wait", away=True)
READ = ReadChunk("d", 1, 1, TableName("shop", "orders"), None, None, 10, Brackets.SNAPSHOT)
LOST = ChunkLost(READ, "killed", "look at Spark")
REFUSED = SourceFailed(MARK, "no right", "grant it")


def test_it_began_when_the_source_last_answered_and_continues_until_an_answer_of_any_kind() -> None:
    first = outage(None, [AWAY], answered_s=10, now_s=70)
    assert first == Outage(10, 70 + AGAIN_AFTER_S, "no route")
    assert outage(first, [], answered_s=70, now_s=71) is first
    second = outage(first, [AWAY], answered_s=70, now_s=140)
    assert second == Outage(10, 140 + AGAIN_AFTER_S, "no route")
    for answer in (MarkSent("u"), REFUSED):
        assert outage(second, [answer], answered_s=140, now_s=150) is None
        assert outage(second, [answer, AWAY], answered_s=140, now_s=150) == Outage(140, 150 + AGAIN_AFTER_S, "no route")


def test_what_was_not_read_is_not_read_though_a_mark_is_sent() -> None:
    first = outage(None, [SourceFailed(READ, "no task", "look", away=True)], answered_s=10, now_s=70)
    assert outage(first, [MarkSent("u")], answered_s=10, now_s=71) is first
    assert outage(first, [MarkSent("u"), SourceFailed(READ, "no right", "grant it")], answered_s=10, now_s=71) is None


def test_that_a_reader_is_gone_says_nothing_of_the_source() -> None:
    assert outage(None, [LOST], answered_s=10, now_s=70) is None
    first = outage(None, [AWAY], answered_s=10, now_s=70)
    assert outage(first, [LOST], answered_s=70, now_s=71) is first
