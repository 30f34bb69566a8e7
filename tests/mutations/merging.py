"""From log to sink: the merge, its tasks, and what each sink accepts."""

from __future__ import annotations

from tests.mutations.mutation import SIMULATION, SINKS, Mutation

EDGES = "tests/unit/merge/test_merge.py::test_a_window_is_open_at_its_low_edge_and_closed_at_its_high_one"
WATCHDOG = "tests/unit/merge/test_watchdog.py"
MERGE = "tests/unit/merge/test_merge.py::test_every_row_of_random_windows_is_the_rules[0]"
SPOOL = "tests/unit/sinks/test_spool.py"
LAKES = "tests/contract/test_merged_lakes.py"
COLUMNS = "tests/unit/ddl/test_columns.py::test_a_column_is_followed_by_id_statement_and_name"
LOGGED = "tests/unit/ddl/test_logged.py"

MERGING = [
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
        "what an operator leaves out is delivered",
        "spark_merge/segments.py",
        "if skipped := self._source.skips.get(part.seq):",
        "if skipped := None:",
        "tests/unit/merge/test_undecodable.py::test_what_is_left_out_stays_out_though_it_could_be_decoded",
    ),
    Mutation(
        "a row that can be decoded is left out",
        "spark_merge/undecodable.py",
        "for ordinal in sorted(set(ordinals or ()) - {skip.ordinal for skip in found}):",
        "for ordinal in sorted(set[int]()):",
        "tests/unit/merge/test_undecodable.py::test_a_row_that_can_be_decoded_is_never_left_out_nor_one_that_is_not_there",
    ),
    Mutation(
        "a former worker accepts",
        "spark_merge/sinks/files/commits.py",
        "        if not self._create(commit):\n            raise taken(self._folder)\n",
        "        self._create(commit)\n",
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
        f"{SINKS}::TestFiles::test_an_owner_that_lost_a_race_to_open_comes_after_the_winner[jsonl-opened]",
    ),
    Mutation(
        "a sweep takes what later owners write",
        "spark_merge/sinks/files/folder.py",
        "return unaccepted and owner_of(name) < self.owner",
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
        "OpenSearch: a document twice in one part of a request",
        "spark_merge/sinks/opensearch/bulk.py",
        "if len(waiting) > 1 or pc.count_distinct(ids).as_py() < len(ids):",
        "if len(waiting) > 1:",
        "tests/unit/sinks/test_opensearch_bulk.py::test_a_document_that_comes_twice_in_one_part_is_sent_once_as_it_came_last",
    ),
    Mutation(
        "Kafka: the holder of an earlier term stays open",
        "spark_merge/sinks/kafka/holder.py",
        "    if former is not None:\n        _close_if_free(former)\n",
        "",
        "tests/unit/sinks/kafka/test_holder.py::test_the_holder_of_an_earlier_term_is_closed_by_the_next_one",
    ),
    Mutation(
        "an acknowledgement that comes late takes one back",
        "spark_merge/sinks/spool/reader.py",
        "max(known.acknowledged, acknowledged)",
        "acknowledged",
        f"{SPOOL}::test_an_acknowledgement_that_comes_late_takes_nothing_back",
    ),
    Mutation(
        "two acknowledgements at once are noted as if each were alone",
        "spark_merge/sinks/spool/reader.py",
        "with self._noting[hash(subscriber) % NOTED_AT_ONCE]:",
        "with Lock():",
        f"{SPOOL}::test_of_two_notes_of_a_subscriber_at_once_the_higher_stays[heard]",
    ),
    Mutation(
        "progress extends no deadline",
        "spark_merge/watchdog.py",
        "    def _note(self) -> None:\n        self._progress_s = monotonic()\n",
        "    def _note(self) -> None:\n",
        f"{WATCHDOG}::test_answers_that_take_long_together_are_no_hang[in_this_thread]",
    ),
    Mutation(
        "progress extends the deadline of all work of its process",
        "spark_merge/watchdog.py",
        "        self._progress_s = monotonic()\n        self._dog.arm()",
        "        for watch in self._dog._watches:\n            watch._progress_s = monotonic()\n        self._dog.arm()",
        f"{WATCHDOG}::test_progress_of_other_work_extends_nothing",
    ),
    Mutation(
        "threads of a task report to nobody",
        "sidecar/process/background.py",
        "target=copy_context().run, args=(self._run,)",
        "target=self._run",
        f"{WATCHDOG}::test_answers_that_take_long_together_are_no_hang[in_a_thread_of_it]",
    ),
    Mutation(
        "a task reports no progress",
        "spark_merge/task.py",
        "    for piece in pieces:\n        progressed()\n",
        "    for piece in pieces:\n",
        "tests/unit/merge/test_task.py::test_each_portion_and_each_piece_is_progress[table]",
    ),
    Mutation(
        "what a sink does beside its tasks is not watched",
        "spark_merge/delivery.py",
        "        with self._watched():\n            self.sink.accept(batch, outcomes)\n",
        "        self.sink.accept(batch, outcomes)\n",
        "tests/unit/merge/test_delivery.py::test_each_call_of_the_sink_is_watched_and_no_task_is_within_that_watch",
    ),
    Mutation(
        "an Iceberg table takes any dump's rows below its live ones",
        "spark_merge/sinks/iceberg/merge.py",
        "return self.dump == str(only) if self.dump else",
        "return True if self.dump else",
        f"{LAKES}::test_one_pass_alone_comes_below_live_rows_and_those_are_of_its_time",
    ),
    Mutation(
        "a dump's second reading of a table is the first one",
        "spark_merge/contract.py",
        'return f"{self.dump_id} {self.since_seq}" if self.since_seq else self.dump_id',
        "return self.dump_id",
        f"{LAKES}::test_a_table_that_a_dump_reads_again_has_each_row_once[batches0-delta]",
    ),
    Mutation(
        "an Iceberg table takes a dump below live rows of before it",
        "spark_merge/sinks/iceberg/merge.py",
        "self.live is None or self.live >= only.since_seq",
        "True",
        f"{LAKES}::test_a_first_dump_brings_a_row_back_that_the_stream_had_brought_wrong_before_it[batches0-iceberg]",
    ),
    Mutation(
        "a column that was added has the values of one that gave its name away",
        "spark_merge/ddl/columns.py",
        "if former is None and lowered(name) not in gone:",
        "if former is None:",
        COLUMNS,
    ),
    Mutation(
        "columns are followed by the statements of other tables",
        "spark_merge/ddl/columns.py",
        "if one.columns and one.tables()[0].folded() == before.name.folded()]",
        "if one.columns]",
        COLUMNS,
    ),
    Mutation(
        "columns are not followed by id",
        "spark_merge/ddl/columns.py",
        "return {name: names[id_] for name, id_ in new.items() if id_ in names}",
        "return {}",
        "tests/unit/ddl/test_columns.py::test_a_rename_that_no_statement_shows_is_followed_by_id",
    ),
    Mutation(
        "DROP TABLE a, b takes b's rows at a's record",
        "spark_merge/ddl/names.py",
        "if len(statement.items) == 1:",
        "if statement.items:",
        f"{LOGGED}::test_a_record_empties_its_own_tables",
    ),
    Mutation(
        "DROP PARTITION takes no rows",
        "spark_merge/ddl/alter_table.py",
        """            self.partitions = Partitions.ROWS_LEAVE
            condition(reader)""",
        "            condition(reader)",
        f"{LOGGED}::test_what_a_statement_does_with_partitions_is_the_same_at_every_sink",
    ),
]
