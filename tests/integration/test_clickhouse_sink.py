"""The ClickHouse sink at ClickHouse's own engine (chdb behind a small HTTP front, tests/support/services/clickhouse_front.py): the port's
suite, and what is this sink's own about it.

What this shows: the SQL, the types and the Arrow that the sink sends are taken by the engine, its merges and FINAL give the newest row of
each key, and so do deaths, twins and races. What it does not: the real server's HTTP handler, its users and limits, replication.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from threading import Barrier

import pytest

from sidecar.shared.errors import OwnershipLost
from spark_merge.port.contract import Batch, Outcome, Sink
from spark_merge.sinks.clickhouse.position import Journal
from spark_merge.sinks.clickhouse.server import ClickHouseServer
from spark_merge.sinks.clickhouse.sink import ClickHouseSink
from spark_merge.sinks.kit.position import Stored
from spark_merge.testing.places import Here, Place
from spark_merge.testing.sink_port import SinkPort
from spark_merge.testing.story import TABLES, Story, die_after_each, mortal, of, opened_at_once
from tests.lanes import LANE
from tests.support.clickhouse_place import history_place
from tests.support.eventually import PATIENCE_S
from tests.support.services.clickhouse import ClickHouse

pytestmark = pytest.mark.xdist_group("clickhouse")

numbers = itertools.count()


class TestClickHouse(SinkPort):
    @pytest.fixture
    def place(self, clickhouse: ClickHouse) -> Place:
        return history_place(clickhouse, next(numbers), tables=TABLES)

    def test_a_death_between_any_two_requests_changes_nothing(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
        die_after_each(story, of(mortal(monkeypatch, ClickHouseServer, "_retried")), range(1, 2000, 1 if LANE.whole else 15))

    def test_of_two_that_open_at_once_one_goes_on(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
        """Both have seen the same last owner when they claim."""
        story.delivery().deliver()
        together, read, met = Barrier(2), Journal.read, set[int]()

        def seen(self: Journal) -> Stored[None] | None:
            stored = read(self)
            if id(self) not in met:
                met.add(id(self))
                together.wait(timeout=PATIENCE_S)
            return stored

        with monkeypatch.context() as patch:
            patch.setattr(Journal, "read", seen)
            deliveries = opened_at_once(story)
        assert len(deliveries) == 2
        ends = [ended(one.deliver) for one in deliveries]
        assert sorted(ends) == [False, True], "one of them goes on, the other finds out"
        story.finish()
        story.check_end()

    def test_an_accept_amid_a_later_owners_opening_is_counted_or_fails(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whichever of the opening's steps it falls between: what was answered as accepted is accepted."""
        for step in range(1, 7):
            previous = story.place.sink()
            if (previous.look() or (0,))[0] >= 5:
                break
            batch, work = story.begin(previous)
            outcomes, left, reports = Here().run(work), [step], list[bool]()

            def between(
                previous: Sink = previous,
                batch: Batch = batch,
                outcomes: list[Outcome] = outcomes,
                left: list[int] = left,
                reports: list[bool] = reports,
            ) -> None:
                left[0] -= 1
                if left[0] == 0:
                    reports.append(ended(lambda: previous.accept(batch, outcomes)))

            with monkeypatch.context() as patch:
                for name in ("_rows", "_write"):
                    patch.setattr(Journal, name, _before(getattr(Journal, name), between, previous))
                standing = story.place.sink().open(epoch=None)
            if reports == [True]:
                assert standing.accepted is not None
                assert standing.accepted.seq == batch.heads[-1].seq
        story.finish()
        story.check_end()

    def test_a_block_that_is_sent_again_is_left_out(self, story: Story, clickhouse: ClickHouse) -> None:
        _, work = story.begin(story.place.sink())
        clickhouse.execute("SYSTEM STOP MERGES")
        Here().run(work)
        tables = "SELECT sum(total_rows) FROM system.tables WHERE engine LIKE 'Replacing%' AND name LIKE '%__rows'"
        before = clickhouse.rows(tables)
        Here().run(work)
        assert clickhouse.rows(tables) == before
        clickhouse.execute("SYSTEM START MERGES")
        story.finish()
        story.check_end()


def _before(call: Callable[..., object], act: Callable[[], None], previous: Sink) -> Callable[..., object]:
    """`call`, and `act` before it, but for what the former owner itself does."""
    assert isinstance(previous, ClickHouseSink)

    def step(self: Journal, *args: object, **named: object) -> object:
        if self is not previous._journal:
            act()
        return call(self, *args, **named)

    return step


def ended(act: Callable[[], object]) -> bool:
    try:
        act()
    except OwnershipLost:
        return False
    return True
