"""A dump that is read from TiKV: which rows, of which moment, and by what."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

READS = "tests/integration/test_tikv_reads.py::"
READ_WITH = "tests/unit/core/test_read_with.py::"
LOCKED = f"{READS}test_rows_before_and_behind_a_lock_come_once_and_the_locked_one_in_between"

TIKV_READS = [
    Mutation(
        "a row under a lock is omitted",
        "sidecar/tikv/scan.py::_unlocked",
        "return ScannedRows(keys[:end], values[:end], whole=not errors)",
        "return ScannedRows([k for k, v in zip(keys, values) if v], [v for v in values if v], whole=True)",
        LOCKED,
    ),
    Mutation(
        "behind a lock a region is over",
        "sidecar/tikv/scan.py::SnapshotScan._call",
        "if len(rows.keys) < limit and rows.whole else",
        "if len(rows.keys) < limit else",
        LOCKED,
    ),
    Mutation(
        "an answer of as many rows as were requested ends its region",
        "sidecar/tikv/scan.py::SnapshotScan._call",
        "if len(rows.keys) < limit and",
        "if len(rows.keys) <= limit and",
        f"{READS}test_a_chunk_ends_a_little_after_its_bytes",
    ),
    Mutation(
        "a chunk begins with the last row of the one before it",
        "sidecar/adapters/tikv/reads.py::_ranges",
        'max(start, after + b"\\0")',
        "max(start, after)",
        f"{READS}test_chunks_of_one_row_are_the_whole_table",
    ),
    Mutation(
        "a partition is not read",
        "sidecar/adapters/tikv/reads.py::_ranges",
        "sorted(schema.physical_ids)",
        "sorted(schema.physical_ids)[:1]",
        f"{READS}test_chunks_of_one_row_are_the_whole_table",
    ),
    Mutation(
        "a chunk reports a moment after its rows",
        "sidecar/adapters/tikv/reads.py::TikvReadSession._read",
        "read_tso = at_ts if",
        "read_tso = self._scan.now_ts() if",
        f"{READS}test_a_chunk_reports_the_moment_of_its_rows",
    ),
    Mutation(
        "what the slow decoder refuses ends a dump",
        "sidecar/adapters/tikv/reads.py::TikvRows.texts",
        'return Misfit(f"{where}: {error.message}", error.hint, self.at_ts)',
        'return Misfit(f"{where}: {error.message}", error.hint)',
        f"{READS}test_a_row_that_the_schema_does_not_fit_is_a_ddls_until_that_has_passed",
    ),
    Mutation(
        "any cluster is read from",
        "sidecar/tikv/scan.py::SnapshotScan.now_ts",
        "if self._cluster_id not in (0, known):",
        "if False:",
        f"{READS}test_another_cluster_than_the_changefeeds_is_refused",
    ),
    Mutation(
        "rows that were read before a DDL serve after it",
        "sidecar/adapters/tikv/reads.py::TikvReads.follow",
        "self._in_force = _InForce(schemas)",
        "pass",
        f"{READS}test_what_was_read_before_a_ddl_serves_nothing_after_it",
    ),
    Mutation(
        "after a call of small rows as many wide ones are requested",
        "sidecar/tikv/scan.py::SnapshotScan._tried",
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
        "sidecar/core/progress.py::Progress.to_json",
        '"read_with": self.read_with',
        '"read_with": "sql"',
        f"{READ_WITH}test_after_a_restart_of_the_sidecar_it_is_the_same_and_an_older_ones_was_sql",
    ),
    Mutation(
        "a dump from TiKV sends marks unasked",
        "sidecar/control/dump_scope.py::start_dump",
        "(Brackets.SNAPSHOT if read_with is ReadWith.TIKV else Brackets.WATERMARK)",
        "Brackets.WATERMARK",
        "tests/unit/control/test_dump_scope.py::test_without_brackets_they_are_those_of_what_is_read_with",
    ),
]
