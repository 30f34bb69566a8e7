"""What callers give: ids, names, values of options. None becomes a path or a key before it is checked, and a read changes nothing."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

USAGE, OF_USAGE = "sidecar/cli/usage.py", "tests/unit/cli/test_usage.py"
FIELDS, OF_FIELDS = "sidecar/control/fields.py", "tests/unit/control/test_fields.py"
OF_IDS = "tests/unit/core/test_ids.py"
OF_FILES = "tests/unit/log/test_verification_files.py"
OF_DAMAGE = "tests/unit/run/test_damaged_files.py::test_what_cannot_be_read_is_kept_under_another_name[request]"

GIVEN = [
    Mutation(
        "an id is any text that begins as one",
        "sidecar/shared/model/nouns.py::operation_id",
        "re.fullmatch(",
        "re.match(",
        f"{OF_IDS}::test_no_hostile_text_is_an_id",
    ),
    Mutation(
        "a chunk's path is made of any text",
        "sidecar/shared/log/layout.py::chunk_name",
        "operation_id(dump_id)",
        "dump_id",
        f"{OF_IDS}::test_no_hostile_text_is_an_id",
    ),
    Mutation(
        "an id in a verification's file is any text",
        "sidecar/shared/log/verification.py::StoredId",
        "\\Z",
        "",
        f"{OF_FILES}::test_an_id_in_a_file_is_one",
    ),
    Mutation(
        "texts of a request are not checked",
        "sidecar/control/service.py::_errors_reported",
        "check_fields(request)",
        "pass",
        f"{OF_FIELDS}::test_a_hostile_text_changes_nothing_and_the_error_names_its_field",
    ),
    Mutation(
        "a text within a list is not checked",
        f"{FIELDS}::check_fields",
        "enumerate(value)",
        "enumerate(value[:0])",
        f"{OF_FIELDS}::test_a_text_that_says_nothing_is_an_error_where_it_is_one_of_a_list",
    ),
    Mutation(
        "a read removes a file that is damaged",
        "sidecar/shared/log/verification_files.py::_read",
        "raise _damaged(",
        "storage.remove(log, [name])\n        raise _damaged(",
        f"{OF_FILES}::test_a_read_of_a_damaged_file_changes_nothing_and_the_owner_sets_it_aside",
    ),
    Mutation(
        "a damaged file is in the way for ever",
        "sidecar/run/term_verifications.py::TermVerifications._separate",
        "self._set_aside()",
        "suppress()",
        OF_DAMAGE,
    ),
    Mutation(
        "a hostile id on a page is a conflict",
        "sidecar/control/local_call.py::CallRejected.http_status",
        "return 400",
        "pass",
        "tests/unit/console/test_parameters.py::test_a_command_with_a_hostile_id_is_wrong_usage",
    ),
    Mutation(
        "an option whose value is empty is as one that is not given",
        f"{USAGE}::Command._lack",
        "not text.strip(BLANK)",
        "False",
        f"{OF_USAGE}::test_a_value_that_is_empty_is_wrong_usage[dumpstart-tables]",
    ),
    Mutation(
        "an option whose value has commas only says something",
        f"{USAGE}::BLANK",
        "},",
        "}",
        f"{OF_USAGE}::test_a_value_that_is_empty_is_wrong_usage[dumpstart-tables]",
    ),
    Mutation(
        "an id is not checked as it is parsed",
        f"{USAGE}::PARTS_OF_NAMES",
        '"dump_id": _no_id,',
        "",
        f"{OF_USAGE}::test_every_option_that_becomes_a_part_of_a_name_is_checked",
    ),
    Mutation(
        "a program that asks for JSON has nothing of wrong usage",
        f"{USAGE}::Commands.invoke",
        "_usage_reported(ctx.meta[GIVEN])",
        "_usage_reported([])",
        f"{OF_USAGE}::test_wrong_usage_is_an_object_too_where_a_program_asks_for_json",
    ),
]
