"""A dump that is read from TiKV: which rows, of which moment, and by what."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

READS = "tests/integration/test_tikv_reads.py::"
READ_WITH = "tests/unit/core/test_read_with.py::"
LOCKED = f"{READS}test_rows_before_and_behind_a_lock_come_once_and_the_locked_one_in_between"

CHECKSUM = "sidecar/shared/rowcodec/kv_checksum.py"
AT_REST = "tests/property/test_rows_at_rest.py::test_a_row_at_rest_of_any_earlier_layout_is_what_sql_shows"
OF_ROW = "tests/unit/rowcodec/test_kv_row.py::test_a_checksum_proves_damage_unless_an_earlier_layout_of_a_row_at_rest_explains_it"
OF_SCAN = "tests/unit/feeds/test_tikv_scan.py::"

TIKV_READS = [
    Mutation(
        "a dump reads rows at rest as if they were written by the present layout",
        "sidecar/shared/reads/tikv_reads.py::TikvRows.texts",
        "at_rest=True",
        "at_rest=False",
        AT_REST,
    ),
    Mutation(
        "old values are read as if they were written by the present layout",
        "spark_merge/codecs/decode/kv_rows.py::_one_by_one",
        "at_rest=is_old",
        "at_rest=False",
        AT_REST,
    ),
    Mutation(
        "a checksum over a dropped column proves damage",
        f"{CHECKSUM}::_is_of_earlier_layout",
        "if row.cells - {column.id for column in table.columns}:",
        "if False:",
        f"{OF_ROW}[a dropped column]",
    ),
    Mutation(
        "a checksum over a dropped column that is NULL proves nothing",
        "sidecar/shared/rowcodec/kv_row.py::plain_values",
        "cells.present.keys()",
        "{*cells.present, *cells.nulls}",
        f"{OF_ROW}[NULL of a dropped column]",
    ),
    Mutation(
        "times have had their scale from the beginning",
        f"{CHECKSUM}::_of_all_scales",
        'range(len(fraction.rstrip("0")), len(fraction) + 1)',
        "[len(fraction)]",
        f"{OF_ROW}[a smaller scale]",
    ),
    Mutation(
        "a time can have had a scale that its digits do not fit",
        f"{CHECKSUM}::_of_all_scales",
        'range(len(fraction.rstrip("0")), len(fraction) + 1)',
        "range(len(fraction) + 1)",
        f"{OF_ROW}[digits that no smaller scale has]",
    ),
    Mutation(
        "scales that were not tried prove damage",
        f"{CHECKSUM}::_is_of_earlier_layout",
        "not crcs or",
        "crcs and",
        f"{OF_ROW}[too many scales]",
    ),
    Mutation(
        "a new value of a live change can have an earlier layout",
        f"{CHECKSUM}::verify",
        "not (at_rest and ",
        "not (True and ",
        f"{OF_ROW}[a dropped column]",
    ),
    Mutation(
        "a row at rest needs no checksum that fits",
        f"{CHECKSUM}::verify",
        "not (at_rest and _is_of_earlier_layout(table, row, checksum))",
        "not at_rest",
        f"{OF_ROW}[the same layout]",
    ),
    Mutation(
        "a row at rest was written under its key",
        f"{CHECKSUM}::_is_of_earlier_layout",
        "return True\n        case _:",
        "return False\n        case _:",
        f"{OF_ROW}[another key]",
    ),
    Mutation(
        "a handle that is a column can have been another",
        f"{CHECKSUM}::_is_of_earlier_layout",
        "return table.int_handle is None and not table.key_parts",
        "return True",
        f"{OF_ROW}[another handle]",
    ),
    Mutation(
        "amid MODIFY COLUMN a checksum is over the old column alone",
        f"{CHECKSUM}::_layouts",
        "if any(column.successor for column in table.columns):",
        "if False:",
        f"{OF_ROW}[a column that takes another's place]",
    ),
    Mutation(
        "a DROP PARTITION that runs changes nothing",
        "sidecar/shared/schema/history.py::SchemaHistory._switch",
        "and (step.came or len(kept) == len(definitions))",
        "",
        "tests/unit/schema/test_schema_history.py::test_partitions_that_are_being_dropped_are_nobodys_from_delete_only_on_also_where_a_snapshot_begins_amid_it",
    ),
    Mutation(
        "a DROP PARTITION that runs is of no partition",
        "sidecar/shared/rowcodec/ddl_job.py::_switch",
        "gone = frozenset(name.lower() for name in _arguments(job, _DroppedPartitions",
        "gone = frozenset(name for name in _arguments(job, _DroppedPartitions",
        "tests/unit/rowcodec/test_ddl_job.py::test_the_step_from_which_rows_are_elsewhere_counts",
    ),
    Mutation(
        "borders are requested also where nobody wants them",
        "sidecar/shared/tikv/scan.py::SnapshotScan.borders",
        "self._stopped() or ",
        "",
        f"{OF_SCAN}test_borders_end_where_nobody_wants_them_any_more",
    ),
    Mutation(
        "regions between ranges are all requested",
        "sidecar/shared/tikv/regions.py::borders",
        "if not known_to or known_to >= end:",
        "if not known_to:",
        "tests/unit/feeds/test_tikv_regions.py::test_regions_between_ranges_that_are_far_apart_are_not_queried",
    ),
    Mutation(
        "narrow rows of one region say how many of the next are requested",
        "sidecar/shared/tikv/scan.py::SnapshotScan._call",
        "min(self._call_rows, CALL_ROWS_FIRST)",
        "self._call_rows",
        f"{OF_SCAN}test_what_tikv_answers_is_bounded_by_the_rows_of_its_region_and_not_by_those_before",
    ),
    Mutation(
        "a live transaction is a store that does not serve",
        "sidecar/shared/tikv/scan.py::SnapshotScan._resolved",
        'f"this read {reason}; it was tried for {self._outage_max_s:g} s"',
        'self._not_served(FeedLost(reason, hint=""))[0]',
        f"{OF_SCAN}test_a_lock_is_reported_as_what_it_is[a live transaction]",
    ),
    Mutation(
        "a row under a lock is omitted",
        "sidecar/shared/tikv/scan.py::_unlocked",
        "return ScannedRows(keys[:end], values[:end], whole=not errors)",
        "return ScannedRows([k for k, v in zip(keys, values) if v], [v for v in values if v], whole=True)",
        LOCKED,
    ),
    Mutation(
        "behind a lock a region is over",
        "sidecar/shared/tikv/scan.py::SnapshotScan._call",
        "if len(rows.keys) < limit and rows.whole else",
        "if len(rows.keys) < limit else",
        LOCKED,
    ),
    Mutation(
        "an answer of as many rows as were requested ends its region",
        "sidecar/shared/tikv/scan.py::SnapshotScan._call",
        "if len(rows.keys) < limit and",
        "if len(rows.keys) <= limit and",
        f"{READS}test_a_chunk_ends_a_little_after_its_bytes",
    ),
    Mutation(
        "a chunk begins with the last row of the one before it",
        "sidecar/shared/reads/tikv_reads.py::_ranges",
        'max(start, after + b"\\0")',
        "max(start, after)",
        f"{READS}test_chunks_of_one_row_are_the_whole_table",
    ),
    Mutation(
        "a partition is not read",
        "sidecar/shared/reads/tikv_reads.py::_ranges",
        "sorted(schema.physical_ids)",
        "sorted(schema.physical_ids)[:1]",
        f"{READS}test_chunks_of_one_row_are_the_whole_table",
    ),
    Mutation(
        "a chunk reports a moment after its rows",
        "sidecar/shared/reads/tikv_reads.py::TikvReadSession._read",
        "read_tso = at_ts if",
        "read_tso = self._scan.now_ts() if",
        f"{READS}test_a_chunk_reports_the_moment_of_its_rows",
    ),
    Mutation(
        "what the slow decoder refuses ends a dump",
        "sidecar/shared/reads/tikv_reads.py::TikvRows.texts",
        'return Misfit(f"{where}: {error.message}", error.hint, self.at_ts)',
        'return Misfit(f"{where}: {error.message}", error.hint)',
        f"{READS}test_a_row_that_the_schema_does_not_fit_is_a_ddls_until_that_has_passed",
    ),
    Mutation(
        "any cluster is read from",
        "sidecar/shared/tikv/scan.py::SnapshotScan.now_ts",
        "if self._cluster_id not in (0, known):",
        "if False:",
        f"{READS}test_another_cluster_than_the_changefeeds_is_refused",
    ),
    Mutation(
        "rows that were read before a DDL serve after it",
        "sidecar/shared/reads/tikv_reads.py::TikvReads.follow",
        "self._in_force = _InForce(schemas)",
        "pass",
        f"{READS}test_what_was_read_before_a_ddl_serves_nothing_after_it",
    ),
    Mutation(
        "after a call of small rows as many wide ones are requested",
        "sidecar/shared/tikv/scan.py::SnapshotScan._tried",
        "max(1, self._call_rows // 4)",
        "self._call_rows",
        f"{READS}test_rows_that_become_wide_come_in_calls_that_fit_a_message",
    ),
    Mutation(
        "keys are requested where there is no SQL",
        "sidecar/core/dump_run.py::Run._read_chunk",
        "ReadWith.SQL if where or keys else self.progress.read_with",
        "self.progress.read_with",
        f"{READ_WITH}test_a_predicate_and_keys_are_for_sql",
    ),
    Mutation(
        "a restart reads with something else",
        "sidecar/shared/model/progress.py::Progress.to_json",
        '"read_with": self.read_with',
        '"read_with": "sql"',
        f"{READ_WITH}test_after_a_restart_of_the_sidecar_it_is_the_same_and_an_older_ones_was_sql",
    ),
    Mutation(
        "a dump from TiKV sends marks unasked",
        "sidecar/control/dump_scope.py::chosen_brackets",
        "wanted is None and read_with is not ReadWith.TIKV and not bracketing.marks",
        "wanted is None and not bracketing.marks",
        "tests/unit/control/test_dump_scope.py::test_without_brackets_they_are_those_of_what_is_read_with",
    ),
]
