"""What lakes do with a dump's deletes, and what they tell their readers of files."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

LAKES = "tests/contract/test_merged_lakes.py"
STATISTICS = "tests/unit/sinks/test_delta_statistics.py"
ABSENT = f"{LAKES}::test_a_key_that_the_source_does_not_have_is_no_row_afterwards"

LAKE_SINKS = [
    Mutation(
        "a Delta table takes the keys that a dump deletes as rows",
        "spark_merge/sinks/delta/writer.py::DeltaWriter.__call__",
        "(not dump or block.deletes)",
        "not dump",
        f"{ABSENT}[batches0-delta]",
    ),
    Mutation(
        "a Delta table takes a file of which it has the first segments",
        "spark_merge/sinks/kit/held.py::missing",
        "file.first < due",
        "file.last < due",
        "tests/integration/test_delta_sink.py::TestDelta::test_files_of_which_a_previous_owner_has_brought_a_part_are_taken_by_no_table[append]",
    ),
    Mutation(
        "a log's reader takes rows of after its position",
        "spark_merge/sinks/formats/parquet.py::LogPart.__call__",
        "pc.less_equal(",
        "pc.greater_equal(",
        "tests/integration/test_delta_sink.py::TestDelta::test_a_reader_at_a_position_amid_what_the_output_has_lacks_nothing[append]",
    ),
    Mutation(
        "a reader of a merged Delta table lacks what came with later rows",
        "spark_merge/sinks/delta/reading.py::DeltaReader._go_back",
        'int(about["first_seq"]) > self.accepted.seq or "ddl" in about',
        "True",
        "tests/integration/test_delta_sink.py::TestDelta::test_a_reader_at_a_position_amid_what_the_output_has_lacks_nothing[merge]",
    ),
    Mutation(
        "a reader of a merged Iceberg table lacks what came with later rows",
        "spark_merge/sinks/iceberg/reading.py::_has_earlier",
        "reported is None or int(reported) <= seq",
        "False",
        "tests/contract/test_iceberg_merge.py::test_a_reader_at_a_position_amid_a_tables_commit_lacks_nothing",
    ),
    Mutation(
        "a Delta task writes what its table has",
        "spark_merge/sinks/delta/writer.py::DeltaWriter.__call__",
        " and seq >= to.due",
        "",
        "tests/integration/test_delta_sink.py::TestDelta::test_rows_that_a_previous_owner_commits_late_are_there_once[append]",
    ),
    Mutation(
        "rows that wait for their file are not bounded",
        "spark_merge/sinks/kit/held.py::HeldByFile.add",
        "> HELD_BYTES_MAX",
        "< 0",
        "tests/unit/sinks/test_held.py::test_the_largest_becomes_a_file_when_all_are_too_many",
    ),
    Mutation(
        "a Delta table takes a pass as it is, deletes and all",
        "spark_merge/sinks/delta/merge.py::_only_pass",
        "    if any(file.staged for file in files):\n        return None\n",
        "",
        f"{LAKES}::test_a_first_dump_of_keys_makes_no_row_of_what_is_not_there[delta]",
    ),
    Mutation(
        "an Iceberg table takes the keys that a dump deletes as rows",
        "spark_merge/sinks/iceberg/merge_writer.py::_Table._write_dump",
        ".filter(puts), every.filter(pc.invert(puts)",
        ", every.slice(0, 0",
        f"{ABSENT}[batches0-iceberg]",
    ),
    Mutation(
        "an Iceberg table keeps a row of the batch that a dump deletes after it",
        "spark_merge/sinks/iceberg/fold.py::without_repeats",
        "(file.deletes or not file.passes)",
        "not file.passes",
        f"{ABSENT}[batches3-iceberg]",
    ),
    Mutation(
        "a Delta table takes a pass as it is, beside rows that were written by hand",
        "spark_merge/sinks/delta/ddl.py::alter",
        "with_transactions(made, touched(moment.log_id))",
        "made",
        "tests/integration/test_delta_changes.py::test_a_dumps_rows_are_merged_after_a_ddl_that_was_carried_out_by_hand",
    ),
    Mutation(
        "a lake believes what it knew of a table before a DDL altered it",
        "spark_merge/sinks/lake/lake_sink.py::LakeSink.accept",
        "stay - altered.keys()",
        "stay",
        "tests/unit/sinks/test_lake_sink.py::test_a_table_is_looked_at_once_until_its_schema_changes_or_a_ddl_alters_it[1]",
    ),
    Mutation(
        "a refused DDL keeps the rows of before it from a lake that has them first",
        "spark_merge/sinks/lake/lake_sink.py::LakeSink.accept",
        "self._bring(heads, files, {})",
        "...",
        "tests/unit/sinks/test_lake_sink.py::test_a_ddl_that_no_table_follows_alters_none_and_is_not_accepted[True]",
    ),
    Mutation(
        "a lake gives up where another commit came first",
        "spark_merge/sinks/lake/steps.py::at_its_end",
        "suppress(Outpaced)",
        "suppress()",
        "tests/unit/sinks/test_lake_steps.py::test_each_step_is_taken_once_however_often_others_are_faster",
    ),
    Mutation(
        "a Delta table has statistics of decimals",
        "spark_merge/sinks/delta/statistics.py::exact",
        "))",
        ") or pa.types.is_decimal(kind))",
        f"{STATISTICS}::test_a_table_of_an_earlier_version_is_corrected_when_its_output_is_opened",
    ),
    Mutation(
        "a file without a column has no statistics of it",
        "spark_merge/sinks/delta/statistics.py::completed",
        'dict.fromkeys(names, result["numRecords"]) | ',
        "",
        f"{STATISTICS}::test_columns_that_come_and_go_lose_no_row_for_any_filter[append]",
    ),
]
