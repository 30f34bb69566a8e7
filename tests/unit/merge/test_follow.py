"""Whether a log goes on from what an output has."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log.layout import manifest_name
from sidecar.shared.log.manifest import Manifest, to_json
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import CommitTs, Seq
from spark_merge.log.follow import check_ends_as_begun, check_follows, check_has
from spark_merge.port.contract import Accepted


def segment(seq: int, *, after_ts: int | None = None, id: str = "") -> Manifest:
    ends = CommitTs(100 * seq + 100)
    begins = CommitTs(100 * seq if after_ts is None else after_ts)
    return Manifest(Seq(seq), 1, begins, ends, None, 0, 0, {}, "schemas/0000000000000000.json", "canal-json", id=id or f"id {seq}")


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    for seq in range(4):
        (tmp_path / manifest_name(Seq(seq))).write_bytes(to_json(segment(seq)))
    return open_folder(str(tmp_path))


@pytest.mark.parametrize(
    "accepted",
    [
        Accepted(Seq(3), CommitTs(400), "id 3"),
        Accepted(Seq(0), CommitTs(100), "id 0"),
        Accepted(Seq(2), CommitTs(300)),
        Accepted(Seq(2)),
    ],
    ids=["the last", "the first", "an output of before knows no id", "one that knows the number only"],
)
def test_a_log_that_has_what_the_output_ends_with_is_gone_on_with(log: Folder, accepted: Accepted) -> None:
    check_has(log, accepted)


@pytest.mark.parametrize(
    ("accepted", "says"),
    [
        (Accepted(Seq(4), CommitTs(500), "id 4"), "has accepted segment 4, and the log .* ends at 3"),
        (Accepted(Seq(3), CommitTs(399), "id 3"), "segment 3 up to 399, and the log .* has another one of that number, up to 400"),
        (Accepted(Seq(3), CommitTs(400), "id 3 of another"), "has another one of that number"),
        (Accepted(Seq(3), CommitTs(399)), "has another one of that number"),
    ],
)
def test_a_log_that_has_not_is_refused_with_a_way_out(log: Folder, accepted: Accepted, says: str) -> None:
    with pytest.raises(SinkError, match=says) as refused:
        check_has(log, accepted)
    assert "set log.uri back" in refused.value.hint
    assert "deliver to a new folder and dump again" in refused.value.hint


def test_an_empty_log_is_not_what_any_output_has(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=r"and the log .* is empty"):
        check_has(open_folder(str(tmp_path)), Accepted(Seq(0)))


def test_a_segment_begins_where_the_one_before_it_ends(log: Folder) -> None:
    check_follows(log, Accepted.of(segment(1)), [segment(2), segment(3)])
    check_follows(log, None, [segment(0), segment(1)])
    check_follows(log, Accepted(Seq(1)), [segment(2, after_ts=150)])
    with pytest.raises(SinkError, match=r"segment 2 .* begins at 150, and what comes before it ends at 200"):
        check_follows(log, Accepted.of(segment(1)), [segment(2, after_ts=150)])
    with pytest.raises(SinkError, match=r"segment 3 .* begins at 250"):
        check_follows(log, Accepted.of(segment(1)), [segment(2), segment(3, after_ts=250)])


def test_a_batch_that_is_read_again_ends_with_the_very_segment_to_which_it_was_begun(log: Folder) -> None:
    check_ends_as_begun(log, [segment(1), segment(2)], Accepted.of(segment(2)))
    for there, says in (
        ([segment(1), segment(2, id="another")], "ends at 2, up to 300 now"),
        ([segment(1)], "ends at 1, up to 200 now"),
        ([], "has none of its segments now"),
    ):
        with pytest.raises(SinkError, match=says) as refused:
            check_ends_as_begun(log, there, Accepted.of(segment(2)))
        assert "deliver to a new folder" in refused.value.hint
