"""Messages as Debezium has them: one event for a key and commit_ts, positions that rise, rows of a dump, NULL, where a topic ends."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

JOIN, ROWS, DATES = (
    "spark_merge/codecs/encode/join.py",
    "spark_merge/codecs/encode/debezium_rows.py",
    "spark_merge/codecs/encode/debezium_dates.py",
)
OF_JOIN, OF_ROWS, OF_MESSAGES = (
    "tests/unit/encode/test_join.py",
    "tests/unit/encode/test_debezium_rows.py",
    "tests/unit/encode/test_debezium.py",
)
OF_DECODED, OF_WRITER = "tests/unit/decode/test_debezium.py", "tests/unit/sinks/kafka/test_writer.py"
OF_SCHEMA = "tests/unit/encode/test_debezium_schema.py"
ON_A_BROKER = "tests/integration/test_kafka_sink_debezium.py"

DEBEZIUM = [
    Mutation(
        "a key's events are in several partitions",
        "spark_merge/sinks/kafka/partitions.py::verify_whole_keys",
        "not by_handle_key(rule, schema)",
        "False",
        "tests/unit/sinks/kafka/test_partitions.py::test_elsewhere_debeziums_form_is_refused[rule1-uk_name]",
    ),
    Mutation(
        "two topics that are one to Kafka are two",
        "spark_merge/sinks/kafka/topics.py::check_apart",
        '.replace(".", "_")',
        "",
        "tests/unit/sinks/kafka/test_debezium_topics.py::test_two_tables_of_one_topic_are_refused[dot and line]",
    ),
    Mutation(
        "a delete and an insert of a key at one commit_ts stay two events",
        "spark_merge/sinks/kafka/rows.py::encoded",
        "joined(changes) if record.as_debezium else ",
        "",
        "tests/unit/sinks/kafka/test_rows.py::test_as_debezium_has_it_an_update_of_a_unique_value_is_one_and_a_split_one_is_one_again",
    ),
    Mutation(
        "changes of a key at two commit_ts are one",
        f"{JOIN}::joined",
        " | (np.diff(commit_ts) != 0)",
        "",
        f"{OF_JOIN}::test_the_same_key_at_another_commit_ts_stays_apart_and_messages_stay_beside_their_rows",
    ),
    Mutation(
        "a joined change has the row after the first of them",
        f"{JOIN}::joined",
        "take(pa.array(last[in_order]))",
        "take(pa.array(first[in_order]))",
        f"{OF_JOIN}::test_rows_that_exchange_their_keys_are_two_updates",
    ),
    Mutation(
        "two changes of a millisecond have one ts_ns",
        f"{ROWS}::position_ns",
        "pc.bit_wise_and(commit_ts, (1 << _LOGICAL_BITS) - 1)",
        "0",
        f"{OF_MESSAGES}::test_positions_rise_strictly_with_commit_ts",
    ),
    Mutation(
        "a row of a dump is an insert",
        f"{ROWS}::debezium_rows",
        'pc.if_else(from_dump, "r", pc.if_else(is_new, "c", "u"))',
        'pc.if_else(is_new, "c", "u")',
        f"{OF_MESSAGES}::test_ops_are_those_of_debezium_and_a_dump_is_an_incremental_snapshot",
    ),
    Mutation(
        "NULL is the column's zero",
        "spark_merge/codecs/encode/debezium_json.py::objects",
        'null_replacement="null"',
        'null_replacement="0"',
        f"{OF_MESSAGES}::test_null_is_null_whatever_the_columns_default",
    ),
    Mutation(
        "an optional field has a default",
        "spark_merge/codecs/encode/debezium_schema.py::_default",
        "field.optional or ",
        "",
        f"{OF_SCHEMA}::test_a_required_field_has_as_default_what_a_row_with_that_value_has",
    ),
    Mutation(
        "a whole float is an integer",
        "spark_merge/codecs/encode/debezium_json.py::_floats",
        'pc.if_else(pc.match_substring_regex(texts, "[.e]"), texts, pc.binary_join_element_wise(texts, "0", "."))',
        "texts",
        "tests/unit/encode/test_debezium_json.py::test_doubles_keep_their_value_and_the_sign_of_zero_and_are_never_whole_numbers",
    ),
    Mutation(
        "a default of bytes is base64 in Avro",
        "spark_merge/codecs/encode/connect_avro.py::_default",
        'base64.b64decode(value).decode("iso-8859-1") if schema["type"] == "bytes" and value is not None else value',
        "value",
        "tests/unit/encode/test_connect_avro.py::test_a_default_is_what_avros_readers_make_of_it",
    ),
    Mutation(
        "a date that no calendar has is another date",
        f"{DATES}::_days",
        " | (day > last)",
        "",
        f"{OF_MESSAGES}::test_a_date_that_no_calendar_has_stops_the_sink_or_is_null_or_1970",
    ),
    Mutation(
        "an invalid date in a handle key is 1970",
        "spark_merge/codecs/encode/debezium_values.py::field_values",
        " or field.is_key",
        "",
        f"{OF_MESSAGES}::test_a_date_that_no_calendar_has_stops_the_sink_or_is_null_or_1970",
    ),
    Mutation(
        "a number of another scale is read as one of this",
        "spark_merge/codecs/encode/debezium_fields.py::_same",
        " and scale[0] == scale[1]",
        "",
        f"{OF_DECODED}::test_a_value_of_another_type_is_never_read_as_one_of_the_present_type",
    ),
    Mutation(
        "rows without schemas are read by the present types",
        "spark_merge/codecs/decode/debezium.py::DebeziumDecoder._check",
        "if self.redefined:",
        "if False:",
        f"{OF_DECODED}::test_a_value_of_another_type_is_never_read_as_one_of_the_present_type",
    ),
    Mutation(
        "a delete has no tombstone",
        "spark_merge/sinks/kafka/writer.py::KafkaWriter._has_tombstone",
        "if not self.output.tombstones:",
        "if True:",
        f"{OF_WRITER}::test_a_delete_has_a_tombstone_of_its_key_behind_it",
    ),
    Mutation(
        "resolved marks are among the rows",
        "spark_merge/sinks/kafka/debezium_topics.py::DebeziumRouter.mark_topics",
        "return frozenset({self.heartbeat_topic})",
        "return self.topics(tables)",
        f"{OF_WRITER}::test_ddls_and_marks_of_debezium_go_where_no_rows_are",
    ),
    Mutation(
        "rows go to the topic of the DDLs",
        "spark_merge/sinks/kafka/debezium_topics.py::DebeziumRouter.topic",
        "if topic in self.without_rows:",
        "if False:",
        "tests/unit/sinks/kafka/test_debezium_topics.py::test_rows_are_never_where_ddls_and_marks_are",
    ),
    Mutation(
        "a reader ends before transactions that are not ended",
        "spark_merge/sinks/kafka/reading.py::read_back",
        '"read_uncommitted" if router.without_rows else "read_committed"',
        '"read_committed"',
        f"{ON_A_BROKER}::test_a_reader_waits_for_records_whose_transaction_is_not_ended",
    ),
]
