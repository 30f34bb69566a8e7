"""A recording's pumps, played: what a mark is, what the same play gives, what the rows come to."""

from __future__ import annotations

import pytest

from sidecar.feeds.binlog.joining import PUMPS_LANE, lane_of
from sidecar.replay.binlog import BinlogRecording, RecordedPumps
from sidecar.replay.binlog_rows import transaction
from sidecar.replay.feed import Play
from sidecar.replay.net_rows import net_rows, without_false_deletes
from sidecar.replay.recorded_line import RowChange
from sidecar.replay.recording import Recording
from sidecar.shared.codecs.binlog import BinlogCodec
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Change, CommitTs, Mark, MarkKind, Message
from tests.support.recordings import recording

pytestmark = pytest.mark.recordings


@pytest.fixture(scope="module")
def made() -> BinlogRecording:
    return BinlogRecording(Recording(recording("binlog")))


def pumps(made: BinlogRecording, seed: int) -> RecordedPumps:
    recorded_pumps = RecordedPumps(made, Play(seed=seed, resends=2, batch_messages_max=200))
    recorded_pumps.seek({PUMPS_LANE: made.recording.start_ts})
    return recorded_pumps


def test_a_mark_is_read_as_it_was_written(made: BinlogRecording) -> None:
    codec, ts = BinlogCodec(lambda: made.mark_table), CommitTs(made.recording.end_ts + 5)
    previous = None
    for uuid, kind in (("a" * 32, MarkKind.LOW), ("b" * 32, MarkKind.HIGH)):
        key, value = made.encode_mark(commit_ts=ts, row_id=1, changefeed_id="replay", uuid=uuid, kind=kind, previous=previous, now_ms=5000)
        (change,) = (one for one in codec.envelopes(Message(lane_of("a"), ts, key, value)) if isinstance(one, Change))
        assert codec.mark(change) == Mark(ts, "replay", uuid, kind)
        previous = uuid, kind


def test_negative_and_long_values_are_as_tidb_writes_them(made: BinlogRecording) -> None:
    texts: dict[str, int | str] = {"id": -1, "changefeed_id": "x" * 200, "unique_identifier": "u"}
    texts |= {"event_type": 1, "create_time": 0, "update_time": 1 << 30}
    value = transaction(made.mark_table, CommitTs(5), None, texts)
    codec = BinlogCodec(lambda: made.mark_table)
    (change,) = (one for one in codec.envelopes(Message(lane_of("a"), 5, None, value)) if isinstance(one, Change))
    assert codec.mark(change) == Mark(CommitTs(5), "x" * 200, "u", MarkKind.LOW)


def test_equal_plays_are_equal_and_others_are_not(made: BinlogRecording) -> None:
    plays = [pumps(made, seed) for seed in (1, 1, 2)]
    one, same, other = ([message for _ in range(50) for message in play.poll(timeout_s=0)] for play in plays)
    assert one == same
    assert one != other


def test_a_mark_comes_above_all_that_was_streamed(made: BinlogRecording) -> None:
    played = pumps(made, 3)
    for _ in range(5):
        played.poll(timeout_s=0)
    ts = played.now_ts()
    _, value = made.encode_mark(commit_ts=ts, row_id=1, changefeed_id="r", uuid="u" * 32, kind=MarkKind.LOW, previous=None, now_ms=5)
    played.inject(ts, None, value)
    with pytest.raises(ValueError, match="is late"):
        played.inject(CommitTs(made.recording.start_ts + 1), None, value)
    for _ in range(2000):
        if any(message.value == value for message in played.poll(timeout_s=0)):
            break
    else:
        pytest.fail("it never came")


def test_rows_come_to_the_truth_and_no_deletion_of_this_recording_is_false(made: BinlogRecording) -> None:
    changes = net_rows(made.schemas(), made.jobs(), made.changes, made.recording.end_ts)
    assert [change.commit_ts for change in changes] == sorted(change.commit_ts for change in changes)
    assert all(change.before or change.after for change in changes)
    assert without_false_deletes(made.recording, changes) == (changes, [])


def test_a_row_that_is_deleted_and_still_in_the_truth_was_not_deleted(made: BinlogRecording) -> None:
    """What UPDATE IGNORE leaves: nothing writes the row again."""
    results = net_rows(made.schemas(), made.jobs(), made.changes, made.recording.end_ts)
    kept = [change for change in results if change.after and change.table.table == "customer"][-1]
    false = RowChange(made.recording.end_ts, kept.table, kept.physical_id, kept.after, None)
    changes, false_deletes = without_false_deletes(made.recording, [*results, false])
    assert changes == results
    assert [(one.table, one.commit_ts) for one in false_deletes] == [(kept.table, made.recording.end_ts)]


def test_a_recording_without_pumps_is_refused() -> None:
    with pytest.raises(FeedUnsuitable, match="no binlogs"):
        BinlogRecording(Recording(recording("demo")))
