"""The texts of DDLs: what is read of them, what they do, and what of them a sink sends."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

LEXER = "sidecar/shared/sql/lexer.py"
SCENARIO = "tests/scenarios/test_scenarios.py::test_scenario"
PARSER = "tests/unit/ddl/test_parser.py"
VALUES = "tests/integration/test_sql_ddl_values.py"
PARTITIONS = "spark_merge/sinks/mysql/ddl_partitions.py"
REREAD = "tests/integration/test_sql_reread.py"

DDLS = [
    Mutation(
        "an account's quoted host is no lexeme",
        f"{LEXER}::_lexemes",
        "?(",
        "(",
        f"{SCENARIO}[sql_lexemes]",
    ),
    Mutation(
        "digits of every script make a number",
        f"{LEXER}::_lexemes",
        " | re.ASCII",
        "",
        f"{SCENARIO}[sql_lexemes]",
    ),
    Mutation(
        "a string that ends in a doubled quote has an end",
        f"{LEXER}::_lexemes",
        "+{",
        "{",
        f"{SCENARIO}[sql_lexemes]",
    ),
    Mutation(
        "a predicate may hold a comment that some servers read",
        "sidecar/shared/ticdc/expression.py::FilterExpression.of",
        "()",
        "().strip('/*')",
        f"{SCENARIO}[expr_of_operators]",
    ),
    Mutation(
        "a text with a comment of its author is taken for TiCDC's",
        "sidecar/shared/sql/text.py::for_servers",
        "or _COMMENT_OF_AN_AUTHOR.search(token.gap) ",
        "",
        "tests/unit/sql/test_text.py::test_the_text_of_an_author_is_sent_as_it_is",
    ),
    Mutation(
        "a statement that keeps the rows stops a sink by its options",
        "spark_merge/ddl/logged.py::_logged",
        "keeps_rows(record.query)",
        "not record.query",
        "tests/unit/ddl/test_logged.py::test_a_statement_that_keeps_the_rows_whatever_its_options_are_is_no_problem",
    ),
    Mutation(
        "a comment of a feature that is not known may hold changes of columns",
        "spark_merge/ddl/reader.py::_are_options",
        '(_OTHER_TABLES if depth or before == "=" else _OTHER_TABLES | _NO_OPTION)',
        "_OTHER_TABLES",
        f"{PARSER}::test_a_comment_of_a_feature_that_is_not_known_may_not_hold_more_than_options",
    ),
    Mutation(
        "ADD PARTITION of HASH partitions is taken for one that adds a range",
        "sidecar/shared/ticdc/ddl_text.py::_OF_TABLES",
        ').*", _A.REORGANIZE_PARTITION',
        ').*", _A.ADD_TABLE_PARTITION',
        f"{SCENARIO}[ddl_actions]",
    ),
    Mutation(
        "Kafka sends a DDL that the operator has decided",
        "spark_merge/sinks/kafka/writer.py::KafkaWriter._ddls",
        "self.output.ddl_done",
        "()",
        "tests/unit/sinks/kafka/test_writer.py::test_a_ddl_that_the_protocol_has_no_number_for_is_not_sent_once_the_operator_says_so",
    ),
    Mutation(
        "DROP TABLE t, s2.t drops s2.t twice",
        "spark_merge/ddl/names.py::_own_drop",
        "[:1]",
        "",
        "tests/unit/ddl/test_names.py::test_of_tables_of_one_name_in_two_schemas_a_drop_takes_the_records_own_once",
    ),
    Mutation(
        "of renames that fit one table the first has it, whatever the others name",
        "spark_merge/ddl/names.py::_by_ids",
        "            moved.remove(results[0])\n",
        "",
        "tests/unit/ddl/test_names.py::test_of_tables_of_one_name_in_two_schemas_each_is_renamed_as_its_id_shows",
    ),
    Mutation(
        "each column of a JSON line's image goes through the whole image",
        "spark_merge/sinks/formats/json_lines.py::_fields",
        "one.cast(pa.string()) for one in numbered.to_arrow().flatten()",
        "numbered.struct.field(one).to_arrow().cast(pa.string()) for one in numbered.struct.fields",
        "tests/unit/sinks/test_json_rows.py::test_an_image_is_gone_through_once_whatever_its_columns_are",
    ),
    Mutation(
        "NCHAR is utf8mb3 at the target",
        "spark_merge/ddl/column_syntax.py::_OTHER_NAMES",
        'VARCHAR", "NCHAR": "CHAR',
        'NVARCHAR", "NCHAR": "NCHAR',
        f"{SCENARIO}[ddl_create_table]",
    ),
    Mutation(
        "rows of HASH partitions leave where some are added",
        "spark_merge/ddl/alter_table.py::_Alter._add",
        "else self._rearranged()",
        "else None",
        f"{SCENARIO}[effects_partitions]",
    ),
    Mutation(
        "MariaDB cuts the digits of a fraction that TiDB rounds",
        "sidecar/shared/mysql/setup.py::_SQL_MODES",
        ",TIME_ROUND_FRACTIONAL",
        "",
        f"{VALUES}::test_what_a_modify_leaves_is_what_tidb_makes_or_the_ddl_is_refused[datetime(6)]",
    ),
    Mutation(
        "a target makes texts of floating-point numbers",
        "spark_merge/sinks/mysql/ddl_values.py::_ALIKE",
        '("json", "text"): frozenset({_MARIADB})',
        '("json", "text"): _BOTH, ("double", "text"): _BOTH',
        f"{VALUES}::test_what_a_modify_leaves_is_what_tidb_makes_or_the_ddl_is_refused[double]",
    ),
    Mutation(
        "a TIMESTAMP becomes a DATETIME by the sink's zone",
        "spark_merge/sinks/mysql/ddl_values.py::differs",
        'was.kind != now.kind and "timestamp" in (was.kind, now.kind)',
        "False",
        f"{VALUES}::test_what_the_authors_zone_or_day_decides_stops_the_ddl_at_each_target[timestamp-datetime-Flavour.TIDB]",
    ),
    Mutation(
        "SQL: a dump from before a DDL lets the sink carry it out",
        "spark_merge/delivery/rereads.py::leave_at",
        " and reread.since_seq > manifest.seq",
        "",
        f"{REREAD}::test_another_dump_gives_no_leave[from before the DDL]",
    ),
    Mutation(
        "SQL: a dump that was stopped lets the sink carry a DDL out",
        "spark_merge/delivery/rereads.py::rereads",
        " and dump.state not in _MAY_BRING_NONE",
        "",
        f"{REREAD}::test_another_dump_gives_no_leave[stopped]",
    ),
    Mutation(
        "a new column's default is read in the sink's zone",
        "spark_merge/sinks/mysql/ddl_values.py::_Judge._default",
        "return _in_sql(column, effect.existing, effect.types[1], self._flavour)",
        "return None",
        f"{VALUES}::test_what_rows_have_in_a_new_column_is_what_the_log_says",
    ),
    Mutation(
        "a partition's bound is computed in the sink's zone",
        "spark_merge/sinks/mysql/ddl_values.py::_Judge.bounds",
        "and _has_zone(one.text)",
        "and False",
        f"{VALUES}::test_a_partitions_bound_is_that_of_its_authors_zone",
    ),
    Mutation(
        "rows leave with a partition that has other rows at the target",
        f"{PARTITIONS}::_of_tidb_alone",
        'clause.kind == "KEY"',
        "False",
        f"{VALUES}::test_rows_leave_with_a_partition_only_where_it_has_the_same_rows",
    ),
    Mutation(
        "DROP PARTITION takes the rows of a bound that was made in UTC",
        f"{PARTITIONS}::_other_values",
        "mine == others",
        "True",
        f"{VALUES}::test_rows_leave_with_a_partition_only_where_its_bounds_are_the_sources",
    ),
    Mutation(
        "a partition of texts has those that a collation takes for equal",
        "spark_merge/sinks/mysql/compares.py::_order",
        "by_bytes or ",
        "",
        f"{VALUES}::test_rows_leave_with_a_partition_of_texts_only_where_these_compare_as_at_the_source",
    ),
    Mutation(
        "the target puts the zeros of ZEROFILL into texts",
        "spark_merge/sinks/mysql/ddl_values.py::differs",
        '"zerofill" in target.type_text.lower()',
        "False",
        f"{VALUES}::test_the_targets_column_says_whether_a_number_has_zeros_before_it",
    ),
    Mutation(
        "a label that goes is read as another one without its accent",
        "spark_merge/sinks/mysql/ddl_values.py::_COARSEST",
        '"utf8mb4_general_ci", "utf8mb4_unicode_ci"',
        '"utf8mb4_bin",',
        f"{VALUES}::test_a_label_that_goes_is_not_read_as_another_one",
    ),
    Mutation(
        "a DDL that a version before carried out is refused",
        "spark_merge/sinks/mysql/ddl.py::DdlRunner._at",
        "noted is not None and",
        "False and",
        f"{VALUES}::test_what_a_version_before_began_and_is_there_is_done_and_what_is_not_is_judged",
    ),
    Mutation(
        "a formula whose result is below zero in some session blocks the sink",
        "spark_merge/sinks/mysql/formulas.py::_Formula._fits_number",
        'unsigned and "-" in self._signs()',
        "False",
        f"{VALUES}::test_what_a_formula_of_a_lax_session_made_is_written",
    ),
    Mutation(
        "a formula over floating-point numbers is computed by the target",
        "spark_merge/sinks/mysql/formulas.py::_NUMBERS",
        '"decimal"',
        '"decimal", "double", "float"',
        f"{VALUES}::test_a_stored_formula_stays_where_each_server_has_the_same_result",
    ),
    Mutation(
        "TRUNCATE of one table empties the others that routes bring there",
        "spark_merge/sinks/mysql/ddl.py::_check_alone",
        "routes.check_table_goes_alone(name, tables, statement.text)",
        "pass",
        f"{VALUES}::test_a_ddl_of_a_table_that_shares_its_place_is_refused",
    ),
    Mutation(
        "a MODIFY within one kind is called unchanged",
        "spark_merge/ddl/eras.py::Era._converted",
        "keeps(values, column, step)",
        "True",
        "tests/unit/ddl/test_eras_model.py::test_values_that_fit_each_type_in_between_are_read_and_others_stop[column0-types0-values0-True]",
    ),
    Mutation(
        "a reader compares values with the last type alone, not with those in between",
        "spark_merge/ddl/eras.py::PreviousColumn.given",
        ", *self.types)",
        ", *self.types)[-1:]",
        "tests/unit/ddl/test_eras_model.py::test_values_that_fit_each_type_in_between_are_read_and_others_stop[column11-types11-values11-True]",
    ),
]
