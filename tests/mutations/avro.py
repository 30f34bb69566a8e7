"""Avro: bytes, schemas, what stops, the registry, and what is read back."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

COLUMNS, ENCODER, SCHEMA = (
    "spark_merge/codecs/encode/avro_columns.py",
    "spark_merge/codecs/encode/avro.py",
    "spark_merge/codecs/encode/avro_schema.py",
)
REGISTRY, MESSAGES = "spark_merge/sinks/kafka/schema_registry.py", "spark_merge/sinks/kafka/registry_messages.py"
OF_COLUMNS, OF_ENCODER, OF_SCHEMA = (
    "tests/unit/encode/test_avro_columns.py",
    "tests/unit/encode/test_avro.py",
    "tests/unit/encode/test_avro_schema.py",
)
OF_REGISTRY, OF_MESSAGES = "tests/unit/sinks/kafka/test_schema_registry.py", "tests/unit/sinks/kafka/test_registry_messages.py"
ON_A_REGISTRY = "tests/integration/test_kafka_sink_avro.py"

AVRO = [
    Mutation(
        "a number of 7 bits takes two bytes",
        f"{COLUMNS}::_varints",
        'side="right"',
        'side="left"',
        f"{OF_COLUMNS}::test_bytes_by_hand",
    ),
    Mutation(
        "a null has its value's bytes behind it",
        f"{COLUMNS}::_where_valid",
        "part if not values.null_count else",
        "part if True else",
        f"{OF_COLUMNS}::test_each_value_at_its_limits",
    ),
    Mutation(
        "null is first in a union whose column has a default",
        f"{SCHEMA}::_column",
        "NULL_LAST if last else NULL_FIRST",
        "NULL_FIRST",
        f"{OF_SCHEMA}::test_a_default_moves_null_behind_the_value",
    ),
    Mutation(
        "a value that is NOT NULL and not there is zero",
        f"{ENCODER}::AvroEncoder._parts",
        "one.union is None and text.null_count",
        "False",
        f"{OF_ENCODER}::test_what_does_not_fit_stops",
    ),
    Mutation(
        "a delete has its row without the option",
        f"{ENCODER}::AvroEncoder._messages",
        "self.shape.before and not keys_only",
        "not keys_only",
        f"{OF_ENCODER}::test_schemas_and_rows_by_hand",
    ),
    Mutation(
        "a delete of a key alone has a row",
        f"{ENCODER}::AvroEncoder._messages",
        "self.shape.before and not keys_only",
        "self.shape.before",
        f"{OF_ENCODER}::test_a_delete_has_its_row_with_the_option_alone_and_never_of_a_key_alone",
    ),
    Mutation(
        "two columns are one field",
        f"{SCHEMA}::check_names",
        "taken[avro_name(name)] = name",
        "taken[name] = name",
        f"{OF_ENCODER}::test_what_does_not_fit_stops",
    ),
    Mutation(
        "a schema is looked up where it is to be registered",
        f"{REGISTRY}::_id_of",
        "'/versions' if registry.registers else ''",
        "'' if registry.registers else '/versions'",
        f"{ON_A_REGISTRY}::test_a_consumer_reads_rows_by_the_registry_across_a_ddl",
    ),
    Mutation(
        "a registry that is away stops the sink at once",
        f"{REGISTRY}::_once",
        "answer.status in _PASSES or answer.status >= 500",
        "False",
        f"{OF_REGISTRY}::test_what_passes_is_tried_again_and_an_error_is_not_kept",
    ),
    Mutation(
        "two tables share a topic's schemas",
        "spark_merge/sinks/kafka/topics.py::check_apart",
        "!= name:",
        "== ():",
        f"{ON_A_REGISTRY}::test_two_tables_of_one_topic_are_refused",
    ),
    Mutation(
        "a deleted row has no commit_ts",
        "spark_merge/sinks/kafka/writer.py::KafkaWriter._rows",
        "if bare else []",
        "if False else []",
        f"{ON_A_REGISTRY}::test_each_row_has_its_commit_ts_in_a_header_and_ddls_and_marks_have_topics_of_their_own",
    ),
    Mutation(
        "rows of another table are read",
        f"{MESSAGES}::debezium_in_json",
        "if era is None:",
        "if False:",
        f"{OF_MESSAGES}::test_rows_of_another_table_are_passed_over",
    ),
    Mutation(
        "a small decimal has an exponent",
        f"{MESSAGES}::_texts",
        'f"{one:f}" if isinstance(one, Decimal) else one',
        "str(one) if isinstance(one, Decimal) else one",
        f"{OF_MESSAGES}::test_a_small_decimal_has_its_digits",
    ),
]
