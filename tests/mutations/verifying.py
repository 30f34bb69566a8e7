"""Verification: what counts as a difference, positions, what is kept and told, and repairs."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

CHECK = "spark_merge/verify/table_check.py"
OF_CHECK = "tests/unit/verify/test_table_check.py"
OF_MOVING = "tests/unit/verify/test_moving.py::test_keys_of_changes_and_of_due_chunks_behind_the_position_are_moving[0]"
OF_COMPARE = "tests/unit/verify/test_compare.py"
OF_RUNNER = "tests/unit/verify/test_runner.py"
OF_TERM = "tests/unit/run/test_verifying.py"
OF_REPAIR = f"{OF_TERM}::test_a_repair_dumps_the_keys_of_one_sink_after_the_other_and_compares_again"
OF_ERAS = "tests/unit/ddl/test_eras.py"

VERIFYING = [
    Mutation(
        "a key that the log changes is not moving",
        "spark_merge/verify/moving.py",
        "self._found.append(keys.filter(pc.greater(passed.commit_ts[self.table], self._low_ts)))",
        "pass",
        OF_MOVING,
    ),
    Mutation(
        "a key of a dump's chunk is not moving",
        "spark_merge/verify/moving.py",
        "                self._found.append(dumped)\n",
        "                pass\n",
        OF_MOVING,
    ),
    Mutation(
        "a key that was changed up to the position is moving",
        "spark_merge/verify/moving.py",
        "keys.filter(pc.greater(passed.commit_ts[self.table], self._low_ts))",
        "keys",
        OF_MOVING,
    ),
    Mutation(
        "a segment that a check has passed is gone for the others",
        "spark_merge/verify/moving.py",
        "                return [kept]",
        "                return [self._kept.pop(Seq(seq + 1))]",
        "tests/unit/verify/test_moving.py::test_checks_that_follow_at_once_decode_each_segment_once",
    ),
    Mutation(
        "a moving key counts at the second look",
        CHECK,
        "elif key not in moved:",
        "else:",
        f"{OF_CHECK}::test_a_key_that_changes_at_each_look_is_moving_and_no_difference",
    ),
    Mutation(
        "a moving key counts at the first look",
        CHECK,
        "pc.if_else(moved[:looked], 0, 1)",
        "pc.if_else(moved[:looked], 1, 1)",
        f"{OF_CHECK}::test_a_key_that_differs_at_one_look_alone_is_no_difference",
    ),
    Mutation(
        "a difference counts after one look",
        CHECK,
        "if pending[key] >= 2:",
        "if pending[key] >= 1:",
        f"{OF_CHECK}::test_a_key_that_differs_at_one_look_alone_is_no_difference",
    ),
    Mutation(
        "the log is not followed to the moment of the source's read at the first look",
        CHECK,
        "high_ts = max(high_ts, context.present_ts() if at_ts is None else at_ts)",
        "high_ts = max(high_ts, at_ts or NO_TS)",
        f"{OF_CHECK}::test_without_snapshots_the_log_is_followed_to_the_moment_of_the_read_at_the_first_look",
    ),
    Mutation(
        "the log is not followed to the moment of the source's read at the second look",
        CHECK,
        "self._await(moving, self.context.present_ts() if at_ts is None else at_ts)",
        "self._await(moving, at_ts or moving.follow())",
        f"{OF_CHECK}::test_without_snapshots_the_log_is_followed_to_the_moment_of_the_read_at_each_look",
    ),
    Mutation(
        "the second look does not wait for the sink",
        CHECK,
        "            self._await_sink()\n",
        "",
        f"{OF_CHECK}::test_the_second_look_waits_for_a_sink_that_is_behind",
    ),
    Mutation(
        "a table that a DDL has altered is compared",
        CHECK,
        "        if moving.altered:\n            raise Altered\n",
        "",
        f"{OF_CHECK}::test_a_table_that_ddls_change_again_and_again_is_not_compared",
    ),
    Mutation(
        "extra rows are counted where a part is compared",
        CHECK,
        '("missing", "different") if self.report.partial else ("missing", "extra", "different")',
        '("missing", "extra", "different")',
        f"{OF_CHECK}::test_beyond_the_keys_that_are_looked_at_again_a_difference_counts_at_once[v = 'x']",
    ),
    Mutation(
        "a row that leaves the predicate is extra",
        CHECK,
        "if found is None or (self.report.partial and key not in ours):",
        "if found is None:",
        f"{OF_CHECK}::test_a_row_that_comes_to_be_outside_of_the_predicate_is_no_extra_one",
    ),
    Mutation(
        "a bucket of as many rows is equal",
        "spark_merge/verify/compare.py",
        "if sums[0] == sums[1]:",
        "if sums[0].rows == sums[1].rows:",
        f"{OF_COMPARE}::test_as_many_rows_of_another_sum_are_not_equal",
    ),
    Mutation(
        "half of a hash makes a row equal",
        "spark_merge/verify/compare.py",
        'pc.and_(pc.equal(both["high"], met["high"]), pc.equal(both["low"], met["low"]))',
        'pc.equal(both["high"], met["high"])',
        f"{OF_COMPARE}::test_as_many_rows_of_another_sum_are_not_equal",
    ),
    Mutation(
        "any version of a key is compared",
        "spark_merge/verify/compare.py",
        'are_last(codes, ranks=rows["rank"].to_numpy(), commit_ts=rows["commit_ts"].to_numpy())',
        'are_last(codes, ranks=-rows["rank"].to_numpy(), commit_ts=-rows["commit_ts"].to_numpy())',
        f"{OF_COMPARE}::test_of_a_key_the_version_of_the_greatest_commit_ts_and_rank_counts",
    ),
    Mutation(
        "any version of a key is read back",
        "spark_merge/readable.py",
        "are_last(codes, ranks=rank, commit_ts=commit_ts)",
        "are_last(codes, ranks=rank, commit_ts=-commit_ts)",
        "tests/contract/test_sink_port.py::TestTwins::test_what_is_read_back_is_each_keys_newest_row",
    ),
    Mutation(
        "the log forgets what a verification is still to read",
        "sidecar/run/term.py",
        "(self.pipeline.dump.oldest_open_seq(), self.kept_from())",
        "(self.pipeline.dump.oldest_open_seq(),)",
        "tests/unit/run/test_term.py::test_what_a_verification_is_still_to_read_is_not_retained_away",
    ),
    Mutation(
        "a report does not say which segments are still to be read",
        "spark_merge/verify/runner.py",
        "self._report.needs_from = min(self._needed.values(), default=None)",
        "self._report.needs_from = None",
        f"{OF_RUNNER}::test_the_report_says_which_segments_are_still_to_be_read",
    ),
    Mutation(
        "the first position of a check is not told",
        CHECK,
        "        context.needs(accepted.seq)\n",
        "",
        f"{OF_RUNNER}::test_what_is_to_be_read_is_told_before_the_first_piece_of_work",
    ),
    Mutation(
        "the first position of a check is told with the progress after it",
        "spark_merge/verify/runner.py",
        "if self._report.needs_from is None or after + 1 < self._report.needs_from:",
        "if False:",
        f"{OF_RUNNER}::test_what_is_to_be_read_is_told_before_the_first_piece_of_work",
    ),
    Mutation(
        "what was not compared is equal",
        "spark_merge/verify/runner.py",
        "report.state = CheckState.FAILED if end is CheckState.SKIPPED else end",
        "report.state = CheckState.EQUAL if end is CheckState.SKIPPED else end",
        f"{OF_RUNNER}::test_a_sink_that_cannot_be_read_or_is_unknown_says_why_and_the_others_are_compared",
    ),
    Mutation(
        "a verification that an operator ended goes on",
        "spark_merge/verify/runner.py",
        "                raise Stopped\n",
        "                pass\n",
        f"{OF_RUNNER}::test_an_operator_ends_it",
    ),
    Mutation(
        "a verification does not pause while live changes are late",
        "spark_merge/verify/runner.py",
        "while waited_s < PAUSE_MAX * worked_s and settings.batch_s() > settings.late_s:",
        "while False:",
        f"{OF_RUNNER}::test_it_pauses_while_live_changes_are_late_and_not_for_ever",
    ),
    Mutation(
        "a verification pauses for ever",
        "spark_merge/verify/runner.py",
        "while waited_s < PAUSE_MAX * worked_s and settings.batch_s() > settings.late_s:",
        "while worked_s and settings.batch_s() > settings.late_s and waited_s < 4:",
        f"{OF_RUNNER}::test_it_pauses_while_live_changes_are_late_and_not_for_ever",
    ),
    Mutation(
        "nobody hears what ends the verifications",
        "spark_merge/worker.py",
        "                verifying.check()\n",
        "                pass\n",
        "tests/unit/merge/test_worker.py::test_what_ends_the_verifications_ends_the_worker",
    ),
    Mutation(
        "a next term forgets the verifications that run",
        "sidecar/run/verifying.py",
        "                self._running[entry.id] = entry\n",
        "                pass\n",
        f"{OF_TERM}::test_a_next_term_goes_on_and_fails_what_was_never_asked_of_the_worker",
    ),
    Mutation(
        "segments of a verification that is over are kept for ever",
        "sidecar/run/verifying.py",
        "            self._needs.pop(operation_id, None)\n",
        "",
        f"{OF_TERM}::test_a_report_that_is_over_ends_the_entry_and_says_what_was_found",
    ),
    Mutation(
        "a repair goes to all sinks",
        "sidecar/run/repairing.py",
        "keys=keys, sinks=[dump.sink])",
        "keys=keys)",
        "tests/integration/test_verify_service.py::test_a_repair_dumps_the_keys_to_the_sink_that_differs_and_compares_again",
    ),
    Mutation(
        "a repair leaves extra rows",
        "sidecar/run/repairing.py",
        "        keys.setdefault(table.name, []).append(row.key)\n",
        '        keys.setdefault(table.name, []).extend([row.key] if row.kind != "extra" else [])\n',
        OF_REPAIR,
    ),
    Mutation(
        "a repair mixes the keys of sinks",
        "sidecar/run/repairing.py",
        "if keys and (table.sink != sink or size > KEYS_BYTES_MAX):",
        "if keys and size > KEYS_BYTES_MAX:",
        OF_REPAIR,
    ),
    Mutation(
        "a repair does not wait for another dump",
        "sidecar/run/repairing.py",
        "if not self._at_source.idle():",
        "if False:",
        f"{OF_TERM}::test_a_repair_waits_for_a_dump_that_is_there",
    ),
    Mutation(
        "a repair is finished though its dump has failed",
        "sidecar/run/repairing.py",
        "            case DumpState.FINISHED:\n",
        "            case DumpState.FINISHED | DumpState.FAILED:\n",
        f"{OF_TERM}::test_a_repair_whose_dump_has_failed_or_was_stopped_fails_and_says_why",
    ),
    Mutation(
        "a next term starts a repair's dumps again",
        "sidecar/control/verifying.py",
        'return sha256(f"{operation_id}/{what}".encode())',
        'return sha256(f"{operation_id}/{what}/{object()}".encode())',
        f"{OF_TERM}::test_a_next_term_goes_on_with_a_repair_and_starts_no_dump_twice[1]",
    ),
    Mutation(
        "rows from before a TRUNCATE are the table's",
        "spark_merge/ddl/eras.py",
        "StatementKind.TRUNCATE, ",
        "",
        f"{OF_ERAS}::test_rows_from_before_a_table_begins_are_not_its_rows[TRUNCATE TABLE T-True]",
    ),
    Mutation(
        "a renamed column keeps its present name in older rows",
        "spark_merge/ddl/eras.py",
        "            case ColumnWord.RENAME:\n                return replace(one, name=change.before)",
        "            case ColumnWord.RENAME:\n                return one",
        f"{OF_ERAS}::test_columns_are_followed_by_their_names",
    ),
    Mutation(
        "older rows have NULL in a column that was added",
        "spark_merge/ddl/eras.py",
        "existing=effect.existing)",
        "existing=None)",
        f"{OF_ERAS}::test_a_column_that_was_dropped_and_added_again_has_its_default",
    ),
    Mutation(
        "a row at a DDL's commit_ts is from after it",
        "spark_merge/ddl/eras.py",
        "return self.after_ts < last_ts and first_ts <= self.upto_ts",
        "return self.after_ts <= last_ts and first_ts < self.upto_ts",
        f"{OF_ERAS}::test_a_row_at_a_ddls_commit_ts_is_from_before_it",
    ),
    Mutation(
        "statements about partitions are passed over",
        "spark_merge/ddl/eras.py",
        "if statement.partitions is Partitions.ROWS_LEAVE and not self._keeps_partitions:",
        "if False:",
        f"{OF_ERAS}::test_rows_from_before_what_cannot_be_followed_are_refused_by_its_text"
        "[ALTER TABLE t TRUNCATE PARTITION p-moved rows without a change event]",
    ),
]
"""How sinks are compared with the source, and what their outputs' rows of all times are."""
