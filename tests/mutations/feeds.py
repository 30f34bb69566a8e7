"""From the feeds to the one order: pumps, key-values, topics, the sequence."""

from __future__ import annotations

from tests.mutations.mutation import SIMULATION, Mutation

STREAMS = "tests/unit/feeds/test_binlog_streams.py"
COLLECTED = "tests/unit/pump/test_collected.py"
FIRST_STAYS = "tests/unit/pump/test_storage.py::test_the_first_binlog_of_a_timestamp_stays"

PUMPS = [
    Mutation(
        "the registry is read before the TSO",
        "sidecar/feeds/binlog/joining.py::look",
        "ts = tso()\n    return PumpLook(ts, pumps()",
        "found = pumps()\n    return PumpLook(tso(), found",
        "tests/simulation/test_pump_joins.py::test_whoever_joins_whenever_nothing_is_lost[0]",
    ),
    Mutation(
        "an offline pump lets go before its end",
        "sidecar/feeds/binlog/joining.py::JoinedPump.over",
        " and is_read",
        "",
        "tests/unit/feeds/test_binlog_holds.py::test_an_offline_pump_lets_go_after_its_end",
    ),
    Mutation(
        "what a drainer has consumed goes back",
        "sidecar/feeds/binlog/drainer.py::Drainer.acknowledge",
        "max(self.durable_ts, durable_ts)",
        "durable_ts",
        f"{STREAMS}::test_what_we_publish_is_what_is_durable_and_we_leave_as_paused",
    ),
    Mutation(
        "pumps are not held while another one stands",
        "sidecar/feeds/binlog/backlog.py::Backlog._ready",
        " and lane.ahead_bytes <= self._ahead_bytes_max",
        "",
        f"{STREAMS}::test_while_one_pump_stuck_the_others_are_held_and_memory_is_bounded",
    ),
    Mutation(
        "a pump is not asked what it has removed",
        "sidecar/feeds/binlog/gaps.py::check_kept",
        "removed_ms and removed_ms >= physical_ms(after_ts)",
        "False",
        "tests/unit/feeds/test_binlog_gaps.py::test_a_pump_that_has_removed_beyond_the_position_is_refused",
    ),
    Mutation(
        "a pump's first answer counts before it was asked what it has removed",
        "sidecar/feeds/binlog/pump.py::PumpStream._read",
        "                check_kept(self._reaching.metrics, self.node, self.received_ts)\n",
        "",
        "tests/unit/feeds/test_binlog_holds.py::test_what_is_removed_just_before_a_pull_is_seen_before_anything_of_it_counts",
    ),
    Mutation(
        "an index that is made again begins without what was collected",
        "sidecar/pump/storage.py::Storage.__init__",
        "max(self._collected.ts or 0, state.gc_ts)",
        "state.gc_ts",
        f"{COLLECTED}::test_an_index_that_is_made_again_knows_what_was_collected",
    ),
    Mutation(
        "rows go before it is on record what is collected",
        "sidecar/pump/storage.py::Storage._collect",
        "_collected.record(ts",
        "_work.append(lambda: self._collected.record(ts)",
        f"{COLLECTED}::test_a_death_while_it_collects_leaves_no_reader_without_word[1-as it was]",
    ),
    Mutation(
        "value files go that could not be put on record",
        "sidecar/pump/storage.py::Storage._collect",
        "return  # the next collection tries again",
        "pass",
        f"{COLLECTED}::test_what_cannot_be_put_on_record_stays",
    ),
    Mutation(
        "a pump that lacks its first files and any record says that it has collected nothing",
        "sidecar/pump/storage.py::Storage.__init__",
        "self.is_gc_assumed:",
        "False:",
        f"{COLLECTED}::test_without_any_record_what_is_not_surely_whole_counts_as_collected",
    ),
    Mutation(
        "the last prewrite of a timestamp is kept, not the first",
        "sidecar/pump/index.py::PumpIndex.add",
        "IGNORE INTO prewrite",
        "REPLACE INTO prewrite",
        FIRST_STAYS,
    ),
    Mutation(
        "the last end of a timestamp is kept, not the first",
        "sidecar/pump/index.py::PumpIndex.add",
        "IGNORE INTO ended",
        "REPLACE INTO ended",
        FIRST_STAYS,
    ),
]

FEEDS = [
    Mutation(
        "a key-value at a DDL's commit_ts has the schema after it",
        "sidecar/feeds/kv/schemas.py::KvSchemas._name",
        " - 1",
        "",
        "tests/unit/feeds/test_kv_feed.py::test_rows_of_an_exchanged_partition_change_tables_at_the_ddl",
    ),
    Mutation(
        "what is held of a lane that has ended hides what a later one of its name has sent",
        "sidecar/core/sequence.py::_LaneWaits.add",
        "min(position, before)",
        "before",
        "tests/unit/core/test_sequence.py::test_what_is_held_of_a_lane_counts_beside_a_later_one_of_its_name",
    ),
    Mutation(
        "a position points behind a change that waits",
        "sidecar/core/sequence.py::_LaneWaits.oldest",
        "places[0][1] <= upto_ts",
        "places[0][1] <= upto_ts + 50",
        "tests/unit/core/test_sequence.py::test_positions_point_at_the_oldest_change_not_yet_released",
    ),
    Mutation(
        "a change that waits is looked at in each release",
        "sidecar/core/sequence.py::Sequence._note_arrived",
        "[self._arrived :]",
        "",
        "tests/unit/core/test_sequence.py::test_a_change_that_waits_for_a_late_lane_costs_no_more_the_longer_it_waits[80]",
    ),
    Mutation(
        "a new table's rows are never asked for",
        "sidecar/feeds/kv/schemas.py::KvSchemas._note",
        "self.wanted.setdefault(one, event.commit_ts)",
        "pass",
        "tests/unit/feeds/test_kv_feed.py::test_a_new_tables_lane_comes_with_its_ddl_and_holds_r_there",
    ),
    Mutation(
        "release at R, not below it",
        "sidecar/core/sequence.py::Sequence.upto",
        ") - 1",
        ")",
        "tests/unit/core/test_sequence.py::test_releases_strictly_below_resolved",
    ),
    Mutation(
        "a change waits where ts are spared",
        "sidecar/core/sequence.py::Sequence._spared",
        "change_ts, ",
        "",
        "tests/unit/core/test_sequence.py::test_a_little_is_spared_for_segments_without_a_change_and_no_change_waits_for_that",
    ),
    Mutation(
        "no ts is spared behind a change",
        "sidecar/core/sequence.py::Sequence._spared",
        "NO_TS)",
        "NO_TS) and upto_ts",
        "tests/unit/core/test_sequence.py::test_a_little_is_spared_for_segments_without_a_change_and_no_change_waits_for_that",
    ),
    Mutation(
        "the fastest lane decides, not the slowest",
        "sidecar/core/sequence.py::Sequence.upto",
        "min",
        "max",
        SIMULATION,
    ),
    Mutation(
        "no check for repeats",
        "sidecar/core/sequence.py::Sequence.accept",
        "after_ts < ",
        "",
        SIMULATION,
    ),
    Mutation(
        "a resolved mark from the future counts",
        "sidecar/core/sequence.py::Sequence.accept",
        "envelope.ts > newest_ts",
        "False",
        "tests/unit/core/test_sequence.py::test_what_is_ahead_of_the_clock_stops_and_changes_nothing[mark]",
    ),
    Mutation(
        "a topic that may get no marks is waited for",
        "sidecar/feeds/kafka/rounds.py::Rounds.release",
        "{partition for partition in self._lanes if partition[0] in self._marked}",
        "set(self._lanes)",
        "tests/scenarios/test_scenarios.py::test_scenario[rounds_unmarked]",
    ),
    Mutation(
        "a lane counts before it has joined",
        "sidecar/core/sequence.py::Sequence.upto",
        "if not lanes or any(lane not in self.resolved for lane in lanes)",
        "lanes = [lane for lane in lanes if lane in self.resolved]\n        if not lanes",
        SIMULATION.replace("[0]", "[50]"),
    ),
    Mutation(
        "a later lane of one's name begins where the one that has ended was",
        "sidecar/core/sequence.py::Sequence.forget_ended",
        " self.positions, self._read",
        "",
        "tests/unit/test_pipeline.py::test_a_lane_that_comes_back_is_another_one_and_nothing_of_it_is_lost_whenever_the_sidecar_dies",
    ),
    Mutation(
        "positions of what was read last, not of the oldest held",
        "sidecar/core/sequence.py::Sequence._oldest_held",
        "waiting < oldest.get(lane, 0)",
        "False",
        SIMULATION,
    ),
]
