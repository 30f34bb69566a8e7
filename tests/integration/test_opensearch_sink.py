"""The OpenSearch sink at a real node: the port's suite."""

from __future__ import annotations

import itertools

import pytest

from spark_merge.sinks.opensearch.client import OpenSearchSession
from spark_merge.testing.places import Place
from spark_merge.testing.sink_port import SinkPort
from spark_merge.testing.story import TABLES, Story, die_after_each, mortal, of
from tests.lanes import LANE
from tests.support.opensearch_place import history_place
from tests.support.services.opensearch import OpenSearchNode

pytestmark = pytest.mark.xdist_group("opensearch")

numbers = itertools.count()


class TestOpenSearch(SinkPort):
    @pytest.fixture(params=["", "a row a request"] if LANE.whole else [""])
    def place(self, opensearch: OpenSearchNode, request: pytest.FixtureRequest) -> Place:
        parameters = {"bulk_rows": "1"} if request.param else {}
        return history_place(opensearch, f"port{next(numbers)}", tables=TABLES, **parameters)

    def test_a_death_between_any_two_requests_changes_nothing(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
        die_after_each(story, of(mortal(monkeypatch, OpenSearchSession, "call")), range(1, 2000, 1 if LANE.whole else 5))
