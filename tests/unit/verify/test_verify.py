"""Verify finds what it is there for, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from sidecar.replay.judge.table_replay import SAMPLES_MAX, OutputRow, TableVerdict
from sidecar.replay.judge.verify import VerifyVerdict, replay, verify
from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import MARK_TABLE, Column, CommitTs, Seq, TableName, TableSchema
from spark_merge.port.contract import Owner
from spark_merge.sinks.folder.layout import SEGMENT, DeliveredFile, DeliveredSegment, file_path, segment_path

T, OTHER, KEYLESS = TableName("s", "t"), TableName("s", "other"), TableName("s", "keyless")
START, MIDDLE, END = CommitTs(100), CommitTs(200), CommitTs(300)
Rows = dict[str, str | None]


def schema(name: TableName, *, key: tuple[str, ...] = ("id",)) -> TableSchema:
    return TableSchema(name, (Column("id", "int"), Column("v", "text"), Column("f", "float")), key)


class FakeTruth:
    """Table `t` at three moments: {id: v}."""

    def __init__(self, start: Rows, middle: Rows, end: Rows) -> None:
        self.schemas: Mapping[TableName, TableSchema] = {
            T: schema(T),
            OTHER: schema(OTHER),
            KEYLESS: schema(KEYLESS, key=()),
            MARK_TABLE: schema(MARK_TABLE),
        }
        self.truth_ts = (START, MIDDLE, END)
        self._rows = {START: start, MIDDLE: middle, END: end}

    def truth(self, tso: CommitTs) -> Mapping[TableName, pa.Table]:
        result = self._rows[tso]
        columns = [list(result), list(result.values()), ["0.5"] * len(result)]
        table = pa.table([pa.array(column, pa.string()) for column in columns], names=["id", "v", "f"])
        return dict.fromkeys(self.schemas, table)


def row(
    commit_ts: int, id: str, v: str | None, *, op: str = "insert", dump: bool = False, table: TableName = T, seq: int = 1
) -> dict[str, Any]:
    """`op` delete has no row after."""
    after = None if op == "delete" else {"id": id, "v": v, "f": "0.50"}
    origin = {"origin": "dump", "dump_id": "d"} if dump else {"origin": "log", "dump_id": None}
    head = {"seq": seq, "ordinal": 0, "commit_ts": str(commit_ts), "schema": table.schema, "table": table.table, "op": op}
    return {**head, "key": {"id": id}, "before": None, "after": after, **origin}


TRUTH = FakeTruth({"1": "a", "2": "b"}, {"1": "a", "3": "c"}, {"1": "x", "3": "c"})
GOOD = [
    row(110, "2", None, op="delete"),
    row(120, "1", "a", dump=True),
    row(150, "3", "c"),
    row(250, "1", "x", op="update"),
]


def judged(rows: list[dict[str, Any]], *, complete_at: int | None = 120, truth: FakeTruth = TRUTH, upto_ts: int = 310) -> TableVerdict:
    complete = {} if complete_at is None else {T: CommitTs(complete_at)}
    verdict = replay(rows, truth, upto_ts=CommitTs(upto_ts), complete_at=complete, tables=[T])
    assert verdict.ok == verdict.tables[0].equal
    return verdict.tables[0]


def counts(verdict: TableVerdict) -> dict[str, int]:
    kinds = {"missing": verdict.missing, "extra": verdict.extra, "different": verdict.different, "went_back": verdict.went_back}
    return {kind: findings.count for kind, findings in kinds.items() if findings.count}


# ---- equal ----------------------------------------------------------------------------------------------------------


def test_output_that_converges_is_equal_at_every_snapshot_and_at_the_end() -> None:
    verdict = judged(GOOD)
    assert verdict.equal
    assert (verdict.rows, verdict.from_log, verdict.from_dump, verdict.snapshots_compared) == (2, 3, 1, 3)
    assert verdict.reason is None


def test_snapshots_before_completion_are_not_compared() -> None:
    assert judged(GOOD, complete_at=201).snapshots_compared == 2
    assert judged(GOOD, complete_at=100).missing.count == 2  # neither had been shown at 100


def test_a_table_completed_after_the_last_snapshot_is_compared_at_the_end() -> None:
    verdict = judged([row(250, "1", "x", op="update"), row(305, "1", "x", dump=True), row(305, "3", "c", dump=True)], complete_at=305)
    assert (verdict.equal, verdict.snapshots_compared) == (True, 1)


def test_a_row_above_a_snapshot_is_not_applied_for_it() -> None:
    assert judged([*GOOD[:3], row(201, "1", "x", op="update")]).equal
    assert counts(judged([*GOOD[:3], row(200, "1", "x", op="update")])) == {"different": 1}


def test_other_replicated_tables_may_be_in_the_output() -> None:
    assert judged([row(150, "9", "z", table=OTHER), *GOOD]).equal


# ---- findings -------------------------------------------------------------------------------------------------------


def test_a_missing_row_is_found() -> None:
    verdict = judged([item for item in GOOD if item["key"]["id"] != "3"])
    assert counts(verdict) == {"missing": 3}  # at 200, at 300, at the end
    (sample,) = verdict.missing.samples
    assert (sample.key, sample.at_ts) == (("3",), MIDDLE)
    assert "never shown" in sample.what


def test_a_deleted_row_that_the_truth_has_is_missing() -> None:
    verdict = judged([*GOOD, row(260, "3", None, op="delete", seq=7)])
    assert counts(verdict) == {"missing": 2}
    assert "a deletion from the log (seq 7, commit_ts 260)" in verdict.missing.samples[0].what


def test_an_extra_row_is_found() -> None:
    verdict = judged([GOOD[0], row(120, "4", "q", dump=True, seq=5), *GOOD[1:]])
    assert counts(verdict) == {"extra": 3}
    assert "from the dump (seq 5, commit_ts 120): '4', 'q'" in verdict.extra.samples[0].what


def test_a_different_row_is_found_with_the_column_that_differs() -> None:
    verdict = judged([*GOOD[:2], row(150, "3", "C" * 500), *GOOD[3:]])
    assert counts(verdict) == {"different": 3}
    what = verdict.different.samples[0].what
    assert "v 'CCCC" in what
    assert what.endswith("… ≠ 'c'")
    assert "f " not in what  # 0.50 is 0.5


def test_null_differs_from_text() -> None:
    assert counts(judged([*GOOD[:2], row(150, "3", None), *GOOD[3:]])) == {"different": 3}


def test_an_older_version_after_a_newer_one_went_back() -> None:
    verdict = judged([*GOOD, row(240, "1", "w", op="update", seq=2)])
    assert verdict.went_back.count == 1
    assert "has an older commit_ts: after a row from the log (seq 1, commit_ts 250)" in verdict.went_back.samples[0].what


def test_a_stale_dump_row_went_back_even_if_it_is_overwritten_before_the_next_snapshot() -> None:
    rows = [GOOD[0], row(112, "1", "new", op="update"), row(120, "1", "old", dump=True), row(130, "1", "a", op="update"), *GOOD[2:]]
    verdict = judged(rows)
    assert counts(verdict) == {"went_back": 1}
    assert "is stale: v 'old' ≠ 'new'" in verdict.went_back.samples[0].what


def test_a_dumps_delete_of_a_key_that_is_not_shown_is_no_step_back_and_one_of_a_row_that_is_shown_went_back() -> None:
    absent = row(130, "9", None, op="delete", dump=True)
    assert judged([*GOOD[:2], absent, *GOOD[2:]]).equal
    verdict = judged([*GOOD[:3], row(160, "3", None, op="delete", dump=True), GOOD[3]])
    assert "deletes a row that the output shows" in verdict.went_back.samples[0].what


def test_a_dump_row_that_revives_a_deleted_key_went_back() -> None:
    rows = [GOOD[0], row(120, "2", "b", dump=True), GOOD[1], row(130, "2", None, op="delete"), *GOOD[2:]]
    verdict = judged(rows)
    assert counts(verdict) == {"went_back": 1}
    assert "revives a deleted key" in verdict.went_back.samples[0].what


def test_a_dump_row_equal_to_the_version_shown_before_is_right() -> None:
    assert judged([*GOOD, row(260, "1", "x", dump=True), row(270, "3", "c", dump=True)]).equal


def test_a_delete_behind_a_put_of_the_same_commit_ts_went_back() -> None:
    assert judged([*GOOD[:2], row(150, "3", None, op="delete"), *GOOD[2:]]).equal
    assert judged([*GOOD[:3], row(150, "3", None, op="delete"), row(151, "3", "c"), *GOOD[3:]]).went_back.count == 1


def test_a_row_behind_a_later_one_of_another_key_went_back() -> None:
    verdict = judged([GOOD[0], GOOD[2], GOOD[1], GOOD[3]])
    assert counts(verdict) == {"went_back": 1}
    assert "comes after commit_ts 150 of another key" in verdict.went_back.samples[0].what


def test_only_the_first_keys_are_shown_and_all_are_counted() -> None:
    extra = [row(120, str(number), "q", dump=True) for number in range(50, 50 + 3 * SAMPLES_MAX)]
    verdict = judged([GOOD[0], *extra, *GOOD[1:]])
    assert verdict.extra.count == 3 * 3 * SAMPLES_MAX
    assert [sample.key for sample in verdict.extra.samples] == [(str(number),) for number in range(50, 50 + SAMPLES_MAX)]


# ---- what cannot be judged ------------------------------------------------------------------------------------------


def test_a_table_that_was_never_reported_complete_is_not_equal() -> None:
    verdict = judged(GOOD, complete_at=None)
    assert (verdict.equal, verdict.reason, verdict.snapshots_compared) == (False, "it was never reported complete", 0)


def test_an_output_that_ends_before_its_completion_or_before_the_truth_is_not_equal() -> None:
    assert "the output ends at 190" in str(judged(GOOD[:3], complete_at=200, upto_ts=190).reason)
    verdict = judged(GOOD[:3], upto_ts=299)
    assert (verdict.equal, verdict.snapshots_compared) == (False, 1)
    assert "before the last recorded snapshot at 300" in str(verdict.reason)


def test_live_changes_after_the_last_snapshot_leave_nothing_to_compare_a_later_completion_with() -> None:
    verdict = judged([*GOOD, row(304, "1", "later", op="update")], complete_at=305)
    assert (verdict.equal, verdict.snapshots_compared) == (False, 0)
    assert "no recorded snapshot" in str(verdict.reason)


def test_tables_without_a_key_are_listed_and_must_not_appear() -> None:
    complete = {T: CommitTs(120)}
    verdict = replay(GOOD, TRUTH, upto_ts=CommitTs(310), complete_at=complete, tables=[T, KEYLESS])
    assert (verdict.ok, verdict.not_replicated) == (True, (KEYLESS,))
    verdict = replay([*GOOD, row(250, "1", "x", table=KEYLESS)], TRUTH, upto_ts=CommitTs(310), complete_at=complete, tables=[T])
    assert (verdict.ok, list(verdict.unexpected_rows)) == (False, ["s.keyless"])


@pytest.mark.parametrize("table", [TableName("s", "ghost"), MARK_TABLE])
def test_tables_that_no_sink_may_see_are_found(table: TableName) -> None:
    rows = [*GOOD, row(250, "1", "x", table=table, seq=4), row(251, "1", "x", table=table, seq=5)]
    verdict = replay(rows, TRUTH, upto_ts=CommitTs(310), complete_at={T: CommitTs(120)}, tables=[T])
    assert (verdict.ok, verdict.unexpected_rows) == (False, {str(table): "seq 4, commit_ts 250, log"})


def test_a_table_that_the_truth_does_not_have_is_not_equal() -> None:
    verdict = replay(GOOD, TRUTH, upto_ts=CommitTs(310), complete_at={T: CommitTs(120)}, tables=[T, TableName("s", "ghost")])
    assert [(table.table.table, table.equal) for table in verdict.tables] == [("ghost", False), ("t", True)]


def test_no_tables_at_all_prove_nothing() -> None:
    assert not replay([], TRUTH, upto_ts=CommitTs(310), complete_at={}, tables=[]).ok


def test_a_row_that_does_not_fit_the_table_is_an_error() -> None:
    broken: list[OutputRow] = [
        {**GOOD[1], "after": {"id": "1"}},
        {**GOOD[1], "key": {}},
        {**GOOD[1], "commit_ts": "soon"},
        {**GOOD[1], "origin": "elsewhere"},
    ]
    for one in broken:
        with pytest.raises(SinkError, match=r"output row \(seq 1, ordinal 0\) does not fit s.t"):
            replay([one], TRUTH, upto_ts=CommitTs(310), complete_at={}, tables=[T])


def test_the_verdict_is_json() -> None:
    verdict = replay([*GOOD[:2], *GOOD[3:]], TRUTH, upto_ts=CommitTs(310), complete_at={T: CommitTs(120)}, tables=[T])
    result = json.loads(json.dumps(verdict.to_json()))
    assert (result["ok"], result["tables"][0]["table"], result["tables"][0]["missing"]["count"]) == (False, "s.t", 3)
    assert result["tables"][0]["missing"]["samples"][0]["at_ts"] == "200"


# ---- a folder -------------------------------------------------------------------------------------------------------


def delivered(folder: Folder, segments: list[tuple[int, list[dict[str, Any]]]]) -> None:
    """An output folder of (upto_ts, rows of `t`) by seq, as the files sink leaves it."""
    for number, (upto_ts, rows) in enumerate(segments):
        path = file_path(T, number, "jsonl", part=0, owner=Owner(1, 1), attempt="0")
        from_dump = sum(item["origin"] == "dump" for item in rows)
        file = DeliveredFile(path, T, len(rows) - from_dump, from_dump, 0)
        storage.write_atomically(folder, path, b"".join(json.dumps(item).encode() + b"\n" for item in rows))
        segment = DeliveredSegment(Seq(number), CommitTs(upto_ts), (file,), None)
        storage.write_atomically(folder, segment_path(number), SEGMENT.to_json(segment))


def verified(folder: Folder) -> VerifyVerdict:
    return verify(folder, TRUTH, complete_at={T: CommitTs(120)}, tables=[T])


def test_a_folder_is_read_segment_by_segment(tmp_path: Any) -> None:
    folder = open_folder(str(tmp_path))
    delivered(folder, [(130, GOOD[:2]), (220, GOOD[2:3]), (310, GOOD[3:])])
    verdict = verified(folder)
    assert (verdict.ok, verdict.tables[0].snapshots_compared) == (True, 3)


def test_the_last_segment_says_how_far_the_output_reaches(tmp_path: Any) -> None:
    folder = open_folder(str(tmp_path))
    delivered(folder, [(130, GOOD[:2]), (220, GOOD[2:3])])
    assert "the output ends at 220" in str(verified(folder).tables[0].reason)


def test_an_empty_folder_is_not_equal(tmp_path: Any) -> None:
    assert not verified(open_folder(str(tmp_path))).ok
