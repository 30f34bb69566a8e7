"""The SQL sink at a real MariaDB: the port's suite."""

from __future__ import annotations

import itertools

import pytest

from sidecar.shared.mysql.session import MysqlSession
from spark_merge.sinks.mysql.sink import SqlSink
from spark_merge.testing.places import Place
from spark_merge.testing.sink_port import SinkPort
from spark_merge.testing.story import TABLES, Story, die_after_each, mortal, of
from tests.lanes import LANE
from tests.support.services.mariadb import MariaDb
from tests.support.sql_place import history_place

pytestmark = pytest.mark.xdist_group("sql-target")

numbers = itertools.count()


class TestMysql(SinkPort):
    @pytest.fixture(params=["", "one row a statement"] if LANE.whole else [""])
    def place(self, mariadb: MariaDb, request: pytest.FixtureRequest) -> Place:
        parameters = {"worker_count": "2", "max_txn_row": "1", "batch_dml_enable": "false"} if request.param else {}
        return history_place(mariadb, next(numbers), tables=TABLES, **parameters)

    def test_what_was_begun_is_done_again_as_it_was(self, story: Story) -> None:
        """A batch of two segments, one of whose tasks is done: the next owner's bounds would cut it to one."""
        sink = story.place.sink()
        assert isinstance(sink, SqlSink)
        batch, work = story.begin(sink)
        work[0].carry_out()
        standing = story.place.sink().open(epoch=None)
        assert standing.begun is not None
        assert standing.begun.seq == batch.heads[-1].seq
        delivered = story.delivery(segments_max=1).deliver()
        assert delivered is not None
        assert [segment.seq for segment in delivered.segments] == [head.seq for head in batch.heads]
        story.finish()
        story.check_end()

    def test_a_death_between_any_two_statements_changes_nothing(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
        die_after_each(story, of(mortal(monkeypatch, MysqlSession, "rows", "change")), range(1, 2000, 1 if LANE.whole else 3))
