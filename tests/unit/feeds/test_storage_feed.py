"""The Feed over a storage sink's folder: it waits where the storage does not answer, holds no more than it may, ends when it is closed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from sidecar.feeds.contract import HIDDEN_LANE
from sidecar.feeds.encoded.files import feed_error
from sidecar.feeds.storage import feed as module
from sidecar.feeds.storage.feed import StorageFeed
from sidecar.feeds.storage.reading import LANE, BucketReading, lines
from sidecar.feeds.storage.unread import FolderTimes, ReadFrom
from sidecar.shared.codecs.canal_json import CanalJson, encode_resolved
from sidecar.shared.config import StorageSection
from sidecar.shared.errors import FeedLost, FeedUnsuitable
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder, Unreachable, open_folder
from sidecar.shared.model.nouns import Change, CommitTs, Lane, Message, Resolved
from tests.support.buckets import BucketSink
from tests.support.eventually import eventually

CODEC = CanalJson()
LOOK_S = 0.1


def bucket(root: Path, *, rows: int = 40) -> BucketSink:
    sink = BucketSink(root, Random(5), dated=False)
    sink.commit(rows)
    while sink.checkpoint < sink.rows[-1].commit_ts:
        sink.flush()
        sink.mark()
    return sink


def opened(root: Path, *, begins: int = 0, queue_bytes_max: int = 1 << 20) -> StorageFeed:
    folder = open_folder(str(root)).opened_for(feed_error)
    return StorageFeed(
        folder,
        lambda start: BucketReading(folder, lines, start, form="json"),
        begins=lambda: CommitTs(begins),
        settings=StorageSection(look_s=LOOK_S, queue_bytes_max=queue_bytes_max),
    )


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[StorageFeed]:
    with closing(opened(tmp_path)) as result:
        yield result


def until_mark(feed: StorageFeed, ts: CommitTs) -> list[Message]:
    messages: list[Message] = []

    def there() -> bool:
        messages.extend(feed.poll(timeout_s=0.05))
        return any(isinstance(one, Resolved) and one.ts >= ts for message in messages for one in CODEC.envelopes(message))

    eventually(there, "no mark comes")
    return messages


def commits(messages: list[Message]) -> list[CommitTs]:
    return [one.commit_ts for message in messages for one in CODEC.envelopes(message) if isinstance(one, Change)]


def test_a_new_log_gets_all_or_what_comes_after_where_it_begins(tmp_path: Path, feed: StorageFeed) -> None:
    sink = bucket(tmp_path)
    feed.seek({})
    assert sorted(commits(until_mark(feed, sink.checkpoint))) == [row.commit_ts for row in sink.rows]
    middle = sink.rows[20].commit_ts
    with closing(opened(tmp_path, begins=middle)) as later:
        later.seek({})
        wanted = {row.commit_ts for row in sink.rows if row.commit_ts > middle}
        assert wanted <= set(commits(until_mark(later, sink.checkpoint)))


def test_reading_goes_on_where_a_mark_said_with_all_that_follows_it(tmp_path: Path, feed: StorageFeed) -> None:
    sink = bucket(tmp_path)
    feed.seek({})
    messages = until_mark(feed, sink.checkpoint)
    assert feed.lanes() == {LANE}
    assert feed.incarnations().keys() == {LANE}
    assert [message.position for message in messages] == sorted(message.position for message in messages)
    sink.commit(10)
    while sink.checkpoint < sink.rows[-1].commit_ts:
        sink.flush()
        sink.mark()
    feed.seek({LANE: messages[-1].position, HIDDEN_LANE: 7})
    assert {row.commit_ts for row in sink.rows[40:]} <= set(commits(until_mark(feed, sink.checkpoint)))


def test_a_position_of_another_feed_is_refused(feed: StorageFeed) -> None:
    with pytest.raises(FeedUnsuitable, match="kafka/orders/1, which is not what TiCDC's storage sink brings"):
        feed.seek({Lane("kafka/orders/1"): 3})


def test_what_is_not_taken_is_bounded_and_reading_waits(tmp_path: Path) -> None:
    sink = bucket(tmp_path, rows=200)
    with closing(opened(tmp_path, queue_bytes_max=3000)) as feed:
        feed.seek({})
        eventually(lambda: feed._queue_bytes > 2000, "nothing is read")
        time.sleep(3 * LOOK_S)
        assert feed._queue_bytes <= 3000
        assert len(commits(until_mark(feed, sink.checkpoint))) == 200
        assert feed._queue_bytes == 0


def test_a_storage_that_is_away_is_waited_for_and_then_ends_the_term(
    tmp_path: Path, feed: StorageFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, away, reads = bucket(tmp_path), threading.Event(), storage.read_if_there

    def read(folder: Folder, name: str) -> bytes | None:
        if away.is_set():
            raise Unreachable("no answer")
        return reads(folder, name)

    monkeypatch.setattr(storage, "read_if_there", read)
    away.set()
    feed.seek({})
    eventually(lambda: "does not answer: no answer" in feed.still_because(), "nothing is said")
    assert feed.poll(timeout_s=0.0) == []
    away.clear()
    assert len(commits(until_mark(feed, sink.checkpoint))) == 40
    monkeypatch.setattr(module, "OUTAGE_MAX_S", 0.2)
    away.set()
    with pytest.raises(FeedLost, match=r"has not answered for 0.2 s") as raised:
        eventually(lambda: feed.poll(timeout_s=0.05) is None, "it does not stop")
    assert raised.value.retryable


def test_it_says_why_nothing_comes(tmp_path: Path, feed: StorageFeed) -> None:
    feed.seek({})
    eventually(lambda: "has no metadata" in feed.still_because(), "nothing is said")
    sink = bucket(tmp_path)
    until_mark(feed, sink.checkpoint)
    eventually(lambda: f"completed nothing after {sink.checkpoint}" in feed.still_because(), "nothing is said")
    sink.put("metadata", b'{"checkpoint-ts":%d}' % sink.rows[3].commit_ts)
    eventually(lambda: "has begun again from a checkpoint, or another changefeed" in feed.still_because(), "nothing is said")


def test_what_is_wrong_is_raised_by_poll(tmp_path: Path, feed: StorageFeed) -> None:
    (tmp_path / "metadata").write_bytes(b"{")
    feed.seek({})
    with pytest.raises(Exception, match="metadata is not what TiCDC's storage sink writes"):
        eventually(lambda: feed.poll(timeout_s=0.05) is None, "it does not stop")


def test_close_ends_the_thread_even_where_nobody_takes(tmp_path: Path) -> None:
    bucket(tmp_path, rows=100)
    feed = opened(tmp_path, queue_bytes_max=100)
    feed.seek({})
    eventually(lambda: feed._queue_bytes > 0, "nothing is read")
    work = feed._work
    assert work is not None
    feed.close()
    eventually(lambda: not work.alive, "the thread does not end")


def test_it_says_so_where_the_storage_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OUTAGE_MAX_S", 0.05)
    slow = Slow()
    with closing(
        StorageFeed(open_folder(str(tmp_path)), lambda _: slow, begins=lambda: CommitTs(0), settings=StorageSection(look_s=LOOK_S))  # type: ignore[arg-type,return-value]  # it has what is called
    ) as feed:
        feed.seek({})
        eventually(lambda: f"{tmp_path} has been listed or read for" in feed.still_because(), "nothing is said")
        slow.may_end.set()
        eventually(lambda: "has no metadata" in feed.still_because(), "it is said for ever")


class Slow:
    """A reading whose look takes longer than a close waits."""

    position, times, seen_ts = 0, FolderTimes(), None

    def __init__(self) -> None:
        self.began, self.may_end = threading.Event(), threading.Event()

    def look(self) -> Iterator[Message]:
        self.began.set()
        self.may_end.wait()
        yield Message(LANE, 7, *encode_resolved(7, 0))


def test_a_thread_that_is_left_behind_brings_nothing_to_a_later_seek(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLOSE_S", 0.01)
    folder, slow = open_folder(str(tmp_path)).opened_for(feed_error), Slow()
    readings = iter([slow, BucketReading(folder, lines, ReadFrom(0), form="json")])
    with closing(
        StorageFeed(folder, lambda _: next(readings), begins=lambda: CommitTs(0), settings=StorageSection(look_s=LOOK_S))  # type: ignore[arg-type,return-value]  # it has what is called
    ) as feed:
        feed.seek({})
        slow.began.wait()
        left = feed._work
        feed.seek({})
        slow.may_end.set()
        eventually(lambda: left is not None and not left.alive, "the thread does not end")
        assert feed.poll(timeout_s=0.0) == []
