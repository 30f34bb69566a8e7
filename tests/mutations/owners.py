"""What keeps a former owner and another log out."""

from __future__ import annotations

from tests.mutations.mutation import SINKS, Mutation

OF_THE_LOG = "tests/contract/test_segment_log.py"
OF_DUMPS = "tests/unit/log/test_dumps_file.py"
OF_ETCD = "tests/integration/test_etcd.py"
KEEPER_PY, OF_KEEPER = "sidecar/adapters/etcd/keeper.py", "tests/unit/adapters/test_etcd_keeper.py"
OF_TERMS = "tests/unit/run/test_between_terms.py"
OF_PROGRESS = "tests/unit/test_pipeline.py::test_the_dump_of_another_log_is_not_gone_on_with"

FENCES = [
    Mutation(
        "a manifest is written over another owner's",
        "sidecar/log/segment_log.py::FolderLog.commit",
        "create_exclusively(self.folder, manifest_name(manifest.seq), data)",
        "write_atomically(self.folder, manifest_name(manifest.seq), data) is None",
        f"{OF_THE_LOG}::test_a_second_owner_of_a_segment_is_reported_and_the_first_ones_manifest_stays[local]",
    ),
    Mutation(
        "a manifest is written over another owner's, in the twin",
        "sidecar/adapters/memory/log.py::MemoryLog.commit",
        "setdefault(manifest_name(manifest.seq), data) != data",
        "update({manifest_name(manifest.seq): data})",
        f"{OF_THE_LOG}::test_a_second_owner_of_a_segment_is_reported_and_the_first_ones_manifest_stays[twin]",
    ),
    Mutation(
        "a storage that creates a file twice is taken",
        "sidecar/log/segment_log.py::FolderLog._prove_exclusive",
        "not self._proven and not storage.keeps_exclusive(self.folder, _EXCLUSIVE_PROBE)",
        "False",
        f"{OF_THE_LOG}::test_a_storage_without_exclusive_create_is_refused",
    ),
    Mutation(
        "data has no epoch in its name",
        "sidecar/log/layout.py::data_name",
        "{epoch",
        "{0",
        f"{OF_THE_LOG}::test_a_previous_owner_cannot_replace_data[local]",
    ),
    Mutation(
        "a chunk has no epoch in its name",
        "sidecar/log/layout.py::chunk_name",
        "{epoch",
        "{0",
        "tests/unit/log/test_log_layout.py::test_names_sort_as_their_numbers",
    ),
    Mutation(
        "a segment that was retained away is created again",
        "sidecar/log/segment_log.py::FolderLog.commit",
        " or not (repeated or self._follows(manifest.seq))",
        "",
        f"{OF_THE_LOG}::test_an_owner_that_slept_cannot_write_a_segment_that_is_retained_away[local-2]",
    ),
    Mutation(
        "manifests of several epochs are removed in any order",
        "sidecar/log/segment_log.py::FolderLog._remove_segments",
        "key=lambda one: one[1][0]",
        "key=lambda _: 0",
        f"{OF_THE_LOG}::test_nor_can_it_amid_a_removal_in_any_order[local-3]",
    ),
    Mutation(
        "a chunk that a manifest in the middle of the log names is taken for an orphan",
        "sidecar/log/segment_log.py::FolderLog._learn",
        "self._unnamed -= files_of(manifest)",
        "self._unnamed -= set()",
        f"{OF_THE_LOG}::test_chunks_named_anywhere_in_the_log_stay[local]",
    ),
    Mutation(
        "chunks that a previous owner might still name are removed",
        "sidecar/log/segment_log.py::FolderLog.retain",
        " and self._committed",
        "",
        f"{OF_THE_LOG}::test_chunks_named_anywhere_in_the_log_stay[local]",
    ),
    Mutation(
        "an owner continues dumps without the tables of the file",
        "sidecar/log/segment_log.py::FolderLog.recover",
        "with_logged_tables(self.folder, last, self._file)",
        "last",
        f"{OF_THE_LOG}::test_dumps_of_many_tables_are_recovered_whole_and_their_file_goes_with_the_last_manifest_that_names_it[local]",
    ),
    Mutation(
        "an owner continues dumps without the tables of the file, in the twin",
        "sidecar/adapters/memory/log.py::MemoryLog.recover",
        "with_logged_tables(self.disk, last, self.disk.dumps.get)",
        "last",
        "tests/simulation/test_simulation.py::test_every_life_ends_with_the_output_equal_to_the_source[0]",
    ),
    Mutation(
        "the file of dumps goes with a manifest while another one names it",
        "sidecar/log/layout.py::shared_files_of",
        ", manifest.dumps_file",
        "",
        f"{OF_THE_LOG}::test_dumps_of_many_tables_are_recovered_whole_and_their_file_goes_with_the_last_manifest_that_names_it[local]",
    ),
    Mutation(
        "retention removes the file that the next manifest will name",
        "sidecar/log/segment_log.py::FolderLog._forget",
        "{self._schemas, self._dumps.name}",
        "{self._schemas}",
        f"{OF_THE_LOG}::test_dumps_of_many_tables_are_recovered_whole_and_their_file_goes_with_the_last_manifest_that_names_it[local]",
    ),
    Mutation(
        "a manifest with a new file of dumps lacks what changed since the one before",
        "sidecar/log/dumps_file.py::DumpsFile.logged",
        "            self._tables = {",
        "            changed = [[] for _ in dumps]\n            self._tables = {",
        f"{OF_DUMPS}::test_a_manifest_and_its_file_have_all_tables_and_the_manifest_alone_what_its_segment_completed[1]",
    ),
    Mutation(
        "the file of dumps stays where the tables have another order",
        "sidecar/log/dumps_file.py::_begins_with",
        "[*known] == [table.table for table in dump.tables[: len(known)]]",
        "len(known) <= len(dump.tables)",
        f"{OF_DUMPS}::test_a_manifest_and_its_file_have_all_tables_and_the_manifest_alone_what_its_segment_completed[1]",
    ),
    Mutation(
        "a manifest that names a file of dumps has the version of before",
        "sidecar/log/manifest.py::to_json",
        "FORMAT_VERSION if manifest.dumps_file else 1",
        "1",
        f"{OF_DUMPS}::test_who_does_not_know_the_file_must_not_pass_over_it",
    ),
    Mutation(
        "a former owner retains",
        "sidecar/log/segment_log.py::FolderLog._remove_segments",
        "storage.exists(self.folder, manifest_name(next_seq))",
        "False",
        f"{OF_THE_LOG}::test_a_previous_owner_retains_nothing[local]",
    ),
    Mutation(
        "an owner's write does not compare who owns",
        "sidecar/adapters/etcd/owner.py::EtcdOwner.fenced",
        "ours, ",
        "",
        f"{OF_ETCD}::test_the_fence_holds_whatever_the_previous_owners_clock_says",
    ),
    Mutation(
        "who is held is not asked of the clock",
        "sidecar/adapters/etcd/owner.py::EtcdOwner.lost",
        "reign.lost is None and self._clock() >= reign.until",
        "False",
        f"{OF_ETCD}::test_ownership_is_lost_by_our_own_clock_and_stays_lost",
    ),
    Mutation(
        "the lease counts from the keepalive's reply",
        "sidecar/adapters/etcd/owner.py::EtcdOwner._renew",
        "sent,",
        "answered,",
        f"{OF_ETCD}::test_the_lease_counts_from_when_the_keepalive_was_sent",
    ),
    Mutation(
        "a keepalive whose answer comes too late renews the lease",
        f"{KEEPER_PY}::keep",
        "        if answered >= until:\n            return out_of_time(order.lease_s)\n",
        "",
        f"{OF_KEEPER}::test_the_owner_never_believes_in_its_lease_for_longer_than_etcd_does[0]",
    ),
    Mutation(
        "the lease of an owner that is frozen is kept",
        f"{KEEPER_PY}::OwnerSigns.ends",
        " and not silent",
        "",
        f"{OF_KEEPER}::test_an_owner_that_is_silent_for_a_lease_gets_no_keepalive_until_the_lease_has_run_out",
    ),
    Mutation(
        "a keeper that kept nothing is kept",
        "sidecar/adapters/etcd/owner.py::EtcdOwner.release",
        "close()  ",
        "keep(NO_LEASE)  ",
        f"{OF_KEEPER}::test_a_lease_that_was_lost_is_the_last_one_of_its_keeper[True]",
    ),
    Mutation(
        "a keeper outlives its owner",
        f"{KEEPER_PY}::OwnerSigns.listen",
        "not data",
        "False",
        f"{OF_KEEPER}::test_an_owner_that_is_gone_ends_it_at_once",
    ),
    Mutation(
        "a worker is kept beside another owner's",
        "sidecar/run/between_terms.py::BetweenTerms.stand_by",
        "_end()\n        self.",
        "",
        f"{OF_TERMS}::test_another_owner_in_between_ends_the_worker_and_the_pace_begins_again",
    ),
    Mutation(
        "a worker is kept for another log",
        "sidecar/run/between_terms.py::BetweenTerms.enter",
        'self._log not in ("", own_id)',
        "not own_id",
        f"{OF_TERMS}::test_another_log_in_the_place_of_the_workers_has_another_worker[False]",
    ),
    Mutation(
        "a worker that is kept serves its former epoch",
        "sidecar/run/between_terms.py::BetweenTerms.enter",
        "self._worker.serve(epoch)",
        "pass",
        f"{OF_TERMS}::test_a_process_that_regains_its_changefeed_keeps_its_worker_and_what_the_pace_has_learned[error0]",
    ),
    Mutation(
        "a loop that has another epoch keeps the sink that it opened",
        "spark_merge/delivery/loop.py::SinkLoop.serve",
        "\n        self._serves.set()",
        "",
        "tests/unit/merge/test_loop.py::test_a_loop_that_is_reported_the_owners_next_epoch_opens_its_sink_with_it",
    ),
    Mutation(
        "an epoch is granted again",
        "sidecar/adapters/etcd/owner.py::EtcdOwner._try",
        "1 + (_epoch(last) if last else 0",
        "(_epoch(last) if last else 1",
        "tests/contract/test_ownership.py::test_epochs_only_rise[etcd]",
    ),
    Mutation(
        "progress is saved without the owner's fence",
        "sidecar/adapters/etcd/progress.py::EtcdProgress._transact",
        "fenced(",
        "client.transact(writes=",
        f"{OF_ETCD}::test_saving_without_ownership_writes_nothing",
    ),
    Mutation(
        "progress that etcd carries out late replaces a later one",
        "sidecar/adapters/etcd/progress.py::EtcdProgress._transact",
        'Compare(self._head, "modified", stored.modified)',
        "",
        f"{OF_ETCD}::test_a_save_that_etcd_carries_out_late_changes_nothing",
    ),
    Mutation(
        "a merge worker delivers a later owner's segments",
        "spark_merge/delivery/batches.py::Delivery._batch",
        "        self._check_owner(manifests)\n",
        "",
        "tests/unit/merge/test_delivery.py::test_segments_of_a_later_owner_are_not_delivered",
    ),
]
"""Against a former owner that is still alive: the log's, etcd's and the merge worker's. Those of each sink stand beside it (merging.py)."""

LOGS = [
    Mutation(
        "stored progress of another log is taken",
        "sidecar/core/progress.py::newest",
        'one for one in stored if one.log not in (log, "")',
        "",
        "tests/unit/test_pipeline.py::test_a_log_that_knows_its_dump_goes_on_with_it_whatever_another_log_left_in_the_store",
    ),
    Mutation(
        "stored progress beyond the log's end is taken",
        "sidecar/core/progress.py::newest",
        "[one.seq for one in stored if one.seq > last_seq]",
        "list[Seq]()",
        f"{OF_PROGRESS}[not told]",
    ),
    Mutation(
        "what is left of another log's dump keeps its cursors",
        "sidecar/core/progress.py::_without_rows",
        "tuple(afresh(table, since_seq=since_seq) for table in stored.tables)",
        "stored.tables",
        f"{OF_PROGRESS}[another log]",
    ),
    Mutation(
        "progress does not say of which log it is",
        "sidecar/pipeline.py::Pipeline._records",
        "tuple(replace(dump, log=self.outside.log.id) for dump in self.dump.records)",
        "self.dump.records",
        "tests/unit/test_pipeline.py::test_a_store_of_before_that_names_no_log_is_taken_on_once_and_names_it_then",
    ),
    Mutation(
        "a sink goes on with a log that was restored",
        "spark_merge/delivery/batches.py::Delivery.__init__",
        "check_has(settings.log, before)  # first: who opens it makes it this log's",
        "pass",
        f"{SINKS}::TestTwins::test_a_log_that_is_not_the_one_that_it_has_is_refused_and_takes_nothing_over[HiddenSink-and written on]",
    ),
    Mutation(
        "a log that is replaced under a worker is continued",
        "spark_merge/delivery/batches.py::Delivery._batch",
        "        check_follows(self._settings.log, self._standing.accepted, manifests)\n",
        "",
        f"{SINKS}::TestTwins::test_a_log_that_is_replaced_under_a_worker_is_noticed[HiddenSink]",
    ),
    Mutation(
        "a hole at the log's beginning is taken for retention",
        "sidecar/log/layout.py::Contents.run",
        "run = range(self.floor, self.floor",
        "start = self.floor or (present[0] if present else 0)\n        run = range(start, start",
        "tests/unit/log/test_log_layout.py::test_a_run_with_a_gap_is_broken[names1-0]",
    ),
    Mutation(
        "a report of what is not in the log is believed",
        "sidecar/log/deliveries.py::LogDeliveries._check_is_of_this_log",
        "not storage.exists(self._folder, manifest_name(report.seq))",
        "False",
        "tests/unit/log/test_log_deliveries.py::"
        "test_what_reports_of_another_log_or_of_what_is_not_in_this_one_is_trouble_and_no_events[beyond its end]",
    ),
    Mutation(
        "rows that were left out of a log that is no more are left out of the next one",
        "sidecar/log/layout.py::Contents.run",
        "skipped[0] >= run.stop",
        "False",
        "tests/unit/log/test_log_layout.py::test_a_run_with_a_gap_is_broken[names8-0]",
    ),
    Mutation(
        "names in a manifest are believed",
        "sidecar/log/layout.py::read_manifest",
        "_strange_names(manifest",
        "set[str](",
        "tests/unit/merge/test_read.py::test_a_manifest_that_names_what_is_not_the_logs_is_broken[strange0]",
    ),
    Mutation(
        "a topic that was made anew is read on",
        "sidecar/feeds/kafka/start.py::Start._re_created",
        "wanted.ids.get(name, topic.id) != topic.id",
        "False",
        "tests/unit/feeds/test_kafka_start.py::test_a_topic_made_again_while_nobody_looked_is_a_gap_however_long_it_is",
    ),
]
"""Against a log in another's place."""
