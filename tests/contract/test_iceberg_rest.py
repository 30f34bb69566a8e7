"""The Iceberg sink at a REST catalog: Apache's own server, which dies, freezes and loses answers (in the matrix lane); and one that never
answers."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sidecar.errors import SinkError
from spark_merge.sinks.iceberg import lake, rest
from spark_merge.sinks.iceberg import sink as iceberg
from spark_merge.sinks.iceberg.lake import Lake
from spark_merge.sinks.registry import open_sink
from tests.contract.sink_port import SinkPort, Story, die_after_each, mortal, of
from tests.contract.test_iceberg_merge import story_of
from tests.lanes import LANE
from tests.support.lake import lake_place
from tests.support.merged_lake import merged_place
from tests.support.services.iceberg_rest import IcebergRest
from tests.support.services.lossy_http import LossyHttp
from tests.support.sinks import Place

pytestmark = pytest.mark.xdist_group("iceberg")

_namespaces = itertools.count()


def fresh_uri(catalog: str) -> str:
    """Of a namespace that nobody has used."""
    return f"iceberg://prod/lake{next(_namespaces)}?uri={catalog}"


def test_a_catalog_that_takes_requests_and_never_answers_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "ANSWER_S", 0.2)
    monkeypatch.setattr(lake, "RETRY_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sink = open_sink(fresh_uri(f"http://127.0.0.1:{silent.getsockname()[1]}"), log_id="log-1")
        with pytest.raises(SinkError, match="Read timed out") as told:
            sink.look()
    assert "nothing accepted is lost" in told.value.hint


if LANE.whole:

    @pytest.fixture(scope="module")
    def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergRest]:
        with IcebergRest(tmp_path_factory.mktemp("rest")) as found:
            yield found

    @pytest.fixture
    def catalog(server: IcebergRest) -> IcebergRest:
        """Runs, whatever a test has left."""
        if not server.runs:
            server.start()
        return server

    @pytest.fixture(autouse=True)
    def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(iceberg, "LIVE_PART_ROWS", 2)

    class TestRest(SinkPort):
        @pytest.fixture
        def place(self, catalog: IcebergRest) -> Place:
            return lake_place(fresh_uri(catalog.uri))

        def test_a_death_around_any_call_of_the_catalog_changes_nothing(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
            die_after_each(story, of(mortal(monkeypatch, Lake, "commit", "make")), range(1, 400, 3))

        @pytest.mark.parametrize("when", ["before a commit", "after a commit"])
        def test_a_catalog_that_is_killed_and_comes_again_within_the_time_is_waited_for(
            self, story: Story, catalog: IcebergRest, monkeypatch: pytest.MonkeyPatch, when: str
        ) -> None:
            commit, opened, made, asked = Lake.commit, Lake.catalog, itertools.count(1), list[int]()

            def knock() -> None:
                """The fifth who asks a catalog that is away finds it there."""
                if not catalog.runs:
                    asked[-1] += 1
                    if asked[-1] == 5:
                        catalog.start()

            def reopened(lake: Lake) -> Any:
                knock()
                return opened(lake)

            def dying(*args: Any) -> None:
                dies = catalog.runs and next(made) in (2, 5, 8)
                knock()
                if dies and when == "before a commit":
                    catalog.kill()
                    asked.append(0)
                commit(*args)
                if dies and when == "after a commit":
                    catalog.kill()
                    asked.append(0)

            monkeypatch.setattr(Lake, "commit", dying)
            monkeypatch.setattr(Lake, "catalog", reopened)
            story.finish(segments_max=2)
            story.check_end()
            assert asked == [5, 5, 5]

        def test_a_catalog_that_is_away_for_longer_is_told_and_goes_on(self, story: Story, catalog: IcebergRest) -> None:
            delivery = story.delivery(segments_max=1)
            delivery.deliver()
            catalog.kill()
            began_s = time.monotonic()
            with pytest.raises(SinkError) as told:
                delivery.deliver()
            assert time.monotonic() - began_s > lake.RETRY_S / 2
            assert "nothing accepted is lost" in told.value.hint
            catalog.start()
            story.finish()
            story.check_end()

        @pytest.mark.parametrize("number", [2, 8])
        def test_a_catalog_that_freezes_with_a_commit_in_its_hands_makes_it_late_or_never_but_once(
            self, story: Story, catalog: IcebergRest, monkeypatch: pytest.MonkeyPatch, number: int
        ) -> None:
            """The worker is told that nobody answers; the catalog wakes up with the commit, and its successor's after it."""
            commit, made, froze = Lake.commit, itertools.count(1), list[int]()

            def freezing(*args: Any) -> None:
                if next(made) == number:
                    catalog.freeze()
                    froze.append(number)
                commit(*args)

            with monkeypatch.context() as patch:
                patch.setattr(Lake, "commit", freezing)
                patch.setattr(rest, "ANSWER_S", 10.0)
                patch.setattr(lake, "RETRY_S", 0.5)
                try:
                    with pytest.raises(SinkError, match="timed out"):
                        story.finish(segments_max=2)
                finally:
                    catalog.thaw()
            assert froze
            story.finish(segments_max=1)
            story.check_end()

    class TestRestMerged(TestRest):
        """The same of tables as they are."""

        @pytest.fixture
        def place(self, catalog: IcebergRest) -> Place:
            return merged_place(fresh_uri(catalog.uri) + "&mode=merge")

        @pytest.fixture
        def story(self, tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> Story:
            return story_of(tmp_path, place, monkeypatch)

    def some(seed: int) -> Callable[[str, str], bool]:
        """Of what changes something. (Each third one would be each table that is made, after its two namespaces.)"""
        rng = Random(seed)
        return lambda method, _: method == "POST" and rng.random() < 0.3

    @pytest.mark.parametrize("segments_max", [1, 3])
    def test_answers_that_are_lost_bring_no_row_twice(tmp_path: Path, catalog: IcebergRest, segments_max: int) -> None:
        with LossyHttp(catalog.port, some(segments_max)) as proxy:
            story = Story(tmp_path, lake_place(fresh_uri(proxy.uri)), seed=7)
            story.finish(segments_max=segments_max)
            story.check_end()
            assert len([one for one in proxy.lost if "/tables/" in one]) > 3
            assert [one for one in proxy.lost if one.endswith("/tables")]
