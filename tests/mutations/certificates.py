"""Certificates: sums, the chain of manifests, what is collected and kept, and what the offline checker rejects."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

FOLLOWER = "sidecar/run/certifying.py"
COLLECTED = "sidecar/run/collecting.py"
SUMS = "sidecar/log/certificate_sums.py"
OUTPUT = "spark_merge/sinks/folder/certificates.py"
CHECKER = "deploy/certificate/check.py"
OF_LOG = "tests/contract/test_segment_log.py"
OF_FOLLOWER = "tests/unit/run/test_certifying.py"
OF_CERTIFICATE = "tests/unit/log/test_certificate.py"
OF_OUTPUT = "tests/unit/sinks/test_folder_certificates.py"
OF_CHECKER = "tests/integration/test_certificate.py"
WRITTEN_AGAIN = f"{OF_CHECKER}::test_a_certificate_that_was_written_again_does_not_fit_the_log"

CERTIFICATES = [
    Mutation(
        "a manifest has the sum of itself of before",
        "sidecar/log/segment_log.py::FolderLog.commit",
        "previous, sha256_of(data)",
        "sha256_of(data), previous",
        f"{OF_LOG}::test_each_manifest_has_the_sum_of_the_one_before_it_whoever_wrote_that[local]",
    ),
    Mutation(
        "a next owner does not know the last manifest's sum",
        "sidecar/log/segment_log.py::FolderLog._last",
        "        self._sums = (last.previous, sha256_of(data))\n",
        "",
        f"{OF_LOG}::test_each_manifest_has_the_sum_of_the_one_before_it_whoever_wrote_that[local]",
    ),
    Mutation(
        "a repeated commit has another sum",
        "sidecar/log/segment_log.py::FolderLog.commit",
        "0 if repeated else ",
        "",
        f"{OF_LOG}::test_a_commit_that_is_repeated_has_the_same_previous_also_after_a_recovery[local]",
    ),
    Mutation(
        "a part of a file is not hashed",
        "sidecar/log/hashed.py::HashedFile.write",
        ".update",
        " = hashlib.sha256",
        "tests/unit/log/test_hashed.py::test_the_sum_is_that_of_all_that_was_written",
    ),
    Mutation(
        "a sum of rows has no border between columns",
        "sidecar/log/row_sums.py::_encoded",
        "pair]",
        "pair[1:]]",
        "tests/unit/log/test_row_sums.py::test_other_rows_have_another_sum[a border]",
    ),
    Mutation(
        "a dump that was under way before is certified",
        f"{FOLLOWER}::TermCertificates._begin_dump",
        " or known > here",
        "",
        f"{OF_FOLLOWER}::test_a_dump_that_was_under_way_before_has_no_certificate",
    ),
    Mutation(
        "retention does not wait for parts",
        f"{FOLLOWER}::TermCertificates._save",
        "min([dump.saved for dump in self._dumps.values()], default=Seq(self._next - 1)",
        "Seq(self._next - 1",
        f"{OF_FOLLOWER}::test_retention_waits_for_what_is_not_in_a_part",
    ),
    Mutation(
        "an output with a part of the dump's segments is accepted",
        f"{CHECKER}::check_output",
        'range(certificate["first_seq"],',
        "range(seqs[0],",
        f"{OF_CHECKER}::test_an_output_without_all_segments_of_the_dump_is_rejected[jsonl-without the first]",
    ),
    Mutation(
        "a chunk without a hash counts as checked",
        f"{CHECKER}::Log._check_chunk",
        "if not hashed:",
        "if False:",
        f"{OF_CHECKER}::test_a_chunk_counts_as_checked_by_a_hash_or_a_sum_alone[jsonl-False-False]",
    ),
    Mutation(
        "certificates hold retention while every attempt fails",
        f"{FOLLOWER}::TermCertificates.serve",
        ">= HOLD_MAX_S",
        "< 0",
        f"{OF_FOLLOWER}::test_a_storage_that_stays_away_holds_retention_for_a_bounded_time_and_says_so",
    ),
    Mutation(
        "a dump that is idle is collected for ever",
        f"{FOLLOWER}::TermCertificates._pass",
        "> IDLE_MAX_MS",
        "< 0",
        f"{OF_FOLLOWER}::test_a_dump_that_is_idle_for_long_gets_no_certificate_and_its_parts_go[25]",
    ),
    Mutation(
        "a verification keeps the log for ever",
        "sidecar/run/retention.py::NeededSegments.put",
        ">= KEPT_MAX_S",
        "< 0",
        "tests/unit/run/test_retention.py::test_a_verification_keeps_the_log_at_one_segment_for_a_bounded_time",
    ),
    Mutation(
        "what keeps the log has no line",
        "sidecar/run/retention.py::RetentionHolds.see",
        "one.seconds >= LINE_S",
        "False",
        "tests/unit/run/test_retention.py::test_each_hold_that_lasts_has_one_line_and_another_when_it_ends",
    ),
    Mutation(
        "retention does not ask the certificates",
        "sidecar/run/term.py::Term._retain",
        " if delivered is None or collected is None else min(delivered, collected)",
        "",
        "tests/unit/run/test_term.py::test_what_a_verification_or_a_certificate_is_still_to_read_is_not_retained_away[collected-3]",
    ),
    Mutation(
        "segments before the first window that closed are not collected",
        f"{FOLLOWER}::TermCertificates._pass",
        "                self._reach_back(dump, min((window.first_seq for window in mine), default=dump.first))\n",
        "",
        f"{OF_FOLLOWER}::test_a_window_that_began_before_the_first_one_has_its_segments_too",
    ),
    Mutation(
        "a certificate does not wait for the sinks",
        f"{FOLLOWER}::TermCertificates.step",
        "self._now_s() - since_s >= ACCEPT_WAIT_S or self._is_accepted(self._dumps[dump_id])",
        "since_s is not None",
        f"{OF_FOLLOWER}::test_the_certificate_comes_when_the_sinks_have_the_last_window",
    ),
    Mutation(
        "a dump of which chunks are missing is certified",
        f"{FOLLOWER}::TermCertificates._certify",
        "entry.chunks > (sums",
        "0 > (sums",
        f"{OF_FOLLOWER}::test_a_dump_of_which_chunks_are_missing_has_no_certificate",
    ),
    Mutation(
        "a failed dump is given up at once",
        f"{FOLLOWER}::TermCertificates._settle",
        "(state in (None, DumpState.FAILED) and not self._is_resumable(dump_id)",
        "state in (None, DumpState.FAILED",
        f"{OF_FOLLOWER}::test_a_failed_dump_is_collected_until_the_log_knows_it_no_more",
    ),
    Mutation(
        "a restored log is taken for the one that was collected",
        f"{COLLECTED}::CollectedDump.add",
        "manifest.previous and manifest.previous != self.sum",
        "not manifest",
        f"{OF_FOLLOWER}::test_a_log_that_was_restored_under_a_dump_gives_it_no_certificate",
    ),
    Mutation(
        "another dump's dropped rows are counted",
        f"{COLLECTED}::CollectedDump.note",
        "None if table in others else ",
        "",
        f"{OF_FOLLOWER}::test_rows_that_may_be_another_dumps_are_not_counted",
    ),
    Mutation(
        "dropped rows of a batch that nobody reported are none",
        f"{SUMS}::_dropped_by",
        " if covered == len(segments) else None",
        "",
        f"{OF_FOLLOWER}::test_dropped_rows_that_are_not_known_are_null",
    ),
    Mutation(
        "a batch that was delivered twice is counted twice",
        f"{SUMS}::_dropped_by",
        "first <= ends or batch.",
        "",
        f"{OF_CERTIFICATE}::test_dropped_rows_are_known_or_null",
    ),
    Mutation(
        "sinks that do not agree say something",
        f"{SUMS}::DumpSums._dropped",
        "len(results) == 1",
        "results",
        f"{OF_FOLLOWER}::test_sinks_that_do_not_agree_say_nothing",
    ),
    Mutation(
        "a defect of certificates blocks retention",
        f"{FOLLOWER}::TermCertificates._let_go",
        "        self._collected = None\n",
        "",
        f"{OF_FOLLOWER}::test_a_defect_ends_certificates_and_nothing_else",
    ),
    Mutation(
        "lines of a segment that is in two parts count twice",
        "sidecar/log/certificate_parts.py::read_parts",
        "not isinstance(line, OfSegment) or passed is None or line.seq > passed",
        "line",
        f"{OF_CERTIFICATE}::test_of_a_segment_that_is_in_two_parts_the_lines_count_once",
    ),
    Mutation(
        "a gap between parts is not noticed",
        "sidecar/log/certificate_parts.py::read_parts",
        "> passed + 1",
        "< 0",
        f"{OF_CERTIFICATE}::test_a_gap_between_parts_is_broken",
    ),
    Mutation(
        "certificates of the newest dumps are removed",
        "sidecar/log/dump_files.py::DumpFiles.remove_old",
        "not in",
        "in",
        f"{OF_CERTIFICATE}::test_the_newest_are_kept",
    ),
    Mutation(
        "an output is certified before it has the last segment",
        f"{OUTPUT}::OutputCertificates._is_due",
        "accepted >= head.last_seq",
        "True",
        f"{OF_OUTPUT}::test_it_waits_for_the_last_segment_and_is_of_dumps_that_the_sink_receives",
    ),
    Mutation(
        "a certificate that cannot be read ends the delivery",
        f"{OUTPUT}::OutputCertificates._head",
        "LogBroken",
        "ZeroDivisionError",
        f"{OF_OUTPUT}::test_one_that_cannot_be_read_is_left_for_the_checker",
    ),
    Mutation(
        "the checker does not hash chunks",
        f"{CHECKER}::Log._check_chunk",
        'not self.report.expect_file(name, chunk["sha256"], path)',
        "False",
        f"{OF_CHECKER}::test_each_flipped_bit_is_rejected_by_name[jsonl]",
    ),
    Mutation(
        "the checker does not sum rows",
        f"{CHECKER}::Log._check_chunk",
        'chunk["rows_sum"]:',
        "False:",
        f"{WRITTEN_AGAIN}[jsonl-another sum of rows]",
    ),
    Mutation(
        "the checker takes ranges that overlap",
        f"{CHECKER}::check_ranges",
        " or (path and after < end)",
        "",
        f"{WRITTEN_AGAIN}[jsonl-ranges that overlap]",
    ),
    Mutation(
        "the checker takes a file of the output as it is",
        f"{CHECKER}::check_files",
        'not report.expect_file(file["path"], file.get("sha256") or "a file", path)',
        "False",
        f"{OF_CHECKER}::test_each_flipped_bit_is_rejected_by_name[jsonl]",
    ),
    Mutation(
        "the checker does not count rows",
        f"{CHECKER}::check_files",
        'report.expect(file["path"], "rows", file["from_log"] + file["from_dump"], found := count_rows(path))',
        "found := 1",
        f"{OF_CHECKER}::test_a_row_too_many_is_rejected_where_its_file_has_no_hash[jsonl]",
    ),
    Mutation(
        "the checker believes a note of retention",
        f"{CHECKER}::Log._is_removed",
        " and not (self.folder / name).exists()",
        "",
        f"{OF_CHECKER}::test_a_note_of_retention_turns_off_no_check_of_a_file_that_is_there[jsonl-chunk]",
    ),
    Mutation(
        "the checker accepts what it has not checked",
        f"{CHECKER}::Report.verdict",
        'nothing was checked" if self.unchecked else "',
        "",
        f"{OF_CHECKER}::test_where_nothing_can_be_checked_nothing_is_accepted[jsonl]",
    ),
    Mutation(
        "the checker looks for keys of the dump and not for values",
        f"{CHECKER}::DumpRows._compare",
        'line.key_of(row), b"" if row.get(ABSENT) else line.digest(row',
        'next((one for one in dumped if one[0] == line.key_of(row)), ("", b"")',
        f"{OF_CHECKER}::test_each_row_of_a_chunk_is_looked_for_in_the_output_with_its_values[jsonl-another value]",
    ),
    Mutation(
        "the checker takes each missing row for one that a live change replaces",
        f"{CHECKER}::DumpRows._is_touched",
        "any(low < commit_ts <= high for commits in found for commit_ts in commits)",
        "True",
        f"{OF_CHECKER}::test_it_says_how_much_it_has_checked[jsonl]",
    ),
    Mutation(
        "the checker takes any hash for the one that was kept",
        f"{CHECKER}::check",
        "sha256.lower() not in report.hashes.values()",
        "not sha256",
        f"{OF_CHECKER}::test_the_hash_that_was_kept_covers_the_live_rows_of_an_output[jsonl]",
    ),
    Mutation(
        "the checker compares a table that a DDL has changed",
        f"{CHECKER}::changes_rows",
        "not (harmless or OF_AN_INDEX.match(text))",
        "False",
        f"{OF_CHECKER}::test_ddls_change_rows_but_for_those_that_are_known_not_to[TRUNCATE TABLE t-True]",
    ),
    Mutation(
        "the checker looks only at the table that a DDL is of",
        f"{CHECKER}::concerns",
        " or {schema, name} <= names",
        "",
        f"{OF_CHECKER}::test_a_table_is_left_out_where_a_ddl_has_changed_it_since_the_dump_and_no_other_is"
        "[jsonl-behind RENAME TABLE `shop`.`customer` TO `shop`.`clients`-]",
    ),
    Mutation(
        "a verification is known before it has its files",
        "sidecar/run/term_verifications.py::TermVerifications.start",
        "                self._history.record(entry)\n",
        "                self._history.record(entry)\n                self._running[request.id] = entry\n",
        "tests/unit/run/test_term_verifications.py::test_a_look_amid_a_start_ends_nothing",
    ),
    Mutation(
        "a certificate is written of parts that somebody has removed",
        "sidecar/run/certifying.py::TermCertificates._certify",
        "entry.chunks > (sums := DumpSums(self._lines(dump))).chunks",
        "entry.chunks > dump.chunks + 0 * (sums := DumpSums(self._lines(dump))).chunks",
        "tests/unit/run/test_certifying.py::test_a_dump_whose_parts_an_earlier_owner_has_removed_has_no_certificate",
    ),
]
