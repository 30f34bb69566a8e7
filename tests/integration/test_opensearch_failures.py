"""What a real OpenSearch node does to the sink: it goes away, refuses, or forgets what was deleted. Nothing is lost, and each error tells
what to do."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.process.background import Background
from sidecar.shared.process.kept_secrets import keep
from spark_merge.sinks.opensearch import client
from spark_merge.sinks.opensearch.client import OpenSearchServer, OpenSearchSession
from spark_merge.testing import histories
from spark_merge.testing.places import Here
from spark_merge.testing.story import TABLES, Story
from tests.lanes import LANE
from tests.support.opensearch_place import history_place
from tests.support.services.opensearch import OpenSearchNode

pytestmark = pytest.mark.xdist_group("opensearch")

numbers = itertools.count()

AWAY_S = 30.0 if LANE.whole else 0.0


@pytest.fixture
def story(opensearch: OpenSearchNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Story:
    monkeypatch.setattr(histories, "TABLES", TABLES)
    return Story(tmp_path, history_place(opensearch, f"fails{next(numbers)}", tables=TABLES), seed=11)


@pytest.mark.parametrize("how", ["stop", "kill"] if LANE.whole else ["stop"])
def test_a_server_that_stays_away_is_reported_and_a_restart_that_forgets_deletes_brings_no_row_back(
    story: Story, opensearch: OpenSearchNode, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A batch whose rows are there is done again after it, and what waited for the server continues automatically."""
    _, work = story.begin(story.place.sink())
    Here().run(work)
    document = f"/forgets{next(numbers)}/_doc/1?version_type=external&version="
    opensearch.ask("PUT", f"{document}20", {})
    opensearch.ask("DELETE", f"{document}30")
    waiting = story.delivery(segments_max=1)
    getattr(opensearch, how)()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(client, "RETRY_S", 0.2)
            with pytest.raises(SinkError, match=r"writing rows|reading the position|looking") as error:
                story.finish()
        assert "reached" in error.value.hint
        monkeypatch.setattr(client, "RETRY_S", 600.0)
        delivering = Background(lambda _: waiting.deliver(), name="delivers")
        time.sleep(AWAY_S)
    finally:
        opensearch.start()
    if how == "stop":
        assert opensearch.ask("PUT", f"{document}25", {})["result"] == "created", "it has forgotten the delete of version 30"
    delivering.close(300)
    delivering.check()
    story.finish()
    story.check_end()


def test_a_user_who_may_not_is_reported_without_the_password(opensearch: OpenSearchNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node has no accounts: what one that has them answers is as here."""
    server = OpenSearchServer((("127.0.0.1", opensearch.port),), user="nobody")
    keep(OpenSearchServer.SECRET_KIND, str(server), "hunter2")
    assert "nobody" in str(server)
    session = OpenSearchSession(server)
    assert session.asked("asking what it is", "GET", "/")["version"]["distribution"] == "opensearch"
    for status, hint in ((401, "password"), (403, "rights"), (413, "bulk-bytes"), (400, "manual")):
        assert hint in client.hint_of(status, server)
    assert "make room" in client.hint_of(429, server, "disk usage exceeded flood-stage watermark")
    with pytest.raises(SinkError, match=r"nobody@.*: looking: no such index \[not_there\] \(status 404\)") as error:
        session.asked("looking", "GET", "/not_there")
    assert "hunter2" not in str(error.value)
    session.close()
