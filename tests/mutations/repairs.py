"""What a repair may correct: filters, shared targets, duplicate keys, and how much it deletes."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

OF_JUDGING = "tests/unit/control/test_judging.py"
OF_REPAIRING = "tests/unit/run/test_repairing.py"
OF_HIDDEN = "tests/unit/ticdc/test_hidden_changes.py"

REPAIRS = [
    Mutation(
        "a repair deletes rows whose deletes the filter leaves out",
        "sidecar/control/verification_messages.py::asked",
        "    refusals += not_repairable(legitimate) if request.repair else ()\n",
        "",
        f"{OF_JUDGING}::test_a_repair_is_refused_where_the_filter_makes_a_difference_right[deletes by value]",
    ),
    Mutation(
        "an update that is left out may not have changed a key",
        "sidecar/shared/ticdc/hidden_changes.py::_explanations",
        "changes_key else",
        "False else",
        f"{OF_HIDDEN}::test_what_a_filter_leaves_out_explains_the_differences_that_it_makes[updates of the key]",
    ),
    Mutation(
        "a repair goes on after the filter has changed",
        "sidecar/run/repairing.py::start_key_dump",
        "    scope.refusals += not_repairable(unjudged(scope, [dump.sink], served.targets))\n",
        "",
        f"{OF_JUDGING}::test_a_repairs_dump_is_refused_if_a_difference_can_be_right_by_then[filter]",
    ),
    Mutation(
        "a repair deletes the rows of a table that it was not asked about",
        "sidecar/control/judging.py::_shared",
        "dict.fromkeys((*scope.delivered, *scope.tables))",
        "scope.tables",
        f"{OF_JUDGING}::test_a_repair_is_refused_where_a_target_has_another_tables_rows_too[SQL]",
    ),
    Mutation(
        "two names of one target are two by the case of a letter",
        "spark_merge/sinks/registry.py::target_of",
        ".folded()",
        "",
        f"{OF_JUDGING}::test_a_repair_is_refused_where_a_target_has_another_tables_rows_too[SQL, one table]",
    ),
    Mutation(
        "what the filter explains is a difference in each cycle",
        "spark_merge/verify/tally.py::Tally.judges",
        "not any(kind in one.kinds for one in self.unjudged)",
        "True",
        "tests/unit/verify/test_table_check.py::test_differences_that_the_filter_explains_are_counted_and_are_none[('extra',)]",
    ),
    Mutation(
        "a row too many with an existing key is equal",
        "spark_merge/verify/compare.py::compared",
        "sink)\n",
        "sink[:0])\n",
        "tests/unit/verify/test_compare.py::test_a_key_that_is_there_twice_is_a_difference_of_its_own_whatever_its_rows_have_and_however_they_are_read"
        "[the same row]",
    ),
    Mutation(
        "a duplicate is looked at again by its key, which finds one of its rows",
        "spark_merge/verify/table_check.py::TableCheck._look",
        "None if self._reads_all else ",
        "",
        "tests/unit/verify/test_table_check.py::test_a_key_with_two_rows_is_a_duplicate_also_in_a_sink_that_finds_one_of_them"
        "[the same row-False]",
    ),
    Mutation(
        "a document under another id is the row of its key",
        "spark_merge/sinks/opensearch/reading.py::_Source.rows_of_hits",
        "pc.any(strays).as_py()",
        "False",
        "tests/unit/sinks/test_opensearch_strays.py::test_a_document_under_another_id_is_a_row_too_many_and_no_other_one_is",
    ),
    Mutation(
        "a repair deletes whatever is extra without a question",
        "sidecar/run/repairing.py::question",
        "one.at_most]",
        "1 << 62]",
        f"{OF_REPAIRING}::test_a_repair_that_deletes_too_much_asks_and_has_corrected_nothing",
    ),
    Mutation(
        "a next owner forgets the answer and asks again",
        "sidecar/run/term_repairs.py::TermRepairs.take_over",
        " if repair is None else repair.delete_at_most",
        "",
        f"{OF_REPAIRING}::test_a_repair_that_deletes_too_much_asks_and_has_corrected_nothing",
    ),
    Mutation(
        "one table that could not be compared stops the repair of all",
        "sidecar/shared/log/verification.py::_COMPARED",
        ", CheckState.FAILED",
        "",
        f"{OF_REPAIRING}::test_a_table_that_could_not_be_compared_stops_no_repair_of_the_others",
    ),
    Mutation(
        "what tables share is not known of a sink that only another machine can open",
        "spark_merge/sinks/registry.py::seen_from_here",
        '", target',
        '", None',
        f"{OF_JUDGING}::test_what_tables_share_is_known_of_a_sink_that_only_another_machine_can_open"
        "[mysql://u@h/?password-file=/nowhere/p&routes=shop.*=>c.*,shop2.*=>c.*]",
    ),
    Mutation(
        "a repair that is answered late dumps for a sink that has another name",
        "sidecar/run/repairing.py::start_key_dump",
        "    scope.refusals += unknown_sinks(request.sinks, served.sinks)\n",
        "",
        f"{OF_JUDGING}::test_a_repairs_dump_is_refused_if_a_difference_can_be_right_by_then[name]",
    ),
    Mutation(
        "an upgrade begins repairs that 0.4 had refused",
        "sidecar/shared/log/verification.py::VerifyRequest.is_to_repair",
        " and (self.partly or result.state is CheckState.DIFFERENT)",
        "",
        f"{OF_REPAIRING}::test_an_upgrade_repairs_nothing_that_an_earlier_version_has_refused_to_repair",
    ),
    Mutation(
        "the differences of a repair that runs are removed, and it ends as if all were corrected",
        "sidecar/run/term_verifications.py::TermVerifications._kept",
        ", *self._repairs.running",
        "",
        f"{OF_REPAIRING}::test_the_differences_of_a_repair_that_runs_are_kept",
    ),
    Mutation(
        "the next owner continues a repair that was stopped",
        "sidecar/run/term_repairs.py::TermRepairs.begin",
        "is not None",
        "is not None and not entry.commands",
        "tests/unit/run/test_term_repairs.py::test_what_an_operator_has_stopped_corrects_nothing_from_then_on[runs-True]",
    ),
    Mutation(
        "what a late owner writes of a repair that asks is read",
        "sidecar/run/term_repairs.py::TermRepairs.take_over",
        "self._write(entry.id, repair)",
        "pass",
        "tests/unit/run/test_term_repairs.py::test_what_a_late_owner_writes_of_a_repair_is_not_read[asks]",
    ),
    Mutation(
        "a stop amid a step of a repair is undone by that step",
        "sidecar/run/term_repairs.py::TermRepairs.step",
        "get(operation_id",
        "setdefault(operation_id, repair",
        "tests/unit/run/test_repairing.py::test_a_stop_amid_a_step_of_the_repair_is_not_undone_by_it",
    ),
    Mutation(
        "keys that were left out of a repair are not named",
        "sidecar/run/repairing.py::Repair._begun_without",
        "not left",
        "left",
        "tests/unit/run/test_repairing.py::test_a_key_that_no_row_of_the_source_can_have_fails_alone_and_is_named",
    ),
]
"""Of repairs and of what nobody may judge."""
