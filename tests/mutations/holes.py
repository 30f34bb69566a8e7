"""Holes: noticed once and for all, open until they are filled, and what an operator parks."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

COMPLETE = "tests/unit/merge/test_complete.py"
RECORD = "tests/unit/merge/test_sink_record.py"
SIGHTINGS = "tests/unit/run/test_sightings.py"
PARKED = "tests/unit/feeds/test_encoded_parked.py"
HOLES = "tests/unit/control/test_holes.py"

HOLED = [
    Mutation(
        "a pass that began before the hole was noticed fills it",
        "spark_merge/delivery/complete.py::_completes",
        "one.since_seq > hole.seq",
        "True",
        f"{COMPLETE}::test_a_pass_that_began_in_a_later_segment_fills_it[4-False]",
    ),
    Mutation(
        "a dump fills a hole where rows vanished",
        "spark_merge/delivery/complete.py::_completes",
        " and not hole.vanished",
        "",
        f"{COMPLETE}::test_a_dump_of_a_part_fills_nothing_and_one_fills_nothing_where_rows_vanished",
    ),
    Mutation(
        "a word is of every hole",
        "spark_merge/delivery/complete.py::filled",
        "hole.seq <= words.get(table, -1)",
        "table in words",
        f"{COMPLETE}::test_a_word_ends_the_holes_that_were_noticed_up_to_its_segment",
    ),
    Mutation(
        "a hole does not follow its table",
        "spark_merge/delivery/complete.py::_over_ddls",
        "holes[step.after] = tables.holes[step.before]",
        "pass",
        f"{COMPLETE}::test_a_hole_follows_its_table_and_ends_with_its_rows",
    ),
    Mutation(
        "a row that is skipped leaves its table complete",
        "spark_merge/delivery/sink_record.py::SinkRecord.passed",
        "with_holes(tables, self._skipped(segment.seq), (), segment.seq)",
        "tables",
        f"{RECORD}::test_a_row_that_is_skipped_is_a_hole_of_its_table",
    ),
    Mutation(
        "a hole is written before the log has come to it",
        "sidecar/run/sightings.py::SeenHoles._reached",
        "one.hole.since_ts <= upto_ts",
        "True",
        f"{SIGHTINGS}::test_a_hole_waits_for_the_log",
    ),
    Mutation(
        "a watcher has looked further than what is written",
        "sidecar/run/sightings.py::SeenHoles._reached",
        "later.add(one.watcher)",
        "pass",
        f"{SIGHTINGS}::test_how_far_a_watcher_has_looked_is_kept_with_what_it_saw_before",
    ),
    Mutation(
        "nothing is written for a hole alone",
        "sidecar/pipeline.py::Pipeline._must_write",
        " or self.outside.sightings.due(upto_ts)",
        "",
        "tests/unit/test_pipeline.py::test_a_hole_is_in_the_first_segment_that_reaches_it_even_if_nothing_else_is",
    ),
    Mutation(
        "a new owner looks from the log's end on",
        "sidecar/pipeline.py::attach",
        "last.seen if last else {}",
        "{}",
        "tests/unit/test_pipeline.py::test_how_far_watchers_have_looked_is_carried_from_segment_to_segment_and_owner_to_owner",
    ),
    Mutation(
        "whatever is at a parked message's place is passed",
        "sidecar/shared/log/parked.py::digest",
        "(message.key, message.value)",
        "()",
        f"{PARKED}::test_another_message_at_the_same_place_is_not_passed",
    ),
    Mutation(
        "a parked message is passed without a word",
        "sidecar/feeds/encoded/parked.py::_WithoutParked._is_parked",
        "self._passed(parked)",
        "pass",
        f"{PARKED}::test_a_stream_stops_is_parked_and_goes_on_behind_the_message",
    ),
    Mutation(
        "a gap before a parked message is none",
        "sidecar/feeds/encoded/parked.py::_WithoutParked._is_parked",
        "{message.lane} if message.after_gap else set()",
        "set()",
        f"{PARKED}::test_a_gap_before_a_parked_message_is_one_before_the_next",
    ),
    Mutation(
        "a message that is parked keeps the rows that a sink has",
        "sidecar/run/sightings.py::note_passed",
        "vanished=True",
        "vanished=False",
        f"{SIGHTINGS}::test_a_parked_message_makes_a_hole_behind_what_is_released",
    ),
    Mutation(
        "a dump of holes is for all sinks",
        "sidecar/control/holes.py::narrow_to_holes",
        "request.sinks.extend(sorted(holes))",
        "pass",
        f"{HOLES}::test_it_is_of_the_tables_and_the_sinks_that_have_one",
    ),
    Mutation(
        "a dump of holes removes no row",
        "sidecar/control/holes.py::narrow_to_holes",
        "request.exact |=",
        "_ =",
        f"{HOLES}::test_where_rows_vanished_it_is_exact_if_the_sink_can_be_read_back[lake-True]",
    ),
    Mutation(
        "a dump that an operator stopped is begun again",
        "sidecar/run/filling.py::Filling.look",
        " and self._history.find(dump_id) is None",
        "",
        "tests/unit/run/test_filling.py::test_each_set_of_holes_has_one_dump",
    ),
]
