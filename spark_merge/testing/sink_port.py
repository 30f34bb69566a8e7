"""The contract suite of sinks (port/contract.py): what each sink keeps, of whatever kind. Run it by a class that gives it `place`.

    from spark_merge.testing.places import Place
    from spark_merge.testing.sink_port import SinkPort

    class TestMine(SinkPort):
        @pytest.fixture
        def place(self, tmp_path):
            return Place(uri, lambda log_id: MySink(uri, log_id=log_id), rows)

A random log with windows is delivered by sinks that die, freeze, wake up and are redone in other cuts. In the end a consumer has what the
slow rule says: exactly once and in order where the output is a stream, in its end state where the greatest version wins. dumps_port.py has
its dumps of every kind.
"""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.log import rows_file, storage
from sidecar.shared.log.identity import name_of
from sidecar.shared.log.layout import manifest_name
from sidecar.shared.log.manifest import to_json
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Seq
from spark_merge.delivery.batches import TaskWork
from spark_merge.port.contract import Outcome
from spark_merge.sinks.folder.layout import LIVE_PARTS
from spark_merge.sinks.memory import hidden, versioned
from spark_merge.testing import histories
from spark_merge.testing.dumps_port import DumpsPort
from spark_merge.testing.places import Here, Place, accepted
from spark_merge.testing.story import TABLES, WAIT_S, Died, Mortal, Story, WorkerLife, change_names_between_steps


class SinkPort(DumpsPort):
    """Subclasses give a fixture `place` for each output to try, new for each test."""

    @pytest.fixture
    def story(self, tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> Story:
        """Where a sink may have a segment's live rows in several units, most of its segments are large enough for it."""
        monkeypatch.setattr(histories, "TABLES", TABLES)
        monkeypatch.setattr(rows_file, "ROW_GROUP_ROWS_MAX", 3)
        monkeypatch.setitem(LIVE_PARTS, "parquet", 2)
        for twin in (hidden, versioned):
            monkeypatch.setattr(twin, "LIVE_PART_ROWS", 2)
        return Story(tmp_path, place, seed=7)

    @pytest.mark.parametrize("segments_max", [1, 3, 100])
    def test_whatever_the_cut_the_end_is_the_rules(self, story: Story, segments_max: int) -> None:
        assert story.place.sink().look() is None
        story.finish(segments_max=segments_max)
        story.check_end()
        assert accepted(story.place.sink()) == histories.SEGMENTS - 1

    def test_a_death_between_any_two_steps_changes_nothing_in_the_end(self, story: Story) -> None:
        """One worker after another dies, each a step later than the one before it got to; a reader looks after each death."""
        for lived in range(1, 200):
            life = WorkerLife(lived)
            try:
                sizes = story.random.choice([1, 2, 4])
                delivery = story.delivery(Mortal(story.place.sink(), life), segments_max=sizes, tasks=Here(before=life.step))
                while delivery.deliver():
                    pass
                break
            except Died:
                story.check_beginning()
        else:
            pytest.fail("it never came to its end")
        story.check_end()

    def test_a_sink_whose_name_changes_between_any_two_steps_has_each_segment_under_one_name(self, story: Story, tmp_path: Path) -> None:
        """Some dumps are for one name only. What a sink has begun to show, it ends as it began."""
        change_names_between_steps(Story(tmp_path / "named", story.place, seed=7, names=("a", "b")))

    def test_a_batch_whose_tasks_are_done_and_that_was_not_accepted_is_done_again(self, story: Story) -> None:
        sink = story.place.sink()
        _, work = story.begin(sink)
        Here().run(work)
        story.check_beginning()
        story.finish(segments_max=1)
        story.check_end()

    def test_a_reader_at_a_position_amid_what_the_output_has_lacks_nothing(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
        story.check_readers_amid_a_commit(monkeypatch)

    def test_a_previous_worker_that_wakes_up_can_not_accept(self, story: Story) -> None:
        """Frozen after its tasks wrote: before the next owner accepts anything, and after it has accepted all."""
        previous = story.place.sink()
        batch, work = story.begin(previous)
        outcomes = Here().run(work)
        successor = story.delivery()
        before = story.seen()
        for _ in range(2):
            with pytest.raises(OwnershipLost):
                previous.accept(batch, outcomes)
            assert story.seen() == before or story.place.versioned
            while successor.deliver():
                pass
            before = story.seen()
        story.check_end()

    def test_a_task_that_outlives_its_driver_changes_nothing(self, story: Story) -> None:
        _, work = story.begin(story.place.sink())
        successor = story.delivery()
        successor.deliver()
        for late in work:
            self.run_late(late)
        while successor.deliver():
            pass
        for late in work:
            self.run_late(late)
        story.check_end()

    def test_a_task_may_run_twice_at_once_and_again_when_all_is_over(self, story: Story) -> None:
        sink = story.place.sink()
        batch, work = story.begin(sink)
        outcomes: list[Outcome] = []
        for one in work:
            together = Barrier(2)

            def twin(_: int, one: TaskWork = one, together: Barrier = together) -> Outcome:
                together.wait(timeout=WAIT_S)
                outcome: Outcome = pickle.loads(pickle.dumps(one)).carry_out()
                return outcome

            with ThreadPoolExecutor(2) as pool:
                outcomes.append(story.random.choice(list(pool.map(twin, range(2)))))
        sink.accept(batch, outcomes)
        for one in work:
            one.carry_out()
        story.finish()
        story.check_end()

    def test_a_later_epoch_shuts_out_all_before_it(self, story: Story) -> None:
        story.place.sink().open(epoch=5)
        with pytest.raises(OwnershipLost):
            story.place.sink().open(epoch=4)
        again, unknown = story.place.sink().open(epoch=5), story.place.sink().open(epoch=None)
        assert again.owner < unknown.owner
        assert (again.owner.epoch, unknown.owner.epoch) == (5, 5)
        assert story.place.sink().open(epoch=6).owner == (6, 1)

    def test_what_is_read_back_is_each_keys_newest_row(self, story: Story) -> None:
        """Before the first batch, beside one whose tasks have run, and at the end; in one part and in several. A sink that cannot be read
        has no `reading`."""
        story.check_read_back()
        for segments_max in (1, 2, 2):
            story.delivery(segments_max=segments_max).deliver()
            story.begin_and_die()
            story.check_read_back()
        story.finish()
        story.check_read_back(end=True)

    def test_looking_takes_nothing_over(self, story: Story) -> None:
        delivery = story.delivery(segments_max=1)
        delivery.deliver()
        assert accepted(story.place.sink()) == 0
        while delivery.deliver():
            pass
        story.check_end()

    def test_a_batch_that_was_accepted_is_refused(self, story: Story) -> None:
        sink = story.place.sink()
        batch, work = story.begin(sink)
        sink.accept(batch, Here().run(work))
        with pytest.raises((SinkError, OwnershipLost)):
            sink.accept(batch, Here().run(work))
        assert accepted(story.place.sink()) == batch.heads[-1].seq
        story.finish()
        story.check_end()

    def test_an_output_that_names_only_the_changefeed_becomes_this_logs_once(self, story: Story) -> None:
        story.delivery().deliver()
        mine, others = name_of("log-1", "a" * 32), name_of("log-1", "b" * 32)
        there = story.place.sink(mine).look()
        assert there is not None
        assert story.place.sink(mine).open(epoch=None).accepted == there
        assert story.place.sink(mine).look() == there
        for other in (others, "log-2"):
            with pytest.raises(SinkError, match="a" * 32):
                story.place.sink(other).look()

    @pytest.mark.parametrize("kept", [1, histories.SEGMENTS], ids=["restored from a backup", "and written on"])
    def test_a_log_that_is_not_the_one_that_it_has_is_refused_and_takes_nothing_over(self, story: Story, tmp_path: Path, kept: int) -> None:
        """Its numbers are the same, its segments are not: rows would be missing without a word."""
        delivery = story.delivery(segments_max=3)
        delivery.deliver()
        mine, story.log = story.log, open_folder(str(tmp_path / "restored"))
        written = histories.write_log(story.log, story.history, made="once more")
        storage.remove(story.log, [manifest_name(manifest.seq) for manifest in written[kept:]])
        storage.remove(story.log, [manifest.data for manifest in written[kept:] if manifest.data])
        with pytest.raises(SinkError, match="the output has accepted segment"):
            story.delivery()
        story.log = mine
        while delivery.deliver():  # the worker of the right log was not fenced off
            pass
        story.check_end()

    def test_a_log_that_is_replaced_under_a_worker_is_noticed(self, story: Story, tmp_path: Path) -> None:
        delivery = story.delivery(segments_max=2)
        delivery.deliver()
        elsewhere = open_folder(str(tmp_path / "restored"))
        later = histories.write_log(elsewhere, story.history, made="once more", moved_ts=5)
        storage.write_atomically(story.log, manifest_name(Seq(2)), to_json(later[2]))
        with pytest.raises(SinkError, match=r"segment 2 of the log .* begins at"):
            delivery.deliver()
        assert accepted(story.place.sink()) == 1

    def test_a_log_that_was_restored_while_a_batch_was_begun_is_refused(self, story: Story, tmp_path: Path) -> None:
        """It was written on to the same numbers. Tasks of the begun batch that are done would be skipped, and rows of other segments be
        missing. A sink that keeps no begun batch has shown nothing, and takes the segments that are there."""
        story.delivery(segments_max=1).deliver()
        _, work = story.begin(story.place.sink())
        work[0].carry_out()
        standing = story.place.sink().open(epoch=None)
        assert standing.accepted is not None
        behind = [manifest_name(manifest.seq) for manifest in story.manifests if manifest.seq > standing.accepted.seq]
        mine = storage.read_files(story.log, behind)
        later = histories.write_log(open_folder(str(tmp_path / "restored")), story.history, made="once more")
        storage.write_all(story.log, {name: to_json(later[int(name[:20])]) for name in behind})
        if standing.begun is not None:
            assert standing.begun.manifest, "its manifest is on record"
            for segments_max in (1, 100):
                with pytest.raises(SinkError, match=f"has begun segment {standing.begun.seq} .* has another one"):
                    story.delivery(segments_max=segments_max)
            storage.write_all(story.log, mine)
        story.finish()
        story.check_end()

    def test_another_log_is_refused(self, story: Story) -> None:
        story.finish()
        other = story.place.sink("log-2")
        for act in (other.look, lambda: other.open(epoch=None)):
            with pytest.raises(SinkError, match="log-1"):
                act()
        story.check_end()

    def run_late(self, work: TaskWork) -> None:
        """It may be refused, and then for this reason only."""
        try:
            work.carry_out()
        except OwnershipLost:
            return
