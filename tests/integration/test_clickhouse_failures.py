"""What a ClickHouse does to its sink: it goes away, asks to wait, refuses, has something else where our tables would be. Nothing is lost,
and each error says what the operator does."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.process.background import Background
from spark_merge.sinks.clickhouse import server
from spark_merge.sinks.clickhouse.server import NO_MEMORY, TOO_MANY_PARTS
from spark_merge.sinks.registry import leaves, open_sink
from spark_merge.testing import histories
from spark_merge.testing.story import TABLES, Story
from tests.lanes import LANE
from tests.support.clickhouse_place import history_place
from tests.support.services.clickhouse import ClickHouse

pytestmark = pytest.mark.xdist_group("clickhouse")

numbers = itertools.count(1000)

AWAY_S = 30.0 if LANE.whole else 0.0


@pytest.fixture
def story(clickhouse: ClickHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Story:
    """As the suite has it: other random histories have two chunks of one window with different rows of one key, which no version tells."""
    monkeypatch.setattr(histories, "TABLES", TABLES)
    return Story(tmp_path, history_place(clickhouse, next(numbers), tables=TABLES), seed=7)


def delivering(story: Story) -> Background:
    return Background(lambda _: story.finish(segments_max=1), name="delivers")


def test_a_server_that_is_killed_and_comes_back_is_waited_for(
    story: Story, clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "RETRY_S", 240.0)
    story.delivery(segments_max=1).deliver()
    clickhouse.kill()
    work = delivering(story)
    time.sleep(AWAY_S)
    clickhouse.start()
    work.close(240)
    work.check()
    story.check_end()


def test_a_server_that_stays_away_is_reported_and_the_next_attempt_goes_on(
    story: Story, clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.delivery(segments_max=1).deliver()
    clickhouse.kill()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(server, "RETRY_S", 0.2)
            with pytest.raises(SinkError, match="reading the position") as error:
                story.finish()
        assert "reached" in error.value.hint
        assert clickhouse.password not in str(error.value)
    finally:
        clickhouse.start()
    story.finish()
    story.check_end()


@pytest.mark.parametrize("code", [TOO_MANY_PARTS, NO_MEMORY])
def test_a_server_that_asks_to_wait_is_queried_again(story: Story, clickhouse: ClickHouse, code: int) -> None:
    story.delivery(segments_max=1).deliver()
    clickhouse.fail(code, times=3)
    story.finish()
    story.check_end()


def test_a_server_that_never_has_room_for_more_parts_is_reported(
    story: Story, clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.delivery(segments_max=1).deliver()
    clickhouse.fail(TOO_MANY_PARTS, times=1000)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(server, "RETRY_S", 0.2)
            with pytest.raises(SinkError, match=f"code: {TOO_MANY_PARTS}") as error:
                story.finish()
        assert "merges keep up" in error.value.hint
    finally:
        clickhouse.fail(TOO_MANY_PARTS, times=0)
    story.finish()
    story.check_end()


def test_who_may_not_log_in_is_reported_without_the_password(clickhouse: ClickHouse) -> None:
    uri = f"clickhouse://{clickhouse.user}:hunter2@{clickhouse.host}:{clickhouse.port}/"
    with pytest.raises(SinkError, match="code: 516") as error:
        open_sink(uri, log_id="l").open(epoch=None)
    assert "hunter2" not in str(error.value)
    assert "password" in error.value.hint
    assert "DROP TABLE ticdc_dump.ticdc_dump_position" in leaves(uri)


@pytest.mark.parametrize(
    ("there", "hint"),
    [
        ("CREATE TABLE {}.t0__rows (id Int64) ENGINE = Memory", "rows-table"),
        ("CREATE TABLE {}.t0 (id Int64) ENGINE = Memory", "view={table}_now"),
    ],
)
def test_somebody_elses_table_is_not_touched(clickhouse: ClickHouse, tmp_path: Path, there: str, hint: str) -> None:
    number = next(numbers)
    story = Story(tmp_path, history_place(clickhouse, number, tables=12), seed=11)
    clickhouse.execute(f"CREATE DATABASE history{number}", there.format(f"history{number}"))
    with pytest.raises(SinkError, match="is at the target already") as error:
        story.finish()
    assert hint in error.value.hint
    named = clickhouse.rows(f"SELECT engine FROM system.tables WHERE database = 'history{number}' AND engine = 'Memory'")
    assert named == [["Memory"]]


@pytest.mark.parametrize(
    ("altered", "message"),
    [
        ("DROP COLUMN v", "no column v"),
        ("MODIFY COLUMN v Nullable(FixedString(20))", "v Nullable.FixedString.20.. and not Nullable.String."),
    ],
)
def test_a_table_that_somebody_changed_is_reported(story: Story, clickhouse: ClickHouse, altered: str, message: str) -> None:
    story.delivery(segments_max=1).deliver()
    database = f"history{story.place.uri.partition('/pos')[2].partition('?')[0]}"
    for table in sorted(story.tables):
        clickhouse.execute(f"ALTER TABLE {database}.{table.table}__rows {altered} SETTINGS mutations_sync = 2")
    with pytest.raises(SinkError, match=message):
        story.finish()


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("clickhouse://h:x/", "usable port"),
        ("clickhouse:///d", "names no host"),
        ("clickhouse://h/a/b", "usable database"),
        ("clickhouse://h/?dates=maybe", "typed, text"),
        ("clickhouse://h/?view={table}__rows", "two names"),
        ("clickhouse://h/?rows-table=all", "two names"),
        ("clickhouse://h/?ssl-ca=/x", "without TLS"),
        ("clickhouse://h/?timeout=soon", "no time of 1s or more"),
        ("clickhouse://h/?ddl-done=x", "list of commit_ts"),
        ("clickhouse://h/?routes=a", "route"),
        ("clickhouse://h/?password-file=/not/there", "cannot be read"),
    ],
)
def test_a_uri_that_makes_no_sense_is_refused(uri: str, message: str) -> None:
    with pytest.raises(SinkError, match=message):
        open_sink(uri, log_id="l")


def test_a_log_in_by_tls_asks_the_port_of_https() -> None:
    sink = open_sink("clickhouse+ssl://u:p@h/?ssl-ca=/ca.pem", log_id="l")
    assert sink._settings.server.port == 8443  # type: ignore[attr-defined]
    assert sink._settings.server.tls  # type: ignore[attr-defined]


def test_timeouts_are_times_or_numbers_of_seconds() -> None:
    sink = open_sink("clickhouse://u:p@h/?timeout=7&read-timeout=1m30s", log_id="l")
    server = sink._settings.server  # type: ignore[attr-defined]
    assert (server.connect_s, server.read_s) == (7, 90)
