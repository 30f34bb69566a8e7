"""What people see of a dump: samples, the timeline, pictures, and the report of a dump that is over."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

SAMPLES, CHUNKS, DRAWING = "sidecar/run/samples.py", "sidecar/report/chunks.py", "sidecar/report/drawing.py"
BUILD, REPORTING, FOLLOWER = "sidecar/report/build.py", "sidecar/run/reporting.py", "sidecar/run/certifying.py"
COLLECTED, SERVICE, FILES, WORKER = (
    "sidecar/run/collecting.py",
    "sidecar/control/service.py",
    "sidecar/log/dump_files.py",
    "sidecar/run/own_worker.py",
)
OF_SAMPLES, OF_CHUNKS, OF_DRAWING = (
    "tests/unit/run/test_samples.py",
    "tests/unit/report/test_chunks.py",
    "tests/unit/report/test_drawing.py",
)
OF_BUILD, OF_REPORTING, OF_TIMELINE = (
    "tests/unit/report/test_build.py",
    "tests/unit/run/test_reporting.py",
    "tests/unit/control/test_timeline.py",
)
OF_COLLECTED, OF_FILES, OF_WORKER = (
    "tests/unit/run/test_collecting.py",
    "tests/unit/log/test_dump_files.py",
    "tests/unit/run/test_own_worker.py",
)

VISIBLE = [
    Mutation(
        "samples of hours ago stay where there was no owner for long",
        SAMPLES,
        "while self._samples[0].at_ms <= at_ms - self._kept_ms:",
        "while len(self._samples) > self._kept_ms // self._every_ms:",
        f"{OF_SAMPLES}::test_those_of_the_last_hour_are_kept_also_where_there_was_no_owner_for_long",
    ),
    Mutation(
        "a clock that was set back stops samples",
        SAMPLES,
        "if 0 <= passed_ms < self._every_ms:",
        "if passed_ms < self._every_ms:",
        f"{OF_SAMPLES}::test_a_clock_that_was_set_back_begins_again_with_nothing_of_the_times_that_come_again",
    ),
    Mutation(
        "changes of another owner count as this one's",
        SAMPLES,
        "self._epoch == status.epoch and passed_ms > 0",
        "passed_ms > 0",
        f"{OF_SAMPLES}::test_another_owner_counts_changes_from_its_beginning",
    ),
    Mutation(
        "rows that were replaced are not on the wire",
        SAMPLES,
        "        dropped=chunk.dropped,\n",
        "",
        f"{OF_SAMPLES}::test_every_field_of_the_timeline_is_filled",
    ),
    Mutation(
        "another dump's chunk ends the search for those of a batch",
        CHUNKS,
        "            if chunk.dump_id != dump_id:\n",
        "            if chunk.dump_id != dump_id and chunk.seq >= batch.first:\n",
        f"{OF_CHUNKS}::test_two_dumps_at_once_have_their_own_numbers_in_whatever_order_their_lines_come",
    ),
    Mutation(
        "each sink's drops are taken",
        CHUNKS,
        "if batch.dropped is None or self._sinks.setdefault(dump_id, batch.sink) != batch.sink:",
        "if batch.dropped is None:",
        f"{OF_CHUNKS}::test_the_first_sink_that_says_something_counts_and_no_other",
    ),
    Mutation(
        "a batch's number is at each of its chunks",
        CHUNKS,
        "                if chunk.table in left:\n                    left[chunk.table] = None\n",
        "",
        f"{OF_CHUNKS}::test_a_batch_s_number_is_at_its_last_chunk_of_the_table",
    ),
    Mutation(
        "a dump that is forgotten keeps its sink",
        CHUNKS,
        "            self._sinks.pop(dump_id, None)\n",
        "",
        f"{OF_CHUNKS}::test_a_dump_that_is_forgotten_can_be_added_again_and_the_others_stay",
    ),
    Mutation(
        "chunks that were given change afterwards",
        CHUNKS,
        "sorted((replace(chunk) for chunk in",
        "sorted((chunk for chunk in",
        f"{OF_CHUNKS}::test_what_was_given_does_not_change_afterwards",
    ),
    Mutation(
        "thinning keeps the first value of each part",
        DRAWING,
        "if part not in best or value > best[part][1]:",
        "if part not in best:",
        f"{OF_DRAWING}::test_of_many_values_the_greatest_of_each_part_is_drawn",
    ),
    Mutation(
        "a line is drawn over times in which nothing was measured",
        DRAWING,
        "        if point[0] - before[0] > widest:\n            found.append([])\n",
        "",
        f"{OF_DRAWING}::test_there_is_no_line_over_times_in_which_nothing_was_measured",
    ),
    Mutation(
        "a text has no room of its own",
        DRAWING,
        "fits = text and TEXT_CHAR * len(text) + 2 * TEXT_AWAY <= box.right - box.left",
        "fits = bool(text)",
        f"{OF_DRAWING}::test_no_box_or_text_is_over_another_one_or_outside",
    ),
    Mutation(
        "a spike flattens the others",
        DRAWING,
        "return _top([FAR / 2 * usual if 0 < FAR * usual < most else most])",
        "return _top([most])",
        f"{OF_DRAWING}::test_a_spike_is_cut_and_named_and_flattens_nothing",
    ),
    Mutation(
        "what is older than an hour is gone",
        SAMPLES,
        "                self._thin(self._samples.popleft())\n",
        "                self._samples.popleft()\n",
        f"{OF_SAMPLES}::test_after_an_hour_the_slowest_sample_of_each_minute_is_kept_for_a_day",
    ),
    Mutation(
        "what this process has seen itself is shown twice",
        "sidecar/run/past.py",
        "known[-1].at_ms - DAY_MS < one.at_ms < known[0].at_ms",
        "known[-1].at_ms - DAY_MS < one.at_ms",
        "tests/unit/run/test_past.py::test_a_chart_begins_before_this_process_where_a_dump_has_been_sampled",
    ),
    Mutation(
        "a chunk's name is markup",
        DRAWING,
        "top + 11, _cut(group.name, NAMES - 4 * TEXT_AWAY))",
        "top + 11, Markup(_cut(group.name, NAMES - 4 * TEXT_AWAY)))",
        f"{OF_DRAWING}::test_a_name_is_text_wherever_it_is",
    ),
    Mutation(
        "texts of a report are markup",
        "sidecar/report/templates.py",
        "autoescape=True",
        "autoescape=False",
        f"{OF_BUILD}::test_what_came_from_a_cluster_is_text",
    ),
    Mutation(
        "a box refers to a picture elsewhere",
        DRAWING,
        """ rx="2"/>{}</g>""",
        """ rx="2"/>{}<image href="box.png"/></g>""",
        f"{OF_BUILD}::test_it_is_one_page_that_runs_nothing_and_refers_to_nothing",
    ),
    Mutation(
        "a takeover is no event",
        BUILD,
        "if after.epoch != before.epoch:",
        "if after.epoch < before.epoch:",
        f"{OF_BUILD}::test_commands_takeovers_and_gaps_are_events_in_their_order",
    ),
    Mutation(
        "a time without samples is held back by what was before it",
        BUILD,
        "(passed_s := (after.at_ms - one.at_ms) / 1000) <= longest_s",
        "(passed_s := (after.at_ms - one.at_ms) / 1000) <= longest_s * 1000",
        f"{OF_BUILD}::test_a_time_without_samples_is_held_back_by_nothing",
    ),
    Mutation(
        "a sink's p99 is judged by what the dump may go up to",
        BUILD,
        "sink.live_s > sink.bound_s for",
        "sink.live_s > max(sink.bound_s, sink.limit_s) for",
        f"{OF_BUILD}::test_the_figures_of_a_sink_are_of_its_own_samples",
    ),
    Mutation(
        "dropped rows that are not known are none",
        BUILD,
        "None if None in dropped else sum(dropped)",
        "sum(filter(None, dropped))",
        f"{OF_BUILD}::test_what_is_not_known_is_said_to_be_not_known",
    ),
    Mutation(
        "a picture is over chunks that are not there",
        BUILD,
        "    if kept_all:\n        return 0, kept\n",
        "    if kept_all or kept:\n        return 0, kept\n",
        f"{OF_BUILD}::test_no_picture_is_over_chunks_that_are_missing_between[195-140]",
    ),
    Mutation(
        "a defect of a report ends certificates",
        REPORTING,
        "        except TicdcDumpError:\n            raise\n        except Exception as error:",
        "        except TicdcDumpError as error:",
        f"{OF_REPORTING}::test_a_defect_of_a_report_is_a_line_and_the_certificate_is_written",
    ),
    Mutation(
        "a dump that failed twice has the report of its first end",
        REPORTING,
        "self._written.get(entry.id) == entry:",
        "entry.id in self._written and self._written[entry.id].state == entry.state:",
        f"{OF_REPORTING}::test_a_dump_that_failed_was_resumed_and_failed_again_has_the_report_of_the_last_end",
    ),
    Mutation(
        "a stopped dump has no report",
        FOLLOWER,
        "state in (DumpState.STOPPED, DumpState.FAILED):\n            self._reports",
        "state is DumpState.FAILED:\n            self._reports",
        f"{OF_REPORTING}::test_one_that_did_not_finish_has_a_report_and_no_certificate[stopped]",
    ),
    Mutation(
        "a certificate is written before its report",
        FOLLOWER,
        "        self._reports.write(entry, self._lines(dump), accepted, certified=True)",
        "        write_certificate(self._log, head, tables=(), chunks=(), segments=())\n"
        "        self._reports.write(entry, self._lines(dump), accepted, certified=True)",
        f"{OF_REPORTING}::test_while_the_storage_does_not_take_a_report_the_certificate_waits_and_is_written_once",
    ),
    Mutation(
        "old reports stay where a dump of which chunks are missing has ended",
        FOLLOWER,
        "            self._forget(dump.dump_id)\n        self._remove_old(dump.dump_id)\n",
        "            self._forget(dump.dump_id)\n            self._remove_old(dump.dump_id)\n",
        f"{OF_REPORTING}::test_the_newest_reports_are_kept_however_dumps_end",
    ),
    Mutation(
        "a dump of which chunks are missing has no report",
        FOLLOWER,
        "            self._reports.write(entry, self._lines(dump), {}, certified=False)\n            self._drop(",
        "            self._drop(",
        f"{OF_REPORTING}::test_a_dump_of_which_chunks_are_missing_has_a_report_that_says_so",
    ),
    Mutation(
        "samples of other dumps are this one's",
        COLLECTED,
        " if self.dump_id in one.running]",
        "]",
        f"{OF_COLLECTED}::test_samples_are_those_in_which_it_runs_each_once",
    ),
    Mutation(
        "lines are passed on again after a part",
        COLLECTED,
        "self.saved, self._told = [], None, self.read, 0",
        "self.saved = [], None, self.read",
        f"{OF_COLLECTED}::test_new_lines_are_each_passed_on_once_also_when_a_part_is_written_between",
    ),
    Mutation(
        "each answer of a watch has all samples",
        SERVICE,
        "                    after_ms = status.timeline.samples[-1].at_ms if status.timeline.samples else after_ms\n",
        "",
        f"{OF_TIMELINE}::test_a_watch_has_in_each_answer_the_samples_since_the_one_before",
    ),
    Mutation(
        "an answer without samples makes a watch begin again",
        SERVICE,
        "status.timeline.samples[-1].at_ms if status.timeline.samples else after_ms",
        "status.timeline.samples[-1].at_ms if status.timeline.samples else request.timeline_after_ms",
        f"{OF_TIMELINE}::test_a_watch_has_in_each_answer_the_samples_since_the_one_before",
    ),
    Mutation(
        "old files go though the history has them",
        FILES,
        "[one for one in there if one not in known]",
        "list(there)",
        f"{OF_FILES}::test_old_ones_go_before_those_that_the_history_has",
    ),
    Mutation(
        "a second worker is started beside the first one",
        WORKER,
        "if not self._managed or self._process is not None:",
        "if not self._managed:",
        f"{OF_WORKER}::test_it_serves_the_epoch_that_it_was_started_for_until_it_is_ended",
    ),
]
