"""Column rules: what a masked column may show, and what stops."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

MASKS = "tests/unit/masks"

MASKING = [
    Mutation(
        "old images are not masked",
        "spark_merge/masks/rows.py::masked_pieces",
        '("before", "after")',
        '("after",)',
        f"{MASKS}/test_rows.py::test_changes_are_masked_image_by_image",
    ),
    Mutation(
        "a masked row keeps its message",
        "spark_merge/masks/rows.py::masked_pieces",
        'or (name == "message_key" and codec == RAW_KEY_VALUES)',
        "or True",
        f"{MASKS}/test_rows.py::test_a_message_as_ticdc_wrote_it_is_no_part_of_a_masked_row[canal-json-kept0]",
    ),
    Mutation(
        "a hash is of another host's salt",
        "spark_merge/masks/sink.py::Masking.opened",
        "identity_of(salt) != self.salt_identity",
        "False",
        f"{MASKS}/test_sink.py::test_a_host_with_another_salt_hashes_nothing",
    ),
    Mutation(
        "a new column has its default in the rows that were there",
        "spark_merge/ddl/columns.py::added_column",
        "column.name in after.added",
        "False",
        f"{MASKS}/test_changes.py::test_a_new_column_is_masked_in_the_rows_that_were_there[given1-existing1]",
    ),
    Mutation(
        "a column that is renamed out of its rule is delivered",
        "spark_merge/masks/changes.py::_check_mask",
        "not was.makes_the_same(now)",
        "now is not None",
        f"{MASKS}/test_changes.py::test_a_column_that_gets_another_rule_by_its_name_stops[out of the rule-given0]",
    ),
    Mutation(
        "a generated column shows what is masked",
        "spark_merge/masks/tables.py::_check_generated",
        "if read and mask is None",
        "if False and mask is None",
        f"{MASKS}/test_tables.py::test_a_generated_column_of_a_masked_one_needs_a_rule_too",
    ),
    Mutation(
        "rows of other rules are added to those that a sink has",
        "spark_merge/delivery/sink_record.py::SinkRecord._check_rules",
        "tables.rules != self._rules",
        "False",
        f"{MASKS}/test_sink.py::test_a_sink_with_rows_of_other_rules_stops",
    ),
    Mutation(
        "rows of a table with other rules are exchanged into a masked one",
        "spark_merge/masks/changes.py::_check_exchange",
        "one != of_each[0]",
        "False",
        f"{MASKS}/test_changes.py::test_two_tables_with_other_rules_exchange_no_rows",
    ),
    Mutation(
        "a masked column has another name without a statement",
        "spark_merge/masks/changes.py::_check_unsaid",
        "if gone and came:",
        "if False:",
        f"{MASKS}/test_changes.py::test_a_masked_column_that_may_have_another_name_without_a_statement_stops",
    ),
    Mutation(
        "a batch that is begun has rows of any rules",
        "spark_merge/delivery/batches.py::Delivery.__init__",
        "elif self.record is not None and self._standing.begun is not None:",
        "elif self.record is not None and self._standing.begun is not None and False:",
        f"{MASKS}/test_sink.py::test_a_sink_that_has_begun_a_batch_has_rows_of_its_rules",
    ),
    Mutation(
        "rows of a masked sink are compared by the columns of the source",
        "spark_merge/verify/table_check.py::TableCheck._digested",
        "self._shown or schema",
        "schema",
        "tests/unit/verify/test_masked.py::test_a_masked_sink_that_follows_has_no_difference_whatever_happens_meanwhile"
        "[sqlite://{}/out.db?]",
    ),
    Mutation(
        "a Kafka sink passes on the message of a row that is masked",
        "spark_merge/sinks/kafka/rows.py::of_log",
        ' and "message_value" in changes.column_names',
        "",
        "tests/unit/sinks/kafka/test_writer.py"
        "::test_a_message_of_a_masked_row_is_made_of_its_columns_and_any_other_is_ticdcs_own[canal-json]",
    ),
]
