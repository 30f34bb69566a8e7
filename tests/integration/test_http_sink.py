"""The http: sink at the sample receiver, a process of its own: the port's suite, and deaths of either side between any two steps."""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.process.background import Background
from spark_merge.sinks.http import client
from spark_merge.sinks.http.client import Client
from spark_merge.testing import histories
from spark_merge.testing.histories import SEGMENTS
from spark_merge.testing.places import Here, Place
from spark_merge.testing.sink_port import SinkPort
from spark_merge.testing.story import TABLES, Died, Story, die_after_each, die_under_changing_names, mortal, of, opened_at_once
from tests.lanes import LANE
from tests.support.services.http_receiver import HttpReceiver, Revived
from tests.support.standing import check_a_worker_waits

pytestmark = pytest.mark.xdist_group("http-receiver")

numbers = itertools.count()
SMALL = {"body_bytes": "1000", "body_rows": "3", "compression": "gzip"}
"""Bodies that end amid segments and transactions."""

OUTAGE_S = 30.0


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpReceiver]:
    with HttpReceiver(tmp_path_factory.mktemp("receiver")) as http_receiver:
        yield http_receiver


@pytest.fixture
def output() -> str:
    return f"output{next(numbers)}"


class TestHttp(SinkPort):
    @pytest.fixture(params=["", "small"] if LANE.whole else ["small"])
    def place(self, receiver: HttpReceiver, output: str, request: pytest.FixtureRequest) -> Place:
        return receiver.place(output, **(SMALL if request.param else {}))

    def test_a_death_between_any_two_requests_changes_nothing(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
        die_after_each(story, of(mortal(monkeypatch, Client, "state", "_once")), range(1, 2000, 1 if LANE.whole else 3))

    def test_a_segment_of_which_the_receiver_has_a_part_keeps_the_name_it_began_under(
        self, story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each worker opens the output, sends one body, and dies."""
        named = Story(tmp_path / "named", story.place, seed=3, names=("a", "b"))
        die_under_changing_names(named, of(mortal(monkeypatch, Client, "post")), itertools.repeat(3, 1000))

    def test_who_lost_a_race_to_open_neither_sends_nor_accepts(self, story: Story) -> None:
        """Both may open, one after the other; then the former is refused."""
        deliveries = opened_at_once(story)
        refused = 0
        for delivery in [*deliveries, *deliveries]:
            try:
                while delivery.deliver():
                    pass
            except OwnershipLost:
                refused += 1
        assert refused >= len(deliveries) - 1
        story.finish()
        story.check_end()

    def test_what_was_reported_of_a_segment_is_not_sent_again(self, story: Story, receiver: HttpReceiver, output: str) -> None:
        sink = story.place.sink()
        _, work = story.begin(sink)
        Here().run(work)
        before = receiver.records(output, shown=False)
        for one in work:
            one.carry_out()
        assert receiver.records(output, shown=False) == before
        story.finish()
        story.check_end()


@pytest.fixture
def small(tmp_path: Path, receiver: HttpReceiver, output: str, monkeypatch: pytest.MonkeyPatch) -> Story:
    monkeypatch.setattr(histories, "TABLES", TABLES)
    return Story(tmp_path, receiver.place(output, **SMALL), seed=11)


def test_each_line_of_the_stream_comes_once_and_in_its_place(small: Story, receiver: HttpReceiver, output: str) -> None:
    """Whatever the bodies: rows of a segment in commit order over all tables, its window and its mark behind them, schemas before rows."""
    small.finish(segments_max=2)
    records = receiver.records(output)
    assert len(receiver.query("SELECT DISTINCT seq FROM record WHERE output = ?", (f"/{output}",))) > 2
    known, ended, last = set(), -1, (0, 0)
    for record in records:
        kind = record.get("kind", "row")
        if kind == "schema":
            known.add((record["schema"], record["table"]))
            assert [column["type"] for column in record["columns"]] == ["varchar(8)", "int(11)", "varchar(8)"]
            assert record["key"] == ["id", "part"]
        elif kind == "row":
            assert (record["schema"], record["table"]) in known
            assert record["seq"] == ended + 1
            assert last <= (record["seq"], int(record["commit_ts"]))
            last = record["seq"], int(record["commit_ts"])
        elif kind == "resolved":
            assert record["seq"] == ended + 1
            assert int(record["upto_ts"]) >= last[1]
            ended = record["seq"]
        else:
            assert (kind, record["seq"]) == ("window", ended + 1)
    assert ended == SEGMENTS - 1


def test_nothing_of_a_segment_that_has_not_ended_is_shown(small: Story, receiver: HttpReceiver, output: str) -> None:
    posted = 0
    once = Client.post

    def dying(self: Client, *args: Any, **named: Any) -> Any:
        nonlocal posted
        posted += 1
        if posted > 3:
            raise Died
        return once(self, *args, **named)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Died):  # noqa: PT012  # it dies within
        patch.setattr(Client, "post", dying)
        small.finish()
    assert len(receiver.records(output, shown=False)) > len(receiver.records(output))
    small.check_beginning()
    small.finish()
    small.check_end()


def test_a_receiver_that_dies_between_any_two_statements_loses_and_doubles_nothing(
    tmp_path: Path, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after each one, its COMMIT among them: then the answer is lost, and the body is there. Each life is a step longer."""
    monkeypatch.setattr(histories, "TABLES", TABLES)
    monkeypatch.setattr(client, "RETRY_S", 120.0)
    monkeypatch.setattr(client, "HTTP_RETRY_FIRST_S", 0.01)
    monkeypatch.setattr(client, "JITTER_S", 0.01)
    with HttpReceiver(tmp_path / "mortal") as mortal_one:
        story = Story(tmp_path, mortal_one.place(output, **SMALL), seed=5)
        mortal_one.kill()
        mortal_one.start(dies_at=0)
        with Revived(mortal_one) as lives:
            story.finish(segments_max=3)
        assert lives.deaths > 20
        story.check_end()


def test_a_receiver_that_is_away_is_waited_for(small: Story, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RETRY_S", 120.0)
    small.delivery(segments_max=1).deliver()
    receiver.kill()
    work = Background(lambda _: small.finish(segments_max=1), name="delivers")
    if LANE.whole:
        time.sleep(OUTAGE_S)
    receiver.start()
    work.close(120)
    work.check()
    small.check_end()


def test_a_receiver_that_stays_away_is_reported_and_the_next_attempt_goes_on(
    small: Story, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "RETRY_S", 0.2)
    small.delivery(segments_max=1).deliver()
    receiver.kill()
    try:
        with pytest.raises(SinkError, match="no answer") as error:
            small.finish()
        assert "continues automatically" in error.value.hint
    finally:
        receiver.start()
    small.finish()
    small.check_end()


def test_a_worker_whose_only_sink_has_no_receiver_waits_for_it(tmp_path: Path, receiver: HttpReceiver, output: str) -> None:
    check_a_worker_waits(tmp_path, receiver.place(output), stop=receiver.kill, start=receiver.start)


def test_a_receiver_that_is_frozen_amid_a_body_costs_time_only(small: Story, receiver: HttpReceiver) -> None:
    delivery = small.delivery(segments_max=1)
    delivery.deliver()
    receiver.freeze()
    work = Background(lambda _: small.finish(segments_max=1), name="delivers")
    receiver.thaw()
    work.close(120)
    work.check()
    small.check_end()


def test_a_receiver_that_was_restored_from_a_backup_is_filled_from_there(small: Story, receiver: HttpReceiver, output: str) -> None:
    delivery = small.delivery(segments_max=1)
    delivery.deliver()
    with contextlib.closing(sqlite3.connect(receiver.file, timeout=60)) as db, db:
        (kept,) = db.execute("SELECT text FROM state WHERE output = ?", (f"/{output}",)).fetchone()
    delivery.deliver()
    with contextlib.closing(sqlite3.connect(receiver.file, timeout=60)) as db, db:
        db.execute("UPDATE state SET text = ?, seq = 0 WHERE output = ?", (kept, f"/{output}"))
        db.execute("DELETE FROM record WHERE output = ? AND seq > 0", (f"/{output}",))
    with pytest.raises(SinkError, match="restored from a backup"):
        delivery.deliver()
    small.finish()
    small.check_end()


def test_what_is_no_receiver_is_reported(small: Story, receiver: HttpReceiver, output: str) -> None:
    with contextlib.closing(sqlite3.connect(receiver.file, timeout=60)) as db, db:
        db.execute("INSERT INTO state VALUES (?, 'hello', 0)", (f"/{output}",))
    with pytest.raises(SinkError, match="something else than a state of ours") as error:
        small.place.sink().look()
    assert "HTTP-SINK.md" in error.value.hint
