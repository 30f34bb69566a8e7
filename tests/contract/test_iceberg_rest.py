"""The Iceberg sink at a REST catalog: Apache's own server, which dies, freezes and loses answers (in the matrix lane); and one that never
answers."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from sidecar.shared.errors import SinkError
from spark_merge.sinks.iceberg import lake, rest
from spark_merge.sinks.iceberg import sink as iceberg
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.places import Place
from spark_merge.testing.story import Story
from tests.contract.iceberg_catalogs import CatalogPort, fresh
from tests.contract.test_iceberg_merge import story_of
from tests.lanes import LANE
from tests.support.lake import lake_place
from tests.support.merged_lake import merged_place
from tests.support.services.iceberg_rest import IcebergRest
from tests.support.services.lossy_http import LossyHttp

pytestmark = pytest.mark.xdist_group("iceberg")


def test_a_catalog_that_takes_requests_and_never_answers_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "ANSWER_S", 0.2)
    monkeypatch.setattr(lake, "RETRY_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sink = open_sink(fresh(f"http://127.0.0.1:{silent.getsockname()[1]}"), log_id="log-1")
        with pytest.raises(SinkError, match="Read timed out") as error:
            sink.look()
    assert "nothing accepted is lost" in error.value.hint


if LANE.whole:

    @pytest.fixture(scope="module")
    def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergRest]:
        with IcebergRest(tmp_path_factory.mktemp("rest")) as iceberg_rest:
            yield iceberg_rest

    @pytest.fixture
    def catalog(server: IcebergRest) -> IcebergRest:
        """Runs, whatever a test has left."""
        if not server.runs:
            server.start()
        return server

    @pytest.fixture(autouse=True)
    def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(iceberg, "LIVE_PART_ROWS", 2)

    class TestRest(CatalogPort):
        @pytest.fixture
        def place(self, catalog: IcebergRest) -> Place:
            return lake_place(fresh(catalog.uri))

    class TestRestMerged(TestRest):
        """The same of tables as they are."""

        @pytest.fixture
        def place(self, catalog: IcebergRest) -> Place:
            return merged_place(fresh(catalog.uri) + "&mode=merge")

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
            story = Story(tmp_path, lake_place(fresh(proxy.uri)), seed=7)
            story.finish(segments_max=segments_max)
            story.check_end()
            assert len([one for one in proxy.lost if "/tables/" in one]) > 3
            assert [one for one in proxy.lost if one.endswith("/tables")]
