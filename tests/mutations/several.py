"""Several dumps of a changefeed: which run, which wait, and what is remembered of them."""

from __future__ import annotations

from tests.mutations.mutation import SIMULATION, Mutation

DUMPS_PY = "sidecar/core/dumps.py"
SCENARIO = "tests/scenarios/test_scenarios.py::test_scenario[dump_several]"
SERVICE = "tests/unit/control/test_service.py::"

SEVERAL = [
    Mutation("dumps of one table run at one time", f"{DUMPS_PY}::_may_begin", " and not blocking(queued, dumps)", "", SIMULATION),
    Mutation("any number of dumps runs", f"{DUMPS_PY}::_may_begin", "running < RUNNING_MAX and ", "", SCENARIO),
    Mutation("a dump that is queued never begins", f"{DUMPS_PY}::Dumps._begin_queued", "dump.begin()", "pass", SIMULATION),
    Mutation("a request without an id is for the first dump", f"{DUMPS_PY}::Dumps._intended", "len(dumps) > 1", "False", SCENARIO),
    Mutation(
        "a request without an id is for a dump that is over",
        "sidecar/shared/model/progress.py::intended_without_id",
        "[dump for dump in dumps if dump.state not in OVER] or list(dumps[-1:]",
        "list(dumps",
        SERVICE + "test_a_resume_that_is_made_again_does_not_resume_another_dump_that_has_failed",
    ),
    Mutation(
        "a dump that failed is forgotten when another one begins",
        f"{DUMPS_PY}::Dumps._forget_over",
        "failed[-FAILED_MAX:], *",
        "",
        SCENARIO,
    ),
    Mutation("all dumps that are over are remembered", f"{DUMPS_PY}::Dumps._forget_over", "[-1:]", "", SCENARIO),
    Mutation("each dump that grows takes in a new table", f"{DUMPS_PY}::Dumps.changed", " or", " and", SCENARIO),
    Mutation("what is throttled is asked", f"{DUMPS_PY}::Dumps.next", " if dump.progress.dump_id not in throttled", "", SCENARIO),
    Mutation("the first dump takes all room", f"{DUMPS_PY}::Dumps.next", "+= 1", "= 0", SCENARIO),
    Mutation(
        "dumps have any number of keys",
        "sidecar/core/dump_start.py::check_keys_fit",
        "size and size + taken > KEYS_BYTES_MAX",
        "False",
        "tests/unit/core/test_dump.py::test_keys_that_would_make_each_manifest_too_large_are_rejected_and_change_nothing",
    ),
    Mutation(
        "a finished dump keeps its keys",
        "sidecar/core/dump.py::Dump._take",
        "progress.state is DumpState.FINISHED and any(table.keys for table in progress.tables)",
        "False",
        "tests/unit/core/test_dump.py::test_a_dump_of_keys_that_has_finished_keeps_their_number_only",
    ),
    Mutation(
        "a window that does not fit holds back none of another dump",
        "sidecar/core/dump_start.py::Ground.take",
        ".none()",
        "",
        "tests/unit/core/test_dump.py::test_a_window_that_never_fits_beside_another_dumps_windows_closes_while_that_one_goes_on[False]",
    ),
    Mutation(
        "a resumed dump passes those that have its tables",
        "sidecar/core/dump_start.py::resumed",
        ", number=ground.next_number()",
        "",
        SCENARIO,
    ),
    Mutation(
        "a finished dump still has a part in what is shared",
        "sidecar/core/dump.py::Dump.segment",
        "            self._close_if_over()\n        ",
        "        ",
        "tests/unit/core/test_dump.py::test_a_finished_dump_leaves_what_is_shared_with_its_last_window",
    ),
    Mutation(
        "a restarted dump keeps its readers",
        "sidecar/core/dump.py::Dump.end",
        "_record = self.progress\n        self._close(",
        "_take(self.progress",
        "tests/unit/core/test_dump.py::test_a_dump_that_was_restarted_takes_no_part_in_what_is_shared",
    ),
    Mutation(
        "each dump has the bounds for itself",
        "sidecar/core/dump_start.py::Ground.open_windows",
        "sum(len(run.windows) for run in self.runs)",
        "len(self.runs[-1].windows) if self.runs else 0",
        SCENARIO,
    ),
    Mutation(
        "the older copy knows which dumps there are",
        "sidecar/shared/model/progress.py::newest",
        "stored, logged) if _revision(stored) > _revision(logged) else (",
        "",
        "tests/unit/core/test_progress.py::test_the_copy_with_the_newest_change_knows_which_dumps_there_are",
    ),
    Mutation(
        "the manifest has the first dump only",
        "sidecar/pipeline.py::Pipeline._write",
        "more_dumps=dumps.dumps[1:]",
        "more_dumps=()",
        "tests/unit/test_pipeline.py::test_every_dump_that_is_there_is_in_the_manifest_and_goes_on_from_it",
    ),
    Mutation(
        "a sink is told of dumps that are for others",
        "spark_merge/delivery/complete.py::received",
        'if sink in (one.get("sinks") or (sink,))',
        "",
        "tests/unit/merge/test_complete.py::test_a_sink_receives_only_the_dumps_that_are_for_it",
    ),
    Mutation(
        "a dump that no sink receives is read to its end",
        f"{DUMPS_PY}::Dumps.__init__",
        "[possible(one, limits) for one in ordered]",
        "ordered",
        "tests/unit/core/test_dump.py"
        "::test_a_dump_that_no_sink_would_receive_fails_and_can_be_resumed_when_one_has_its_name_back[dumped_for1-sinks2-running]",
    ),
    Mutation(
        "a request that is made again is carried out again",
        "sidecar/control/repeated.py::already_done",
        "any(dump.state in NEXT[type(request)] and not shows(dump) for dump in there)",
        "True",
        "tests/unit/control/test_repeated.py::"
        "test_a_request_without_an_id_is_done_once_no_dump_is_left_that_it_can_be_for[request_1-states1-paused-d0]",
    ),
    Mutation(
        "one dump is done, so another is not asked",
        "sidecar/control/repeated.py::already_done",
        "not shows(dump)",
        "False",
        "tests/unit/control/test_repeated.py::"
        "test_a_request_without_an_id_is_done_once_no_dump_is_left_that_it_can_be_for[request_2-states2-paused-None]",
    ),
    Mutation(
        "a dump that gives leave for a DDL is forgotten before its sink looks",
        "sidecar/core/dumps.py::Dumps._is_awaited",
        "seq is None or seq < passed",
        "False",
        "tests/unit/core/test_leave.py::test_a_dump_that_gives_leave_is_known_until_its_sinks_have_passed_the_ddl",
    ),
    Mutation(
        "the stop of a dump for a DDL does not say what its sinks lack",
        "sidecar/core/dump.py::Dump._reason",
        "lacking_after_stop(self.progress)",
        "None",
        "tests/unit/core/test_dump.py::test_the_stop_of_a_dump_for_a_ddl_says_what_its_sinks_lack_then[50-running]",
    ),
    Mutation(
        "a dump that gave leave for a DDL is in each manifest for ever",
        "sidecar/pipeline.py::Pipeline._receive_sinks",
        "one.sink: one.accepted for",
        "one.sink: None for",
        "tests/unit/test_pipeline.py::test_dumps_know_what_each_sink_has_accepted",
    ),
    Mutation(
        "more dumps run at a time than the page of limits says",
        "sidecar/core/dumps.py::RUNNING_MAX",
        "4",
        "5",
        "tests/unit/test_guide.py::test_a_limit_is_the_codes",
    ),
]
