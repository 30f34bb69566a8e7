"""The texts of DDLs: what is read of them, what they do, and what of them a sink sends."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

TOKENS = "tests/unit/ddl/test_tokens.py"
SCENARIO = "tests/scenarios/test_scenarios.py::test_scenario"
PARSER = "tests/unit/ddl/test_parser.py"

DDLS = [
    Mutation(
        "an account's quoted host is no lexeme",
        "spark_merge/ddl/tokens.py",
        "(?P<variable>@@?(?:'",
        "(?P<variable>@@(?:'",
        f"{TOKENS}::test_each_lexeme_of_tidb_is_a_token[`root`@`%`-expected0]",
    ),
    Mutation(
        "a statement that keeps the rows stops a sink by its options",
        "spark_merge/ddl/logged.py",
        "if keeps_rows(record.query):",
        "if not record.query:",
        "tests/unit/ddl/test_logged.py::test_a_statement_that_keeps_the_rows_whatever_its_options_are_is_no_problem",
    ),
    Mutation(
        "a comment of a feature that is not known may hold changes of columns",
        "spark_merge/ddl/reader.py",
        'in (_OTHER_TABLES if depth or before == "=" else _OTHER_TABLES | _NO_OPTION)',
        "in _OTHER_TABLES",
        f"{PARSER}::test_a_comment_of_a_feature_that_is_not_known_may_not_hold_more_than_options",
    ),
    Mutation(
        "ADD PARTITION of HASH partitions is taken for one that adds a range",
        "sidecar/ticdc/ddl_text.py",
        'ADD PARTITION (?!.* (VALUES|DEFAULT) ).*", _A.REORGANIZE_PARTITION',
        'ADD PARTITION (?!.* (VALUES|DEFAULT) ).*", _A.ADD_TABLE_PARTITION',
        "tests/unit/ticdc/test_ddl_text.py::test_a_statement_tells_its_action",
    ),
    Mutation(
        "Kafka sends a DDL that the operator has decided",
        "spark_merge/sinks/kafka/writer.py",
        "if ddl.commit_ts in self.output.ddl_done:",
        "if ddl.commit_ts in ():",
        "tests/unit/sinks/kafka/test_writer.py::test_a_ddl_that_the_protocol_has_no_number_for_is_not_sent_once_the_operator_says_so",
    ),
    Mutation(
        "DROP TABLE t, s2.t drops s2.t twice",
        "spark_merge/ddl/names.py",
        "items=items[:1])",
        "items=items)",
        "tests/unit/ddl/test_names.py::test_of_tables_of_one_name_in_two_schemas_a_drop_takes_the_records_own_once",
    ),
    Mutation(
        "of renames that fit one table the first has it, whatever the others name",
        "spark_merge/ddl/names.py",
        "            moved.remove(found[0])\n",
        "",
        "tests/unit/ddl/test_names.py::test_of_tables_of_one_name_in_two_schemas_each_is_renamed_as_its_id_shows",
    ),
    Mutation(
        "each column of a JSON line's image goes through the whole image",
        "spark_merge/sinks/formats/json_lines.py",
        "[one.cast(pa.string()) for one in numbered.to_arrow().flatten()]",
        "[numbered.struct.field(one).to_arrow().cast(pa.string()) for one in numbered.struct.fields]",
        "tests/unit/sinks/test_json_rows.py::test_an_image_is_gone_through_once_whatever_its_columns_are",
    ),
    Mutation(
        "NCHAR is utf8mb3 at the target",
        "spark_merge/ddl/column_syntax.py",
        '"NVARCHAR": "VARCHAR", "NCHAR": "CHAR",',
        '"NVARCHAR": "NVARCHAR", "NCHAR": "NCHAR",',
        f"{SCENARIO}[ddl_create_table]",
    ),
    Mutation(
        "rows of HASH partitions leave where some are added",
        "spark_merge/ddl/alter_table.py",
        "return None if definitions(reader) else self._rearranged()",
        "return None if definitions(reader) else None",
        f"{SCENARIO}[effects_partitions]",
    ),
]
