"""Sinks of servers behind the view of masked columns: dumps of every kind end as the rules say, and are read back so."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from sidecar.shared.log import rows_file
from sidecar.shared.model.nouns import TableName
from spark_merge.masks.tables import masked_table
from spark_merge.sinks.registry import open_sink
from spark_merge.testing import histories
from spark_merge.testing.dumps_port import DumpsPort
from spark_merge.testing.places import Place, Shown
from spark_merge.testing.story import TABLES, Story
from tests.support import clickhouse_place, opensearch_place, sql_place
from tests.support.kafka_feeds import new_topic
from tests.support.kafka_output import decoded, read_all
from tests.support.masked import SALT, history_masks, masked_story, rules, salt_file
from tests.support.services.clickhouse import ClickHouse
from tests.support.services.kafka import KafkaBroker
from tests.support.services.mariadb import MariaDb
from tests.support.services.opensearch import OpenSearchNode

numbers = itertools.count()


class Masked(DumpsPort):
    """`RULES`: of the sink, by the parameters of its URI."""

    RULES: ClassVar[dict[str, str]] = {}

    @pytest.fixture
    def dumps(self, tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Story]:
        monkeypatch.setattr(histories, "TABLES", TABLES)
        monkeypatch.setattr(rows_file, "ROW_GROUP_ROWS_MAX", 3)
        return partial(self.story_of, tmp_path, place, monkeypatch)

    def story_of(self, folder: Path, place: Place, monkeypatch: pytest.MonkeyPatch, seed: int) -> Story:
        return masked_story(folder, place, rules(**self.RULES), seed, monkeypatch)


@pytest.mark.xdist_group("sql-target")
class TestMaskedMysql(Masked):
    RULES: ClassVar[dict[str, str]] = {"constant": "s.t0.v=>NULL,s.*.v=>'c'"}

    @pytest.fixture
    def place(self, mariadb: MariaDb) -> Place:
        return sql_place.history_place(mariadb, 7_000 + next(numbers), tables=TABLES, **self.RULES)


@pytest.mark.xdist_group("clickhouse")
class TestMaskedClickHouse(Masked):
    RULES: ClassVar[dict[str, str]] = {"hash": "s.*.v"}

    @pytest.fixture
    def place(self, clickhouse: ClickHouse, tmp_path: Path) -> Place:
        return clickhouse_place.history_place(clickhouse, 7_000 + next(numbers), tables=TABLES, salt_file=salt_file(tmp_path), **self.RULES)


@pytest.mark.xdist_group("opensearch")
class TestMaskedOpenSearch(Masked):
    RULES: ClassVar[dict[str, str]] = {"hash": "s.*.v"}

    @pytest.fixture
    def place(self, opensearch: OpenSearchNode, tmp_path: Path) -> Place:
        name = f"masked{next(numbers)}"
        return opensearch_place.history_place(opensearch, name, tables=TABLES, salt_file=salt_file(tmp_path), **self.RULES)


@pytest.mark.xdist_group("kafka-sink")
class TestMaskedKafka(Masked):
    """Of a table without a rule the messages are TiCDC's own."""

    RULES: ClassVar[dict[str, str]] = {"hash": "s.t0.v", "leave_out": "s.t1.v"}

    @pytest.fixture
    def place(self, broker: KafkaBroker, tmp_path: Path) -> Place:
        topic = new_topic()
        uri = f"kafka://{broker.bootstrap}/{topic}?protocol=canal-json&partition-num=1"
        uri += f"&hash={self.RULES['hash']}&leave-out={self.RULES['leave_out']}&salt-file={salt_file(tmp_path)}"
        names = [TableName("s", f"t{number}") for number in range(TABLES)]
        schemas = {}
        for name in names:
            schema, masks = history_masks(rules(**self.RULES), name)
            schemas[name] = masked_table(schema, masks, SALT, statements=False).schema

        def rows() -> dict[TableName, list[Shown]]:
            return decoded(read_all(broker.bootstrap, [topic]), "canal-json", schemas).rows

        return Place(uri, lambda log_id: open_sink(uri, log_id=log_id), rows)
