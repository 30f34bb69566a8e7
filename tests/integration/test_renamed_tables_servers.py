"""The stories of tests/contract/test_renamed_tables.py at sinks that need a server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.clickhouse_place import uri_of as clickhouse_uri
from tests.support.kafka_feeds import new_topic
from tests.support.opensearch_place import uri_of as opensearch_uri
from tests.support.renamed_tables import STORIES, RenameStory, one_place
from tests.support.services.clickhouse import ClickHouse
from tests.support.services.http_receiver import HttpReceiver
from tests.support.services.kafka import KafkaBroker
from tests.support.services.mariadb import MariaDb
from tests.support.services.opensearch import OpenSearchNode
from tests.support.sql_place import uri_of as sql_uri

Played = Callable[[RenameStory], None]

NAMES = ("ghost", "both", "s", "crm")
"""Databases that the stories use."""


def _in_clickhouse(server: ClickHouse, folder: Path, played: Played) -> RenameStory:
    server.execute(*(f"DROP DATABASE IF EXISTS {name}" for name in NAMES))
    story = RenameStory(folder, clickhouse_uri(server, "ghost"))
    played(story)
    return story


@pytest.mark.xdist_group("clickhouse")
@pytest.mark.parametrize("told", STORIES)
def test_clickhouse_ends_with_tidbs_rows(clickhouse: ClickHouse, told: str, tmp_path: Path) -> None:
    assert not _in_clickhouse(clickhouse, tmp_path, STORIES[told]).hints, "it renames tables"


@pytest.mark.xdist_group("clickhouse")
def test_two_tables_never_share_a_table_of_clickhouse(clickhouse: ClickHouse, tmp_path: Path) -> None:
    assert "would both be both.t" in _in_clickhouse(clickhouse, tmp_path, one_place).hints[0]


@pytest.mark.xdist_group("opensearch")
@pytest.mark.parametrize("told", STORIES)
def test_opensearch_ends_with_tidbs_rows(opensearch: OpenSearchNode, told: str, tmp_path: Path) -> None:
    opensearch.remove("ghost.*,position-ghost")
    story = RenameStory(tmp_path, opensearch_uri(opensearch, "ghost"))
    STORIES[told](story)
    assert not story.hints, "an alias goes with its table"


@pytest.mark.xdist_group("opensearch")
def test_two_tables_never_share_an_index(opensearch: OpenSearchNode, tmp_path: Path) -> None:
    opensearch.remove("ghost.*,position-ghost")
    story = RenameStory(tmp_path, opensearch_uri(opensearch, "ghost"))
    one_place(story)
    assert "would both be ghost.both.t" in story.hints[0]


@pytest.mark.xdist_group("sql-target")
@pytest.mark.parametrize("told", STORIES)
def test_a_sql_server_ends_with_tidbs_rows(mariadb: MariaDb, told: str, tmp_path: Path) -> None:
    mariadb.execute("DROP DATABASE IF EXISTS ghost", "DROP DATABASE IF EXISTS s", "CREATE DATABASE s")
    story = RenameStory(tmp_path, sql_uri(mariadb, "ghost"))
    STORIES[told](story)
    assert not story.hints, "it carries the statement out"


@pytest.mark.xdist_group("read-back")
@pytest.mark.parametrize("told", STORIES)
@pytest.mark.parametrize("protocol", ["canal-json", "open-protocol"])
def test_a_consumer_of_kafka_ends_with_tidbs_rows(broker: KafkaBroker, protocol: str, told: str, tmp_path: Path) -> None:
    STORIES[told](RenameStory(tmp_path, f"kafka://{broker.bootstrap}/{new_topic()}?partition-num=2&protocol={protocol}"))


@pytest.mark.xdist_group("read-back")
@pytest.mark.parametrize("told", STORIES)
def test_a_receiver_ends_with_tidbs_rows(told: str, tmp_path: Path) -> None:
    receiver = HttpReceiver(tmp_path / "receiver")
    receiver.start()
    try:
        STORIES[told](RenameStory(tmp_path, receiver.uri("out", body_rows="7")))
    finally:
        receiver.kill()
