"""A replay's report, its numbers, and the life of a key."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

REPORTED = "sidecar/replay/dump_report.py"
REPLAY = "sidecar/replay/replay.py"
LIFE = "sidecar/replay/life.py"
OF_REPORTED = "tests/unit/replay/test_dump_report.py"
OF_LIFE = "tests/unit/replay/test_life.py"
NOT_FOLLOWED = f"{OF_LIFE}::test_an_update_that_no_change_followed_is_reported_of_first"

DEMO = [
    Mutation(
        "a replay's crash is no event of the report",
        f"{REPORTED}::ReportedDump._events",
        "self._deaths, *",
        "",
        f"{OF_REPORTED}::test_crashes_pauses_and_restarts_are_events_of_the_report",
    ),
    Mutation(
        "what was asked of a dump that was restarted is no event of the report",
        f"{REPORTED}::ReportedDump._events",
        ", *commands",
        "",
        f"{OF_REPORTED}::test_crashes_pauses_and_restarts_are_events_of_the_report",
    ),
    Mutation(
        "a recorded dump is in no history",
        f"{REPLAY}::Replay._attach",
        "None:",
        "not None:",
        f"{OF_REPORTED}::test_a_recorded_dump_has_a_report",
    ),
    Mutation(
        "a report that cannot be written is found out at the end",
        f"{REPLAY}::Replay.__init__",
        "check_writable(settings.report)",
        "pass",
        f"{OF_REPORTED}::test_a_report_that_cannot_be_written_is_said_before_the_replay",
    ),
    Mutation(
        "a replay's view does not count what was dropped",
        f"{REPLAY}::Replay._dump_rows",
        "+ rows.dropped ",
        "",
        f"{OF_REPORTED}::test_the_view_ends_with_the_numbers_of_the_summary",
    ),
    Mutation(
        "at a speed a replay crashes at once",
        f"{REPLAY}::Replay._crash_due",
        "= done",
        "= done - 1",
        f"{OF_REPORTED}::test_at_a_speed_crashes_are_spread_over_the_recording",
    ),
    Mutation(
        "a key is told of that was replaced by the same values",
        f"{LIFE}::_replaced",
        "not equal_rows",
        "equal_rows",
        f"{OF_LIFE}::test_a_dropped_row_was_replaced_between_the_marks_and_is_in_no_output",
    ),
    Mutation(
        "a key is told of that changed again later",
        f"{LIFE}::best",
        "] =",
        "] >",
        NOT_FOLLOWED,
    ),
    Mutation(
        "the life of a key takes any change of the key for that of the window",
        "spark_merge/tail/segment.py::SegmentEvents._last_changes",
        ', pc.less_equal(changes["commit_ts"], due.high_ts)',
        ', pc.less_equal(changes["commit_ts"], due.high_ts + 2**40)',
        "tests/unit/tail/test_segment.py::test_the_events_are_the_slow_rules_rows_and_those_that_it_drops[1]",
    ),
    Mutation(
        "a replay makes Spark's session whether a batch needs it or not",
        f"{REPLAY}::Replay.run",
        ", when_needed=True",
        "",
        f"{OF_LIFE}::test_where_no_key_qualifies_it_says_so",
    ),
    Mutation(
        "the truth is always the same",
        f"{LIFE}::_life_lines",
        "{'the same' if same else 'DIFFERENT'}",
        "the same",
        f"{OF_LIFE}::test_a_truth_that_differs_is_said",
    ),
]
