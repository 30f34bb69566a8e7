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
        "any(word.ends(table, hole) for word in said)",
        "bool(said)",
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
        "with_holes(tables, skipped, ids_of(self._schemas(segment.schemas)) if skipped else {}, segment.seq)",
        "tables",
        f"{RECORD}::test_a_row_that_is_skipped_is_a_hole_of_its_table",
    ),
    Mutation(
        "a hole is written before the log has come to it",
        "sidecar/run/sightings.py::_is_there",
        "one.hole.since_ts <= upto_ts",
        "True",
        f"{SIGHTINGS}::test_a_hole_waits_for_the_log_in_its_manifests",
    ),
    Mutation(
        "what waits is not in the manifest",
        "sidecar/run/sightings.py::SeenHoles.take",
        "tuple(waiting), seen)",
        "(), seen)",
        f"{SIGHTINGS}::test_what_waits_is_there_for_the_next_owner",
    ),
    Mutation(
        "nothing is written for a hole alone",
        "sidecar/pipeline.py::Pipeline._must_write",
        " or self.outside.sightings.due(upto_ts)",
        "",
        "tests/unit/test_pipeline.py::test_what_was_seen_is_in_the_next_segment_even_if_nothing_else_is_and_a_hole_once_the_log_is_there",
    ),
    Mutation(
        "a new owner looks from the log's end on",
        "sidecar/pipeline.py::attach",
        "(last.seen, last.waiting)",
        "({}, ())",
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
        "sidecar/run/filling.py::Filling._fill",
        "self._record(tables, holes)",
        "pass",
        "tests/unit/run/test_filling.py::test_each_hole_has_one_dump_whatever_becomes_of_the_others",
    ),
    Mutation(
        "a word is of whatever table has the name",
        "sidecar/shared/log/filled.py::FilledWord.ends",
        "self.table_id == hole.table_id and (self.table_id != 0 or self.table == table)",
        "self.table == table",
        "tests/unit/log/test_filled.py::test_a_word_is_of_a_table_and_not_of_its_name",
    ),
    Mutation(
        "a dump that ends with a RENAME fills the hole of the new name",
        "spark_merge/delivery/complete.py::followed",
        "was[one.table])",
        "one.table)",
        f"{COMPLETE}::test_a_dump_that_ends_with_a_rename_fills_what_it_would_without_it",
    ),
    Mutation(
        "a worker that wakes writes over its successor's record",
        "sidecar/shared/log/layout.py::sink_tables_name",
        "-{epoch:010d}-{incarnation:010d}",
        "",
        f"{RECORD}::test_a_worker_that_was_frozen_amid_its_first_write_leaves_its_successors_file_alone",
    ),
    Mutation(
        "a batch that is begun ends with what the log has by now",
        "spark_merge/delivery/batches.py::Delivery._next",
        "check_ends_as_begun(self._settings.log, again, standing.begun)",
        "pass",
        "tests/unit/merge/test_delivery.py::test_a_log_that_is_put_back_under_a_worker_does_not_end_the_batch_that_is_begun",
    ),
    Mutation(
        "an owner whose feed another one emptied takes its log for broken",
        "sidecar/run/term.py::Term._judging_the_log",
        "self._log.check_not_taken()",
        "pass",
        "tests/unit/run/test_term.py::test_what_an_earlier_owner_that_woke_made_the_feed_forget_is_no_broken_log[True-LogBroken]",
    ),
    Mutation(
        "a word that cannot be read stops the sinks",
        "sidecar/shared/log/filled.py::Words.read",
        "suppress(LogBroken)",
        "suppress()",
        "tests/unit/log/test_filled.py::test_a_file_that_cannot_be_read_is_named_with_the_way_out",
    ),
    Mutation(
        "a hole's text has what a terminal carries out",
        "sidecar/shared/model/hole.py::in_short",
        'char if char.isprintable() else "?"',
        "char",
        f"{SIGHTINGS}::test_nothing_of_a_text_is_carried_out_by_a_terminal",
    ),
]
