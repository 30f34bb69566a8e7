"""Several dumps of a changefeed: which run, which wait, and what is remembered of them."""

from __future__ import annotations

from tests.mutations.mutation import SIMULATION, Mutation

DUMPS_PY = "sidecar/core/dumps.py"
SCENARIO = "tests/scenarios/test_scenarios.py::test_scenario[dump_several]"
SERVICE = "tests/unit/control/test_service.py::"

SEVERAL = [
    Mutation("dumps of one table run at one time", DUMPS_PY, " and not blocking(queued, dumps)", "", SIMULATION),
    Mutation("any number of dumps runs", DUMPS_PY, "running < RUNNING_MAX and ", "", SCENARIO),
    Mutation("a dump that is queued never begins", DUMPS_PY, "                dump.begin()\n", "                pass\n", SIMULATION),
    Mutation("a request without an id is for the first dump", DUMPS_PY, "if len(found) > 1:", "if False:", SCENARIO),
    Mutation(
        "a request without an id is for a dump that is over",
        "sidecar/core/progress.py",
        "return [dump for dump in dumps if dump.state not in OVER] or list(dumps[-1:])",
        "return list(dumps)",
        SERVICE + "test_a_resume_that_is_made_again_does_not_resume_another_dump_that_has_failed",
    ),
    Mutation(
        "a dump that failed is forgotten when another one begins",
        DUMPS_PY,
        "kept = [*failed[-FAILED_MAX:], *ended",
        "kept = [*ended",
        SCENARIO,
    ),
    Mutation("all dumps that are over are remembered", DUMPS_PY, "*ended[-1:]", "*ended", SCENARIO),
    Mutation("each dump that grows takes in a new table", DUMPS_PY, "taken = taken or (", "taken = taken and (", SCENARIO),
    Mutation("what is throttled is asked", DUMPS_PY, " if dump.progress.dump_id not in throttled", "", SCENARIO),
    Mutation("the first dump takes all room", DUMPS_PY, "self._turn += 1", "self._turn = 0", SCENARIO),
    Mutation(
        "dumps have any number of keys",
        "sidecar/core/dump_start.py",
        "if size and size + taken > KEYS_BYTES_MAX:",
        "if False:",
        "tests/unit/core/test_dump.py::test_keys_that_would_make_each_manifest_too_large_are_rejected_and_change_nothing",
    ),
    Mutation(
        "a finished dump keeps its keys",
        "sidecar/core/dump.py",
        "if progress.state is DumpState.FINISHED and any(table.keys for table in progress.tables):",
        "if False:",
        "tests/unit/core/test_dump.py::test_a_dump_of_keys_that_has_finished_keeps_their_number_only",
    ),
    Mutation(
        "a window that does not fit holds back none of another dump",
        "sidecar/core/dump_start.py",
        "if fits else self.room.none()",
        "if fits else self.room",
        "tests/unit/core/test_dump.py::test_a_window_that_never_fits_beside_another_dumps_windows_closes_while_that_one_goes_on[False]",
    ),
    Mutation(
        "a resumed dump passes those that have its tables",
        "sidecar/core/dump_start.py",
        "revision=ground.next_revision(), number=ground.next_number())",
        "revision=ground.next_revision())",
        SCENARIO,
    ),
    Mutation(
        "a finished dump still has a part in what is shared",
        "sidecar/core/dump.py",
        "            self._close_if_over()\n        return closed\n",
        "        return closed\n",
        "tests/unit/core/test_dump.py::test_a_finished_dump_leaves_what_is_shared_with_its_last_window",
    ),
    Mutation(
        "a restarted dump keeps its readers",
        "sidecar/core/dump.py",
        "        self._record = self.progress\n        self._close()\n",
        "        self._take(self.progress)\n",
        "tests/unit/core/test_dump.py::test_a_dump_that_was_restarted_takes_no_part_in_what_is_shared",
    ),
    Mutation(
        "each dump has the bounds for itself",
        "sidecar/core/dump_start.py",
        "return sum(len(run.windows) for run in self.runs)",
        "return len(self.runs[-1].windows) if self.runs else 0",
        SCENARIO,
    ),
    Mutation(
        "the older copy knows which dumps there are",
        "sidecar/core/progress.py",
        "(stored, logged) if _revision(stored) > _revision(logged) else (logged, stored)",
        "(logged, stored)",
        "tests/unit/core/test_progress.py::test_the_copy_with_the_newest_change_knows_which_dumps_there_are",
    ),
    Mutation(
        "the manifest has the first dump only",
        "sidecar/pipeline.py",
        "tuple(dump.to_json() for dump in dumps if dump is not first)",
        "()",
        "tests/unit/test_pipeline.py::test_every_dump_that_is_there_is_in_the_manifest_and_goes_on_from_it",
    ),
    Mutation(
        "a sink is told of dumps that are for others",
        "spark_merge/delivery/complete.py",
        'if sink in (one.get("sinks") or (sink,)))',
        ")",
        "tests/unit/merge/test_complete.py::test_a_sink_receives_only_the_dumps_that_are_for_it",
    ),
    Mutation(
        "a dump that no sink receives is read to its end",
        DUMPS_PY,
        "received = [with_receivers(one, limits.sinks) for one in ordered]",
        "received = ordered",
        "tests/unit/core/test_dump.py"
        "::test_a_dump_that_no_sink_would_receive_fails_and_can_be_resumed_when_one_has_its_name_back[dumped_for1-sinks2-running]",
    ),
    Mutation(
        "a request that is made again is carried out again",
        "sidecar/control/shown.py",
        "        if any(dump.state in NEXT[type(request)] and not shows(dump) for dump in there):\n",
        "        if True:\n",
        "tests/unit/control/test_shown.py::"
        "test_a_request_without_an_id_is_done_once_no_dump_is_left_that_it_can_be_for[request_1-states1-paused-d0]",
    ),
    Mutation(
        "one dump is done, so another is not asked",
        "sidecar/control/shown.py",
        "not shows(dump) for dump in there):",
        "False for dump in there):",
        "tests/unit/control/test_shown.py::"
        "test_a_request_without_an_id_is_done_once_no_dump_is_left_that_it_can_be_for[request_2-states2-paused-None]",
    ),
    Mutation(
        "more dumps run at a time than the page of limits says",
        "sidecar/core/dumps.py",
        "RUNNING_MAX = 4\n",
        "RUNNING_MAX = 5\n",
        "tests/unit/test_guide.py::test_a_limit_is_the_codes",
    ),
]
