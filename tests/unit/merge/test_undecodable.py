"""A row that cannot be decoded holds every sink, until an operator leaves it out: then all outputs are the rule's without that row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from sidecar.shared.errors import FeedUnsuitable, RefusedRequest
from sidecar.shared.log import storage
from sidecar.shared.log.delivery_report import DELIVERED_NAME, DeliveryReport
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.skips import Skip, read_skips
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.sink_delivery import SinkDelivery
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.log.undecodable import Decoding, leave_out, undecodable
from spark_merge.merge.rule import OutputRow
from spark_merge.port.contract import Sink
from spark_merge.sinks.files.sink import FileSink
from spark_merge.sinks.memory.committing import CommittingSink
from spark_merge.sinks.memory.hidden import HiddenSink
from spark_merge.sinks.memory.target import target
from spark_merge.testing.histories import SEGMENTS, RandomHistory, check, poison, random_history, write_log
from spark_merge.testing.places import Here
from tests.support.sinks import place_of

HOW = Decoding()
SEQ = 2


@pytest.fixture
def history() -> RandomHistory:
    result = random_history(Random(5))
    poison(result, SEQ, 3)
    return result


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path / "log"))


@pytest.fixture
def manifests(log: Folder, history: RandomHistory) -> list[Manifest]:
    return write_log(log, history)


def left_out(log: Folder, *ordinals: int, seq: int = SEQ) -> list[Skip]:
    return [skip for skip, _ in leave_out(log, Seq(seq), ordinals or None, HOW, by="me@here", now_ms=5)]


def deliver(log: Folder, to: Sink) -> None:
    delivery = Delivery(to, JobSettings(log), Here())
    while delivery.deliver():
        pass


def files(tmp_path: Path, file_format: str) -> FileSink:
    return FileSink(open_folder(str(tmp_path / file_format)), log_id="log-1", file_format=file_format)  # type: ignore[arg-type]  # one of two


def test_a_row_that_cannot_be_decoded_is_named_by_its_place_and_holds_every_sink(
    log: Folder, manifests: list[Manifest], tmp_path: Path
) -> None:
    sink = files(tmp_path, "jsonl")
    with pytest.raises(FeedUnsuitable) as refused:
        deliver(log, sink)
    assert f"(segment {SEQ}, ordinal 3 of the log)" in refused.value.message
    assert f"ticdc-dump skip --config FILE --seq {SEQ} --ordinal 3" in refused.value.hint
    result_last = sink.look()
    assert result_last is None or result_last.seq < SEQ
    (skip,) = undecodable(log, Seq(SEQ), HOW)
    assert (skip.seq, skip.ordinal, skip.reason) == (SEQ, 3, refused.value.message)
    assert undecodable(log, Seq(0), HOW) == []


def test_all_segments_before_it_are_delivered_though_they_were_one_batch(log: Folder, history: RandomHistory, tmp_path: Path) -> None:
    for windows in history.windows:
        windows.clear()
    history.changes[4:] = [[], []]
    poison(history, 3, 0)
    poisoned = history.changes[SEQ][3]
    history.changes[SEQ][3] = poisoned._replace(value=poisoned.value.replace(b'"id": "blob"', b'"id": "varchar"'))
    write_log(log, history)
    for sink in (files(tmp_path, "jsonl"), HiddenSink(f"before-{tmp_path}", log_id="log-1")):
        with pytest.raises(FeedUnsuitable, match="segment 3, ordinal 0"):
            deliver(log, sink)
        assert (result := sink.look()) is not None
        assert result.seq == 2


def test_a_sink_that_has_begun_a_batch_is_given_no_other_one(log: Folder, history: RandomHistory, tmp_path: Path) -> None:
    for windows in history.windows:
        windows.clear()
    write_log(log, history)
    sink = CommittingSink(f"begun-{tmp_path}", log_id="log-1")
    for _ in range(2):
        with pytest.raises(FeedUnsuitable):
            deliver(log, sink)
        assert sink.look() is None
    left_out(log, 3)
    deliver(log, sink)
    assert (result := sink.look()) is not None
    assert result.seq == SEGMENTS - 1


def test_a_batch_that_was_begun_continues_where_it_was_stuck_once_the_row_is_skipped(log: Folder, tmp_path: Path) -> None:
    """With windows on both sides of the row; by workers one after another, of which none takes back or repeats what is seen."""
    name, history = f"stood-{tmp_path}", random_history(Random(5))
    poison(history, 4, 0)
    manifests = write_log(log, history)
    for _ in range(2):
        with pytest.raises(FeedUnsuitable, match="segment 4, ordinal 0"):
            deliver(log, CommittingSink(name, log_id="log-1"))
    seen = list(target(name).rows)
    assert any(target(name).slots.values()), "a part of it is done"
    left_out(log, 0, seq=4)
    deliver(log, CommittingSink(name, log_id="log-1"))
    rows = target(name).rows
    assert rows[: len(seen)] == seen
    assert sorted(rows, key=comparable) == sorted(history.merged(manifests), key=comparable)


def test_once_it_is_left_out_every_output_is_the_rules_without_it(
    log: Folder, history: RandomHistory, manifests: list[Manifest], tmp_path: Path
) -> None:
    """Windows that reach back over it too; before and after a sink had come to it; however it is cut."""
    with pytest.raises(FeedUnsuitable):
        deliver(log, files(tmp_path, "jsonl"))
    (skip,) = left_out(log, 3)
    assert skip.value == history.changes[SEQ][3].value
    assert read_skips(log) == [skip]
    deliver(log, files(tmp_path, "jsonl"))
    deliver(log, files(tmp_path, "parquet"))
    deliver(log, HiddenSink(f"left-out-{tmp_path}", log_id="log-1"))
    check(history, manifests, open_folder(str(tmp_path / "jsonl")))
    hidden = target(f"left-out-{tmp_path}").rows
    assert sorted(hidden, key=comparable) == sorted(history.merged(manifests), key=comparable)
    parquet = {table: len(rows) for table, rows in place_of(f"file://{tmp_path}/parquet?format=parquet").rows().items()}
    assert parquet == {table: sum(row.table == table for row in hidden) for table in parquet}
    assert sum(parquet.values()) == len(hidden)


def comparable(row: OutputRow) -> str:
    return repr(row)


def test_a_segment_of_which_all_is_left_out_is_delivered_empty(log: Folder, history: RandomHistory, tmp_path: Path) -> None:
    for ordinal in range(len(history.changes[SEQ])):
        if ordinal != 3:
            poison(history, SEQ, ordinal)
    manifests = write_log(log, history)
    assert [skip.ordinal for skip in left_out(log)] == list(range(len(history.changes[SEQ])))
    deliver(log, files(tmp_path, "jsonl"))
    check(history, manifests, open_folder(str(tmp_path / "jsonl")))


def test_a_row_that_can_be_decoded_is_never_left_out_nor_one_that_is_not_there(log: Folder, manifests: list[Manifest]) -> None:
    with pytest.raises(RefusedRequest, match=f"ordinal 4 of segment {SEQ} can be decoded here"):
        left_out(log, 3, 4)
    with pytest.raises(RefusedRequest, match=r"ordinal 999 of segment 2 is not there: the segment has [0-9]+ rows"):
        left_out(log, 999)
    with pytest.raises(RefusedRequest, match="segment 99 is not in the log"):
        left_out(log, 3, seq=99)
    assert read_skips(log) == [], "what is refused leaves nothing behind"


def test_a_segment_that_a_sink_has_is_not_touched(log: Folder, manifests: list[Manifest]) -> None:
    sinks = (SinkDelivery("a", Seq(SEQ)), SinkDelivery("b", Seq(0)))
    report = DeliveryReport(Seq(0), CommitTs(1), "running", 1, sinks=sinks)
    storage.write_atomically(log, DELIVERED_NAME, report.to_json())
    with pytest.raises(RefusedRequest, match=f"segment {SEQ} is delivered to a: "):
        left_out(log, 3)
    storage.write_atomically(log, DELIVERED_NAME, replace(report, sinks=(), log="0" * 32).to_json())
    with pytest.raises(RefusedRequest, match="what the sinks have is not known: delivered"):
        left_out(log, 3)
    storage.write_atomically(log, DELIVERED_NAME, b"{")
    with pytest.raises(RefusedRequest, match="what the sinks have is not known"):
        left_out(log, 3)


def test_requested_again_it_is_as_it_was(log: Folder, manifests: list[Manifest]) -> None:
    (skip,) = left_out(log, 3)
    storage.write_atomically(log, DELIVERED_NAME, DeliveryReport(Seq(SEQ), CommitTs(1), "running", 1).to_json())
    assert leave_out(log, Seq(SEQ), [3], HOW, by="another", now_ms=9) == [(skip, False)]


def test_what_is_left_out_stays_out_though_it_could_be_decoded(log: Folder, tmp_path: Path) -> None:
    """By a later version, or another setting: all outputs are the same."""
    history = random_history(Random(5))
    ordinal, change = next((number, one) for number, one in enumerate(history.changes[SEQ]) if b'"type": "INSERT"' in one.value)
    manifests = write_log(log, history)
    (log_path := tmp_path / "log" / "skips").mkdir()
    (log_path / f"{SEQ:020d}-{ordinal:010d}.json").write_text("{}")
    deliver(log, files(tmp_path, "jsonl"))
    history.rows[:] = [row for row in history.rows if (row.seq, row.ordinal) != (SEQ, ordinal)]
    check(history, manifests, open_folder(str(tmp_path / "jsonl")))
    assert TableName(change.schema, change.table) in {row.table for row in history.rows}
