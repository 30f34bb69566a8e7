"""Text of TiDB in quotes, names of tables and columns, defaults and changes of type."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

SQL_TEXT = "sidecar/sql/text.py"
OF_NAMES = "tests/unit/sinks/test_names_apart.py"
OF_SQL_TEXT = "tests/unit/sql/test_text.py"

TEXTS = [
    Mutation(
        "TiDB's labels are read as MySQL shows them",
        f"{SQL_TEXT}::labels",
        "is Shows.MYSQL",
        "in Shows",
        f"{OF_SQL_TEXT}::test_labels_that_tidb_shows_are_read_as_they_are_or_not_at_all",
    ),
    Mutation(
        "a backslash of a DDL goes to a server as TiCDC has it",
        f"{SQL_TEXT}::for_servers",
        "_escaped(token.text)",
        "token.text",
        f"{OF_SQL_TEXT}::test_a_server_reads_the_text_of_a_ddl_as_ticdc_does",
    ),
    Mutation(
        "a column may have no name that is no field of a struct",
        "spark_merge/codecs/decode/row_types.py::field_names",
        "any(map(_NO_FIELD.search, columns))",
        "not columns",
        "tests/contract/test_protocols.py::test_columns_of_any_name_decode_to_themselves",
    ),
    Mutation(
        "an error of a library in one sink ends the worker",
        "spark_merge/delivery/loop.py::SinkLoop._run",
        "not is_foreign(error)",
        "error",
        "tests/unit/merge/test_loop.py::test_what_a_library_raises_is_an_error_of_its_sink_with_its_place_and_of_no_other_sink",
    ),
    Mutation(
        "an error of a library has the place of the block and not of its row",
        "spark_merge/codecs/decode/rows.py::_read_block",
        "rows if rows > 1 else ",
        "",
        "tests/unit/decode/test_rows.py::test_what_a_library_raises_is_refused_as_the_row_that_it_is_raised_for",
    ),
    Mutation(
        "columns that become texts together all get the first one's",
        "spark_merge/codecs/decode/tables.py::read",
        "result.slice(start, len(cells))",
        "result.slice(0, len(cells))",
        "tests/unit/decode/test_tables.py::test_many_tables_at_once_are_each_alone",
    ),
    Mutation(
        "a refused row of many tables has the place of another one",
        "spark_merge/codecs/images.py::RowUnusable.behind",
        "+= first",
        "+= 0",
        "tests/unit/decode/test_tables.py::test_the_row_that_is_refused_is_named",
    ),
    Mutation(
        "a window decodes all tables though nobody shares what is decoded",
        "spark_merge/log/segments.py::Segments.decoded",
        "if not self._shared:",
        "if self._shared:",
        "tests/unit/merge/test_task.py::test_a_window_decodes_its_table_alone_where_nobody_shares_what_is_decoded",
    ),
    Mutation(
        "a large Parquet file is not packed if its first block is small",
        "spark_merge/sinks/formats/parquet.py::writing_parquet",
        "len(held) > 1 or ",
        "",
        "tests/unit/sinks/test_parquet_files.py::test_blocks_of_any_sizes_are_rows_in_order",
    ),
    Mutation(
        "tables of one pass are decoded again by each sink",
        "spark_merge/log/segments.py::_grouped",
        "if rows > TOGETHER_ROWS:",
        "if rows:",
        "tests/unit/merge/test_task.py::test_tables_with_few_rows_are_decoded_once_for_all_sinks",
    ),
    Mutation(
        "a year of two digits is of the first century",
        "sidecar/rowcodec/type_cast.py::_year",
        "2000 if number < _CENTURY_TURNS else 1900",
        "0",
        "tests/unit/rowcodec/test_type_cast.py::test_a_default_is_what_tidb_makes_of_it_when_it_reads",
    ),
    Mutation(
        "the default of a CHAR keeps its spaces",
        "sidecar/rowcodec/type_cast.py::_text",
        '.rstrip(" ") if kind.name == "char" else text',
        "",
        "tests/unit/rowcodec/test_type_cast.py::test_a_default_is_what_tidb_makes_of_it_when_it_reads",
    ),
    Mutation(
        "an integer is unchanged in a range that does not hold it",
        "spark_merge/ddl/conversion.py::_in_range",
        " and now[0] <= was[0] and was[1] <= now[1]",
        "",
        "tests/unit/ddl/test_conversion_model.py::test_what_is_called_unchanged_keeps_its_text_whatever_the_sql_mode[2]",
    ),
    Mutation(
        "a set whose labels change places keeps its text",
        "spark_merge/ddl/conversion.py::conversion",
        "[one for one in now.elements if one in was.elements] == list(was",
        "set(was.elements) <= set(now",
        "tests/unit/ddl/test_conversion_model.py::test_what_is_called_unchanged_keeps_its_text_whatever_the_sql_mode[0]",
    ),
    Mutation(
        "a year becomes the text of four digits that it is written as",
        "spark_merge/ddl/conversion.py::_HAVE_TEXT",
        'date"',
        'year", "date"',
        "tests/scenarios/test_scenarios.py::test_scenario[effects_types]",
    ),
    Mutation(
        "SQLite: a year that becomes an integer keeps its zeros",
        "spark_merge/sinks/sqlite/tables.py::_value",
        "!",
        "=",
        "tests/contract/test_sqlite_sink.py::test_a_year_that_becomes_an_integer_has_no_zeros_before_it",
    ),
    Mutation(
        "SQL: a batch that 0.4 had begun goes to workers as one of 0.5",
        "spark_merge/sinks/mysql/position.py::SqlBatch.by_bytes",
        "not",
        "None or self.sink is not",
        "tests/unit/sinks/test_sql_dispatch.py::test_a_batch_that_0_4_had_begun_goes_on_with_the_workers_that_have_its_rows",
    ),
    Mutation(
        "Delta: the commit that sets a property replaces somebody else's",
        "spark_merge/sinks/delta/table.py::Table.name_statistics",
        "not storage.create_exclusively",
        "storage.write_atomically",
        "tests/unit/sinks/test_delta_statistics.py::test_the_property_alone_is_set_and_only_on_the_version_that_was_looked_at",
    ),
    Mutation(
        "a MODIFY that feeds show by nothing but its type is not seen",
        "spark_merge/ddl/effects.py::TableEffect.changes_columns",
        " or any(one.may_change_values for one in self.columns)",
        "",
        "tests/unit/ddl/test_conversion.py::test_a_shorter_text_stops_each_sink_that_keeps_rows",
    ),
    Mutation(
        "SQLite: two tables whose names are joined to one share its rows",
        "spark_merge/sinks/sqlite/sink.py::SqliteSink.check_places",
        "lowered(str(name))",
        "name",
        f"{OF_NAMES}::test_such_a_pair_is_refused_when_it_is_there_and_when_a_table_comes",
    ),
    Mutation(
        "two tables of one place are compared only when the sink is opened",
        "spark_merge/delivery/batches.py::Delivery._check_places",
        ", (head.manifest.next_schemas, head.next_schemas, head.schemas))",
        ",)",
        f"{OF_NAMES}::test_the_places_are_looked_at_when_a_sink_is_opened_and_at_each_change_of_the_tables",
    ),
    Mutation(
        "a hint leads a table elsewhere that has rows in its place",
        "spark_merge/ddl/routes.py::check_apart",
        "name not in before",
        "name in before",
        f"{OF_NAMES}::test_what_a_hint_leads_elsewhere_is_new_and_then_alone",
    ),
    Mutation(
        "a lake takes the rows of a name's earlier table for those of a swap's",
        "spark_merge/sinks/table_ddl.py::_way_out",
        "new in there or ",
        "False and ",
        "tests/contract/test_renamed_tables.py::test_the_rows_at_the_end_are_tidbs[delta merge-gh_ost]",
    ),
    Mutation(
        "a table that is created in a lake has what an earlier one left in its place",
        "spark_merge/sinks/delta/ddl.py::_altered",
        "effect.fate is TableFate.CREATED",
        "False",
        "tests/contract/test_renamed_tables.py::test_a_table_that_is_created_has_nothing_of_what_was_in_its_place[delta merge]",
    ),
]
