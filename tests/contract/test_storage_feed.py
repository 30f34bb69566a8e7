"""What every Feed keeps (test_feeds.py), of one whose positions are TSOs: the recording `demo` in the folder of a storage sink, on a disk
and in S3 (moto)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import count
from random import Random

import pytest

from sidecar.feeds.encoded.files import feed_error
from sidecar.feeds.storage.feed import StorageFeed
from sidecar.feeds.storage.reading import LANE, BucketReading, lines
from sidecar.replay.recording import Recording
from sidecar.shared.codecs.canal_json import CanalJson
from sidecar.shared.config import StorageSection
from sidecar.shared.errors import FeedError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import Change, CommitTs, Lane, Message, Resolved, TableName
from tests.contract.test_feeds import logged
from tests.support.buckets import BucketRow, BucketSink
from tests.support.eventually import eventually
from tests.support.recordings import recording
from tests.support.services.s3 import S3

CODEC = CanalJson()
FOLDERS = count()
Open = Callable[[], StorageFeed]
Identity = tuple[CommitTs, Hashable]


@pytest.fixture(scope="module")
def changes() -> list[Change]:
    """As Kafka had them, in their order."""
    source = Recording(recording("demo"))
    config = source.feed_config("canal-json")
    messages = (Message(lane, at, one.key, one.value) for lane, many in source.messages(config).items() for at, one in enumerate(many))
    envelopes = (one for message in messages for one in CODEC.envelopes(message))
    return sorted((one for one in envelopes if isinstance(one, Change)), key=lambda one: one.commit_ts)


@pytest.fixture(scope="module")
def bucket(changes: list[Change], tmp_path_factory: pytest.TempPathFactory) -> BucketSink:
    """Three crashes on its way."""
    sink = BucketSink(tmp_path_factory.mktemp("bucket"), Random(4), overwrites=True)
    sink.rows = [BucketRow(TableName(one.schema, one.table), one.commit_ts, one.value) for one in changes]
    crashes = 3
    while sink.checkpoint < changes[-1].commit_ts:
        sink.flush()
        if crashes and sink.rng.random() < 0.4:
            sink.crash()
            crashes -= 1
        else:
            sink.mark()
    return sink


@pytest.fixture(scope="module", params=["disk", "s3"])
def folder(request: pytest.FixtureRequest, bucket: BucketSink) -> Iterator[Folder]:
    with ExitStack() as stack:
        if request.param == "disk":
            yield open_folder(str(bucket.root)).opened_for(feed_error)
            return
        there = open_folder(stack.enter_context(S3()).uri(f"feed-{next(FOLDERS)}", keys=True)).opened_for(feed_error)
        files = {path.relative_to(bucket.root).as_posix(): path.read_bytes() for path in bucket.root.rglob("*") if path.is_file()}
        storage.write_all(there, files)
        yield there


@pytest.fixture
def opened(folder: Folder) -> Iterator[Open]:
    """Each call is another owner."""
    with ExitStack() as held:

        def feed() -> StorageFeed:
            reading = partial(BucketReading, folder, lines, form="json")
            return held.enter_context(
                closing(StorageFeed(folder, reading, begins=lambda: CommitTs(0), settings=StorageSection(look_s=0.1)))
            )

        yield feed


def until(feed: StorageFeed, ts: CommitTs) -> list[Message]:
    messages: list[Message] = []

    def ended() -> bool:
        messages.extend(feed.poll(timeout_s=0.05))
        return any(isinstance(one, Resolved) and one.ts >= ts for message in messages for one in CODEC.envelopes(message))

    eventually(ended, "it does not end")
    return messages


def below_the_end(changes: list[Change]) -> list[CommitTs]:
    """At the end itself nothing comes until `metadata` moves."""
    return sorted({one.commit_ts for one in changes})[:-1]


def identities(messages: list[Message]) -> set[Identity]:
    envelopes = (one for message in messages for one in CODEC.envelopes(message))
    return {(one.commit_ts, CODEC.identity(one)) for one in envelopes if isinstance(one, Change)}


def test_a_new_log_reads_every_change_that_kafka_had_and_no_other(opened: Open, bucket: BucketSink, changes: list[Change]) -> None:
    feed = opened()
    feed.seek({})
    assert identities(until(feed, bucket.checkpoint)) == {(one.commit_ts, CODEC.identity(one)) for one in changes}
    assert feed.lanes() == feed.incarnations().keys() == {LANE}
    assert feed.read_ends() == {}, "of nothing that is not durable"
    feed.acknowledge({LANE: bucket.checkpoint - 1})
    assert feed.read_ends() == {}
    feed.acknowledge({LANE: bucket.checkpoint + 1})
    end = feed.read_ends()[LANE]
    assert end.position > 0
    assert end.epoch > 0
    assert logged(feed).read_ends == feed.read_ends()


def test_resolved_never_passes_a_row_that_is_still_to_come(opened: Open, bucket: BucketSink) -> None:
    feed = opened()
    feed.seek({})
    seen, missing_until = set[Identity](), list[tuple[CommitTs, set[Identity]]]()
    messages = until(feed, bucket.checkpoint)
    for message in messages:
        seen |= identities([message])
        missing_until += [(one.ts, set(seen)) for one in CODEC.envelopes(message) if isinstance(one, Resolved)]
    for ts, before in missing_until:
        assert not [one for one in identities(messages) - before if one[0] <= ts]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_seeking_to_a_position_delivers_all_that_is_committed_after_it(
    opened: Open, bucket: BucketSink, changes: list[Change], share: float
) -> None:
    at = below_the_end(changes)[round(share * (len(below_the_end(changes)) - 1))]
    feed = opened()
    feed.seek({LANE: at})
    assert {(one.commit_ts, CODEC.identity(one)) for one in changes if one.commit_ts >= at} <= identities(until(feed, bucket.checkpoint))


def test_another_owner_that_knows_how_far_it_was_read_reads_on(opened: Open, bucket: BucketSink, changes: list[Change]) -> None:
    first = opened()
    first.seek({})
    until(first, bucket.checkpoint)
    first.acknowledge({LANE: bucket.checkpoint + 1})
    second = opened()
    second.seek({LANE: below_the_end(changes)[-1]}, first.incarnations(), first.read_ends())
    assert identities(until(second, bucket.checkpoint))


@pytest.mark.parametrize("name", ["kafka/no-such-topic/0", "tables/shop.orders", "storage/x"])
def test_a_lane_that_the_feed_does_not_have_is_refused(opened: Open, name: str) -> None:
    with pytest.raises(FeedError, match=name):
        opened().seek({Lane(name): 0})
