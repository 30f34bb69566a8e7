"""What deploy/KAFKA-MOVE.md says of going from TiCDC's topic to the merged one and back, done with a recorded topic."""

from __future__ import annotations

from itertools import groupby
from random import Random
from zlib import crc32

import pytest

from sidecar.replay.recording import Recording
from sidecar.shared.model.nouns import Change, Ddl, Message, Resolved, physical_ms
from tests.lanes import LANE
from tests.support.recordings import recording

MARGIN_MS = 50
Checking = Change | Ddl | Resolved


class Topic:
    """Lanes of (time, event). Seeking by time is Kafka's: the first record at or after it, by its place and not by its value."""

    def __init__(self, lanes: list[list[tuple[int, Checking]]]) -> None:
        self.lanes = lanes

    def since(self, time_ms: int) -> list[list[Checking]]:
        result = []
        for lane in self.lanes:
            first = next((at for at, (time, _) in enumerate(lane) if time >= time_ms), len(lane))
            result.append([event for _, event in lane[first:]])
        return result


def ts_of(event: Checking) -> int:
    return event.ts if isinstance(event, Resolved) else event.commit_ts


def identity(event: Change | Ddl) -> tuple[object, ...]:
    return (
        event.commit_ts,
        event.schema,
        event.table,
        getattr(event, "query", None),
        getattr(event, "key", None),
        getattr(event, "value", None),
    )


def ticdcs(name: str) -> Topic:
    folder = Recording(recording(name))
    config = folder.feed_config("open-protocol")
    codec = config.codec()
    return Topic(
        [
            [(time, event) for at, (time, key, value) in enumerate(messages) for event in codec.envelopes(Message(lane, at, key, value))]
            for lane, messages in folder.messages(config).items()
        ]
    )


def merged_of(topic: Topic, rng: Random) -> Topic:
    """Each row once, in commit order, in lanes of another number; marks at some of TiCDC's, written when they were behind all before."""
    events = {identity(event): event for lane in topic.lanes for _, event in lane if not isinstance(event, Resolved)}
    last = min(max(ts_of(event) for _, event in lane if isinstance(event, Resolved)) for lane in topic.lanes)
    marks = sorted({event.ts for lane in topic.lanes for _, event in lane if isinstance(event, Resolved) and event.ts < last})
    cuts = [*sorted(rng.sample(marks, len(marks) // 2)), last]
    lanes: list[list[tuple[int, Checking]]] = [[], []]
    rest = sorted((event for event in events.values() if ts_of(event) <= last), key=ts_of)
    for cut, segment in groupby(rest, key=lambda event: next(cut for cut in cuts if ts_of(event) <= cut)):
        time = physical_ms(cut) + rng.randrange(2000)
        time = max(time, lanes[0][-1][0]) if lanes[0] else time
        for event in segment:
            for number in range(2) if isinstance(event, Ddl) else (crc32(event.table.encode()) % 2,):
                lanes[number].append((time, event))
        for lane in lanes:
            lane.append((time, Resolved(event.lane, cut, 0)))  # type: ignore[arg-type]  # a TSO
    return Topic(lanes)


def rows(events: list[Checking]) -> list[tuple[object, ...]]:
    return [identity(event) for event in events if isinstance(event, Change)]


def ddls(events: list[Checking]) -> set[tuple[object, ...]]:
    return {identity(event) for event in events if isinstance(event, Ddl)}


@pytest.mark.recordings
@pytest.mark.parametrize("name", ["ddl", "ddl-new", "restart", "shop"] if LANE.whole else ["ddl"])
def test_nothing_is_missed_and_nothing_comes_twice(name: str) -> None:
    rng = Random(13)
    topic = ticdcs(name)
    merged = merged_of(topic, rng)
    whole = [event for lane in merged.lanes for _, event in lane]
    marks = sorted({event.ts for event in whole if isinstance(event, Resolved)})
    everything, of_ddls = set(rows(whole)), ddls(whole)
    assert len(everything) > 1000
    for mark in rng.sample(marks[:-1], min(12, len(marks) - 1)):
        time = physical_ms(mark) - MARGIN_MS
        of_topic: list[Checking] = []
        for lane in topic.lanes:
            above = next(at for at, (_, event) in enumerate(lane) if isinstance(event, Resolved) and event.ts > mark)
            of_topic += [event for _, event in lane[:above] if ts_of(event) <= mark]
        on = [event for lane in merged.since(time) for event in lane if ts_of(event) > mark]
        assert len(rows(on)) == len(set(rows(on)))
        assert set(rows(of_topic)).isdisjoint(rows(on))
        assert set(rows(of_topic)) | set(rows(on)) == everything
        assert (ddls(of_topic) | ddls(on), ddls(of_topic) & ddls(on)) == (of_ddls, set())

        of_merged: list[Checking] = []
        for lane in merged.lanes:
            there = next(at for at, (_, event) in enumerate(lane) if isinstance(event, Resolved) and event.ts == mark)
            of_merged += [event for _, event in lane[:there]]
        back = [event for lane in topic.since(time) for event in lane if mark < ts_of(event) <= marks[-1]]
        assert set(rows(of_merged)).isdisjoint(rows(back))
        assert set(rows(of_merged)) | set(rows(back)) == everything
        assert (ddls(of_merged) | ddls(back), ddls(of_merged) & ddls(back)) == (of_ddls, set())
