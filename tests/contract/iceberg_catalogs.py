"""The port's suite on the Iceberg sink with a catalog that is a server of its own: which is killed, away, and frozen with a commit in its
hands. `fresh` names a namespace that nobody has used."""

from __future__ import annotations

import itertools
import time
from typing import Any, Protocol

import pytest

from sidecar.shared.errors import SinkError
from spark_merge.sinks.iceberg import lake, rest
from spark_merge.sinks.iceberg.lake import Lake
from spark_merge.testing.sink_port import SinkPort
from spark_merge.testing.story import Story, die_after_each, mortal, of

_namespaces = itertools.count()


def fresh(catalog: str) -> str:
    """A sink's URI; `catalog`: its `uri=` and what comes after it."""
    return f"iceberg://prod/lake{next(_namespaces)}?uri={catalog}"


class Server(Protocol):
    @property
    def runs(self) -> bool: ...
    def start(self) -> None: ...
    def kill(self) -> None: ...
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...


class CatalogPort(SinkPort):
    """`place` is at the fixture `catalog`'s, which runs whatever a test has left."""

    def test_a_death_around_any_call_of_the_catalog_changes_nothing(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
        die_after_each(story, of(mortal(monkeypatch, Lake, "commit", "make")), range(1, 400, 3))

    @pytest.mark.parametrize("when", ["before a commit", "after a commit"])
    def test_a_catalog_that_is_killed_and_comes_again_within_the_time_is_waited_for(
        self, story: Story, catalog: Server, monkeypatch: pytest.MonkeyPatch, when: str
    ) -> None:
        commit, opened, made, requests = Lake.commit, Lake.catalog, itertools.count(1), list[int]()

        def knock() -> None:
            """The fifth who asks a catalog that is away finds it there."""
            if not catalog.runs:
                requests[-1] += 1
                if requests[-1] == 5:
                    catalog.start()

        def reopened(lake: Lake) -> Any:
            knock()
            return opened(lake)

        def dying(*args: Any) -> None:
            dies = catalog.runs and next(made) in (2, 5, 8)
            knock()
            if dies and when == "before a commit":
                catalog.kill()
                requests.append(0)
            commit(*args)
            if dies and when == "after a commit":
                catalog.kill()
                requests.append(0)

        monkeypatch.setattr(Lake, "commit", dying)
        monkeypatch.setattr(Lake, "catalog", reopened)
        story.finish(segments_max=2)
        story.check_end()
        assert requests == [5, 5, 5]

    def test_a_catalog_that_is_away_for_longer_is_reported_and_goes_on(self, story: Story, catalog: Server) -> None:
        delivery = story.delivery(segments_max=1)
        delivery.deliver()
        catalog.kill()
        began_s = time.monotonic()
        with pytest.raises(SinkError) as error:
            delivery.deliver()
        assert time.monotonic() - began_s > lake.RETRY_S / 2
        assert "nothing accepted is lost" in error.value.hint
        catalog.start()
        story.finish()
        story.check_end()

    @pytest.mark.parametrize("number", [2, 8])
    def test_a_catalog_that_freezes_with_a_commit_in_its_hands_makes_it_late_or_never_but_once(
        self, story: Story, catalog: Server, monkeypatch: pytest.MonkeyPatch, number: int
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
