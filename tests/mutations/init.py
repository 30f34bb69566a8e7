"""The guided setup: what it writes, what it must not show, and what it must not replace."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

COMMAND = "sidecar/cli/init.py"
RESULT = "sidecar/setup/cluster.py"
SETTINGS = "sidecar/setup/settings.py"
SQL = "sidecar/setup/sql.py"
OF_COMMAND = "tests/unit/cli/test_init.py"
OF_RESULT = "tests/unit/setup/test_cluster.py"
OF_SETTINGS = "tests/unit/setup/test_settings.py"
OF_SQL = "tests/unit/setup/test_sql.py"

INIT = [
    Mutation(
        "init replaces a file that comes while it asks",
        f"{COMMAND}::_write",
        "force:\n            ",
        "True:\n            ",
        f"{OF_COMMAND}::test_a_file_that_comes_meanwhile_is_not_replaced",
    ),
    Mutation(
        "init's file can be read by others",
        f"{COMMAND}::_written",
        "0o077",
        "0o022",
        f"{OF_COMMAND}::test_the_settings_say_where_each_value_comes_from_and_are_accepted",
    ),
    Mutation(
        "init asks where nobody answers",
        f"{COMMAND}::init",
        "not (no_input or as_json) and ",
        "",
        f"{OF_COMMAND}::test_without_a_terminal_nothing_is_prompted_for",
    ),
    Mutation(
        "init takes a wrong answer",
        f"{COMMAND}::_proved",
        "check(text)",
        "pass",
        f"{OF_COMMAND}::test_after_a_wrong_answer_the_question_comes_again",
    ),
    Mutation(
        "init writes settings that the sidecar rejects",
        f"{COMMAND}::_of_delivery",
        "    check_disjoint(uri, uris)\n",
        "",
        f"{OF_COMMAND}::test_a_sink_within_the_log_is_refused_before_anything_is_written",
    ),
    Mutation(
        "init shows the password of a log",
        "sidecar/cli/init_view.py::_shown",
        "replace(one, value=output_of(uri))",
        "one",
        f"{OF_COMMAND}::test_json_is_one_object_with_all_that_was_found",
    ),
    Mutation(
        "init shows the account of a sink URI",
        f"{RESULT}::shown_uri",
        'without_secrets(uri, but=("protocol",))',
        "uri",
        f"{OF_COMMAND}::test_a_sink_uri_leaves_neither_a_secret_nor_a_line_of_its_own",
    ),
    Mutation(
        "init writes settings for a protocol that cannot carry a dump",
        f"{RESULT}::_NEVER",
        ', "protocol"',
        "",
        f"{OF_RESULT}::test_a_sink_that_can_never_carry_a_dump_is_an_error_that_names_the_other_way",
    ),
    Mutation(
        "init writes a member of PD that does not answer",
        "sidecar/adapters/etcd/cluster.py::other_members",
        "[one for one in others if _answers(client, one)]",
        "list(others)",
        "tests/unit/adapters/test_etcd_cluster.py::test_members_that_do_not_answer_from_here_are_not_among_those_that_do",
    ),
    Mutation(
        "init offers the TiDB of another cluster",
        f"{RESULT}::chosen_changefeed",
        "() if elsewhere else ",
        "",
        f"{OF_RESULT}::test_tidb_servers_that_pd_knows_are_offered_unless_they_are_of_another_cluster",
    ),
    Mutation(
        "a comment of init's file ends in a value of others",
        f"{SETTINGS}::settings_text",
        "one_line(one.origin)",
        "one.origin",
        f"{OF_SETTINGS}::test_a_comment_is_one_line_whatever_is_in_it",
    ),
    Mutation(
        "init writes halves of a letter",
        f"{SETTINGS}::_toml_text",
        ", ensure_ascii=False",
        "",
        f"{OF_SETTINGS}::test_every_letter_is_read_back_as_it_was_given",
    ),
    Mutation(
        "init writes a letter that TOML does not take",
        f"{SETTINGS}::_toml_text",
        '.replace("\\x7f", "\\\\u007f")',
        "",
        f"{OF_SETTINGS}::test_every_letter_is_read_back_as_it_was_given",
    ),
    Mutation(
        "init writes what equals a default",
        f"{SETTINGS}::differing",
        "(one for one in chosen if one.value != _default(one.setting))",
        "chosen",
        f"{OF_SETTINGS}::test_what_equals_a_default_is_not_written_and_the_rest_is_in_the_order_of_the_settings",
    ),
    Mutation(
        "a user's name ends a text of SQL",
        f"{SQL}::_account",
        '.replace("\'", "\'\'")',
        "",
        f"{OF_SQL}::test_a_users_name_is_a_text_of_sql_also_in_a_comment",
    ),
    Mutation(
        "a rule of the changefeed is a statement of SQL",
        f"{SQL}::account_sql",
        "one_line(rule)",
        "rule",
        f"{OF_SQL}::test_a_rule_that_names_no_database_grants_nothing_and_is_named_on_one_line",
    ),
    Mutation(
        "the SQL of deploy/ is another one",
        f"{SQL}::mark_grant",
        "UPDATE",
        "UPDATE, DELETE",
        "tests/unit/test_pages.py::test_the_pages_and_pictures_are_current",
    ),
]
