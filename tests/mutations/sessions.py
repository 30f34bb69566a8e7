"""Sessions over MySQL's protocol: their set-up, and whose server an error is of."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

SETUP, OF_SETUP = "sidecar/shared/mysql/setup.py", "tests/unit/mysql/test_setup.py"

SESSIONS = [
    Mutation(
        "a session that reads is cut by the server's sql_select_limit",
        f"{SETUP}::VARIABLES",
        "), _ALL, _ROLES",
        "), _ALL, _WRITES",
        f"{OF_SETUP}::test_every_role_reads_all_rows_of_the_present[Role.READ_SOURCE-unknown0]",
    ),
    Mutation(
        "a variable that may not be set is let go",
        f"{SETUP}::_set",
        "raise SettingRefused(code, str(error.args[-1]), name=name, value=value) from error",
        "return",
        f"{OF_SETUP}::test_a_session_without_the_right_to_a_variable_reads_nothing",
    ),
    Mutation(
        "a version that does not take a harmless value opens no session",
        f"{SETUP}::_set",
        "(name in _SHOWS and code not in NO_RIGHT)",
        "False",
        f"{OF_SETUP}::test_a_value_that_a_version_does_not_take_stops_nothing_if_its_effect_shows_itself"
        "[Role.WRITE_TARGET-Flavour.TIDB-not_taken]",
    ),
    Mutation(
        "what a DDL took from the source is an error as any other",
        "sidecar/shared/mysql/errors.py::failure",
        "SourceChanged if code in NOT_THERE else ",
        "",
        "tests/unit/mysql/test_errors.py::test_what_a_ddl_took_from_the_source_is_an_error_of_its_own[1054]",
    ),
    Mutation(
        "after a DDL a comparison begins again before the sink has the DDL",
        "spark_merge/verify/table_check.py::TableCheck.run",
        "self._upto_ts = self.context.present_ts()",
        "pass",
        "tests/unit/verify/test_table_check.py::test_a_ddl_is_waited_for_until_the_sink_has_it_however_far_the_sink_is_behind",
    ),
    Mutation(
        "a source that a DDL has changed fails the comparison",
        "spark_merge/verify/table_check.py::TableCheck.run",
        "not isinstance(error, Altered | SourceChanged",
        "not isinstance(error, Altered",
        "tests/unit/verify/test_table_check.py::test_a_source_that_a_ddl_has_changed_already_is_compared_again[3-skipped]",
    ),
]
