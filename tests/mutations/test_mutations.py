"""The tests must notice: each mutation breaks one promise, and the test named beside it must fail.

A mutation whose text is no longer in the source exactly once fails here, so the list cannot go stale unseen. Each costs what its test
takes and some tenths of a second (warm.py): name the quickest test that says what was broken, by its whole id.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.mutations.warm import Warm

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mutation:
    name: str
    file: str
    old: str
    new: str
    caught_by: str


CRASH_POINTS = "tests/simulation/test_crash_points.py"
SIMULATION = "tests/simulation/test_simulation.py::test_every_life_ends_with_the_output_equal_to_the_source[0]"

SINKS = "tests/contract/test_sink_port.py"

RULE = "tests/unit/merge/test_rule.py"
EDGES = "tests/unit/merge/test_merge.py::test_a_window_is_open_at_its_low_edge_and_closed_at_its_high_one"
MERGE = "tests/unit/merge/test_merge.py::test_every_row_of_random_windows_is_the_rules[0]"

NARROW = (
    "tests/unit/test_pipeline.py::"
    "test_a_dump_reads_one_chunk_when_the_last_is_delivered_while_the_sinks_are_not_known_and_live_changes_go_on"
)
PACE = "tests/simulation/test_pace.py::"

DDL_SCENARIO = "tests/scenarios/test_scenarios.py::test_scenario[dump_ddl]"

OF_THE_LOG = "tests/contract/test_segment_log.py"
OF_ETCD = "tests/integration/test_etcd.py"

FENCES = [
    Mutation(
        "a manifest is written over another owner's",
        "sidecar/log/segment_log.py",
        "storage.create_exclusively(self.folder, manifest_name(manifest.seq), to_json(manifest))",
        "storage.write_atomically(self.folder, manifest_name(manifest.seq), to_json(manifest)) is None",
        f"{OF_THE_LOG}::test_a_second_owner_of_a_segment_is_told_and_the_first_ones_manifest_stays[local]",
    ),
    Mutation(
        "a manifest is written over another owner's, in the twin",
        "sidecar/adapters/memory/log.py",
        "self.disk.manifests.setdefault(manifest_name(manifest.seq), data) != data",
        "self.disk.manifests.update({manifest_name(manifest.seq): data})",
        f"{OF_THE_LOG}::test_a_second_owner_of_a_segment_is_told_and_the_first_ones_manifest_stays[twin]",
    ),
    Mutation(
        "a storage that creates a file twice is taken",
        "sidecar/log/segment_log.py",
        "if not storage.keeps_exclusive(folder, _EXCLUSIVE_PROBE):",
        "if False:",
        f"{OF_THE_LOG}::test_a_storage_without_exclusive_create_is_refused",
    ),
    Mutation(
        "data has no epoch in its name",
        "sidecar/log/layout.py",
        'return f"{seq:020d}-{epoch:010d}.parquet"',
        'return f"{seq:020d}-{0:010d}.parquet"',
        f"{OF_THE_LOG}::test_a_former_owner_cannot_replace_data[local]",
    ),
    Mutation(
        "a chunk has no epoch in its name",
        "sidecar/log/layout.py",
        'return f"chunks/{dump_id}/{epoch:010d}-{number:08d}.parquet"',
        'return f"chunks/{dump_id}/{0:010d}-{number:08d}.parquet"',
        "tests/unit/log/test_log_layout.py::test_names_sort_as_their_numbers",
    ),
    Mutation(
        "a segment that was retained away is created again",
        "sidecar/log/segment_log.py",
        "if not created or not (repeated or self._follows(manifest.seq)):",
        "if not created:",
        f"{OF_THE_LOG}::test_an_owner_that_slept_cannot_write_a_segment_that_is_retained_away[local-2]",
    ),
    Mutation(
        "a former owner retains",
        "sidecar/log/segment_log.py",
        "if storage.exists(self.folder, manifest_name(next_seq)):",
        "if False:",
        f"{OF_THE_LOG}::test_a_former_owner_retains_nothing[local]",
    ),
    Mutation(
        "an owner's write does not compare who owns",
        "sidecar/adapters/etcd/owner.py",
        "self.client.transact([ours, *compares], writes,",
        "self.client.transact([*compares], writes,",
        f"{OF_ETCD}::test_the_fence_holds_whatever_the_former_owners_clock_says",
    ),
    Mutation(
        "who is held is not asked of the clock",
        "sidecar/adapters/etcd/owner.py",
        "if reign.lost is None and self._clock() >= reign.until:",
        "if False:",
        f"{OF_ETCD}::test_ownership_is_lost_by_our_own_clock_and_stays_lost",
    ),
    Mutation(
        "the lease counts from the keepalive's reply",
        "sidecar/adapters/etcd/owner.py",
        "reign.until = sent +",
        "reign.until = self._clock() +",
        f"{OF_ETCD}::test_the_lease_counts_from_when_the_keepalive_was_sent",
    ),
    Mutation(
        "an epoch is granted again",
        "sidecar/adapters/etcd/owner.py",
        "max(self.epoch_min, 1 + (_epoch(last) if last else 0))",
        "max(self.epoch_min, (_epoch(last) if last else 1))",
        "tests/contract/test_ownership.py::test_epochs_only_rise[etcd]",
    ),
    Mutation(
        "progress is saved without the owner's fence",
        "sidecar/adapters/etcd/progress.py",
        "self.owner.fenced(writes, compares=",
        "self.owner.client.transact(writes=writes, compares=",
        f"{OF_ETCD}::test_saving_without_ownership_writes_nothing",
    ),
    Mutation(
        "progress that etcd carries out late replaces a later one",
        "sidecar/adapters/etcd/progress.py",
        '[Compare(self._head, "modified", stored.modified)]',
        "[]",
        f"{OF_ETCD}::test_a_save_that_etcd_carries_out_late_changes_nothing",
    ),
    Mutation(
        "a merge worker delivers a later owner's segments",
        "spark_merge/delivery.py",
        "        self._check_owner(manifests)\n",
        "",
        "tests/unit/merge/test_delivery.py::test_segments_of_a_later_owner_are_not_delivered",
    ),
]
"""Against a former owner that is still alive: the log's, etcd's and the merge worker's. Those of each sink stand beside it."""

MUTATIONS = [
    *FENCES,
    Mutation(
        "a key-value at a DDL's commit_ts has the schema after it",
        "sidecar/feeds/kv/schemas.py",
        "physical_id, ts = int(change.table), change.commit_ts - 1",
        "physical_id, ts = int(change.table), change.commit_ts",
        "tests/unit/feeds/test_kv_feed.py::test_rows_of_an_exchanged_partition_change_tables_at_the_ddl",
    ),
    Mutation(
        "a new table's rows are never asked for",
        "sidecar/feeds/kv/schemas.py",
        "            self.wanted.setdefault(one, event.commit_ts)\n",
        "            pass\n",
        "tests/unit/feeds/test_kv_feed.py::test_a_new_tables_lane_comes_with_its_ddl_and_holds_r_there",
    ),
    Mutation(
        "a chunk read with the columns before a DDL stays in its window",
        "sidecar/core/dump_run.py",
        "        self.windows.drop(before)\n",
        "",
        DDL_SCENARIO,
    ),
    Mutation(
        "a chunk that is under way when a DDL passes counts",
        "sidecar/core/dump_run.py",
        "        self._readers = [overtaken(reader, before) for reader in self._readers]\n",
        "",
        DDL_SCENARIO,
    ),
    Mutation(
        "the log does not say what the tables are after a DDL",
        "sidecar/pipeline.py",
        "                next_schemas=next_schemas,\n",
        "",
        "tests/unit/test_pipeline.py::test_whoever_takes_over_after_a_ddl_has_the_tables_after_it_from_the_log",
    ),
    Mutation(
        "a table whose rows were exchanged goes on from its cursor",
        "sidecar/core/schema_step.py",
        "return key_columns(old) == key_columns(new) and (ids == ids_now or added_or_dropped)",
        "return key_columns(old) == key_columns(new)",
        "tests/unit/core/test_schema_step.py::test_by_id_where_the_source_tells_ids",
    ),
    Mutation(
        "tasks merge on new-image keys only",
        "spark_merge/merge.py",
        'pc.greater(changes["commit_ts"], low_ts)',
        'pc.and_(pc.greater(changes["commit_ts"], low_ts), pc.not_equal(changes["op"], "delete"))',
        MERGE,
    ),
    Mutation(
        "tasks' window from low_ts on, not after it",
        "spark_merge/merge.py",
        'pc.greater(changes["commit_ts"], low_ts)',
        'pc.greater_equal(changes["commit_ts"], low_ts)',
        EDGES,
    ),
    Mutation(
        "tasks' window without the high edge",
        "spark_merge/merge.py",
        'pc.less_equal(changes["commit_ts"], high_ts)',
        'pc.greater(changes["commit_ts"], low_ts)',
        EDGES,
    ),
    Mutation(
        "tasks put survivors before the window's last changes",
        "spark_merge/task.py",
        'due[-1].high_ts, side="right"',
        'due[-1].high_ts, side="left"',
        MERGE,
    ),
    Mutation(
        "a window that began in an earlier segment has this segment's keys only",
        "spark_merge/task.py",
        "map(Seq, range(due.first_seq, due.seq + 1))",
        "map(Seq, range(due.seq, due.seq + 1))",
        MERGE,
    ),
    Mutation(
        "a transaction over row groups is put out as it comes",
        "spark_merge/segments.py",
        'int(np.searchsorted(commit_ts, commit_ts[-1], side="left"))',
        "rows.num_rows",
        "tests/unit/merge/test_task.py::test_row_groups_come_out_as_the_whole_segment_would",
    ),
    Mutation(
        "a former worker accepts",
        "spark_merge/sinks/files/commits.py",
        "            raise self._taken()\n",
        "            pass\n",
        f"{SINKS}::TestFiles::test_a_former_worker_that_wakes_up_can_not_accept[jsonl]",
    ),
    Mutation(
        "who opens an output leaves no trace",
        "spark_merge/sinks/files/commits.py",
        "if self._create(opened):",
        "if opened:",
        f"{SINKS}::TestFiles::test_a_former_worker_that_wakes_up_can_not_accept[jsonl]",
    ),
    Mutation(
        "two who open at once cannot be told apart",
        "spark_merge/sinks/files/commits.py",
        "secrets.token_hex(8)",
        '"us"',
        f"{SINKS}::TestFiles::test_an_owner_that_lost_a_race_to_open_comes_after_the_winner[jsonl]",
    ),
    Mutation(
        "a sweep takes what later owners write",
        "spark_merge/sinks/files/sink.py",
        "return unaccepted and owner_of(name) < self._owner",
        "return unaccepted",
        "tests/unit/sinks/test_file_sink.py::test_the_sweep_takes_what_former_owners_left_and_nothing_of_others",
    ),
    Mutation(
        "a committing sink's batch is cut anew by the next owner",
        "spark_merge/delivery.py",
        "if standing.begun is None:",
        "if standing.accepted != -7:",
        f"{SINKS}::TestTwins::test_what_a_committing_sink_had_begun_is_done_again_as_it_was[CommittingSink]",
    ),
    Mutation(
        "a task that has its slot is done again",
        "spark_merge/sinks/memory/target.py",
        "return self.begun.slots[task]",
        "return None",
        f"{SINKS}::TestTwins::test_a_task_may_run_twice_at_once_and_again_when_all_is_over[CommittingSink]",
    ),
    Mutation(
        "merge on new-image keys only",
        "spark_merge/rule.py",
        "if c.table == chunk.table and",
        'if c.op != "delete" and c.table == chunk.table and',
        "tests/unit/merge/test_rule.py::test_a_delete_inside_the_window_drops_the_row_by_its_old_image",
    ),
    Mutation(
        "merge on new-image keys only, in the life of a cluster",
        "spark_merge/rule.py",
        "if c.table == chunk.table and",
        'if c.op != "delete" and c.table == chunk.table and',
        SIMULATION,
    ),
    Mutation(
        "window from low_ts on, not after it",
        "spark_merge/rule.py",
        "window.low_ts < c.commit_ts",
        "window.low_ts <= c.commit_ts",
        "tests/unit/merge/test_rule.py::test_a_change_at_low_ts_is_outside_the_window",
    ),
    Mutation(
        "window without the high edge",
        "spark_merge/rule.py",
        " <= window.high_ts}",
        "}",
        "tests/unit/merge/test_rule.py::test_a_change_after_high_ts_is_outside_the_window_and_comes_after_the_row",
    ),
    Mutation(
        "survivors before the window's changes",
        "spark_merge/rule.py",
        "OutputRow(manifest.seq, window.high_ts, RANK_CHUNK",
        "OutputRow(manifest.seq, window.low_ts, RANK_CHUNK",
        "tests/unit/merge/test_rule.py::test_survivors_come_after_every_change_of_the_window",
    ),
    Mutation(
        "release at R, not below it",
        "sidecar/core/sequence.py",
        "min(self.resolved[lane] for lane in lanes) - 1",
        "min(self.resolved[lane] for lane in lanes)",
        "tests/unit/core/test_sequence.py::test_releases_strictly_below_resolved",
    ),
    Mutation(
        "the fastest lane decides, not the slowest",
        "sidecar/core/sequence.py",
        "min(self.resolved[lane] for lane in lanes)",
        "max(self.resolved[lane] for lane in lanes)",
        SIMULATION,
    ),
    Mutation(
        "no check for repeats",
        "sidecar/core/sequence.py",
        "if envelope[0] > after_ts:",
        "if envelope[0] > 0:",
        SIMULATION,
    ),
    Mutation(
        "a lane counts before it has joined",
        "sidecar/core/sequence.py",
        "if not lanes or any(lane not in self.resolved for lane in lanes):",
        "lanes = [lane for lane in lanes if lane in self.resolved]\n        if not lanes:",
        SIMULATION,
    ),
    Mutation(
        "progress saved before the manifest",
        "sidecar/pipeline.py",
        "        outside.log.commit(\n",
        "        self._save_progress()\n        outside.log.commit(\n",
        CRASH_POINTS,
    ),
    Mutation(
        "a mark accepted without its uuid",
        "sidecar/core/marks.py",
        "number = self.number_of(mark.uuid)",
        "number = self.seen if self.seen < self.sent else None",
        SIMULATION,
    ),
    Mutation(
        "positions of what was read last, not of the oldest held",
        "sidecar/core/sequence.py",
        "if envelope.commit_ts > upto_ts and envelope.position < oldest[envelope.lane]:",
        "if False:",
        SIMULATION,
    ),
    # fences and ownership
    Mutation(
        "a mark of a former owner is ours",
        "sidecar/core/marks.py",
        "return number if uuid == mark_uuid(dump_id, epoch, number) else None",
        "return number if uuid.startswith(dump_id) else None",
        "tests/scenarios/test_scenarios.py::test_scenario[dump_crash]",
    ),
    Mutation(
        "a mark of another changefeed is ours",
        "sidecar/core/marks.py",
        "if mark.changefeed_id != self.changefeed_id:",
        "if False:",
        "tests/scenarios/test_scenarios.py::test_scenario[dump_marks_not_ours]",
    ),
    Mutation(
        "a mark that came before its turn is taken",
        "sidecar/core/marks.py",
        "if number > self.seen:",
        "if False:",
        "tests/scenarios/test_scenarios.py::test_scenario[dump_marks_wrong]",
    ),
    Mutation(
        "the first marks of a segment count although a later one is wrong",
        "sidecar/core/marks.py",
        "            self.seen, self._kinds = seen, kinds\n",
        "",
        "tests/scenarios/test_scenarios.py::test_scenario[dump_marks_wrong]",
    ),
    Mutation(
        "a fenced owner fails the dump, which is another's",
        "sidecar/core/dump_run.py",
        "if isinstance(event, MarkFenced):",
        "if False:",
        "tests/scenarios/test_scenarios.py::test_scenario[dump_fenced]",
    ),
    Mutation(
        "a mark is written over another owner's",
        "sidecar/adapters/tidb/source.py",
        " WHERE changefeed_id = %s AND unique_identifier = %s",
        " WHERE changefeed_id = %s AND %s <> ''",
        "tests/integration/test_tidb_source.py::test_a_former_owner_cannot_send_a_mark",
    ),
    Mutation(
        "an UPDATE that changed no row counts as sent",
        "sidecar/adapters/tidb/source.py",
        "if found != mark.uuid:",
        "if found is None:",
        "tests/integration/test_tidb_source.py::test_a_former_owner_cannot_send_a_mark",
    ),
    Mutation(
        "the marks of a stopped dump are ours",
        "sidecar/core/dump.py",
        "if run.progress.state in (DumpState.FAILED, DumpState.STOPPED):",
        "if False:",
        "tests/scenarios/test_scenarios.py::test_scenario[dump_stop]",
    ),
    Mutation(
        "a dump that is restarted gives chunk numbers again",
        "sidecar/core/dump_run.py",
        "        self._doubts = Doubts()\n",
        "        self._doubts = Doubts()\n        ground.chunks = 0\n",
        "tests/unit/core/test_dump.py::test_chunk_numbers_are_never_used_twice_by_one_owner",
    ),
    Mutation(
        "a dump goes on under its former owner's epoch",
        "sidecar/core/dump.py",
        "replace(progress, epoch=epoch, revision",
        "replace(progress, revision",
        "tests/unit/core/test_dump.py::test_goes_on_under_its_own_epoch_as_a_newer_revision",
    ),
    Mutation(
        "marks are sent before their epoch is on record",
        "sidecar/pipeline.py",
        "        self._save_progress()  # dump id",
        "        # dump id",
        "tests/unit/test_pipeline.py::test_dump_and_epoch_are_on_record_before_a_mark_of_them_is_sent",
    ),
    Mutation(
        "a new owner waits with its first segment",
        "sidecar/pipeline.py",
        "        pipeline.write_soon()\n",
        "        pass\n",
        "tests/unit/test_pipeline.py::test_a_new_owner_writes_its_first_segment_at_once_so_that_the_former_one_is_fenced_off",
    ),
    Mutation(
        "the progress store is the truth, not the log",
        "sidecar/pipeline.py",
        "return stored if stored.revision > logged.revision else logged",
        "return stored",
        "tests/unit/test_pipeline.py::test_the_log_is_the_truth_unless_the_store_is_newer",
    ),
    Mutation(
        "a snapshot from before the feed's position makes a window",
        "sidecar/core/window.py",
        "if chunk.read_tso is None or chunk.read_tso < after_ts:",
        "if chunk.read_tso is None:",
        "tests/scenarios/test_scenarios.py::test_scenario[dump_snapshot_in_the_past]",
    ),
    Mutation(
        "a SELECT that did not fit is sent again before the DDL has passed",
        "sidecar/core/dump_reader.py",
        "found = [work for until_ts, work in self._until if until_ts <= upto_ts]",
        "found = [work for _, work in self._until]",
        "tests/scenarios/test_scenarios.py::test_scenario[dump_ddl_ahead_of_the_feed]",
    ),
    # P3
    Mutation(
        "a step waits for the source",
        "sidecar/pipeline.py",
        "        events = self.outside.source.results()\n",
        "        events = self.outside.source.results()\n"
        "        while self._unheard and not events:\n            events = self.outside.source.results()\n",
        "tests/unit/test_pipeline.py::test_a_source_that_never_answers_holds_no_live_change",
    ),
    Mutation(
        "a dump that failed stops the live changes",
        "sidecar/core/dump.py",
        "            self._move(self._run, outcome)\n",
        "            raise ValueError(outcome.reason)\n",
        "tests/unit/test_pipeline.py::test_a_failed_dump_is_on_record_and_the_live_changes_go_on",
    ),
    Mutation(
        "a dump reads on however much is not delivered",
        "sidecar/core/dump_run.py",
        "return taken + rows <= room.rows and self.windows.bytes_held() < room.bytes",
        "return True",
        PACE + "test_a_stall_is_outlasted_with_little_open_and_the_dump_goes_on_after_it",
    ),
    Mutation(
        "what is in the log and not delivered does not count",
        "sidecar/pace/controller.py",
        "return Room(rows - self.queued_rows, size - self.queued_bytes, rows)",
        "return Room(rows, size, rows)",
        PACE + "test_a_stall_is_outlasted_with_little_open_and_the_dump_goes_on_after_it",
    ),
    Mutation(
        "a sink that nobody knows gets all",
        "sidecar/pace/controller.py",
        "return NARROW_ROWS, UNLIMITED.bytes",
        "return UNLIMITED.rows, UNLIMITED.bytes",
        NARROW,
    ),
    Mutation(
        "a dump whose sinks leave nothing never goes on",
        "sidecar/pace/controller.py",
        "return Room(rows if queued else max(rows, 1), size,",
        "return Room(rows - NARROW_ROWS, size,",
        NARROW,
    ),
    Mutation(
        "the width of the fastest sink holds",
        "sidecar/pace/controller.py",
        "least = min(rooms, key",
        "least = max(rooms, key",
        "tests/unit/pace/test_controller.py::test_the_least_of_all_sinks_holds_and_is_named",
    ),
    Mutation(
        "a bound that does not hold narrows nothing",
        "sidecar/pace/controller.py",
        "        if self.used > 1:\n",
        "        if self.used > 1e9:\n",
        "tests/unit/pace/test_controller.py::test_a_width_that_was_too_wide_falls_by_what_was_too_much",
    ),
    Mutation(
        "a snapshot window closes before its last chunk is read",
        "sidecar/core/window.py",
        "return max(self.read_tsos()) if self.whole else None",
        "return max(self.read_tsos(), default=None)",
        "tests/scenarios/test_scenarios.py::test_scenario[dump_snapshot_of_several_chunks]",
    ),
    Mutation(
        "a snapshot window begins at its last TSO",
        "sidecar/core/window.py",
        "low_ts = min(window.read_tsos())",
        "low_ts = max(window.read_tsos())",
        "tests/scenarios/test_scenarios.py::test_scenario[dump_snapshot_of_several_chunks]",
    ),
    Mutation(
        "a dump's pace is not kept",
        "sidecar/pipeline.py",
        "if self.throttled_s() <= 0:",
        "if True:",
        "tests/unit/test_pipeline.py::test_a_dump_opens_no_window_before_what_it_read_is_paid_for_at_its_pace",
    ),
    Mutation(
        "a pause does not end a window",
        "sidecar/core/dump_run.py",
        "return running and chunks_left > 0 and",
        "return place >= 0 and chunks_left > 0 and",
        "tests/scenarios/test_scenarios.py::test_scenario[dump_pause]",
    ),
    Mutation(
        "a window goes on reading however much is held",
        "sidecar/core/dump_run.py",
        " and self.windows.bytes_held() < self._ground.limits.chunk_bytes_max\n",
        "\n",
        "tests/scenarios/test_scenarios.py::test_scenario[dump_back_pressure]",
    ),
]


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    with Warm() as process:
        yield process


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_the_mutation_is_caught(mutation: Mutation, warm: Warm) -> None:
    assert (ROOT / mutation.file).read_text().count(mutation.old) == 1, f"{mutation.file} must hold this text exactly once: {mutation.old}"
    code, told = warm.run(file=mutation.file, old=mutation.old, new=mutation.new, test=mutation.caught_by)
    assert code == pytest.ExitCode.TESTS_FAILED, f"{mutation.caught_by} did not fail, but ended with {code}:\n{told}"


def test_without_a_mutation_nothing_fails(warm: Warm) -> None:
    """Else every mutation would look caught."""
    code, told = warm.run(file="spark_merge/rule.py", old=" <= window.high_ts}", new=" <= window.high_ts}", test=RULE)
    assert code == pytest.ExitCode.OK, told
